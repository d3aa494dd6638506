//! Looks made up, and what is concluded from them.

use proptest::prelude::*;

use super::*;

const BEAT: Duration = Duration::from_millis(2500);

fn sight(id: WorkerId, held: bool, heartbeat: i64) -> Sight {
    Sight { id, held, busy: true, heartbeat }
}

/// A watch with a clock of its own.
struct Scene {
    watch: Watch,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        Self { watch: Watch::new(BEAT), now: Instant::now() }
    }

    /// A look so much later; who is gone.
    fn look(&mut self, after: u64, session: u64, others: &[Sight]) -> Vec<WorkerId> {
        self.now += Duration::from_millis(after);
        let gone = self.watch.look(self.now, self.now, session, others);
        gone.iter().map(|gone| gone.id).collect()
    }
}

#[test]
fn who_was_seen_and_is_missed_twice_is_gone() {
    let mut scene = Scene::new();
    assert!(scene.look(0, 1, &[sight(7, true, 10), sight(8, true, 10)]).is_empty());
    assert!(scene.look(500, 1, &[sight(7, false, 10), sight(8, true, 11)]).is_empty());
    assert!(scene.look(999, 1, &[sight(7, false, 10), sight(8, true, 11)]).is_empty(), "too early");
    assert_eq!(scene.look(1, 1, &[sight(7, false, 10), sight(8, true, 12)]), [7]);
    assert!(scene.look(999, 1, &[sight(7, false, 10)]).is_empty(), "said once");
    assert_eq!(scene.look(1, 1, &[sight(7, false, 10)]), [7], "and again when nothing came of it");
    assert!(scene.look(999, 1, &[]).is_empty());
    assert!(scene.look(1, 1, &[sight(7, false, 10)]).is_empty(), "it was declared, or left");
}

#[test]
fn what_is_said_of_a_worker_names_the_heartbeat_it_was_missed_with() {
    let mut scene = Scene::new();
    scene.look(0, 1, &[sight(7, true, 10)]);
    scene.look(500, 1, &[sight(7, false, 12)]);
    scene.now += SETTLE;
    let gone = scene.watch.look(scene.now, scene.now, 1, &[sight(7, false, 12)]);
    assert_eq!(gone, [Gone { id: 7, heartbeat: 12, missed_for: SETTLE }]);
}

#[test]
fn who_was_never_seen_is_not_judged() {
    let mut scene = Scene::new();
    for _ in 0..9 {
        assert!(scene.look(1_100, 1, &[sight(7, false, 10)]).is_empty());
    }
}

#[test]
fn who_beats_lives_until_seen_and_missed_again() {
    let mut scene = Scene::new();
    scene.look(0, 1, &[sight(7, true, 10)]);
    scene.look(500, 1, &[sight(7, false, 10)]);
    for _ in 0..9 {
        assert!(scene.look(1_100, 1, &[sight(7, false, 11)]).is_empty(), "it beats without a lock: the lease tells");
    }
    scene.look(500, 1, &[sight(7, true, 12)]);
    scene.look(500, 1, &[sight(7, false, 12)]);
    assert_eq!(scene.look(1_000, 1, &[sight(7, false, 12)]), [7]);
}

#[test]
fn a_lock_that_is_back_is_no_loss() {
    let mut scene = Scene::new();
    scene.look(0, 1, &[sight(7, true, 10)]);
    scene.look(500, 1, &[sight(7, false, 10)]);
    scene.look(500, 1, &[sight(7, true, 11)]);
    assert!(scene.look(500, 1, &[sight(7, false, 11)]).is_empty(), "missed for the first time again");
}

#[test]
fn a_new_session_knows_nobody() {
    let mut scene = Scene::new();
    scene.look(0, 1, &[sight(7, true, 10)]);
    scene.look(500, 1, &[sight(7, false, 10)]);
    for _ in 0..9 {
        assert!(scene.look(1_100, 2, &[sight(7, false, 10)]).is_empty());
    }
}

#[test]
fn a_session_that_did_not_look_for_long_knows_nobody() {
    let mut scene = Scene::new();
    scene.look(0, 1, &[sight(7, true, 10)]);
    assert!(scene.watch.has_session());
    scene.look(5_001, 1, &[sight(7, false, 10)]);
    assert!(scene.look(1_100, 1, &[sight(7, false, 10)]).is_empty());
}

#[test]
fn a_slow_answer_counts_for_nothing() {
    let mut watch = Watch::new(BEAT);
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    watch.look(at(0), at(1), 1, &[sight(7, true, 10)]);
    watch.look(at(500), at(1_500), 1, &[sight(7, false, 10)]);
    assert!(watch.look(at(1_600), at(2_900), 1, &[sight(7, false, 10)]).is_empty(), "100 ms for certain");
    assert_eq!(watch.look(at(3_000), at(3_100), 1, &[sight(7, false, 10)]).len(), 1);
}

#[test]
fn an_idle_fleet_looks_with_its_heartbeats_alone() {
    let watch = Watch::new(BEAT);
    let now = Instant::now();
    let idle = Sight { busy: false, ..sight(7, true, 10) };
    assert_eq!(watch.pause(BEAT, now, false, false, &[idle]), BEAT);
    assert_eq!(watch.pause(BEAT, now, true, false, &[]), BEAT, "nobody could see, or be seen");
    let looks = |busy, others: &[Sight]| watch.pause(BEAT, now, busy, false, others).as_millis();
    assert!((450..=550).contains(&looks(true, &[idle])));
    assert!((450..=550).contains(&looks(false, &[sight(7, true, 10)])));
    assert!((720..=880).contains(&looks(true, &[idle; 19])));
    assert_eq!(looks(true, &[idle; 99]), 2_500);
    assert_eq!(watch.pause(BEAT, now, false, true, &[idle]), RETAKE);
}

#[test]
fn who_is_missed_is_looked_at_again_as_soon_as_it_may_be_judged() {
    let mut scene = Scene::new();
    scene.look(0, 1, &[sight(7, true, 10)]);
    let missed = [sight(7, false, 10)];
    scene.look(500, 1, &missed);
    let pause = scene.watch.pause(BEAT, scene.now, false, false, &[Sight { busy: false, ..missed[0] }]);
    assert_eq!(pause, SETTLE);
    assert_eq!(scene.look(u64::try_from(pause.as_millis()).unwrap_or(0), 1, &missed), [7]);
}

/// What one look may meet: how long after the last one, in which session, and of a worker: its lock, and whether it beat.
fn looks() -> impl Strategy<Value = Vec<(u64, bool, bool, bool)>> {
    prop::collection::vec((0u64..3_000, prop::bool::weighted(0.1), any::<bool>(), prop::bool::weighted(0.3)), 1..60)
}

proptest! {
    /// Whatever is seen: who is told to be gone was seen by this session, then missed by all later looks, over time enough,
    /// with one and the same heartbeat.
    #[test]
    fn nobody_is_gone_without_all_the_signs(looks in looks()) {
        let mut scene = Scene::new();
        let (mut session, mut heartbeat) = (1, 0);
        let mut past: Vec<(Instant, u64, Sight)> = Vec::new();
        for (after, new_session, held, beats) in looks {
            session += u64::from(new_session);
            heartbeat += i64::from(beats);
            let seen = sight(7, held, heartbeat);
            let gone = scene.look(after, session, &[seen]);
            past.push((scene.now, session, seen));
            if gone.is_empty() {
                continue;
            }
            let missed = past.iter().rev().take_while(|(_, _, sight)| !sight.held).count();
            let (missed, before) = (&past[past.len() - missed..], &past[..past.len() - missed]);
            prop_assert!(missed.len() >= 2);
            let (first, last) = (missed[0], missed[missed.len() - 1]);
            prop_assert!(last.0 - first.0 >= SETTLE);
            prop_assert!(missed.iter().all(|(_, at, sight)| *at == session && sight.heartbeat == heartbeat));
            prop_assert!(before.last().is_some_and(|(_, at, _)| *at == session), "its lock was seen by this session");
        }
    }

    /// And with all of them it is told, whatever was seen before.
    #[test]
    fn whoever_is_killed_is_found(looks in looks()) {
        let mut scene = Scene::new();
        let mut heartbeat = 0;
        for (after, _, held, beats) in looks {
            heartbeat += i64::from(beats);
            scene.look(after, 1, &[sight(7, held, heartbeat)]);
        }
        scene.look(0, 2, &[sight(7, true, heartbeat)]);
        let killed = [sight(7, false, heartbeat)];
        scene.look(500, 2, &killed);
        prop_assert_eq!(scene.look(1_000, 2, &killed), [7]);
    }
}
