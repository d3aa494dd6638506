//! Runs one attempt: decode, run, classify. [`crate::worker::record`] records the result.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use crate::context::{Cancellation, ContextParts, JobContext, Row, States};
#[cfg(feature = "schedules")]
use crate::context::{Tick, Ticks};
use crate::limits::{MAX_ARGS_BYTES, may_be_kept, micros};
use crate::outcome::{Failure, JobError};
use crate::registry::JobDefinition;
use crate::store::Store;
use crate::store::values::{AttemptOutcome, Bury, Claimed, Finish, Requeue, WorkerId};
use crate::telemetry;
use crate::worker::run::ended::{Ended, Settled, Unsettled};
use crate::worker::run::error_text::{CAUSED_BY, chain, panic_text, storable};
use crate::worker::run::own_row::HeldRow;
use crate::worker::run::switch::{Stop, Switch};

/// An attempt about to run.
pub(crate) struct Execution {
    pub(crate) job: Arc<Claimed>,
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) states: Arc<States>,
    pub(crate) switch: Arc<Switch>,
    pub(crate) cancel_grace: Duration,
    pub(crate) started: Instant,
    /// The arguments, if they did not come with the claim.
    pub(crate) long_args: Option<LongArgs>,
    /// Whether log lines carry the error.
    pub(crate) log_errors: bool,
    /// For how long arguments that do not decode are tried again.
    pub(crate) decode_grace: Duration,
    /// Knows since when they do not.
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) row: AttemptRow,
}

/// Where the row of an attempt's job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptRow {
    /// The job has none.
    None,
    /// In a transaction of a test's.
    #[cfg(feature = "testing")]
    Lent,
    /// In the hands of this worker.
    Of(WorkerId),
}

/// The error of a job that completed itself, but is still there.
const NOT_COMMITTED: &str = "completed in a transaction that was not committed";

/// When arguments are tried again that have not decoded for so long.
///
/// Beside workers of another build, who gets the job is up to chance. So there are about 16 attempts in the first
/// minute, when most deploys end, and one a minute after the first four.
fn decode_pause(since: Duration) -> Duration {
    (since / 4).clamp(Duration::from_secs(1), Duration::from_secs(60))
}

/// Arguments too long to come with the claim.
pub(crate) struct LongArgs {
    json: String,
    _turn: OwnedSemaphorePermit,
}

impl LongArgs {
    pub(crate) fn new(json: String, turn: OwnedSemaphorePermit) -> Self {
        Self { json, _turn: turn }
    }
}

/// How the handler's future ended.
enum Raw {
    Returned(Result<Option<String>, JobError>),
    Panicked(String),
    /// Dropped, because it did not stop when it was told to.
    Dropped(Stop),
    Undecodable(String),
    /// The arguments are longer than any job's may be.
    TooLong(i64),
}

impl Raw {
    /// What went wrong, in words.
    fn text(&self) -> String {
        match self {
            Self::Returned(Ok(_)) => String::new(),
            Self::Returned(Err(JobError(failure))) => match failure {
                Failure::Retry { error, .. } | Failure::Dead { error } => chain(error),
                Failure::Cancel { reason } => reason.clone(),
                Failure::Snooze { delay } => format!("snoozed for {delay:?}"),
            },
            Self::Panicked(text) => format!("panicked: {text}"),
            Self::Dropped(why) => format!("dropped: {why:?}"),
            Self::Undecodable(text) => text.clone(),
            Self::TooLong(bytes) => format!("{bytes} bytes of arguments"),
        }
    }
}

impl Execution {
    /// Runs the attempt to its end. None: the lease was lost, so there is nothing to record.
    pub(crate) async fn run(mut self) -> Option<Ended> {
        let span = tracing::info_span!(
            "job",
            job.id = %self.job.id,
            job.kind = %self.job.lane.kind,
            job.queue = %self.job.lane.queue.escape_debug(),
            job.attempt = self.job.attempt
        );
        let settles_in = span.clone();
        async move {
            let long_args = self.long_args.take();
            let ctx = self.context();
            match self.execute(long_args, ctx.clone()).await {
                Raw::Undecodable(text) => self.undecodable(text).await,
                raw if ctx.completes() && self.row != AttemptRow::None => self.unsettled(raw, settles_in),
                raw => self.classify(raw),
            }
        }
        .instrument(span)
        .await
    }

    /// The handler completed the job itself. Whoever records ends asks whether that was committed.
    fn unsettled(self, raw: Raw, span: tracing::Span) -> Option<Ended> {
        if self.switch.reason() == Some(Stop::LeaseLost) {
            return None;
        }
        let hold = self.job.hold();
        let settle = move |is_held| span.in_scope(|| self.settle(raw, is_held));
        Some(Ended::Unsettled(Unsettled::new(hold, settle)))
    }

    fn settle(&self, raw: Raw, is_held: bool) -> Settled {
        let elapsed = self.started.elapsed();
        let duration_ms = elapsed.as_secs_f64() * 1e3;
        match raw {
            // whether it was committed or another attempt has the job is not known here
            _ if !is_held && self.switch.reason() == Some(Stop::LeaseLost) => Settled::Lost,
            Raw::Returned(Ok(result)) if !is_held => {
                tracing::debug!(event = telemetry::JOB_COMPLETED, job.duration_ms = duration_ms, "completed");
                Settled::Completed { result }
            }
            raw if !is_held => {
                tracing::warn!(
                    event = telemetry::JOB_COMPLETED,
                    job.duration_ms = duration_ms,
                    error = self.log_errors.then(|| raw.text().replace(CAUSED_BY, ": ")),
                    "completed; the attempt failed after its transaction had been committed"
                );
                Settled::Completed { result: None }
            }
            Raw::Returned(Ok(_)) => {
                Settled::Ended(self.failed(AttemptOutcome::Failed, None, NOT_COMMITTED.to_owned(), duration_ms))
            }
            raw => self.classify(raw).map_or(Settled::Lost, Settled::Ended),
        }
    }

    /// Asks the database for the tick when the handler wants it.
    #[cfg(feature = "schedules")]
    fn ticks(&self) -> Ticks {
        let Some(store) = &self.store else { return Ticks::None };
        let (store, id) = (store.clone(), self.job.id.get());
        Ticks::Asked(Arc::new(move || {
            let store = store.clone();
            async move {
                let found = store.schedules().tick_of(id).await?;
                Ok(found.map(|(schedule, at, outcome)| Tick {
                    schedule,
                    at: chrono::DateTime::from_timestamp_micros(at).unwrap_or_default(),
                    by_hand: outcome == crate::schedule::plan::TickOutcome::Hand.as_str(),
                }))
            }
            .boxed()
        }))
    }

    fn context(&self) -> JobContext {
        let job = &self.job;
        let row = match (self.row, &self.store) {
            (AttemptRow::Of(worker), Some(store)) => Row::Own(Arc::new(HeldRow {
                job: job.clone(),
                worker,
                started: self.started,
                switch: self.switch.clone(),
                store: store.clone(),
            })),
            #[cfg(feature = "testing")]
            (AttemptRow::Lent, _) => Row::Lent,
            _ => Row::None,
        };
        JobContext::new(ContextParts {
            id: job.id,
            attempt: job.attempt,
            max_attempts: job.max_retries.saturating_add(1),
            kind: job.lane.kind.clone(),
            queue: job.lane.queue.clone(),
            enqueued_at: job.enqueued_at,
            cancelled: Cancellation(self.switch.token.clone()),
            states: self.states.clone(),
            row,
            #[cfg(feature = "schedules")]
            ticks: self.ticks(),
        })
    }

    async fn execute(&self, long_args: Option<LongArgs>, ctx: JobContext) -> Raw {
        let job = &self.job;
        let args = match (&job.args, &long_args) {
            (Ok(json), _) | (Err(_), Some(LongArgs { json, .. })) => json,
            (Err(bytes), None) => {
                return Raw::TooLong(*bytes);
            }
        };
        let started = std::panic::catch_unwind(AssertUnwindSafe(|| (self.definition.start)(args, ctx)));
        // the handler has decoded them, and may run for hours
        drop(long_args);
        let future = match started {
            Ok(Ok(future)) => future,
            Ok(Err(error)) => return Raw::Undecodable(error.to_string()),
            Err(panic) => return Raw::Undecodable(format!("decoding panicked: {}", panic_text(&*panic))),
        };
        let mut future = AssertUnwindSafe(future).catch_unwind();
        let deadline = self.definition.timeout.and_then(|timeout| self.started.checked_add(timeout));
        loop {
            tokio::select! {
                biased;
                result = &mut future => return returned(result),
                () = self.switch.token.cancelled() => break,
                () = until(deadline), if deadline.is_some() => self.switch.stop(Stop::Timeout),
            }
        }
        // told to stop, it may still end by itself
        let reason = self.switch.reason().unwrap_or(Stop::Cancelled);
        tokio::select! {
            biased;
            () = self.switch.lost.cancelled() => Raw::Dropped(Stop::LeaseLost),
            result = &mut future => returned(result),
            () = tokio::time::sleep(self.cancel_grace) => {
                tracing::warn!(
                    event = telemetry::JOB_ABANDONED,
                    ?reason,
                    "the job did not stop in time and was dropped"
                );
                Raw::Dropped(reason)
            }
        }
    }

    fn classify(&self, raw: Raw) -> Option<Ended> {
        let reason = self.switch.reason();
        if reason == Some(Stop::LeaseLost) {
            return None;
        }
        let elapsed = self.started.elapsed();
        let ran_us = micros(elapsed);
        let duration_ms = elapsed.as_secs_f64() * 1e3;
        let hold = self.job.hold();
        Some(match raw {
            Raw::Returned(Ok(result)) => {
                tracing::debug!(event = telemetry::JOB_COMPLETED, job.duration_ms = duration_ms, "completed");
                let result = result.filter(|json| may_be_kept(json));
                Ended::Finish(Finish { hold, ran_us, state: AttemptOutcome::Completed, result, error: None })
            }
            Raw::Returned(Err(JobError(Failure::Snooze { delay }))) => {
                let delay_us = micros(delay);
                tracing::debug!(event = telemetry::JOB_SNOOZED, job.retry_in_ms = delay_us / 1000, "snoozed");
                self.requeue(AttemptOutcome::Snoozed, Some(delay_us), 1, None)
            }
            Raw::Returned(Err(JobError(Failure::Cancel { reason }))) => self.cancelled(reason),
            Raw::Returned(Err(JobError(Failure::Dead { error }))) => {
                self.bury(AttemptOutcome::Failed, chain(&error), duration_ms)
            }
            // it failed after it was told to stop: the reason for stopping decides
            Raw::Returned(Err(JobError(Failure::Retry { after, error }))) => match reason {
                Some(Stop::Shutdown) => self.released(),
                Some(Stop::Cancelled) => self.cancelled(chain(&error)),
                Some(Stop::Timeout) => self.failed(AttemptOutcome::TimedOut, after, self.timeout_text(), duration_ms),
                _ => self.failed(AttemptOutcome::Failed, after, chain(&error), duration_ms),
            },
            Raw::Panicked(text) => {
                self.failed(AttemptOutcome::Panicked, None, format!("panicked: {text}"), duration_ms)
            }
            Raw::Dropped(Stop::Shutdown) => self.released(),
            Raw::Dropped(Stop::Timeout) => {
                self.failed(AttemptOutcome::TimedOut, None, self.timeout_text(), duration_ms)
            }
            Raw::Dropped(_) => self.cancelled("cancelled while running".to_owned()),
            Raw::Undecodable(text) => self.bury(AttemptOutcome::Undecodable, self.misfit(&text), duration_ms),
            Raw::TooLong(bytes) => {
                let text = self.misfit(&format!("they are {bytes} bytes of JSON, the limit is {MAX_ARGS_BYTES}"));
                self.bury(AttemptOutcome::Undecodable, text, duration_ms)
            }
        })
    }

    fn misfit(&self, why: &str) -> String {
        format!("the arguments do not fit `{}`: {why}", self.definition.type_name)
    }

    /// The arguments may fit another build, as in the middle of a deploy. So the job is tried again for a while, which
    /// costs no retry.
    async fn undecodable(&self, text: String) -> Option<Ended> {
        let Some(store) = self.store.as_ref().filter(|_| !self.decode_grace.is_zero()) else {
            return self.classify(Raw::Undecodable(text));
        };
        let found = tokio::select! {
            found = store.undecodable(self.job.id.get()) => found,
            // the attempt has to end
            () = self.switch.token.cancelled() => Ok(Duration::ZERO),
        };
        let since = match found {
            Ok(found) => found,
            Err(error) if error.is_a_missing_right() => {
                tracing::error!(
                    %error,
                    "cannot tell since when a job's arguments do not decode, so it is not tried again; grant the worker \
                     SELECT on queue_attempts as docs/security.md lists it"
                );
                return self.classify(Raw::Undecodable(text));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot tell since when a job's arguments do not decode; the next attempt asks");
                Duration::ZERO
            }
        };
        if since >= self.decode_grace || self.switch.reason() == Some(Stop::LeaseLost) {
            return self.classify(Raw::Undecodable(text));
        }
        let delay_us = micros(decode_pause(since));
        tracing::warn!(
            event = telemetry::JOB_FAILED,
            job.duration_ms = self.started.elapsed().as_secs_f64() * 1e3,
            job.outcome = AttemptOutcome::Undecodable.as_str(),
            job.retry_in_ms = delay_us / 1000,
            error = self.logged(AttemptOutcome::Undecodable, &text),
            "the arguments do not decode; they are tried again until the grace period is over"
        );
        Some(self.requeue(AttemptOutcome::Undecodable, Some(delay_us), 1, Some(self.misfit(&text))))
    }

    /// Stands in for an attempt whose own task cannot say how it ended.
    fn remains(job: &Arc<Claimed>, definition: &Arc<JobDefinition>, ran: Duration, log_errors: bool) -> Self {
        Self {
            job: job.clone(),
            definition: definition.clone(),
            states: Arc::default(),
            switch: Arc::default(),
            cancel_grace: Duration::ZERO,
            started: Instant::now().checked_sub(ran).unwrap_or_else(Instant::now),
            long_args: None,
            log_errors,
            decode_grace: Duration::ZERO,
            store: None,
            row: AttemptRow::None,
        }
    }

    /// An attempt that blocks its thread, so that it cannot even be dropped.
    pub(crate) fn timed_out(
        job: &Arc<Claimed>,
        definition: &Arc<JobDefinition>,
        ran: Duration,
        log_errors: bool,
    ) -> Ended {
        let attempt = Self::remains(job, definition, ran, log_errors);
        let text = attempt.timeout_text();
        attempt.failed(AttemptOutcome::TimedOut, None, text, ran.as_secs_f64() * 1e3)
    }

    /// An attempt that panicked outside the handler: while its error was formatted, or while it was dropped.
    pub(crate) fn panicked(
        job: &Arc<Claimed>,
        definition: &Arc<JobDefinition>,
        ran: Duration,
        panic: &(dyn Any + Send),
        log_errors: bool,
    ) -> Ended {
        let text = format!("panicked: {}", panic_text(panic));
        Self::remains(job, definition, ran, log_errors).failed(
            AttemptOutcome::Panicked,
            None,
            text,
            ran.as_secs_f64() * 1e3,
        )
    }

    fn failed(&self, outcome: AttemptOutcome, after: Option<Duration>, error: String, duration_ms: f64) -> Ended {
        if self.job.attempt > self.job.max_retries {
            return self.bury(outcome, error, duration_ms);
        }
        let delay = after.unwrap_or_else(|| self.definition.backoff.delay(self.job.attempt));
        let delay_us = micros(delay);
        tracing::warn!(
            event = telemetry::JOB_FAILED,
            job.duration_ms = duration_ms,
            job.outcome = outcome.as_str(),
            job.retry_in_ms = delay_us / 1000,
            error = self.logged(outcome, &error),
            "failed; will be retried"
        );
        self.requeue(outcome, Some(delay_us), 0, Some(error))
    }

    fn released(&self) -> Ended {
        tracing::info!(event = telemetry::JOB_RELEASED, "released at shutdown");
        self.requeue(AttemptOutcome::Released, None, 1, None)
    }

    fn requeue(&self, outcome: AttemptOutcome, delay_us: Option<i64>, uncount: i32, error: Option<String>) -> Ended {
        Ended::Requeue(Requeue {
            hold: self.job.hold(),
            ran_us: micros(self.started.elapsed()),
            outcome,
            delay_us,
            uncount,
            record: true,
            error: error.map(storable),
        })
    }

    fn cancelled(&self, why: String) -> Ended {
        let elapsed = self.started.elapsed();
        tracing::info!(event = telemetry::JOB_CANCELLED, job.duration_ms = elapsed.as_secs_f64() * 1e3, "cancelled");
        Ended::Finish(Finish {
            hold: self.job.hold(),
            ran_us: micros(elapsed),
            state: AttemptOutcome::Cancelled,
            result: None,
            error: Some(storable(why)),
        })
    }

    fn bury(&self, outcome: AttemptOutcome, error: String, duration_ms: f64) -> Ended {
        tracing::error!(
            event = telemetry::JOB_DEAD,
            job.duration_ms = duration_ms,
            job.outcome = outcome.as_str(),
            error = self.logged(outcome, &error),
            "moved to the dead letters"
        );
        Ended::Bury(Bury {
            hold: self.job.hold(),
            ran_us: micros(self.started.elapsed()),
            outcome,
            error: storable(error),
        })
    }

    /// The error as log lines show it: on one line. A decoder's error quotes arguments, which are never logged.
    fn logged(&self, outcome: AttemptOutcome, error: &str) -> Option<String> {
        self.log_errors.then(|| match outcome {
            AttemptOutcome::Undecodable => format!("the arguments do not fit `{}`", self.definition.type_name),
            _ => error.replace(CAUSED_BY, ": "),
        })
    }

    fn timeout_text(&self) -> String {
        let limit = self.definition.timeout.unwrap_or_default();
        format!("timed out: it ran longer than {limit:?}")
    }
}

fn returned(result: Result<Result<Option<String>, JobError>, Box<dyn Any + Send>>) -> Raw {
    match result {
        Ok(result) => Raw::Returned(result),
        Err(panic) => Raw::Panicked(panic_text(&*panic)),
    }
}

/// Waits until the deadline; forever without one.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecodable_arguments_are_tried_often_at_first_and_then_once_a_minute() {
        let (mut at, mut tries, mut minute) = (Duration::ZERO, 0, 0);
        while at < Duration::from_secs(3600) {
            tries += 1;
            minute += u32::from(at < Duration::from_secs(60));
            let pause = decode_pause(at);
            assert!(at < Duration::from_secs(240) || pause == Duration::from_secs(60), "{at:?}: {pause:?}");
            at += pause;
        }
        assert!((14..=18).contains(&minute) && (70..=90).contains(&tries), "{minute} in the first minute, {tries}");
    }
}
