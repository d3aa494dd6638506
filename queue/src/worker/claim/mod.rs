//! Claiming: the loop that takes jobs while there is room for them.
//!
//! [Discovery](crate::worker::claim::discovery) finds the lanes. While an old snapshot exists, it walks over the dead
//! index entries of all rows that were ever taken. A claim that starts before its cursor walks over the recent ones.
//! Both are therefore limited to a small share of the time. All other claims start behind the cursor.

mod budget;
mod discovery;
mod horizon;
mod lanes;
mod lock;
pub(crate) mod orphans;
mod plan;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::store::values::{Ask, Claimed, End, Lane, WorkerId};
use crate::worker::claim::discovery::{Discovery, REST};
use crate::worker::claim::lanes::Lanes;
use crate::worker::claim::lock::LockBackoff;
use crate::worker::claim::orphans::Orphans;
use crate::worker::claim::plan::{COMPARED, Next, Planner};
use crate::worker::lease::health::Failures;
use crate::worker::record::recorder::BACKLOG;
use crate::worker::shared::Shared;

/// The most lanes asked at once, over all queues with limits of their own. SQLite takes 500 parts in one statement, and
/// their number is rounded up to a power of two.
const MOST_ASKS: usize = 256;

/// The poll interval of a worker that is also woken by signals and by its heartbeat.
const QUIET: Duration = Duration::from_secs(120);

/// The pause before a discovery that stopped midway continues, if nothing that it found was due.
const NEXT_LOOK: Duration = Duration::from_millis(1);

/// Claims at least this large take the claim lock, if the last one brought all that it asked for.
const MANY: u32 = 100;

/// What preceded a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// Another round.
    Claim,
    /// A pause until a lane was due.
    Pause,
    /// A signal: any lane may have new jobs.
    News,
    /// The poll interval passed without a signal.
    Poll,
}

/// The state of the loop.
pub(crate) struct Claims {
    shared: Arc<Shared>,
    lanes: Lanes,
    discovery: Discovery,
    planner: Planner,
    lock_backoff: LockBackoff,
    /// The number under which all this was learnt. Another number starts over.
    worker: WorkerId,
    /// Which slots come first.
    turn: usize,
    /// The lane that last gave a job.
    recent: Option<Lane>,
    /// The last wake-up brought exactly one job.
    lone: bool,
    /// The last claim brought all that it asked for: there is more.
    full: bool,
    /// The most jobs in one claim. It is lowered when the answer to a larger claim does not come in time.
    at_most: u32,
    /// The last claim of the only known lane, without discovery, brought nothing although a job was waiting.
    in_vain: bool,
    /// No such claims before this time, because two in a row brought nothing.
    not_alone: Option<Instant>,
    /// Discovery has not run since the last signal. The signal may have been for an unknown lane.
    unseen: bool,
}

/// Claims until told to stop.
pub(crate) async fn run(shared: Arc<Shared>) {
    claim_with(shared.clone(), Claims::new(shared)).await;
}

async fn claim_with(shared: Arc<Shared>, mut claims: Claims) {
    let stop = shared.stop_claiming.clone();
    let mut failures = Failures::default();
    let mut idle_since = Instant::now();
    // after a wait there may be new jobs; right after a claim, nothing suggests so
    let mut after = After::News;
    let mut orphans = Orphans::default();
    while !stop.is_cancelled() {
        orphans.look(&shared).await;
        let wants = claims.wants();
        if wants.is_empty() {
            tokio::select! {
                () = shared.notices.room.notified() => {}
                () = orphans.wait() => {}
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
                // the heartbeat also discovers jobs, unless that is expensive
                let quiet = shared.config.store.capabilities().heartbeats_discover && claims.discovery.is_cheap();
                shared.notices.set_quiet(quiet);
                let poll = if quiet { QUIET } else { shared.config.store.poll_interval(idle_since.elapsed()) };
                let pause =
                    if claims.discovery.is_midway() && !claims.discovery.is_beside() { NEXT_LOOK } else { poll };
                let pause = claims.next_due(&wants).map_or(pause, |due| due.min(pause));
                let _listening = shared.config.store.listen();
                after = tokio::select! {
                    () = shared.notices.enqueued.notified() => After::News,
                    () = sleep(pause) => if pause < poll { After::Pause } else { After::Poll },
                    // another queue has room: its lanes may be known
                    () = shared.notices.room.notified(), if shared.work.slots.len() > 1 => After::Claim,
                    () = orphans.wait() => After::Claim,
                    () = stop.cancelled() => After::Claim,
                };
            }
            Ok(_) => {
                shared.health.up(&mut failures);
                shared.notices.set_quiet(false);
                idle_since = Instant::now();
                after = After::Claim;
            }
            Err(error) => {
                claims.discovery.forget();
                orphans.doubt();
                shared.health.down(&mut failures, &error).await;
            }
        }
    }
}

/// The number of jobs wanted in all.
fn wanted(wants: &[(usize, u32)]) -> u32 {
    wants.iter().map(|(_, take)| take).sum()
}

/// Cuts the wants to `most` jobs in all.
fn at_most(wants: Vec<(usize, u32)>, mut most: u32) -> Vec<(usize, u32)> {
    let cut = wants.into_iter().map(|(slots, take)| {
        let take = take.min(most);
        most -= take;
        (slots, take)
    });
    cut.filter(|(_, take)| *take > 0).collect()
}

/// Whether the database did not answer in time.
fn is_timeout(error: &Error) -> bool {
    let Error::Database { source: sqlx::Error::Io(error), .. } = error else { return false };
    error.kind() == std::io::ErrorKind::TimedOut
}

/// What is still wanted after one job was taken for the first slots.
fn less_one(wants: &[(usize, u32)]) -> Vec<(usize, u32)> {
    let mut wants = wants.to_vec();
    wants[0].1 -= 1;
    wants.retain(|(_, take)| *take > 0);
    wants
}

impl Claims {
    fn new(shared: Arc<Shared>) -> Self {
        let (worker, planner) = (shared.lease.id(), Planner::new(&shared));
        let (lanes, discovery, lock_backoff) = (Lanes::default(), Discovery::new(), LockBackoff::default());
        let (turn, recent, lone, full) = (0, None, true, false);
        let (in_vain, not_alone, unseen) = (false, None, true);
        let at_most = u32::MAX;
        Self {
            shared,
            lanes,
            discovery,
            planner,
            lock_backoff,
            worker,
            turn,
            recent,
            lone,
            full,
            at_most,
            in_vain,
            not_alone,
            unseen,
        }
    }

    /// How many jobs each set of slots takes. Queues share the total of the worker, so another one comes first each
    /// time.
    fn wants(&mut self) -> Vec<(usize, u32)> {
        self.turn = self.turn.wrapping_add(1);
        self.wants_now()
    }

    fn wants_now(&self) -> Vec<(usize, u32)> {
        self.wants_of(|_| true)
    }

    /// The same, for some of the slots.
    fn wants_of(&self, some: impl Fn(usize) -> bool) -> Vec<(usize, u32)> {
        let shared = &self.shared;
        if shared.lease.id() == 0 || shared.recorder.unrecorded() > BACKLOG || shared.work.isolation.is_closed() {
            return Vec::new();
        }
        let count = shared.work.slots.len();
        let mut free = shared.work.total.free();
        let mut wants = Vec::with_capacity(count);
        // shares may be kept for a queue that turns out to have no room: the second try gives them to the others
        for _ in 0..if free > 0 { 2 } else { 1 } {
            for index in (0..count).map(|n| (n + self.turn) % count).filter(|index| some(*index)) {
                let wanted = shared.work.slots[index].wants(&mut free);
                if wanted > 0 {
                    wants.push((index, wanted));
                }
            }
            if !wants.is_empty() {
                break;
            }
        }
        at_most(wants, self.at_most)
    }

    /// One round of the loop. Returns how many jobs it claimed.
    async fn round(&mut self, wants: &[(usize, u32)], after: After) -> Result<usize, Error> {
        let waited = after != After::Claim;
        if self.worker != self.shared.lease.id() {
            // the lease was lost meanwhile: what was learnt may be long out of date
            *self = Self::new(self.shared.clone());
        }
        let now = Instant::now();
        self.unseen |= after == After::News;
        self.discovery.end_beside(&self.shared, &mut self.lanes);
        let mut was_alone = false;
        if waited && let Some(next) = self.only_lane(wants, after, now) {
            let take = next.take;
            let claimed = self.take(vec![next], take, true).await?;
            if claimed > 0 {
                self.in_vain = false;
                self.unseen = false;
                return Ok(claimed);
            }
            was_alone = true;
        } else if waited && let Some(claimed) = self.guess(wants).await? {
            self.unseen = false;
            self.discovery.now(&self.shared, &mut self.lanes).await?;
            return Ok(claimed + self.claim(&less_one(wants)).await?);
        }
        if !self.discovery.is_beside() {
            let requeue = self.shared.notices.take_rescued();
            // the last discovery stopped midway, and nothing that it found is due any more
            let goes_on = self.discovery.is_midway() && !self.lanes.have_due(now);
            if requeue || goes_on || self.discovery.is_due(now) {
                self.look_again().await?;
                if !self.discovery.is_beside() {
                    return self.claim(wants).await;
                }
            }
        }
        if matches!(after, After::News | After::Poll) && (!self.discovery.is_cheap() || self.discovery.is_midway()) {
            self.lanes.woken(now);
        }
        let claimed = if was_alone { 0 } else { self.claim(wants).await? };
        if claimed > 0 || self.discovery.is_beside() || !(waited || (self.unseen && self.discovery.is_cheap())) {
            return Ok(claimed);
        }
        // the known lanes gave nothing: run discovery if it is cheap, or if an idle worker has rested long enough
        let rested = self.shared.work.is_idle() && self.discovery.has_rested();
        if !self.discovery.is_cheap() && !rested {
            return Ok(0);
        }
        self.look_again().await?;
        // a job is due, and yet the claim brought none: it was enqueued meanwhile, or a row that discovery never finds
        // prevents it
        if was_alone && self.lanes.have_due(Instant::now()) && std::mem::replace(&mut self.in_vain, true) {
            self.not_alone = Some(Instant::now() + REST);
        }
        self.claim(wants).await
    }

    async fn look_again(&mut self) -> Result<(), Error> {
        self.unseen = false;
        self.discovery.again(&self.shared, &mut self.lanes).await
    }

    /// If the last discovery was a moment ago and found only one lane, a wake-up is most likely for that lane. It is
    /// claimed without discovery, if the database can check with the claim, or right before it, that there is no other
    /// lane. Without a signal, the lane must have given a job just now, or be due.
    fn only_lane(&self, wants: &[(usize, u32)], after: After, now: Instant) -> Option<Next> {
        let shared = &self.shared;
        let fresh = self.discovery.is_cheap() && !self.discovery.is_due(now) && !shared.notices.were_rescued();
        let others = self.not_alone.is_some_and(|until| now < until);
        if !fresh || others || !shared.config.store.capabilities().claims_alone {
            return None;
        }
        let &(slots, take) = wants.first()?;
        let told = after != After::Poll;
        let ask = self.lanes.only(take, told, now, |lane| shared.retries(slots, lane))?;
        Some(Next::all(slots, take, vec![ask]))
    }

    /// If the last wake-up brought one job, the next one of an idle worker most likely brings one job in the same lane.
    /// Trying that before discovery saves a round trip. It takes one job only, because jobs of another lane may come
    /// first. None: nothing was there, or this is no time to guess.
    async fn guess(&mut self, wants: &[(usize, u32)]) -> Result<Option<usize>, Error> {
        let shared = &self.shared;
        let Some(lane) =
            self.recent.clone().filter(|_| self.lone && shared.work.is_idle() && self.discovery.is_cheap())
        else {
            return Ok(None);
        };
        let retries = wants.first().and_then(|(slots, _)| shared.retries(*slots, &lane));
        let Some(max_retries) = retries else { return Ok(None) };
        let ask = Ask {
            newest_first: shared.config.newest_first.contains(&*lane.queue),
            lane,
            take: 1,
            behind: None,
            first: None,
            max_retries,
        };
        let worker = shared.lease.id();
        let jobs = shared.config.store.claim(worker, &[ask], None).await?;
        let count = jobs.len();
        self.hand_over(worker, jobs);
        Ok((count > 0).then_some(count))
    }

    /// Claims for these slots. If there are no jobs for them, claims for the queues that were left out.
    async fn claim(&mut self, wants: &[(usize, u32)]) -> Result<usize, Error> {
        let mut claimed = self.claim_in_turn(wants).await?;
        let (count, mut asked) = (self.shared.work.slots.len(), Vec::new());
        let mut wants = Cow::Borrowed(wants);
        while claimed == 0 && asked.len() + wants.len() < count {
            for (slots, _) in &*wants {
                self.shared.work.slots[*slots].has_none();
                asked.push(*slots);
            }
            wants = self.wants_of(|slots| !asked.contains(&slots)).into();
            if wants.is_empty() {
                break;
            }
            claimed = self.claim_in_turn(&wants).await?;
        }
        Ok(claimed)
    }

    /// Claims under the claim lock, if all slots want many jobs. Then each worker takes what the one before it left.
    /// Concurrent claims would walk over each other's rows.
    async fn claim_in_turn(&mut self, wants: &[(usize, u32)]) -> Result<usize, Error> {
        // a queue that wants few jobs does not wait for one that wants many
        let many = self.full && wants.iter().all(|(_, take)| *take >= MANY);
        if !many || !self.lock_backoff.waits() || !self.shared.lease.has_others() {
            return self.claim_now(wants).await;
        }
        let shared = self.shared.clone();
        let asked = Instant::now();
        if !shared.config.store.take_claim_lock().await? {
            self.lock_backoff.lose();
            return self.claim_now(wants).await;
        }
        let waited = asked.elapsed();
        let began = Instant::now();
        let claimed = if shared.stop_claiming.is_cancelled() {
            Ok(0)
        } else {
            // more slots may be free by now
            let wants = self.wants_now();
            self.claim_now(&wants).await
        };
        // the last claim of a backlog is so short that any wait would seem too long
        if claimed.as_ref().is_ok_and(|claimed| *claimed >= MANY as usize) {
            self.lock_backoff.turn_came(waited, began.elapsed());
        }
        if let Err(error) = shared.config.store.release_claim_lock().await {
            tracing::debug!(%error, "could not release the claim lock; it ends with its connection");
        }
        claimed
    }

    async fn claim_now(&mut self, wants: &[(usize, u32)]) -> Result<usize, Error> {
        let now = Instant::now();
        let (mut nexts, mut lanes) = (Vec::with_capacity(wants.len()), 0);
        for &(slots, take) in wants {
            // the other queues come first in a later round
            if lanes + COMPARED > MOST_ASKS {
                break;
            }
            let next = self.planner.next(&self.shared, &mut self.lanes, (slots, take), self.full, now).await?;
            lanes += next.asks.len();
            nexts.push(next);
        }
        self.take(nexts, wanted(wants), false).await
    }

    /// Claims what was planned. `alone`: only if no other lane has jobs.
    async fn take(&mut self, mut nexts: Vec<Next>, wanted: u32, alone: bool) -> Result<usize, Error> {
        let asks: Vec<Ask> = nexts.iter_mut().flat_map(|next| next.asks.drain(..)).collect();
        self.full = false;
        if asks.is_empty() {
            return Ok(0);
        }
        let (worker, store) = (self.shared.lease.id(), &self.shared.config.store);
        let started = Instant::now();
        let only_if_alone = alone.then_some(&*self.shared.scope.kinds);
        let jobs = match store.claim(worker, &asks, only_if_alone).await {
            // over a slow connection, this many jobs would never arrive in time
            Err(error) if is_timeout(&error) => {
                self.at_most = (wanted.min(self.at_most) / 2).max(1);
                return Err(error);
            }
            claimed => claimed?,
        };
        if jobs.len() >= self.at_most as usize {
            self.at_most = self.at_most.saturating_mul(2);
        }
        if alone && jobs.is_empty() {
            return Ok(0); // the lane may not even have been read
        }
        self.lanes.claimed(&asks, &jobs, started);
        for next in &nexts {
            self.planner.learn(&self.shared, next, &jobs);
        }
        if let Some(job) = jobs.last() {
            self.recent = Some(job.lane.clone());
        }
        let count = jobs.len();
        self.full = count >= wanted as usize || (count > 0 && nexts.iter().any(|next| next.cut));
        self.hand_over(worker, jobs);
        Ok(count)
    }

    /// The time until the next lane is due, of the known lanes whose slots want jobs or have room. It does not matter
    /// which queues were asked last.
    fn next_due(&self, wants: &[(usize, u32)]) -> Option<Duration> {
        let shared = &self.shared;
        let is_asked = |slots: usize| {
            wants.iter().any(|(index, _)| *index == slots)
                || (shared.work.total.free() > 0 && shared.work.slots[slots].has_room())
        };
        self.lanes.next_due(shared.work.is_idle(), |lane| shared.work.slots_of(&lane.queue).is_some_and(is_asked))
    }

    fn hand_over(&self, worker: i64, jobs: Vec<Claimed>) {
        let had_none = !jobs.is_empty() && self.shared.work.is_idle();
        self.shared.claim_records.claimed(worker, &jobs);
        let mut by_slots: Vec<Vec<(Claimed, bool)>> = self.shared.work.slots.iter().map(|_| Vec::new()).collect();
        for job in jobs {
            let newest_first = self.shared.config.newest_first.contains(&*job.lane.queue);
            match self.shared.work.slots_of(&job.lane.queue) {
                Some(slots) => by_slots[slots].push((job, newest_first)),
                // the scope holds only served queues: this row's queue changed during the claim
                None => self.shared.recorder.record(worker, End::unstarted(job.hold())),
            }
        }
        for (index, jobs) in by_slots.into_iter().enumerate().filter(|(_, jobs)| !jobs.is_empty()) {
            self.shared.work.slots[index].admit(worker, jobs);
        }
        self.shared.start_slots();
        if had_none {
            self.shared.notices.at_work.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
