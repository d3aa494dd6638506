//! Working off what waits.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use queue::{Job, WorkerBuilder};
use serde_json::Value;
use tokio::time::sleep;

use super::beside;
use super::jobs::{Dying, Noop, Seen};
use crate::MANY;
use crate::database::{Db, each};
use crate::figures::rate;

/// Enqueues 50,000 jobs, then times their drain.
pub(super) async fn fresh(db: &Db) -> Result<Value> {
    each!(db, pool => queue::enqueue_all(pool, Noop::many(MANY)).await)?;
    waiting(db).await
}

/// The same, while an exporter keeps the metrics of the worker.
pub(super) async fn with_metrics(db: &Db) -> Result<Value> {
    metrics_exporter_prometheus::PrometheusBuilder::new().install_recorder()?;
    each!(db, pool => queue::enqueue_all(pool, Noop::many(MANY)).await)?;
    drained_by(db, |worker| worker.observe(queue_metrics::observer())).await
}

/// The same with jobs of an early date, which come before those that wait already.
pub(super) async fn ahead(db: &Db) -> Result<Value> {
    let jobs = || Noop::many(MANY).map(|job| job.at(UNIX_EPOCH.into()));
    each!(db, pool => queue::enqueue_all(pool, jobs()).await)?;
    waiting(db).await
}

/// Jobs of a hundred queues in turn, all due at the same moment, like a nightly job for each customer.
pub(super) async fn of_many_queues(db: &Db) -> Result<Value> {
    let moment = SystemTime::now() - Duration::from_secs(60);
    let jobs =
        || Noop::many(MANY).zip((0..100).cycle()).map(|(job, n)| job.queue(format!("customer {n}")).at(moment.into()));
    each!(db, pool => queue::enqueue_all(pool, jobs()).await)?;
    waiting(db).await
}

/// Jobs that all end as dead letters.
pub(super) async fn dying(db: &Db) -> Result<Value> {
    each!(db, pool => queue::enqueue_all(pool, Dying::many(MANY)).await)?;
    recorded(db, |worker| worker, "SELECT count(*) FROM queue_dead".to_owned()).await
}

/// From the start of a worker to the record of 50,000 jobs that wait already.
async fn waiting(db: &Db) -> Result<Value> {
    drained_by(db, |worker| worker).await
}

async fn drained_by(db: &Db, with: impl FnOnce(WorkerBuilder) -> WorkerBuilder) -> Result<Value> {
    // numbers grow, and what was put there for company has smaller ones in the history
    let before = db.number("SELECT max(id) FROM queue_history").await?.max(0);
    let count = format!("SELECT count(*) FROM queue_history WHERE id > {before} AND state = 'completed'");
    recorded(db, with, count).await
}

/// `count`: how many of the jobs are recorded.
async fn recorded(db: &Db, with: impl FnOnce(WorkerBuilder) -> WorkerBuilder, count: String) -> Result<Value> {
    let seen = Seen::expecting(MANY);
    let worker = with(db.worker(&seen)).build()?;
    let start = Instant::now();
    let done = async {
        seen.news.notified().await;
        // done is what the database has recorded
        while db.number(count.as_str()).await? < MANY {
            sleep(Duration::from_millis(1)).await;
        }
        Ok(rate(MANY, start))
    };
    beside(worker, done).await
}
