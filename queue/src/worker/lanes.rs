//! What the claim loop remembers of lanes: which have rows that are due, where to go on in them, what it cost to look.
//! Without any I/O.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::{Ask, Claimed, Lane, LaneHead, Place, Rank, Share};

/// Lanes are looked for, and each is scanned again from a little before its cursor, at least this seldom …
const RESCAN: Duration = Duration::from_millis(250);
/// … and so much more seldom than that takes …
const RATION: u32 = 50;
/// … but never more seldom than this in the case of a look, which walks over all that was ever taken …
const LONGEST_LOOK: Duration = Duration::from_secs(30);
/// … and this in the case of a scan, which walks over what was due …
const LONGEST_SCAN: Duration = Duration::from_secs(2);
/// … so long before the last job that was taken. A job that is enqueued in a transaction has the time of its beginning: what
/// was committed later than others belongs here.
const NEAR: i64 = 2_000_000;
/// A lane that is due later than this is looked at again before.
const FAR: Duration = Duration::from_secs(60 * 60);
/// A time before this one may be another in the database: not every one that it can store fits in 64 bits of microseconds.
const YEAR_1: i64 = -62_135_596_800_000_000;
/// A lane that has given a job within this time is remembered while looks are dear, though a look finds it empty: what comes
/// next in it is claimed by its cursor.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);
/// So many of them, those that gave last: they take places of a comparison from others.
const MOST_REMEMBERED: usize = 32;
/// The head of a lane that the last look found empty, and that is remembered all the same.
const EMPTY: Place = (i64::MAX, i64::MAX);
/// Before every place.
const BEGINNING: Place = (i64::MIN, i64::MIN);
/// A cheap scan needs no ration; while looks are cheap they are made at every wake, and a lane that one finds empty is
/// forgotten.
const CHEAP: Duration = Duration::from_millis(5);

/// What looks or scans cost: the least of the last few, because a pause of the machine or the network may fall into any one
/// of them, but an expensive one is expensive every time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    last: [Duration; 3],
    next: usize,
    longest: Duration,
}

impl Cost {
    pub(super) fn of_looks() -> Self {
        Self { last: Default::default(), next: 0, longest: LONGEST_LOOK }
    }

    fn of_scans() -> Self {
        Self { longest: LONGEST_SCAN, ..Self::of_looks() }
    }

    pub(super) fn add(&mut self, cost: Duration) {
        self.last[self.next % 3] = cost;
        self.next += 1;
    }

    /// Zero until there were three.
    pub(super) fn least(&self) -> Duration {
        self.last.into_iter().min().unwrap_or_default()
    }

    pub(super) fn is_cheap(&self) -> bool {
        self.least() < CHEAP
    }

    /// How long to wait before the next one.
    pub(super) fn pause(&self) -> Duration {
        (self.least() * RATION).clamp(RESCAN, self.longest)
    }
}

struct Known {
    lane: Lane,
    newest_first: bool,
    /// From when on rows are due.
    due: Instant,
    /// Its next row is not before this, as far as is known.
    head: Place,
    /// Nothing that is due is left before this place, as far as is known. Means nothing where the newest come first.
    cursor: Place,
    /// The cursor when the last look began.
    then: Place,
    /// When a look last found it, unless that was dear.
    looked: Option<Instant>,
    /// When it was last scanned from before its cursor, or might as well have been; None: that is to be done next.
    scanned: Option<Instant>,
    cost: Cost,
    /// When it last gave a job.
    gave: Option<Instant>,
}

/// The place before all jobs that are due then or later.
fn before(run_at: i64) -> Place {
    (run_at, i64::MIN)
}

impl Known {
    fn may_scan(&self, now: Instant) -> bool {
        self.scanned.is_none_or(|at| now - at >= self.cost.pause())
    }

    /// Before what its next row does not come.
    fn next(&self) -> Rank {
        let place = if self.newest_first { BEGINNING } else { self.cursor.max(self.head) };
        (self.lane.priority, place)
    }

    fn gave_lately(&self, now: Instant) -> bool {
        self.gave.is_some_and(|at| now - at < REMEMBERED)
    }

    /// Where the next claim starts. None: at the lane's beginning.
    fn start(&self, now: Instant) -> Option<Place> {
        let near = || before(self.cursor.0.saturating_sub(NEAR));
        let start = if self.may_scan(now) { near() } else { self.cursor };
        Some(start).filter(|start| !self.newest_first && start.0 >= YEAR_1)
    }

    fn ask(&self, take: u32, now: Instant, max_retries: u32) -> Ask {
        let (lane, behind, newest_first) = (self.lane.clone(), self.start(now), self.newest_first);
        Ask { lane, take, behind, first: None, newest_first, max_retries }
    }

    /// It gave less than was asked: scan it from before its cursor when that is allowed again, else wait for the next look. No
    /// need where one was a moment ago.
    fn exhausted(&mut self, ask: &Ask, now: Instant) {
        let looked_at = self.looked.is_some_and(|at| now - at < RESCAN);
        if ask.behind == Some(self.cursor) && (self.may_scan(now) || self.cost.is_cheap()) && !looked_at {
            self.scanned = None;
        } else {
            let soon = now + self.cost.pause();
            // it may have been asked before anything was thought to be due in it
            self.due = if self.due > now { self.due.min(soon) } else { soon };
        }
    }
}

/// The lanes that had rows at the last look.
#[derive(Default)]
pub(super) struct Lanes(HashMap<Lane, Known>);

impl Lanes {
    /// A look begins: what it will find is as of now.
    pub(super) fn look_begins(&mut self) {
        self.0.values_mut().for_each(|known| known.then = known.cursor);
    }

    /// Takes over what the look has found that was begun last. The cursor of a lane that was known already stays, unless there
    /// was something before it. A lane that was not found is forgotten. When looks are dear (so much), what was found is old
    /// by now, and the next look far off: a lane that gave a job lately is then remembered for a while, and asked soon
    /// whether it was found empty, or with nothing that is due.
    pub(super) fn found(
        &mut self,
        heads: Vec<LaneHead>,
        now: Instant,
        dear: Option<Duration>,
        newest_first: impl Fn(&Lane) -> bool,
    ) {
        let soon = |known: &Known| dear.is_some() && !known.newest_first && known.gave_lately(now);
        let mut remembered = std::mem::take(&mut self.0);
        for LaneHead { lane, first: head, due_in } in heads {
            let due = now + due_in.saturating_sub(dear.unwrap_or_default()).min(FAR);
            let run_at = head.0;
            // one that is not old by now is as good as a scan: nothing was before what it has found
            let looked = dear.is_none().then_some(now);
            let known = match remembered.remove(&lane) {
                Some(known) if run_at < known.then.0 => {
                    Known { due, head, cursor: before(run_at), looked, scanned: looked.or(known.scanned), ..known }
                }
                Some(known) if soon(&known) => Known { due: due.min(now + RESCAN), head, ..known },
                Some(known) if head > known.then => {
                    Known { due, head, looked, scanned: looked.or(known.scanned), ..known }
                }
                // those of the same time, of which some were taken, are found by the next scan
                Some(known) => Known { due, head, looked: None, ..known },
                None => Known {
                    newest_first: newest_first(&lane),
                    lane: lane.clone(),
                    due,
                    head,
                    cursor: before(run_at),
                    then: before(run_at),
                    looked,
                    scanned: Some(now),
                    cost: Cost::of_scans(),
                    gave: None,
                },
            };
            self.0.insert(lane, known);
        }
        let mut empty: Vec<_> = remembered.into_values().filter(|known| soon(known)).collect();
        empty.sort_unstable_by_key(|known| Reverse(known.gave));
        for known in empty.into_iter().take(MOST_REMEMBERED) {
            // what comes next in it is younger than what the look has found
            let known = Known { head: EMPTY, due: known.due.min(now + RESCAN), ..known };
            self.0.insert(known.lane.clone(), known);
        }
    }

    /// Something was enqueued: lanes that had nothing left are asked at once.
    pub(super) fn woken(&mut self, now: Instant) {
        let soon = |known: &&mut Known| known.due <= now + LONGEST_SCAN;
        self.0.values_mut().filter(soon).for_each(|known| known.due = now);
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
        (served.into_iter().map(|(known, max_retries)| known.ask(take, now, max_retries)).collect(), next)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What to ask of the only lane that is known, whether something is due in it or not.
    pub(super) fn only(&self, take: u32, now: Instant, retries: impl Fn(&Lane) -> Option<u32>) -> Option<Ask> {
        let mut all = self.0.values();
        let known = all.next().filter(|known| all.len() == 0 && !known.newest_first)?;
        Some(known.ask(take, now, retries(&known.lane)?))
    }

    /// The place right behind the cursor, for an ask that starts there.
    pub(super) fn next_place(&self, ask: &Ask) -> Option<Place> {
        let cursor = self.0.get(&ask.lane)?.cursor;
        Some((cursor.0, cursor.1.checked_add(1)?)).filter(|_| ask.behind == Some(cursor) && !ask.newest_first)
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
            if count > 0 {
                known.gave = Some(now);
                // from now on its cursor says what may be next in it
                known.head = BEGINNING;
            }
            let all = count < ask.take;
            if all {
                known.exhausted(ask, now);
            } else {
                // it may have been asked although it was thought to have nothing left
                known.due = now;
            }
            if ask.behind != Some(known.cursor) {
                known.scanned = Some(now);
                known.cost.add(now - started);
            }
            if let Some(last) = last.filter(|_| !ask.newest_first) {
                known.cursor = if all { last.max(known.cursor) } else { last };
            }
        }
    }

    /// Nothing was due behind the cursor of this ask.
    pub(super) fn empty(&mut self, ask: &Ask, now: Instant) {
        if let Some(known) = self.0.get_mut(&ask.lane) {
            known.exhausted(ask, now);
            if ask.behind != Some(known.cursor) {
                known.scanned = Some(now);
            }
        }
    }

    /// Lanes were compared: those that have some of the next jobs stand where the first of these is, and others of the same
    /// priority not before the last of all.
    pub(super) fn compared(&mut self, asks: &[Ask], shares: &[Share]) {
        let in_order = asks.iter().zip(shares).filter(|(ask, _)| !ask.newest_first);
        let last = in_order.clone().filter_map(|(ask, share)| Some((ask.lane.priority, share.ends?.1))).max();
        for (ask, share) in in_order {
            let Some(known) = self.0.get_mut(&ask.lane) else { continue };
            match (share.ends, last) {
                (Some((first, _)), _) => known.head = first,
                (None, Some((priority, last))) if priority == ask.lane.priority => known.head = known.head.max(last),
                _ => {}
            }
        }
    }

    /// The first lane that was not compared stands there, and these had fewer jobs before it than were wanted. Whether some of
    /// them make room for others now: what was known of them was too early.
    pub(super) fn make_room(&mut self, asks: &[Ask], shares: &[Share], before: Rank, now: Instant) -> bool {
        let mut others = false;
        for (ask, share) in asks.iter().zip(shares) {
            let Some(known) = self.0.get_mut(&ask.lane) else { continue };
            if share.ends.is_none() && ask.lane.priority < before.0 {
                // nothing in it is due
                known.due = now + known.cost.pause();
            }
            others |= known.next() > before || known.due > now;
        }
        others
    }

    /// Until the next of the wanted lanes falls due. Nothing tells an idle worker that a lane is filled that was found empty
    /// but what would wake it anyway: it does not wake by itself to ask.
    pub(super) fn next_due(&self, idle: bool, wanted: impl Fn(&Lane) -> bool) -> Option<Duration> {
        let now = Instant::now();
        let wanted = self.0.values().filter(|known| wanted(&known.lane) && !(idle && known.head == EMPTY));
        // a millisecond more: the database's clock is read a little later than ours
        wanted.map(|known| known.due.saturating_duration_since(now) + Duration::from_millis(1)).min()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn lane(queue: &str, priority: i16) -> Lane {
        Lane { kind: Arc::from("k"), queue: Arc::from(queue), priority }
    }

    const DEAR: Option<Duration> = Some(Duration::from_millis(20));

    /// Lanes whose first rows are due at these times, and have been for long.
    fn lanes(heads: &[(&str, i16, i64)]) -> Lanes {
        let mut lanes = Lanes::default();
        let heads = heads.iter().map(|&(queue, priority, run_at)| LaneHead {
            lane: lane(queue, priority),
            first: before(run_at),
            due_in: Duration::ZERO,
        });
        lanes.found(heads.collect(), Instant::now(), None, |lane| &*lane.queue == "newest");
        lanes
    }

    fn job(queue: &str, run_at: i64, id: i64) -> Claimed {
        Claimed::example(lane(queue, 0), run_at, id)
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
        assert_eq!(next, Some((0, before(10))), "of b, the first that is not asked");
        let (all, next) = asks(&lanes, 4);
        assert_eq!(queues(&all), [("c", -1), ("newest", 0), ("b", 0), ("a", 0)]);
        assert_eq!((next, all[0].max_retries), (None, 3));
    }

    /// What ten jobs of the lane, due at one time, are.
    fn ten(queue: &str, run_at: i64) -> Vec<Claimed> {
        (1..=10).map(|id| job(queue, run_at, id)).collect()
    }

    fn start(lanes: &Lanes) -> Option<Place> {
        asks(lanes, 1).0[0].behind
    }

    fn look(lanes: &mut Lanes, heads: &[(&str, i64)], dear: Option<Duration>) {
        let head = |&(queue, run_at): &(&str, i64)| LaneHead {
            lane: lane(queue, 0),
            first: before(run_at),
            due_in: Duration::ZERO,
        };
        lanes.look_begins();
        lanes.found(heads.iter().map(head).collect(), Instant::now(), dear, |_| false);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_goes_on_behind_the_one_before_until_a_scan_is_allowed() {
        let at = 1_700_000_000_000_000;
        let mut lanes = lanes(&[("a", 0, at)]);
        assert_eq!(start(&lanes), Some((at, i64::MIN)), "what a look has found is where it starts");
        lanes.claimed(&asks(&lanes, 1).0, &ten("a", at), Instant::now());
        assert_eq!(start(&lanes), Some((at, 10)));
        lanes.claimed(&asks(&lanes, 1).0, &ten("a", at + 1), Instant::now());
        assert_eq!(start(&lanes), Some((at + 1, 10)));
        tokio::time::advance(RESCAN).await;
        assert_eq!(start(&lanes), Some((at + 1 - NEAR, i64::MIN)));
        // it brings what was committed late: there may be more of it
        lanes.claimed(&asks(&lanes, 1).0, &ten("a", at - 5), Instant::now());
        assert_eq!(start(&lanes), Some((at - 5, 10)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_starts_at_the_cursor_knows_where_the_next_row_is() {
        let at = 1_700_000_000_000_000;
        let mut lanes = lanes(&[("a", 0, at), ("newest", 0, at)]);
        let next = |lanes: &Lanes| {
            let (all, _) = asks(lanes, 2);
            assert_eq!(queues(&all), [("newest", 0), ("a", 0)]);
            assert_eq!(lanes.next_place(&all[0]), None, "the newest row of a lane may be anywhere");
            lanes.next_place(&all[1])
        };
        let jobs: Vec<_> = ten("a", at).into_iter().chain(ten("newest", at)).collect();
        lanes.claimed(&asks(&lanes, 2).0, &jobs, Instant::now());
        assert_eq!(next(&lanes), Some((at, 11)));
        tokio::time::advance(RESCAN).await;
        assert_eq!(next(&lanes), None, "a scan from before the cursor finds where it begins");
    }

    #[tokio::test(start_paused = true)]
    async fn a_scan_that_brings_little_moves_no_cursor_back() {
        let at = 1_700_000_000_000_000;
        let mut lanes = lanes(&[("a", 0, at)]);
        lanes.claimed(&asks(&lanes, 1).0, &ten("a", at), Instant::now());
        tokio::time::advance(RESCAN).await;
        lanes.claimed(&asks(&lanes, 1).0, &[job("a", at - 7, 3)], Instant::now());
        tokio::time::advance(RESCAN).await;
        assert_eq!(start(&lanes), Some((at - NEAR, i64::MIN)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_gave_less_than_was_asked_is_scanned_and_then_left_alone() {
        let mut lanes = Lanes::default();
        look(&mut lanes, &[("a", 10)], DEAR);
        lanes.claimed(&asks(&lanes, 1).0, &ten("a", 10), Instant::now());
        lanes.claimed(&asks(&lanes, 1).0, &[job("a", 11, 11)], Instant::now());
        assert_eq!(start(&lanes), Some((11 - NEAR, i64::MIN)), "what is cheap is scanned at once");
        lanes.claimed(&asks(&lanes, 1).0, &[], Instant::now());
        assert!(asks(&lanes, 1).0.is_empty(), "nothing there");
        assert_eq!(lanes.next_due(false, |_| true), Some(RESCAN + Duration::from_millis(1)));
        lanes.woken(Instant::now());
        assert_eq!(start(&lanes), Some((11, 11)), "unless something was enqueued");
        lanes.empty(&asks(&lanes, 1).0[0], Instant::now());
        lanes.empty(&asks(&lanes, 1).0[0], Instant::now());
        assert!(asks(&lanes, 1).0.is_empty());
        tokio::time::advance(RESCAN).await;
        assert_eq!(asks(&lanes, 1).0.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_that_was_looked_at_lately_is_not_scanned_for_giving_little() {
        let mut lanes = lanes(&[("a", 0, 10)]);
        lanes.claimed(&asks(&lanes, 1).0, &[job("a", 10, 1)], Instant::now());
        assert!(asks(&lanes, 1).0.is_empty(), "found by the first look");
        tokio::time::advance(RESCAN).await;
        look(&mut lanes, &[("a", 11)], None);
        lanes.claimed(&asks(&lanes, 1).0, &[job("a", 11, 2)], Instant::now());
        assert!(asks(&lanes, 1).0.is_empty(), "found by another one");
        tokio::time::advance(RESCAN).await;
        assert_eq!(start(&lanes), Some((11 - NEAR, i64::MIN)));
        look(&mut lanes, &[("a", 12)], DEAR);
        assert_eq!(start(&lanes), Some((11 - NEAR, i64::MIN)), "what was found is old by now");
        look(&mut lanes, &[("a", 11)], None);
        assert_eq!(
            start(&lanes),
            Some((11 - NEAR, i64::MIN)),
            "it may be one with a smaller id, which no cursor finds"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_before_anything_is_due_forgets_no_time() {
        let mut lanes = lanes(&[("a", 0, 10)]);
        lanes.claimed(&asks(&lanes, 1).0, &ten("a", 10), Instant::now());
        let later = LaneHead { lane: lane("a", 0), first: before(20), due_in: RESCAN / 2 };
        lanes.look_begins();
        lanes.found(vec![later], Instant::now(), None, |_| false);
        let ask = lanes.only(10, Instant::now(), |_| Some(3)).unwrap();
        lanes.claimed(&[ask], &[job("a", 15, 11)], Instant::now());
        assert_eq!(lanes.next_due(false, |_| true), Some(RESCAN / 2 + Duration::from_millis(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_dear_is_rationed() {
        let at = 1_700_000_000_000_000;
        let mut lanes = lanes(&[("a", 0, at)]);
        for _ in 0..3 {
            tokio::time::advance(LONGEST_SCAN).await;
            let (ask, _) = asks(&lanes, 1);
            let started = Instant::now();
            tokio::time::advance(Duration::from_millis(20)).await;
            lanes.claimed(&ask, &ten("a", at), started);
        }
        tokio::time::advance(RESCAN).await;
        let (ask, _) = asks(&lanes, 1);
        assert_eq!(ask[0].behind, Some((at, 10)), "a scan of 20 ms comes once a second");
        lanes.empty(&ask[0], Instant::now());
        assert!(asks(&lanes, 1).0.is_empty(), "nor does an empty lane bring it earlier");
        tokio::time::advance(Duration::from_millis(20) * RATION).await;
        assert_eq!(start(&lanes), Some((at - NEAR, i64::MIN)));
    }

    #[test]
    fn a_look_keeps_the_cursor_and_forgets_what_is_gone() {
        let mut lanes = lanes(&[("a", 0, 10), ("b", 0, 10)]);
        let jobs: Vec<_> = ten("a", 10).into_iter().chain(ten("b", 10)).collect();
        lanes.claimed(&asks(&lanes, 2).0, &jobs, Instant::now());
        look(&mut lanes, &[("a", 12)], None);
        let (ask, _) = asks(&lanes, 2);
        assert_eq!(queues(&ask), [("a", 0)]);
        assert_eq!(ask[0].behind, Some((10, 10)));
        look(&mut lanes, &[("a", 9)], None);
        assert_eq!(start(&lanes), Some((9, i64::MIN)), "something came before it");
    }

    #[test]
    fn a_dear_look_moves_no_cursor_back_for_what_was_claimed_meanwhile() {
        let mut lanes = lanes(&[("a", 0, 10)]);
        lanes.claimed(&asks(&lanes, 1).0, &ten("a", 10), Instant::now());
        lanes.look_begins();
        lanes.claimed(&asks(&lanes, 1).0, &ten("a", 30), Instant::now());
        let head = LaneHead { lane: lane("a", 0), first: before(20), due_in: Duration::ZERO };
        lanes.found(vec![head], Instant::now(), DEAR, |_| false);
        assert_eq!(start(&lanes), Some((30, 10)));
    }

    #[tokio::test(start_paused = true)]
    async fn while_looks_are_dear_an_empty_lane_is_remembered_for_a_while() {
        let mut lanes = lanes(&[("a", 0, 10), ("b", 0, 10)]);
        lanes.claimed(&asks(&lanes, 2).0, &ten("a", 10), Instant::now());
        look(&mut lanes, &[], DEAR);
        assert_eq!(queues(&asks(&lanes, 2).0), [("a", 0)], "the one that gave jobs");
        assert!(lanes.next_due(false, |_| true).is_some());
        assert!(lanes.next_due(true, |_| true).is_none(), "an idle worker does not wake for it");
        tokio::time::advance(REMEMBERED).await;
        look(&mut lanes, &[], DEAR);
        assert!(asks(&lanes, 2).0.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dear_look_puts_no_lane_off_that_gave_jobs_lately() {
        let mut lanes = lanes(&[("a", 0, 10), ("b", 0, 10)]);
        let retry = |queue| LaneHead { lane: lane(queue, 0), first: before(10), due_in: Duration::from_secs(300) };
        lanes.claimed(&asks(&lanes, 2).0, &ten("a", 10), Instant::now());
        lanes.look_begins();
        lanes.found(vec![retry("a"), retry("b")], Instant::now(), DEAR, |_| false);
        tokio::time::advance(RESCAN).await;
        assert_eq!(queues(&asks(&lanes, 2).0), [("a", 0)], "it may have been filled since the look began");
        lanes.look_begins();
        lanes.found(vec![retry("a"), retry("b")], Instant::now(), None, |_| false);
        tokio::time::advance(RESCAN).await;
        assert!(asks(&lanes, 2).0.is_empty());
    }

    #[test]
    fn a_lane_is_not_remembered_in_which_a_claim_has_no_cursor() {
        let mut lanes = lanes(&[("newest", 0, 10)]);
        lanes.claimed(&asks(&lanes, 1).0, &ten("newest", 10), Instant::now());
        look(&mut lanes, &[], DEAR);
        assert!(asks(&lanes, 1).0.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn empty_lanes_are_asked_seldom_though_they_are_out_of_step() {
        let mut lanes = lanes(&[("a", 0, 10), ("b", 0, 10)]);
        lanes.claimed(&asks(&lanes, 2).0, &ten("a", 10), Instant::now());
        let (begin, mut rounds) = (Instant::now(), 0);
        while begin.elapsed() < Duration::from_secs(2) {
            let (due, _) = asks(&lanes, 2);
            rounds += u32::from(!due.is_empty());
            due.iter().for_each(|ask| lanes.empty(ask, Instant::now()));
            tokio::time::advance(lanes.next_due(false, |_| true).unwrap()).await;
        }
        assert!(rounds <= 2 * 2 * 2000 / 250, "{rounds}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_remembered_lane_comes_last_until_it_gives_a_job() {
        let mut lanes = lanes(&[("a", 0, 10), ("b", 0, 20)]);
        lanes.claimed(&asks(&lanes, 1).0, &ten("a", 10), Instant::now());
        look(&mut lanes, &[("b", 20)], DEAR);
        tokio::time::advance(RESCAN).await;
        assert_eq!(queues(&asks(&lanes, 2).0), [("b", 0), ("a", 0)]);
        lanes.claimed(&asks(&lanes, 2).0, &ten("a", 15), Instant::now());
        tokio::time::advance(RESCAN).await;
        assert_eq!(queues(&asks(&lanes, 2).0), [("a", 0), ("b", 0)]);
    }

    #[test]
    fn no_time_is_too_early() {
        for run_at in [i64::MIN, YEAR_1 - 1, YEAR_1, YEAR_1 + 1] {
            let mut lanes = lanes(&[("a", 0, run_at)]);
            assert_eq!(start(&lanes), (run_at >= YEAR_1).then_some((run_at, i64::MIN)));
            lanes.0.values_mut().for_each(|known| known.scanned = None);
            assert_eq!(start(&lanes), None);
        }
    }

    fn share(first: i64, last: i64) -> Share {
        Share { ends: Some((before(first), before(last))), ..Share::default() }
    }

    #[test]
    fn a_comparison_tells_where_lanes_stand() {
        let mut lanes = lanes(&[("a", 0, 10), ("b", 0, 11), ("c", 0, 12), ("newest", 0, 13)]);
        let (all, _) = asks(&lanes, 4);
        assert_eq!(queues(&all), [("newest", 0), ("a", 0), ("b", 0), ("c", 0)]);
        lanes.compared(&all, &[share(-9, -1), share(40, 50), share(20, 60), Share::default()]);
        let (some, next) = asks(&lanes, 3);
        assert_eq!(queues(&some), [("newest", 0), ("b", 0), ("a", 0)]);
        assert_eq!(next, Some((0, before(60))), "c, which comes after all that was found");
        lanes.compared(&all, &[Share::default(); 4]);
        assert_eq!(asks(&lanes, 3).1, Some((0, before(60))), "where nothing was found nothing is learnt");
    }

    #[test]
    fn of_one_and_the_same_time_lanes_are_asked_in_the_order_of_their_ids() {
        let mut lanes = Lanes::default();
        let heads = [("a", 7), ("b", 3), ("c", 5)].map(|(queue, id)| LaneHead {
            lane: lane(queue, 0),
            first: (10, id),
            due_in: Duration::ZERO,
        });
        lanes.found(heads.into(), Instant::now(), None, |_| false);
        let (first, next) = asks(&lanes, 2);
        assert_eq!((queues(&first), next), (vec![("b", 0), ("c", 0)], Some((0, (10, 7)))));
        lanes.claimed(&first[..1], &[job("b", 10, 3)], Instant::now());
        lanes.compared(&first, &[share(99, 99), Share { ends: Some(((10, 9), (10, 9))), ..Share::default() }]);
        assert_eq!(queues(&asks(&lanes, 1).0), [("a", 0)]);
    }

    #[test]
    fn lanes_that_were_thought_to_come_first_make_room() {
        let mut lanes = lanes(&[("a", 0, 10), ("b", 0, 11), ("c", 0, 12), ("urgent", -1, 99)]);
        let (first, next) = asks(&lanes, 3);
        assert_eq!((queues(&first), next), (vec![("urgent", -1), ("a", 0), ("b", 0)], Some((0, before(12)))));
        let (next, now) = (next.unwrap(), Instant::now());
        lanes.compared(&first, &[share(99, 99), share(10, 10), share(12, 12)]);
        let shares = [share(99, 99), share(10, 10), share(12, 12)];
        assert!(!lanes.make_room(&first, &shares, next, now), "c does not come before any of them");
        let shares = [Share::default(), share(11, 14), Share::default()];
        lanes.compared(&first, &shares);
        assert_eq!(queues(&asks(&lanes, 1).0), [("urgent", -1)], "something may come");
        assert!(lanes.make_room(&first, &shares, next, now));
        let (first, next) = asks(&lanes, 2);
        assert_eq!(
            (queues(&first), next),
            (vec![("a", 0), ("c", 0)], Some((0, before(14)))),
            "nothing of urgent is due"
        );
    }
}
