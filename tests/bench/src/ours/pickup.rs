//! From the enqueue call to the start of the handler, on a worker that has nothing else to do.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use queue::Job;
use serde_json::Value;
use tokio::time::{interval, sleep};

use super::beside;
use super::jobs::{Seen, Timed};
use crate::database::{Db, each};
use crate::figures::{quantiles, wall_us};
use crate::{PAUSE, PICKUPS, S32};

pub(super) async fn run(db: &Db, other_process: bool) -> Result<Value> {
    let seen = Seen::default();
    let worker = db.worker(&seen).build()?;
    let produced = async {
        sleep(Duration::from_secs(1)).await;
        if other_process {
            let me = std::env::current_exe()?;
            let status =
                tokio::process::Command::new(me).args(["ours", "produce"]).stdout(Stdio::null()).status().await?;
            if !status.success() {
                bail!("the producer failed: {status}");
            }
        } else {
            produce(&Db::connect().await?).await?;
        }
        while seen.latencies.len() < PICKUPS {
            seen.news.notified().await;
        }
        Ok(())
    };
    beside(worker, produced).await?;
    Ok(quantiles(seen.latencies.take()))
}

/// One job every 50 ms, with the time at which its enqueue began.
pub(super) async fn produce(db: &Db) -> Result<Value> {
    // a producer that has been running for a while: two of its connections are open
    let ask = "SELECT count(*) FROM queue_workers";
    tokio::try_join!(db.number(ask), db.number(ask))?;
    let mut ticks = interval(PAUSE);
    for _ in 0..PICKUPS {
        ticks.tick().await;
        let job = Timed { n: wall_us(), s: S32.to_owned() };
        each!(db, pool => job.enqueue(pool).await).context("enqueue")?;
    }
    Ok(Value::Null)
}
