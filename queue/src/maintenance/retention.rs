//! Removes finished jobs that were kept long enough.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::store::Store;
use crate::telemetry;

/// Between two transactions as long as the last one took, within these: retention takes about half of the time of one
/// connection at most.
const LEAST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// Transactions in one round.
const ROUNDS: u32 = 500;

/// Purges until nothing is due, or for one round. Returns whether there is more.
pub(crate) async fn run_once(store: &dyn Store, keep: Duration) -> Result<bool, Error> {
    let batch = store.purges_at_once();
    let (mut total, mut more) = (0, true);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let removed = store.purge(keep, batch).await?;
        total += removed;
        more = removed >= u64::from(batch);
        if !more {
            break;
        }
        sleep(began.elapsed().clamp(LEAST_PAUSE, LONGEST_PAUSE)).await;
    }
    if total > 0 {
        tracing::info!(event = telemetry::JOBS_PURGED, jobs = total, "removed finished jobs past their retention");
    }
    Ok(more)
}
