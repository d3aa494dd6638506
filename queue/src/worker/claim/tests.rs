//! The claim loop beside a database made up, whose looks take as long as a test wants, in time that is made up as well.

use std::collections::{BTreeMap, HashMap};

use tokio::time::timeout;

use super::*;
use crate::store::values::{Destination, Lane};
use crate::worker::claim::brain::WITHOUT;
use crate::worker::config::Config;
use crate::worker::fake::{Answer, MadeUp, job, nothing};
use crate::worker::record;
use crate::worker::run::attempt::Ended;
use crate::worker::run::attempt::Timing;

/// The claim loop and the recording of ends, at work.
struct Scene {
    store: Arc<MadeUp>,
    shared: Arc<Shared>,
    claiming: tokio::task::JoinHandle<()>,
}

impl Scene {
    fn start(look_takes: Duration) -> Self {
        Self::with_queues(look_takes, BTreeMap::new())
    }

    fn with_queues(look_takes: Duration, queues: BTreeMap<String, u32>) -> Self {
        let concurrency = queues.values().sum::<u32>().max(4);
        Self::with_limits(look_takes, queues, concurrency)
    }

    fn with_limits(look_takes: Duration, queues: BTreeMap<String, u32>, concurrency: u32) -> Self {
        let store = MadeUp::new(|_| Answer::Yes);
        {
            let mut tables = store.tables();
            (tables.look_takes, tables.phantom) = (look_takes, false);
        }
        let config = Config { concurrency, ..store.config(queues, Timing::default(), nothing) };
        let (shared, ends) = store.shared_with(config);
        tokio::spawn(record::run(shared.clone(), ends));
        Self { claiming: tokio::spawn(run(shared.clone())), store, shared }
    }

    fn enqueue(&self, queue: &str, id: i64) {
        self.store.enqueue(queue, id);
        self.shared.notices.enqueued.notify_one();
    }

    /// Jobs come ten at a time to one lane, and are claimed soon each time.
    async fn groups(&self, groups: i64) {
        for group in 0..groups {
            // more than can start at once
            let last = group * 10 + 9;
            (group * 10..last).for_each(|id| self.store.enqueue("a", id));
            self.enqueue("a", last);
            let took = self.claimed(last).await;
            assert!(took <= Duration::from_millis(2), "{took:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// How long it takes until this job is claimed, at most a minute.
    async fn claimed(&self, id: i64) -> Duration {
        let began = Instant::now();
        let mut claimed = self.store.tables().claimed.subscribe();
        let wait = claimed.wait_for(|claimed| claimed.contains(&id));
        timeout(Duration::from_secs(60), wait).await.expect("claimed within a minute").expect("the store is there");
        began.elapsed()
    }

    /// Until a look begins that is not under way yet.
    async fn next_look(&self) {
        let mut looks = self.store.tables().looks_begun.subscribe();
        let before = *looks.borrow();
        let wait = looks.wait_for(|looks| *looks > before);
        timeout(Duration::from_secs(600), wait).await.expect("looked again").expect("the store is there");
    }

    /// With looks known to be slow, and one under way that has just begun.
    async fn slow() -> Self {
        let scene = Self::start(LOOK);
        for id in 1..=3 {
            scene.enqueue("a", id);
            scene.next_look().await;
        }
        scene.next_look().await;
        assert!(scene.claimed(3).await < LOOK);
        scene
    }
}

/// What a look takes in these tests.
const LOOK: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn a_claim_loop_that_waits_for_jobs_listens() {
    let scene = Scene::start(Duration::from_millis(100));
    let listeners = async |after_ms| {
        sleep(Duration::from_millis(after_ms)).await;
        scene.store.writers.listeners()
    };
    assert_eq!(listeners(50).await, 0, "it looks");
    assert_eq!(listeners(100).await, 1, "it waits");
    scene.store.tables().claim_takes = Duration::from_millis(100);
    scene.enqueue("a", 1);
    assert_eq!(listeners(150).await, 0, "it claims");
    scene.claimed(1).await;
    {
        let mut tables = scene.store.tables();
        (tables.look_takes, tables.claim_takes) = (Duration::ZERO, Duration::ZERO);
    }
    assert_eq!(listeners(1_000).await, 1, "it waits again");
    scene.shared.stop_claiming.cancel();
    assert_eq!(listeners(10).await, 0, "it has ended");
}

#[tokio::test(start_paused = true)]
async fn a_slow_look_is_in_no_claims_way() {
    let scene = Scene::slow().await;
    for id in 10..20 {
        scene.enqueue("a", id);
        let took = scene.claimed(id).await;
        assert!(took < Duration::from_millis(300), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_looks_cost_the_next_job_of_a_lane_is_claimed_soon() {
    for look in [1, 4, 6, 8, 15, 19, 25, 100, 400].map(Duration::from_millis) {
        let scene = Scene::start(look);
        let mut longest = Duration::ZERO;
        for id in 1..1_000 {
            scene.enqueue("a", id);
            let took = scene.claimed(id).await;
            // until the first looks have told what they cost
            if id > 300 {
                longest = longest.max(took);
            }
            // at times long enough for a look to find nothing
            sleep(Duration::from_millis(id as u64 * 7 % 150)).await;
        }
        assert!(longest < Duration::from_millis(25), "{longest:?} with looks of {look:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn looks_that_come_to_nothing_stop_no_lane_that_is_known() {
    const JOBS: i64 = 10_000;
    let scene = Scene::start(Duration::ZERO);
    for id in 1..=JOBS {
        scene.store.enqueue("a", id);
    }
    scene.shared.notices.enqueued.notify_one();
    scene.claimed(1).await;
    {
        let mut tables = scene.store.tables();
        (tables.looks_fail, tables.look_takes, tables.claim_takes) = (true, LOOK, Duration::from_millis(300));
    }
    assert!(!scene.store.tables().waiting.is_empty());
    scene.claimed(JOBS).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_taken_back_during_a_look_is_looked_for_after_it() {
    let scene = Scene::slow().await;
    // in a lane that the look under way cannot see any more
    scene.enqueue("b", 10);
    scene.shared.notices.rescued.store(true, std::sync::atomic::Ordering::Relaxed);
    scene.shared.notices.enqueued.notify_one();
    let took = scene.claimed(10).await;
    assert!(took < LOOK * 2 + Duration::from_secs(1), "the rest of that look, and the next: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_look_is_not_repeated_at_once_without_a_reason() {
    let scene = Scene::slow().await;
    scene.enqueue("b", 10);
    let took = scene.claimed(10).await;
    assert!(took > LOOK * 2 + Duration::from_secs(20), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_waits_for_no_look_beside_the_claims() {
    let scene = Scene::slow().await;
    let began = Instant::now();
    scene.shared.stop_claiming.cancel();
    scene.claiming.await.expect("it ends");
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn another_number_knows_nothing_of_the_look_before() {
    let scene = Scene::slow().await;
    scene.shared.lease.set_id(2);
    scene.enqueue("b", 10);
    // it looks by itself, in the way of its first claim
    let took = scene.claimed(10).await;
    assert!(took < LOOK + Duration::from_secs(1), "{took:?}");
}

/// Whatever ran before, a signal is enough for the next job of any queue: nothing else wakes this worker.
async fn picks_up(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let limits: BTreeMap<String, u32> = (0..random.u32(1..7)).map(|n| (format!("q{n}"), random.u32(1..9))).collect();
    let (most, sum) = (limits.values().max().unwrap(), limits.values().sum::<u32>());
    let (concurrency, alone) = (random.u32(*most..=sum), random.bool());
    let look_takes = Duration::from_millis(random.u64(0..4));
    let what =
        format!("seed {seed}: {limits:?}, {concurrency} in all, a claim alone: {alone}, looks of {look_takes:?}");
    let scene = Scene::with_limits(look_takes, limits.clone(), concurrency);
    {
        let mut tables = scene.store.tables();
        (tables.only_signals, tables.claims_alone, tables.claim_takes) = (true, alone, Duration::from_millis(1));
    }
    let mut id = 0;
    for _ in 0..60 {
        // several may share a signal
        let first = id + 1;
        for _ in 0..random.u32(1..4) {
            id += 1;
            scene.store.enqueue(&format!("q{}", random.usize(0..limits.len())), id);
        }
        scene.shared.notices.enqueued.notify_one();
        for id in first..=id {
            let took = timeout(Duration::from_secs(1), scene.claimed(id)).await;
            assert!(took.is_ok(), "{what}: job {id} waits");
        }
        sleep(Duration::from_millis([0, 1, 30, 600, 3_000][random.usize(0..5)])).await;
    }
    scene.shared.stop_claiming.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_signal_reaches_every_queue_whatever_ran_before() {
    for seed in 0..40 {
        picks_up(seed).await;
    }
}

/// Its lane is known, and not yet due at the last claim.
#[tokio::test(start_paused = true)]
async fn a_job_that_falls_due_is_claimed_whichever_queue_was_asked_last() {
    let limits = ["a", "b", "c"].map(|name| (name.to_owned(), 4));
    let scene = Scene::with_limits(Duration::ZERO, limits.into(), 4);
    scene.store.tables().only_signals = true;
    for (id, queue) in (1..).zip(["a", "b", "c", "a", "b", "c", "a"]) {
        scene.store.enqueue_at(queue, 0, scene.store.now() + 500_000, id);
        scene.shared.notices.enqueued.notify_one();
        let took = timeout(Duration::from_secs(2), scene.claimed(id)).await;
        assert!(took.is_ok(), "job {id} of {queue} waits");
    }
}

#[tokio::test(start_paused = true)]
async fn the_only_lane_is_claimed_without_a_look() {
    let scene = Scene::start(Duration::from_millis(1));
    scene.store.tables().claims_alone = true;
    scene.groups(1_000).await;
    let looks = *scene.store.tables().looks_begun.borrow();
    let alone = scene.store.tables().alone;
    assert!(looks < 100 && alone > 900, "{looks} looks in five seconds, {alone} claims without one");
}

/// A job that is enqueued between such a claim and the look that follows it.
#[tokio::test(start_paused = true)]
async fn one_claim_in_vain_says_nothing_of_the_next() {
    let scene = Scene::start(Duration::from_millis(1));
    scene.store.tables().claims_alone = true;
    scene.groups(10).await;
    for group in 0..20 {
        let looks = *scene.store.tables().looks_begun.borrow();
        scene.store.tables().hidden = 1;
        scene.enqueue("a", 10_000 + group);
        scene.claimed(10_000 + group).await;
        scene.groups(20).await;
        let looks = *scene.store.tables().looks_begun.borrow() - looks;
        assert!(looks <= 3, "{looks} looks in a tenth of a second");
    }
}

#[tokio::test(start_paused = true)]
async fn one_job_is_taken_on_a_guess_only_where_one_came_the_last_time() {
    let scene = Scene::start(Duration::from_millis(1));
    scene.groups(100).await;
    let ones = |scene: &Scene| scene.store.tables().claims.iter().filter(|(count, _)| *count == 1).count();
    assert!(ones(&scene) <= 1, "{:?}", scene.store.tables().claims);
    let looks = *scene.store.tables().looks_begun.borrow();
    for id in 2_000..2_002 {
        scene.enqueue("a", id);
        scene.claimed(id).await;
        if id == 2_001 {
            assert_eq!(*scene.store.tables().looks_begun.borrow(), looks + 2, "before the look of that signal");
        }
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_the_only_lane_that_comes_to_nothing_is_no_scan() {
    let scene = Scene::start(Duration::from_millis(1));
    {
        let mut tables = scene.store.tables();
        (tables.claims_alone, tables.claim_takes) = (true, Duration::from_millis(2));
    }
    let at = scene.store.now();
    // all of one time; the one before the others comes when they are gone
    (1_000..1_004).for_each(|id| scene.store.enqueue_at("a", 0, at, id));
    scene.shared.notices.enqueued.notify_one();
    scene.claimed(1_003).await;
    scene.store.tables().hidden = u32::MAX;
    scene.store.enqueue_at("a", 0, at, 300);
    for _ in 0..200 {
        scene.shared.notices.enqueued.notify_one();
        sleep(Duration::from_millis(5)).await;
        if scene.store.tables().claimed.borrow().contains(&300) {
            return;
        }
    }
    panic!("it waits for good");
}

#[tokio::test(start_paused = true)]
async fn another_lane_ends_claims_without_a_look() {
    let scene = Scene::start(Duration::from_millis(1));
    scene.store.tables().claims_alone = true;
    scene.groups(10).await;
    let before = scene.store.tables().alone;
    for id in 1_000..1_010 {
        scene.store.enqueue("a", id);
        scene.store.enqueue_at("b", -1, scene.store.now(), id + 1_000);
    }
    scene.shared.notices.enqueued.notify_one();
    scene.claimed(1_009).await;
    let mut order = scene.store.tables().claimed.borrow().clone();
    order.retain(|id| *id >= 1_000);
    assert!(order[..10].iter().all(|id| *id >= 2_000), "{order:?}");
    assert_eq!(scene.store.tables().alone, before + 1, "it is known now");
}

#[tokio::test(start_paused = true)]
async fn what_no_look_finds_is_not_asked_for_with_every_claim() {
    let scene = Scene::start(Duration::from_millis(1));
    {
        let mut tables = scene.store.tables();
        (tables.claims_alone, tables.hidden) = (true, u32::MAX);
    }
    scene.groups(1_000).await;
    let alone = scene.store.tables().alone;
    assert!(alone < 10, "{alone} claims in vain in five seconds");
}

/// More jobs than fit into a claim, until the last is claimed.
async fn drained(scene: &Scene, first: i64) {
    for id in first..first + 5_000 {
        scene.store.enqueue("a", id);
    }
    scene.shared.notices.enqueued.notify_one();
    scene.claimed(first + 4_999).await;
}

#[tokio::test(start_paused = true)]
async fn many_are_claimed_in_turn_and_few_are_not() {
    let scene = Scene::start(Duration::ZERO);
    scene.shared.lease.set_others(1);
    drained(&scene, 1).await;
    {
        let tables = scene.store.tables();
        let in_turn: Vec<_> = tables.claims.iter().filter(|(_, in_turn)| *in_turn).map(|(taken, _)| *taken).collect();
        assert!(
            in_turn.len() >= 5 && in_turn.iter().sum::<usize>() > 4_900,
            "all but the first few: {:?}",
            tables.claims
        );
        assert!(!tables.in_turn);
    }
    let turns = scene.store.tables().turns;
    for id in 10_001..10_020 {
        scene.enqueue("a", id);
        scene.claimed(id).await;
    }
    assert!(scene.store.tables().turns <= turns + 1, "only after the last large claim");
}

#[tokio::test(start_paused = true)]
async fn without_the_claim_lock_a_worker_claims_and_backs_off_from_the_lock() {
    let scene = Scene::start(Duration::ZERO);
    scene.shared.lease.set_others(1);
    scene.store.tables().no_turns = true;
    drained(&scene, 1).await;
    assert_eq!(scene.store.tables().turns, 1);
    sleep(WITHOUT * 2).await;
    drained(&scene, 10_001).await;
    assert_eq!(scene.store.tables().turns, 2);
    sleep(WITHOUT).await;
    drained(&scene, 20_001).await;
    assert_eq!(scene.store.tables().turns, 2, "it waits longer each time");
}

#[tokio::test(start_paused = true)]
async fn alone_there_are_no_turns() {
    let scene = Scene::start(Duration::ZERO);
    drained(&scene, 1).await;
    assert_eq!(scene.store.tables().turns, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lone_worker_does_not_count_the_rest_of_a_backlog() {
    for others in [0, 1] {
        let scene = Scene::start(Duration::ZERO);
        scene.shared.lease.set_others(others);
        drained(&scene, 1).await;
        let (claims, told) = {
            let tables = scene.store.tables();
            (tables.claims.len(), tables.told)
        };
        assert_eq!(told > claims / 2, others == 0, "{told} of {claims}");
        // few are: nobody knows how many
        for id in 10_001..10_020 {
            scene.enqueue("a", id);
            scene.claimed(id).await;
        }
        assert!(scene.store.tables().told <= told + 1, "only after the last large claim");
    }
}

#[tokio::test(start_paused = true)]
async fn turns_that_are_slow_to_come_are_given_up() {
    let scene = Scene::start(Duration::ZERO);
    scene.shared.lease.set_others(1);
    scene.store.tables().turn_takes = Duration::from_millis(900);
    drained(&scene, 1).await;
    assert_eq!(scene.store.tables().turns, 1, "its own claims take no time at all");
}

/// Lets a worker drain made-up jobs of so many lanes in each of these queues, at every pace: a lane gives much for a
/// while and then nothing, thousands are due at one time, and then few for long. Every claim takes the next jobs in
/// order. Returns how many rows were read to compare lanes for each job.
async fn drained_in_order(lanes: usize, queues: &[&'static str], look_takes: Duration) -> f64 {
    const JOBS: i64 = 40_000;
    // the queues that have limits have a lane for each priority
    let limited: BTreeMap<String, u32> = queues.iter().map(|queue| ((*queue).to_owned(), 4)).collect();
    let mut random = fastrand::Rng::with_seed(7);
    let scene = Scene::with_queues(look_takes, limited);
    let mut run_at = 1_600_000_000_000_000;
    let (mut lane, mut pace) = (0, 0);
    let (mut places, mut lanes_of) = (HashMap::new(), HashMap::new());
    let mut expected = HashMap::<&str, Vec<_>>::new();
    for id in 1..=JOBS {
        if random.u32(..50) == 0 {
            lane = random.usize(..lanes);
        }
        if random.u32(..3_000) == 0 {
            pace = [0, 10, 1_000, 1_000_000][random.usize(..4)];
        }
        run_at += random.i64(0..=pace);
        let queue = if queues.is_empty() { "" } else { queues[random.usize(..queues.len())] };
        let (name, priority) = match queue {
            "" => (format!("q{lane}"), if id <= JOBS / 4 { -1 } else { 2 }),
            queue => (queue.to_owned(), i16::try_from(lane).unwrap()),
        };
        scene.store.enqueue_at(&name, priority, run_at, id);
        lanes_of.insert(id, (name, priority));
        expected.entry(queue).or_default().push((priority, run_at, id));
        places.insert(id, (queue, (priority, run_at, id)));
    }
    expected.values_mut().for_each(|jobs| jobs.sort_unstable_by(|a, b| b.cmp(a)));
    scene.shared.notices.enqueued.notify_one();
    let mut claimed = scene.store.tables().claimed.subscribe();
    let all = claimed.wait_for(|claimed| claimed.len() >= JOBS as usize);
    timeout(Duration::from_secs(600), all).await.expect("all are claimed in time").expect("the store is there");
    let tables = scene.store.tables();
    let mut rest: &[i64] = &tables.claimed.borrow();
    for (count, _) in &tables.claims {
        let (claim, behind) = rest.split_at(*count);
        rest = behind;
        let mut by_queue = HashMap::<&str, Vec<_>>::new();
        for id in claim {
            let (queue, place) = places[id];
            by_queue.entry(queue).or_default().push(place);
        }
        for (queue, mut claimed) in by_queue {
            let expected = expected.get_mut(queue).unwrap();
            claimed.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(claimed, expected.split_off(expected.len() - claimed.len()), "{queue}");
        }
    }
    let mut last = HashMap::new();
    for id in &*tables.claimed.borrow() {
        let before = last.insert(&lanes_of[id], *id);
        assert!(before.is_none_or(|before| before < *id), "{before:?} before {id}");
    }
    tables.compared as f64 / JOBS as f64
}

/// Without a guess how far the next ones reach, 25 rows would be read for each that is taken.
#[tokio::test(start_paused = true)]
async fn jobs_of_many_lanes_come_in_order_and_few_others_are_read() {
    let read = drained_in_order(100, &[], Duration::ZERO).await;
    assert!(read < 8.0, "{read}");
}

#[tokio::test(start_paused = true)]
async fn jobs_of_more_lanes_than_are_compared_come_in_order() {
    for lanes in [150, 300, 900] {
        drained_in_order(lanes, &[], Duration::ZERO).await;
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_of_queues_with_limits_of_their_own_come_in_order() {
    drained_in_order(200, &["a", "b", "c"], Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_come_in_order_while_looks_are_dear() {
    drained_in_order(100, &[], Duration::from_millis(10)).await;
}

/// On a slow link.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_not_answered_in_time_is_repeated_smaller() {
    let scene = Scene::with_queues(Duration::ZERO, [("a".to_owned(), 64)].into());
    scene.store.tables().most_in_time = Some(20);
    (0..200).for_each(|id| scene.store.enqueue("a", id));
    scene.shared.notices.enqueued.notify_one();
    let mut claimed = scene.store.tables().claimed.subscribe();
    let all = claimed.wait_for(|claimed| claimed.len() == 200);
    timeout(Duration::from_secs(600), all).await.expect("all are claimed in time").expect("the store is there");
    let tables = scene.store.tables();
    assert!(tables.claims.iter().all(|(count, _)| *count <= 20), "{:?}", tables.claims);
    assert!((2..100).contains(&tables.in_vain), "{} claims in vain", tables.in_vain);
}

/// A queue per customer, each with a few jobs now and then; others take what is in some of them, which nobody is told.
#[tokio::test(start_paused = true)]
async fn lanes_that_are_empty_by_now_make_room_for_the_next() {
    const LANES: i64 = 1_000;
    let scene = Scene::start(Duration::ZERO);
    let begin = 1_600_000_000_000_000;
    scene.store.tables().look_takes = Duration::from_secs(100);
    for id in 1..=LANES * 2 {
        scene.store.enqueue_at(&format!("q{}", id % LANES), 0, begin + id * 1_000, id);
    }
    let look = scene.next_look();
    scene.shared.notices.enqueued.notify_one();
    look.await;
    // the look is as of its beginning
    for id in (1..=300).chain(700..=800) {
        let lane = Lane { kind: Arc::from("k"), queue: Arc::from(format!("q{}", id % LANES)), priority: 0 };
        assert!(scene.store.tables().waiting.get_mut(&lane).unwrap().remove(&(begin + id * 1_000, id)));
    }
    let expected: Vec<i64> = (301..700).chain(801..=LANES * 2).collect();
    let mut claimed = scene.store.tables().claimed.subscribe();
    let all = claimed.wait_for(|claimed| claimed.len() == expected.len());
    timeout(Duration::from_secs(600), all).await.expect("all are claimed in time").expect("the store is there");
    let tables = scene.store.tables();
    let mut rest: &[i64] = &tables.claimed.borrow();
    let mut next: &[i64] = &expected;
    for (count, _) in &tables.claims {
        let (claim, behind) = rest.split_at(*count);
        let (wanted, later) = next.split_at(*count);
        let mut claim = claim.to_vec();
        claim.sort_unstable();
        assert_eq!(claim, wanted);
        (rest, next) = (behind, later);
    }
    let claims = tables.claims.iter().filter(|(count, _)| *count > 0).count();
    assert!(claims < 60, "{claims}");
    assert!(tables.peeks < claims * 5, "{} for {claims} claims", tables.peeks);
}

/// Three queues that each have room for a job of each of 200 lanes: one statement would have 384 parts (the fake
/// refuses it).
#[tokio::test(start_paused = true)]
async fn many_lanes_of_many_queues_are_not_asked_at_once() {
    let queues = ["a", "b", "c"];
    let scene = Scene::with_queues(Duration::ZERO, queues.map(|queue| (queue.to_owned(), 200)).into());
    for id in 0..600 {
        let priority = i16::try_from(id / 3).unwrap();
        scene.store.enqueue_at(queues[usize::try_from(id % 3).unwrap()], priority, 1_600_000_000_000_000, id);
    }
    scene.shared.notices.enqueued.notify_one();
    let mut claimed = scene.store.tables().claimed.subscribe();
    let all = claimed.wait_for(|claimed| claimed.len() == 600);
    timeout(Duration::from_secs(60), all).await.expect("all are claimed in time").expect("the store is there");
}

/// As [`Scene::start`], with discovery that finds at most `most` lanes at a time.
fn few_at_a_time(most: usize) -> Scene {
    let scene = Scene::start(Duration::from_millis(1));
    scene.claiming.abort();
    let shared = scene.shared.clone();
    let mut claims = Claims::new(shared);
    claims.brain.discovery = Discovery::bounded(most);
    let claiming = tokio::spawn(claims.run());
    Scene { claiming, ..scene }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_stops_midway_goes_on_until_all_lanes_are_drained() {
    const LANES: i64 = 5_000;
    let scene = few_at_a_time(10);
    for id in 1..=LANES {
        scene.store.enqueue(&format!("q{id:05}"), id);
    }
    scene.shared.notices.enqueued.notify_one();
    let mut claimed = scene.store.tables().claimed.subscribe();
    let all = claimed.wait_for(|claimed| claimed.len() == LANES as usize);
    timeout(Duration::from_secs(60), all).await.expect("all are claimed").expect("the store is there");
}

/// Each lane has one job. Drained lanes must not come before lanes that have jobs.
#[tokio::test(start_paused = true)]
async fn lanes_without_number_are_drained_at_one_pace() {
    const LANES: i64 = 20_000;
    let scene = few_at_a_time(1_000);
    scene.store.tables().claim_takes = Duration::from_millis(100);
    for id in 1..=LANES {
        scene.store.enqueue(&format!("q{id:05}"), id);
    }
    scene.shared.notices.enqueued.notify_one();
    let mut claimed = scene.store.tables().claimed.subscribe();
    let all = claimed.wait_for(|claimed| claimed.len() == LANES as usize);
    timeout(Duration::from_secs(600), all).await.expect("all are claimed").expect("the store is there");
    let tables = scene.store.tables();
    let claims = tables.claims.iter().filter(|(count, _)| *count > 0).count();
    assert!(tables.peeks < claims * 4, "{} comparisons for {claims} claims", tables.peeks);
}

#[tokio::test(start_paused = true)]
async fn lanes_with_nothing_due_hide_none_behind_them() {
    const LANES: i64 = 500;
    let scene = few_at_a_time(10);
    let tomorrow = scene.store.now() + 24 * 60 * 60 * 1_000_000;
    for id in 1..=LANES {
        scene.store.enqueue_at(&format!("q{id:05}"), 0, tomorrow, id);
    }
    scene.store.enqueue("r", LANES + 1);
    scene.shared.notices.enqueued.notify_one();
    let took = scene.claimed(LANES + 1).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    // and when all are known to be in vain, the worker rests
    sleep(Duration::from_secs(60)).await;
    let before = *scene.store.tables().looks_begun.borrow();
    sleep(Duration::from_secs(60)).await;
    let looks = *scene.store.tables().looks_begun.borrow() - before;
    assert!(looks < 2_000, "{looks} looks in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_lane_with_jobs_without_end_is_served_while_looks_go_through_others() {
    let scene = few_at_a_time(10);
    for id in 1..=2_000 {
        scene.store.enqueue("a", id);
        scene.store.enqueue(&format!("q{id:05}"), 10_000 + id);
    }
    scene.shared.notices.enqueued.notify_one();
    for id in [2_000, 12_000] {
        let took = scene.claimed(id).await;
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
}

/// A row may change its queue between the look at it and its claim.
#[tokio::test(start_paused = true)]
async fn a_job_of_a_queue_that_is_not_served_goes_back() {
    let store = MadeUp::new(|_| Answer::Yes);
    let (shared, mut ends) = store.shared([("q".to_owned(), 4)].into(), Timing::default(), nothing);
    hand_over(&shared, 1, vec![job("other", 1), job("q", 2)]);
    let (worker, ended) = ends.recv().await.expect("it is recorded");
    assert!(matches!(ended, Ended::Known(ref end) if matches!(end.to, Destination::Requeue { .. })));
    assert_eq!((worker, ended.hold().key()), (1, (1, 1)));
    assert_eq!(shared.work.slots.keys().len() + shared.work.held().len(), 1, "the other one is at hand");
}
