//! What stops a running attempt, and why.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;
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
    /// The handler may hold the lock on its job's row, for as long as it likes. No statement for several jobs may begin
    /// to wait for that lock.
    locks_row: AtomicBool,
    /// Held by such a statement while it is under way.
    row: Arc<Mutex<()>>,
}

impl Switch {
    /// The handler is about to lock the row of its job. A statement for several jobs that is under way gets some time to
    /// end. It may need more: it may wait for something that the handler's transaction has locked.
    pub(crate) async fn handler_locks_row(&self, patience: Duration) {
        self.locks_row.store(true, Ordering::SeqCst);
        if !patience.is_zero() {
            let _ = timeout(patience, self.row.lock()).await;
        }
    }

    /// For a statement for several jobs. None: the handler may hold the row.
    pub(crate) fn may_lock_row(&self) -> Option<OwnedMutexGuard<()>> {
        let guard = self.row.clone().try_lock_owned().ok()?;
        (!self.locks_row.load(Ordering::SeqCst)).then_some(guard)
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
    async fn a_handler_that_locks_its_row_lets_a_statement_end_and_none_begin() {
        const LONG: Duration = Duration::from_secs(60);
        let switch = Arc::new(Switch::default());
        let statement = switch.may_lock_row().expect("nobody locks it");
        let of_handler = switch.clone();
        let mut handler = tokio::spawn(async move { of_handler.handler_locks_row(LONG).await });
        let soon = Duration::from_millis(50);
        assert!(timeout(soon, &mut handler).await.is_err(), "the statement is under way");
        drop(statement);
        handler.await.unwrap();
        assert!(switch.may_lock_row().is_none());
        switch.handler_locks_row(LONG).await; // once more costs nothing

        let switch = Switch::default();
        let _statement = switch.may_lock_row();
        timeout(LONG, switch.handler_locks_row(soon)).await.expect("it does not wait for ever");
        timeout(LONG, switch.handler_locks_row(Duration::ZERO)).await.expect("nor at all, if it must not");
    }
}
