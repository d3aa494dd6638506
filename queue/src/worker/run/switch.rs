//! What stops a running attempt, and why.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

/// Why an attempt was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stop {
    Timeout = 1,
    Cancelled = 2,
    Shutdown = 3,
    LeaseLost = 4,
}

/// Stops a running attempt. Fires once, with the first reason. A lost lease overrides every other reason.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    pub(crate) token: CancellationToken,
    /// Ends even the grace period, because another worker may have the job by now.
    pub(crate) lost: CancellationToken,
    reason: AtomicU8,
    /// Whoever wants to lock the job's row takes this before. A handler keeps it: it may hold the row as long as it
    /// likes, and no statement for several jobs may wait for it.
    row: Arc<Mutex<()>>,
    kept: OnceLock<OwnedMutexGuard<()>>,
}

impl Switch {
    /// The handler is about to lock the row of its job. Waits for a statement of the worker that is under way.
    pub(crate) async fn handler_locks_row(&self) {
        if self.kept.get().is_none() {
            let guard = self.row.clone().lock_owned().await;
            let _ = self.kept.set(guard);
        }
    }

    /// For a statement of the worker, which ends soon. None: the handler may hold the row.
    pub(crate) fn may_lock_row(&self) -> Option<OwnedMutexGuard<()>> {
        self.row.clone().try_lock_owned().ok()
    }

    pub(crate) fn stop(&self, why: Stop) {
        if why == Stop::LeaseLost {
            self.reason.store(why as u8, Ordering::Release);
            self.lost.cancel();
        }
        let _ = self.reason.compare_exchange(0, why as u8, Ordering::AcqRel, Ordering::Acquire);
        self.token.cancel();
    }

    pub(crate) fn reason(&self) -> Option<Stop> {
        match self.reason.load(Ordering::Acquire) {
            1 => Some(Stop::Timeout),
            2 => Some(Stop::Cancelled),
            3 => Some(Stop::Shutdown),
            4 => Some(Stop::LeaseLost),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_to_stop_counts() {
        let switch = Switch::default();
        assert_eq!(switch.reason(), None);
        switch.stop(Stop::Timeout);
        switch.stop(Stop::Shutdown);
        assert_eq!(switch.reason(), Some(Stop::Timeout));
        assert!(switch.token.is_cancelled());
        switch.stop(Stop::LeaseLost);
        assert_eq!(switch.reason(), Some(Stop::LeaseLost));
    }

    #[tokio::test]
    async fn a_handler_that_locks_its_row_waits_for_the_worker_and_then_keeps_it() {
        let switch = Arc::new(Switch::default());
        let statement = switch.may_lock_row().expect("nobody locks it");
        let of_handler = switch.clone();
        let mut handler = tokio::spawn(async move { of_handler.handler_locks_row().await });
        let soon = std::time::Duration::from_millis(50);
        assert!(tokio::time::timeout(soon, &mut handler).await.is_err(), "the statement is under way");
        drop(statement);
        handler.await.unwrap();
        assert!(switch.may_lock_row().is_none());
        switch.handler_locks_row().await; // once more costs nothing
    }
}
