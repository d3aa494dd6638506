//! riverqueue, on PostgreSQL and on SQLite.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use peer_common::{POSTGRES_TRAFFIC, Payload, Peer, Result, Variant, handle, not_offered};
use riverqueue::migrate::{PostgresMigrator, SqliteMigrator};
use riverqueue::{Client, InsertOpts, Job, JobArgs, QueueConfig, UniqueOpts, WorkContext, WorkOutcome, Workers};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

#[derive(Clone, Debug, Serialize, Deserialize, JobArgs)]
#[river(kind = "bench")]
struct Bench {
    n: i64,
    s: String,
}

fn bench(Payload { n, s }: Payload) -> Bench {
    Bench { n, s }
}

#[derive(Clone)]
enum Pool {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

#[derive(Clone)]
struct River {
    pool: Pool,
    producer: Client,
    variant: Variant,
}

impl Peer for River {
    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let (pool, producer) = if url.starts_with("sqlite:") {
            // As in its README.
            let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
            let options = options.journal_mode(SqliteJournalMode::Wal).busy_timeout(Duration::from_secs(5));
            let options = match variant {
                Variant::Default => options,
                Variant::Best => options.synchronous(SqliteSynchronous::Normal),
            };
            let pool = SqlitePoolOptions::new().max_connections(5).connect_with(options).await?;
            SqliteMigrator::new(pool.clone()).migrate_up().await?;
            (Pool::Sqlite(pool.clone()), Client::builder(pool).build()?)
        } else {
            let pool = PgPoolOptions::new().max_connections(40).min_connections(1).connect(url).await?;
            PostgresMigrator::new(pool.clone()).migrate_up().await?;
            (Pool::Postgres(pool.clone()), Client::builder(pool).build()?)
        };
        Ok(Self { pool, producer, variant })
    }

    fn slots(&self) -> usize {
        match self.variant {
            Variant::Default => 32,
            // What its own benchmark command uses.
            Variant::Best => 2_000,
        }
    }

    fn producers(&self) -> i64 {
        match self.pool {
            Pool::Postgres(_) => 4,
            Pool::Sqlite(_) => 1,
        }
    }

    async fn enqueue(&self, job: Payload) -> Result<()> {
        self.producer.insert(bench(job)).await?;
        Ok(())
    }

    async fn enqueue_unique(&self, job: Payload) -> Result<()> {
        let unique = InsertOpts::default().with_unique(UniqueOpts::new().with_by_args(true));
        self.producer.insert(bench(job)).opts(unique).await?;
        Ok(())
    }

    async fn enqueue_all(&self, jobs: Vec<Payload>) -> Result<()> {
        let jobs: Vec<_> = jobs.into_iter().map(|job| (bench(job), InsertOpts::default())).collect();
        self.producer.insert_many(jobs).await?;
        Ok(())
    }

    async fn work(&self, slots: usize) -> Result<()> {
        let mut workers = Workers::new();
        workers.add_fn(|_: WorkContext, job: Job<Bench>| async move {
            handle(job.args.n).await;
            Ok::<_, Infallible>(WorkOutcome::Complete)
        })?;
        let queue = QueueConfig::new(slots);
        let queue = match self.variant {
            Variant::Default => queue,
            // What its own benchmark command uses.
            Variant::Best => {
                queue.with_fetch_cooldown(Duration::from_millis(2)).with_fetch_poll_interval(Duration::from_millis(20))
            }
        };
        let builder = match &self.pool {
            Pool::Postgres(pool) => Client::builder(pool.clone()),
            Pool::Sqlite(pool) => Client::builder(pool.clone()),
        };
        let client = builder.workers(workers).queue("default", queue).build()?;
        // Dropping what it returns would stop the worker.
        std::mem::forget(client.start()?);
        Ok(())
    }

    async fn left(&self, _: i64) -> Result<i64> {
        const SQL: &str = "SELECT count(*) FROM river_job WHERE state <> 'completed'";
        Ok(match &self.pool {
            Pool::Postgres(pool) => sqlx::query_scalar(SQL).fetch_one(pool).await?,
            Pool::Sqlite(pool) => sqlx::query_scalar(SQL).fetch_one(pool).await?,
        })
    }

    async fn analyze(&self) -> Result<()> {
        if let Pool::Postgres(pool) = &self.pool {
            sqlx::query("ANALYZE").execute(pool).await?;
        }
        Ok(())
    }

    async fn traffic(&self) -> Result<i64> {
        match &self.pool {
            Pool::Postgres(pool) => Ok(sqlx::query_scalar(POSTGRES_TRAFFIC).fetch_one(pool).await?),
            Pool::Sqlite(_) => not_offered("SQLite has no server that counts statements"),
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    peer_common::run::<River>().await
}
