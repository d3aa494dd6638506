//! Orphans: jobs that the database counts as this worker's, but that the worker does not know. A claim took them, and
//! its answer was lost with the connection.
//!
//! The claim loop checks for them between two claims. No answer can be on its way then, so a job that is held but not
//! in hand is an orphan. Only a statement that the server still runs for a lost connection can add more. The loop
//! therefore checks several times after a failed claim. A worker that ends checks once more.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::store::values::{End, Hold, WorkerId};
use crate::telemetry::Event;
use crate::worker::notices::until;
use crate::worker::record::refused::answered;
use crate::worker::shared::Shared;

/// When to check after a failed claim. The server gives up a claim that has waited for locks for 2 s.
const LOOKS: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(6),
    Duration::from_secs(12),
    Duration::from_secs(30),
];

/// When to check, and what the last check found.
#[derive(Default)]
pub(crate) struct Orphans {
    failed: Option<Instant>,
    /// How many checks there were since then.
    looks: usize,
    found: HashSet<Hold>,
}

impl Orphans {
    /// A claim failed: it may still have taken jobs.
    pub(crate) fn doubt(&mut self) {
        *self = Self { failed: Some(Instant::now()), looks: 0, found: std::mem::take(&mut self.found) };
    }

    fn due(&self) -> Option<Instant> {
        Some(self.failed? + *LOOKS.get(self.looks)?)
    }

    /// Waits until the next check is due; forever if none is.
    pub(crate) async fn wait(&self) {
        until(self.due()).await;
    }

    /// Releases orphans, if a check is due. Call it only while no claim is under way.
    pub(crate) async fn look(&mut self, shared: &Shared) {
        if self.due().is_none_or(|due| Instant::now() < due) {
            return;
        }
        let worker = shared.lease.id();
        if worker == 0 {
            // the jobs of the old number are rescued
            *self = Self::default();
            return;
        }
        let before = in_hand(shared);
        // while the database is away, the checks are not used up
        let Ok(held) = shared.config.store.holding(worker).await else {
            self.failed = Some(Instant::now());
            return;
        };
        self.looks += 1;
        let after = in_hand(shared);
        let unknown = held.into_iter().filter(|hold| !before.contains(&hold.key()) && !after.contains(&hold.key()));
        let last = std::mem::replace(&mut self.found, unknown.collect());
        if worker != shared.lease.id() {
            *self = Self::default();
            return;
        }
        // seen twice: a job that moves from one place to the next is in neither for a moment
        for hold in self.found.intersection(&last) {
            release(shared, worker, *hold);
        }
    }
}

/// Releases all jobs that the database counts as this worker's. Call it when the worker has nothing in hand and claims
/// nothing more. It also finds orphans that appeared after the last check.
pub(crate) async fn release_all(shared: &Shared) -> Result<(), Error> {
    let worker = shared.lease.id();
    // without a number, the jobs of the old one are rescued
    if worker != 0 {
        let held = answered(shared, false, || shared.config.store.holding(worker)).await?;
        held.into_iter().for_each(|hold| release(shared, worker, hold));
    }
    Ok(())
}

fn release(shared: &Shared, worker: WorkerId, hold: Hold) {
    shared.tell(Event::ClaimLost { id: hold.id });
    shared.recorder.record(worker, None, End::unstarted(hold));
}

/// The jobs in this worker's hands, read in the order in which they pass through them.
fn in_hand(shared: &Shared) -> HashSet<(i64, i32)> {
    let mut known: HashSet<(i64, i32)> = shared.work.slots.keys().into_iter().collect();
    known.extend(shared.work.held().keys().copied());
    known.extend(shared.recorder.keys().keys().copied());
    known
}
