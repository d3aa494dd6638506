//! The cost of discovery and of scans, and how far that limits them.

use std::time::Duration;

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
