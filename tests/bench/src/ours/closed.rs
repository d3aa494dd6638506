//! A closed loop: about 5,000 jobs are kept waiting, each takes a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::beside;
use super::jobs::{Brief, Seen};
use crate::database::{Db, each};
use crate::figures::{merge, per_second, quantiles, wall_us};
use crate::seconds;

/// Jobs kept waiting.
const WAITING: i64 = 5_000;
/// Jobs enqueued together.
const GROUP: i64 = 500;
/// Tasks that enqueue.
const PRODUCERS: usize = 2;
/// What is not counted, at the beginning.
const WARM_UP: Duration = Duration::from_secs(2);

/// `pinned`: another session sees the database as it was at the beginning.
pub(super) async fn run(db: &Db, concurrency: u32, pinned: bool) -> Result<Value> {
    let other = Db::connect().await?;
    let mut session = other.session().await?;
    if pinned {
        session.pin().await?;
    }
    let seconds = if pinned { seconds() * 2 } else { seconds() };
    let seen = Seen::default();
    let worker = db.worker(&seen).concurrency(concurrency).build()?;
    let measured = async {
        let producers = producers(&seen).await?;
        sleep(WARM_UP).await;
        seen.latencies.take();
        let from = other.now_us().await?;
        sleep(seconds).await;
        let to = other.now_us().await?;
        let latencies = seen.latencies.take();
        producers.shutdown().await?;
        Ok((from, to, latencies))
    };
    let (from, to, latencies) = beside(worker, measured).await?;
    let done = other.finished_between(from, to).await?;
    let mut figures = merge(json!({ "jobs_per_second": per_second(done, to - from) }), quantiles(latencies));
    if pinned {
        let edge = (20_000_000).min((to - from) / 3);
        let first = other.finished_between(from, from + edge).await?;
        let last = other.finished_between(to - edge, to).await?;
        session.run("ROLLBACK").await?;
        let (first, last) = (per_second(first, edge), per_second(last, edge));
        figures = merge(
            figures,
            json!({ "first_per_second": first, "last_per_second": last, "last_by_first": last / first }),
        );
    }
    Ok(figures)
}

/// Tasks that enqueue until they are told to end.
struct Producers(JoinSet<Result<()>>);

impl Producers {
    /// Ends them, and fails if one has failed.
    async fn shutdown(mut self) -> Result<()> {
        if let Some(ended) = self.0.try_join_next() {
            ended??;
        }
        self.0.shutdown().await;
        Ok(())
    }
}

async fn producers(seen: &Seen) -> Result<Producers> {
    let db = Db::connect().await?;
    let enqueued = Arc::new(AtomicI64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..PRODUCERS {
        let (db, seen, enqueued) = (db.clone(), seen.clone(), enqueued.clone());
        tasks.spawn(async move {
            loop {
                let waiting = enqueued.load(Ordering::Acquire) - seen.begun.load(Ordering::Acquire);
                if waiting + GROUP > WAITING {
                    sleep(Duration::from_millis(1)).await;
                    continue;
                }
                enqueued.fetch_add(GROUP, Ordering::AcqRel);
                let jobs = Brief::many(GROUP, wall_us());
                each!(&db, pool => queue::enqueue_all(pool, jobs).await)?;
            }
        });
    }
    Ok(Producers(tasks))
}
