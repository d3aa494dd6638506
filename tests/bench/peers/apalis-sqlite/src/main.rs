//! apalis with apalis-sqlite.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apalis::layers::WorkerBuilderExt;
use apalis::prelude::*;
use apalis_sqlite::{Config, SqlitePool, SqliteStorage};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use peer_common::{Context, Payload, Peer, Result, Variant, background, handle};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

/// Jobs that one poll takes with the best settings.
const BATCH: usize = 500;

async fn bench(job: Payload) -> std::result::Result<(), BoxDynError> {
    handle(job.n).await;
    Ok(())
}

fn config() -> Config {
    Config::default().queue("bench")
}

#[derive(Clone)]
struct Apalis {
    pool: SqlitePool,
    storage: SqliteStorage<Payload>,
    /// What SQLite's update hook reports, with the best settings.
    updates: Arc<Mutex<Option<UnboundedReceiver<()>>>>,
}

/// The pool of the README that reports what is inserted; each of its ten connections is made as durable as others.
async fn hooked(url: &str) -> Result<(SqlitePool, UnboundedReceiver<()>)> {
    let (pool, mut listener) = SqliteStorage::connect_with_callback(url)?;
    let mut connections = vec![];
    for _ in 0..10 {
        let mut connection = pool.acquire().await?;
        sqlx::query("PRAGMA synchronous = NORMAL").execute(&mut *connection).await?;
        sqlx::query("PRAGMA busy_timeout = 20000").execute(&mut *connection).await?;
        connections.push(connection);
    }
    // The listener's type has no public name.
    let (sender, updates) = unbounded();
    tokio::spawn(async move {
        while listener.next().await.is_some() {
            let _ = sender.unbounded_send(());
        }
    });
    Ok((pool, updates))
}

impl Peer for Apalis {
    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
        let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal);
        let options = options.busy_timeout(Duration::from_secs(20));
        // A pool of its own, since `setup` leaves a connection that is not durable (synchronous OFF).
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        SqliteStorage::setup(&pool).await?;
        pool.close().await;
        let (pool, updates) = match variant {
            Variant::Default => (SqlitePoolOptions::new().max_connections(4).connect_with(options).await?, None),
            Variant::Best => {
                let (pool, updates) = hooked(url).await?;
                (pool, Some(updates))
            }
        };
        let storage = SqliteStorage::new(&pool).with_config(config());
        Ok(Self { pool, storage, updates: Arc::new(Mutex::new(updates)) })
    }

    fn producers(&self) -> i64 {
        1
    }

    async fn enqueue(&self, job: Payload) -> Result<()> {
        self.storage.clone().push(job).await?;
        Ok(())
    }

    async fn enqueue_all(&self, jobs: Vec<Payload>) -> Result<()> {
        self.storage.clone().push_bulk(jobs).await?;
        Ok(())
    }

    async fn work(&self, slots: usize) -> Result<()> {
        let worker = WorkerBuilder::new("worker");
        let storage = self.storage.clone();
        let updates = self.updates.lock().ok().context("the updates")?.take();
        match updates {
            None => {
                let storage = storage.poll_with_interval(Duration::from_millis(100));
                background(worker.backend(storage).concurrency(slots).build(bench).run());
            }
            Some(updates) => {
                let polls = Strategy::new().stream(updates.ready_chunks(BATCH)).interval(Duration::from_millis(100));
                let config = config().batch_size(BATCH).lock_tasks(false);
                let storage = storage.with_config(config).poll_with_strategy(polls);
                background(worker.backend(storage).concurrency(slots).build(bench).run());
            }
        }
        Ok(())
    }

    async fn left(&self, _: i64) -> Result<i64> {
        const SQL: &str = "SELECT count(*) FROM Jobs WHERE status IN ('Pending', 'Queued', 'Running')";
        Ok(sqlx::query_scalar(SQL).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    peer_common::run::<Apalis>().await
}
