//! What looks and scans cost, and how seldom that makes them.

use std::time::Duration;

/// Lanes are looked for, and each is scanned again from a little before its cursor, at least this seldom …
pub(super) const RESCAN: Duration = Duration::from_millis(250);
/// … and so much more seldom than that takes …
pub(super) const RATION: u32 = 50;
/// … but never more seldom than this in the case of a look, which walks over all that was ever taken …
const LONGEST_LOOK: Duration = Duration::from_secs(30);
/// … and this in the case of a scan, which walks over what was due.
pub(super) const LONGEST_SCAN: Duration = Duration::from_secs(2);
/// A cheap scan needs no ration; while looks are cheap they are made at every wake, and a lane that one finds empty is
/// forgotten.
const CHEAP: Duration = Duration::from_millis(5);

/// What looks or scans cost: the least of the last few, because a pause of the machine or the network may fall into any one
/// of them, but an expensive one is expensive every time.
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

    /// Zero until there were three.
    pub(super) fn least(&self) -> Duration {
        self.last.into_iter().min().unwrap_or_default()
    }

    pub(super) fn is_cheap(&self) -> bool {
        self.least() < CHEAP
    }

    /// How long to wait before the next one.
    pub(super) fn pause(&self) -> Duration {
        (self.least() * RATION).clamp(RESCAN, self.longest)
    }
}
