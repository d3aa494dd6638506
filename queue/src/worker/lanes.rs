//! What the claim loop remembers of lanes: which have rows that are due, where to go on in them, what it cost to look.
//! Without any I/O.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::{Ask, Claimed, Lane, LaneHead, Place};

/// A lane that is served is scanned from its beginning, and new lanes are looked for, at least this seldom …
const RESCAN: Duration = Duration::from_millis(250);
/// … and so much more seldom than a scan takes …
const RATION: u32 = 50;
/// … but never more seldom than this.
const LONGEST: Duration = Duration::from_secs(2);
/// A lane that is due later than this is looked at again before.
const FAR: Duration = Duration::from_secs(60 * 60);
/// A cheap scan needs no ration.
const CHEAP: Duration = Duration::from_millis(5);

/// What scans from the beginning cost: the least of the last few, because a pause of the machine or the network may fall
/// into any one of them, but an expensive scan is expensive every time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    last: [Duration; 3],
    next: usize,
}

impl Cost {
    pub(super) fn add(&mut self, cost: Duration) {
        self.last[self.next % 3] = cost;
        self.next += 1;
    }

    /// Zero until there were three.
    fn least(&self) -> Duration {
        self.last.into_iter().min().unwrap_or_default()
    }

    pub(super) fn is_cheap(&self) -> bool {
        self.least() < CHEAP
    }

    /// How long to wait before the next scan from the beginning.
    pub(super) fn pause(&self) -> Duration {
        (self.least() * RATION).clamp(RESCAN, LONGEST)
    }
}

/// Where a row stands in the order of all lanes: its priority, then its time.
pub(super) type Rank = (i16, i64);

struct Known {
    lane: Lane,
    newest_first: bool,
    /// From when on rows are due.
    due: Instant,
    /// Its next row is due no earlier than this, as far as is known: microseconds since 1970.
    head: i64,
    behind: Option<Place>,
    scanned: Instant,
    cost: Cost,
}

impl Known {
    fn may_rescan(&self, now: Instant) -> bool {
        now - self.scanned >= self.cost.pause()
    }

    /// Before what its next row does not come.
    fn next(&self) -> Rank {
        let due = if self.newest_first { i64::MIN } else { self.behind.map_or(self.head, |(at, _)| at.max(self.head)) };
        (self.lane.priority, due)
    }

    /// It gave less than was asked: start from its beginning when that is allowed again, else wait for the next look.
    fn exhausted(&mut self, had_cursor: bool, now: Instant) {
        if had_cursor && (self.may_rescan(now) || self.cost.is_cheap()) {
            self.behind = None;
        } else {
            self.due = now + self.cost.pause();
        }
    }
}

/// The lanes that had rows at the last look.
#[derive(Default)]
pub(super) struct Lanes(HashMap<Lane, Known>);

impl Lanes {
    /// Takes over what a look has found. Of lanes that were known already the cursor stays.
    pub(super) fn found(&mut self, heads: Vec<LaneHead>, now: Instant, newest_first: impl Fn(&Lane) -> bool) {
        let mut remembered = std::mem::take(&mut self.0);
        self.0 = heads
            .into_iter()
            .map(|LaneHead { lane, run_at, due_in }| {
                let (due, head) = (now + due_in.min(FAR), run_at);
                let known = match remembered.remove(&lane) {
                    Some(known) => Known { due, head, ..known },
                    None => {
                        let newest_first = newest_first(&lane);
                        let (lane, cost) = (lane.clone(), Cost::default());
                        Known { lane, newest_first, due, head, behind: None, scanned: now, cost }
                    }
                };
                (lane, known)
            })
            .collect();
    }

    /// What to ask of the first `most` lanes that are due and served, in the order of what may be next in them, and what
    /// comes before the next such lane if there are more. `retries` says how often a kind is tried again, where it is served.
    pub(super) fn asks(
        &self,
        take: u32,
        most: usize,
        now: Instant,
        retries: impl Fn(&Lane) -> Option<u32>,
    ) -> (Vec<Ask>, Option<Rank>) {
        let due = self.0.values().filter(|known| known.due <= now);
        let mut served: Vec<_> = due.filter_map(|known| Some((known, retries(&known.lane)?))).collect();
        let mut next = None;
        if served.len() > most {
            let (_, (first, _), _) = served.select_nth_unstable_by_key(most, |(known, _)| known.next());
            next = Some(first.next());
            served.truncate(most);
        }
        served.sort_unstable_by_key(|(known, _)| known.next());
        let ask = |(known, max_retries): (&Known, u32)| Ask {
            lane: known.lane.clone(),
            take,
            behind: known.behind.filter(|_| !known.newest_first && !known.may_rescan(now)),
            newest_first: known.newest_first,
            max_retries,
        };
        (served.into_iter().map(ask).collect(), next)
    }

    /// Moves the cursors after a claim that began at `started`, and remembers which lanes gave less than was asked.
    pub(super) fn claimed(&mut self, asks: &[Ask], jobs: &[Claimed], started: Instant) {
        let now = Instant::now();
        for ask in asks {
            let mine = jobs.iter().filter(|job| job.lane == ask.lane);
            let (mut count, mut last) = (0, None);
            for job in mine {
                count += 1;
                last = last.max(Some((job.run_at, job.id.get())));
            }
            let Some(known) = self.0.get_mut(&ask.lane) else { continue };
            if ask.behind.is_none() {
                known.scanned = now;
                known.cost.add(now - started);
            }
            if last.is_some() && !ask.newest_first {
                known.behind = last;
            }
            if count < ask.take {
                known.exhausted(ask.behind.is_some(), now);
            }
        }
    }

    /// Nothing was due behind the cursor of this ask.
    pub(super) fn empty(&mut self, ask: &Ask, now: Instant) {
        if let Some(known) = self.0.get_mut(&ask.lane) {
            known.exhausted(ask.behind.is_some(), now);
        }
    }

    /// Lanes that had none of the next jobs in order: whatever is in them comes after those that were claimed. They make
    /// room for lanes that were not compared.
    pub(super) fn passed_over(&mut self, lanes: &[Lane], jobs: &[Claimed]) {
        let Some((priority, run_at)) = jobs.iter().map(|job| (job.lane.priority, job.run_at)).max() else { return };
        for lane in lanes {
            let Some(known) = self.0.get_mut(lane) else { continue };
            match lane.priority.cmp(&priority) {
                // something there would have come first
                Ordering::Less => known.due = Instant::now() + known.cost.pause(),
                Ordering::Equal => known.head = known.head.max(run_at),
                Ordering::Greater => {}
            }
        }
    }

    /// Until the next of the wanted lanes falls due.
    pub(super) fn next_due(&self, wanted: impl Fn(&Lane) -> bool) -> Option<Duration> {
        let now = Instant::now();
        let wanted = self.0.values().filter(|known| wanted(&known.lane));
        // a millisecond more: the database's clock is read a little later than ours
        wanted.map(|known| known.due.saturating_duration_since(now) + Duration::from_millis(1)).min()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::Utc;

    use super::*;

    fn lane(queue: &str, priority: i16) -> Lane {
        Lane { kind: Arc::from("k"), queue: Arc::from(queue), priority }
    }

    /// Lanes whose first rows are due at these times, and have been for long.
    fn lanes(heads: &[(&str, i16, i64)]) -> Lanes {
        let mut lanes = Lanes::default();
        let heads = heads.iter().map(|&(queue, priority, run_at)| LaneHead {
            lane: lane(queue, priority),
            run_at,
            due_in: Duration::ZERO,
        });
        lanes.found(heads.collect(), Instant::now(), |lane| &*lane.queue == "newest");
        lanes
    }

    fn job(queue: &str, run_at: i64, id: i64) -> Claimed {
        Claimed {
            id: id.into(),
            lease: 1,
            attempt: 1,
            max_retries: 0,
            lane: lane(queue, 0),
            run_at,
            enqueued_at: Utc::now(),
            args: Ok(String::new()),
        }
    }

    fn asks(lanes: &Lanes, most: usize) -> (Vec<Ask>, Option<Rank>) {
        lanes.asks(10, most, Instant::now(), |lane| (&*lane.queue != "foreign").then_some(3))
    }

    fn queues(asks: &[Ask]) -> Vec<(&str, i16)> {
        asks.iter().map(|ask| (&*ask.lane.queue, ask.lane.priority)).collect()
    }

    #[test]
    fn lanes_are_asked_in_the_order_of_their_next_rows() {
        let lanes = lanes(&[("a", 0, 30), ("b", 0, 10), ("c", -1, 90), ("foreign", -9, 1), ("newest", 0, 50)]);
        let (first, next) = asks(&lanes, 2);
        assert_eq!(queues(&first), [("c", -1), ("newest", 0)], "the newest row of a lane may have any date");
        assert_eq!(next, Some((0, 10)), "of b, the first that is not asked");
        let (all, next) = asks(&lanes, 4);
        assert_eq!(queues(&all), [("c", -1), ("newest", 0), ("b", 0), ("a", 0)]);
        assert_eq!((next, all[0].max_retries), (None, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_goes_on_behind_the_one_before_until_a_scan_is_allowed() {
        let mut lanes = lanes(&[("a", 0, 10)]);
        let (first, _) = asks(&lanes, 1);
        assert_eq!(first[0].behind, None);
        let jobs: Vec<_> = (1..=10).map(|id| job("a", 10, id)).collect();
        lanes.claimed(&first, &jobs, Instant::now());
        let (second, _) = asks(&lanes, 1);
        assert_eq!(second[0].behind, Some((10, 10)));
        let jobs: Vec<_> = (1..=10).map(|id| job("a", 11, id)).collect();
        lanes.claimed(&second, &jobs, Instant::now());
        assert_eq!(asks(&lanes, 1).0[0].behind, Some((11, 10)));
        tokio::time::advance(RESCAN).await;
        assert_eq!(asks(&lanes, 1).0[0].behind, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_gave_less_than_was_asked_is_scanned_and_then_left_alone() {
        let mut lanes = lanes(&[("a", 0, 10)]);
        let full: Vec<_> = (1..=10).map(|id| job("a", 10, id)).collect();
        let (ask, _) = asks(&lanes, 1);
        lanes.claimed(&ask, &full, Instant::now());
        let (ask, _) = asks(&lanes, 1);
        lanes.claimed(&ask, &[job("a", 11, 11)], Instant::now());
        let (ask, _) = asks(&lanes, 1);
        assert_eq!(ask[0].behind, None, "what is cheap is scanned at once");
        lanes.claimed(&ask, &[], Instant::now());
        assert!(asks(&lanes, 1).0.is_empty(), "nothing there");
        assert_eq!(lanes.next_due(|_| true), Some(RESCAN + Duration::from_millis(1)));
        tokio::time::advance(RESCAN).await;
        assert_eq!(asks(&lanes, 1).0.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_dear_is_rationed() {
        let mut lanes = lanes(&[("a", 0, 10)]);
        for _ in 0..3 {
            let (ask, _) = asks(&lanes, 1);
            let started = Instant::now();
            tokio::time::advance(Duration::from_millis(20)).await;
            lanes.claimed(&ask, &[], started);
            tokio::time::advance(LONGEST).await;
        }
        let (ask, _) = asks(&lanes, 1);
        let full: Vec<_> = (1..=10).map(|id| job("a", 10, id)).collect();
        let started = Instant::now();
        tokio::time::advance(Duration::from_millis(20)).await;
        lanes.claimed(&ask, &full, started);
        tokio::time::advance(RESCAN).await;
        let (ask, _) = asks(&lanes, 1);
        assert!(ask[0].behind.is_some(), "a scan of 20 ms comes once a second");
        lanes.empty(&ask[0], Instant::now());
        assert!(asks(&lanes, 1).0.is_empty(), "nor does an empty lane bring it earlier");
        tokio::time::advance(Duration::from_millis(20) * RATION).await;
        assert_eq!(asks(&lanes, 1).0[0].behind, None);
    }

    #[test]
    fn a_look_keeps_the_cursor_and_forgets_what_is_gone() {
        let mut lanes = lanes(&[("a", 0, 10), ("b", 0, 10)]);
        let (ask, _) = asks(&lanes, 2);
        let jobs: Vec<_> = (1..=10).flat_map(|id| [job("a", 10, id), job("b", 10, id)]).collect();
        lanes.claimed(&ask, &jobs, Instant::now());
        let head = LaneHead { lane: lane("a", 0), run_at: 10, due_in: Duration::ZERO };
        lanes.found(vec![head], Instant::now(), |_| false);
        let (ask, _) = asks(&lanes, 2);
        assert_eq!(queues(&ask), [("a", 0)]);
        assert_eq!(ask[0].behind, Some((10, 10)));
    }

    #[test]
    fn lanes_passed_over_make_room() {
        let mut lanes = lanes(&[("a", 0, 10), ("b", 0, 11), ("c", 0, 12)]);
        lanes.passed_over(&[lane("a", 0)], &[job("c", 40, 1)]);
        let (ask, next) = asks(&lanes, 2);
        assert_eq!((queues(&ask), next), (vec![("b", 0), ("c", 0)], Some((0, 40))));
    }
}
