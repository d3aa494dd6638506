//! What the claim loop does next. No I/O: it gets what happened as an [`Event`], and answers with the next [`Step`].
//!
//! A round begins when the worker wants jobs. It claims from the known lanes, and runs discovery before or after that.
//! While an old snapshot exists, discovery walks over the dead index entries of all rows that were ever taken. A claim
//! that starts before its cursor walks over the recent ones. Both are therefore limited to a small share of the time.
//! All other claims start behind the cursor.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::store::values::{Ask, Claimed, Found, Lane, Reach, Share, WorkerId};
use crate::worker::claim::discovery::{Discovery, REST, Seen};
use crate::worker::claim::lanes::Lanes;
use crate::worker::claim::plan::{COMPARED, Known, Next, Plan, Planned, Planner};
use crate::worker::record::recorder::BACKLOG;
use crate::worker::run::slots::Want;
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
pub(super) enum After {
    /// Another round.
    Claim,
    /// A pause until a lane was due.
    Pause,
    /// A signal: any lane may have new jobs.
    News,
    /// The poll interval passed without a signal.
    Poll,
}

/// What the loop is to do.
#[derive(Debug)]
pub(super) enum Step {
    /// Find lanes, behind these. `beside`: in the background.
    Discover { behind: Vec<Lane>, most: usize, beside: bool },
    /// Wait for the claim lock. It is held until the next claim, or any step but a preview.
    Lock,
    /// Count the next jobs of these lanes, within this reach.
    Preview(Vec<Ask>, Reach),
    /// Claim jobs. `alone`: only if no other lane has any.
    Claim { asks: Vec<Ask>, alone: bool },
    /// The round is over. It claimed this number of jobs.
    Done(usize),
}

/// What has happened.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// Discovery in the background has begun.
    Discovering,
    /// Discovery has ended, after this time.
    Discovered(Result<Found, Error>, Duration),
    /// The claim lock was taken, or did not come in time.
    Locked {
        taken: bool,
        waited: Duration,
    },
    Previewed(Vec<Ask>, Reach, Vec<Share>),
    /// A claim took these jobs. `began`: when it was sent.
    Claimed {
        asks: Vec<Ask>,
        jobs: &'a [Claimed],
        began: Instant,
    },
}

/// Where a round is.
#[derive(Debug)]
enum Phase {
    Resting,
    /// One job is claimed on a guess.
    Guess,
    /// Discovery runs, for this reason.
    Look(Why),
    Claim(Claim),
}

#[derive(Debug, Clone, Copy)]
enum Why {
    /// It is due.
    Due,
    /// The guess was right: other lanes may have jobs too.
    Guessed,
    /// The known lanes gave nothing.
    Empty,
}

/// A claim for all slots that want jobs.
#[derive(Debug, Default)]
struct Claim {
    wants: Vec<Want>,
    /// What is planned so far, for the first of the wants.
    nexts: Vec<Next>,
    plan: Option<Plan>,
    /// Slots that were asked before in this round, in vain.
    in_vain: Vec<usize>,
    /// How long the claim lock took to come, and when the claim under it began.
    locked: Option<(Duration, Instant)>,
    /// The only known lane is claimed, without discovery.
    alone: bool,
    /// Discovery has just run, so the round ends with this claim.
    last: bool,
    /// How many jobs the round has claimed before.
    had: usize,
}

/// How long the loop waits if nothing happens.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) pause: Duration,
    /// If the pause is this long, it is a poll.
    pub(super) poll: Duration,
    /// The heartbeat discovers jobs meanwhile.
    pub(super) quiet: bool,
}

/// The state of the claim loop. Of the worker it reads what is in memory: free slots, the lease, what others have told
/// the loop.
pub(super) struct Brain {
    shared: Arc<Shared>,
    /// The number under which all this was learnt. Another number starts over.
    worker: WorkerId,
    lanes: Lanes,
    pub(super) discovery: Discovery,
    planner: Planner,
    lock: LockBackoff,
    phase: Phase,
    /// What the round is for, and what preceded it.
    wants: Vec<Want>,
    after: After,
    /// In this round, a claim of the only lane brought nothing.
    missed: bool,
    /// Which slots come first.
    turn: usize,
    /// The lane that last gave a job.
    recent: Option<Lane>,
    /// The last wake-up brought exactly one job.
    one_came: bool,
    /// The last claim brought all that it asked for: there is more.
    full: bool,
    /// The most jobs in one claim. It is lowered when the answer to a larger claim does not come in time.
    at_most: u32,
    /// The last claim of the only lane brought nothing although a job was waiting.
    missed_before: bool,
    /// The only lane is not claimed without discovery before this time, because two such claims in a row brought
    /// nothing.
    not_alone_until: Option<Instant>,
    /// Discovery has not run since the last signal. The signal may have been for an unknown lane.
    unseen: bool,
}

/// The number of jobs wanted in all.
fn wanted(wants: &[Want]) -> u32 {
    wants.iter().map(|want| want.take).sum()
}

/// Cuts the wants to `most` jobs in all.
fn at_most(wants: &mut Vec<Want>, mut most: u32) {
    for want in &mut *wants {
        want.take = want.take.min(most);
        most -= want.take;
    }
    wants.retain(|want| want.take > 0);
}

impl Brain {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            worker: shared.lease.id(),
            lanes: Lanes::default(),
            discovery: Discovery::new(),
            planner: Planner::new(shared.work.slots.count()),
            lock: LockBackoff::default(),
            phase: Phase::Resting,
            wants: Vec::new(),
            after: After::News,
            missed: false,
            turn: 0,
            recent: None,
            one_came: true,
            full: false,
            at_most: u32::MAX,
            missed_before: false,
            not_alone_until: None,
            unseen: true,
            shared,
        }
    }

    /// The lease was lost meanwhile: what was learnt may be long out of date.
    pub(super) fn is_outdated(&self) -> bool {
        self.worker != self.shared.lease.id()
    }

    /// How many jobs each set of slots takes. Queues share the total of the worker, so another one comes first each
    /// time.
    pub(super) fn wants(&mut self) -> Vec<Want> {
        self.turn = self.turn.wrapping_add(1);
        self.wants_of(|_| true)
    }

    /// The same, for some of the slots.
    fn wants_of(&self, some: impl Fn(usize) -> bool) -> Vec<Want> {
        let shared = &self.shared;
        if shared.lease.id() == 0 || shared.recorder.unrecorded() > BACKLOG || shared.work.isolation.is_closed() {
            return Vec::new();
        }
        let mut wants = shared.work.slots.wants(self.turn, some);
        at_most(&mut wants, self.at_most);
        wants
    }

    /// A round begins. `wants` is not empty.
    pub(super) fn begin(&mut self, wants: Vec<Want>, after: After) -> Step {
        (self.wants, self.after, self.missed) = (wants, after, false);
        self.unseen |= after == After::News;
        if let Some(next) = self.only_lane() {
            let wants = vec![Want { slots: next.slots, take: next.take }];
            return self.take(Claim { wants, nexts: vec![next], alone: true, last: true, ..Claim::default() });
        }
        if let Some(ask) = self.guess() {
            self.phase = Phase::Guess;
            return Step::Claim { asks: vec![ask], alone: false };
        }
        self.look_or_claim()
    }

    /// What to do next. Error: discovery failed, and quickly.
    pub(super) fn on(&mut self, event: Event<'_>) -> Result<Step, Error> {
        let phase = std::mem::replace(&mut self.phase, Phase::Resting);
        Ok(match (phase, event) {
            (Phase::Look(why), Event::Discovering) => self.looked(why),
            (Phase::Look(why), Event::Discovered(result, took)) => {
                self.discovered(result, took)?;
                self.looked(why)
            }
            (Phase::Claim(Claim { alone: true, .. }), Event::Claimed { jobs: [], .. }) => {
                // the lane may not even have been read
                self.missed = true;
                self.look_or_claim()
            }
            (Phase::Guess, Event::Claimed { jobs: [], .. }) => self.look_or_claim(),
            (Phase::Guess, Event::Claimed { .. }) => self.look(Why::Guessed, false),
            (Phase::Claim(claim), Event::Locked { taken: true, .. }) if self.shared.stop_claiming.is_cancelled() => {
                self.done(claim.had)
            }
            (Phase::Claim(claim), Event::Locked { taken: true, waited }) => {
                // more slots may be free by now
                let (wants, locked) = (self.wants_of(|_| true), Some((waited, Instant::now())));
                self.plan(Claim { wants, locked, ..claim })
            }
            (Phase::Claim(claim), Event::Locked { taken: false, .. }) => {
                self.lock.lose();
                self.plan(claim)
            }
            (Phase::Claim(claim), Event::Previewed(asks, reach, shares)) => self.previewed(claim, asks, reach, &shares),
            (Phase::Claim(claim), Event::Claimed { asks, jobs, began }) => {
                if claim.alone {
                    (self.missed_before, self.unseen) = (false, false);
                }
                self.learn(&claim.nexts, wanted(&claim.wants), &asks, jobs, began);
                self.claimed(claim, jobs.len())
            }
            (phase, event) => unreachable!("{event:?} in {phase:?}"),
        })
    }

    /// The round failed.
    pub(super) fn failed(&mut self, error: &Error) {
        self.discovery.last = None;
        let timed_out = matches!(error, Error::Database { source: sqlx::Error::Io(error), .. }
            if error.kind() == std::io::ErrorKind::TimedOut);
        if let Phase::Claim(claim) = std::mem::replace(&mut self.phase, Phase::Resting)
            && timed_out
        {
            // over a slow connection, this many jobs would never arrive in time
            self.at_most = (wanted(&claim.wants).min(self.at_most) / 2).max(1);
        }
    }

    /// Takes over the result of a discovery. Error: it failed, and quickly.
    pub(super) fn discovered(&mut self, result: Result<Found, Error>, took: Duration) -> Result<(), Error> {
        if let Some(Seen { mut heads, expensive, most_kept }) = self.discovery.ended(result, took)? {
            self.shared.notices.let_others_first(&mut heads);
            let newest_first = |lane: &Lane| self.shared.config.newest_first.contains(&*lane.queue);
            self.lanes.found(heads, Instant::now(), expensive, most_kept, newest_first);
        }
        Ok(())
    }

    /// How long to wait after a round that claimed nothing. The worker has been without work for `idle`.
    pub(super) fn rest(&self, idle: Duration) -> Rest {
        let (shared, store) = (&self.shared, &self.shared.config.store);
        // the heartbeat also discovers jobs, unless that is expensive
        let quiet = store.capabilities().heartbeats_discover && self.discovery.is_cheap();
        let poll = if quiet { QUIET } else { store.poll_interval(idle) };
        let goes_on = self.discovery.is_midway() && !self.discovery.beside;
        let pause = if goes_on { NEXT_LOOK } else { poll };
        // the known lanes whose slots want jobs or have room: it does not matter which queues were asked last
        let is_asked =
            |slots: usize| self.wants.iter().any(|want| want.slots == slots) || shared.work.slots.has_room(slots);
        let is_wanted = |lane: &Lane| shared.work.slots.of(&lane.queue).is_some_and(is_asked);
        let due = self.lanes.next_due(shared.work.slots.is_idle(), is_wanted);
        Rest { pause: due.map_or(pause, |due| due.min(pause)), poll, quiet }
    }

    /// If the last discovery was a moment ago and found only one lane, a wake-up is most likely for that lane. It is
    /// claimed without discovery, if the database can check with the claim, or right before it, that there is no other
    /// lane. Without a signal, the lane must have given a job just now, or be due.
    fn only_lane(&self) -> Option<Next> {
        let now = Instant::now();
        let shared = &self.shared;
        let fresh = self.discovery.is_cheap() && !self.discovery.is_due(now) && !shared.notices.rescued.load(Relaxed);
        let others = self.not_alone_until.is_some_and(|until| now < until);
        if self.after == After::Claim || !fresh || others || !shared.config.store.capabilities().claims_alone {
            return None;
        }
        let Want { slots, take } = *self.wants.first()?;
        let told = self.after != After::Poll;
        let ask = self.lanes.only(take, told, now, |lane| shared.retries(slots, lane))?;
        Some(Next::all(slots, take, vec![ask]))
    }

    /// If the last wake-up brought one job, the next one of an idle worker most likely brings one job in the same lane.
    /// Trying that before discovery saves a round trip. It takes one job only, because jobs of another lane may come
    /// first.
    fn guess(&self) -> Option<Ask> {
        let shared = &self.shared;
        if self.after == After::Claim || !self.one_came || !shared.work.slots.is_idle() || !self.discovery.is_cheap() {
            return None;
        }
        let lane = self.recent.clone()?;
        let max_retries = shared.retries(self.wants.first()?.slots, &lane)?;
        let newest_first = shared.config.newest_first.contains(&*lane.queue);
        Some(Ask { newest_first, lane, take: 1, behind: None, first: None, max_retries })
    }

    fn look_or_claim(&mut self) -> Step {
        if !self.discovery.beside {
            let now = Instant::now();
            let rescued = self.shared.notices.rescued.swap(false, Relaxed);
            // the last discovery stopped midway, and nothing that it found is due any more
            let goes_on = self.discovery.is_midway() && !self.lanes.have_due(now);
            if rescued || goes_on || self.discovery.is_due(now) {
                return self.look(Why::Due, self.looks_beside());
            }
        }
        self.claim_known()
    }

    fn looks_beside(&self) -> bool {
        !self.discovery.is_cheap() && self.shared.config.store.has_spare_connection()
    }

    fn look(&mut self, why: Why, beside: bool) -> Step {
        self.unseen = false;
        self.phase = Phase::Look(why);
        self.lanes.look_begins();
        let (behind, most) = self.discovery.begin(beside);
        Step::Discover { behind, most, beside }
    }

    /// Discovery has ended, or has begun in the background.
    fn looked(&mut self, why: Why) -> Step {
        let now = Instant::now();
        match why {
            Why::Due if self.discovery.beside => return self.claim_known(),
            Why::Due => {}
            Why::Guessed => {
                self.wants[0].take -= 1;
                self.wants.retain(|want| want.take > 0);
            }
            // a job is due, and yet the claim brought none: it was enqueued meanwhile, or a row that discovery never
            // finds prevents it
            Why::Empty if self.missed && self.lanes.have_due(now) => {
                if std::mem::replace(&mut self.missed_before, true) {
                    self.not_alone_until = Some(now + REST);
                }
            }
            Why::Empty => {}
        }
        self.claim(true, usize::from(matches!(why, Why::Guessed)))
    }

    fn claim_known(&mut self) -> Step {
        let may_be_news = matches!(self.after, After::News | After::Poll);
        if may_be_news && (!self.discovery.is_cheap() || self.discovery.is_midway()) {
            self.lanes.woken(Instant::now());
        }
        if self.missed { self.known_gave(0) } else { self.claim(false, 0) }
    }

    /// If the known lanes gave nothing, discovery runs if it is cheap, or if an idle worker has rested long enough.
    fn known_gave(&mut self, claimed: usize) -> Step {
        let cheap = self.discovery.is_cheap();
        let may_be_more = self.after != After::Claim || (self.unseen && cheap);
        let rested = || self.shared.work.slots.is_idle() && self.discovery.has_rested();
        if claimed > 0 || self.discovery.beside || !may_be_more || !(cheap || rested()) {
            return self.done(claimed);
        }
        self.look(Why::Empty, self.looks_beside())
    }

    fn claim(&mut self, last: bool, had: usize) -> Step {
        self.claim_in_turn(Claim { wants: self.wants.clone(), last, had, ..Claim::default() })
    }

    /// Claims under the claim lock, if all slots want many jobs. Then each worker takes what the one before it left.
    /// Concurrent claims would walk over each other's rows.
    fn claim_in_turn(&mut self, claim: Claim) -> Step {
        // a queue that wants few jobs does not wait for one that wants many
        let many = self.full && claim.wants.iter().all(|want| want.take >= MANY);
        if many && self.lock.waits() && self.shared.lease.others() > 0 {
            self.phase = Phase::Claim(claim);
            return Step::Lock;
        }
        self.plan(claim)
    }

    /// Plans for the next slots, or claims what is planned.
    fn plan(&mut self, claim: Claim) -> Step {
        let asked: usize = claim.nexts.iter().map(|next| next.asks.len()).sum();
        match claim.wants.get(claim.nexts.len()) {
            Some(want) if asked + COMPARED <= MOST_ASKS => {
                let follows = self.full && self.shared.lease.others() == 0;
                let mut plan = Plan::new(want.slots, want.take, follows, Instant::now());
                let planned = self.known(want.slots, |known| plan.begin(known));
                self.planned(Claim { plan: Some(plan), ..claim }, planned)
            }
            // the other queues come first in a later round
            _ => self.take(claim),
        }
    }

    fn known<R>(&mut self, slots: usize, plan: impl FnOnce(&mut Known<'_>) -> R) -> R {
        let retries = |lane: &Lane| self.shared.retries(slots, lane);
        plan(&mut Known { lanes: &mut self.lanes, planner: &mut self.planner, retries: &retries })
    }

    fn previewed(&mut self, mut claim: Claim, asks: Vec<Ask>, reach: Reach, shares: &[Share]) -> Step {
        let mut plan = claim.plan.take().expect("a plan asked for the preview");
        let planned = self.known(plan.slots, |known| plan.after(known, asks, reach, shares));
        self.planned(Claim { plan: Some(plan), ..claim }, planned)
    }

    fn planned(&mut self, mut claim: Claim, planned: Planned) -> Step {
        match planned {
            Planned::Preview(asks, reach) => {
                self.phase = Phase::Claim(claim);
                Step::Preview(asks, reach)
            }
            Planned::Claim(next) => {
                claim.nexts.push(next);
                self.plan(Claim { plan: None, ..claim })
            }
        }
    }

    fn take(&mut self, mut claim: Claim) -> Step {
        let asks: Vec<Ask> = claim.nexts.iter_mut().flat_map(|next| next.asks.drain(..)).collect();
        self.full = false;
        if asks.is_empty() {
            return self.claimed(claim, 0);
        }
        let alone = claim.alone;
        self.phase = Phase::Claim(claim);
        Step::Claim { asks, alone }
    }

    /// A claim has taken so many jobs. If there were none, the queues that were left out come next.
    fn claimed(&mut self, mut claim: Claim, count: usize) -> Step {
        if let Some((waited, began)) = claim.locked.take()
            // the last claim of a backlog is so short that any wait would seem too long
            && count >= MANY as usize
        {
            self.lock.turn_came(waited, began.elapsed());
        }
        if count == 0 && claim.in_vain.len() + claim.wants.len() < self.shared.work.slots.count() {
            for Want { slots, .. } in claim.wants.drain(..) {
                self.shared.work.slots.has_none(slots);
                claim.in_vain.push(slots);
            }
            claim.wants = self.wants_of(|slots| !claim.in_vain.contains(&slots));
            if !claim.wants.is_empty() {
                claim.nexts.clear();
                return self.claim_in_turn(claim);
            }
        }
        if claim.last { self.done(claim.had + count) } else { self.known_gave(count) }
    }

    fn learn(&mut self, nexts: &[Next], wanted: u32, asks: &[Ask], jobs: &[Claimed], began: Instant) {
        let shared = &self.shared;
        if jobs.len() >= self.at_most as usize {
            self.at_most = self.at_most.saturating_mul(2);
        }
        self.lanes.claimed(asks, jobs, began);
        for next in nexts {
            let mine = jobs.iter().filter(|job| shared.work.slots.of(&job.lane.queue) == Some(next.slots));
            let newest_first = |job: &Claimed| shared.config.newest_first.contains(&*job.lane.queue);
            self.planner.learn(next, mine.map(|job| (job, newest_first(job))));
        }
        if let Some(job) = jobs.last() {
            self.recent = Some(job.lane.clone());
        }
        self.full = jobs.len() >= wanted as usize || (!jobs.is_empty() && nexts.iter().any(|next| next.cut));
    }

    fn done(&mut self, claimed: usize) -> Step {
        if claimed > 0 && self.after != After::Claim {
            self.one_came = claimed == 1;
        }
        Step::Done(claimed)
    }
}

/// How long a worker skips the lock after it came too late or not at all. Its holder is slow, stopped, or gone without
/// the server knowing. The time doubles with each failure, up to `LONGEST`.
pub(super) const WITHOUT: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);

/// Waiting is not worth it if it takes this many times as long as our own claim.
const WORTH: u32 = 30;

/// Whether to wait for the claim lock at present.
#[derive(Debug, Default)]
pub(super) struct LockBackoff {
    /// Until when the lock is skipped, and how long that is in total.
    without: Option<(Instant, Duration)>,
}

impl LockBackoff {
    pub(super) fn waits(&self) -> bool {
        self.without.is_none_or(|(until, _)| Instant::now() >= until)
    }

    /// The lock came after `waited`, and the claim under it took `took`.
    pub(super) fn turn_came(&mut self, waited: Duration, took: Duration) {
        if waited > took * WORTH {
            self.lose();
        } else {
            self.without = None;
        }
    }

    /// The lock did not come, or came too late.
    pub(super) fn lose(&mut self) {
        let pause = self.without.map_or(WITHOUT, |(_, last)| (last * 2).min(LONGEST));
        // jitter, so that workers do not try again at the same time
        let until = Instant::now() + pause.mul_f64(0.75 + fastrand::f64() / 2.0);
        self.without = Some((until, pause));
    }
}

#[cfg(test)]
#[path = "brain_tests.rs"]
mod tests;
