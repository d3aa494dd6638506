//! The order of a queue that one worker serves, one job at a time.

use std::collections::{BTreeSet, HashSet};

use super::{Checker, Fate, Rule, Violation};
use crate::record::What;

/// What is committed while the queue is busy is seen within this time: behind the claim's cursor it is looked for every
/// two seconds at the latest.
const SEEN_WITHIN: i64 = 4_000_000;

/// What came of comparing.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) found: Vec<Violation>,
    /// How many jobs began while another one waited that might have come before them.
    pub(super) starts: usize,
}

impl Checker<'_> {
    /// A job does not begin while one that comes before it has been waiting. Smaller priorities come first, then smaller
    /// numbers. Jobs that were not run in one go (killed, snoozed, retried) or were delayed have another place.
    pub(super) fn order(&self) -> Compared {
        let mut runs = Vec::new();
        let mut claimers = HashSet::new();
        for job in self.jobs.values() {
            let Some((_, options)) = job.asked.filter(|(_, options)| options.ordered && options.delay_ms == 0) else {
                continue;
            };
            claimers.extend(job.starts().map(|(_, process, _)| process));
            let (Fate::Committed(committed), [(id, _)], []) = (job.fate, job.rows.as_slice(), job.attempts.as_slice())
            else {
                continue;
            };
            if let Some((started, ..)) = job.starts().next() {
                runs.push((started, (options.priority, *id), committed, job.tag));
            }
        }
        runs.sort_unstable();
        // whoever serves the queue next sees all that was committed before it was started
        let mut ends: Vec<i64> = claimers.iter().flat_map(|process| self.exit_of(*process)).collect();
        ends.sort_unstable();
        let seen = |committed: i64| {
            let next = ends.get(ends.partition_point(|end| *end <= committed));
            next.map_or(i64::MAX, |end| *end).min(committed + SEEN_WITHIN)
        };
        // from the last start to the first: who started later, although it comes before and was there already?
        let mut compared = Compared::default();
        let mut later: BTreeSet<((i16, i64), i64, i64)> = BTreeSet::new();
        let mut first_seen = i64::MAX;
        for (started, place, committed, tag) in runs.into_iter().rev() {
            compared.starts += usize::from(first_seen < started);
            let before = later.iter().take_while(|(other, ..)| *other < place).find(|(_, seen, _)| *seen < started);
            if let Some((_, _, other)) = before {
                compared.found.push(Violation {
                    rule: Rule::Order,
                    tag,
                    what: format!("began before the job with tag {other}"),
                });
            }
            first_seen = first_seen.min(seen(committed));
            later.insert((place, seen(committed), tag));
        }
        compared
    }

    fn exit_of(&self, process: i64) -> Option<i64> {
        self.of(process).find(|event| event.what == What::Exited).map(|event| event.at)
    }
}
