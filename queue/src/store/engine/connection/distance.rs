//! How far away the database is: how much of a statement's time the network takes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::Connection as _;

use crate::store::engine::dialect::Dialect;

/// A statement that takes longer than this triggers a measurement, unless the known round trip explains it.
const WORTH: Duration = Duration::from_millis(2);
/// How long a measurement is valid.
const BELIEVED: Duration = Duration::from_secs(60);
/// How often a round trip is measured. The shortest counts, because the machine may pause during any of them.
const TRIES: usize = 2;

/// The last measured round trip. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distance(Arc<Mutex<Option<(Instant, Duration)>>>);

impl Distance {
    /// The time that a statement took, less `round_trips` over the network. A round trip is measured only when the
    /// known one does not explain a long time. So a worker near its database hardly ever measures, and a distant one
    /// does once a minute.
    pub(crate) async fn without_network<DB: Dialect>(
        &self,
        conn: &mut DB::Connection,
        took: Duration,
        round_trips: u32,
    ) -> Result<Duration, sqlx::Error> {
        if DB::ONE_WRITER {
            return Ok(took);
        }
        let known = self.known(took / round_trips.max(1)).unwrap_or_default();
        let rest = took.saturating_sub(known * round_trips);
        if rest <= WORTH {
            return Ok(rest);
        }
        let mut least = Duration::MAX;
        for _ in 0..TRIES {
            let started = Instant::now();
            conn.ping().await?;
            least = least.min(started.elapsed());
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), least));
        Ok(took.saturating_sub(least * round_trips))
    }

    /// The known round trip, unless `seen` shows that it is shorter by now.
    fn known(&self, seen: Duration) -> Option<Duration> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = last.filter(|(at, round_trip)| at.elapsed() < BELIEVED && *round_trip <= seen);
        last.map(|(_, round_trip)| round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_forgotten_when_one_was_shorter() {
        let ms = Duration::from_millis;
        let distance = Distance::default();
        assert_eq!(distance.known(ms(1)), None);
        *distance.0.lock().unwrap() = Some((Instant::now(), ms(6)));
        assert_eq!(distance.known(ms(7)), Some(ms(6)));
        assert_eq!(distance.known(ms(5)), None);
        assert_eq!(distance.known(ms(7)), None);
    }
}
