//! ruststream-sqlx, on PostgreSQL, MySQL, MariaDB and SQLite.

use std::mem::forget;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use chrono::{DateTime, Utc};
use peer_common::{Context as _, MYSQL_TRAFFIC, POSTGRES_TRAFFIC, Payload, Peer, Result, Variant, handle};
use ruststream::OutgoingMessage;
use ruststream_sqlx::prelude::*;
use serde::{Deserialize, Serialize};
use sqlx::mysql::{MySql, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions, Postgres};
use sqlx::sqlite::{
    Sqlite, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

/// Rows of a claim with the best settings.
const BATCH: NonZeroUsize = nonzero!(500);

/// The table of its README, with the index of its guide to production.
const POSTGRES: &str = "
    CREATE TABLE jobs (id BIGSERIAL PRIMARY KEY, name TEXT NOT NULL, payload BYTEA NOT NULL);
    CREATE INDEX jobs_claim ON jobs (name, id)";
const MYSQL: &str = "
    CREATE TABLE jobs (
        id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) NOT NULL, payload BLOB NOT NULL,
        INDEX claim_order (name, id)
    )";
/// SQLite has no row locks: a lease.
const SQLITE: &str = "
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, name TEXT NOT NULL, locked_until TEXT, payload BLOB NOT NULL);
    CREATE INDEX jobs_claim ON jobs (name, id)";

/// A row that the transaction of the claim locks until the job ends.
#[derive(Inbox, sqlx::FromRow)]
#[inbox(table = "jobs")]
struct Locked {
    #[field(id, generated)]
    id: i64,
    #[field(group)]
    name: String,
    #[field(payload)]
    payload: Vec<u8>,
}

/// A row that a time keeps out of the queue.
#[derive(Inbox, sqlx::FromRow)]
#[inbox(table = "jobs")]
struct Leased {
    #[field(id, generated)]
    id: i64,
    #[field(group)]
    name: String,
    #[field(locked_until)]
    locked_until: Option<DateTime<Utc>>,
    #[field(payload)]
    payload: Vec<u8>,
}

impl Publish<Postgres> for Locked {
    async fn publish(conn: &mut PgConnection, message: &OutgoingMessage<'_>) -> sqlx::Result<()> {
        let insert = sqlx::query("INSERT INTO jobs (name, payload) VALUES ($1, $2)");
        insert.bind(message.name()).bind(message.payload()).execute(conn).await?;
        Ok(())
    }
}

impl Publish<MySql> for Locked {
    async fn publish(conn: &mut MySqlConnection, message: &OutgoingMessage<'_>) -> sqlx::Result<()> {
        let insert = sqlx::query("INSERT INTO jobs (name, payload) VALUES (?, ?)");
        insert.bind(message.name()).bind(message.payload()).execute(conn).await?;
        Ok(())
    }
}

impl Publish<Sqlite> for Leased {
    async fn publish(conn: &mut SqliteConnection, message: &OutgoingMessage<'_>) -> sqlx::Result<()> {
        let insert = sqlx::query("INSERT INTO jobs (name, payload) VALUES (?, ?)");
        insert.bind(message.name()).bind(message.payload()).execute(conn).await?;
        Ok(())
    }
}

#[derive(Serialize, Deserialize, Outgoing)]
#[outgoing(name = "bench")]
struct Job {
    n: i64,
    s: String,
}

#[subscriber(InboxQueue::<Locked>::new("bench"))]
async fn locked(job: &Job) -> HandlerOutcome {
    handle(job.n).await;
    HandlerOutcome::ack()
}

#[subscriber(InboxQueue::<Leased>::new("bench"))]
async fn leased(job: &Job) -> HandlerOutcome {
    handle(job.n).await;
    HandlerOutcome::ack()
}

#[subscriber(InboxQueue::<Locked>::new("bench"))]
async fn locked_batch(jobs: &[Job]) -> Vec<HandlerOutcome> {
    for job in jobs {
        handle(job.n).await;
    }
    jobs.iter().map(|_| HandlerOutcome::ack()).collect()
}

type Published = Pin<Box<dyn Future<Output = Result<()>> + Send>>;
type Publisher = Arc<dyn Fn(Payload) -> Published + Send + Sync>;

/// Starts a service with a subscription or without. Returns its publisher, which wakes the subscription.
macro_rules! start {
    ($pool:expr, $row:ty, $mount:expr) => {{
        let broker = SqlxBroker::new($pool.clone()).bindable();
        let token = broker.bind(Repository::<$row>::default());
        let running = RustStream::new(AppInfo::new("bench", "0.0.0")).with_broker(broker, $mount).start().await?;
        let publisher = Arc::new(running.publisher(token).await?);
        // Dropping it would end the service.
        forget(running);
        let publish = move |Payload { n, s }| -> Published {
            let publisher = publisher.clone();
            Box::pin(async move { Ok(publisher.message(&Job { n, s }).publish().await?) })
        };
        let publish: Publisher = Arc::new(publish);
        publish
    }};
}

#[derive(Clone)]
enum Pool {
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

/// The same expression for each database.
macro_rules! with {
    ($pool:expr, $name:ident => $body:expr) => {
        match $pool {
            Pool::Postgres($name) => $body,
            Pool::MySql($name) => $body,
            Pool::Sqlite($name) => $body,
        }
    };
}

#[derive(Clone)]
struct Ruststream {
    pool: Pool,
    variant: Variant,
    publisher: Arc<RwLock<Publisher>>,
}

/// One connection for each job at a time, and some for the publishers.
const CONNECTIONS: u32 = 40;

async fn sqlite(url: &str, variant: Variant) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::from_str(url)?.create_if_missing(true);
    let options = match variant {
        Variant::Default => options,
        Variant::Best => options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal),
    };
    Ok(SqlitePoolOptions::new().connect_with(options).await?)
}

impl Peer for Ruststream {
    const BULK: bool = false;

    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let pool = match url.split_once(':').context("a scheme")?.0 {
            "mysql" => Pool::MySql(MySqlPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?),
            "sqlite" => Pool::Sqlite(sqlite(url, variant).await?),
            _ => Pool::Postgres(PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?),
        };
        let publisher = match &pool {
            Pool::Postgres(pool) => {
                sqlx::raw_sql(POSTGRES).execute(pool).await?;
                start!(pool, Locked, |_| {})
            }
            Pool::MySql(pool) => {
                sqlx::raw_sql(MYSQL).execute(pool).await?;
                start!(pool, Locked, |_| {})
            }
            Pool::Sqlite(pool) => {
                sqlx::raw_sql(SQLITE).execute(pool).await?;
                start!(pool, Leased, |_| {})
            }
        };
        Ok(Self { pool, variant, publisher: Arc::new(RwLock::new(publisher)) })
    }

    async fn enqueue(&self, job: Payload) -> Result<()> {
        let publisher = self.publisher.read().unwrap_or_else(PoisonError::into_inner).clone();
        publisher(job).await
    }

    /// The `insert` of a row, in a transaction.
    async fn enqueue_all(&self, jobs: Vec<Payload>) -> Result<()> {
        with!(&self.pool, pool => {
            let mut tx = pool.begin().await?;
            for Payload { n, s } in jobs {
                let payload = serde_json::to_vec(&Job { n, s })?;
                Locked { id: 0, name: "bench".into(), payload }.insert(&mut *tx).await?;
            }
            tx.commit().await?;
        });
        Ok(())
    }

    async fn work(&self, slots: usize) -> Result<()> {
        let slots = NonZeroUsize::new(slots).context("no slots")?;
        let publisher = match (&self.pool, self.variant) {
            (Pool::Postgres(pool), Variant::Default) => {
                start!(pool, Locked, |b| drop(b.include(locked.workers(slots))))
            }
            (Pool::Postgres(pool), Variant::Best) => {
                start!(pool, Locked, |b| drop(b.include(locked_batch.batch(BATCH))))
            }
            (Pool::MySql(pool), Variant::Default) => start!(pool, Locked, |b| drop(b.include(locked.workers(slots)))),
            (Pool::MySql(pool), Variant::Best) => start!(pool, Locked, |b| drop(b.include(locked_batch.batch(BATCH)))),
            (Pool::Sqlite(pool), _) => start!(pool, Leased, |b| drop(b.include(leased.workers(slots)))),
        };
        *self.publisher.write().unwrap_or_else(PoisonError::into_inner) = publisher;
        Ok(())
    }

    /// A finished job's row is removed.
    async fn left(&self, _: i64) -> Result<i64> {
        const SQL: &str = "SELECT count(*) FROM jobs";
        Ok(with!(&self.pool, pool => sqlx::query_scalar(SQL).fetch_one(pool).await?))
    }

    async fn analyze(&self) -> Result<()> {
        match &self.pool {
            Pool::Postgres(pool) => drop(sqlx::query("ANALYZE").execute(pool).await?),
            Pool::MySql(pool) => drop(sqlx::query("ANALYZE TABLE jobs").execute(pool).await?),
            Pool::Sqlite(pool) => drop(sqlx::query("ANALYZE").execute(pool).await?),
        }
        Ok(())
    }

    async fn traffic(&self) -> Result<i64> {
        Ok(match &self.pool {
            Pool::Postgres(pool) => sqlx::query_scalar(POSTGRES_TRAFFIC).fetch_one(pool).await?,
            Pool::MySql(pool) => {
                let (_, count): (String, String) = sqlx::query_as(MYSQL_TRAFFIC).fetch_one(pool).await?;
                count.parse()?
            }
            Pool::Sqlite(_) => peer_common::not_offered("SQLite has no server that counts statements"),
        })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    peer_common::run::<Ruststream>().await
}
