//! Removes finished jobs that were kept long enough.

use std::time::Duration;

use tokio::time::sleep;

use crate::error::Error;
use crate::store::Store;
use crate::telemetry;

/// Jobs removed in one transaction.
const BATCH: u32 = 1000;
/// Between two transactions, so that retention never fills the log by itself.
const PAUSE: Duration = Duration::from_millis(20);
/// Transactions in one round.
const ROUNDS: u32 = 500;

/// Purges until nothing is due, at most 500,000 jobs.
pub(crate) async fn run_once(store: &dyn Store, keep: Duration) -> Result<u64, Error> {
    let mut total = 0;
    for _ in 0..ROUNDS {
        let removed = store.purge(keep, BATCH).await?;
        total += removed;
        if removed < u64::from(BATCH) {
            break;
        }
        sleep(PAUSE).await;
    }
    if total > 0 {
        tracing::info!(event = telemetry::JOBS_PURGED, jobs = total, "removed finished jobs past their retention");
    }
    Ok(total)
}
