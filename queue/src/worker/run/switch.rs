//! What stops a running attempt, and why.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

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
    /// The handler may hold the lock on its job's row, for as long as it likes. Nothing else may wait for that lock.
    pub(crate) locks_row: AtomicBool,
}

impl Switch {
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
}
