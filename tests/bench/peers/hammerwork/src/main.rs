//! hammerwork, on PostgreSQL and MySQL.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hammerwork::migrations::MigrationManager;
use hammerwork::migrations::mysql::MySqlMigrationRunner;
use hammerwork::migrations::postgres::PostgresMigrationRunner;
use hammerwork::queue::DatabaseQueue;
use hammerwork::worker::JobHandler;
use hammerwork::{Job, JobBatch, JobQueue, Worker, WorkerPool};
use peer_common::{MYSQL_TRAFFIC, POSTGRES_TRAFFIC, Payload, Peer, Result, Variant, background, handle};
use sqlx::mysql::{MySql, MySqlPoolOptions};
use sqlx::postgres::{PgPoolOptions, Postgres};
use tokio::task::JoinHandle;

const QUEUE: &str = "bench";
/// With the best settings: workers, and jobs of one claim as in its own benchmark.
const WORKERS: usize = 4;
const BATCH: usize = 50;
/// Tasks that make jobs wait for a drain, by the call for one job.
const FILLERS: usize = 16;

/// Its migrations take a lock that this function names. MySQL 9.6 and later have it only as a component.
const SHA1: &str = "CREATE FUNCTION SHA1(s TEXT) RETURNS CHAR(40) DETERMINISTIC NO SQL RETURN LEFT(SHA2(s, 256), 40)";

fn job(Payload { n, s }: Payload) -> Job {
    Job::new(QUEUE.into(), serde_json::json!({ "n": n, "s": s }))
}

#[derive(Clone)]
enum Queue {
    Postgres(Arc<JobQueue<Postgres>>),
    MySql(Arc<JobQueue<MySql>>),
}

/// The same expression for either database.
macro_rules! with {
    ($queue:expr, $name:ident => $body:expr) => {
        match $queue {
            Queue::Postgres($name) => $body,
            Queue::MySql($name) => $body,
        }
    };
}

#[derive(Clone)]
struct Hammerwork {
    queue: Queue,
    variant: Variant,
}

impl Peer for Hammerwork {
    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let queue = if url.starts_with("mysql:") {
            let pool = MySqlPoolOptions::new().max_connections(40).connect(url).await?;
            sqlx::raw_sql(SHA1).execute(&pool).await?;
            MigrationManager::new(Box::new(MySqlMigrationRunner::new(pool.clone()))).run_migrations().await?;
            Queue::MySql(Arc::new(JobQueue::new(pool)))
        } else {
            let pool = PgPoolOptions::new().max_connections(40).connect(url).await?;
            MigrationManager::new(Box::new(PostgresMigrationRunner::new(pool.clone()))).run_migrations().await?;
            Queue::Postgres(Arc::new(JobQueue::new(pool)))
        };
        Ok(Self { queue, variant })
    }

    async fn enqueue(&self, payload: Payload) -> Result<()> {
        with!(&self.queue, queue => queue.enqueue(job(payload)).await?);
        Ok(())
    }

    async fn enqueue_all(&self, jobs: Vec<Payload>) -> Result<()> {
        let batch = JobBatch::new("bench").with_jobs(jobs.into_iter().map(job).collect());
        with!(&self.queue, queue => queue.enqueue_batch(batch).await?);
        Ok(())
    }

    /// The end of a job of a batch locks its batch and looks for jobs that are left of it.
    async fn enqueue_waiting(&self, jobs: Vec<Payload>) -> Result<()> {
        let one = |jobs: &[Payload]| {
            let (peer, jobs) = (self.clone(), jobs.to_vec());
            tokio::spawn(async move {
                for job in jobs {
                    peer.enqueue(job).await?;
                }
                Ok(())
            })
        };
        let fillers: Vec<JoinHandle<Result<()>>> = jobs.chunks(jobs.len().div_ceil(FILLERS)).map(one).collect();
        for filler in fillers {
            filler.await??;
        }
        Ok(())
    }

    async fn work(&self, slots: usize) -> Result<()> {
        let handler: JobHandler = Arc::new(|job: Job| {
            Box::pin(async move {
                handle(job.payload["n"].as_i64().unwrap_or(-1)).await;
                Ok(())
            })
        });
        with!(&self.queue, queue => {
            let mut pool = WorkerPool::new();
            let worker = || Worker::new(queue.clone(), QUEUE.into(), handler.clone());
            match self.variant {
                Variant::Default => (0..slots).for_each(|_| pool.add_worker(worker())),
                Variant::Best => {
                    let worker = || worker().with_poll_interval(Duration::from_millis(10)).with_batch_size(BATCH);
                    let each = slots / WORKERS;
                    (0..WORKERS).for_each(|_| pool.add_worker(worker().with_batch_concurrency(each)));
                }
            }
            background(async move { pool.start().await });
        });
        Ok(())
    }

    async fn left(&self, _: i64) -> Result<i64> {
        const SQL: &str = "SELECT count(*) FROM hammerwork_jobs WHERE status <> 'Completed'";
        Ok(with!(&self.queue, queue => sqlx::query_scalar(SQL).fetch_one(&queue.pool).await?))
    }

    async fn analyze(&self) -> Result<()> {
        match &self.queue {
            Queue::Postgres(queue) => drop(sqlx::query("ANALYZE").execute(&queue.pool).await?),
            Queue::MySql(queue) => drop(sqlx::query("ANALYZE TABLE hammerwork_jobs").execute(&queue.pool).await?),
        }
        Ok(())
    }

    async fn traffic(&self) -> Result<i64> {
        Ok(match &self.queue {
            Queue::Postgres(queue) => sqlx::query_scalar(POSTGRES_TRAFFIC).fetch_one(&queue.pool).await?,
            Queue::MySql(queue) => {
                let (_, count): (String, String) = sqlx::query_as(MYSQL_TRAFFIC).fetch_one(&queue.pool).await?;
                count.parse()?
            }
        })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    peer_common::run::<Hammerwork>().await
}
