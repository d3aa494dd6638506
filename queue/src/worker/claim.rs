//! Claiming: which lanes have work, how much to take from each, and where to start.
//!
//! A look (the skip scan over lanes) is a scan from the beginning, and so is a claim without a cursor. Both walk the
//! remains of rows that were taken earlier while an old snapshot keeps the database from removing them. They are therefore
//! rationed to a small share of the time; in between, claims start behind the last place taken.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Shared;
use super::health::Failures;
use super::record::BACKLOG;
use super::stray::Strays;
use crate::error::Error;
use crate::store::{Ask, Claimed, Lane, LaneHead, Place, Reach, WorkerId};

/// A lane that is served is scanned from its beginning, and new lanes are looked for, at least this seldom …
const RESCAN: Duration = Duration::from_millis(250);
/// … and so much more seldom than a scan takes …
const RATION: u32 = 50;
/// … but never more seldom than this.
const LONGEST: Duration = Duration::from_secs(2);
/// A lane that is due later than this is looked at again before.
const FAR: Duration = Duration::from_secs(60 * 60);
/// A cheap scan needs no ration.
const CHEAP: Duration = Duration::from_millis(5);

/// So many lanes are compared at once, and no more jobs are taken then, however many lanes there are: whoever enqueues may
/// make as many as there are names for queues.
const COMPARED: usize = 64;

/// What scans from the beginning cost: the least of the last few, because a pause of the machine or the network may fall
/// into any one of them, but an expensive scan is expensive every time.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    last: [Duration; 3],
    next: usize,
}

impl Cost {
    fn add(&mut self, cost: Duration) {
        self.last[self.next % 3] = cost;
        self.next += 1;
    }

    /// Zero until there were three.
    fn least(&self) -> Duration {
        self.last.into_iter().min().unwrap_or_default()
    }

    fn is_cheap(&self) -> bool {
        self.least() < CHEAP
    }

    /// How long to wait before the next scan from the beginning.
    fn pause(&self) -> Duration {
        (self.least() * RATION).clamp(RESCAN, LONGEST)
    }
}

/// What the claim loop remembers of a lane.
struct Known {
    lane: Lane,
    newest_first: bool,
    /// From when on rows are due.
    due: Instant,
    /// Its next row is due no earlier than this, as far as is known: microseconds since 1970.
    head: i64,
    behind: Option<Place>,
    scanned: Instant,
    cost: Cost,
}

impl Known {
    fn may_rescan(&self, now: Instant) -> bool {
        now - self.scanned >= self.cost.pause()
    }

    /// Before what its next row does not come in the order of all lanes.
    fn next(&self) -> (i16, i64) {
        let due = if self.newest_first { i64::MIN } else { self.behind.map_or(self.head, |(at, _)| at.max(self.head)) };
        (self.lane.priority, due)
    }
}

/// How often one looks who is woken by signals and by the heartbeat.
const QUIET: Duration = Duration::from_secs(120);

/// The loop's memory.
pub(crate) struct Claims {
    shared: Arc<Shared>,
    known: HashMap<Lane, Known>,
    looked: Option<Instant>,
    look_cost: Cost,
    /// The number under which all this was learnt.
    worker: WorkerId,
    /// Which slots come first.
    turn: usize,
    /// The lane that last gave a job.
    recent: Option<Lane>,
    /// So many lanes had to be compared the last time.
    breadth: usize,
}

/// Claims until told to stop.
pub(crate) async fn run(shared: Arc<Shared>) {
    let stop = shared.stop_claiming.clone();
    let mut claims = Claims::new(shared.clone());
    let mut failures = Failures::default();
    let mut idle_since = Instant::now();
    // after a wait there may be something new; right after a claim, nothing says so
    let mut waited = true;
    let mut strays = Strays::default();
    while !stop.is_cancelled() {
        strays.look(&shared).await;
        let wants = claims.wants();
        if wants.is_empty() {
            tokio::select! {
                () = shared.room.notified() => {}
                () = strays.wait() => {}
                () = stop.cancelled() => {}
            }
            continue;
        }
        match claims.round(&wants, waited).await {
            Ok(0) => {
                shared.health.up(&mut failures);
                // the heartbeat looks too, unless that were dear
                let quiet = shared.config.store.beat_looks() && claims.look_cost.is_cheap();
                shared.set_quiet(quiet);
                let poll = if quiet { QUIET } else { shared.config.store.poll_interval(idle_since.elapsed()) };
                let pause = claims.next_due(&wants).map_or(poll, |due| due.min(poll));
                waited = tokio::select! {
                    () = shared.wake.notified() => true,
                    () = sleep(pause) => true,
                    // another queue has room: it may be one whose lanes are known
                    () = shared.room.notified(), if shared.slots.len() > 1 => false,
                    () = strays.wait() => false,
                    () = stop.cancelled() => false,
                };
            }
            Ok(_) => {
                shared.health.up(&mut failures);
                shared.set_quiet(false);
                idle_since = Instant::now();
                waited = false;
            }
            Err(error) => {
                claims.looked = None;
                strays.doubt();
                shared.health.down(&mut failures, &error).await;
            }
        }
    }
}

/// The same, after one job was taken for the first.
fn less_one(wants: &[(usize, u32)]) -> Vec<(usize, u32)> {
    let mut wants = wants.to_vec();
    wants[0].1 -= 1;
    wants.retain(|(_, take)| *take > 0);
    wants
}

impl Claims {
    fn new(shared: Arc<Shared>) -> Self {
        let worker = shared.id();
        let (known, look_cost) = (HashMap::new(), Cost::default());
        Self { shared, known, looked: None, look_cost, worker, turn: 0, recent: None, breadth: 1 }
    }

    /// How many jobs each of the slots takes now.
    fn wants(&mut self) -> Vec<(usize, u32)> {
        let shared = &self.shared;
        if shared.id() == 0 || shared.recorder.unrecorded() > BACKLOG {
            return Vec::new();
        }
        // queues share what the whole worker may run: another one comes first each time
        self.turn = self.turn.wrapping_add(1);
        let count = shared.slots.len();
        let mut free = shared.total.free();
        let mut wants = Vec::with_capacity(count);
        for index in (0..count).map(|n| (n + self.turn) % count) {
            let wanted = shared.slots[index].wants(free);
            free = free.saturating_sub(wanted);
            if wanted > 0 {
                wants.push((index, wanted));
            }
        }
        wants
    }

    /// One claim. Returns how many jobs it brought.
    async fn round(&mut self, wants: &[(usize, u32)], waited: bool) -> Result<usize, Error> {
        if self.worker != self.shared.id() {
            // the lease was lost in between: what was learnt may be long out of date
            *self = Self::new(self.shared.clone());
        }
        if waited && let Some(claimed) = self.guess(wants).await? {
            self.look().await?;
            return Ok(claimed + self.claim(&less_one(wants)).await?);
        }
        let now = Instant::now();
        let stale = self.looked.is_none_or(|at| now - at >= self.look_cost.pause());
        if stale {
            self.look().await?;
            return self.claim(wants).await;
        }
        let claimed = self.claim(wants).await?;
        if claimed > 0 {
            return Ok(claimed);
        }
        // nothing where we knew something: look again, unless looking is dear
        if waited && self.look_cost.is_cheap() {
            self.look().await?;
            return self.claim(wants).await;
        }
        Ok(0)
    }

    /// What wakes an idle worker is most likely one job in the lane of the last one: it is tried before anything is looked
    /// for, which saves a round trip. One job only, because jobs of another lane may come first. None: nothing was there, or
    /// this is no time to guess.
    async fn guess(&mut self, wants: &[(usize, u32)]) -> Result<Option<usize>, Error> {
        let shared = &self.shared;
        let Some(lane) = self.recent.clone().filter(|_| shared.is_idle() && self.look_cost.is_cheap()) else {
            return Ok(None);
        };
        let wanted = wants.first().is_some_and(|(slots, _)| shared.slots_of(&lane.queue) == Some(*slots));
        let Some(definition) = shared.config.jobs.get(&*lane.kind).filter(|_| wanted) else { return Ok(None) };
        let ask = Ask {
            newest_first: shared.config.newest_first.contains(&*lane.queue),
            lane,
            take: 1,
            behind: None,
            max_retries: definition.max_retries,
        };
        let worker = shared.id();
        let jobs = shared.config.store.claim(worker, &[ask]).await?;
        let count = jobs.len();
        self.hand_over(worker, jobs);
        Ok((count > 0).then_some(count))
    }

    /// Finds the lanes that have rows.
    async fn look(&mut self) -> Result<(), Error> {
        let started = Instant::now();
        let config = &self.shared.config;
        let heads = config.store.lanes(&self.shared.scope).await?;
        let now = Instant::now();
        self.look_cost.add(now - started);
        self.looked = Some(now);
        let mut remembered = std::mem::take(&mut self.known);
        self.known = heads
            .into_iter()
            .map(|LaneHead { lane, run_at, due_in }| {
                let (due, head) = (now + due_in.min(FAR), run_at);
                let known = match remembered.remove(&lane) {
                    Some(known) => Known { due, head, ..known },
                    None => {
                        let newest_first = config.newest_first.contains(&*lane.queue);
                        let (lane, cost) = (lane.clone(), Cost::default());
                        Known { lane, newest_first, due, head, behind: None, scanned: now, cost }
                    }
                };
                (lane, known)
            })
            .collect();
        Ok(())
    }

    async fn claim(&mut self, wants: &[(usize, u32)]) -> Result<usize, Error> {
        let now = Instant::now();
        let (mut asks, mut passed_over) = (Vec::new(), Vec::new());
        for (slots, take) in wants {
            let mut of_slots = self.next_asks(*slots, *take, now).await?;
            if of_slots.len() == COMPARED {
                passed_over.extend(of_slots.iter().filter(|ask| ask.take == 0).map(|ask| ask.lane.clone()));
            }
            of_slots.retain(|ask| ask.take > 0);
            asks.append(&mut of_slots);
        }
        if asks.is_empty() {
            return Ok(0);
        }
        let worker = self.shared.id();
        let started = Instant::now();
        let jobs = self.shared.config.store.claim(worker, &asks).await?;
        self.learn(&asks, &jobs, started);
        self.pass_over(&passed_over, &jobs);
        if let Some(job) = jobs.last() {
            self.recent = Some(job.lane.clone());
        }
        let count = jobs.len();
        self.hand_over(worker, jobs);
        Ok(count)
    }

    /// What to ask of the due lanes that some slots serve, so that the next jobs in order are taken.
    ///
    /// Lanes are compared in the order of what may be next in them, and no more of them than it takes: jobs that come before
    /// the first lane that is not compared are the next ones, whatever is in that and in those after it.
    async fn next_asks(&mut self, slots: usize, take: u32, now: Instant) -> Result<Vec<Ask>, Error> {
        let mut breadth = self.breadth;
        loop {
            let (mut asks, before) = self.asks(slots, take, breadth, now);
            if asks.is_empty() || (asks.len() == 1 && before.is_none()) {
                return Ok(asks);
            }
            // the next job in order is in the lane that comes first; so the next 64 are in the first 64 lanes
            let least = if asks.len() == COMPARED { COMPARED as u32 } else { 0 };
            let reach = Reach { most: take, least, before };
            let counts = self.shared.config.store.peek(&asks, reach).await?;
            let found: u32 = counts.iter().sum();
            if before.is_some() && breadth < COMPARED && found < take.min(COMPARED as u32) {
                breadth = (breadth * 4).min(COMPARED);
                continue;
            }
            for (ask, count) in asks.iter_mut().zip(counts) {
                ask.take = count;
            }
            // behind the cursors nothing is due; with lanes that were not compared, each that has nothing makes room for them
            if found == 0 || found < least.min(take) {
                let empty = asks.iter().filter(|ask| ask.take == 0);
                empty.for_each(|ask| self.exhausted(&ask.lane, ask.behind.is_some(), now));
            }
            let needed = asks.iter().rposition(|ask| ask.take > 0).map_or(1, |last| last + 1);
            self.breadth = needed.next_power_of_two().min(COMPARED);
            return Ok(asks);
        }
    }

    /// The first of the due lanes that some slots serve, and what comes before the next lane if there are more.
    fn asks(&self, slots: usize, take: u32, most: usize, now: Instant) -> (Vec<Ask>, Option<(i16, i64)>) {
        let shared = &self.shared;
        let mut served: Vec<_> = self
            .known
            .values()
            .filter(|known| known.due <= now && shared.slots_of(&known.lane.queue) == Some(slots))
            .collect();
        let mut next = None;
        if served.len() > most {
            let (_, first, _) = served.select_nth_unstable_by_key(most, |known| known.next());
            next = Some(first.next());
            served.truncate(most);
        }
        served.sort_unstable_by_key(|known| known.next());
        let ask = |known: &Known| {
            let definition = shared.config.jobs.get(&*known.lane.kind)?;
            Some(Ask {
                lane: known.lane.clone(),
                take,
                behind: known.behind.filter(|_| !known.newest_first && !known.may_rescan(now)),
                newest_first: known.newest_first,
                max_retries: definition.max_retries,
            })
        };
        (served.into_iter().filter_map(ask).collect(), next)
    }

    /// Moves the cursors, and remembers which lanes gave less than was asked.
    fn learn(&mut self, asks: &[Ask], jobs: &[Claimed], started: Instant) {
        let now = Instant::now();
        for ask in asks {
            let mine = jobs.iter().filter(|job| job.lane == ask.lane);
            let (mut count, mut last) = (0, None);
            for job in mine {
                count += 1;
                last = last.max(Some((job.run_at, job.id.get())));
            }
            let Some(known) = self.known.get_mut(&ask.lane) else { continue };
            if ask.behind.is_none() {
                known.scanned = now;
                known.cost.add(now - started);
            }
            if last.is_some() && !ask.newest_first {
                known.behind = last;
            }
            if count < ask.take {
                self.exhausted(&ask.lane, ask.behind.is_some(), now);
            }
        }
    }

    /// Lanes that had none of the next jobs in order: whatever is in them comes after those that were claimed. They make
    /// room for lanes that were not compared.
    fn pass_over(&mut self, lanes: &[Lane], jobs: &[Claimed]) {
        let Some((priority, run_at)) = jobs.iter().map(|job| (job.lane.priority, job.run_at)).max() else { return };
        for lane in lanes {
            let Some(known) = self.known.get_mut(lane) else { continue };
            match lane.priority.cmp(&priority) {
                // something there would have come first
                Ordering::Less => known.due = Instant::now() + known.cost.pause(),
                Ordering::Equal => known.head = known.head.max(run_at),
                Ordering::Greater => {}
            }
        }
    }

    /// A lane gave less than was asked: start from its beginning when that is allowed again, else wait for the next look.
    fn exhausted(&mut self, lane: &Lane, had_cursor: bool, now: Instant) {
        let Some(known) = self.known.get_mut(lane) else { return };
        if had_cursor && (known.may_rescan(now) || known.cost.is_cheap()) {
            known.behind = None;
        } else {
            known.due = now + known.cost.pause();
        }
    }

    /// Until the next lane falls due that is known and whose slots want jobs.
    fn next_due(&self, wants: &[(usize, u32)]) -> Option<Duration> {
        let now = Instant::now();
        let wanted = |slots: usize| wants.iter().any(|(index, _)| *index == slots);
        let served = self.known.values().filter(|known| self.shared.slots_of(&known.lane.queue).is_some_and(wanted));
        // a millisecond more: the database's clock is read a little later than ours
        served.map(|known| known.due.saturating_duration_since(now) + Duration::from_millis(1)).min()
    }

    fn hand_over(&self, worker: i64, jobs: Vec<Claimed>) {
        let mut by_slots: Vec<Vec<(Claimed, bool)>> = self.shared.slots.iter().map(|_| Vec::new()).collect();
        for job in jobs {
            let newest_first = self.shared.config.newest_first.contains(&*job.lane.queue);
            if let Some(slots) = self.shared.slots_of(&job.lane.queue) {
                by_slots[slots].push((job, newest_first));
            }
        }
        for (index, jobs) in by_slots.into_iter().enumerate().filter(|(_, jobs)| !jobs.is_empty()) {
            self.shared.slots[index].admit(worker, jobs);
        }
        self.shared.start_slots();
    }
}
