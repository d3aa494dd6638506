//! Many minutes of a constant arrival, with retention removing what was finished two minutes ago.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::jobs::Seen;
use super::{beside, paced};
use crate::arrivals;
use crate::database::Db;
use crate::figures::{per_second, quantiles};
use crate::setting;

const MINUTE: Duration = Duration::from_secs(60);
/// Long enough to have the last minute in the database, short enough to be at work for most of the run.
const RETENTION: Duration = Duration::from_secs(120);

/// One minute's figures.
struct Minute {
    rate: f64,
    p99: f64,
    bytes: f64,
}

/// The last minute beside the second, and the tables beside the fifth as well: by then retention is at work.
pub(super) async fn run(db: &Db) -> Result<Value> {
    let minutes = setting("BENCH_MINUTES", 30).max(3) as u32;
    let rate = arrivals::wanted()?;
    let other = Db::connect().await?;
    let seen = Seen::default();
    let worker = db.worker(&seen).concurrency(256).retention(RETENTION).build()?;
    let measured = async {
        let arrivals = tokio::spawn(paced::arrive(Db::connect().await?, rate, MINUTE * minutes));
        let start = Instant::now();
        let mut from = other.now_us().await?;
        let mut all = Vec::new();
        for minute in 1..=minutes {
            sleep_until(start + MINUTE * minute).await;
            let to = other.now_us().await?;
            let latencies = quantiles(seen.latencies.take());
            let done = other.finished_between(from, to).await?;
            let it = Minute {
                rate: per_second(done, to - from),
                p99: latencies["p99_ms"].as_f64().unwrap_or(f64::NAN),
                bytes: other.size().await? as f64,
            };
            eprintln!("minute {minute}: {:.0} jobs/s, p99 {:.1} ms, {:.1} MB", it.rate, it.p99, it.bytes / 1e6);
            all.push(it);
            from = to;
        }
        arrivals.await??;
        Ok(all)
    };
    let all = beside(worker, measured).await?;
    let last = all.last().context("no minute")?;
    let (second, fifth) = (all.get(1).unwrap_or(last), all.get(4).unwrap_or(last));
    Ok(json!({
        "jobs_per_second": last.rate,
        "p99_ms": last.p99,
        "megabytes": last.bytes / 1e6,
        "rate_ratio": last.rate / second.rate,
        "p99_ratio": last.p99 / second.p99,
        // in the second minute nothing has been removed yet
        "size_ratio": last.bytes / second.bytes,
        "size_ratio_to_fifth": last.bytes / fifth.bytes,
    }))
}
