//! A slot: takes a waiting job, admits it, runs it, and hands over its end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use crate::limits::{MAX_ARGS_BYTES, micros};
use crate::store::values::{Claimed, End, Start};
use crate::telemetry;
use crate::worker::run::attempt::{AttemptRow, Execution, LongArgs};
use crate::worker::run::ended::Ended;
use crate::worker::run::held::Held;
use crate::worker::run::isolation::{self, Admission};
use crate::worker::run::verdict::Verdict;
use crate::worker::shared::Shared;

/// How long an attempt may be overdue and still block its thread before it is left behind. Also the pause before a
/// failed note is retried.
pub(crate) const STUCK: Duration = Duration::from_secs(1);

/// An attempt that may begin.
#[derive(Default)]
struct Admitted<'a> {
    /// No other suspect begins until then.
    at_doors_until: Option<Instant>,
    /// Held until it has begun, if others wait for that.
    one_by_one: Option<tokio::sync::MutexGuard<'a, ()>>,
    /// The arguments, if they did not come with the claim.
    long_args: Option<LongArgs>,
}

/// Warns that a job runs that was lost with several workers.
fn tell_of_losses(job: &Claimed, max_neighbours: Option<u32>) {
    let how = match max_neighbours {
        Some(_) => "it runs alone for some seconds",
        None => "it was to run alone for some seconds, but the running jobs did not end in time",
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
    /// Starts slots for the waiting jobs. Each slot runs jobs until none waits.
    pub(crate) fn start_slots(self: &Arc<Self>) {
        // a queue may want nothing any more when its turn comes: the next pass gives its share to the queues before it
        let mut passes = 0;
        while passes < 2 {
            passes += 1;
            for (index, slots) in self.work.slots.iter().enumerate() {
                for _ in 0..slots.start() {
                    passes = 0;
                    self.start_slot(index);
                }
            }
            if self.work.slots.len() == 1 {
                return;
            }
        }
    }

    fn start_slot(self: &Arc<Self>, slots: usize) {
        let shared = self.clone();
        self.work.tasks.spawn(async move {
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
            let (next, low) = self.work.slots[slots].next(took.take());
            if low {
                self.notices.room.notify_one();
            }
            let Some((job, worker)) = next else {
                if self.work.slots.len() > 1 {
                    // another queue may use what this slot leaves free
                    self.start_slots();
                }
                self.notices.progress.notify_waiters();
                return;
            };
            let job = Arc::new(job);
            let Some(definition) = self.config.jobs.get(&*job.lane.kind).cloned() else {
                // the scope holds only known kinds: this row's kind changed during the claim
                self.recorder.record(worker, End::unstarted(job.hold()));
                continue;
            };
            let key = job.hold().key();
            let held = Arc::new(Held::new(job.clone(), worker, definition, slots));
            self.work.held().insert(key, held.clone());
            let first = match self.admit(&held).await {
                Ok(first) => first,
                Err(away) => {
                    held.leave_isolation();
                    if self.work.held().remove(&key).is_some() {
                        self.recorder.record(worker, End::put_off(job.hold(), away.map(micros)));
                    }
                    continue;
                }
            };
            let ended = self.run_attempt(&held, first).await;
            held.leave_isolation();
            let mine = self.work.held().remove(&key).is_some();
            if !mine {
                // left behind: the end was recorded, and the slot replaced
                return;
            }
            took = Some(held.ran());
            if let Some(ended) = ended {
                if ended.is_misfit() {
                    self.notices.set_misfit(&job.lane.kind);
                }
                self.recorder.record(worker, ended);
            }
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Waits until an attempt may begin, and records its start first where that is required. Err: it does not begin
    /// here. The job is due again after this time, or as before. Nearly every attempt may begin at once. The rare waits
    /// are boxed, so that they do not enlarge this future.
    async fn admit(&self, held: &Held) -> Result<Admitted<'_>, Option<Duration>> {
        let job = &held.job;
        let suspect = isolation::is_suspect(job.losses);
        let at_once = if suspect { None } else { self.work.isolation.enter_at_once() };
        let place = match at_once {
            Some(place) => place,
            None => Box::pin(self.enter_isolation(held, suspect)).await?,
        };
        let at_doors_until = place.at_doors_until();
        let max_neighbours = place.is_alone().then_some(0);
        held.take_place(place);
        // it is in hand already: if the lease is lost from here on, the attempt is told to stop
        if held.worker != self.lease.id() || !self.lease.holds() {
            // the lease is lost, or must be assumed lost, so this job is not ours to start
            return Err(None);
        }
        let long_args = match job.args {
            Err(bytes) if usize::try_from(bytes).is_ok_and(|bytes| bytes <= MAX_ARGS_BYTES) => {
                Some(Box::pin(self.fetch_args(held)).await.ok_or(None)?)
            }
            _ => None,
        };
        let mut admitted = Admitted { long_args, ..Admitted::default() };
        if job.losses > 0 || job.attempt >= job.max_retries {
            admitted.one_by_one = Box::pin(self.note_before(held, max_neighbours)).await.ok_or(None)?;
        }
        admitted.at_doors_until = at_doors_until;
        if suspect {
            tell_of_losses(job, max_neighbours);
        }
        Ok(admitted)
    }

    /// Waits until the others let the job start. Err: as for [`admit`](Self::admit).
    async fn enter_isolation(&self, held: &Held, suspect: bool) -> Result<Admission, Option<Duration>> {
        let isolation = &self.work.isolation;
        let enter = async {
            match suspect {
                true => isolation.enter_suspect().await.map_err(Some),
                false => isolation.enter().await.ok_or(None),
            }
        };
        tokio::select! {
            biased;
            place = enter => place,
            () = held.switch.token.cancelled() => Err(None),
            () = self.stop_claiming.cancelled() => Err(None),
        }
    }

    /// Fetches arguments that were too long to come with the claim. None: the job is not ours any more, or they cannot
    /// be read.
    async fn fetch_args(&self, held: &Held) -> Option<LongArgs> {
        let fetched = async {
            let turn = self.work.long_args.clone().acquire_owned().await.ok()?;
            let args = self.config.store.args(held.worker, held.job.id.get(), held.job.fence).await.ok()??;
            Some(LongArgs::new(args, turn))
        };
        tokio::select! {
            args = fetched => args,
            () = held.switch.token.cancelled() => None,
        }
    }

    /// Records a start before the attempt begins. The guard, if any, is held until it has begun. None: the job is not
    /// ours any more, or the database failed.
    async fn note_before(
        &self,
        held: &Held,
        max_neighbours: Option<u32>,
    ) -> Option<Option<tokio::sync::MutexGuard<'_, ()>>> {
        let job = &held.job;
        let noted = async {
            let one_by_one = if job.losses > 0 { Some(self.starts.one_by_one().await) } else { None };
            let start = Start { hold: job.hold(), max_neighbours };
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
        let Admitted { at_doors_until, one_by_one, long_args } = admitted;
        let started = held.begin();
        if !held.noted.load(Ordering::Relaxed) {
            self.starts.begun();
        }
        let attempt = Execution {
            job: held.job.clone(),
            definition: held.definition.clone(),
            states: self.config.states.clone(),
            switch: held.switch.clone(),
            cancel_grace: self.config.timing.cancel_grace,
            started,
            long_args,
            log_errors: self.config.log_errors,
            decode_grace: self.config.decode_grace,
            store: Some(self.config.store.clone()),
            row: AttemptRow::Of(held.worker),
        };
        let mut run = pin!(AssertUnwindSafe(attempt.run()).catch_unwind());
        let mut ended = None;
        if one_by_one.is_some() {
            // the handler has begun: now the next one may
            ended = poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await.into();
            drop(one_by_one);
        }
        let ended = match (ended, at_doors_until) {
            (Some(Poll::Ready(ended)), _) => ended,
            (_, Some(until)) => {
                let mut open = Box::pin(self.open_at(held, until));
                tokio::select! {
                    biased;
                    ended = &mut run => ended,
                    never = &mut open => match never {},
                }
            }
            (_, None) => run.await,
        };
        ended.unwrap_or_else(|panic| {
            let (job, definition, log_errors) = (&*held.job, &*held.definition, self.config.log_errors);
            Some(Verdict { job, definition, ran: started.elapsed(), log_errors }.panicked(&*panic).into())
        })
    }

    /// Lets others begin beside a suspect that has run for long enough.
    async fn open_at(&self, held: &Held, until: Instant) -> Infallible {
        tokio::time::sleep_until(until).await;
        let is_alone = held.place().as_ref().is_some_and(Admission::is_alone);
        let start = Start { hold: held.job.hold(), max_neighbours: None };
        // the database must know of the neighbours before they run
        while is_alone && self.starts.note(held.worker, start).await.is_none() {
            tokio::time::sleep(STUCK).await;
        }
        if let Some(place) = &mut *held.place() {
            place.open();
        }
        std::future::pending().await
    }

    /// Abandons an attempt that does not leave its slot, and lets another slot take its place.
    pub(crate) fn leave_behind(self: &Arc<Self>, held: &Held, end: End) {
        if self.work.held().remove(&held.key()).is_none() {
            return;
        }
        held.leave_isolation();
        tracing::warn!(
            event = telemetry::JOB_ABANDONED,
            job.id = %held.job.id,
            job.kind = %held.job.lane.kind,
            job.queue = %held.job.lane.queue,
            job.attempt = held.job.attempt,
            "the job blocks its thread and was left behind; use #[job(blocking)] for work that does not await"
        );
        self.recorder.record(held.worker, end);
        self.work.slots[held.slots].replace();
        self.start_slots();
        self.notices.room.notify_one();
        self.notices.progress.notify_waiters();
    }
}

#[cfg(test)]
#[path = "slot_tests.rs"]
mod tests;
