//! Where claimed jobs wait for a free slot, and how many to claim. Each queue with a limit has slots of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::values::{Claimed, Rank, WorkerId};
use crate::worker::notices::lock;

/// How far ahead jobs are claimed: as many as start within this time. Slow jobs are not claimed ahead at all.
const AHEAD: Duration = Duration::from_millis(50);
/// The most jobs claimed ahead.
const MOST_AHEAD: f64 = 1000.0;
/// After a pause this long, the pace of the jobs is forgotten.
const FORGET: Duration = Duration::from_secs(1);
/// A job that has waited this long was claimed too early. Such jobs are released.
const STALE: Duration = Duration::from_secs(1);

/// The slots of a worker.
pub(crate) struct Slots {
    /// The queue of each set of slots. None: any queue.
    queues: Vec<Option<String>>,
    inner: Mutex<SlotsState>,
}

/// How many jobs a set of slots wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want {
    pub(crate) slots: usize,
    pub(crate) take: u32,
}

struct SlotsState {
    sets: Vec<SlotSet>,
    /// How many more jobs may run in the whole worker: their share is free.
    free: u32,
    /// Sets that were denied a share only because the others had them all. The next free shares go to them, one each in
    /// turn. Otherwise a queue with an endless backlog would keep its shares forever. These sets have claimed jobs that
    /// wait.
    to_start: VecDeque<usize>,
    /// And these have none: only a claim shows whether there are any.
    to_claim: VecDeque<usize>,
}

/// The slots of one queue, or of all queues.
#[derive(Default)]
struct SlotSet {
    limit: u32,
    /// Slots that have a job in hand.
    busy: u32,
    /// The first comes first.
    waiting: BTreeMap<(Rank, i32), WaitingJob>,
    pace: Pace,
    /// When it last asked for a job while another queue still had the share for it.
    claimed_ahead: Option<Instant>,
}

/// A claimed job that waits for a slot.
struct WaitingJob {
    job: Claimed,
    worker: WorkerId,
    since: Instant,
}

/// How long jobs take: the mean of the last ones. It says how many will start soon: as many as the slots finish within
/// [`AHEAD`]. A rate of starts would not, because slots that fill all at once look like fast jobs.
#[derive(Default)]
struct Pace {
    mean: Duration,
    ended: Option<Instant>,
}

impl Pace {
    fn end(&mut self, took: Duration, now: Instant) {
        self.mean = if self.ended_within(FORGET, now) { self.mean.mul_f64(0.9) + took.mul_f64(0.1) } else { took };
        self.ended = Some(now);
    }

    fn ended_within(&self, time: Duration, now: Instant) -> bool {
        self.ended.is_some_and(|ended| now - ended <= time)
    }

    /// How many jobs `slots` slots finish within [`AHEAD`], rounded down. None after a pause: the next jobs may be of
    /// another kind, and must not be hoarded.
    fn ahead(&self, slots: u32, now: Instant) -> u32 {
        if !self.ended_within(FORGET, now) {
            return 0;
        }
        let jobs = f64::from(slots) * AHEAD.as_secs_f64() / self.mean.as_secs_f64().max(1e-6);
        jobs.min(MOST_AHEAD) as u32
    }
}

impl SlotSet {
    fn room(&self) -> u32 {
        self.limit.saturating_sub(self.busy)
    }

    /// A share is likely to become free at any moment.
    fn is_brisk(&self, now: Instant) -> bool {
        self.pace.ended_within(AHEAD * 2, now) && self.pace.ahead(self.busy, now) > 0
    }
}

impl SlotsState {
    /// How many jobs to claim now for a set of slots, if `free` more may run in the whole worker. Zero while enough
    /// wait. Subtracts from `free` what these slots can start at once. Jobs claimed ahead wait for busy slots, so they
    /// leave the free ones to other queues.
    fn wants(&mut self, number: usize, free: &mut u32, now: Instant) -> u32 {
        let set = &self.sets[number];
        let (waiting, room) = (set.waiting.len() as u32, set.room());
        let mut ahead = set.pace.ahead(set.limit, now);
        let mut mine = room.min(*free);
        let share = self.share(number, if waiting == 0 { room } else { 0 }, *free);
        if waiting == 0 {
            mine = share;
            // the next free share is this queue's; asked only now and then, because small claims do not take the claim
            // lock
            let again = self.sets[number].claimed_ahead.is_none_or(|at| now - at >= AHEAD);
            if room > 0 && mine == 0 && again && self.sets.iter().any(|set| set.is_brisk(now)) {
                self.sets[number].claimed_ahead = Some(now);
                ahead = ahead.max(1);
            }
        }
        if waiting > mine + ahead / 2 {
            return 0;
        }
        let wanted = (mine + ahead).saturating_sub(waiting);
        *free -= mine.min(wanted);
        wanted
    }

    /// How many of the free shares a set without waiting jobs may claim for. It leaves out a share for each one that
    /// was denied one before. Whether those need it shows right after.
    fn share(&mut self, number: usize, room: u32, free: u32) -> u32 {
        let line = &mut self.to_claim;
        let place = line.iter().position(|other| *other == number);
        let mine = room.min(free.saturating_sub(place.unwrap_or(line.len()) as u32));
        match place {
            Some(place) if mine > 0 || room == 0 => drop(line.remove(place)),
            None if mine == 0 && room > 0 => line.push_back(number),
            _ => {}
        }
        mine
    }

    /// Takes shares for the waiting jobs of a set, if it is its turn. Returns how many.
    fn start(&mut self, number: usize) -> u32 {
        let set = &mut self.sets[number];
        let wanted = set.room().min(set.waiting.len() as u32);
        let most = match self.to_start.front() {
            Some(first) if *first != number => 0,
            Some(_) if self.to_start.len() > 1 => 1,
            _ => wanted,
        };
        let taken = wanted.min(most).min(self.free);
        if taken > 0 || wanted == 0 {
            self.to_start.retain(|other| *other != number);
        }
        if taken < wanted && !self.to_start.contains(&number) {
            self.to_start.push_back(number);
        }
        set.busy += taken;
        self.free -= taken;
        taken
    }

    /// Whether a slot that has ended a job leaves its share to another queue.
    fn is_anothers_turn(&mut self, number: usize) -> bool {
        let is_first = self.to_start.front().map(|first| *first == number);
        if is_first == Some(true) {
            // this was its turn: it is last in line now
            self.to_start.pop_front();
            let set = &self.sets[number];
            if set.room() > 0 && set.waiting.len() > 1 {
                self.to_start.push_back(number);
            }
        }
        is_first == Some(false)
    }

    fn free_one(&mut self, number: usize) {
        self.sets[number].busy -= 1;
        self.free += 1;
    }
}

impl Slots {
    /// For these queues, each with its limit, and `total` jobs at a time in all.
    pub(crate) fn new(queues: impl IntoIterator<Item = (Option<String>, u32)>, total: u32) -> Self {
        let set = |(queue, limit)| (queue, SlotSet { limit, ..SlotSet::default() });
        let (queues, sets) = queues.into_iter().map(set).unzip();
        let (to_start, to_claim) = Default::default();
        Self { queues, inner: Mutex::new(SlotsState { sets, free: total, to_start, to_claim }) }
    }

    /// How many sets of slots there are.
    pub(crate) fn count(&self) -> usize {
        self.queues.len()
    }

    /// The slots that run a queue's jobs.
    pub(crate) fn of(&self, queue: &str) -> Option<usize> {
        self.queues.iter().position(|name| name.as_deref().is_none_or(|name| name == queue))
    }

    /// How many jobs each of `some` sets of slots wants. They share the total of the worker, so that of `turn` comes
    /// first.
    pub(crate) fn wants(&self, turn: usize, some: impl Fn(usize) -> bool) -> Vec<Want> {
        let (now, count, mut inner) = (Instant::now(), self.count(), lock(&self.inner));
        let (mut free, mut wants) = (inner.free, Vec::with_capacity(count));
        // shares may be kept for a queue that turns out to have no room: the second try gives them to the others
        for _ in 0..if free > 0 { 2 } else { 1 } {
            for slots in (0..count).map(|n| (n + turn) % count).filter(|slots| some(*slots)) {
                let take = inner.wants(slots, &mut free, now);
                wants.extend((take > 0).then_some(Want { slots, take }));
            }
            if !wants.is_empty() {
                break;
            }
        }
        wants
    }

    /// A claim found no jobs for these slots: no share is kept for them.
    pub(crate) fn has_none(&self, number: usize) {
        lock(&self.inner).to_claim.retain(|other| *other != number);
    }

    /// Whether a job could start at once.
    pub(crate) fn has_room(&self, number: usize) -> bool {
        let inner = lock(&self.inner);
        inner.free > 0 && inner.sets[number].room() > 0
    }

    /// Adds claimed jobs to the waiting ones: to which slots, and whether the newest comes first.
    pub(crate) fn admit(&self, worker: WorkerId, jobs: impl IntoIterator<Item = (usize, Claimed, bool)>) {
        let (since, mut inner) = (Instant::now(), lock(&self.inner));
        for (number, job, newest_first) in jobs {
            let place = (job.run_at, job.id.get());
            let place = if newest_first { (!place.0, !place.1) } else { place };
            let rank = (job.lane.priority, place);
            inner.sets[number].waiting.insert((rank, job.fence), WaitingJob { job, worker, since });
        }
    }

    /// The slots to start for the waiting jobs, one for each job. They count as busy from now on.
    pub(crate) fn start(&self) -> Vec<usize> {
        let (mut inner, mut started, mut passes) = (lock(&self.inner), Vec::new(), 0);
        // a queue may want nothing any more when its turn comes: the next pass gives its share to the queues before it
        while passes < 2 {
            passes += 1;
            for number in 0..self.count() {
                let count = inner.start(number);
                started.extend((0..count).map(|_| number));
                passes = if count > 0 { 0 } else { passes };
            }
        }
        started
    }

    /// The next job for a slot, after one that took `took`. None frees the slot. Also returns whether to claim more.
    pub(crate) fn next(&self, number: usize, took: Option<Duration>) -> (Option<(Claimed, WorkerId)>, bool) {
        let (now, mut inner) = (Instant::now(), lock(&self.inner));
        if let Some(took) = took {
            inner.sets[number].pace.end(took, now);
        }
        let anothers = took.is_some() && inner.is_anothers_turn(number);
        let next = if anothers { None } else { inner.sets[number].waiting.pop_first() };
        if next.is_none() {
            inner.free_one(number);
        }
        let set = &inner.sets[number];
        let low = (set.waiting.len() as u32) <= set.pace.ahead(set.limit, now) / 2;
        (next.map(|(_, waiting)| (waiting.job, waiting.worker)), low)
    }

    /// Frees a slot that does not come back because its job blocks it. Another may take its place.
    pub(crate) fn replace(&self, number: usize) {
        lock(&self.inner).free_one(number);
    }

    /// Takes out all waiting jobs, each with the worker that claimed it.
    pub(crate) fn clear(&self) -> Vec<(Claimed, WorkerId)> {
        self.take_out(|_| true)
    }

    /// Takes out jobs that were claimed too early: they still wait, because the slots have become slow.
    pub(crate) fn surplus(&self) -> Vec<(Claimed, WorkerId)> {
        let now = Instant::now();
        self.take_out(|waiting| now - waiting.since > STALE)
    }

    fn take_out(&self, which: impl Fn(&WaitingJob) -> bool) -> Vec<(Claimed, WorkerId)> {
        let mut all = Vec::new();
        for set in &mut lock(&self.inner).sets {
            let before = all.len();
            all.extend(set.waiting.extract_if(.., |_, waiting| which(waiting)).map(|(_, it)| (it.job, it.worker)));
            if all.len() > before {
                // the running jobs are slower than the mean says: claim nothing ahead until some of them have ended
                set.pace = Pace::default();
            }
        }
        all
    }

    /// The waiting jobs and their fences.
    pub(crate) fn keys(&self) -> Vec<(i64, i32)> {
        let inner = lock(&self.inner);
        inner.sets.iter().flat_map(|set| set.waiting.values()).map(|waiting| waiting.job.hold().key()).collect()
    }

    /// Whether no claimed job runs or waits.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.inner).sets.iter().all(|set| set.busy == 0 && set.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::values::Lane;

    fn job(id: i64, priority: i16, run_at: i64) -> Claimed {
        Claimed::example(Lane { kind: Arc::from("k"), queue: Arc::from("q"), priority }, run_at, id)
    }

    /// One set of slots.
    struct Set(Arc<Slots>, usize);

    impl Set {
        fn wants(&self, mut free: u32) -> (u32, u32) {
            (lock(&self.0.inner).wants(self.1, &mut free, Instant::now()), free)
        }

        fn admit(&self, jobs: impl IntoIterator<Item = (Claimed, bool)>) {
            self.0.admit(1, jobs.into_iter().map(|(job, newest_first)| (self.1, job, newest_first)));
        }

        fn start(&self) -> u32 {
            lock(&self.0.inner).start(self.1)
        }

        fn next(&self, took: Option<Duration>) -> Option<Claimed> {
            self.0.next(self.1, took).0.map(|(job, _)| job)
        }

        fn clear(&self) {
            lock(&self.0.inner).sets[self.1].waiting.clear();
        }
    }

    fn slots(limit: u32) -> Set {
        Set(Arc::new(Slots::new([(None, limit)], limit)), 0)
    }

    fn wants(slots: &Set, free: u32) -> u32 {
        slots.wants(free).0
    }

    fn order(slots: &Set) -> Vec<i64> {
        slots.start();
        std::iter::from_fn(|| slots.next(None).map(|job| job.id.get())).collect()
    }

    #[tokio::test]
    async fn runs_by_priority_then_due_time_then_id() {
        let slots = slots(1);
        slots.admit([job(1, 5, 10), job(2, 0, 30), job(4, 0, 20), job(3, 0, 20), job(5, -1, 99)].map(|j| (j, false)));
        assert_eq!(order(&slots), [5, 3, 4, 2, 1]);
    }

    #[tokio::test]
    async fn newest_first_turns_the_order_within_a_priority() {
        let slots = slots(1);
        slots.admit([job(1, 0, 10), job(2, 0, 30), job(3, 1, 40), job(4, 0, 30)].map(|j| (j, true)));
        assert_eq!(order(&slots), [4, 2, 1, 3]);
    }

    #[tokio::test]
    async fn nothing_is_claimed_ahead_of_slow_jobs() {
        let slots = slots(4);
        assert_eq!(wants(&slots, 4), 4);
        slots.admit((0..4).map(|id| (job(id, 0, 0), false)));
        assert_eq!(slots.start(), 4);
        for _ in 0..4 {
            slots.next(None);
        }
        assert_eq!(wants(&slots, 0), 0);
        // all four end at the same moment, which does not make them fast
        for _ in 0..4 {
            slots.next(Some(Duration::from_millis(400)));
        }
        assert_eq!(wants(&slots, 4), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn fast_jobs_are_claimed_ahead_and_a_pause_forgets_it() {
        let slots = slots(4);
        slots.admit((0..100).map(|id| (job(id, 0, 0), false)));
        slots.start();
        while slots.next(Some(Duration::from_micros(50))).is_some() {}
        (0..3).for_each(|_| drop(slots.next(None))); // the other slots find nothing either
        assert_eq!(slots.wants(10), (1004, 6), "what is claimed ahead takes no share from another queue");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(wants(&slots, 4), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_claimed_too_early_goes_back() {
        let slots = slots(1);
        slots.admit((0..50).map(|id| (job(id, 0, id), false)));
        slots.start();
        slots.next(None);
        assert!(slots.0.surplus().is_empty());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(slots.0.surplus().len(), 49);
    }

    /// Two queues with a limit of their own, and one for both.
    fn two(limit: u32, total: u32) -> [Set; 2] {
        let slots = Arc::new(Slots::new(["a", "b"].map(|queue| (Some(queue.to_owned()), limit)), total));
        [0, 1].map(|number| Set(slots.clone(), number))
    }

    #[tokio::test]
    async fn queues_share_what_the_worker_may_run() {
        let [a, b] = two(2, 3);
        for slots in [&a, &b] {
            slots.admit((0..9).map(|id| (job(id, 0, id), false)));
        }
        assert_eq!((a.start(), b.start(), a.start()), (2, 1, 0));
        a.0.replace(0);
        assert_eq!((b.start(), a.start()), (1, 0));
    }

    #[tokio::test]
    async fn queues_that_want_more_than_there_is_take_turns() {
        let [a, b] = two(4, 4);
        a.admit((0..100).map(|id| (job(id, 0, id), false)));
        assert_eq!(a.start(), 4);
        (0..4).for_each(|_| drop(a.next(None)));
        let took = Some(Duration::from_secs(1));
        assert!(a.next(took).is_some(), "nobody else wants it");
        b.admit((0..100).map(|id| (job(id, 0, id), false)));
        assert_eq!(b.start(), 0);
        // it goes to the queue that was denied one, whichever asks first
        assert!(a.next(took).is_none());
        assert_eq!((a.start(), b.start()), (0, 1));
        assert!(b.next(None).is_some(), "what was started runs");
        // from now on they alternate
        assert!(a.next(took).is_some());
        assert!(a.next(took).is_none());
        assert_eq!((a.start(), b.start()), (0, 1));
        assert!(b.next(None).is_some());
        assert!(b.next(took).is_none());
        assert_eq!((b.start(), a.start()), (0, 1));
        assert!(a.next(None).is_some());
        // a queue with no more jobs loses its turn
        assert!(b.next(took).is_some());
        a.clear();
        assert!(b.next(took).is_none());
        assert_eq!((b.start(), a.start(), b.start()), (0, 0, 1));
        assert!(b.next(took).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_queue_claims_the_next_share() {
        let [a, b] = two(1, 1);
        for _ in 0..3 {
            assert_eq!((wants(&a, 1), wants(&b, 0)), (1, 0));
            // whichever is asked first
            assert_eq!((wants(&a, 1), wants(&b, 1)), (0, 1));
        }
        // of several free shares, all but one are for the first queue
        let [a, b] = two(4, 4);
        assert_eq!((wants(&a, 4), wants(&b, 0)), (4, 0));
        assert_eq!((wants(&a, 4), wants(&b, 1)), (3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_denied_queue_claims_one_ahead_of_a_share_that_comes_soon() {
        let [a, b] = two(4, 4);
        a.admit((0..100).map(|id| (job(id, 0, id), false)));
        a.start();
        a.next(Some(Duration::from_secs(1)));
        assert_eq!(wants(&b, 0), 0, "the jobs are slow");
        (0..50).for_each(|_| drop(a.next(Some(Duration::from_millis(1)))));
        assert_eq!(wants(&b, 0), 1);
        b.admit([(job(1, 0, 1), false)]);
        assert_eq!(wants(&b, 0), 0);
        tokio::time::advance(Duration::from_millis(200)).await;
        b.clear();
        assert_eq!(wants(&b, 0), 0, "no job has ended lately");
    }
}
