//! One address for several servers, like HAProxy, a virtual IP address or a cloud endpoint.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Gives each connection to the next server that accepts one. Dropping it closes its connections.
#[derive(Debug)]
pub struct Balancer {
    port: u16,
    servers: Arc<Mutex<Servers>>,
    /// A signal to close all open connections.
    over: Arc<watch::Sender<()>>,
    accepting: JoinHandle<()>,
}

/// The ports of the servers, and the next one.
#[derive(Debug)]
struct Servers {
    ports: Vec<u16>,
    turn: usize,
}

impl Balancer {
    /// Starts a balancer for the servers on these ports.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start(ports: Vec<u16>) -> Result<Balancer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("looking for a free port")?;
        let port = listener.local_addr()?.port();
        let servers = Arc::new(Mutex::new(Servers { ports, turn: 0 }));
        let over = Arc::new(watch::Sender::new(()));
        let accepting = tokio::spawn(accept(listener, servers.clone(), over.clone()));
        Ok(Balancer { port, servers, over, accepting })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sends new connections to these servers, and closes the open ones.
    pub fn point_at(&self, ports: Vec<u16>) {
        lock(&self.servers).ports = ports;
        self.over.send_replace(());
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.over.send_replace(());
    }
}

/// An address with another port.
pub fn with_port(url: &str, port: u16) -> String {
    let (head, rest) = url.split_once("127.0.0.1:").unwrap_or((url, ""));
    let path = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
    format!("{head}127.0.0.1:{port}{path}")
}

fn lock(servers: &Mutex<Servers>) -> std::sync::MutexGuard<'_, Servers> {
    servers.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, servers: Arc<Mutex<Servers>>, over: Arc<watch::Sender<()>>) {
    while let Ok((client, _)) = listener.accept().await {
        let ports = {
            let mut servers = lock(&servers);
            servers.turn += 1;
            let mut ports = servers.ports.clone();
            let count = ports.len().max(1);
            ports.rotate_left(servers.turn % count);
            ports
        };
        let mut over = over.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = forward(client, ports) => {}
                // an error means that the balancer is gone
                _ = over.changed() => {}
            }
        });
    }
}

async fn forward(mut client: TcpStream, ports: Vec<u16>) {
    for port in ports {
        if let Ok(mut server) = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await {
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let _ = copy_bidirectional(&mut client, &mut server).await;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A server that answers with its name.
    async fn server(name: u8) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let _ = client.write_all(&[name]).await;
                tokio::spawn(async move {
                    let _ = client.read(&mut [0]).await;
                });
            }
        });
        port
    }

    async fn connect(port: u16) -> (TcpStream, u8) {
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("connected");
        let name = client.read_u8().await.expect("a name");
        (client, name)
    }

    #[tokio::test]
    async fn connections_take_turns_and_follow_when_it_points_elsewhere() {
        let (one, two, three) = (server(1).await, server(2).await, server(3).await);
        let balancer = Balancer::start(vec![one, two]).await.expect("a port");
        let (mut first, name) = connect(balancer.port()).await;
        let (_second, other) = connect(balancer.port()).await;
        assert_eq!(name + other, 3, "both servers had their turn");
        balancer.point_at(vec![three]);
        assert_eq!(first.read(&mut [0]).await.unwrap_or(0), 0, "what was open is closed");
        assert_eq!(connect(balancer.port()).await.1, 3);
    }

    #[test]
    fn the_port_in_an_address_is_replaced() {
        assert_eq!(with_port("mysql://root@127.0.0.1:3306/x", 7), "mysql://root@127.0.0.1:7/x");
        assert_eq!(with_port("postgres://p@127.0.0.1:5432/x?a=b", 7), "postgres://p@127.0.0.1:7/x?a=b");
    }
}
