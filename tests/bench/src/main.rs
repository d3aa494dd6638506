//! One workload of the benchmark, as a process of its own: `queue-bench SIDE WORKLOAD` with `BENCH_URL`.
//!
//! `queue-bench prepare database` makes the database anew. Sides: `ours`, with the settings that every user gets by default, and `floor`, the fastest hand-written statements that
//! do the same on the same server. Prints one line of JSON with the figures. `cargo xtask bench` runs the sides in turn.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

mod floor;
mod ours;
mod prepare;

/// Jobs of a bulk enqueue and of a drain.
pub(crate) const MANY: i64 = 50_000;
/// Time for which single enqueues are counted.
pub(crate) const SPELL: Duration = Duration::from_secs(3);
/// Jobs whose pick-up is timed, and the pause between them.
pub(crate) const PICKUPS: usize = 100;
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// The 32 characters of every payload.
pub(crate) const S32: &str = "0123456789abcdef0123456789abcdef";

/// The database under test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Postgres,
    MySql,
    Sqlite,
}

pub(crate) fn url() -> Result<(Engine, String)> {
    let url = std::env::var("BENCH_URL").context("set BENCH_URL to the database to measure")?;
    let engine = match url.split(':').next() {
        Some("postgres" | "postgresql") => Engine::Postgres,
        Some("mysql") => Engine::MySql,
        Some("sqlite") => Engine::Sqlite,
        _ => bail!("BENCH_URL must start with postgres:, mysql: or sqlite:"),
    };
    Ok((engine, url))
}

/// Jobs a second.
pub(crate) fn rate(jobs: i64, since: Instant) -> serde_json::Value {
    serde_json::json!({ "jobs_per_second": jobs as f64 / since.elapsed().as_secs_f64() })
}

/// Median and 99th percentile, in milliseconds.
pub(crate) fn quantiles(mut ms: Vec<f64>) -> serde_json::Value {
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| ms.get(((ms.len() as f64 * share) as usize).min(ms.len().saturating_sub(1)));
    serde_json::json!({ "p50_ms": at(0.5), "p99_ms": at(0.99) })
}

/// Microseconds since 1970, to time what crosses processes.
pub(crate) fn wall_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [side, workload] = args.as_slice() else { bail!("usage: queue-bench ours|floor WORKLOAD") };
    let figures = match side.as_str() {
        "prepare" => prepare::run().await?,
        "ours" => ours::run(workload).await?,
        "floor" => floor::run(workload).await?,
        _ => bail!("the side must be `ours` or `floor`, not `{side}`"),
    };
    println!("{figures}");
    Ok(())
}
