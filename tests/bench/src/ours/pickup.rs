//! From the enqueue call to the start of the handler, on a worker that has nothing else to do.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use queue::{Job, Worker};
use serde_json::Value;
use tokio::time::{interval, sleep};

use super::beside;
use super::jobs::{Seen, Timed};
use crate::database::{Db, Engine, each};
use crate::far;
use crate::figures::{quantiles, wall_us};
use crate::{PAUSE, PICKUPS, S32};

/// Queues that a worker serves, each with its limit.
const QUEUES: [(&str, u32); 4] = [("mail", 8), ("a", 4), ("b", 4), ("report", 2)];
/// How often each queue gets a job.
const ROTATIONS: usize = 12;
/// The shortest pause before a job of another queue, and what varies of it, so that it keeps no step with the worker.
const REST: Duration = Duration::from_millis(550);
const REST_VARIES: u64 = 100;

pub(super) async fn run(db: &Db, other_process: bool) -> Result<Value> {
    if !other_process {
        return Ok(quantiles(pickups(db, &Db::connect().await?).await?));
    }
    let me = std::env::current_exe()?;
    let produced = async {
        let status = tokio::process::Command::new(me).args(["ours", "produce"]).stdout(Stdio::null()).status().await?;
        if !status.success() {
            bail!("the producer failed: {status}");
        }
        Ok(())
    };
    let seen = Seen::default();
    timed(db.worker(&seen).build()?, &seen, PICKUPS, produced).await.map(quantiles)
}

/// The same on a server that is far away, which no file is.
pub(super) async fn run_far(db: &Db) -> Result<Value> {
    if db.engine() == Engine::Sqlite {
        return Ok(Value::Null);
    }
    far::compared(async |url| pickups(&Db::connect_to(url).await?, &Db::connect_to(url).await?).await).await
}

/// A job on one of four limited queues, after a quick one on another.
pub(super) async fn run_queues(db: &Db) -> Result<Value> {
    let producer = Db::connect().await?;
    let seen = Seen::default();
    let worker = QUEUES.iter().fold(db.worker(&seen), |worker, (queue, limit)| worker.queue(*queue, *limit)).build()?;
    let produced = async {
        open_two(&producer).await?;
        for n in 0..ROTATIONS {
            for (at, (queue, _)) in QUEUES.iter().enumerate() {
                let varies = (n * QUEUES.len() + at) as u64 * 37 % REST_VARIES;
                sleep(REST + Duration::from_millis(varies)).await;
                let job = Timed { n: wall_us(), s: S32.to_owned() }.queue(*queue);
                each!(&producer, pool => job.enqueue(pool).await).context("enqueue")?;
            }
        }
        Ok(())
    };
    timed(worker, &seen, ROTATIONS * QUEUES.len(), produced).await.map(quantiles)
}

async fn pickups(db: &Db, producer: &Db) -> Result<Vec<f64>> {
    let seen = Seen::default();
    timed(db.worker(&seen).build()?, &seen, PICKUPS, produce(producer)).await
}

/// What the handlers of this many jobs note, in milliseconds.
async fn timed<T>(
    worker: Worker,
    seen: &Seen,
    jobs: usize,
    produced: impl Future<Output = Result<T>>,
) -> Result<Vec<f64>> {
    let all = async {
        sleep(Duration::from_secs(1)).await;
        produced.await?;
        while seen.latencies.len() < jobs {
            seen.news.notified().await;
        }
        Ok(())
    };
    beside(worker, all).await?;
    Ok(seen.latencies.take())
}

/// A producer that has been running for a while: two of its connections are open.
async fn open_two(db: &Db) -> Result<()> {
    let ask = "SELECT count(*) FROM queue_workers";
    tokio::try_join!(db.number(ask), db.number(ask)).map(drop)
}

/// One job every 50 ms, with the time at which its enqueue began.
pub(super) async fn produce(db: &Db) -> Result<Value> {
    open_two(db).await?;
    let mut ticks = interval(PAUSE);
    for _ in 0..PICKUPS {
        ticks.tick().await;
        let job = Timed { n: wall_us(), s: S32.to_owned() };
        each!(db, pool => job.enqueue(pool).await).context("enqueue")?;
    }
    Ok(Value::Null)
}
