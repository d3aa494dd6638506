//! What becomes of a job after an attempt, and the line of the log that tells it.

use std::any::Any;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::limits::{MAX_ARGS_BYTES, may_be_kept, micros};
use crate::outcome::{Failure, JobError};
use crate::registry::JobDefinition;
use crate::store::values::{AttemptOutcome, Claimed, Destination, End};
use crate::telemetry;
use crate::worker::run::error_text::{CAUSED_BY, chain, panic_text, storable};
use crate::worker::run::raw::Raw;
use crate::worker::run::switch::Stop;

/// What a verdict is about.
pub(crate) struct Verdict<'a> {
    pub(crate) job: &'a Claimed,
    pub(crate) definition: &'a JobDefinition,
    /// For how long the attempt ran.
    pub(crate) ran: Duration,
    /// Whether log lines carry the error.
    pub(crate) log_errors: bool,
}

impl Verdict<'_> {
    /// Decides by how the handler ended, and why it was told to stop.
    pub(super) fn on(&self, raw: Raw, reason: Option<Stop>) -> End {
        match raw {
            Raw::Returned(Ok(result)) => self.completed(result),
            Raw::Returned(Err(JobError(Failure::Snooze { delay, reason, give_up_at }))) => {
                match give_up_at.filter(|end| self.is_over(*end, delay)) {
                    Some(end) => self.gave_up(end, reason.as_deref().unwrap_or("it would have snoozed again")),
                    None => self.snoozed(delay, reason),
                }
            }
            Raw::Returned(Err(JobError(Failure::Cancel { reason }))) => self.cancelled(reason),
            Raw::Returned(Err(JobError(Failure::Dead { error }))) => self.bury(AttemptOutcome::Failed, chain(&error)),
            Raw::Returned(Err(JobError(Failure::Unbegun { error }))) => match reason {
                Some(Stop::Shutdown) => self.released(),
                Some(Stop::Cancelled) => self.cancelled("cancelled before it began".to_owned()),
                _ => self.unbegun(chain(&error)),
            },
            // it failed after it was told to stop: the reason for stopping decides
            Raw::Returned(Err(JobError(Failure::Retry { after, give_up_at, error }))) => match reason {
                Some(Stop::Shutdown) => self.released(),
                Some(Stop::Cancelled) => self.cancelled(chain(&error)),
                Some(Stop::Timeout) => self.failed(AttemptOutcome::TimedOut, after, self.timeout_text()),
                _ => {
                    let delay = after.unwrap_or_else(|| self.definition.backoff.delay(self.job.attempt));
                    match give_up_at.filter(|end| self.has_retries() && self.is_over(*end, delay)) {
                        Some(end) => self.gave_up(end, &chain(&error)),
                        None => self.failed(AttemptOutcome::Failed, Some(delay), chain(&error)),
                    }
                }
            },
            Raw::Panicked(text) => self.failed(AttemptOutcome::Panicked, None, format!("panicked: {text}")),
            Raw::Dropped(Stop::Shutdown) => self.released(),
            Raw::Dropped(Stop::Timeout) => self.timed_out(),
            Raw::Dropped(_) => self.cancelled("cancelled while running".to_owned()),
            Raw::Undecodable(text) => self.bury(AttemptOutcome::Undecodable, self.misfit(&text)),
            Raw::TooLong(bytes) => {
                let text = self.misfit(&format!("they are {bytes} bytes of JSON, the limit is {MAX_ARGS_BYTES}"));
                self.bury(AttemptOutcome::Undecodable, text)
            }
        }
    }

    /// It ran for too long. It may also block its thread, so that it cannot even be dropped.
    pub(crate) fn timed_out(&self) -> End {
        self.failed(AttemptOutcome::TimedOut, None, self.timeout_text())
    }

    /// It panicked outside the handler: while its error was formatted, or while it was dropped.
    pub(crate) fn panicked(&self, panic: &(dyn Any + Send)) -> End {
        self.failed(AttemptOutcome::Panicked, None, format!("panicked: {}", panic_text(panic)))
    }

    /// Its arguments do not fit this build. It is tried again after a while, which costs no retry.
    pub(crate) fn undecodable_here(&self, text: &str, pause: Duration) -> End {
        let delay_us = micros(pause);
        tracing::warn!(
            event = telemetry::JOB_FAILED,
            job.duration_ms = self.milliseconds(),
            job.outcome = AttemptOutcome::Undecodable.as_str(),
            job.retry_in_ms = delay_us / 1000,
            error = self.logged(AttemptOutcome::Undecodable, text),
            "the arguments do not decode; they are tried again until the grace period is over"
        );
        self.requeue(AttemptOutcome::Undecodable, Some(delay_us), 1, Some(self.misfit(text)))
    }

    /// It is tried again after this delay or its backoff, while retries are left.
    pub(crate) fn failed(&self, outcome: AttemptOutcome, after: Option<Duration>, error: String) -> End {
        if !self.has_retries() {
            return self.bury(outcome, error);
        }
        let delay = after.unwrap_or_else(|| self.definition.backoff.delay(self.job.attempt));
        let delay_us = micros(delay);
        tracing::warn!(
            event = telemetry::JOB_FAILED,
            job.duration_ms = self.milliseconds(),
            job.outcome = outcome.as_str(),
            job.retry_in_ms = delay_us / 1000,
            error = self.logged(outcome, &error),
            "failed; will be retried"
        );
        self.requeue(outcome, Some(delay_us), 0, Some(error))
    }

    fn completed(&self, result: Option<String>) -> End {
        tracing::debug!(event = telemetry::JOB_COMPLETED, job.duration_ms = self.milliseconds(), "completed");
        self.finish(AttemptOutcome::Completed, result.filter(|json| may_be_kept(json)), None)
    }

    fn cancelled(&self, why: String) -> End {
        tracing::info!(event = telemetry::JOB_CANCELLED, job.duration_ms = self.milliseconds(), "cancelled");
        self.finish(AttemptOutcome::Cancelled, None, Some(storable(why)))
    }

    fn snoozed(&self, delay: Duration, reason: Option<String>) -> End {
        let delay_us = micros(delay);
        let error = reason.as_deref().and_then(|reason| self.logged(AttemptOutcome::Snoozed, reason));
        tracing::debug!(event = telemetry::JOB_SNOOZED, job.retry_in_ms = delay_us / 1000, error, "snoozed");
        self.requeue(AttemptOutcome::Snoozed, Some(delay_us), 1, reason)
    }

    /// Whether the job would be due again after this time. The clock is the database's: it said when this attempt was
    /// due.
    fn is_over(&self, end: DateTime<Utc>, delay: Duration) -> bool {
        let again = self.job.run_at.saturating_add(micros(self.ran)).saturating_add(micros(delay));
        again > end.timestamp_micros()
    }

    fn gave_up(&self, end: DateTime<Utc>, error: &str) -> End {
        let end = end.to_rfc3339_opts(SecondsFormat::Secs, true);
        self.bury(AttemptOutcome::Failed, format!("gave up, because the next run would be after {end}: {error}"))
    }

    fn has_retries(&self) -> bool {
        self.job.attempt <= self.job.max_retries
    }

    fn released(&self) -> End {
        tracing::info!(event = telemetry::JOB_RELEASED, "released at shutdown");
        self.requeue(AttemptOutcome::Released, None, 1, None)
    }

    /// What the handler needs is not there now. It is tried again after its backoff, which costs no retry.
    fn unbegun(&self, error: String) -> End {
        let delay_us = micros(self.definition.backoff.delay(self.job.attempt));
        let retry_in_ms = delay_us / 1000;
        let error_text = self.logged(AttemptOutcome::Released, &error);
        let event = telemetry::JOB_RELEASED;
        tracing::warn!(event, job.retry_in_ms = retry_in_ms, error = error_text, "released before its handler began");
        self.requeue(AttemptOutcome::Released, Some(delay_us), 1, Some(error))
    }

    fn finish(&self, outcome: AttemptOutcome, result: Option<String>, error: Option<String>) -> End {
        self.end(outcome, error, Destination::Finish { result })
    }

    fn requeue(&self, outcome: AttemptOutcome, delay_us: Option<i64>, uncount: i32, error: Option<String>) -> End {
        self.end(outcome, error.map(storable), Destination::Requeue { delay_us, uncount, record: true })
    }

    fn end(&self, outcome: AttemptOutcome, error: Option<String>, to: Destination) -> End {
        End { hold: self.job.hold(), ran_us: micros(self.ran), outcome, error, to }
    }

    fn bury(&self, outcome: AttemptOutcome, error: String) -> End {
        tracing::error!(
            event = telemetry::JOB_DEAD,
            job.duration_ms = self.milliseconds(),
            job.outcome = outcome.as_str(),
            error = self.logged(outcome, &error),
            "moved to the dead letters"
        );
        self.end(outcome, Some(storable(error)), Destination::Bury)
    }

    /// The error as log lines show it: on one line. A decoder's error quotes arguments, which are never logged.
    fn logged(&self, outcome: AttemptOutcome, error: &str) -> Option<String> {
        self.log_errors.then(|| match outcome {
            AttemptOutcome::Undecodable => format!("the arguments do not fit `{}`", self.definition.type_name),
            _ => error.replace(CAUSED_BY, ": "),
        })
    }

    fn misfit(&self, why: &str) -> String {
        format!("the arguments do not fit `{}`: {why}", self.definition.type_name)
    }

    fn timeout_text(&self) -> String {
        let limit = self.definition.timeout.unwrap_or_default();
        format!("timed out: it ran longer than {limit:?}")
    }

    fn milliseconds(&self) -> f64 {
        self.ran.as_secs_f64() * 1e3
    }
}
