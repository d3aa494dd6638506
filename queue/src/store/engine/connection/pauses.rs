//! When an operation that collided with others is tried again.

use std::time::{Duration, Instant};

/// The backoff between retries: short, growing, with jitter, so that conflicting operations do not collide again.
pub(crate) struct Pauses {
    tries: u32,
    until: Instant,
}

impl Pauses {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { tries: 0, until: Instant::now() + limit / 2 }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.tries += 1;
        let most = 5_000 << self.tries.min(7); // µs
        (self.tries <= 12 && Instant::now() < self.until).then(|| Duration::from_micros(fastrand::u64(1_000..most)))
    }
}
