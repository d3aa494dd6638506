//! Jobs that the database counts as this worker's although it does not know of them: what a claim took whose answer was lost
//! with its connection.
//!
//! The claim loop itself looks for them, between two of its claims: so no answer can be on its way, and whatever is held and
//! not in hand is a stray. Only a statement that the server is still running for a connection that is gone can add to them
//! later; that is why it looks several times after a claim has failed. A worker that ends looks once more.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::store::WorkerId;
use crate::telemetry;
use crate::worker::lease::health::Failures;
use crate::worker::run::attempt::Ended;
use crate::worker::run::slots::Slots;
use crate::worker::shared::Shared;

/// When to look, after a claim that failed. The server gives up a claim that waits for locks after 2 s.
const LOOKS: [Duration; 7] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(6),
    Duration::from_secs(12),
    Duration::from_secs(30),
];

type Key = (i64, i32);

/// What is to be looked for, and what the last look found.
#[derive(Default)]
pub(crate) struct Strays {
    failed: Option<Instant>,
    /// How many looks there were since.
    looks: usize,
    found: HashSet<Key>,
}

impl Strays {
    /// A claim failed: it may have taken jobs all the same.
    pub(crate) fn doubt(&mut self) {
        *self = Self { failed: Some(Instant::now()), looks: 0, found: std::mem::take(&mut self.found) };
    }

    fn due(&self) -> Option<Instant> {
        Some(self.failed? + *LOOKS.get(self.looks)?)
    }

    /// Until it is time to look; for ever when there is no doubt.
    pub(crate) async fn wait(&self) {
        match self.due() {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Gives strays back, when it is time to look for them. To be called while no claim is under way.
    pub(crate) async fn look(&mut self, shared: &Shared) {
        if self.due().is_none_or(|due| Instant::now() < due) {
            return;
        }
        let worker = shared.id();
        if worker == 0 {
            // what it held under its last number is rescued
            *self = Self::default();
            return;
        }
        let before = in_hand(shared);
        // while the database is away the looks are not used up
        let Ok(held) = shared.config.store.holding(worker).await else {
            self.failed = Some(Instant::now());
            return;
        };
        self.looks += 1;
        let after = in_hand(shared);
        let unknown = held.into_iter().filter(|key| !before.contains(key) && !after.contains(key));
        let last = std::mem::replace(&mut self.found, unknown.collect());
        if worker != shared.id() {
            *self = Self::default();
            return;
        }
        // seen twice: a job on its way from one hand to the next is in neither for a moment
        for key in self.found.intersection(&last) {
            release(shared, worker, *key);
        }
    }
}

/// Gives back all that the database counts as this worker's, once it has nothing in hand and claims nothing more: what a claim
/// took whose answer was lost, and what came of it later than the looks above.
pub(crate) async fn give_back(shared: &Shared) {
    let mut failures = Failures::default();
    loop {
        let worker = shared.id();
        if worker == 0 {
            // what it held under its last number is rescued
            return;
        }
        match shared.config.store.holding(worker).await {
            Ok(held) => {
                shared.health.up(&mut failures);
                held.into_iter().for_each(|key| release(shared, worker, key));
                return;
            }
            Err(error) => shared.health.down(&mut failures, &error).await,
        }
    }
}

fn release(shared: &Shared, worker: WorkerId, key: Key) {
    tracing::warn!(event = telemetry::JOB_RELEASED, job.id = key.0, "a claim's answer was lost; given back");
    shared.recorder.record(worker, Ended::stray(key));
}

/// What goes through this worker's hands, in the order in which it does.
fn in_hand(shared: &Shared) -> HashSet<Key> {
    let mut known: HashSet<Key> = shared.slots.iter().flat_map(Slots::keys).collect();
    known.extend(shared.held().keys().copied());
    known.extend(shared.recorder.keys().iter().copied());
    known
}
