//! Attempts whose handler completed the job in a transaction of its own. One read per batch tells which of them were
//! committed: their jobs are gone. The others did not end that way.

use std::collections::HashSet;

use tokio::time::Instant;

use crate::store::Trouble;
use crate::store::values::{End, Hold, WorkerId};
use crate::worker::lease::health::Failures;
use crate::worker::run::ended::{Ended, Settled};
use crate::worker::shared::Shared;

/// Returns the ends that are to be written: those that are known, and those of jobs that are still held.
pub(super) async fn settle(shared: &Shared, worker: WorkerId, batch: Vec<Ended>) -> Vec<End> {
    let (mut ends, mut unsettled) = (Vec::with_capacity(batch.len()), Vec::new());
    for ended in batch {
        match ended {
            Ended::Known(end) => ends.push(end),
            Ended::Unsettled(attempt, raw) => unsettled.push((attempt, raw)),
        }
    }
    if unsettled.is_empty() {
        return ends;
    }
    let holds: Vec<Hold> = unsettled.iter().map(|(attempt, _)| attempt.job.hold()).collect();
    let held = still_held(shared, worker, &holds).await;
    for (attempt, raw) in unsettled {
        let key = attempt.job.hold().key();
        // a read that failed says nothing: the fence refuses the end of a job that is gone
        let is_held = held.as_ref().is_none_or(|held| held.contains(&key.0));
        match attempt.settle(raw, is_held) {
            Settled::Ended(end) => ends.push(end),
            Settled::Completed { .. } | Settled::Lost => {
                shared.claim_records.ended(worker, std::iter::once(key));
                shared.recorder.written(std::iter::once(key));
            }
        }
    }
    ends
}

/// The jobs that are still held. Waits while the database is away. None: it is up, and does not answer this.
async fn still_held(shared: &Shared, worker: WorkerId, holds: &[Hold]) -> Option<HashSet<i64>> {
    let began = Instant::now();
    let mut failures = Failures::default();
    loop {
        match shared.config.store.still_held(worker, holds).await {
            Ok(held) => {
                shared.health.up(&mut failures);
                return Some(held.into_iter().collect());
            }
            Err(error)
                if shared.config.store.trouble(&error) == Trouble::Refused
                    || (began.elapsed() > shared.config.timing.lease && shared.lease.holds()) =>
            {
                tracing::warn!(%error, "cannot look whether jobs were completed by their own transactions");
                shared.health.up(&mut failures);
                return None;
            }
            Err(error) => shared.health.down(&mut failures, &error).await,
        }
    }
}
