//! effectum.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use effectum::{Job, JobRunner, Queue, RunningJob, Worker};
use peer_common::{Context, Payload, Peer, Result, Variant, handle};

async fn bench(job: RunningJob, _: Arc<()>) -> Result<(), effectum::Error> {
    handle(job.json_payload::<Payload>()?.n).await;
    Ok(())
}

#[derive(Clone)]
struct Effectum {
    queue: Arc<Queue>,
    variant: Variant,
}

impl Peer for Effectum {
    /// All in one call: it has nothing against it.
    const CHUNK: i64 = 50_000;

    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let path = url.strip_prefix("sqlite://").context("BENCH_URL must start with sqlite://")?;
        Ok(Self { queue: Arc::new(Queue::new(Path::new(path)).await?), variant })
    }

    fn producers(&self) -> i64 {
        1
    }

    async fn enqueue(&self, job: Payload) -> Result<()> {
        Job::builder("bench").json_payload(&job)?.add_to(&self.queue).await?;
        Ok(())
    }

    async fn enqueue_all(&self, jobs: Vec<Payload>) -> Result<()> {
        let job = |job| Ok(Job::builder("bench").json_payload(&job)?.build());
        self.queue.add_jobs(jobs.into_iter().map(job).collect::<Result<Vec<_>>>()?).await?;
        Ok(())
    }

    async fn work(&self, slots: usize) -> Result<()> {
        let jobs = [JobRunner::builder("bench", bench).build()];
        let worker = Worker::builder(&self.queue, Arc::new(())).jobs(jobs).max_concurrency(slots as u16);
        let worker = match self.variant {
            Variant::Default => worker,
            // Fetches when half of the slots are free, not when all are.
            Variant::Best => worker.min_concurrency(slots as u16 / 2),
        };
        // Dropping it would stop the worker.
        std::mem::forget(worker.build().await?);
        Ok(())
    }

    async fn left(&self, _: i64) -> Result<i64> {
        let jobs = self.queue.num_active_jobs().await?;
        Ok((jobs.pending + jobs.running) as i64)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    peer_common::run::<Effectum>().await
}
