//! Lanes in time that is made up.

use std::sync::Arc;

use super::*;
use crate::worker::claim::discovery::RATION;

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
    lanes.found(heads.collect(), Instant::now(), None, 0, |lane| &*lane.queue == "newest");
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
    lanes.found(heads.iter().map(head).collect(), Instant::now(), dear, 0, |_| false);
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
async fn a_claim_from_the_cursor_knows_the_next_row() {
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
    assert_eq!(start(&lanes), Some((11 - NEAR, i64::MIN)), "it may be one with a smaller id, which no cursor finds");
}

#[tokio::test(start_paused = true)]
async fn a_claim_before_anything_is_due_keeps_the_due_time() {
    let mut lanes = lanes(&[("a", 0, 10)]);
    lanes.claimed(&asks(&lanes, 1).0, &ten("a", 10), Instant::now());
    let later = LaneHead { lane: lane("a", 0), first: before(20), due_in: RESCAN / 2 };
    lanes.look_begins();
    lanes.found(vec![later], Instant::now(), None, 0, |_| false);
    let ask = lanes.only(10, true, Instant::now(), |_| Some(3)).unwrap();
    lanes.claimed(&[ask], &[job("a", 15, 11)], Instant::now());
    assert_eq!(lanes.next_due(false, |_| true), Some(RESCAN / 2 + Duration::from_millis(1)));
}

#[tokio::test(start_paused = true)]
async fn the_only_lane_is_likely_where_it_has_something_or_has_just_given() {
    let only = |lanes: &Lanes, told| lanes.only(10, told, Instant::now(), |_| Some(3)).is_some();
    let mut lanes = lanes(&[("a", 0, 10)]);
    assert!(only(&lanes, true) && only(&lanes, false), "it is due");
    lanes.claimed(&asks(&lanes, 1).0, &[job("a", 10, 1)], Instant::now());
    let later = LaneHead { lane: lane("a", 0), first: before(20), due_in: RESCAN * 2 };
    lanes.look_begins();
    lanes.found(vec![later], Instant::now(), None, 0, |_| false);
    assert!(only(&lanes, true) && only(&lanes, false), "it has just given one");
    tokio::time::advance(RESCAN).await;
    assert!(only(&lanes, true) && !only(&lanes, false), "one that waits is not asked at every poll");
    assert!(!lanes.have_due(Instant::now()));
    tokio::time::advance(RESCAN).await;
    assert!(only(&lanes, false) && lanes.have_due(Instant::now()));
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
    lanes.found(vec![head], Instant::now(), DEAR, 0, |_| false);
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
    lanes.found(vec![retry("a"), retry("b")], Instant::now(), DEAR, 0, |_| false);
    tokio::time::advance(RESCAN).await;
    assert_eq!(queues(&asks(&lanes, 2).0), [("a", 0)], "it may have been filled since the look began");
    lanes.look_begins();
    lanes.found(vec![retry("a"), retry("b")], Instant::now(), None, 0, |_| false);
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
        lanes.known.values_mut().for_each(|known| known.scanned = None);
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
    lanes.found(heads.into(), Instant::now(), None, 0, |_| false);
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
    assert_eq!((queues(&first), next), (vec![("a", 0), ("c", 0)], Some((0, before(14)))), "nothing of urgent is due");
}

/// As a look that stopped midway leaves them.
#[test]
fn where_looks_do_not_see_all_lanes_those_that_have_nothing_left_come_last_and_are_forgotten() {
    let found = |lanes: &mut Lanes, heads: &[(&str, i64)]| {
        let heads = heads.iter().map(|&(queue, run_at)| LaneHead {
            lane: lane(queue, 0),
            first: before(run_at),
            due_in: Duration::ZERO,
        });
        lanes.found(heads.collect(), Instant::now(), None, 10, |_| false);
    };
    let due = |lanes: &mut Lanes| lanes.known.values_mut().for_each(|known| known.due = Instant::now());
    let mut lanes = Lanes::default();
    found(&mut lanes, &[("a", 10), ("b", 11), ("c", 12), ("d", 13)]);
    let (first, _) = asks(&lanes, 3);
    lanes.claimed(&first[..1], &[job("a", 10, 1)], Instant::now());
    lanes.empty(&first[1], Instant::now());
    assert_eq!(queues(&asks(&lanes, 9).0), [("c", 0), ("d", 0)], "a gave less than was asked, b had nothing");
    due(&mut lanes);
    assert_eq!(queues(&asks(&lanes, 2).0), [("c", 0), ("d", 0)]);
    lanes.claimed(&asks(&lanes, 2).0, &[job("c", 12, 3)], Instant::now());
    due(&mut lanes);
    assert!(!lanes.have_due(Instant::now()), "it is time to look for others");
    lanes.look_begins();
    found(&mut lanes, &[("e", 20)]);
    let mut kept: Vec<_> = lanes.known.keys().map(|lane| lane.queue.to_string()).collect();
    kept.sort();
    assert_eq!(kept, ["a", "c", "e"], "those that gave something may get more soon");
}
