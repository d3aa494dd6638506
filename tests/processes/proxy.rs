//! A network between a worker and its server that can be cut, can swallow everything, and counts statements.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use queue_test_support::Engine;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Up,
    /// Open, and nothing passes.
    Frozen,
    Cut,
}

/// A proxy in front of the test's server. Ends, with its connections, when dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    server: String,
    engine: Engine,
    /// Of the connections that are accepted now, and of those that were frozen and stay so.
    links: Arc<Mutex<Vec<watch::Sender<Link>>>>,
    accepting: Option<JoinHandle<()>>,
    statements: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) async fn start(engine: Engine, url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let mut proxy = Self {
            address: listener.local_addr().expect("an address"),
            server: host(url).to_owned(),
            engine,
            links: Arc::new(Mutex::new(vec![watch::Sender::new(Link::Up)])),
            accepting: None,
            statements: Arc::default(),
        };
        proxy.accept(listener);
        proxy
    }

    /// The address of a database, through this proxy.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replacen(host(url), &self.address.to_string(), 1)
    }

    /// Statements that went through so far.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Closes all connections and refuses new ones.
    pub(crate) async fn cut(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            let _ = accepting.await;
        }
        self.set(Link::Cut);
    }

    /// Leaves all connections open and lets nothing through any more; new ones hang while they are made.
    pub(crate) fn freeze(&self) {
        self.set(Link::Frozen);
        lock(&self.links).push(watch::Sender::new(Link::Frozen));
    }

    /// Lets go what was held back: it arrives late.
    pub(crate) fn thaw(&self) {
        for link in lock(&self.links).iter() {
            link.send_replace(Link::Up);
        }
    }

    /// New connections work again, and those that hang while they are made (as a client repeats its first packet). Those
    /// that were frozen stay so.
    pub(crate) async fn heal(&mut self) {
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
        let (links, statements) = (self.links.clone(), self.statements.clone());
        self.accepting = Some(tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Some(link) = lock(&links).last().map(watch::Sender::subscribe) else {
                    return;
                };
                let meter = Meter::new(engine, statements.clone());
                tokio::spawn(forward(client, server.clone(), link, meter));
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

async fn forward(client: TcpStream, server: String, mut link: watch::Receiver<Link>, meter: Meter) {
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
        tokio::select! {
            () = pump(from_client, to_server, link.clone(), Some(meter)) => {}
            () = pump(from_server, to_client, link.clone(), None) => {}
        }
    };
    tokio::select! {
        () = work => {}
        // an error means that the proxy is gone
        _ = ending.wait_for(|it| *it == Link::Cut) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut link: watch::Receiver<Link>,
    mut meter: Option<Meter>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = match from.read(&mut buffer).await {
            // what happens at one end is not known at the other while nothing passes
            Ok(0) | Err(_) => 0,
            Ok(count) => count,
        };
        if link.wait_for(|it| *it == Link::Up).await.is_err() || count == 0 {
            return;
        }
        if let Some(meter) = &mut meter {
            meter.feed(&buffer[..count]);
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}

/// `host:port` of an address.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Counts statements in what a client sends.
struct Meter {
    wire: Wire,
    /// The head of a message, as far as it has come.
    head: Vec<u8>,
    /// Bytes of the message's body still to come.
    skip: usize,
    statements: Arc<AtomicU64>,
}

enum Wire {
    /// Before PostgreSQL's typed messages.
    PostgresStart,
    Postgres,
    MySql,
}

impl Meter {
    fn new(engine: Engine, statements: Arc<AtomicU64>) -> Self {
        let wire = match engine {
            Engine::Postgres => Wire::PostgresStart,
            _ => Wire::MySql,
        };
        Self { wire, head: Vec::new(), skip: 0, statements }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while let [first, rest @ ..] = bytes {
            if self.skip > 0 {
                let skipped = self.skip.min(bytes.len());
                self.skip -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            bytes = rest;
            self.head.push(*first);
            if let Some(skip) = self.body() {
                self.skip = skip;
                self.head.clear();
            }
        }
    }

    /// The length of the body, once the head is complete.
    fn body(&mut self) -> Option<usize> {
        let size = |bytes: [u8; 4]| u32::from_be_bytes(bytes) as usize;
        match (&self.wire, self.head.as_slice()) {
            // length, then a code: a request for encryption comes before the real start
            (Wire::PostgresStart, &[a, b, c, d, code, _, _, _]) => {
                if code == 0 {
                    self.wire = Wire::Postgres;
                }
                Some(size([a, b, c, d]) - 8)
            }
            // type, then a length that counts itself: Query and Execute
            (Wire::Postgres, &[kind, a, b, c, d]) => {
                self.count(matches!(kind, b'Q' | b'E'));
                Some(size([a, b, c, d]) - 4)
            }
            // length, number within the exchange, command: COM_QUERY and COM_STMT_EXECUTE
            (Wire::MySql, &[0, 0, 0, _]) => Some(0),
            (Wire::MySql, &[a, b, c, number, command]) => {
                self.count(number == 0 && matches!(command, 0x03 | 0x17));
                Some(size([0, c, b, a]) - 1)
            }
            _ => None,
        }
    }

    fn count(&self, is_statement: bool) {
        self.statements.fetch_add(u64::from(is_statement), Ordering::Relaxed);
    }
}
