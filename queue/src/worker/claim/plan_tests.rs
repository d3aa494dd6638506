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

/// A plan, and what it knows.
struct Scene {
    plan: Plan,
    lanes: Lanes,
    horizon: Horizon,
}

impl Scene {
    fn new(lanes: Lanes, breadth: usize, take: u32) -> Self {
        let planner = Planner { breadth, ..Planner::new(1) };
        Self { plan: planner.plan(0, take, false, Instant::now()), lanes, horizon: Horizon::default() }
    }

    fn on(&mut self, event: impl FnOnce(&mut Plan, &mut Known<'_>) -> Planned) -> Planned {
        let Self { plan, lanes, horizon } = self;
        event(plan, &mut Known { lanes, horizon, retries: &|_| Some(3) })
    }

    fn begin(&mut self) -> Planned {
        self.on(Plan::begin)
    }

    fn after(&mut self, asks: Vec<Ask>, reach: Reach, shares: &[Share]) -> Planned {
        self.on(|plan, known| plan.after(known, asks, reach, shares))
    }
}

fn preview(step: Planned) -> (Vec<Ask>, Reach) {
    match step {
        Planned::Preview(asks, reach) => (asks, reach),
        Planned::Claim(next) => panic!("{next:?}"),
    }
}

fn claim(step: Planned) -> Next {
    match step {
        Planned::Claim(next) => next,
        Planned::Preview(asks, reach) => panic!("{asks:?}, {reach:?}"),
    }
}

#[test]
fn a_lane_that_is_alone_is_claimed_without_a_preview() {
    let next = claim(Scene::new(lanes(1), 1, 10).begin());
    assert_eq!((next.asks.len(), next.asks[0].take, next.cut, next.breadth), (1, 10, false, None));
}

#[test]
fn no_more_lanes_are_compared_than_it_takes() {
    let mut plan = Scene::new(lanes(100), 1, 10);
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
    let mut plan = Scene::new(lanes(500), COMPARED, 1_000);
    let (asks, reach) = preview(plan.begin());
    assert_eq!((asks.len(), reach.least), (COMPARED, COMPARED as u32));
    let shares: Vec<_> = (0..COMPARED as i64).map(|n| share(1, 1, n)).collect();
    let next = claim(plan.after(asks, reach, &shares));
    assert_eq!((next.asks.len(), next.more), (COMPARED, true));
}

#[test]
fn lanes_that_are_empty_make_room_for_others() {
    let mut plan = Scene::new(lanes(500), COMPARED, 1_000);
    let (asks, reach) = preview(plan.begin());
    let first = asks[0].lane.clone();
    let (asks, _) = preview(plan.after(asks, reach, &[Share::default(); COMPARED]));
    assert!(asks.iter().all(|ask| ask.lane != first), "others come first now");
}

#[test]
fn a_guess_that_was_too_short_is_read_further() {
    let mut plan = Scene::new(lanes(2), 4, 100);
    plan.horizon.claimed([(0, place(0)), (0, place(10))].into_iter());
    let (asks, reach) = preview(plan.begin());
    let until = reach.until.expect("a guess");
    let (asks, reach) = preview(plan.after(asks, reach, &[share(1, 1, 0), share(0, 0, 1)]));
    assert!(reach.until.is_some_and(|further| further > until));
    let next = claim(plan.after(asks, reach, &[share(40, 40, 0), share(30, 30, 1)]));
    assert_eq!(next.asks.iter().map(|ask| ask.take).sum::<u32>(), 70);
    assert!(next.cut, "there may be more than was read");
}
