//! awa.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use awa::model::insert::{insert, params_with};
use awa::{Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig};
use peer_common::{POSTGRES_TRAFFIC, Payload, Peer, Result, Variant, handle};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

#[derive(Debug, Serialize, Deserialize)]
struct Bench {
    n: i64,
    s: String,
}

impl JobArgs for Bench {
    fn kind() -> &'static str {
        "bench"
    }
}

fn bench(Payload { n, s }: Payload) -> Bench {
    Bench { n, s }
}

fn params(job: Payload) -> Result<InsertParams> {
    Ok(params_with(&bench(job), InsertOpts::default())?)
}

#[derive(Clone)]
struct Awa {
    pool: PgPool,
    storage: Arc<QueueStorage>,
    variant: Variant,
}

impl Peer for Awa {
    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(40).min_connections(1).connect(url).await?;
        awa::migrations::run(&pool).await?;
        let storage = QueueStorage::new(QueueStorageConfig::default())?;
        // What the first worker would do.
        storage.install(&pool).await?;
        Ok(Self { pool, storage: Arc::new(storage), variant })
    }

    fn slots(&self) -> usize {
        match self.variant {
            Variant::Default => 32,
            Variant::Best => 1_024,
        }
    }

    async fn enqueue(&self, job: Payload) -> Result<()> {
        insert(&self.pool, &bench(job)).await?;
        Ok(())
    }

    async fn enqueue_all(&self, jobs: Vec<Payload>) -> Result<()> {
        let jobs = jobs.into_iter().map(params).collect::<Result<Vec<_>>>()?;
        match self.variant {
            Variant::Default => drop(awa::insert_many(&self.pool, &jobs).await?),
            Variant::Best => drop(self.storage.enqueue_params_copy(&self.pool, &jobs).await?),
        }
        Ok(())
    }

    async fn work(&self, slots: usize) -> Result<()> {
        let queue = QueueConfig { max_workers: slots as u32, ..QueueConfig::default() };
        let queue = match self.variant {
            Variant::Default => queue,
            // The crate's own benchmark of offered rates: without a deadline attempts are recorded in batches.
            Variant::Best => {
                QueueConfig { poll_interval: Duration::from_millis(50), deadline_duration: Duration::ZERO, ..queue }
            }
        };
        let client = Client::builder(self.pool.clone())
            .queue("default", queue)
            .register::<Bench, _, _>(|job: Bench, _| async move {
                handle(job.n).await;
                Ok(JobResult::Completed)
            })
            .build()?;
        client.start().await?;
        // Dropping it would stop the worker.
        std::mem::forget(client);
        Ok(())
    }

    /// Its own `queue_counts` says the same, after seconds: batches of completions, single ones, and those removed.
    async fn left(&self, sent: i64) -> Result<i64> {
        const SQL: &str =
            "SELECT (SELECT coalesce(sum(completed_count), 0)::bigint FROM awa.receipt_completion_batches)
            + (SELECT count(*) FROM awa.done_entries)
            + (SELECT coalesce(sum(pruned_completed_count), 0)::bigint FROM awa.queue_terminal_rollups)";
        let done: i64 = sqlx::query_scalar(SQL).fetch_one(&self.pool).await?;
        Ok(sent - done)
    }

    async fn analyze(&self) -> Result<()> {
        sqlx::query("ANALYZE").execute(&self.pool).await?;
        Ok(())
    }

    async fn traffic(&self) -> Result<i64> {
        Ok(sqlx::query_scalar(POSTGRES_TRAFFIC).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    peer_common::run::<Awa>().await
}
