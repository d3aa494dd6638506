//! What one loop of a worker tells another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::worker::lease::liveness::LostWorker;

/// What one loop tells another. Each field names the sender and the receiver.
#[derive(Default)]
pub(crate) struct Notices {
    /// Anybody to claim: something may have been enqueued.
    pub(crate) enqueued: Arc<Notify>,
    /// Slots, results and isolation to claim: a slot may have room for a job.
    pub(crate) room: Arc<Notify>,
    /// Claim to heartbeat: an idle worker got work, so its next heartbeat should come soon.
    pub(crate) at_work: Notify,
    /// Slots and results to shutdown: a slot became free, or something was recorded.
    pub(crate) progress: Notify,
    /// Heartbeat to rescue: lost workers may have jobs.
    pub(crate) rescue: Notify,
    quiet: AtomicBool,
    rescued: AtomicBool,
    lost: Mutex<Vec<LostWorker>>,
}

impl Notices {
    pub(crate) fn new(enqueued: Arc<Notify>) -> Self {
        Self { enqueued, ..Self::default() }
    }

    /// Claim to heartbeat: the claim loop waits to be woken, and leaves discovery to the heartbeat.
    pub(crate) fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Rescue to claim: jobs were rescued, so the claim loop should run discovery for them.
    pub(crate) fn set_rescued(&self) {
        self.rescued.store(true, Ordering::Relaxed);
    }

    pub(crate) fn were_rescued(&self) -> bool {
        self.rescued.load(Ordering::Relaxed)
    }

    /// As [`were_rescued`](Self::were_rescued), and forgets it.
    pub(crate) fn take_rescued(&self) -> bool {
        self.rescued.swap(false, Ordering::Relaxed)
    }

    /// Heartbeat to rescue: these workers are to be declared lost.
    pub(crate) fn set_lost(&self, workers: Vec<LostWorker>) {
        if !workers.is_empty() {
            *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = workers;
            self.rescue.notify_one();
        }
    }

    pub(crate) fn take_lost(&self) -> Vec<LostWorker> {
        std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
