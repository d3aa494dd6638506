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
    planner: Planner,
}

impl Scene {
    fn new(lanes: Lanes, breadth: usize, take: u32) -> Self {
        let planner = Planner { breadth, ..Planner::new(1) };
        Self { plan: Plan::new(0, take, false, Instant::now()), lanes, planner }
    }

    fn on(&mut self, event: impl FnOnce(&mut Plan, &mut Known<'_>) -> Planned) -> Planned {
        let Self { plan, lanes, planner } = self;
        event(plan, &mut Known { lanes, planner, retries: &|_| Some(3) })
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
    assert_eq!((next.asks.len(), next.asks[0].take, next.cut), (1, 10, false));
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
    assert_eq!((next.more, next.cut, plan.planner.breadth), (true, false, 4));
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
    plan.planner.horizons[0].claimed([(0, place(0)), (0, place(10))].into_iter());
    let (asks, reach) = preview(plan.begin());
    let until = reach.until.expect("a guess");
    let (asks, reach) = preview(plan.after(asks, reach, &[share(1, 1, 0), share(0, 0, 1)]));
    assert!(reach.until.is_some_and(|further| further > until));
    let next = claim(plan.after(asks, reach, &[share(40, 40, 0), share(30, 30, 1)]));
    assert_eq!(next.asks.iter().map(|ask| ask.take).sum::<u32>(), 70);
    assert!(next.cut, "there may be more than was read");
}

/// Jobs of these priorities and times, with consecutive ids.
fn took(horizon: &mut Horizon, jobs: &[(i16, i64)]) {
    let ids = 1..;
    horizon.claimed(jobs.iter().zip(ids).map(|(&(priority, time), id)| (priority, (time, id))));
}

/// Jobs that are due from this time on are not read.
fn time(priority: i16, time: i64) -> Option<Rank> {
    Some((priority, (time, i64::MIN)))
}

#[test]
fn the_next_jobs_are_expected_at_the_pace_of_the_last() {
    let mut horizon = Horizon::default();
    assert_eq!(horizon.until(10), None, "nothing is known");
    took(&mut horizon, &[(0, 5_000), (1, 10_000), (1, 40_000), (1, 30_000)]);
    assert_eq!(horizon.until(10), time(1, 40_000 + 150_000 + 1_000), "10,000 from one job to the next");
    assert_eq!(horizon.further(10), time(1, 40_000 + 16 * 151_000));
    assert_eq!(horizon.until(20), time(1, 40_000 + 300_000 + 1_000));
    took(&mut horizon, &[(1, 80_000), (1, 80_000)]);
    assert_eq!(horizon.until(10), time(1, 80_000 + 300_000 + 1_000), "others took some in between");
    took(&mut horizon, &[]);
    assert!(horizon.until(1).is_some(), "an empty claim changes nothing");
    horizon.reached = None;
    assert_eq!(horizon.until(10), None);
}

#[test]
fn of_one_and_the_same_time_they_are_expected_at_the_pace_of_their_ids() {
    let mut horizon = Horizon::default();
    horizon.claimed([(0, (70, 10)), (0, (70, 30)), (0, (70, 50))].into_iter());
    assert_eq!(horizon.until(30), Some((0, (70, 50 + 600 + 100))), "40 ids for three jobs, times 1.5");
    horizon.claimed([(0, (70, 60)), (0, (70, 90))].into_iter());
    assert_eq!(horizon.until(30), Some((0, (70, 90 + 900 + 100))), "40 ids for two jobs since the last claim");
    assert_eq!(horizon.further(30), time(0, 70 + 16_000), "no more jobs are due at that time");
    horizon.claimed([(0, (70, 91)), (0, (90, 1))].into_iter());
    assert_eq!(horizon.until(10), time(0, 90 + 150 + 1_000));
    horizon.claimed([(0, (90, i64::MAX))].into_iter());
    assert_eq!(horizon.until(u32::MAX), Some((0, (90, i64::MAX))));
}

#[test]
fn times_may_be_absurd() {
    let mut horizon = Horizon::default();
    took(&mut horizon, &[(0, i64::MIN), (0, 0)]);
    assert_eq!(horizon.until(u32::MAX), time(0, FARTHEST as i64));
    took(&mut horizon, &[(0, i64::MIN), (0, i64::MAX)]);
    assert_eq!(horizon.until(1), None);
}

#[test]
fn after_wrong_guesses_there_are_fewer_and_fewer() {
    let mut horizon = Horizon::default();
    took(&mut horizon, &[(0, 1)]);
    let mut rests = Vec::new();
    for _ in 0..9 {
        while horizon.further(1).is_some() {}
        let mut rest = 0;
        while horizon.until(1).is_none() {
            rest += 1;
        }
        rests.push(rest);
    }
    assert_eq!(rests, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    horizon.last_rest = 0;
    while horizon.further(1).is_some() {}
    assert_eq!((horizon.until(1), horizon.until(1).is_some()), (None, true));
}
