//! Looks made up, and what is concluded from them.

use proptest::prelude::*;

use super::*;

const BEAT: Duration = Duration::from_millis(2500);
const SECOND: i64 = 1_000_000;

/// One whose next heartbeat has been due for so long, in microseconds, and whose lock is missing.
fn missing(id: WorkerId, late: i64) -> Sight {
    Sight { id, held: false, busy: false, heartbeat: 10, had: true, late }
}

fn ids(others: &[Sight]) -> Vec<WorkerId> {
    lost(others).iter().map(|worker| worker.id).collect()
}

fn beat(others: &[Sight]) -> Heartbeat {
    Heartbeat { others: others.into(), ..Heartbeat::default() }
}

#[test]
fn whose_lock_is_missing_and_whose_heartbeat_is_overdue_is_gone() {
    let lives = Sight { held: true, ..missing(8, 9 * SECOND) };
    let due = micros(SETTLE);
    assert_eq!(ids(&[missing(7, due - 1), lives, missing(9, due)]), [9]);
}

#[test]
fn what_is_said_of_a_worker_names_the_heartbeat_it_was_missed_with() {
    let late = Duration::from_millis(1_200);
    assert_eq!(lost(&[missing(7, 1_200_000)]), [LostWorker { id: 7, heartbeat: 10, late, by_lease: false }]);
}

#[test]
fn whose_row_says_nothing_of_this_run_of_the_server_is_not_judged() {
    assert!(ids(&[Sight { had: false, ..missing(7, 999 * SECOND) }]).is_empty());
}

#[test]
fn a_worker_with_a_heartbeat_in_time_lives_even_without_its_lock() {
    assert!(ids(&[missing(7, -SECOND), missing(8, 0)]).is_empty());
}

/// The lease of worker 7 with that heartbeat, given for 8 s, as it is so many seconds later.
fn lease(heartbeat: i64, later: i64) -> [Lease; 1] {
    [Lease { worker: 7, heartbeat, left: (8 - later) * SECOND, given: 8 * SECOND }]
}

/// Looks at a lease at times of the judge's clock, in seconds. Returns who is gone each time.
fn judged(witness: &mut Witness, looks: &[(u64, [Lease; 1])]) -> Vec<usize> {
    let start = Instant::now();
    let judge = |(at, leases): &(u64, [Lease; 1])| witness.judge(leases, start + Duration::from_secs(*at)).0.len();
    looks.iter().map(judge).collect()
}

#[test]
fn a_worker_without_heartbeats_is_lost_when_its_lease_runs_out() {
    let looks = [(2, lease(10, 2)), (4, lease(10, 4)), (7, lease(10, 7)), (8, lease(10, 8))];
    assert_eq!(judged(&mut Witness::default(), &looks), [0, 0, 0, 1]);
}

#[test]
fn a_clock_that_is_set_forward_takes_no_lease() {
    const HOUR: i64 = 3600;
    // seen right before the clock is set; it beats in time, once before the judge looks again and once after it
    let looks = [(1, lease(10, 1)), (2, lease(10, 2 + HOUR)), (3, lease(3 * SECOND, 0)), (4, lease(3 * SECOND, 1))];
    assert_eq!(judged(&mut Witness::default(), &looks), [0; 4]);
    // seen for the first time by then
    assert_eq!(judged(&mut Witness::default(), &[(2, lease(10, HOUR)), (3, lease(3 * SECOND, 0))]), [0; 2]);
    // it is gone
    let looks = [(1, lease(10, 1)), (4, lease(10, 4 + HOUR)), (5, lease(10, 5 + HOUR))];
    assert_eq!(judged(&mut Witness::default(), &looks), [0, 0, 1]);
}

#[test]
fn a_worker_without_heartbeats_has_seen_nothing() {
    let mut witness = Witness::default();
    assert_eq!(judged(&mut witness, &[(1, lease(10, 1)), (2, lease(10, 2))]), [0, 0]);
    witness.forget();
    assert_eq!(judged(&mut witness, &[(60, lease(10, 60)), (63, lease(10, 63)), (64, lease(10, 64))]), [0, 0, 1]);
}

#[test]
fn the_next_look_comes_when_somebody_may_be_judged() {
    let (mut witness, start) = (Witness::default(), Instant::now());
    let [first] = lease(10, 1);
    let other = Lease { worker: 8, left: -SECOND, ..first };
    let again = |witness: &mut Witness, secs, leases: &[Lease]| {
        witness.judge(leases, start + Duration::from_secs(secs)).1.map(|again| again.as_secs())
    };
    assert_eq!(again(&mut witness, 0, &[]), None);
    assert_eq!(again(&mut witness, 1, &[first]), Some(7));
    assert_eq!(again(&mut witness, 1, &[first, other]), Some(4));
    assert_eq!(again(&mut witness, 5, &[Lease { left: 3 * SECOND, ..first }, other]), Some(3), "the other one is gone");
}

#[test]
fn an_idle_fleet_looks_with_its_heartbeats_alone() {
    let mut pace = Rhythm::new(BEAT);
    // the first promise is short, since a worker takes jobs at once
    assert!(pace.promise(false) <= Duration::from_millis(440));
    let held = |busy| Sight { held: true, busy, ..missing(7, -SECOND) };
    assert!(pace.pause(false, &beat(&[held(false)])) <= Duration::from_millis(440), "it is kept");
    let mut looks = |busy, beat: &Heartbeat| {
        // of a heartbeat that promised as much as could be
        pace.pause(false, &Heartbeat::default());
        pace.promise(false);
        pace.pause(busy, beat).as_millis()
    };
    assert_eq!(looks(false, &beat(&[held(false)])), 2_500);
    assert_eq!(looks(true, &beat(&[])), 2_500, "nobody could see, or be seen");
    assert!((360..=440).contains(&looks(true, &beat(&[held(false)]))));
    assert!((360..=440).contains(&looks(false, &beat(&[held(true)]))));
    assert!((720..=880).contains(&looks(true, &beat(&[held(false); 19]))));
    assert_eq!(looks(true, &beat(&[held(false); 99])), 2_500);
    assert_eq!(looks(false, &Heartbeat { unheld: true, ..beat(&[held(false)]) }), RETAKE.as_millis());
    // the next worker looks at its row
    assert!((360..=440).contains(&looks(true, &Heartbeat { vouched: true, ..Heartbeat::default() })));
    assert_eq!(looks(false, &Heartbeat { vouched: true, ..Heartbeat::default() }), 2_500);
}

#[test]
fn an_idle_worker_that_takes_a_job_may_beat_sooner() {
    let mut pace = Rhythm::new(BEAT);
    pace.promise(false);
    assert!(!pace.is_slow(), "the first promise is short");
    let alone = Heartbeat { vouched: true, ..Heartbeat::default() };
    pace.pause(false, &alone);
    pace.promise(false);
    assert!(pace.is_slow());
    pace.promise(true);
    assert!(!pace.is_slow());
    pace.pause(false, &Heartbeat::default());
    pace.promise(false);
    assert!(!pace.is_slow(), "nobody could see it, or be seen");
}

#[test]
fn a_missed_worker_is_checked_again_as_soon_as_possible() {
    let mut pace = Rhythm::new(BEAT);
    pace.pause(false, &Heartbeat::default());
    pace.promise(false);
    assert_eq!(pace.pause(false, &beat(&[missing(7, -300_000), missing(8, 200_000)])), Duration::from_millis(600));
    // who has been told to be gone is somebody else's matter now
    assert_eq!(pace.pause(false, &beat(&[missing(7, SECOND)])), BEAT);
}

fn sights() -> impl Strategy<Value = Vec<Sight>> {
    let sight = (any::<[bool; 3]>(), -3 * SECOND..3 * SECOND);
    let sight = sight.prop_map(|([held, busy, had], late)| Sight { held, busy, had, ..missing(7, late) });
    prop::collection::vec(sight, 0..80)
}

proptest! {
    /// Whatever is seen meanwhile, the next heartbeat comes as early as was promised.
    #[test]
    fn promises_are_kept(
        looks in prop::collection::vec((any::<[bool; 4]>(), sights()), 1..20),
        beat_ms in 1u64..60_000,
    ) {
        let mut pace = Rhythm::new(Duration::from_millis(beat_ms));
        for ([then_busy, busy, unheld, vouched], others) in looks {
            let promised = pace.promise(then_busy);
            let pause = pace.pause(busy, &Heartbeat { unheld, vouched, others, ..Heartbeat::default() });
            prop_assert!(pause <= promised && pause <= Duration::from_millis(beat_ms));
        }
    }

    #[test]
    fn nobody_is_gone_without_all_the_signs(others in sights()) {
        let expected = others.iter().filter(|other| other.had && !other.held && other.late >= micros(SETTLE)).count();
        prop_assert_eq!(lost(&others).len(), expected);
    }
}
