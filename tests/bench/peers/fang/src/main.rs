//! fang, on PostgreSQL, MySQL and MariaDB.

use std::process::ExitCode;
use std::time::Duration;

use fang::asynk::async_queue::{AsyncQueue, AsyncQueueable};
use fang::asynk::async_worker_pool::AsyncWorkerPool;
use fang::{AsyncRunnable, FangError, SleepParams, async_trait, typetag};
use peer_common::{MYSQL_TRAFFIC, POSTGRES_TRAFFIC, Payload, Peer, Result, Variant, handle};
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::task::JoinHandle;

/// Tasks that fill the queue: there is no call for many.
const FILLERS: usize = 16;

#[derive(serde::Serialize, serde::Deserialize)]
struct Bench {
    n: i64,
    s: String,
}

#[typetag::serde]
#[async_trait]
impl AsyncRunnable for Bench {
    async fn run(&self, _: &dyn AsyncQueueable) -> std::result::Result<(), FangError> {
        handle(self.n).await;
        Ok(())
    }
}

/// Its queue does not give its connections away.
#[derive(Clone)]
enum Pool {
    Postgres(PgPool),
    MySql(MySqlPool),
}

#[derive(Clone)]
struct Fang {
    pool: Pool,
    queue: AsyncQueue,
    variant: Variant,
}

impl Peer for Fang {
    const BULK: bool = false;

    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let pool = if url.starts_with("mysql:") {
            let pool = MySqlPoolOptions::new().max_connections(2).connect(url).await?;
            sqlx::raw_sql(include_str!("../migrations/mysql.sql")).execute(&pool).await?;
            Pool::MySql(pool)
        } else {
            let pool = PgPoolOptions::new().max_connections(2).connect(url).await?;
            sqlx::raw_sql(include_str!("../migrations/postgres.sql")).execute(&pool).await?;
            Pool::Postgres(pool)
        };
        let mut queue = AsyncQueue::builder().uri(url).max_pool_size(40_u32).build();
        queue.connect().await?;
        Ok(Self { pool, queue, variant })
    }

    async fn enqueue(&self, Payload { n, s }: Payload) -> Result<()> {
        self.queue.insert_task(&Bench { n, s }).await?;
        Ok(())
    }

    async fn enqueue_all(&self, jobs: Vec<Payload>) -> Result<()> {
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
        let workers = AsyncWorkerPool::builder().number_of_workers(slots as u32).queue(self.queue.clone());
        let mut workers: AsyncWorkerPool<AsyncQueue> = match self.variant {
            Variant::Default => workers.build(),
            Variant::Best => {
                let pause = Duration::from_millis(100);
                let sleep = SleepParams {
                    sleep_period: pause,
                    max_sleep_period: pause,
                    min_sleep_period: pause,
                    sleep_step: pause,
                };
                workers.sleep_params(sleep).build()
            }
        };
        workers.start().await;
        // Dropping it would stop the workers.
        std::mem::forget(workers);
        Ok(())
    }

    /// A finished task is removed.
    async fn left(&self, _: i64) -> Result<i64> {
        const SQL: &str = "SELECT count(*) FROM fang_tasks";
        Ok(match &self.pool {
            Pool::Postgres(pool) => sqlx::query_scalar(SQL).fetch_one(pool).await?,
            Pool::MySql(pool) => sqlx::query_scalar(SQL).fetch_one(pool).await?,
        })
    }

    async fn analyze(&self) -> Result<()> {
        match &self.pool {
            Pool::Postgres(pool) => drop(sqlx::query("ANALYZE").execute(pool).await?),
            Pool::MySql(pool) => drop(sqlx::query("ANALYZE TABLE fang_tasks").execute(pool).await?),
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
        })
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    peer_common::run::<Fang>().await
}
