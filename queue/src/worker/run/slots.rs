//! Where claimed jobs wait for a free slot, and how many to claim. There is one `Slots` for each limit.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::values::Claimed;

/// How far ahead jobs are claimed: as many as start within this time. Slow jobs are not claimed ahead at all.
const AHEAD: Duration = Duration::from_millis(50);
/// The most jobs claimed ahead.
const MOST_AHEAD: f64 = 1000.0;
/// After a pause this long, the pace of the jobs is forgotten.
const FORGET: Duration = Duration::from_secs(1);
/// A job that has waited this long was claimed too early. Such jobs are released.
const STALE: Duration = Duration::from_secs(1);

/// The slots of one queue, or of all queues.
pub(crate) struct Slots {
    /// None: any queue.
    pub(crate) queue: Option<String>,
    /// Its index among the slots of the worker.
    number: usize,
    limit: u32,
    total: Arc<Total>,
    inner: Mutex<SlotsState>,
}

#[derive(Default)]
struct SlotsState {
    waiting: BinaryHeap<WaitingJob>,
    /// Slots that have a job in hand.
    busy: u32,
    pace: Pace,
    /// When it last asked for a job while another queue still had the share for it.
    claimed_ahead: Option<Instant>,
}

/// A claimed job that waits for a slot.
struct WaitingJob {
    job: Claimed,
    worker: i64,
    newest_first: bool,
    since: Instant,
}

impl WaitingJob {
    /// The greatest runs first.
    fn rank(&self) -> impl Ord {
        let key = (self.job.run_at, self.job.id.get());
        let (late, early) = if self.newest_first { (key, (0, 0)) } else { ((0, 0), key) };
        (std::cmp::Reverse(self.job.lane.priority), late, std::cmp::Reverse(early))
    }
}

impl Ord for WaitingJob {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}
impl PartialOrd for WaitingJob {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for WaitingJob {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for WaitingJob {}

/// How long jobs take: the mean of the last ones. It says how many will start soon: as many as the slots finish within
/// [`AHEAD`]. A rate of starts would not, because slots that fill all at once look like fast jobs.
#[derive(Default)]
struct Pace {
    mean: Option<Duration>,
    ended: Option<Instant>,
}

impl Pace {
    fn end(&mut self, took: Duration, now: Instant) {
        let mean = self.recent(now).map_or(took, |mean| mean.mul_f64(0.9) + took.mul_f64(0.1));
        (self.mean, self.ended) = (Some(mean), Some(now));
    }

    /// None after a pause: the next jobs may be of another kind, and must not be hoarded.
    fn recent(&self, now: Instant) -> Option<Duration> {
        self.mean.filter(|_| self.ended.is_some_and(|ended| now - ended <= FORGET))
    }

    /// How many jobs `slots` slots finish within [`AHEAD`], rounded down.
    fn ahead(&self, slots: u32, now: Instant) -> u32 {
        self.recent(now).map_or(0, |mean| {
            let jobs = f64::from(slots) * AHEAD.as_secs_f64() / mean.as_secs_f64().max(1e-6);
            jobs.min(MOST_AHEAD) as u32
        })
    }
}

/// The slots of a whole worker, over all queues.
pub(crate) struct Total {
    limit: u32,
    busy: AtomicU32,
    /// Present if the queues may want more than that in total.
    lines: Option<Lines>,
}

/// Queues that were denied a share of the total only because the others had it all. The next free shares go to them,
/// one each in turn. Otherwise a queue with an endless backlog would keep its shares forever.
struct Lines {
    /// Queues with claimed jobs that wait.
    start: Mutex<VecDeque<usize>>,
    /// The first of these, plus one; zero if there is none. Read with every job.
    first: AtomicUsize,
    /// Queues with no waiting jobs: only a claim shows whether they have any.
    claim: Mutex<VecDeque<usize>>,
    made: Instant,
    /// Until when a share is likely to become free at any moment: microseconds since `made`.
    brisk: AtomicU64,
}

impl Lines {
    fn new() -> Self {
        let (start, claim) = (Mutex::default(), Mutex::default());
        Self { start, first: AtomicUsize::new(0), claim, made: Instant::now(), brisk: AtomicU64::new(0) }
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from((at - self.made).as_micros()).unwrap_or(u64::MAX)
    }

    /// Takes shares with `take` for the waiting jobs of a queue, if it is the turn of that queue.
    fn start(&self, number: usize, wanted: u32, take: impl FnOnce(u32) -> u32) -> u32 {
        let mut line = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = match line.front() {
            Some(first) if *first != number => 0,
            Some(_) if line.len() > 1 => take(wanted.min(1)),
            _ => take(wanted),
        };
        if taken > 0 || wanted == 0 {
            line.retain(|other| *other != number);
        }
        if taken < wanted && !line.contains(&number) {
            line.push_back(number);
        }
        self.first.store(line.front().map_or(0, |first| first + 1), Relaxed);
        taken
    }

    /// How many of the free shares a queue without waiting jobs may claim for. It leaves out a share for each queue
    /// that was denied one before. Whether those need it shows right after.
    fn claim(&self, number: usize, room: u32, free: u32) -> u32 {
        let mut line = self.claim.lock().unwrap_or_else(PoisonError::into_inner);
        let place = line.iter().position(|other| *other == number);
        let mine = room.min(free.saturating_sub(place.unwrap_or(line.len()) as u32));
        match place {
            Some(place) if mine > 0 || room == 0 => drop(line.remove(place)),
            None if mine == 0 && room > 0 => line.push_back(number),
            _ => {}
        }
        mine
    }

    /// A queue was asked and has no jobs: no share is kept for it.
    fn has_none(&self, number: usize) {
        self.claim.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != number);
    }
}

impl Total {
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, busy: AtomicU32::new(0), lines: None }
    }

    /// For queues that may want more than `limit` in total.
    pub(crate) fn in_turn(limit: u32) -> Self {
        Self { lines: Some(Lines::new()), ..Self::new(limit) }
    }

    pub(crate) fn free(&self) -> u32 {
        self.limit.saturating_sub(self.busy.load(Relaxed))
    }

    /// Takes up to `count` shares. Returns how many.
    fn take(&self, count: u32) -> u32 {
        let mut taken = 0;
        let _ = self.busy.fetch_update(Relaxed, Relaxed, |busy| {
            taken = count.min(self.limit.saturating_sub(busy));
            Some(busy + taken)
        });
        taken
    }

    fn release(&self) {
        self.busy.fetch_sub(1, Relaxed);
    }
}

impl Slots {
    pub(crate) fn new(number: usize, queue: Option<String>, limit: u32, total: Arc<Total>) -> Self {
        Self { queue, number, limit, total, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, SlotsState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many jobs to claim now, if `free` more may run in the whole worker. Zero while enough wait. Subtracts from
    /// `free` what these slots can start at once. Jobs claimed ahead wait for busy slots, so they leave the free ones
    /// to other queues.
    pub(crate) fn wants(&self, free: &mut u32) -> u32 {
        let now = Instant::now();
        let mut inner = self.lock();
        let mut ahead = inner.pace.ahead(self.limit, now);
        let waiting = inner.waiting.len() as u32;
        let room = self.limit.saturating_sub(inner.busy);
        let mut mine = room.min(*free);
        if let Some(lines) = &self.total.lines {
            let share = lines.claim(self.number, if waiting == 0 { room } else { 0 }, *free);
            if waiting == 0 {
                mine = share;
                // the next free share is this queue's; asked only now and then, because small claims do not take the
                // claim lock
                let again = inner.claimed_ahead.is_none_or(|at| now - at >= AHEAD);
                if room > 0 && mine == 0 && again && lines.brisk.load(Relaxed) > lines.micros(now) {
                    inner.claimed_ahead = Some(now);
                    ahead = ahead.max(1);
                }
            }
        }
        if waiting > mine + ahead / 2 {
            return 0;
        }
        let wanted = (mine + ahead).saturating_sub(waiting);
        *free -= mine.min(wanted);
        wanted
    }

    /// A claim found no jobs for these slots.
    pub(crate) fn has_none(&self) {
        if let Some(lines) = &self.total.lines {
            lines.has_none(self.number);
        }
    }

    /// Whether a job could start at once, if the total allows it.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().busy < self.limit
    }

    /// Adds claimed jobs to the waiting ones.
    pub(crate) fn admit(&self, worker: i64, jobs: impl IntoIterator<Item = (Claimed, bool)>) {
        let since = Instant::now();
        let jobs = jobs.into_iter();
        self.lock().waiting.extend(jobs.map(|(job, newest_first)| WaitingJob { job, worker, newest_first, since }));
    }

    /// How many slots to start for the waiting jobs. They count as busy from now on.
    pub(crate) fn start(&self) -> u32 {
        let mut inner = self.lock();
        let wanted = self.limit.saturating_sub(inner.busy).min(inner.waiting.len() as u32);
        let take = |count| self.total.take(count);
        let start = match &self.total.lines {
            Some(lines) => lines.start(self.number, wanted, take),
            None => take(wanted),
        };
        inner.busy += start;
        start
    }

    /// The next job for a slot, after one that took `took`. None frees the slot. Also returns whether to claim more.
    pub(crate) fn next(&self, took: Option<Duration>) -> (Option<(Claimed, i64)>, bool) {
        let now = Instant::now();
        let mut inner = self.lock();
        if let Some(took) = took {
            inner.pace.end(took, now);
        }
        let anothers = took.is_some() && self.is_anothers_turn(&inner, now);
        let next = if anothers { None } else { inner.waiting.pop() };
        if next.is_none() {
            self.free_one(&mut inner);
        }
        let low = (inner.waiting.len() as u32) <= inner.pace.ahead(self.limit, now) / 2;
        (next.map(|w| (w.job, w.worker)), low)
    }

    /// Whether a slot that has ended a job leaves its share of the total to another queue.
    fn is_anothers_turn(&self, inner: &SlotsState, now: Instant) -> bool {
        let Some(lines) = &self.total.lines else { return false };
        if inner.pace.ahead(inner.busy, now) > 0 {
            lines.brisk.store(lines.micros(now + AHEAD * 2), Relaxed);
        }
        match lines.first.load(Relaxed) {
            0 => false,
            first if first == self.number + 1 => {
                // this was its turn: it is last in line now
                let wanted = self.limit.saturating_sub(inner.busy).min(inner.waiting.len().saturating_sub(1) as u32);
                lines.start(self.number, wanted + 1, |_| 1);
                false
            }
            _ => true,
        }
    }

    /// Frees a slot that does not come back because its job blocks it. Another may take its place.
    pub(crate) fn replace(&self) {
        self.free_one(&mut self.lock());
    }

    fn free_one(&self, inner: &mut SlotsState) {
        inner.busy = inner.busy.saturating_sub(1);
        self.total.release();
    }

    /// Takes out all waiting jobs, to be released.
    pub(crate) fn clear(&self) -> Vec<(Claimed, i64)> {
        self.lock().waiting.drain().map(|w| (w.job, w.worker)).collect()
    }

    /// Takes out jobs that were claimed too early: they still wait, because the slots have become slow.
    pub(crate) fn surplus(&self) -> Vec<(Claimed, i64)> {
        let now = Instant::now();
        let mut inner = self.lock();
        let (stale, fresh) = std::mem::take(&mut inner.waiting).into_iter().partition(|w| now - w.since > STALE);
        let (stale, fresh): (Vec<WaitingJob>, Vec<WaitingJob>) = (stale, fresh);
        inner.waiting = fresh.into();
        if !stale.is_empty() {
            // the running jobs are slower than the mean says: claim nothing ahead until some of them have ended
            inner.pace = Pace::default();
        }
        stale.into_iter().map(|w| (w.job, w.worker)).collect()
    }

    /// The waiting jobs and their fences.
    pub(crate) fn keys(&self) -> Vec<(i64, i32)> {
        self.lock().waiting.iter().map(|w| w.job.hold().key()).collect()
    }

    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.lock();
        inner.busy == 0 && inner.waiting.is_empty()
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

    fn slots(limit: u32) -> Slots {
        Slots::new(0, None, limit, Arc::new(Total::new(limit)))
    }

    fn wants(slots: &Slots, mut free: u32) -> u32 {
        slots.wants(&mut free)
    }

    fn order(slots: &Slots) -> Vec<i64> {
        slots.start();
        std::iter::from_fn(|| slots.next(None).0.map(|(job, _)| job.id.get())).collect()
    }

    #[tokio::test]
    async fn runs_by_priority_then_due_time_then_id() {
        let slots = slots(1);
        slots
            .admit(1, [job(1, 5, 10), job(2, 0, 30), job(4, 0, 20), job(3, 0, 20), job(5, -1, 99)].map(|j| (j, false)));
        assert_eq!(order(&slots), [5, 3, 4, 2, 1]);
    }

    #[tokio::test]
    async fn newest_first_turns_the_order_within_a_priority() {
        let slots = slots(1);
        slots.admit(1, [job(1, 0, 10), job(2, 0, 30), job(3, 1, 40), job(4, 0, 30)].map(|j| (j, true)));
        assert_eq!(order(&slots), [4, 2, 1, 3]);
    }

    #[tokio::test]
    async fn nothing_is_claimed_ahead_of_slow_jobs() {
        let slots = slots(4);
        assert_eq!(wants(&slots, 4), 4);
        slots.admit(1, (0..4).map(|id| (job(id, 0, 0), false)));
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
        slots.admit(1, (0..100).map(|id| (job(id, 0, 0), false)));
        slots.start();
        while slots.next(Some(Duration::from_micros(50))).0.is_some() {}
        (0..3).for_each(|_| drop(slots.next(None))); // the other slots find nothing either
        let mut free = 10;
        assert_eq!(slots.wants(&mut free), 1004);
        assert_eq!(free, 6, "what is claimed ahead takes no share from another queue");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(wants(&slots, 4), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_claimed_too_early_goes_back() {
        let slots = slots(1);
        slots.admit(1, (0..50).map(|id| (job(id, 0, id), false)));
        slots.start();
        slots.next(None);
        assert!(slots.surplus().is_empty());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(slots.surplus().len(), 49);
    }

    /// Two queues with a limit of their own, and one for both.
    fn two(limit: u32, total: u32) -> [Slots; 2] {
        let total = Arc::new(Total::in_turn(total));
        [0, 1].map(|number| Slots::new(number, Some(number.to_string()), limit, total.clone()))
    }

    #[tokio::test]
    async fn queues_share_what_the_worker_may_run() {
        let [a, b] = two(2, 3);
        for slots in [&a, &b] {
            slots.admit(1, (0..9).map(|id| (job(id, 0, id), false)));
        }
        assert_eq!((a.start(), b.start(), a.start()), (2, 1, 0));
        a.replace();
        assert_eq!((b.start(), a.start()), (1, 0));
    }

    #[tokio::test]
    async fn queues_that_want_more_than_there_is_take_turns() {
        let [a, b] = two(4, 4);
        a.admit(1, (0..100).map(|id| (job(id, 0, id), false)));
        assert_eq!(a.start(), 4);
        (0..4).for_each(|_| drop(a.next(None)));
        let took = Some(Duration::from_secs(1));
        assert!(a.next(took).0.is_some(), "nobody else wants it");
        b.admit(1, (0..100).map(|id| (job(id, 0, id), false)));
        assert_eq!(b.start(), 0);
        // it goes to the queue that was denied one, whichever asks first
        assert!(a.next(took).0.is_none());
        assert_eq!((a.start(), b.start()), (0, 1));
        assert!(b.next(None).0.is_some(), "what was started runs");
        // from now on they alternate
        assert!(a.next(took).0.is_some());
        assert!(a.next(took).0.is_none());
        assert_eq!((a.start(), b.start()), (0, 1));
        assert!(b.next(None).0.is_some());
        assert!(b.next(took).0.is_none());
        assert_eq!((b.start(), a.start()), (0, 1));
        assert!(a.next(None).0.is_some());
        // a queue with no more jobs loses its turn
        assert!(b.next(took).0.is_some());
        a.clear();
        assert!(b.next(took).0.is_none());
        assert_eq!((b.start(), a.start(), b.start()), (0, 0, 1));
        assert!(b.next(took).0.is_some());
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
        a.admit(1, (0..100).map(|id| (job(id, 0, id), false)));
        a.start();
        a.next(Some(Duration::from_secs(1)));
        assert_eq!(wants(&b, 0), 0, "the jobs are slow");
        (0..50).for_each(|_| drop(a.next(Some(Duration::from_millis(1)))));
        assert_eq!(wants(&b, 0), 1);
        b.admit(1, [(job(1, 0, 1), false)]);
        assert_eq!(wants(&b, 0), 0);
        tokio::time::advance(Duration::from_millis(200)).await;
        b.clear();
        assert_eq!(wants(&b, 0), 0, "no job has ended lately");
    }
}
