//! Ids as runs of consecutive numbers.
//!
//! MySQL and MariaDB remove listed rows in two passes, and find each of them twice. They remove the rows of a range in
//! one pass, for half the work. Jobs that were claimed together end together and expire together, so their ids form few
//! runs.

use crate::store::engine::driver::Bind;

/// A statement has places for this many runs.
const MOST: usize = 8;
/// Fewer ids stay a list. In a table of a handful of rows, a range becomes a full scan, which meets rows that others
/// have locked.
const LEAST: usize = 32;

/// The first and last id of each run. If there are fewer runs, the last one is repeated.
pub(super) struct Runs([(i64, i64); MOST]);

impl Runs {
    /// `numbers` are sorted and distinct. None: they are too few, or too many runs for one statement.
    pub(super) fn of(numbers: &[i64]) -> Option<Self> {
        if numbers.len() < LEAST {
            return None;
        }
        let mut found = numbers.chunk_by(|one, next| *next == one.saturating_add(1));
        let mut run = |or| found.next().map(|run| (run[0], run[run.len() - 1])).or(or);
        let mut last = run(None)?;
        let mut runs = [last; MOST];
        for place in &mut runs[1..] {
            last = run(Some(last))?;
            *place = last;
        }
        found.next().is_none().then_some(Self(runs))
    }

    /// As binds of a statement, behind its others.
    pub(super) fn behind<'a>(&self, others: &[Bind<'a>]) -> Vec<Bind<'a>> {
        let ends = self.0.iter().flat_map(|(first, last)| [*first, *last]).map(Bind::from);
        others.iter().copied().chain(ends).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(numbers: &[i64]) -> Option<Vec<(i64, i64)>> {
        Runs::of(numbers).map(|runs| runs.0.into())
    }

    #[test]
    fn consecutive_numbers_are_one_run() {
        let all = |first, last| vec![(first, last); MOST];
        assert_eq!(runs(&(-1..40).collect::<Vec<_>>()), Some(all(-1, 39)));
        assert_eq!(runs(&(i64::MAX - 40..=i64::MAX).collect::<Vec<_>>()), Some(all(i64::MAX - 40, i64::MAX)));
        let two: Vec<_> = (0..40).chain([50]).collect();
        assert_eq!(runs(&two), Some([vec![(0, 39)], vec![(50, 50); MOST - 1]].concat()));
        assert_eq!(runs(&two[..LEAST - 1]), None, "too few");
    }

    #[test]
    fn more_than_there_are_places_for_are_none() {
        let mut numbers: Vec<_> = (0..MOST as i64 * 10).filter(|n| n % 10 < 5).collect();
        let expected: Vec<_> = (0..MOST as i64).map(|n| (n * 10, n * 10 + 4)).collect();
        assert_eq!(runs(&numbers), Some(expected));
        numbers.push(1_000);
        assert_eq!(runs(&numbers), None);
    }
}
