//! graphile_worker.

use std::process::ExitCode;
use std::time::Duration;

use graphile_worker::{
    Database, IntoTaskHandlerResult, JobSpec, JobSpecBuilder, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions, WorkerUtils,
};
use peer_common::{POSTGRES_TRAFFIC, Payload, Peer, Result, Variant, background, handle};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

const SCHEMA: &str = "graphile_worker";

#[derive(Clone, Serialize, Deserialize)]
struct Bench {
    n: i64,
    s: String,
}

impl TaskHandler for Bench {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        handle(self.n).await;
        Ok::<(), String>(())
    }
}

fn bench(Payload { n, s }: Payload) -> Bench {
    Bench { n, s }
}

#[derive(Clone)]
struct Graphile {
    pool: PgPool,
    utils: WorkerUtils,
    variant: Variant,
}

impl Peer for Graphile {
    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(40).min_connections(1).connect(url).await?;
        let utils = WorkerUtils::new(Database::from(pool.clone()), SCHEMA);
        utils.migrate().await?;
        Ok(Self { pool, utils, variant })
    }

    async fn enqueue(&self, job: Payload) -> Result<()> {
        self.utils.add_job(bench(job), JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_unique(&self, job: Payload) -> Result<()> {
        let spec = JobSpecBuilder::new().job_key(job.n.to_string()).build();
        self.utils.add_job(bench(job), spec).await?;
        Ok(())
    }

    async fn enqueue_all(&self, jobs: Vec<Payload>) -> Result<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = jobs.into_iter().map(|job| (bench(job), &spec)).collect();
        self.utils.add_jobs::<Bench>(&jobs).await?;
        Ok(())
    }

    async fn work(&self, slots: usize) -> Result<()> {
        let options =
            WorkerOptions::default().pg_pool(self.pool.clone()).schema(SCHEMA).concurrency(slots).define_job::<Bench>();
        let options = match self.variant {
            Variant::Default => options,
            // The crate's own benchmark `perf_test`, but for the poll, which is 5 ms there.
            Variant::Best => options
                .poll_interval(Duration::from_millis(100))
                .complete_job_batch_delay(Duration::from_millis(5))
                .local_queue(LocalQueueConfig::default().with_size(5_000)),
        };
        let worker = options.init().await?;
        background(async move { worker.run().await });
        Ok(())
    }

    async fn left(&self, _: i64) -> Result<i64> {
        Ok(sqlx::query_scalar("SELECT count(*) FROM graphile_worker._private_jobs").fetch_one(&self.pool).await?)
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
    peer_common::run::<Graphile>().await
}
