//! A slot: takes a waiting job, and carries it from step to step until its end is handed over.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, poll};
use tokio::sync::{MutexGuard, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use crate::error::Error;
use crate::limits::{MAX_ARGS_BYTES, micros};
use crate::store::values::{Claimed, End, Start, WorkerId};
use crate::telemetry::Event;
use crate::worker::notices::until;
use crate::worker::run::attempt::{Attempt, AttemptRow, Ended, LongArgs};
use crate::worker::run::isolation::{Admission, is_suspect};
use crate::worker::run::{Held, StartRequest};
use crate::worker::shared::Shared;

/// How long an attempt may be overdue and still block its thread before it is left behind. Also the pause before a
/// start is recorded again that could not be.
pub(crate) const STUCK: Duration = Duration::from_secs(1);

/// How soon the first start after a pause is recorded.
const SOON: Duration = Duration::from_millis(1);
/// How often starts are recorded while there are many. Jobs that have ended by then need no record.
const OFTEN: Duration = Duration::from_millis(50);
/// The most starts in one statement.
const BATCH: usize = 1000;

/// A job does not begin here. It is given back, and due again after this time. None: due as before.
struct Away(Option<Duration>);

/// Held until an attempt has begun, if others wait for that.
type Turn<'a> = Option<MutexGuard<'a, ()>>;

impl Shared {
    /// Starts slots for the waiting jobs. Each slot runs jobs until none waits.
    pub(crate) fn start_slots(self: &Arc<Self>) {
        for slots in self.work.slots.start() {
            let shared = self.clone();
            self.work.tasks.spawn(async move {
                tokio::select! {
                    biased;
                    () = shared.over.cancelled() => {}
                    () = shared.work(slots) => {}
                }
            });
        }
    }

    async fn work(self: &Arc<Self>, slots: usize) {
        let mut took = None;
        loop {
            let (next, low) = self.work.slots.next(slots, took.take());
            if low {
                self.notices.room.notify_one();
            }
            let Some((job, worker)) = next else {
                if self.work.slots.count() > 1 {
                    // another queue may use what this slot leaves free
                    self.start_slots();
                }
                self.notices.progress.notify_waiters();
                return;
            };
            let Some(held) = self.take_in_hand(job, worker, slots) else { continue };
            let ended = self.execute(&held).await;
            drop(held.place().take());
            let mine = self.work.held().remove(&held.hold().key()).is_some();
            if !mine {
                // left behind: the end was recorded, and the slot replaced
                return;
            }
            took = held.attempt.began().map(|began| began.elapsed());
            if let Some(ended) = ended {
                if ended.is_misfit() {
                    self.notices.set_misfit(&held.attempt.job.lane.kind);
                }
                self.recorder.record(worker, held.tally.get().copied(), ended);
            }
            tokio::task::coop::consume_budget().await;
        }
    }

    /// From here on, the attempt is told to stop if the lease is lost. None: the job is given back.
    fn take_in_hand(&self, job: Claimed, worker: WorkerId, slots: usize) -> Option<Arc<Held>> {
        let hold = job.hold();
        let Some(definition) = self.config.jobs.get(&*job.lane.kind).cloned() else {
            // the scope holds only known kinds: this row's kind changed during the claim
            self.recorder.record(worker, None, End::unstarted(hold));
            return None;
        };
        let attempt = Attempt::new(self.config.env.clone(), job, definition, AttemptRow::Of(worker));
        let held = Arc::new(Held::new(attempt, worker, slots));
        self.work.held().insert(hold.key(), held.clone());
        Some(held)
    }

    /// Carries a job from its claim to its end. None: there is nothing to record.
    async fn execute(&self, held: &Held) -> Option<Ended> {
        let prepared = async {
            self.enter(held).await?;
            let long_args = self.load(held).await?;
            let turn = self.note_start(held).await?;
            Ok((long_args, turn))
        };
        match prepared.await {
            Ok((long_args, turn)) => self.run(held, long_args, turn).await,
            Err(Away(delay)) => Some(End::put_off(held.hold(), delay.map(micros)).into()),
        }
    }

    /// Waits until the others let the job begin. Nearly every job may begin at once. The rare waits are boxed, so that
    /// they do not enlarge this future.
    async fn enter(&self, held: &Held) -> Result<(), Away> {
        let isolation = &self.work.isolation;
        let suspect = is_suspect(held.attempt.job.losses);
        let at_once = if suspect { None } else { isolation.enter_at_once() };
        let place = match at_once {
            Some(place) => place,
            None => {
                let enter = Box::pin(async {
                    match suspect {
                        true => isolation.enter_suspect().await.map_err(|delay| Away(Some(delay))),
                        false => isolation.enter().await.ok_or(Away(None)),
                    }
                });
                tokio::select! {
                    biased;
                    place = enter => place?,
                    () = held.attempt.switch.token.cancelled() => return Err(Away(None)),
                    () = self.stop_claiming.cancelled() => return Err(Away(None)),
                }
            }
        };
        *held.place() = Some(place);
        // the lease is lost, or must be assumed lost, so this job is not ours to start
        let is_ours = held.worker == self.lease.id() && self.lease.holds();
        if is_ours { Ok(()) } else { Err(Away(None)) }
    }

    /// Fetches arguments that were too long to come with the claim.
    async fn load(&self, held: &Held) -> Result<Option<LongArgs>, Away> {
        let job = &held.attempt.job;
        if !matches!(job.args, Err(bytes) if usize::try_from(bytes).is_ok_and(|bytes| bytes <= MAX_ARGS_BYTES)) {
            return Ok(None);
        }
        let fetched = Box::pin(async {
            let turn = self.work.long_args.clone().acquire_owned().await.ok()?;
            let json = self.config.store.args(held.worker, job.id.get(), job.fence).await.ok()??;
            Some(LongArgs { json, _turn: Some(turn) })
        });
        tokio::select! {
            args = fetched => args.map(Some).ok_or(Away(None)),
            () = held.attempt.switch.token.cancelled() => Err(Away(None)),
        }
    }

    /// Records the start before the attempt begins, if it must be known for certain.
    async fn note_start(&self, held: &Held) -> Result<Turn<'_>, Away> {
        let job = &held.attempt.job;
        if job.losses == 0 && job.attempt < job.max_retries {
            return Ok(None);
        }
        let alone = held.place().as_ref().is_some_and(Admission::is_alone);
        let start = Start { hold: job.hold(), max_neighbours: alone.then_some(0) };
        let noted = Box::pin(async {
            let turn = if job.losses > 0 { Some(self.starts.one_by_one.lock().await) } else { None };
            (self.starts.note(held.worker, start).await == Some(true)).then_some(turn)
        });
        let turn = tokio::select! {
            biased;
            () = held.attempt.switch.token.cancelled() => None,
            turn = noted => turn,
        };
        // none: the job is not ours any more, or the database failed
        let turn = turn.ok_or(Away(None))?;
        held.noted.store(true, Ordering::Relaxed);
        if is_suspect(job.losses) {
            self.tell(Event::JobSuspected { job, alone });
        }
        Ok(turn)
    }

    /// Decodes, calls and judges; see [`Attempt::run`].
    async fn run(&self, held: &Held, long_args: Option<LongArgs>, turn: Turn<'_>) -> Option<Ended> {
        held.attempt.begin();
        let Attempt { job, definition, .. } = &*held.attempt;
        let waited = self.clock.since(job.run_at);
        let _ = held.tally.set(self.recorder.tallies.started(&job.lane, waited));
        if self.config.env.observers.any() {
            let promise = self.config.start_within.get(&*job.lane.queue).copied().or(definition.start_within);
            self.tell(Event::JobStarted { job, waited, promise });
        }
        let since_enqueue = self.clock.since(held.attempt.job.enqueued_at.timestamp_micros());
        if !held.noted.load(Ordering::Relaxed) {
            self.starts.begun.notify_one();
        }
        let mut run = pin!(AssertUnwindSafe(held.attempt.clone().run(long_args, since_enqueue)).catch_unwind());
        let ended = match poll!(run.as_mut()) {
            Poll::Ready(ended) => ended,
            Poll::Pending => {
                // the handler has begun: now the next one may
                drop(turn);
                let until = held.place().as_ref().and_then(|place| place.at_doors_until);
                match until {
                    None => run.await,
                    Some(until) => tokio::select! {
                        biased;
                        ended = &mut run => ended,
                        () = Box::pin(self.open_at(held, until)) => run.await,
                    },
                }
            }
        };
        ended.unwrap_or_else(|panic| Some(held.attempt.panicked(&*panic).into()))
    }

    /// Lets others begin beside a suspect that has run for long enough.
    async fn open_at(&self, held: &Held, until: Instant) {
        sleep_until(until).await;
        let is_alone = held.place().as_ref().is_some_and(Admission::is_alone);
        let start = Start { hold: held.hold(), max_neighbours: None };
        // the database must know of the neighbours before they run
        while is_alone && self.starts.note(held.worker, start).await.is_none() {
            sleep(STUCK).await;
        }
        if let Some(place) = &mut *held.place() {
            place.open();
        }
    }

    /// Abandons an attempt that does not leave its slot, and lets another slot take its place.
    pub(crate) fn leave_behind(self: &Arc<Self>, held: &Held, end: End) {
        if self.work.held().remove(&held.hold().key()).is_none() {
            return;
        }
        drop(held.place().take());
        self.tell(Event::JobLeftBehind { job: &held.attempt.job });
        self.recorder.record(held.worker, held.tally.get().copied(), end);
        self.work.slots.replace(held.slots);
        self.start_slots();
        self.notices.room.notify_one();
        self.notices.progress.notify_waiters();
    }
}

/// Records in the database which attempts have begun. Only these count when the worker is lost with them.
///
/// Nearly every attempt is recorded a moment after it began, if it still runs. So jobs that take microseconds cost no
/// statement, and no job waits. If the worker dies within that moment, nobody knows whether the attempt began. Then it
/// does not count.
///
/// A job that was lost before, or has at most one retry left, is recorded before it begins. So its start is always
/// known.
pub(crate) async fn record_starts(shared: Arc<Shared>, mut receiver: mpsc::UnboundedReceiver<StartRequest>) {
    let mut asked = Vec::new();
    let mut look: Option<Instant> = None;
    let mut looked: Option<Instant> = None;
    loop {
        tokio::select! {
            count = receiver.recv_many(&mut asked, BATCH) => if count == 0 { return },
            () = shared.starts.begun.notified(), if look.is_none() => {
                let now = Instant::now();
                look = Some(looked.map_or(now, |looked| looked + OFTEN).max(now + SOON));
                continue;
            }
            () = until(look), if look.is_some() => {}
        }
        answer(&shared, &mut asked).await;
        if look.is_some_and(|look| look <= Instant::now()) {
            looked = Some(Instant::now());
            look = match note_running(&shared).await {
                Ok(true) => None,
                // most of them will have ended by then
                Ok(false) => Some(Instant::now() + OFTEN),
                Err(error) => {
                    tracing::debug!(%error, "could not record which attempts have begun; trying again");
                    Some(Instant::now() + STUCK)
                }
            };
        }
    }
}

/// Records the starts that wait for it. If that fails, their answers are dropped.
async fn answer(shared: &Shared, asked: &mut Vec<StartRequest>) {
    while let Some(worker) = asked.first().map(|first| first.worker) {
        let batch: Vec<StartRequest> = asked.extract_if(.., |it| it.worker == worker).collect();
        let starts: Vec<Start> = batch.iter().map(|it| it.start).collect();
        match shared.config.store.started(worker, &starts).await {
            Ok(accepted) => {
                for StartRequest { start, answer, .. } in batch {
                    let _ = answer.send(accepted.contains(&start.hold.id));
                }
            }
            Err(error) => tracing::debug!(%error, "could not record which attempts have begun"),
        }
    }
}

/// Records the attempts that have begun without it. False: some have only just begun, and are left out.
async fn note_running(shared: &Shared) -> Result<bool, Error> {
    let (worker, now) = (shared.lease.id(), Instant::now());
    let (mut starts, mut noted, mut all) = (Vec::new(), Vec::new(), true);
    for held in shared.work.held().values() {
        let Some(began) = held.attempt.began() else { continue };
        if held.worker != worker || held.noted.load(Ordering::Relaxed) {
            continue;
        }
        if now.saturating_duration_since(began) < SOON {
            all = false;
            continue;
        }
        // all the others would wait for the handler's transaction
        let Some(row) = held.attempt.switch.may_lock_row() else { continue };
        starts.push(Start { hold: held.hold(), max_neighbours: None });
        noted.push((held.clone(), row));
    }
    if starts.is_empty() || worker == 0 {
        return Ok(all);
    }
    shared.config.store.started(worker, &starts).await?;
    // an attempt that was refused is not ours any more
    noted.iter().for_each(|(held, _)| held.noted.store(true, Ordering::Relaxed));
    Ok(all)
}

#[cfg(test)]
#[path = "slot_tests.rs"]
mod tests;
