//! Running jobs: the slots, and what an attempt passes through from the claim to its end.

pub(crate) mod attempt;
pub(crate) mod isolation;
pub(crate) mod slots;
pub(crate) mod starts;

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::limits::MAX_ARGS_BYTES;
use crate::registry::JobDefinition;
use crate::store::{Claimed, Start, WorkerId};
use crate::telemetry;
use crate::worker::shared::Shared;
use attempt::{Attempt, Ended, LongArgs, Switch};
use isolation::Place;

/// For how many attempts long arguments are read and decoded at once.
pub(crate) const LONG_ARGS_AT_ONCE: usize = 4;

/// How often one looks whether an attempt past its end still blocks its thread.
pub(crate) const STUCK: Duration = Duration::from_secs(1);

/// A job in hand: its attempt runs, or is about to.
pub(crate) struct Held {
    pub(crate) job: Arc<Claimed>,
    pub(crate) worker: WorkerId,
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) switch: Arc<Switch>,
    /// Index into [`Shared::slots`].
    pub(crate) slots: usize,
    /// Empty while it waits for its turn to begin.
    pub(crate) started: OnceLock<Instant>,
    /// The database knows that it has begun.
    pub(crate) noted: AtomicBool,
    place: Mutex<Option<Place>>,
}

impl Held {
    fn new(job: Arc<Claimed>, worker: WorkerId, definition: Arc<JobDefinition>, slots: usize) -> Self {
        let (started, noted, place) = (OnceLock::new(), AtomicBool::new(false), Mutex::default());
        Self { job, worker, definition, switch: Arc::default(), slots, started, noted, place }
    }

    pub(crate) fn key(&self) -> (i64, i32) {
        (self.job.id.get(), self.job.fence)
    }

    fn begin(&self) -> Instant {
        *self.started.get_or_init(Instant::now)
    }

    /// For how long it has run.
    pub(crate) fn ran(&self) -> Duration {
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_place(&self, place: Place) {
        *self.place() = Some(place);
    }

    fn leave_company(&self) {
        drop(self.place().take());
    }
}

/// An attempt that may begin.
#[derive(Default)]
struct Admitted<'a> {
    /// How many others may run beside it; None: any number.
    max_neighbours: Option<u32>,
    /// Held until it has begun, where others wait for that.
    one_by_one: Option<tokio::sync::MutexGuard<'a, ()>>,
    /// The arguments, where they did not come with the claim.
    long_args: Option<LongArgs>,
}

/// Says that a job runs that was lost with its worker more than once.
fn tell_of_losses(job: &Claimed, max_neighbours: Option<u32>) {
    let how = match max_neighbours {
        Some(_) => "it runs beside few others or none until an attempt ends by itself",
        None => "it was to run beside few others or none, but those that run did not end in time",
    };
    tracing::warn!(
        event = telemetry::JOB_SUSPECTED,
        job.id = %job.id,
        job.kind = %job.lane.kind,
        job.queue = %job.lane.queue,
        job.attempt = job.attempt,
        job.losses = job.losses,
        job.max_neighbours = max_neighbours,
        "workers were lost while they ran this job: {how}"
    );
}

impl Shared {
    /// Starts slots for what waits; each runs jobs until none waits.
    pub(crate) fn start_slots(self: &Arc<Self>) {
        // a queue whose turn it was may want nothing any more: only the next pass shows what that leaves for those before it
        let mut passes = 0;
        while passes < 2 {
            passes += 1;
            for (index, slots) in self.slots.iter().enumerate() {
                for _ in 0..slots.start() {
                    passes = 0;
                    self.start_slot(index);
                }
            }
            if self.slots.len() == 1 {
                return;
            }
        }
    }

    fn start_slot(self: &Arc<Self>, slots: usize) {
        let shared = self.clone();
        self.tasks.spawn(async move {
            let over = shared.over.clone();
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                () = shared.work(slots) => {}
            }
        });
    }

    async fn work(self: &Arc<Self>, slots: usize) {
        let mut took = None;
        loop {
            let (next, low) = self.slots[slots].next(took.take());
            if low {
                self.room.notify_one();
            }
            let Some((job, worker)) = next else {
                if self.slots.len() > 1 {
                    // what this slot leaves free may be another queue's
                    self.start_slots();
                }
                self.progress.notify_waiters();
                return;
            };
            let job = Arc::new(job);
            let Some(definition) = self.config.jobs.get(&*job.lane.kind).cloned() else {
                // the scope holds only known kinds, so this is a row that changed its kind under the claim
                self.recorder.record(worker, Ended::unstarted(&job));
                continue;
            };
            let key = (job.id.get(), job.fence);
            let held = Arc::new(Held::new(job.clone(), worker, definition, slots));
            self.held().insert(key, held.clone());
            let Some(first) = self.admit(&held).await else {
                held.leave_company();
                if self.held().remove(&key).is_some() {
                    self.recorder.record(worker, Ended::unstarted(&job));
                }
                continue;
            };
            let ended = self.run_attempt(&held, first).await;
            held.leave_company();
            let mine = self.held().remove(&key).is_some();
            if !mine {
                // left behind: somebody recorded the end and gave the slot away
                return;
            }
            took = Some(held.ran());
            if let Some(ended) = ended {
                self.recorder.record(worker, ended);
            }
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Waits until an attempt may begin, and notes it where that must be known before. None: it may not begin here and
    /// now. Nearly every attempt may begin at once; what the others wait for is boxed, so that those carry none of it.
    async fn admit(&self, held: &Held) -> Option<Admitted<'_>> {
        let job = &held.job;
        let most = isolation::most(job.losses, job.attempt, job.max_retries, self.config.concurrency);
        let place = match self.company.enter_at_once(most) {
            Some(place) => place,
            None => Box::pin(self.enter_company(held, most)).await?,
        };
        let max_neighbours = place.max_neighbours();
        held.take_place(place);
        // in hand first: a lease that is lost from here on finds it there, and tells it to stop
        if held.worker != self.id() || !self.lease_holds() {
            // it is lost, or must be taken for lost: not ours to start
            return None;
        }
        let long_args = match job.args {
            Err(bytes) if usize::try_from(bytes).is_ok_and(|bytes| bytes <= MAX_ARGS_BYTES) => {
                Some(Box::pin(self.fetch_args(held)).await?)
            }
            _ => None,
        };
        let mut admitted = Admitted { long_args, ..Admitted::default() };
        if job.losses > 0 || job.attempt >= job.max_retries {
            admitted.one_by_one = Box::pin(self.note_before(held, max_neighbours)).await?;
            admitted.max_neighbours = max_neighbours;
        }
        if most.is_some() {
            tell_of_losses(job, max_neighbours);
        }
        Some(admitted)
    }

    /// Waits until the others let the job start. None: it does not start here.
    async fn enter_company(&self, held: &Held, most: Option<u32>) -> Option<Place> {
        tokio::select! {
            biased;
            place = self.company.enter(most) => place,
            () = held.switch.token.cancelled() => None,
            () = self.stop_claiming.cancelled() => None,
        }
    }

    /// The arguments that were too long to come with the claim. None: the job is not ours any more, or cannot be read.
    async fn fetch_args(&self, held: &Held) -> Option<LongArgs> {
        let fetched = async {
            let turn = self.long_args.clone().acquire_owned().await.ok()?;
            let args = self.config.store.args(held.worker, held.job.id.get(), held.job.fence).await.ok()??;
            Some(LongArgs::new(args, turn))
        };
        tokio::select! {
            args = fetched => args,
            () = held.switch.token.cancelled() => None,
        }
    }

    /// Notes a start of which it must be known that it began. The guard, if any, is held until it has. None: the job is
    /// not ours any more.
    async fn note_before(
        &self,
        held: &Held,
        max_neighbours: Option<u32>,
    ) -> Option<Option<tokio::sync::MutexGuard<'_, ()>>> {
        let job = &held.job;
        let noted = async {
            let one_by_one = if job.losses > 0 { Some(self.starts.one_by_one().await) } else { None };
            let start = Start { id: job.id.get(), fence: job.fence, max_neighbours };
            (self.starts.note(held.worker, start).await, one_by_one)
        };
        tokio::select! {
            biased;
            () = held.switch.token.cancelled() => None,
            (accepted, one_by_one) = noted => {
                accepted.filter(|accepted| *accepted)?;
                held.noted.store(true, Ordering::Relaxed);
                Some(one_by_one)
            }
        }
    }

    /// Runs an attempt to its end. None: there is nothing to record.
    async fn run_attempt(&self, held: &Held, admitted: Admitted<'_>) -> Option<Ended> {
        let Admitted { max_neighbours, one_by_one, long_args } = admitted;
        let started = held.begin();
        if !held.noted.load(Ordering::Relaxed) {
            self.starts.begun();
        }
        let attempt = Attempt {
            job: held.job.clone(),
            definition: held.definition.clone(),
            states: self.config.states.clone(),
            switch: held.switch.clone(),
            cancel_grace: self.config.timing.cancel_grace,
            started,
            long_args,
        };
        let mut run = pin!(AssertUnwindSafe(attempt.run()).catch_unwind());
        let mut ended = None;
        if one_by_one.is_some() {
            // the handler has begun: now the next one may
            ended = poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await.into();
            drop(one_by_one);
        }
        let ended = match ended {
            Some(Poll::Ready(ended)) => ended,
            _ if max_neighbours.is_some() => {
                let mut open = Box::pin(self.open_later(held));
                tokio::select! {
                    biased;
                    ended = &mut run => ended,
                    never = &mut open => match never {},
                }
            }
            _ => run.await,
        };
        ended.unwrap_or_else(|panic| Some(Attempt::panicked(&held.job, &held.definition, started.elapsed(), &*panic)))
    }

    /// Lets others run beside an attempt that has had the process to itself for long enough.
    async fn open_later(&self, held: &Held) -> Infallible {
        tokio::time::sleep(isolation::SECLUSION).await;
        let start = Start { id: held.job.id.get(), fence: held.job.fence, max_neighbours: None };
        // what it ran beside must be known before anything does
        while self.starts.note(held.worker, start).await.is_none() {
            tokio::time::sleep(STUCK).await;
        }
        if let Some(place) = &mut *held.place() {
            place.open();
        }
        std::future::pending().await
    }

    /// Takes an attempt away from a slot that does not come back, and lets another slot take its place.
    pub(crate) fn leave_behind(self: &Arc<Self>, held: &Held, ended: Ended) {
        if self.held().remove(&held.key()).is_none() {
            return;
        }
        held.leave_company();
        tracing::warn!(
            event = telemetry::JOB_ABANDONED,
            job.id = %held.job.id,
            job.kind = %held.job.lane.kind,
            job.queue = %held.job.lane.queue,
            job.attempt = held.job.attempt,
            "the job blocks its thread and was left behind; use #[job(blocking)] for work that does not await"
        );
        self.recorder.record(held.worker, ended);
        self.slots[held.slots].replace();
        self.start_slots();
        self.room.notify_one();
        self.progress.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
