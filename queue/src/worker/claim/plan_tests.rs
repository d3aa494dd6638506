//! Plans beside answers that are made up.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::store::values::{LaneHead, Place};

/// Lanes whose first rows are due one microsecond after another.
fn lanes(count: i64) -> Lanes {
    let head = |n: i64| LaneHead {
        lane: Lane { kind: Arc::from("k"), queue: Arc::from(format!("q{n:03}")), priority: 0 },
        first: place(n),
        due_in: Duration::ZERO,
    };
    let mut lanes = Lanes::default();
    lanes.found((0..count).map(head).collect(), Instant::now(), None, 0, |_| false);
    lanes
}

fn place(n: i64) -> Place {
    (1_000_000_000_000_000 + n, n)
}

/// A lane that has `count` of the next jobs. Of these, `sure` are next for certain.
fn share(count: u32, sure: u32, first: i64) -> Share {
    Share { count, sure, all: count, ends: (count > 0).then(|| (place(first), place(first + i64::from(count) - 1))) }
}

fn plan<'a>(
    lanes: &'a mut Lanes,
    horizon: &'a mut Horizon,
    take: u32,
) -> Plan<'a, impl Fn(&Lane) -> Option<u32> + use<>> {
    let retries = |_: &Lane| Some(3);
    let now = Instant::now();
    Plan { horizon, lanes, retries, slots: 0, take, follows: false, now, breadth: 1, until: None, turnovers: 0 }
}

fn preview(step: Step) -> (Vec<Ask>, Reach) {
    match step {
        Step::Preview(asks, reach) => (asks, reach),
        Step::Claim(next) => panic!("{next:?}"),
    }
}

fn claim(step: Step) -> Next {
    match step {
        Step::Claim(next) => next,
        Step::Preview(asks, reach) => panic!("{asks:?}, {reach:?}"),
    }
}

#[test]
fn a_lane_that_is_alone_is_claimed_without_a_preview() {
    let (mut lanes, mut horizon) = (lanes(1), Horizon::default());
    let next = claim(plan(&mut lanes, &mut horizon, 10).begin());
    assert_eq!((next.asks.len(), next.asks[0].take, next.cut, next.breadth), (1, 10, false, None));
}

#[test]
fn no_more_lanes_are_compared_than_it_takes() {
    let (mut lanes, mut horizon) = (lanes(100), Horizon::default());
    let mut plan = plan(&mut lanes, &mut horizon, 10);
    let (asks, reach) = preview(plan.begin());
    assert_eq!((asks.len(), reach.before.is_some(), reach.least), (1, true, 0));
    // it has one job before the next lane: four times as many lanes are asked
    let (asks, reach) = preview(plan.after(asks, reach, &[share(10, 1, 0)]));
    assert_eq!(asks.len(), 4);
    let shares = [share(4, 4, 0), share(3, 3, 1), share(3, 3, 2), share(0, 0, 3)];
    let next = claim(plan.after(asks, reach, &shares));
    assert_eq!(next.asks.iter().map(|ask| ask.take).collect::<Vec<_>>(), [4, 3, 3], "the fourth has none of them");
    assert_eq!((next.more, next.cut, next.breadth), (true, false, Some(4)));
}

#[test]
fn of_too_many_lanes_the_next_jobs_are_taken_at_least() {
    let (mut lanes, mut horizon) = (lanes(500), Horizon::default());
    let mut plan = Plan { breadth: COMPARED, ..plan(&mut lanes, &mut horizon, 1_000) };
    let (asks, reach) = preview(plan.begin());
    assert_eq!((asks.len(), reach.least), (COMPARED, COMPARED as u32));
    let shares: Vec<_> = (0..COMPARED as i64).map(|n| share(1, 1, n)).collect();
    let next = claim(plan.after(asks, reach, &shares));
    assert_eq!((next.asks.len(), next.more), (COMPARED, true));
}

#[test]
fn lanes_that_are_empty_make_room_for_others() {
    let (mut lanes, mut horizon) = (lanes(500), Horizon::default());
    let mut plan = Plan { breadth: COMPARED, ..plan(&mut lanes, &mut horizon, 1_000) };
    let (asks, reach) = preview(plan.begin());
    let first = asks[0].lane.clone();
    let (asks, _) = preview(plan.after(asks, reach, &[Share::default(); COMPARED]));
    assert!(asks.iter().all(|ask| ask.lane != first), "others come first now");
}

#[test]
fn a_guess_that_was_too_short_is_read_further() {
    let (mut lanes, mut horizon) = (lanes(2), Horizon::default());
    horizon.claimed([(0, place(0)), (0, place(10))].into_iter());
    let mut plan = Plan { breadth: 4, ..plan(&mut lanes, &mut horizon, 100) };
    let (asks, reach) = preview(plan.begin());
    let until = reach.until.expect("a guess");
    let (asks, reach) = preview(plan.after(asks, reach, &[share(1, 1, 0), share(0, 0, 1)]));
    assert!(reach.until.is_some_and(|further| further > until));
    let next = claim(plan.after(asks, reach, &[share(40, 40, 0), share(30, 30, 1)]));
    assert_eq!(next.asks.iter().map(|ask| ask.take).sum::<u32>(), 70);
    assert!(next.cut, "there may be more than was read");
}
