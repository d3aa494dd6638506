//! Checks the order of a queue that one worker serves, one job at a time.

use std::collections::{BTreeSet, HashSet};

use super::{Checker, Fate, Rule, Violation};
use crate::record::What;

/// A job committed while the queue is busy is found within this time: a claim looks behind its cursor at least every 2
/// s.
const SEEN_WITHIN: i64 = 4_000_000;

/// The result of the comparison.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) found: Vec<Violation>,
    /// How many jobs began while another one waited that could have come first.
    pub(super) starts: usize,
}

/// A job that ran in one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    priority: i16,
    id: i64,
    asked: i64,
    committed: i64,
    tag: i64,
}

impl Run {
    /// Whether it comes before another job. Neither does if their enqueues overlapped: the order depends on when their
    /// transactions began, which only the database knows. Jobs of one batch are in the order of their ids.
    fn precedes(&self, other: &Self) -> bool {
        let apart = self.committed < other.asked || self.asked == other.asked;
        self.priority < other.priority || self.priority == other.priority && self.id < other.id && apart
    }
}

impl Checker<'_> {
    /// A job does not begin while one that comes before it waits. Smaller priorities come first, then smaller ids. Jobs
    /// with several attempts (killed, snoozed, retried) and delayed jobs are left out.
    pub(super) fn order(&self) -> Compared {
        let mut runs = Vec::new();
        let mut claimers = HashSet::new();
        for job in self.jobs.values() {
            let Some((asked, options)) = job.asked.filter(|(_, options)| options.ordered && options.delay_ms == 0)
            else {
                continue;
            };
            claimers.extend(job.starts().map(|(_, process, _)| process));
            let (Fate::Committed(committed), [(id, _)], []) = (job.fate, job.rows.as_slice(), job.attempts.as_slice())
            else {
                continue;
            };
            if let Some((started, ..)) = job.starts().next() {
                runs.push((started, Run { priority: options.priority, id: *id, asked, committed, tag: job.tag }));
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
        let mut later: BTreeSet<(Run, i64)> = BTreeSet::new();
        let mut first_seen = i64::MAX;
        for (started, run) in runs.into_iter().rev() {
            compared.starts += usize::from(first_seen < started);
            let mut before = later.iter().take_while(|(other, _)| *other < run);
            if let Some((other, _)) = before.find(|(other, seen)| *seen < started && other.precedes(&run)) {
                compared.found.push(Violation {
                    rule: Rule::Order,
                    tag: run.tag,
                    beside: Some(other.tag),
                    what: format!("began before the job with tag {}", other.tag),
                });
            }
            first_seen = first_seen.min(seen(run.committed));
            later.insert((run, seen(run.committed)));
        }
        compared
    }

    fn exit_of(&self, process: i64) -> Option<i64> {
        self.of(process).find(|event| event.what == What::Exited).map(|event| event.at)
    }
}
