//! How far the next jobs reach in the order of all lanes, guessed from the last ones. Without any I/O.
//!
//! To take the next 500 jobs of 64 lanes in order, the first 500 of each would have to be read, though all but 500 of those
//! 32,000 are left for later. Jobs come from their lanes in no steady shares (a lane gives everything for a while, then
//! nothing), but all lanes together go forward in time about as fast as they just did. So only what is due before a time a
//! little further than needed is read. The guess decides nothing: where it brings less than half, everything is read in the end.

use super::lanes::Rank;

/// So many times what is needed by the pace of the last jobs …
const AMPLE: f64 = 1.5;
/// … and a little more, should the last jobs have been due at one and the same time: microseconds.
const LEAST: f64 = 1_000.0;
/// Where that is too little, so many times as far …
const FURTHER: f64 = 16.0;
/// … and nothing more is guessed when that was too little, too.
const TRIES: i32 = 3;
/// No guess goes further than this.
const MOST: f64 = 366.0 * 86_400e6;
/// After wrong guesses in a row, so many claims at most go without one.
const LONGEST_REST: u32 = 64;

/// The pace of the jobs that some slots took last.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    /// How far the last claim came, and how far one job is from the next.
    reached: Option<(Rank, f64)>,
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
        let ((priority, last), pace) = self.reached?;
        let ahead = (pace * f64::from(take) * AMPLE + LEAST) * FURTHER.powi(self.tries);
        Some((priority, last.checked_add(ahead.min(MOST) as i64)?))
    }

    /// These jobs were taken, and there is more. What others took since the last claim belongs to the pace as well.
    pub(super) fn claimed(&mut self, jobs: impl Iterator<Item = Rank> + Clone) {
        let Some((priority, last)) = jobs.clone().max() else { return };
        let (mut count, mut first) = (0_u32, last);
        for (_, run_at) in jobs.filter(|job| job.0 == priority) {
            count += 1;
            first = first.min(run_at);
        }
        let before = self.reached.map(|(reached, _)| reached).filter(|before| before.0 == priority && before.1 < last);
        let from = before.map_or(first, |(_, run_at)| run_at);
        self.reached = Some(((priority, last), last.saturating_sub(from) as f64 / f64::from(count)));
    }

    /// Everything was taken that was due.
    pub(super) fn forget(&mut self) {
        self.reached = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_jobs_are_expected_at_the_pace_of_the_last() {
        let mut horizon = Horizon::default();
        assert_eq!(horizon.until(10), None, "nothing is known");
        horizon.claimed([(0, 5_000), (1, 10_000), (1, 40_000), (1, 30_000)].into_iter());
        assert_eq!(horizon.until(10), Some((1, 40_000 + 150_000 + 1_000)), "10,000 from one to the next");
        assert_eq!(horizon.further(10), Some((1, 40_000 + 16 * 151_000)));
        assert_eq!(horizon.until(20), Some((1, 40_000 + 300_000 + 1_000)));
        horizon.claimed([(1, 80_000), (1, 80_000)].into_iter());
        assert_eq!(horizon.until(10), Some((1, 80_000 + 300_000 + 1_000)), "others took some in between");
        horizon.claimed([(1, 70_000), (1, 70_000)].into_iter());
        assert_eq!(horizon.until(1_000), Some((1, 71_000)), "older ones, all of one time");
        horizon.claimed(std::iter::empty());
        assert!(horizon.until(1).is_some(), "a claim that others were faster than says nothing");
        horizon.forget();
        assert_eq!(horizon.until(10), None);
    }

    #[test]
    fn times_may_be_absurd() {
        let mut horizon = Horizon::default();
        horizon.claimed([(0, i64::MIN), (0, 0)].into_iter());
        assert_eq!(horizon.until(u32::MAX), Some((0, MOST as i64)));
        horizon.claimed([(0, i64::MIN), (0, i64::MAX)].into_iter());
        assert_eq!(horizon.until(1), None);
    }

    #[test]
    fn after_wrong_guesses_there_are_fewer_and_fewer() {
        let mut horizon = Horizon::default();
        horizon.claimed([(0, 1)].into_iter());
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
