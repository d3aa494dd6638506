//! Workers in processes of their own.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::jobs::{Noop, Seen};
use super::{CONCURRENCY, beside, fill};
use crate::database::{Db, each};
use crate::figures::per_second;
use crate::{MANY, process, setting};

/// A worker until the end of standard input: `queue-bench ours work`.
pub(super) async fn work(db: &Db) -> Result<Value> {
    let concurrency = u32::try_from(setting("BENCH_CONCURRENCY", CONCURRENCY.into()))?;
    let worker = db.worker(&Seen::default()).concurrency(concurrency).build()?;
    let orders = async {
        tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
        Ok(Value::Null)
    };
    beside(worker, orders).await
}

fn start(concurrency: u32) -> Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["ours", "work"])
        .env("BENCH_CONCURRENCY", concurrency.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("starting a worker")
}

/// Ends the workers and waits for them.
async fn stop(children: Vec<Child>) -> Result<()> {
    for mut child in children {
        drop(child.stdin.take());
        let status = timeout(Duration::from_secs(60), child.wait()).await.context("a worker does not end")??;
        ensure!(status.success(), "a worker failed: {status}");
    }
    Ok(())
}

async fn until(db: &Db, sql: &str, least: i64, pause: Duration) -> Result<()> {
    while db.number(sql).await? < least {
        sleep(pause).await;
    }
    Ok(())
}

/// Idle workers get 50,000 jobs at once. Measures from the first start of a job to the last end, by the database's
/// clock. So the time to start 1, 4 or 16 processes does not count.
pub(super) async fn drain(db: &Db, processes: u32, concurrency: u32) -> Result<Value> {
    let children = (0..processes).map(|_| start(concurrency)).collect::<Result<Vec<_>>>()?;
    let alive = "SELECT count(*) FROM queue_workers WHERE stopped_at IS NULL";
    until(db, alive, processes.into(), Duration::from_millis(50)).await?;
    sleep(Duration::from_secs(1)).await;
    each!(db, pool => queue::enqueue_all(pool, Noop::many(MANY)).await)?;
    let done = "SELECT count(*) FROM queue_history WHERE state = 'completed'";
    until(db, done, MANY, Duration::from_millis(100)).await?;
    let us = db.span_us().await?;
    let shares = db.number("SELECT count(DISTINCT worker_id) FROM queue_history").await?;
    stop(children).await?;
    Ok(json!({ "jobs_per_second": per_second(MANY, us), "workers_with_jobs": shares }))
}

/// The memory of a worker that drains 1,000,000 jobs and does nothing else.
pub(super) async fn memory(db: &Db) -> Result<Value> {
    let jobs = fill::backlog();
    fill::jobs(db, "noop", jobs, false).await?;
    fill::settle(db).await?;
    let child = start(CONCURRENCY)?;
    let pid = child.id().context("the worker has ended")?;
    let mut early = None;
    loop {
        // the numbers are without gaps, so the largest tells how far it is
        let done = db.number("SELECT max(id) FROM queue_history").await?;
        if early.is_none() && done >= jobs / 10 {
            early = process::memory(pid, "VmRSS");
        }
        if done >= jobs {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    until(db, "SELECT count(*) FROM queue_history", jobs, Duration::from_millis(500)).await?;
    let figures = json!({
        "peak_mib": process::memory(pid, "VmHWM"),
        "early_mib": early,
        "late_mib": process::memory(pid, "VmRSS"),
        "jobs_per_second": per_second(jobs, db.span_us().await?),
    });
    stop(vec![child]).await?;
    Ok(figures)
}

/// The memory of a worker that drains 1,000,000 jobs in as many queues. A second worker starts in the middle: how soon
/// has it a job?
pub(super) async fn lanes(db: &Db) -> Result<Value> {
    let jobs = fill::backlog();
    fill::jobs_of_many_queues(db, "noop", jobs).await?;
    fill::settle(db).await?;
    let first = start(CONCURRENCY)?;
    let pid = first.id().context("the worker has ended")?;
    let done = "SELECT count(*) FROM queue_history";
    until(db, done, jobs / 2, Duration::from_secs(1)).await?;
    let (workers, started) = (db.number("SELECT max(id) FROM queue_workers").await?, Instant::now());
    let second = start(CONCURRENCY)?;
    let held = format!("SELECT count(*) FROM (SELECT 1 FROM queue_jobs WHERE worker_id > {workers} LIMIT 1) AS held");
    until(db, &held, 1, Duration::from_millis(20)).await?;
    let joins = started.elapsed();
    until(db, done, jobs, Duration::from_secs(1)).await?;
    let figures = json!({
        "peak_mib": process::memory(pid, "VmHWM"),
        "late_mib": process::memory(pid, "VmRSS"),
        "joins_s": joins.as_secs_f64(),
        "jobs_per_second": per_second(jobs, db.span_us().await?),
    });
    stop(vec![first, second]).await?;
    Ok(figures)
}
