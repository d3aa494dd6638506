//! A network between a worker and its server that can be cut, can swallow everything, and counts statements.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::Engine;
use crate::meter::Meter;

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Up,
    /// Open, and nothing passes.
    Frozen,
    Cut,
}

/// What happens to single packets.
#[derive(Debug, Default)]
struct Packets {
    /// How long each is held back, in milliseconds, on its way to the server.
    delay: AtomicU64,
    /// The next commit's reply stops midway, and its connection with it.
    stall: AtomicBool,
    /// So many did.
    stalled: AtomicU64,
    /// The next commit, and what comes after it on its connection, does not reach the server.
    hold: AtomicBool,
    /// One was held.
    held: AtomicBool,
}

/// A proxy in front of the test's server. Ends, with its connections, when dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    server: String,
    engine: Engine,
    /// Of the connections that are accepted now, and of those that were frozen and stay so.
    links: Arc<Mutex<Vec<watch::Sender<Link>>>>,
    accepting: Option<JoinHandle<()>>,
    statements: Arc<AtomicU64>,
    packets: Arc<Packets>,
}

impl Proxy {
    /// Starts to listen in front of a server, on a free port.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(engine: Engine, url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let mut proxy = Self {
            address: listener.local_addr().expect("an address"),
            server: host(url).to_owned(),
            engine,
            links: Arc::new(Mutex::new(vec![watch::Sender::new(Link::Up)])),
            accepting: None,
            statements: Arc::default(),
            packets: Arc::default(),
        };
        proxy.accept(listener);
        proxy
    }

    /// The address of a database, through this proxy.
    pub fn url(&self, url: &str) -> String {
        url.replacen(host(url), &self.address.to_string(), 1)
    }

    /// Statements that went through so far.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Holds each packet to the server back for so long.
    pub fn delay(&self, by: Duration) {
        self.packets.delay.store(by.as_millis() as u64, Ordering::Relaxed);
    }

    /// Lets the reply to the next commit stop midway. Its connection stays open, and nothing passes on it any more.
    pub fn stall_next_commit(&self) {
        self.packets.stall.store(true, Ordering::Relaxed);
    }

    /// How many replies stopped midway so far.
    pub fn stalled(&self) -> u64 {
        self.packets.stalled.load(Ordering::Relaxed)
    }

    /// Keeps the next commit from the server, with all that would come after it: the transaction stays open there.
    pub fn hold_next_commit(&self) {
        self.packets.held.store(false, Ordering::Relaxed);
        self.packets.hold.store(true, Ordering::Relaxed);
    }

    /// Whether a commit was held.
    pub fn holds_a_commit(&self) -> bool {
        self.packets.held.load(Ordering::Relaxed)
    }

    /// Closes all connections and refuses new ones.
    pub async fn cut(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            let _ = accepting.await;
        }
        self.set(Link::Cut);
    }

    /// Leaves all connections open and lets nothing through any more; new ones hang while they are made.
    pub fn freeze(&self) {
        self.set(Link::Frozen);
        lock(&self.links).push(watch::Sender::new(Link::Frozen));
    }

    /// Lets go what was held back: it arrives late.
    pub fn thaw(&self) {
        for link in lock(&self.links).iter() {
            link.send_replace(Link::Up);
        }
    }

    /// New connections work again. So do those that hang while they connect, as a client repeats its first packet.
    /// Frozen connections stay frozen.
    pub async fn heal(&mut self) {
        if self.accepting.is_some() {
            return self.set(Link::Up);
        }
        lock(&self.links).push(watch::Sender::new(Link::Up));
        let listener = self.bind_again().await;
        self.accept(listener);
    }

    fn set(&self, link: Link) {
        if let Some(current) = lock(&self.links).last() {
            current.send_replace(link);
        }
    }

    async fn bind_again(&self) -> TcpListener {
        for _ in 0..200 {
            if let Ok(listener) = TcpListener::bind(self.address).await {
                return listener;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{} is not free any more", self.address);
    }

    fn accept(&mut self, listener: TcpListener) {
        let (server, engine) = (self.server.clone(), self.engine);
        let (links, statements, packets) = (self.links.clone(), self.statements.clone(), self.packets.clone());
        self.accepting = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Some(link) = lock(&links).last().map(watch::Sender::subscribe) else {
                    return;
                };
                let meter = Meter::new(engine, statements.clone());
                tokio::spawn(forward(client, server.clone(), link, meter, packets.clone()));
            }
        }));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
        // a connection ends with its link
        lock(&self.links).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn forward(
    client: TcpStream,
    server: String,
    mut link: watch::Receiver<Link>,
    meter: Meter,
    packets: Arc<Packets>,
) {
    let mut ending = link.clone();
    let work = async {
        if link.wait_for(|it| *it == Link::Up).await.is_err() {
            return;
        }
        let Ok(server) = TcpStream::connect(server).await else {
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let stall = AtomicBool::new(false);
        tokio::select! {
            () = requests(from_client, to_server, link.clone(), meter, &packets, &stall) => {}
            () = replies(from_server, to_client, link.clone(), &packets, &stall) => {}
        }
    };
    tokio::select! {
        () = work => {}
        // an error means that the proxy is gone
        _ = ending.wait_for(|it| *it == Link::Cut) => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
    mut meter: Meter,
    packets: &Packets,
    stall: &AtomicBool,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Some(count) = read(&mut from, &mut buffer, &mut link).await {
        let delay = packets.delay.load(Ordering::Relaxed);
        if delay > 0 {
            sleep(Duration::from_millis(delay)).await;
        }
        let bytes = &buffer[..count];
        meter.feed(bytes);
        let commits = || bytes.windows(6).any(|word| word == b"COMMIT");
        if packets.stall.load(Ordering::Relaxed) && commits() && packets.stall.swap(false, Ordering::Relaxed) {
            stall.store(true, Ordering::Relaxed);
        }
        if packets.hold.load(Ordering::Relaxed) && commits() && packets.hold.swap(false, Ordering::Relaxed) {
            packets.held.store(true, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

async fn replies(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
    packets: &Packets,
    stall: &AtomicBool,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Some(count) = read(&mut from, &mut buffer, &mut link).await {
        let midway = stall.load(Ordering::Relaxed);
        let bytes = if midway { &buffer[..count / 2] } else { &buffer[..count] };
        if to.write_all(bytes).await.is_err() {
            return;
        }
        if midway {
            packets.stalled.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
    }
}

/// The next bytes, once the network lets them through; `None` at the end.
async fn read(from: &mut OwnedReadHalf, buffer: &mut [u8], link: &mut watch::Receiver<Link>) -> Option<usize> {
    // what happens at one end is not known at the other while nothing passes
    let count = from.read(buffer).await.unwrap_or(0);
    let up = link.wait_for(|it| *it == Link::Up).await.is_ok();
    (up && count > 0).then_some(count)
}

/// `host:port` of an address.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}
