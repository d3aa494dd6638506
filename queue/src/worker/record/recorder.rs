//! The channel to the recording loop.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::store::values::WorkerId;
use crate::worker::run::attempt::Ended;

/// Ends recorded in one transaction.
pub(crate) const BATCH: usize = 1000;
/// With more unrecorded ends than this, nothing more is claimed.
pub(crate) const BACKLOG: usize = 4 * BATCH;

/// The channel to the recording loop.
pub(crate) struct Recorder {
    ended: mpsc::UnboundedSender<(WorkerId, Ended)>,
    /// Ends that were handed over and are not written yet, by job and fence.
    unrecorded: Mutex<HashSet<(i64, i32)>>,
}

impl Recorder {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<(WorkerId, Ended)>) {
        let (ended, receiver) = mpsc::unbounded_channel();
        (Self { ended, unrecorded: Mutex::default() }, receiver)
    }

    /// Hands an end over. Never waits.
    pub(crate) fn record(&self, worker: WorkerId, ended: impl Into<Ended>) {
        let ended = ended.into();
        self.keys().insert(ended.hold().key());
        // the loop outlives everything that records: a closed channel means that the run was dropped
        let _ = self.ended.send((worker, ended));
    }

    pub(crate) fn unrecorded(&self) -> usize {
        self.keys().len()
    }

    pub(crate) fn written(&self, keys: impl Iterator<Item = (i64, i32)>) {
        let mut unrecorded = self.keys();
        for key in keys {
            unrecorded.remove(&key);
        }
    }

    /// Jobs and fences whose ends are not written yet.
    pub(crate) fn keys(&self) -> MutexGuard<'_, HashSet<(i64, i32)>> {
        self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
