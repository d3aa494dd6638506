//! How much work may cost before it is rationed: discovery, scans of lanes, and waits for the claim lock. No I/O.

use std::time::Duration;

use tokio::time::Instant;

/// The shortest pause between two discoveries, and between two scans of a lane from before its cursor.
pub(super) const RESCAN: Duration = Duration::from_millis(250);
/// A pause lasts this many times as long as the work before it.
pub(super) const RATION: u32 = 50;
/// The longest pause between two discoveries. Discovery walks over the entries of all rows that were ever taken.
const LONGEST_LOOK: Duration = Duration::from_secs(30);
/// The longest pause between two scans of a lane. A scan walks only over rows that were due lately.
pub(super) const LONGEST_SCAN: Duration = Duration::from_secs(2);
/// Scans that cost less are not rationed. Discovery that costs less runs at every wake-up, and a lane that it finds
/// empty is forgotten.
const CHEAP: Duration = Duration::from_millis(5);

/// The cost of discovery or of scans: the least of the last three. A pause of the machine or the network may fall into
/// any one of them, but real cost shows in all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    last: [Duration; 3],
    next: usize,
    longest: Duration,
}

impl Cost {
    pub(super) fn of_looks() -> Self {
        Self { last: Default::default(), next: 0, longest: LONGEST_LOOK }
    }

    pub(super) fn of_scans() -> Self {
        Self { longest: LONGEST_SCAN, ..Self::of_looks() }
    }

    pub(super) fn add(&mut self, cost: Duration) {
        self.last[self.next % 3] = cost;
        self.next += 1;
    }

    /// Zero until three were measured.
    pub(super) fn least(&self) -> Duration {
        self.last.into_iter().min().unwrap_or_default()
    }

    pub(super) fn is_cheap(&self) -> bool {
        self.least() < CHEAP
    }

    /// The pause before the next one.
    pub(super) fn pause(&self) -> Duration {
        (self.least() * RATION).clamp(RESCAN, self.longest)
    }
}

/// How long a worker skips the lock after it came too late or not at all. Its holder is slow, stopped, or gone without
/// the server knowing. The time doubles with each failure, up to `LONGEST`.
pub(super) const WITHOUT: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);

/// Waiting is not worth it if it takes this many times as long as our own claim.
const WORTH: u32 = 30;

/// Whether to wait for the claim lock at present.
#[derive(Debug, Default)]
pub(super) struct LockBackoff {
    /// Until when the lock is skipped, and how long that is in total.
    without: Option<(Instant, Duration)>,
}

impl LockBackoff {
    pub(super) fn waits(&self) -> bool {
        self.without.is_none_or(|(until, _)| Instant::now() >= until)
    }

    /// The lock came after `waited`, and the claim under it took `took`.
    pub(super) fn turn_came(&mut self, waited: Duration, took: Duration) {
        if waited > took * WORTH {
            self.lose();
        } else {
            self.without = None;
        }
    }

    /// The lock did not come, or came too late.
    pub(super) fn lose(&mut self) {
        let pause = self.without.map_or(WITHOUT, |(_, last)| (last * 2).min(LONGEST));
        // jitter, so that workers do not try again at the same time
        let until = Instant::now() + pause.mul_f64(0.75 + fastrand::f64() / 2.0);
        self.without = Some((until, pause));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn turns_that_do_not_come_are_tried_later_and_later() {
        let mut backoff = LockBackoff::default();
        assert!(backoff.waits());
        for pause in [30, 60, 120, 240, 480, 600, 600] {
            backoff.lose();
            advance(Duration::from_secs(pause).mul_f64(0.74)).await;
            assert!(!backoff.waits(), "{pause}");
            advance(Duration::from_secs(pause).mul_f64(0.52)).await;
            assert!(backoff.waits(), "{pause}");
        }
        backoff.turn_came(30 * MS, MS);
        backoff.lose();
        advance(Duration::from_secs(38)).await;
        assert!(backoff.waits(), "a wait that was worth it resets the pause");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_much_longer_than_a_claim_is_not_repeated() {
        let mut backoff = LockBackoff::default();
        backoff.turn_came(30 * MS, MS);
        assert!(backoff.waits());
        backoff.turn_came(31 * MS, MS);
        assert!(!backoff.waits());
    }
}
