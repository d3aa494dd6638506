//! Estimates from the last claims how far the next jobs reach in the order of all lanes. No I/O.
//!
//! To claim the next 500 jobs of 64 lanes in order, the database would have to read the first 500 of each. It would
//! read 32,000 jobs for 500. A lane does not give a steady share of the jobs: it may give all of them for a while, then
//! none. But all lanes together advance in time about as fast as they just did. If all jobs are due at the same time
//! (every customer's nightly job), they advance in ids. So only jobs up to a little further than needed are read. The
//! estimate affects nothing but the cost. If it brings less than half of the jobs, it is extended, and in the end
//! everything is read.

use crate::store::values::Rank;

/// An estimate reaches this many times as far as the last pace suggests.
const AMPLE: f64 = 1.5;
/// An estimate reaches at least this far: microseconds, or ids.
const LEAST: f64 = 1_000.0;
const LEAST_IDS: f64 = 100.0;
/// An estimate that was too short is extended by this factor.
const FURTHER: f64 = 16.0;
/// After this many estimates that were too short, everything is read.
const TRIES: i32 = 3;
/// The longest estimate: 366 days in microseconds.
const MOST: f64 = 366.0 * 86_400e6;
/// After wrong estimates in a row, at most this many claims run without one.
const LONGEST_REST: u32 = 64;

/// The distance from one job to the next.
#[derive(Debug, Clone, Copy)]
enum Density {
    /// Microseconds.
    Time(f64),
    /// Ids, because all jobs were due at the same time.
    Ids(f64),
}

/// The pace of the jobs that one set of slots took last.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    /// How far the last claim came, and its pace.
    reached: Option<(Rank, Density)>,
    /// How many estimates were too short for the present claim.
    tries: i32,
    /// How many claims still run without an estimate, and how many there were after the last wrong one.
    rest: u32,
    last_rest: u32,
}

impl Horizon {
    /// The next `take` jobs are expected before this rank. None: no estimate, read everything.
    pub(super) fn until(&mut self, take: u32) -> Option<Rank> {
        self.tries = 0;
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        self.guess(take)
    }

    /// The estimate was long enough.
    pub(super) fn was_right(&mut self) {
        self.last_rest = 0;
    }

    /// A longer estimate, after one that was too short. None: read everything.
    pub(super) fn further(&mut self, take: u32) -> Option<Rank> {
        self.tries += 1;
        if self.tries < TRIES {
            return self.guess(take);
        }
        self.last_rest = (self.last_rest * 2).clamp(1, LONGEST_REST);
        self.rest = self.last_rest;
        None
    }

    fn guess(&self, take: u32) -> Option<Rank> {
        let ((priority, (time, id)), pace) = self.reached?;
        let ample = |pace: f64| pace * f64::from(take) * AMPLE;
        let pace = match pace {
            Density::Ids(pace) if self.tries == 0 => {
                return Some((priority, (time, id.saturating_add((ample(pace) + LEAST_IDS) as i64))));
            }
            // no more jobs are due at that time
            Density::Ids(_) => 0.0,
            Density::Time(pace) => pace,
        };
        let ahead = (ample(pace) + LEAST) * FURTHER.powi(self.tries);
        Some((priority, (time.checked_add(ahead.min(MOST) as i64)?, i64::MIN)))
    }

    /// These jobs were claimed, and there are more. Jobs that other workers took since the last claim count for the
    /// pace too.
    pub(super) fn claimed(&mut self, jobs: impl Iterator<Item = Rank> + Clone) {
        let Some((priority, last)) = jobs.clone().max() else { return };
        let (mut count, mut first) = (0_u32, last);
        for (_, place) in jobs.filter(|job| job.0 == priority) {
            count += 1;
            first = first.min(place);
        }
        let before = self.reached.map(|(reached, _)| reached).filter(|before| before.0 == priority && before.1 < last);
        let from = before.map_or(first, |(_, place)| place);
        let per_job = |from: i64, to: i64| to.saturating_sub(from) as f64 / f64::from(count);
        let pace = if from.0 == last.0 {
            Density::Ids(per_job(from.1, last.1))
        } else {
            Density::Time(per_job(from.0, last.0))
        };
        self.reached = Some(((priority, last), pace));
    }

    /// No due job is left.
    pub(super) fn forget(&mut self) {
        self.reached = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of these priorities and times, with consecutive ids.
    fn claimed(horizon: &mut Horizon, jobs: &[(i16, i64)]) {
        let ids = 1..;
        horizon.claimed(jobs.iter().zip(ids).map(|(&(priority, time), id)| (priority, (time, id))));
    }

    /// Jobs that are due from this time on are not read.
    fn time(priority: i16, time: i64) -> Option<Rank> {
        Some((priority, (time, i64::MIN)))
    }

    #[test]
    fn the_next_jobs_are_expected_at_the_pace_of_the_last() {
        let mut horizon = Horizon::default();
        assert_eq!(horizon.until(10), None, "nothing is known");
        claimed(&mut horizon, &[(0, 5_000), (1, 10_000), (1, 40_000), (1, 30_000)]);
        assert_eq!(horizon.until(10), time(1, 40_000 + 150_000 + 1_000), "10,000 from one job to the next");
        assert_eq!(horizon.further(10), time(1, 40_000 + 16 * 151_000));
        assert_eq!(horizon.until(20), time(1, 40_000 + 300_000 + 1_000));
        claimed(&mut horizon, &[(1, 80_000), (1, 80_000)]);
        assert_eq!(horizon.until(10), time(1, 80_000 + 300_000 + 1_000), "others took some in between");
        claimed(&mut horizon, &[]);
        assert!(horizon.until(1).is_some(), "an empty claim changes nothing");
        horizon.forget();
        assert_eq!(horizon.until(10), None);
    }

    #[test]
    fn of_one_and_the_same_time_they_are_expected_at_the_pace_of_their_ids() {
        let mut horizon = Horizon::default();
        horizon.claimed([(0, (70, 10)), (0, (70, 30)), (0, (70, 50))].into_iter());
        assert_eq!(horizon.until(30), Some((0, (70, 50 + 600 + 100))), "40 ids for three jobs, times 1.5");
        horizon.claimed([(0, (70, 60)), (0, (70, 90))].into_iter());
        assert_eq!(horizon.until(30), Some((0, (70, 90 + 900 + 100))), "40 ids for two jobs since the last claim");
        assert_eq!(horizon.further(30), time(0, 70 + 16_000), "no more jobs are due at that time");
        horizon.claimed([(0, (70, 91)), (0, (90, 1))].into_iter());
        assert_eq!(horizon.until(10), time(0, 90 + 150 + 1_000));
        horizon.claimed([(0, (90, i64::MAX))].into_iter());
        assert_eq!(horizon.until(u32::MAX), Some((0, (90, i64::MAX))));
    }

    #[test]
    fn times_may_be_absurd() {
        let mut horizon = Horizon::default();
        claimed(&mut horizon, &[(0, i64::MIN), (0, 0)]);
        assert_eq!(horizon.until(u32::MAX), time(0, MOST as i64));
        claimed(&mut horizon, &[(0, i64::MIN), (0, i64::MAX)]);
        assert_eq!(horizon.until(1), None);
    }

    #[test]
    fn after_wrong_guesses_there_are_fewer_and_fewer() {
        let mut horizon = Horizon::default();
        claimed(&mut horizon, &[(0, 1)]);
        let mut rests = Vec::new();
        for _ in 0..9 {
            while horizon.further(1).is_some() {}
            let mut rest = 0;
            while horizon.until(1).is_none() {
                rest += 1;
            }
            rests.push(rest);
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        horizon.was_right();
        while horizon.further(1).is_some() {}
        assert_eq!((horizon.until(1), horizon.until(1).is_some()), (None, true));
    }
}
