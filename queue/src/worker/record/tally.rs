//! What started and ended since the last write, counted by kind, queue and outcome.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::limits::micros;
use crate::store::values::{AttemptOutcome, Destination, End, FailureRow, Lane, TallyRow};
use crate::throughput::TallyOutcome;
use crate::worker::notices::lock;
use crate::worker::record::failing::Failing;

/// The most pairs of kind and queue that are counted by name, as many as have labels in metrics.
const MOST: usize = 100;

/// The tallies of a worker.
#[derive(Default)]
pub(crate) struct Tallies {
    sheet: Mutex<Sheet>,
    /// Held by whoever takes what was counted, until it is written or given back.
    pub(crate) writer: tokio::sync::Mutex<()>,
}

impl Tallies {
    pub(crate) fn sheet(&self) -> MutexGuard<'_, Sheet> {
        lock(&self.sheet)
    }

    /// An attempt starts. Returns where its end is counted. A wait that is not known counts as none.
    pub(crate) fn started(&self, lane: &Lane, waited: Option<Duration>) -> Place {
        let mut sheet = self.sheet();
        let place = sheet.place(&lane.kind, &lane.queue);
        sheet.add(place, TallyOutcome::Started, micros(waited.unwrap_or_default()));
        place
    }
}

/// A pair of kind and queue on the sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(usize);

/// Those for which there is no room.
const OTHERS: Place = Place(0);

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    attempts: i64,
    total_us: i64,
    longest_us: i64,
}

impl Sum {
    fn merge(&mut self, other: Self) {
        self.attempts = self.attempts.saturating_add(other.attempts);
        self.total_us = self.total_us.saturating_add(other.total_us);
        self.longest_us = self.longest_us.max(other.longest_us);
    }
}

/// What was counted since the last write. The pairs stay.
pub(crate) struct Sheet {
    places: HashMap<Arc<str>, HashMap<Arc<str>, Place>>,
    /// The last one that was looked for. Jobs of one claim share their names, and mostly follow each other.
    last: Option<(Arc<str>, Arc<str>, Place)>,
    /// The kind and queue of each place, and its sums. No real name is empty.
    pairs: Vec<(Arc<str>, Arc<str>, [Sum; TallyOutcome::ALL.len()])>,
    changed: bool,
    failing: Failing,
}

impl Default for Sheet {
    fn default() -> Self {
        let pairs = vec![("".into(), "".into(), Default::default())];
        Self { places: HashMap::new(), last: None, pairs, changed: false, failing: Failing::default() }
    }
}

impl Sheet {
    fn place(&mut self, kind: &Arc<str>, queue: &Arc<str>) -> Place {
        if let Some((last_kind, last_queue, place)) = &self.last
            && Arc::ptr_eq(last_kind, kind)
            && Arc::ptr_eq(last_queue, queue)
        {
            return *place;
        }
        let place = self.find(kind, queue);
        self.last = Some((kind.clone(), queue.clone(), place));
        place
    }

    fn find(&mut self, kind: &Arc<str>, queue: &Arc<str>) -> Place {
        if let Some(place) = self.places.get(kind).and_then(|queues| queues.get(queue)) {
            return *place;
        }
        if self.pairs.len() > MOST {
            return OTHERS;
        }
        let place = Place(self.pairs.len());
        self.pairs.push((kind.clone(), queue.clone(), Default::default()));
        self.places.entry(kind.clone()).or_default().insert(queue.clone(), place);
        place
    }

    pub(crate) fn add(&mut self, place: Place, outcome: TallyOutcome, us: i64) {
        self.merge(place, outcome, Sum { attempts: 1, total_us: us, longest_us: us });
    }

    fn merge(&mut self, Place(place): Place, outcome: TallyOutcome, sum: Sum) {
        self.pairs[place].2[outcome as usize].merge(sum);
        self.changed = true;
    }

    /// The kind of a place. Those without room have many.
    pub(crate) fn kind(&self, place: Place) -> Option<Arc<str>> {
        (place != OTHERS).then(|| self.pairs[place.0].0.clone())
    }

    /// An attempt failed in this group.
    pub(crate) fn failed(&mut self, failure: String) {
        self.failing.add(failure, 1);
    }

    /// Empties the sheet.
    pub(crate) fn take(&mut self) -> (Vec<TallyRow>, Vec<FailureRow>) {
        let mut rows = Vec::new();
        if !std::mem::take(&mut self.changed) {
            return (rows, Vec::new());
        }
        for (kind, queue, sums) in &mut self.pairs {
            for (outcome, sum) in TallyOutcome::ALL.into_iter().zip(std::mem::take(sums)) {
                if let Sum { attempts: 1.., total_us, longest_us } = sum {
                    let (queue, kind) = (queue.to_string(), kind.to_string());
                    rows.push(TallyRow { queue, kind, outcome, attempts: sum.attempts, total_us, longest_us });
                }
            }
        }
        (rows, self.failing.take())
    }

    /// Adds what was taken to what was counted since.
    pub(crate) fn give_back(&mut self, rows: &[TallyRow], failures: &[FailureRow]) {
        failures.iter().for_each(|it| self.failing.add(it.failure.clone(), it.attempts));
        for TallyRow { queue, kind, outcome, attempts, total_us, longest_us } in rows {
            let place = self.places.get(&**kind).and_then(|queues| queues.get(&**queue)).copied().unwrap_or(OTHERS);
            self.merge(place, *outcome, Sum { attempts: *attempts, total_us: *total_us, longest_us: *longest_us });
        }
    }
}

/// As what the end of an attempt is counted. None: it never started.
pub(crate) fn counted(end: &End) -> Option<TallyOutcome> {
    Some(match (&end.to, end.outcome) {
        (Destination::Requeue { record: false, .. }, _) => return None,
        (Destination::Bury, _) => TallyOutcome::Dead,
        (_, AttemptOutcome::Completed) => TallyOutcome::Completed,
        (_, AttemptOutcome::Cancelled) => TallyOutcome::Cancelled,
        (_, AttemptOutcome::Snoozed) => TallyOutcome::Snoozed,
        (_, AttemptOutcome::Released) => TallyOutcome::Released,
        _ => TallyOutcome::Failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(kind: &str, queue: &str) -> Lane {
        Lane { kind: kind.into(), queue: queue.into(), priority: 0 }
    }

    fn row(kind: &str, queue: &str, outcome: TallyOutcome, [attempts, total_us, longest_us]: [i64; 3]) -> TallyRow {
        TallyRow { queue: queue.into(), kind: kind.into(), outcome, attempts, total_us, longest_us }
    }

    #[test]
    fn what_is_taken_is_gone_and_what_is_given_back_adds_up() {
        let tallies = Tallies::default();
        assert_eq!(tallies.sheet().take(), (vec![], vec![]));
        let start = |kind, wait| tallies.started(&lane(kind, "q"), Some(Duration::from_micros(wait)));
        let (a, b) = (start("a", 5), start("b", 0));
        assert_eq!(start("a", 9), a);
        assert_eq!(tallies.started(&lane("a", "q"), None), a, "it waited for an unknown time");
        tallies.sheet().add(a, TallyOutcome::Completed, 70);
        tallies.sheet().add(b, TallyOutcome::Dead, 3);
        let (taken, _) = tallies.sheet().take();
        let expected = [
            row("a", "q", TallyOutcome::Started, [3, 14, 9]),
            row("a", "q", TallyOutcome::Completed, [1, 70, 70]),
            row("b", "q", TallyOutcome::Started, [1, 0, 0]),
            row("b", "q", TallyOutcome::Dead, [1, 3, 3]),
        ];
        assert_eq!(taken, expected);
        assert_eq!(tallies.sheet().take(), (vec![], vec![]));
        tallies.sheet().add(a, TallyOutcome::Completed, 30);
        tallies.sheet().give_back(&taken, &[]);
        assert_eq!(tallies.sheet().take().0[1], row("a", "q", TallyOutcome::Completed, [2, 100, 70]));
        assert_eq!(tallies.sheet().take(), (vec![], vec![]), "the pairs that stay have nothing to tell");
    }

    #[test]
    fn failures_are_counted_by_group() {
        let tallies = Tallies::default();
        let place = tallies.started(&lane("mail", "q"), None);
        assert_eq!(tallies.sheet().kind(place).as_deref(), Some("mail"));
        assert_eq!(tallies.sheet().kind(OTHERS), None);
        (0..3).for_each(|_| tallies.sheet().failed("a".into()));
        let (rows, failures) = tallies.sheet().take();
        assert_eq!(failures, [FailureRow { failure: "a".into(), attempts: 3 }]);
        tallies.sheet().give_back(&rows, &failures);
        tallies.sheet().failed("a".into());
        assert_eq!(tallies.sheet().take().1[0].attempts, 4);
    }

    #[test]
    fn more_than_100_pairs_share_one_without_names() {
        let tallies = Tallies::default();
        for n in 0..150 {
            tallies.started(&lane("a", &format!("q{n}")), None);
        }
        let (taken, _) = tallies.sheet().take();
        assert_eq!((taken.len(), &taken[0]), (101, &row("", "", TallyOutcome::Started, [50, 0, 0])));
        tallies.sheet().give_back(&taken, &[]);
        assert_eq!(tallies.sheet().take().0, taken);
    }

    #[test]
    fn a_job_that_never_started_does_not_count() {
        let hold = crate::store::values::Hold { id: 1, fence: 1 };
        assert_eq!(counted(&End::unstarted(hold)), None);
        assert_eq!(counted(&End::released(hold, 7)), Some(TallyOutcome::Released));
        assert_eq!(counted(&End::completed(hold, 7, None)), Some(TallyOutcome::Completed));
    }
}
