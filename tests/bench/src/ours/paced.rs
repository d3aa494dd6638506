//! A constant arrival of jobs, each of which takes a millisecond.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::beside;
use super::jobs::{Brief, Seen};
use crate::arrivals::{self, WARM_UP};
use crate::database::{Db, each};
use crate::figures::{merge, per_second, quantiles};
use crate::seconds;

pub(super) async fn run(db: &Db, concurrency: u32) -> Result<Value> {
    let rate = arrivals::wanted()?;
    let other = Db::connect().await?;
    let seen = Seen::default();
    let worker = db.worker(&seen).concurrency(concurrency).build()?;
    let measured = async {
        let arrivals = tokio::spawn(arrive(Db::connect().await?, rate, WARM_UP + seconds()));
        sleep(WARM_UP).await;
        seen.latencies.take();
        let from = other.now_us().await?;
        sleep(seconds()).await;
        let to = other.now_us().await?;
        let latencies = seen.latencies.take();
        arrivals.await??;
        Ok((from, to, latencies))
    };
    let (from, to, latencies) = beside(worker, measured).await?;
    let done = other.finished_between(from, to).await?;
    let figures = json!({ "jobs_per_second": per_second(done, to - from), "wanted_per_second": rate });
    Ok(merge(figures, quantiles(latencies)))
}

/// Enqueues groups at a steady pace. Their jobs carry the time at which they were due.
pub(super) async fn arrive(db: Db, rate: f64, length: Duration) -> Result<()> {
    arrivals::arrive(rate, length, move |jobs, us| {
        let db = db.clone();
        async move {
            let jobs = Brief::many(jobs, us);
            each!(&db, pool => queue::enqueue_all(pool, jobs).await)?;
            Ok(())
        }
    })
    .await
}
