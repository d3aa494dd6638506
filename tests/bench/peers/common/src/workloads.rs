//! The workloads.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tokio::time::{interval, sleep};

use crate::seen::seen;
use crate::{Payload, Peer, not_offered};

/// Time for which single enqueues are counted.
const SPELL: Duration = Duration::from_secs(3);
/// Jobs whose pick-up is timed, and the pause between them.
const PICKUPS: i64 = 100;
const PAUSE: Duration = Duration::from_millis(50);
/// Rest of an idle worker, and the time for which it is watched then.
const REST: Duration = Duration::from_secs(2);
const WATCH: Duration = Duration::from_secs(10);
/// Jobs that wait in a closed loop, jobs of one call, and the time that the body of a job takes.
const BACKLOG: i64 = 5_000;
const BATCH: i64 = 1_000;
const BODY: Duration = Duration::from_millis(1);
/// After that a worker is taken for stuck.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) async fn run<P: Peer>(peer: P, workload: &str) -> Result<String> {
    let figures = match workload {
        "enqueue-1" => enqueue(peer, 1).await,
        "enqueue-16" => enqueue(peer, 16).await,
        "unique-new" => unique(peer, true).await,
        "unique-taken" => unique(peer, false).await,
        "bulk" if !P::BULK => not_offered("there is no call for many jobs"),
        "bulk" => {
            let jobs = variable("BENCH_JOBS", 50_000)?;
            let start = Instant::now();
            for jobs in chunks::<P>(jobs) {
                peer.enqueue_all(jobs).await?;
            }
            Ok(rate(jobs, start))
        }
        "drain" => drain(peer, variable("BENCH_JOBS", 50_000)?).await,
        "pickup" => pickup(peer).await,
        "idle" => idle(peer).await,
        "closed-64" => closed(peer, 64).await,
        "closed-256" => closed(peer, 256).await,
        other => bail!("unknown workload `{other}`"),
    }?;
    match seen().again {
        0 => {}
        again => eprintln!("{again} jobs ran twice"),
    }
    Ok(format!("{{{figures}}}"))
}

fn variable<T: FromStr>(name: &str, default: T) -> Result<T> {
    let Ok(text) = std::env::var(name) else { return Ok(default) };
    text.parse().map_err(|_| anyhow::anyhow!("{name} must be a number, not `{text}`"))
}

fn rate(jobs: i64, since: Instant) -> String {
    format!("\"jobs_per_second\": {:.1}", jobs as f64 / since.elapsed().as_secs_f64())
}

/// Median and 99th percentile of the times that the handlers saw.
fn quantiles() -> String {
    let mut ms = std::mem::take(&mut seen().ms);
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| ms[((ms.len() as f64 * share) as usize).min(ms.len() - 1)];
    if ms.is_empty() {
        return r#""p50_ms": null, "p99_ms": null"#.into();
    }
    format!(r#""p50_ms": {:.3}, "p99_ms": {:.3}"#, at(0.5), at(0.99))
}

/// Some tasks that enqueue job after job, each in a call of its own.
async fn enqueue<P: Peer>(peer: P, tasks: i64) -> Result<String> {
    let start = Instant::now();
    let one = |task: i64| {
        let peer = peer.clone();
        tokio::spawn(async move {
            let mut jobs = 0;
            while start.elapsed() < SPELL {
                peer.enqueue(Payload::new(task * 10_000_000 + jobs)).await?;
                jobs += 1;
            }
            anyhow::Ok(jobs)
        })
    };
    let mut total = 0;
    for task in (0..tasks).map(one).collect::<Vec<_>>() {
        total += task.await??;
    }
    Ok(rate(total, start))
}

/// One unique job after the other, each with a key of its own or all with one.
async fn unique<P: Peer>(peer: P, new: bool) -> Result<String> {
    let start = Instant::now();
    let mut jobs = 0;
    while start.elapsed() < SPELL {
        peer.enqueue_unique(Payload::new(if new { jobs } else { 0 })).await?;
        jobs += 1;
    }
    Ok(rate(jobs, start))
}

fn chunks<P: Peer>(jobs: i64) -> impl Iterator<Item = Vec<Payload>> {
    (0..jobs)
        .step_by(P::CHUNK as usize)
        .map(move |first| (first..jobs.min(first + P::CHUNK)).map(Payload::new).collect())
}

/// Waits until so many jobs were handled.
async fn handled(jobs: i64) -> Result<()> {
    let start = Instant::now();
    while seen().handled < jobs {
        ensure!(start.elapsed() < PATIENCE, "{} of {jobs} jobs were handled in {PATIENCE:?}", seen().handled);
        sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Jobs that wait, then a worker.
async fn drain<P: Peer>(peer: P, jobs: i64) -> Result<String> {
    for jobs in chunks::<P>(jobs) {
        peer.enqueue_waiting(jobs).await?;
    }
    peer.analyze().await?;
    let start = Instant::now();
    peer.work(peer.slots()).await?;
    // Asking before would burden the server.
    handled(jobs).await?;
    loop {
        match peer.left(jobs).await? {
            0 => return Ok(rate(jobs, start)),
            left => ensure!(start.elapsed() < PATIENCE * 2, "{left} of {jobs} jobs are not done after {PATIENCE:?}"),
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// One job at a time for a worker that is idle.
async fn pickup<P: Peer>(peer: P) -> Result<String> {
    peer.work(peer.slots()).await?;
    sleep(REST).await;
    let mut ticks = interval(PAUSE);
    for n in 0..PICKUPS {
        ticks.tick().await;
        seen().calls.push(Instant::now());
        peer.enqueue(Payload::new(n)).await?;
    }
    handled(PICKUPS).await?;
    Ok(quantiles())
}

/// What a worker without work asks of its server.
async fn idle<P: Peer>(peer: P) -> Result<String> {
    peer.traffic().await?;
    peer.work(peer.slots()).await?;
    sleep(REST).await;
    let before = peer.traffic().await?;
    sleep(WATCH).await;
    // One of them asked for `before`.
    let traffic = peer.traffic().await? - before - 1;
    Ok(format!("\"idle_per_second\": {:.2}", traffic.max(0) as f64 / WATCH.as_secs_f64()))
}

/// A worker whose queue is never empty.
async fn closed<P: Peer>(peer: P, slots: usize) -> Result<String> {
    let length = Duration::from_secs(variable("BENCH_SECONDS", 60)?);
    {
        let mut seen = seen();
        (seen.body, seen.batch) = (BODY, BATCH);
    }
    peer.work(slots).await?;
    sleep(REST).await;
    let stop = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let one = |_| {
        let (peer, stop) = (peer.clone(), stop.clone());
        tokio::spawn(async move {
            let mut sent = 0;
            while !stop.load(Ordering::Acquire) {
                let batch = seen().next_batch(BACKLOG);
                if let Some(first) = batch {
                    peer.enqueue_all((first..first + BATCH).map(Payload::new).collect()).await?;
                    sent += BATCH;
                } else {
                    sleep(Duration::from_millis(1)).await;
                }
            }
            anyhow::Ok(sent)
        })
    };
    let producers: Vec<_> = (0..peer.producers()).map(one).collect();
    sleep(length).await;
    stop.store(true, Ordering::Release);
    let mut sent = 0;
    for producer in producers {
        sent += producer.await??;
    }
    let done = sent - peer.left(sent).await?;
    Ok(format!("{}, {}", rate(done, start), quantiles()))
}
