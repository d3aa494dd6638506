//! One workload of the benchmark, as a process of its own: `queue-bench SIDE WORKLOAD` with `BENCH_URL`.
//!
//! `queue-bench prepare database` recreates the database. `prepare version` prints its version. There are two sides:
//! `ours` has the library's default settings, `floor` the fastest hand-written statements that do the same on the same
//! server. It prints one line of JSON with the figures, or `null` if a side has no such workload. `cargo xtask bench`
//! runs the sides in turn.

use std::time::Duration;

use anyhow::{Result, bail};

mod arrivals;
mod database;
mod far;
mod figures;
mod floor;
mod ours;
mod prepare;
mod process;

/// Jobs of a bulk enqueue and of a drain.
pub(crate) const MANY: i64 = 50_000;
/// Time for which single enqueues are counted.
pub(crate) const SPELL: Duration = Duration::from_secs(3);
/// Jobs whose pick-up is timed, and the pause between them.
pub(crate) const PICKUPS: usize = 200;
pub(crate) const PAUSE: Duration = Duration::from_millis(50);
/// The 32 characters of every payload.
pub(crate) const S32: &str = "0123456789abcdef0123456789abcdef";

/// A number from the environment, so that the one who starts us can ask for less.
pub(crate) fn setting(name: &str, default: i64) -> i64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The length of a loop.
pub(crate) fn seconds() -> Duration {
    Duration::from_secs(setting("BENCH_SECONDS", 60).unsigned_abs())
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [side, workload] = args.as_slice() else { bail!("usage: queue-bench prepare|ours|floor WORKLOAD") };
    let figures = match side.as_str() {
        "prepare" => prepare::run(workload).await?,
        "ours" => ours::run(workload).await?,
        "floor" => floor::run(workload).await?,
        _ => bail!("the side must be `ours` or `floor`, not `{side}`"),
    };
    println!("{figures}");
    Ok(())
}
