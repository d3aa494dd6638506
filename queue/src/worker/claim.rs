//! Claiming: which lanes have work, how much to take from each, and where to start.
//!
//! A look (what lanes there are) walks over the remains of all rows that were taken earlier, while an old snapshot keeps
//! the database from removing them; a claim that starts before its cursor, over those that were taken lately. Both are
//! therefore rationed to a small share of the time; in between, claims start behind the last place taken.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::Shared;
use super::health::Failures;
use super::horizon::Horizon;
use super::lanes::{Cost, Lanes};
use super::record::BACKLOG;
use super::stray::Strays;
use crate::error::Error;
use crate::store::{Ask, Claimed, Lane, LaneHead, Reach, WorkerId};

/// So many lanes are compared at once, and no more jobs are taken then, however many lanes there are: whoever enqueues may
/// make as many as there are names for queues.
const COMPARED: usize = 128;

/// How often lanes that were thought to come first make room for others before less is taken than there is room for.
const MOST_TURNOVERS: u32 = 16;

/// And so many with all queues that have limits of their own: SQLite takes 500 parts in one statement, and their number is
/// rounded up to a power of two.
const MOST_ASKS: usize = 256;

/// How often one looks who is woken by signals and by the heartbeat.
const QUIET: Duration = Duration::from_secs(120);

/// Looks that take longer than this are done beside the claims …
const SLOW: Duration = Duration::from_millis(20);

/// … and so is the next one after a single look that took as long as this: it is not the machine that paused.
const VERY_SLOW: Duration = Duration::from_millis(250);

/// An idle worker looks no more often than this when it is dear.
const REST: Duration = Duration::from_secs(2);

/// Who takes as many as this, and got all that it asked for the last time, waits for its turn …
const MANY: u32 = 100;

/// … unless it took too long lately: its holder is slow, stopped, or gone without the server knowing. It is tried again
/// after about so long, and later and later while that is no better.
const WITHOUT_TURNS: Duration = Duration::from_secs(30);
const LONGEST_WITHOUT: Duration = Duration::from_secs(600);

/// Who waits longer than so many times what its own claim takes waits for others that are slower.
const WORTH: u32 = 30;

/// What a look found, and how long it took.
type Found = (Result<Vec<LaneHead>, Error>, Duration);

/// What came before a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// Another one.
    Claim,
    /// A pause until a lane fell due.
    Pause,
    /// A signal, or the time at which to look without one: anything may be there.
    News,
}

/// What to claim for some slots.
struct Next {
    slots: usize,
    take: u32,
    asks: Vec<Ask>,
    /// There is more than that, or may be: not everything was compared.
    more: bool,
    /// It is less than was wanted, because not everything was read.
    cut: bool,
}

/// The loop's memory.
pub(crate) struct Claims {
    shared: Arc<Shared>,
    lanes: Lanes,
    looked: Option<Instant>,
    look_cost: Cost,
    /// What the last look took.
    last_look: Duration,
    /// A look beside the claims, because it takes its time.
    looking: Option<oneshot::Receiver<Found>>,
    /// The number under which all this was learnt.
    worker: WorkerId,
    /// Which slots come first.
    turn: usize,
    /// The lane that last gave a job.
    recent: Option<Lane>,
    /// There was one job only, the last time that something woke this worker.
    lone: bool,
    /// So many lanes had to be compared the last time.
    breadth: usize,
    /// How far the next jobs of each slots reach.
    horizons: Vec<Horizon>,
    /// The last claim brought all that was asked for: there is more.
    full: bool,
    /// No claims of the only lane that is known, without a look, before this: one came to nothing.
    not_alone: Option<Instant>,
    /// No turns before this, and how long that was.
    no_turns: Option<(Instant, Duration)>,
}

/// Claims until told to stop.
pub(crate) async fn run(shared: Arc<Shared>) {
    let stop = shared.stop_claiming.clone();
    let mut claims = Claims::new(shared.clone());
    let mut failures = Failures::default();
    let mut idle_since = Instant::now();
    // after a wait there may be something new; right after a claim, nothing says so
    let mut after = After::News;
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
        let claimed = claims.round(&wants, after).await;
        if let (Ok(count @ 1..), true) = (&claimed, after != After::Claim) {
            claims.lone = *count == 1;
        }
        match claimed {
            Ok(0) => {
                shared.health.up(&mut failures);
                // the heartbeat looks too, unless that were dear
                let quiet = shared.config.store.beat_looks() && claims.looks_are_cheap();
                shared.set_quiet(quiet);
                let poll = if quiet { QUIET } else { shared.config.store.poll_interval(idle_since.elapsed()) };
                let pause = claims.next_due(&wants).map_or(poll, |due| due.min(poll));
                let _listening = shared.config.store.listen();
                after = tokio::select! {
                    () = shared.wake.notified() => After::News,
                    () = sleep(pause) => if pause < poll { After::Pause } else { After::News },
                    // another queue has room: it may be one whose lanes are known
                    () = shared.room.notified(), if shared.slots.len() > 1 => After::Claim,
                    () = strays.wait() => After::Claim,
                    () = stop.cancelled() => After::Claim,
                };
            }
            Ok(_) => {
                shared.health.up(&mut failures);
                shared.set_quiet(false);
                idle_since = Instant::now();
                after = After::Claim;
            }
            Err(error) => {
                claims.looked = None;
                strays.doubt();
                shared.health.down(&mut failures, &error).await;
            }
        }
    }
}

/// How many that is in all.
fn wanted(wants: &[(usize, u32)]) -> u32 {
    wants.iter().map(|(_, take)| take).sum()
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
        let (lanes, look_cost) = (Lanes::default(), Cost::of_looks());
        let (looked, last_look, looking) = (None, Duration::ZERO, None);
        let (turn, recent, lone, breadth, full) = (0, None, true, 1, false);
        let (not_alone, no_turns) = (None, None);
        let horizons = shared.slots.iter().map(|_| Horizon::default()).collect();
        Self {
            shared,
            lanes,
            looked,
            look_cost,
            last_look,
            looking,
            worker,
            turn,
            recent,
            lone,
            breadth,
            horizons,
            full,
            not_alone,
            no_turns,
        }
    }

    /// How many jobs each of the slots takes. Queues share what the whole worker may run: another one comes first each time.
    fn wants(&mut self) -> Vec<(usize, u32)> {
        self.turn = self.turn.wrapping_add(1);
        self.wants_now()
    }

    fn wants_now(&self) -> Vec<(usize, u32)> {
        let shared = &self.shared;
        if shared.id() == 0 || shared.recorder.unrecorded() > BACKLOG {
            return Vec::new();
        }
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
    async fn round(&mut self, wants: &[(usize, u32)], after: After) -> Result<usize, Error> {
        let waited = after != After::Claim;
        if self.worker != self.shared.id() {
            // the lease was lost in between: what was learnt may be long out of date
            *self = Self::new(self.shared.clone());
        }
        let now = Instant::now();
        self.end_of_look();
        let mut was_alone = false;
        if waited && let Some(next) = self.only_lane(wants, now) {
            let take = next.take;
            let claimed = self.take(vec![next], take, true).await?;
            if claimed > 0 {
                return Ok(claimed);
            }
            was_alone = true;
        } else if waited && let Some(claimed) = self.guess(wants).await? {
            self.look().await?;
            return Ok(claimed + self.claim(&less_one(wants)).await?);
        }
        if self.looking.is_none() {
            let put_back = self.shared.look.swap(false, Ordering::Relaxed);
            if put_back || self.looked.is_none_or(|at| now - at >= self.look_cost.pause()) {
                self.look_again().await?;
                if self.looking.is_none() {
                    return self.claim(wants).await;
                }
            }
        }
        if after == After::News && !self.looks_are_cheap() {
            self.lanes.woken(now);
        }
        let claimed = if was_alone { 0 } else { self.claim(wants).await? };
        if claimed > 0 || !waited || self.looking.is_some() {
            return Ok(claimed);
        }
        // nothing where we knew something: look again, unless that is dear; who has nothing to do has the time for that, too
        let rest = REST.max(self.last_look * 10);
        let rested = self.shared.is_idle() && self.looked.is_none_or(|at| at.elapsed() >= rest);
        if !self.looks_are_cheap() && !rested {
            return Ok(0);
        }
        self.look_again().await?;
        if was_alone && !self.lanes.is_empty() {
            // something waits, and yet nothing came
            self.not_alone = Some(Instant::now() + REST);
        }
        self.claim(wants).await
    }

    /// Where one lane is all that the last look has found, and that was a moment ago, what wakes a worker is most likely in
    /// it: it is claimed without another look, if the database can say with the claim that there is no other lane.
    fn only_lane(&self, wants: &[(usize, u32)], now: Instant) -> Option<Next> {
        let shared = &self.shared;
        let looked = self.looked.is_some_and(|at| now - at < self.look_cost.pause());
        let put_back = shared.look.load(Ordering::Relaxed);
        let others = self.not_alone.is_some_and(|until| now < until);
        if !shared.config.store.claims_alone() || !looked || put_back || others || !self.looks_are_cheap() {
            return None;
        }
        let &(slots, take) = wants.first()?;
        let ask = self.lanes.only(take, now, |lane| self.retries(slots, lane))?;
        Some(Next { slots, take, asks: vec![ask], more: false, cut: false })
    }

    /// How often jobs of a lane are tried again, if these slots serve it.
    fn retries(&self, slots: usize, lane: &Lane) -> Option<u32> {
        let served = self.shared.slots_of(&lane.queue) == Some(slots);
        self.shared.config.jobs.get(&*lane.kind).filter(|_| served).map(|definition| definition.max_retries)
    }

    /// What wakes an idle worker is most likely one job in the lane of the last one, if it was so the last time: it is tried
    /// before anything is looked for, which saves a round trip. One job only, because jobs of another lane may come first. None:
    /// nothing was there, or this is no time to guess.
    async fn guess(&mut self, wants: &[(usize, u32)]) -> Result<Option<usize>, Error> {
        let shared = &self.shared;
        let Some(lane) = self.recent.clone().filter(|_| self.lone && shared.is_idle() && self.looks_are_cheap()) else {
            return Ok(None);
        };
        let wanted = wants.first().is_some_and(|(slots, _)| shared.slots_of(&lane.queue) == Some(*slots));
        let Some(definition) = shared.config.jobs.get(&*lane.kind).filter(|_| wanted) else { return Ok(None) };
        let ask = Ask {
            newest_first: shared.config.newest_first.contains(&*lane.queue),
            lane,
            take: 1,
            behind: None,
            first: None,
            max_retries: definition.max_retries,
        };
        let worker = shared.id();
        let jobs = shared.config.store.claim(worker, &[ask]).await?;
        let count = jobs.len();
        self.hand_over(worker, jobs);
        Ok((count > 0).then_some(count))
    }

    fn looks_are_slow(&self) -> bool {
        self.look_cost.least() >= SLOW || self.last_look >= VERY_SLOW
    }

    fn looks_are_cheap(&self) -> bool {
        self.look_cost.is_cheap() && self.last_look < VERY_SLOW
    }

    /// Looks, or has it done beside the claims.
    async fn look_again(&mut self) -> Result<(), Error> {
        match self.looks_are_slow() && self.shared.config.store.has_spare_connection() {
            true => self.look_beside(),
            false => self.look().await?,
        }
        Ok(())
    }

    /// Finds the lanes that have rows.
    async fn look(&mut self) -> Result<(), Error> {
        self.lanes.look_begins();
        let started = Instant::now();
        let heads = self.shared.config.store.lanes(&self.shared.scope).await;
        // a look that takes too long for this is done beside the claims the next time
        self.last_look = started.elapsed();
        match heads {
            Ok(heads) => self.found(heads, self.last_look),
            Err(error) if self.last_look < VERY_SLOW => return Err(error),
            // nor may one that comes to nothing keep the lanes waiting that are known
            Err(error) => self.failed(&error, self.last_look),
        }
        Ok(())
    }

    /// The same on another connection, while claims go on.
    fn look_beside(&mut self) {
        self.lanes.look_begins();
        let shared = self.shared.clone();
        let (sender, receiver) = oneshot::channel();
        self.looking = Some(receiver);
        tokio::spawn(async move {
            let started = Instant::now();
            let found = match shared.config.store.lanes_beside(&shared.scope).await {
                Ok((heads, took)) => (Ok(heads), took),
                Err(error) => (Err(error), started.elapsed()),
            };
            // nobody waits for it any more: the worker ends, or has another number
            let _ = sender.send(found);
            shared.wake.notify_one();
        });
    }

    /// Takes over what the look beside the claims has found, if it is done.
    fn end_of_look(&mut self) {
        let Some(look) = &mut self.looking else { return };
        let found = match look.try_recv() {
            Ok(found) => Some(found),
            Err(oneshot::error::TryRecvError::Empty) => return,
            Err(oneshot::error::TryRecvError::Closed) => None, // the runtime is shutting down
        };
        self.looking = None;
        self.looked = Some(Instant::now());
        match found {
            Some((Ok(heads), took)) => self.found(heads, took),
            Some((Err(error), took)) => self.failed(&error, took),
            None => {}
        }
    }

    /// A look came to nothing.
    fn failed(&mut self, error: &Error, took: Duration) {
        tracing::debug!(%error, "a look at the lanes failed; those that are known go on");
        self.looked = Some(Instant::now());
        self.last_look = self.last_look.max(took);
        // one that failed at once says nothing of what looks cost
        if took >= VERY_SLOW {
            self.look_cost.add(took);
        }
    }

    fn found(&mut self, heads: Vec<LaneHead>, took: Duration) {
        self.look_cost.add(took);
        self.last_look = took;
        let now = Instant::now();
        self.looked = Some(now);
        let newest_first = &self.shared.config.newest_first;
        let dear = (!self.looks_are_cheap()).then_some(took);
        self.lanes.found(heads, now, dear, |lane| newest_first.contains(&*lane.queue));
    }

    /// Claims, in turn with the other workers where all of them take many: then each takes what the one before has left,
    /// where claims side by side would walk over each other's rows.
    async fn claim(&mut self, wants: &[(usize, u32)]) -> Result<usize, Error> {
        // a queue that wants few does not wait for one that wants many
        let many = self.full && wants.iter().all(|(_, take)| *take >= MANY);
        let may_wait = self.no_turns.is_none_or(|(until, _)| Instant::now() >= until);
        if !many || !may_wait || !self.shared.others.load(Ordering::Relaxed) {
            return self.claim_now(wants).await;
        }
        let shared = self.shared.clone();
        let asked = Instant::now();
        if !shared.config.store.take_turn().await? {
            self.go_without_turns();
            return self.claim_now(wants).await;
        }
        let waited = asked.elapsed();
        let began = Instant::now();
        let claimed = if shared.stop_claiming.is_cancelled() {
            Ok(0)
        } else {
            // slots became free meanwhile
            let wants = self.wants_now();
            self.claim_now(&wants).await
        };
        // the last claim of a backlog takes no time
        if claimed.as_ref().is_ok_and(|claimed| *claimed >= MANY as usize) {
            if waited > began.elapsed() * WORTH {
                self.go_without_turns();
            } else {
                self.no_turns = None;
            }
        }
        if let Err(error) = shared.config.store.give_turn().await {
            tracing::debug!(%error, "the turn to claim goes back with its connection");
        }
        claimed
    }

    fn go_without_turns(&mut self) {
        let pause = self.no_turns.map_or(WITHOUT_TURNS, |(_, last)| (last * 2).min(LONGEST_WITHOUT));
        // not all at the same time
        let until = Instant::now() + pause.mul_f64(0.75 + fastrand::f64() / 2.0);
        self.no_turns = Some((until, pause));
    }

    async fn claim_now(&mut self, wants: &[(usize, u32)]) -> Result<usize, Error> {
        let now = Instant::now();
        let (mut nexts, mut lanes) = (Vec::with_capacity(wants.len()), 0);
        for (slots, take) in wants {
            // the other queues come first another time
            if lanes + COMPARED > MOST_ASKS {
                break;
            }
            let next = self.next_asks(*slots, *take, now).await?;
            lanes += next.asks.len();
            nexts.push(next);
        }
        self.take(nexts, wanted(wants), false).await
    }

    /// Claims what was found to be next; `alone`: if no other lane has anything.
    async fn take(&mut self, mut nexts: Vec<Next>, wanted: u32, alone: bool) -> Result<usize, Error> {
        let asks: Vec<Ask> = nexts.iter_mut().flat_map(|next| next.asks.drain(..)).collect();
        self.full = false;
        let Some(first) = asks.first() else { return Ok(0) };
        let (worker, store) = (self.shared.id(), &self.shared.config.store);
        let started = Instant::now();
        let jobs = match alone {
            true => store.claim_alone(worker, first, &self.shared.scope.kinds).await?,
            false => store.claim(worker, &asks).await?,
        };
        if alone && jobs.is_empty() {
            return Ok(0); // it may not even have been read
        }
        self.lanes.claimed(&asks, &jobs, started);
        for next in &nexts {
            self.learn(next, &jobs);
        }
        if let Some(job) = jobs.last() {
            self.recent = Some(job.lane.clone());
        }
        let count = jobs.len();
        self.full = count >= wanted as usize || (count > 0 && nexts.iter().any(|next| next.cut));
        self.hand_over(worker, jobs);
        Ok(count)
    }

    /// What a claim says of the lanes of some slots.
    fn learn(&mut self, next: &Next, jobs: &[Claimed]) {
        let shared = &self.shared;
        let mine = |job: &&Claimed| shared.slots_of(&job.lane.queue) == Some(next.slots);
        let all = jobs.iter().filter(mine).count() >= next.take as usize;
        // how far the newest jobs come says nothing of the others
        let in_order = |job: &&Claimed| mine(job) && !shared.config.newest_first.contains(&*job.lane.queue);
        let ranks = jobs.iter().filter(in_order).map(|job| (job.lane.priority, (job.run_at, job.id.get())));
        if next.more || all {
            self.horizons[next.slots].claimed(ranks);
        } else {
            self.horizons[next.slots].forget();
        }
    }

    /// What to ask of the due lanes that some slots serve, so that the next jobs in order are taken.
    ///
    /// Lanes are compared in the order of what may be next in them, and no more of them than it takes: jobs that come before
    /// the first lane that is not compared are the next ones, whatever is in that and in those after it. The same goes for jobs
    /// that come before what is not read of any lane.
    async fn next_asks(&mut self, slots: usize, take: u32, now: Instant) -> Result<Next, Error> {
        let mut breadth = self.breadth;
        let mut until = self.horizons[slots].until(take);
        let mut turnovers = 0;
        loop {
            let (mut asks, before) = self.lanes.asks(take, breadth, now, |lane| self.retries(slots, lane));
            if asks.is_empty() || (asks.len() == 1 && before.is_none()) {
                // there is likely to be as much again, right behind what was taken, where nobody else takes
                if self.full && !self.shared.others.load(Ordering::Relaxed) {
                    asks.iter_mut().for_each(|ask| ask.first = self.lanes.next_place(ask));
                }
                return Ok(Next { slots, take, asks, more: false, cut: false });
            }
            // Where what is known of lanes are the places of their next jobs, the next job in order is in the lane that comes
            // first, and so the next 128 are in the first 128 lanes. They are taken in any case, so that it goes on where many
            // are due at one and the same time.
            let least = if asks.len() == COMPARED { COMPARED as u32 } else { 0 };
            let reach = Reach { most: take, least, before, until };
            let shares = self.shared.config.store.peek(&asks, reach).await?;
            self.lanes.compared(&asks, &shares);
            let mut found: u32 = shares.iter().map(|share| share.count).sum();
            let sure: u32 = shares.iter().map(|share| share.sure).sum();
            // the lanes that were not compared come first, or what was not read
            let too_few_lanes = before.is_some_and(|before| until.is_none_or(|until| before < until));
            let enough = if too_few_lanes { take.min(COMPARED as u32) } else { take };
            let mut sure_only = false;
            if let Some(before) = before.filter(|_| too_few_lanes && sure < enough) {
                if breadth < COMPARED {
                    breadth = (breadth * 4).min(COMPARED);
                    continue;
                }
                let all: u32 = shares.iter().map(|share| share.all).sum();
                if all == 0 && until.is_some() {
                    // nothing tells where these lanes stand
                    until = None;
                    continue;
                }
                if all < take && until.is_none() {
                    let none = asks.iter().zip(&shares).filter(|(_, share)| share.ends.is_none());
                    none.for_each(|(ask, _)| self.lanes.empty(ask, now));
                }
                let others = self.lanes.make_room(&asks, &shares, before, now);
                if others && sure < enough.div_ceil(2) && turnovers < MOST_TURNOVERS {
                    turnovers += 1;
                    continue;
                }
                sure_only = others && sure > 0;
                found = if sure_only { sure } else { found };
            }
            if until.is_some() && !sure_only {
                if found < enough.div_ceil(2) {
                    until = self.horizons[slots].further(take);
                    continue;
                }
                self.horizons[slots].was_right();
            }
            for (ask, share) in asks.iter_mut().zip(shares) {
                ask.take = if sure_only { share.sure } else { share.count };
                ask.first = share.ends.map(|(first, _)| first).filter(|_| !ask.newest_first);
            }
            // behind the cursors nothing is due; with lanes that were not compared, each that has nothing makes room for them
            if until.is_none() && !sure_only && (found == 0 || found < least.min(take)) {
                asks.iter().filter(|ask| ask.take == 0).for_each(|ask| self.lanes.empty(ask, now));
            }
            let needed = asks.iter().rposition(|ask| ask.take > 0).map_or(1, |last| last + 1);
            self.breadth = needed.next_power_of_two().min(COMPARED);
            asks.retain(|ask| ask.take > 0);
            let (more, cut) = (before.is_some() || found >= take, until.is_some() && found < take);
            return Ok(Next { slots, take, asks, more: more || cut, cut });
        }
    }

    /// Until the next lane falls due that is known and whose slots want jobs.
    fn next_due(&self, wants: &[(usize, u32)]) -> Option<Duration> {
        let wanted = |slots: usize| wants.iter().any(|(index, _)| *index == slots);
        self.lanes.next_due(self.shared.is_idle(), |lane| self.shared.slots_of(&lane.queue).is_some_and(wanted))
    }

    fn hand_over(&self, worker: i64, jobs: Vec<Claimed>) {
        let had_none = !jobs.is_empty() && self.shared.is_idle();
        self.shared.ledger.claimed(worker, &jobs);
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
        if had_none {
            self.shared.at_work.notify_one();
        }
    }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
