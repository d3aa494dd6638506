//! Removes finished jobs that were kept long enough.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::store::Store;
use crate::telemetry;

/// Jobs removed in one transaction.
const BATCH: u32 = 1000;
/// Between two transactions as long as the last one took, within these: retention takes half of the time of one connection at
/// most, and goes as fast as jobs can be finished.
const LEAST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Transactions in one round.
const ROUNDS: u32 = 500;
/// What a round removes that leaves some.
pub(crate) const FULL: u64 = BATCH as u64 * ROUNDS as u64;

/// Purges until nothing is due, at most [`FULL`] jobs.
pub(crate) async fn run_once(store: &dyn Store, keep: Duration) -> Result<u64, Error> {
    let mut total = 0;
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let removed = store.purge(keep, BATCH).await?;
        total += removed;
        if removed < u64::from(BATCH) {
            break;
        }
        sleep(began.elapsed().clamp(LEAST_PAUSE, LONGEST_PAUSE)).await;
    }
    if total > 0 {
        tracing::info!(event = telemetry::JOBS_PURGED, jobs = total, "removed finished jobs past their retention");
    }
    Ok(total)
}
