//! How far the next jobs reach in the order of all lanes, guessed from the last ones. Without any I/O.
//!
//! To take the next 500 jobs of 64 lanes in order, the first 500 of each would have to be read, though all but 500 of those
//! 32,000 are left for later. Jobs come from their lanes in no steady shares (a lane gives everything for a while, then
//! nothing), but all lanes together go forward in time about as fast as they just did; where all are due at one and the same time
//! (every customer's nightly job), in ids. So only what comes before a place a little further than needed is read. The guess
//! decides nothing: where it brings less than half, everything is read in the end.

use crate::store::Rank;

/// So many times what is needed by the pace of the last jobs …
const AMPLE: f64 = 1.5;
/// … and a little more: microseconds, or ids.
const LEAST: f64 = 1_000.0;
const LEAST_IDS: f64 = 100.0;
/// Where that is too little, so many times as far …
const FURTHER: f64 = 16.0;
/// … and nothing more is guessed when that was too little, too.
const TRIES: i32 = 3;
/// No guess goes further than this.
const MOST: f64 = 366.0 * 86_400e6;
/// After wrong guesses in a row, so many claims at most go without one.
const LONGEST_REST: u32 = 64;

/// How far one job is from the next.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// Microseconds.
    Time(f64),
    /// All were due at one and the same time.
    Ids(f64),
}

/// The pace of the jobs that some slots took last.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    /// How far the last claim came.
    reached: Option<(Rank, Pace)>,
    /// How often the present guess was too little.
    tries: i32,
    /// Claims that go without a guess yet, and how many it were after the last wrong one.
    rest: u32,
    last_rest: u32,
}

impl Horizon {
    /// Before what the next `take` jobs are expected. None: no guess.
    pub(super) fn until(&mut self, take: u32) -> Option<Rank> {
        self.tries = 0;
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        self.guess(take)
    }

    /// Up to there it was enough.
    pub(super) fn was_right(&mut self) {
        self.last_rest = 0;
    }

    /// Up to there it was too little.
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
            Pace::Ids(pace) if self.tries == 0 => {
                return Some((priority, (time, id.saturating_add((ample(pace) + LEAST_IDS) as i64))));
            }
            // no more are due at that time
            Pace::Ids(_) => 0.0,
            Pace::Time(pace) => pace,
        };
        let ahead = (ample(pace) + LEAST) * FURTHER.powi(self.tries);
        Some((priority, (time.checked_add(ahead.min(MOST) as i64)?, i64::MIN)))
    }

    /// These jobs were taken, and there is more. What others took since the last claim belongs to the pace as well.
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
        let pace =
            if from.0 == last.0 { Pace::Ids(per_job(from.1, last.1)) } else { Pace::Time(per_job(from.0, last.0)) };
        self.reached = Some(((priority, last), pace));
    }

    /// Everything was taken that was due.
    pub(super) fn forget(&mut self) {
        self.reached = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs of these priorities and times, one id after the other.
    fn claimed(horizon: &mut Horizon, jobs: &[(i16, i64)]) {
        let ids = 1..;
        horizon.claimed(jobs.iter().zip(ids).map(|(&(priority, time), id)| (priority, (time, id))));
    }

    /// What is due from then on is not read.
    fn time(priority: i16, time: i64) -> Option<Rank> {
        Some((priority, (time, i64::MIN)))
    }

    #[test]
    fn the_next_jobs_are_expected_at_the_pace_of_the_last() {
        let mut horizon = Horizon::default();
        assert_eq!(horizon.until(10), None, "nothing is known");
        claimed(&mut horizon, &[(0, 5_000), (1, 10_000), (1, 40_000), (1, 30_000)]);
        assert_eq!(horizon.until(10), time(1, 40_000 + 150_000 + 1_000), "10,000 from one to the next");
        assert_eq!(horizon.further(10), time(1, 40_000 + 16 * 151_000));
        assert_eq!(horizon.until(20), time(1, 40_000 + 300_000 + 1_000));
        claimed(&mut horizon, &[(1, 80_000), (1, 80_000)]);
        assert_eq!(horizon.until(10), time(1, 80_000 + 300_000 + 1_000), "others took some in between");
        claimed(&mut horizon, &[]);
        assert!(horizon.until(1).is_some(), "a claim that others were faster than says nothing");
        horizon.forget();
        assert_eq!(horizon.until(10), None);
    }

    #[test]
    fn of_one_and_the_same_time_they_are_expected_at_the_pace_of_their_ids() {
        let mut horizon = Horizon::default();
        horizon.claimed([(0, (70, 10)), (0, (70, 30)), (0, (70, 50))].into_iter());
        assert_eq!(horizon.until(30), Some((0, (70, 50 + 600 + 100))), "40 for three, and ample");
        horizon.claimed([(0, (70, 60)), (0, (70, 90))].into_iter());
        assert_eq!(horizon.until(30), Some((0, (70, 90 + 900 + 100))), "40 for two since the last");
        assert_eq!(horizon.further(30), time(0, 70 + 16_000), "there are no more of that time");
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
