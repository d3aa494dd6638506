//! The brain alone: what it says next beside answers that are made up.

use std::collections::BTreeMap;

use super::*;
use crate::store::values::LaneHead;
use crate::worker::fake::{Answer, MadeUp, nothing};
use crate::worker::run::attempt::Timing;

fn brain(queues: &[&str]) -> Brain {
    let store = MadeUp::new(|_| Answer::Yes);
    let queues: BTreeMap<String, u32> = queues.iter().map(|queue| ((*queue).to_owned(), 1_000)).collect();
    let (shared, _) = store.shared(queues, Timing::default(), nothing);
    Brain::new(shared)
}

fn lane(queue: &str) -> Lane {
    Lane { kind: Arc::from("k"), queue: Arc::from(queue), priority: 0 }
}

fn found(queues: &[&str]) -> Event<'static> {
    let head = |queue: &&str| LaneHead { lane: lane(queue), first: (1_600_000_000_000_000, 1), due_in: Duration::ZERO };
    let (heads, took) = (queues.iter().map(head).collect(), Duration::from_millis(1));
    Event::Discovered(Ok(Found { heads, took, ..Found::default() }), took)
}

/// The next `count` jobs of the first of these lanes.
fn jobs(asks: &[Ask], count: i64) -> Vec<Claimed> {
    (1..=count).map(|id| Claimed::example(asks[0].lane.clone(), 1_600_000_000_000_000 + id, id)).collect()
}

fn claim(brain: &mut Brain, step: Step, count: i64) -> Step {
    let Step::Claim { asks, .. } = step else { panic!("{step:?}") };
    let jobs = jobs(&asks, count);
    brain.on(Event::Claimed { asks, jobs: &jobs, began: Instant::now() }).expect("no discovery failed")
}

fn begin(brain: &mut Brain, after: After) -> Step {
    let wants = brain.wants();
    brain.begin(wants, after)
}

/// In real time: a lane is due as soon as it is found.
#[tokio::test]
async fn an_unknown_database_is_discovered_before_the_first_claim() {
    let mut brain = brain(&["a"]);
    assert!(matches!(begin(&mut brain, After::News), Step::Discover { beside: false, .. }));
    let step = brain.on(found(&["a"])).expect("it did not fail");
    assert!(matches!(&step, Step::Claim { asks, alone: false } if asks[0].take == 1_000), "{step:?}");
    assert!(matches!(claim(&mut brain, step, 3), Step::Done(3)));
}

#[tokio::test]
async fn several_lanes_are_compared_before_they_are_claimed() {
    let mut brain = brain(&[]);
    begin(&mut brain, After::News);
    let step = brain.on(found(&["a", "b"])).expect("it did not fail");
    assert!(matches!(step, Step::Preview(..)), "{step:?}");
}

#[tokio::test]
async fn a_backlog_is_claimed_under_the_lock_while_there_are_others() {
    for others in [0, 1] {
        let mut brain = brain(&["a"]);
        brain.shared.lease.set_others(others);
        begin(&mut brain, After::News);
        let step = brain.on(found(&["a"])).expect("it did not fail");
        assert!(matches!(claim(&mut brain, step, 1_000), Step::Done(1_000)));
        let step = begin(&mut brain, After::Claim);
        assert_eq!(matches!(step, Step::Lock), others == 1, "{step:?}");
    }
}

#[tokio::test]
async fn after_one_job_the_next_is_guessed_and_then_others_are_looked_for() {
    let mut brain = brain(&["a"]);
    begin(&mut brain, After::News);
    let step = brain.on(found(&["a"])).expect("it did not fail");
    claim(&mut brain, step, 1);
    let step = begin(&mut brain, After::News);
    assert!(matches!(&step, Step::Claim { asks, .. } if asks[0].take == 1), "{step:?}");
    assert!(matches!(claim(&mut brain, step, 1), Step::Discover { beside: false, .. }));
}

/// Whatever the database answers, a round ends, and each step answers the event before it.
#[tokio::test(start_paused = true)]
async fn every_round_ends() {
    for seed in 0..500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let names = ["a", "b", "c"];
        let mut brain = brain(&names[..random.usize(0..=3)]);
        brain.shared.lease.set_others(random.usize(0..2));
        for _ in 0..20 {
            let after = [After::Claim, After::Pause, After::News, After::Poll][random.usize(0..4)];
            let mut step = begin(&mut brain, after);
            let mut steps = 0;
            while !matches!(step, Step::Done(_)) {
                steps += 1;
                assert!(steps < 100, "seed {seed}: {step:?}");
                let took = Duration::from_millis(random.u64(0..400));
                let next = match step {
                    Step::Discover { beside: true, .. } => {
                        let next = brain.on(Event::Discovering);
                        if random.bool() {
                            brain.discovered(Ok(Found::default()), took).expect("no failure");
                        }
                        next
                    }
                    Step::Discover { .. } if random.u32(0..8) == 0 => {
                        brain.on(Event::Discovered(Err(Error::config("away")), took))
                    }
                    Step::Discover { .. } => brain.on(found(&names[..random.usize(0..=3)])),
                    Step::Lock => brain.on(Event::Locked { taken: random.bool(), waited: took }),
                    Step::Preview(asks, reach) => {
                        let count = random.u32(0..3);
                        let ends = (count > 0).then_some(((1_600_000_000_000_001, 1), (1_600_000_000_000_009, 9)));
                        let share = Share { count, sure: random.u32(0..=count), all: count, ends };
                        let shares = vec![share; asks.len()];
                        brain.on(Event::Previewed(asks, reach, shares))
                    }
                    Step::Claim { asks, .. } => {
                        let jobs = jobs(&asks, random.i64(0..=i64::from(asks[0].take)));
                        brain.on(Event::Claimed { asks, jobs: &jobs, began: Instant::now() })
                    }
                    Step::Done(_) => unreachable!(),
                };
                step = match next {
                    Ok(step) => step,
                    Err(error) => {
                        brain.failed(&error);
                        break;
                    }
                };
            }
            tokio::time::advance(Duration::from_millis(random.u64(0..3_000))).await;
        }
    }
}

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn turns_that_do_not_come_are_tried_later_and_later() {
    let mut backoff = LockBackoff::default();
    assert!(backoff.waits());
    for pause in [30, 60, 120, 240, 480, 600, 600] {
        backoff.lose();
        tokio::time::advance(Duration::from_secs(pause).mul_f64(0.74)).await;
        assert!(!backoff.waits(), "{pause}");
        tokio::time::advance(Duration::from_secs(pause).mul_f64(0.52)).await;
        assert!(backoff.waits(), "{pause}");
    }
    backoff.turn_came(30 * MS, MS);
    backoff.lose();
    tokio::time::advance(Duration::from_secs(38)).await;
    assert!(backoff.waits(), "a wait that was worth it resets the pause");
}

#[tokio::test(start_paused = true)]
async fn a_wait_much_longer_than_a_claim_is_not_repeated() {
    let mut backoff = LockBackoff::default();
    backoff.turn_came(30 * MS, MS);
    assert!(backoff.waits());
    backoff.turn_came(31 * MS, MS);
    assert!(!backoff.waits());
}
