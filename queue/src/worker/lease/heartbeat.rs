//! Keeps the lease: one small statement per heartbeat for everything that the worker holds.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep, sleep_until, timeout_at};

use crate::error::Error;
use crate::store::Trouble;
use crate::store::values::{Heartbeat, Holding, WorkerId};
use crate::telemetry::Event;
use crate::worker::lease::health::Failures;
use crate::worker::lease::liveness::{Rhythm, Witness, lost};
use crate::worker::notices::{lock, until};
use crate::worker::run::Held;
use crate::worker::run::ending::Stop;
use crate::worker::{run::slot::STUCK, shared::Shared};

/// After this many heartbeats, rescue runs without being asked for. It also finds jobs whose worker is not known at
/// all. So does the first one: a worker may have been killed after it declared another one lost and before it rescued
/// the jobs, and no lease would tell.
const RESCUE_EVERY: u32 = 48;
/// A worker that was idle sends a heartbeat when it has had work for this long. Most jobs have ended by then, and their
/// starts and ends come first.
const AT_WORK: Duration = Duration::from_millis(50);
/// The pause after a heartbeat that had to wait for another writer. It is short, so that the next one is first when the
/// file is free.
const KEPT_WAITING: Duration = Duration::from_millis(50);
/// Once its lease has run out, a lost number is given up if the database answers within this time.
const LEAVES: Duration = Duration::from_secs(1);
/// A lease is checked this long after its end, so that it has certainly run out.
const LATER: Duration = Duration::from_millis(50);

/// Sends heartbeats until the run is over. `deadline`: when the lease that was taken at the start must be taken for
/// lost.
pub(crate) async fn run(shared: Arc<Shared>, deadline: Instant) {
    let mut heart = Heart::new(shared, deadline);
    loop {
        if !heart.rests().await {
            continue;
        }
        let id = heart.shared.lease.id();
        if id == 0 {
            heart.rejoins().await;
            continue;
        }
        if heart.beats(id).await {
            // they were claimed ahead of slots that have become slow; a free worker can take them
            heart.shared.release(heart.shared.work.slots.surplus());
            leave_stuck_behind(&heart.shared);
        }
    }
}

/// A number whose lease must be assumed lost.
#[derive(Clone, Copy)]
struct Lost {
    id: WorkerId,
    /// For how long the worker had sent no heartbeat.
    silent: Duration,
    /// When its lease has certainly run out, even if a heartbeat without an answer extended it.
    over: Instant,
}

/// What the loop remembers from one heartbeat to the next.
struct Heart {
    shared: Arc<Shared>,
    /// When the lease must be taken for lost.
    deadline: Instant,
    failures: Failures,
    ticks: Interval,
    /// Heartbeats that were answered.
    answered: u32,
    pace: Rhythm,
    witness: Witness,
    /// Another writer has held the file since the last heartbeat, so nobody can have taken over.
    is_safe: bool,
    /// A heartbeat was sent within the lease and not answered.
    tried: bool,
    /// A number that is still to be given up.
    lost: Option<Lost>,
    has_session: bool,
    /// An extra heartbeat is due then.
    soon: Option<Instant>,
}

impl Heart {
    fn new(shared: Arc<Shared>, deadline: Instant) -> Self {
        let heartbeat = shared.config.env.timing.heartbeat;
        let mut ticks = interval(heartbeat);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            shared,
            deadline,
            failures: Failures::default(),
            ticks,
            answered: 0,
            pace: Rhythm::new(heartbeat),
            witness: Witness::default(),
            is_safe: false,
            tried: false,
            lost: None,
            has_session: false,
            soon: None,
        }
    }

    /// Waits. Returns whether a heartbeat is due.
    async fn rests(&mut self) -> bool {
        let Self { shared, ticks, pace, has_session, soon, .. } = self;
        tokio::select! {
            _ = ticks.tick() => true,
            // a worker that has lost its session must send a heartbeat before others miss it
            () = shared.health.doubt.notified(), if *has_session => true,
            // if this worker is killed, the others miss it when its promised heartbeat is overdue: promise an early one
            () = shared.notices.at_work.notified(), if *has_session && soon.is_none() && pace.is_slow() => {
                *soon = Some(Instant::now() + AT_WORK);
                false
            }
            () = until(*soon), if soon.is_some() => {
                *soon = None;
                !shared.work.slots.is_idle() && pace.is_slow()
            }
        }
    }

    /// Sends a heartbeat. Returns false if the worker was declared lost.
    async fn beats(&mut self, id: WorkerId) -> bool {
        let sent = Instant::now();
        let shared = self.shared.clone();
        let busy = !shared.work.slots.is_idle();
        let settled = shared.recorder.claims.settled(id);
        let check = self.answered.is_multiple_of(RESCUE_EVERY);
        let running: Vec<i64> = shared.work.held().keys().map(|(id, _)| *id).collect();
        let again_in = self.pace.promise(busy);
        self.tried |= sent < self.deadline;
        let holding = Holding { any: busy, running: &running, settled: &settled, check, again_in };
        let answer = self.send(id, holding).await;
        if !matches!(answer, Some(Ok(_))) || sent.elapsed() > shared.config.env.timing.lease / 3 {
            self.witness.forget();
        }
        match answer {
            Some(Ok(beat)) if !beat.alive => {
                shared.health.up(&mut self.failures);
                drop_everything(&shared, "declared");
                // the worker that declared us lost may be lost too, or a claim of ours may have come after that
                shared.notices.rescue.notify_one();
                self.ticks.reset_immediately();
                return false;
            }
            Some(Ok(beat)) => {
                shared.health.up(&mut self.failures);
                shared.recorder.claims.told(id, settled.len(), beat.session);
                self.lives(sent, busy, &beat);
            }
            Some(Err(error)) if shared.config.store.trouble(&error) == Trouble::KeptWaiting => {
                shared.health.failed(&mut self.failures, &error);
                self.is_safe = true;
                sleep(KEPT_WAITING).await;
                self.ticks.reset_immediately();
            }
            Some(Err(error)) => {
                // the pause must not outlast the lease
                let _ = timeout_at(self.deadline, shared.health.down(&mut self.failures, &error)).await;
                self.ticks.reset_immediately();
            }
            None => {
                // the lease may have run out: another worker that has our jobs must not find us still running them
                drop_everything(&shared, "unanswered");
                // a worker that did not even try was suspended, or one of its jobs blocked it
                let silent = if self.tried { Duration::ZERO } else { shared.config.env.timing.lease };
                self.lost = Some(Lost { id, silent, over: Instant::now() + shared.config.env.timing.lease });
                self.ticks.reset_immediately();
            }
        }
        true
    }

    /// One heartbeat. None: no answer came before the lease must be assumed lost. Where heartbeats may wait for another
    /// writer, the lease is not lost meanwhile. If that has not been so since the last answer (`is_safe`), the process
    /// may have been suspended beyond its lease.
    async fn send(&mut self, id: WorkerId, holding: Holding<'_>) -> Option<Result<Heartbeat, Error>> {
        let (shared, store, deadline) = (&self.shared, &self.shared.config.store, self.deadline);
        let look_for: &[String] = if shared.notices.quiet.load(Relaxed) { &shared.scope.kinds } else { &[] };
        let is_safe = std::mem::take(&mut self.is_safe) || Instant::now() < deadline;
        let may_wait = store.capabilities().heartbeats_wait && is_safe;
        tokio::select! {
            biased;
            answer = store.heartbeat(id, shared.config.env.timing.lease, holding, look_for) => match answer {
                Err(error) if Instant::now() >= deadline
                    && !(may_wait && store.trouble(&error) == Trouble::KeptWaiting) => None,
                answer => Some(answer),
            },
            () = sleep_until(deadline), if !may_wait => None,
        }
    }

    /// Gives up the lost number and joins under a new one.
    async fn rejoins(&mut self) {
        let shared = self.shared.clone();
        loop {
            if let Some(Lost { id, silent, over }) = self.lost {
                // before it joins, because this releases all connections that the worker keeps
                let left = shared.config.store.leave(id, silent);
                match timeout_at(over.max(Instant::now() + LEAVES), left).await {
                    Ok(Ok(())) => {
                        self.lost = None;
                        // a number that was given up has no lease that runs out, so nobody else would notice its jobs
                        shared.notices.rescue.notify_one();
                    }
                    Ok(Err(error)) if Instant::now() < over => {
                        shared.health.down(&mut self.failures, &error).await;
                        continue;
                    }
                    // the jobs are rescued anyway
                    _ => {}
                }
            }
            let sent = Instant::now();
            match shared.config.store.join(&shared.lease.card, shared.config.env.timing.lease).await {
                Ok(id) => {
                    shared.health.up(&mut self.failures);
                    self.shared.tell(Event::WorkerJoined { worker: id });
                    self.deadline = shared.lease.extend(sent);
                    self.lost = None;
                    self.tried = false;
                    // others may have been in the same outage: they may still live
                    self.witness.forget();
                    shared.lease.set_id(id);
                    shared.notices.room.notify_one();
                    // or they may have been lost in it
                    self.ticks.reset_immediately();
                    return;
                }
                Err(error) => shared.health.down(&mut self.failures, &error).await,
            }
        }
    }

    /// The lease was extended, by a heartbeat that was sent at that time.
    fn lives(&mut self, sent: Instant, busy: bool, beat: &Heartbeat) {
        let shared = &self.shared;
        self.deadline = shared.lease.extend(sent);
        self.tried = false;
        for key in &beat.cancelled {
            if let Some(held) = shared.work.held().get(&(key.0.get(), key.1)) {
                held.attempt.switch.stop(Stop::Cancelled);
            }
        }
        shared.lease.set_others(beat.leases.len());
        if self.answered.is_multiple_of(RESCUE_EVERY) {
            shared.notices.rescue.notify_one();
        }
        self.answered = self.answered.wrapping_add(1);
        self.has_session = beat.session != 0;
        let (mut missed, again) = self.witness.judge(&beat.leases, Instant::now());
        missed.extend(lost(&beat.others));
        if !missed.is_empty() {
            *lock(&shared.notices.lost) = missed;
            shared.notices.rescue.notify_one();
        }
        let pause = self.pace.pause(busy, beat);
        // a living worker's lease lasts for longer than a heartbeat; if another one ends sooner, check right then
        self.ticks.reset_after(again.map_or(pause, |again| pause.min(again + LATER)));
        if shared.config.store.capabilities().heartbeats_wait && sent.elapsed() > shared.config.env.timing.lease / 6 {
            // it had to wait, so the lease lasts longer than the worker knows: another heartbeat tells how long
            self.is_safe = true;
            self.ticks.reset_immediately();
        }
        if beat.work {
            shared.notices.enqueued.notify_one();
        }
    }
}

/// Stops all jobs. The lease is lost, or must be assumed lost, so other workers may have them.
fn drop_everything(shared: &Shared, reason: &'static str) {
    let worker = shared.lease.set_id(0);
    let waiting = shared.work.slots.clear().len();
    let running = shared.work.stop_all(Stop::LeaseLost);
    shared.config.store.abandon();
    shared.tell(Event::WorkerLeaseLost { worker, reason, running, waiting });
}

/// Leaves behind attempts that should have been dropped long ago and still block their thread. Other slots replace
/// theirs.
fn leave_stuck_behind(shared: &Arc<Shared>) {
    let grace = shared.config.env.timing.cancel_grace + STUCK;
    let stuck: Vec<_> = {
        let held = shared.work.held();
        let past = |held: &&Arc<Held>| {
            let attempt = &held.attempt;
            attempt.definition.timeout.is_some_and(|timeout| attempt.ran() > timeout.saturating_add(grace))
        };
        held.values().filter(past).cloned().collect()
    };
    for held in stuck {
        held.attempt.switch.stop(Stop::Timeout);
        shared.leave_behind(&held, held.attempt.timed_out());
    }
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;
