//! A job in hand.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::registry::JobDefinition;
use crate::store::values::{Claimed, WorkerId};
use crate::worker::run::isolation::Admission;
use crate::worker::run::switch::Switch;

/// A job in hand: its attempt runs, or is about to.
pub(crate) struct Held {
    pub(crate) job: Arc<Claimed>,
    pub(crate) worker: WorkerId,
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) switch: Arc<Switch>,
    /// Index into `Work::slots`.
    pub(crate) slots: usize,
    /// Empty while the attempt waits for its turn to begin.
    pub(crate) started: OnceLock<Instant>,
    /// The database knows that the attempt has begun.
    pub(crate) noted: AtomicBool,
    place: Mutex<Option<Admission>>,
}

impl Held {
    pub(crate) fn new(job: Arc<Claimed>, worker: WorkerId, definition: Arc<JobDefinition>, slots: usize) -> Self {
        let (started, noted, place) = (OnceLock::new(), AtomicBool::new(false), Mutex::default());
        Self { job, worker, definition, switch: Arc::default(), slots, started, noted, place }
    }

    pub(crate) fn key(&self) -> (i64, i32) {
        self.job.hold().key()
    }

    pub(crate) fn begin(&self) -> Instant {
        *self.started.get_or_init(Instant::now)
    }

    /// How long it has run.
    pub(crate) fn ran(&self) -> Duration {
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub(crate) fn place(&self) -> MutexGuard<'_, Option<Admission>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_place(&self, place: Admission) {
        *self.place() = Some(place);
    }

    pub(crate) fn leave_isolation(&self) {
        drop(self.place().take());
    }
}
