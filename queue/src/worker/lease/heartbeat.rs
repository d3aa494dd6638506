//! Keeping the lease: one small statement per beat for everything that the worker holds.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at};

use crate::error::Error;
use crate::store::{Holding, WorkerId};
use crate::telemetry;
use crate::worker::duties::rescue;
use crate::worker::duties::retention::Retention;
use crate::worker::lease::health::Failures;
use crate::worker::lease::liveness::{Gone, Pace, Witness, gone};
use crate::worker::run::attempt::{Attempt, Ended, Stop, until};
use crate::worker::{run::STUCK, shared::Shared};

/// Every so many beats rescue is done without being asked for: it also finds jobs whose worker is not known at all.
const RESCUE_EVERY: u32 = 48;
/// After a worker was declared gone while its lease ran: what the server was still doing for it is over by then, and may have
/// taken jobs.
const AFTERMATH: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(9)];
/// Who was idle and has had work for so long beats before it would: most jobs are over by then, and their starts and ends come
/// first.
const AT_WORK: Duration = Duration::from_millis(50);
/// The pause after a heartbeat that another writer kept waiting. It is short, so that the next one is first when the
/// file is free.
const KEPT_WAITING: Duration = Duration::from_millis(50);
/// A lease that ran out is looked at this much later, by then for sure.
const LATER: Duration = Duration::from_millis(50);

/// Beats until the run is over. `deadline`: when the lease that was taken at the start must be taken for lost.
pub(crate) async fn run(shared: Arc<Shared>, mut deadline: Instant) {
    let timing = shared.config.timing;
    let mut failures = Failures::default();
    let mut ticks = interval(timing.heartbeat);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut beats: u32 = 0;
    let mut tries: u32 = 0;
    let mut pace = Pace::new(timing.heartbeat);
    let mut witness = Witness::default();
    // another writer has held the file since the last heartbeat, so nobody could have taken over
    let mut is_safe = false;
    let mut has_session = false;
    let mut soon = None;
    // who declared a worker gone may have been killed before it took the jobs back: no lease is left that would tell
    shared.rescue.notify_one();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            // who has lost a session must be heard of before it is missed
            () = shared.health.doubt.notified(), if has_session => {}
            // who is killed now is missed when the next heartbeat is due that it has promised
            () = shared.at_work.notified(), if has_session && soon.is_none() && pace.is_slow() => {
                soon = Some(Instant::now() + AT_WORK);
                continue;
            }
            () = until(soon), if soon.is_some() => {
                soon = None;
                if shared.is_idle() || !pace.is_slow() {
                    continue;
                }
            }
        }
        let id = shared.id();
        if id == 0 {
            deadline = rejoin(&shared, &mut failures).await;
            // others may have been lost in the same outage
            ticks.reset_immediately();
            continue;
        }
        let sent = Instant::now();
        let busy = !shared.is_idle();
        let settled = shared.ledger.settled(id);
        let check = tries.is_multiple_of(RESCUE_EVERY);
        tries = tries.wrapping_add(1);
        let running: Vec<i64> = shared.held().keys().map(|(id, _)| *id).collect();
        let holding = Holding { any: busy, running: &running, settled: &settled, check, again_in: pace.promise(busy) };
        let answer = beat(&shared, id, holding, deadline, is_safe).await;
        is_safe = false;
        if !matches!(answer, Some(Ok(_))) || sent.elapsed() > timing.lease / 3 {
            witness.forget();
        }
        match answer {
            Some(Ok(beat)) => {
                shared.health.up(&mut failures);
                if !beat.alive {
                    shared.drop_everything();
                    // whoever declared us gone may be gone too, or a claim of ours may have come after it
                    shared.rescue.notify_one();
                    ticks.reset_immediately();
                    continue;
                }
                deadline = shared.lease_from(sent);
                for key in &beat.cancelled {
                    if let Some(held) = shared.held().get(&(key.0.get(), key.1)) {
                        held.switch.stop(Stop::Cancelled);
                    }
                }
                beats = beats.wrapping_add(1);
                shared.ledger.told(id, settled.len(), beat.session);
                shared.others.store(!beat.leases.is_empty(), Ordering::Relaxed);
                if beats.is_multiple_of(RESCUE_EVERY) {
                    shared.rescue.notify_one();
                }
                has_session = beat.session != 0;
                let (mut missed, again) = witness.judge(&beat.leases, Instant::now());
                missed.extend(gone(&beat.others));
                shared.declare(missed);
                let pause = pace.pause(busy, &beat);
                // a worker that beats has longer than a heartbeat: another one may be gone, which is known right then
                ticks.reset_after(again.map_or(pause, |again| pause.min(again + LATER)));
                if shared.config.store.has_one_writer() && sent.elapsed() > timing.lease / 6 {
                    // it was kept waiting, so the lease is longer than the worker knows: another beat tells how long
                    is_safe = true;
                    ticks.reset_immediately();
                }
                if beat.work {
                    shared.wake.notify_one();
                }
            }
            Some(Err(error)) if shared.config.store.is_kept_waiting(&error) => {
                shared.health.failed(&mut failures, &error);
                is_safe = true;
                sleep(KEPT_WAITING).await;
                ticks.reset_immediately();
            }
            Some(Err(error)) => {
                // the pause ends with the lease
                let _ = timeout_at(deadline, shared.health.down(&mut failures, &error)).await;
                ticks.reset_immediately();
            }
            None => {
                // the lease may have run out by now: whoever has our jobs must not find us still running them
                shared.drop_everything();
                leave(&shared, id, &mut failures).await;
                ticks.reset_immediately();
            }
        }
        give_back_surplus(&shared);
        leave_stuck_behind(&shared);
    }
}

/// One heartbeat. None: the lease must be taken for lost before an answer came. Where only one connection writes at a time,
/// it is not lost while another writer keeps this heartbeat waiting: nobody else can write either. `is_safe` says that
/// this has been so since the last answer. If not, the process may have stood still beyond its lease.
async fn beat(
    shared: &Shared,
    id: WorkerId,
    holding: Holding<'_>,
    deadline: Instant,
    is_safe: bool,
) -> Option<Result<crate::store::Beat, Error>> {
    let store = &shared.config.store;
    let lease = shared.config.timing.lease;
    let look_for: &[String] = if shared.is_quiet() { &shared.scope.kinds } else { &[] };
    let may_wait = store.has_one_writer() && (is_safe || Instant::now() < deadline);
    tokio::select! {
        biased;
        answer = store.beat(id, lease, holding, look_for) => match answer {
            Err(error) if Instant::now() >= deadline && !(may_wait && store.is_kept_waiting(&error)) => None,
            answer => Some(answer),
        },
        () = tokio::time::sleep_until(deadline), if !may_wait => None,
    }
}

/// Gives a lost number up as soon as the database answers, so that what it still holds is taken back. Not for longer than a lease:
/// then it has run out, even if a beat extended it whose answer did not come. Before one joins again, because it gives back all
/// connections that the worker keeps.
async fn leave(shared: &Shared, lost: WorkerId, failures: &mut Failures) {
    let left = timeout(shared.config.timing.lease, async {
        while let Err(error) = shared.config.store.leave(lost).await {
            shared.health.down(failures, &error).await;
        }
    });
    let _ = left.await;
    // once it is given up, no lease runs out that anybody would notice: it is ours to take back
    shared.rescue.notify_one();
}

/// Joins under a new number. Returns until when the lease holds.
async fn rejoin(shared: &Shared, failures: &mut Failures) -> Instant {
    loop {
        let sent = Instant::now();
        match shared.config.store.join(&shared.card, shared.config.timing.lease).await {
            Ok(id) => {
                shared.health.up(failures);
                tracing::info!(event = telemetry::WORKER_JOINED, worker = id, "working again under a new number");
                let deadline = shared.lease_from(sent);
                shared.set_id(id);
                shared.room.notify_one();
                return deadline;
            }
            Err(error) => shared.health.down(failures, &error).await,
        }
    }
}

/// Takes back what workers left that are gone, when a beat says so, until the run is over. A task of its own: nothing slow
/// may keep the next beat.
pub(crate) async fn run_rescue(shared: Arc<Shared>) {
    let mut failures = Failures::default();
    loop {
        shared.rescue.notified().await;
        loop {
            // again after an error: meanwhile more may be gone
            declare_gone(&shared).await;
            let (rescued, result) = rescue::run_once(&*shared.config.store).await;
            if rescued.ready > 0 {
                // they may be far behind the cursors
                shared.look.store(true, Ordering::Relaxed);
                shared.wake.notify_one();
            }
            match result {
                Ok(()) => {
                    shared.health.up(&mut failures);
                    break;
                }
                Err(error) => shared.health.down(&mut failures, &error).await,
            }
        }
    }
}

impl Shared {
    /// Leaves it to the rescue to declare these gone.
    fn declare(&self, gone: Vec<Gone>) {
        if !gone.is_empty() {
            *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = gone;
            self.rescue.notify_one();
        }
    }
}

/// Declares workers gone whose session was missed. When the database does not answer, their lease will tell.
async fn declare_gone(shared: &Arc<Shared>) {
    let missed = std::mem::take(&mut *shared.gone.lock().unwrap_or_else(PoisonError::into_inner));
    if !missed.is_empty() {
        tokio::spawn(look_again(shared.clone()));
    }
    for Gone { id, heartbeat, late, by_lease } in missed {
        let how = if by_lease { "a worker's lease ran out" } else { "a worker's session ended without a word" };
        match shared.config.store.declare_gone(id, heartbeat, by_lease).await {
            Ok(true) => tracing::warn!(
                event = telemetry::WORKER_GONE,
                worker = id,
                late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX),
                "{how}; its jobs are taken back"
            ),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, worker = id, "not declared gone; its lease will tell"),
        }
    }
}

/// Rescues again a while later.
async fn look_again(shared: Arc<Shared>) {
    for pause in AFTERMATH {
        tokio::select! {
            () = sleep(pause) => shared.rescue.notify_one(),
            () = shared.over.cancelled() => return,
        }
    }
}

/// Jobs that were claimed ahead of slots that have become slow go back to whoever is free.
fn give_back_surplus(shared: &Shared) {
    for slots in &shared.slots {
        for (job, worker) in slots.surplus() {
            shared.recorder.record(worker, Ended::unstarted(&job));
        }
    }
}

/// Attempts that should have been dropped long ago block their thread: their slot is given to another.
fn leave_stuck_behind(shared: &Arc<Shared>) {
    let grace = shared.config.timing.cancel_grace + STUCK;
    let stuck: Vec<_> = {
        let held = shared.held();
        let past = |held: &&Arc<crate::worker::run::Held>| {
            held.definition.timeout.is_some_and(|timeout| held.ran() > timeout.saturating_add(grace))
        };
        held.values().filter(past).cloned().collect()
    };
    for held in stuck {
        held.switch.stop(Stop::Timeout);
        let ended = Attempt::timed_out(&held.job, &held.definition, held.ran());
        shared.leave_behind(&held, ended);
    }
}

/// Removes what is past its retention, until the run is over.
pub(crate) async fn run_retention(shared: Arc<Shared>) {
    let mut retention = Retention::new(shared.config.timing.retention);
    loop {
        sleep(retention.pause()).await;
        if let Err(error) = retention.run_once(&*shared.config.store).await {
            tracing::warn!(event = telemetry::RETENTION_FAILED, %error, "retention failed; the next round goes on");
        }
    }
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;
