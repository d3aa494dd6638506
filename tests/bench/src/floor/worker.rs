//! A worker by hand, for the loads that a drain does not show: jobs of a millisecond that arrive while others are run.
//!
//! It hears of each group as soon as it is written, claims as many jobs as it has room for, and ends completed jobs in
//! batches. It has no lease, heartbeat, fence, retry or timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{BATCH, body};
use crate::arrivals::{self, WARM_UP};
use crate::figures::{Latencies, merge, per_second, quantiles, wall_us};
use crate::seconds;

/// The three statements.
pub(super) trait Queue: Send + Sync + 'static {
    fn insert(&self, bodies: Vec<String>) -> impl Future<Output = Result<()>> + Send;
    /// Up to so many: each one's id and body.
    fn claim(&self, most: i64) -> impl Future<Output = Result<Vec<(i64, String)>>> + Send;
    fn finish(&self, ids: Vec<i64>) -> impl Future<Output = Result<()>> + Send;
}

#[derive(Deserialize)]
struct Body {
    n: i64,
    #[expect(dead_code, reason = "read because ours reads it")]
    s: String,
}

/// Figures as those of ours: arrival at a constant rate, so many jobs at a time.
pub(super) async fn paced(queue: impl Queue, concurrency: usize) -> Result<Value> {
    let rate = arrivals::wanted()?;
    let (queue, latencies, news) = (Arc::new(queue), Arc::new(Latencies::default()), Arc::new(Notify::new()));
    let mut tasks = JoinSet::new();
    tasks.spawn(work(queue.clone(), latencies.clone(), news.clone(), concurrency));
    let length = seconds();
    let arrive = arrivals::arrive(rate, WARM_UP + length, move |jobs, us| {
        let (queue, news) = (queue.clone(), news.clone());
        async move {
            queue.insert((0..jobs).map(|_| body(us)).collect()).await?;
            news.notify_one();
            Ok(())
        }
    });
    let measured = async {
        sleep(WARM_UP).await;
        latencies.take();
        let from = wall_us();
        sleep(length).await;
        Ok((latencies.take(), wall_us() - from))
    };
    let ((), (latencies, us)) = tokio::select! {
        done = async { tokio::try_join!(arrive, measured) } => done?,
        Some(ended) = tasks.join_next() => {
            ended??;
            anyhow::bail!("the worker ended by itself");
        }
    };
    let figures = json!({ "jobs_per_second": per_second(latencies.len() as i64, us), "wanted_per_second": rate });
    Ok(merge(figures, quantiles(latencies)))
}

async fn work(queue: Arc<impl Queue>, latencies: Arc<Latencies>, news: Arc<Notify>, concurrency: usize) -> Result<()> {
    let slots = Arc::new(Semaphore::new(concurrency));
    let held = Arc::new(AtomicUsize::new(0));
    let (done, mut to_end) = mpsc::unbounded_channel::<i64>();
    let mut tasks = JoinSet::new();
    tasks.spawn({
        let (queue, held, news) = (queue.clone(), held.clone(), news.clone());
        async move {
            let mut ids = Vec::new();
            while to_end.recv_many(&mut ids, BATCH as usize).await > 0 {
                ids.sort_unstable();
                held.fetch_sub(ids.len(), Ordering::AcqRel);
                news.notify_one();
                queue.finish(std::mem::take(&mut ids)).await?;
            }
            anyhow::Ok(())
        }
    });
    let (begin, mut waiting) = mpsc::unbounded_channel::<(i64, String)>();
    tasks.spawn(async move {
        while let Some((id, body)) = waiting.recv().await {
            let slot = slots.clone().acquire_owned().await?;
            let (latencies, done) = (latencies.clone(), done.clone());
            tokio::spawn(async move {
                let body: Body = serde_json::from_str(&body)?;
                sleep(Duration::from_millis(1)).await;
                latencies.note(wall_us() - body.n);
                drop(slot);
                anyhow::Ok(done.send(id)?)
            });
        }
        anyhow::Ok(())
    });
    let most = concurrency + BATCH as usize;
    let claims = async {
        loop {
            let room = most.saturating_sub(held.load(Ordering::Acquire)).min(BATCH as usize);
            let rows = if room == 0 { Vec::new() } else { queue.claim(room as i64).await? };
            let more = room > 0 && rows.len() == room;
            held.fetch_add(rows.len(), Ordering::AcqRel);
            for row in rows {
                begin.send(row)?;
            }
            if !more {
                news.notified().await;
            }
        }
    };
    tokio::select! {
        ended = claims => ended,
        Some(ended) = tasks.join_next() => ended?,
    }
}
