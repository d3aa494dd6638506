//! A constant arrival of jobs, each of which takes a millisecond.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::jobs::{Brief, Seen};
use super::{beside, seconds};
use crate::database::{Db, each};
use crate::figures::{merge, per_second, quantiles, wall_us};
use crate::setting;

/// How often a group of jobs arrives.
const TICK: Duration = Duration::from_millis(5);
/// Groups that are written at a time.
const AT_ONCE: usize = 4;
/// What is not counted, at the beginning.
const WARM_UP: Duration = Duration::from_secs(2);

/// Jobs a second that are to arrive.
pub(super) fn wanted() -> Result<f64> {
    let rate = setting("BENCH_RATE", 0);
    ensure!(rate > 0, "set BENCH_RATE to the jobs a second that are to arrive");
    Ok(rate as f64)
}

pub(super) async fn run(db: &Db, concurrency: u32) -> Result<Value> {
    let rate = wanted()?;
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

/// Enqueues groups at a steady pace. Their jobs carry the time at which they were due to be enqueued, so that an enqueue
/// that waits counts.
pub(super) async fn arrive(db: Db, rate: f64, length: Duration) -> Result<()> {
    let mut ticks = ticks(length);
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut writing = JoinSet::new();
    let (mut due, mut sent) = (0.0, 0);
    let begin = Instant::now();
    while let Some(us) = ticks.recv().await {
        if begin.elapsed() > length {
            break; // more arrives than can be written
        }
        due += rate * TICK.as_secs_f64();
        let group = due as i64 - sent;
        sent += group;
        while let Some(written) = writing.try_join_next() {
            written??;
        }
        let permit = room.clone().acquire_owned().await?;
        let db = db.clone();
        writing.spawn(async move {
            let jobs = Brief::many(group, us);
            let result = each!(&db, pool => queue::enqueue_all(pool, jobs).await);
            drop(permit);
            result.map(drop)
        });
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    Ok(())
}

/// The moments at which groups are due, each told when it comes. By a thread of its own: tokio's timers go by the millisecond and
/// come up to one and a half late, and what is measured is the queue, not they.
fn ticks(length: Duration) -> mpsc::UnboundedReceiver<i64> {
    let (tell, told) = mpsc::unbounded_channel();
    thread::spawn(move || {
        let (first, first_us) = (Instant::now(), wall_us());
        let mut after = Duration::ZERO;
        while after < length {
            thread::sleep(after.saturating_sub(first.elapsed()));
            if tell.send(first_us + after.as_micros() as i64).is_err() {
                return;
            }
            after += TICK;
        }
    });
    told
}
