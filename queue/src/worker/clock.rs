//! The database's clock, as this worker knows it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::micros;

/// How far the database's clock is ahead of ours. The clocks of the workers' machines do not matter.
pub(crate) struct DatabaseClock {
    base: Instant,
    /// The database's time at `base`, in microseconds since 1970. 0: not known yet.
    then: AtomicI64,
}

impl DatabaseClock {
    pub(crate) fn new() -> Self {
        Self { base: Instant::now(), then: AtomicI64::new(0) }
    }

    /// The database said that it was `now`, when it was asked at this moment.
    pub(crate) fn learn(&self, asked: Instant, now: i64) {
        self.then.store(now - micros(asked.saturating_duration_since(self.base)), Ordering::Relaxed);
    }

    /// How long ago this time was, in microseconds since 1970. None: the clock is not known yet. Zero: it is to come.
    pub(crate) fn since(&self, time: i64) -> Option<Duration> {
        let then = self.then.load(Ordering::Relaxed);
        let now = then.saturating_add(micros(self.base.elapsed()));
        (then != 0).then(|| Duration::from_micros(u64::try_from(now.saturating_sub(time)).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn times_count_by_the_databases_clock() {
        let clock = DatabaseClock::new();
        assert_eq!(clock.since(0), None);
        tokio::time::advance(Duration::from_secs(3)).await;
        clock.learn(Instant::now(), 1_700_000_000_000_000);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(clock.since(1_699_999_999_000_000), Some(Duration::from_secs(6)));
        assert_eq!(clock.since(1_800_000_000_000_000), Some(Duration::ZERO));
    }
}
