//! The order of a queue that one worker serves, one job at a time.

use std::collections::BTreeSet;

use super::{Checker, Fate, Rule, Violation};

/// What is committed while the queue is busy is seen within this time: behind the claim's cursor it is looked for every
/// two seconds at the latest.
const SEEN_WITHIN: i64 = 4_000_000;

impl Checker<'_> {
    /// A job does not begin while one that comes before it has been waiting. Smaller priorities come first, then smaller
    /// numbers. Jobs that were not run in one go (killed, snoozed, retried) or were delayed have another place.
    pub(super) fn order(&self) -> Vec<Violation> {
        let mut runs = Vec::new();
        for job in self.jobs.values() {
            let Some((_, options)) = job.asked.filter(|(_, options)| options.ordered && options.delay_ms == 0) else {
                continue;
            };
            let (Fate::Committed(committed), [(id, _)], []) = (job.fate, job.rows.as_slice(), job.attempts.as_slice())
            else {
                continue;
            };
            if let Some((started, ..)) = job.starts().next() {
                runs.push((started, (options.priority, *id), committed + SEEN_WITHIN, job.tag));
            }
        }
        runs.sort_unstable();
        // from the last start to the first: who started later, although it comes before and was there already?
        let mut found = Vec::new();
        let mut later: BTreeSet<((i16, i64), i64, i64)> = BTreeSet::new();
        for (started, place, visible, tag) in runs.into_iter().rev() {
            let before = later.iter().take_while(|(other, ..)| *other < place).find(|(_, seen, _)| *seen < started);
            if let Some((_, _, other)) = before {
                found.push(Violation {
                    rule: Rule::Order,
                    tag,
                    what: format!("began before the job with tag {other}"),
                });
            }
            later.insert((place, visible, tag));
        }
        found
    }
}
