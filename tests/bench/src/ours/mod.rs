//! The library, with its defaults.

use std::pin::pin;

use anyhow::{Result, bail};
use queue::{Worker, WorkerBuilder};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::database::{Db, each};
use jobs::Seen;

mod backlog;
mod children;
mod closed;
mod complete;
mod cost;
mod drain;
mod enqueue;
mod fill;
mod idle;
mod jobs;
mod mixed;
mod paced;
mod pages;
mod pickup;
mod steady;
mod watch;

/// How many jobs at a time, when the workload does not say.
const CONCURRENCY: u32 = 32;

pub(crate) async fn run(workload: &str) -> Result<Value> {
    let db = match workload {
        "cost" => cost::connect().await?,
        _ => Db::connect().await?,
    };
    if !matches!(workload, "work" | "produce") {
        db.migrate().await?;
    }
    match workload {
        "enqueue-1" => enqueue::single(&db, 1).await,
        "enqueue-16" => enqueue::single(&db, 16).await,
        "enqueue-tx" => enqueue::in_transactions(&db).await,
        "bulk" => enqueue::bulk(&db).await,
        "unique-new" => enqueue::unique(&db, |n| n.to_string()).await,
        "unique-taken" => enqueue::unique(&db, |_| "taken".into()).await,
        "unique-bulk" => enqueue::unique_bulk(&db).await,
        "by-hand" => complete::run(&db, true).await,
        "complete-in" => complete::run(&db, false).await,
        "drain" => drain::fresh(&db).await,
        "drain-metrics" => drain::with_metrics(&db).await,
        "drain-watched" => watch::drain(&db).await,
        "drain-tabs" => pages::drain(&db).await,
        "drain-sending-back" => watch::drain_sending_back(&db).await,
        "drain-dying" => drain::dying(&db).await,
        "reads" => watch::reads(&db).await,
        "pages" => pages::pages(&db).await,
        "drain-queues" => drain::of_many_queues(&db).await,
        "drain-1" => children::drain(&db, 1, 32).await,
        "drain-4" => children::drain(&db, 4, 8).await,
        "drain-16" => children::drain(&db, 16, 2).await,
        "drain-ready" | "drain-future" | "drain-foreign" | "drain-history" | "drain-dead" => {
            backlog::run(&db, workload).await
        }
        "drain-idle-tx" => backlog::beside_writer(&db).await,
        "drain-reader" => backlog::beside_reader(&db).await,
        "pickup" | "pickup-other" => pickup::run(&db, workload == "pickup-other").await,
        "pickup-queues" => pickup::run_queues(&db).await,
        "pickup-far" => pickup::run_far(&db).await,
        "idle" => idle::run(&db).await,
        "closed-64" => closed::run(&db, 64, false).await,
        "closed-256" => closed::run(&db, 256, false).await,
        "closed-pinned" => closed::run(&db, 256, true).await,
        "paced-64" => paced::run(&db, 64).await,
        "paced-256" => paced::run(&db, 256).await,
        "steady" => steady::run(&db).await,
        "cost" => cost::run(db).await,
        "memory" => children::memory(&db).await,
        "lanes" => children::lanes(&db).await,
        "mixed" => mixed::run(&db).await,
        // what this program starts itself
        "work" => children::work(&db).await,
        "produce" => pickup::produce(&db).await,
        other => bail!("unknown workload `{other}`"),
    }
}

impl Db {
    async fn migrate(&self) -> Result<()> {
        Ok(each!(self, pool => queue::migrate(pool).await)?)
    }

    fn worker(&self, seen: &Seen) -> WorkerBuilder {
        each!(self, pool => Worker::builder(pool)).state(seen.clone()).state(self.clone())
    }
}

/// Runs a worker for as long as `task` takes.
async fn beside<T>(worker: Worker, task: impl Future<Output = Result<T>>) -> Result<T> {
    let (stop, stopped) = oneshot::channel::<()>();
    let mut run = pin!(worker.run(async { drop(stopped.await) }));
    let result = tokio::select! {
        result = task => result,
        ended = &mut run => {
            ended?;
            bail!("the worker ended by itself");
        }
    };
    drop(stop);
    run.await?;
    result
}
