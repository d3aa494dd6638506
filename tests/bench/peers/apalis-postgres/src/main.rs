//! apalis with apalis-postgres.

use std::process::ExitCode;
use std::time::Duration;

use apalis::layers::WorkerBuilderExt;
use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use peer_common::{POSTGRES_TRAFFIC, Payload, Peer, Result, Variant, background, handle};
use sqlx::postgres::PgPoolOptions;

async fn bench(job: Payload) -> std::result::Result<(), BoxDynError> {
    handle(job.n).await;
    Ok(())
}

fn config() -> Config {
    Config::default().queue("bench")
}

#[derive(Clone)]
struct Apalis {
    pool: PgPool,
    storage: PostgresStorage<Payload>,
    variant: Variant,
}

impl Peer for Apalis {
    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(20).min_connections(1).connect(url).await?;
        PostgresStorage::setup(&pool).await?;
        let storage = PostgresStorage::new(&pool).with_config(config());
        Ok(Self { pool, storage, variant })
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
        let storage = self.storage.clone();
        let worker = WorkerBuilder::new("worker");
        match self.variant {
            Variant::Default => {
                let storage = storage.poll_with_interval(Duration::from_millis(100));
                background(worker.backend(storage).concurrency(slots).build(bench).run());
            }
            Variant::Best => {
                let config = config().batch_size(500).lock_tasks(false);
                let storage = storage.with_config(config).with_pubsub().poll_with_interval(Duration::from_secs(1));
                background(worker.backend(storage).concurrency(slots).build(bench).run());
            }
        }
        Ok(())
    }

    async fn left(&self, _: i64) -> Result<i64> {
        const SQL: &str = "SELECT count(*) FROM apalis.jobs WHERE status IN ('Pending', 'Queued', 'Running')";
        Ok(sqlx::query_scalar(SQL).fetch_one(&self.pool).await?)
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
    peer_common::run::<Apalis>().await
}
