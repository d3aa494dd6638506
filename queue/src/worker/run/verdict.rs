//! What becomes of a job after an attempt.

use std::any::Any;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

use crate::limits::{MAX_ARGS_BYTES, may_be_kept, micros};
use crate::outcome::{Failure, JobError};
use crate::store::values::{AttemptOutcome, Destination, End};
use crate::telemetry::Event;
use crate::worker::run::attempt::{Attempt, Settled};
use crate::worker::run::ending::{CAUSED_BY, Raw, Stop, chain, panic_text, storable};

/// The error of a job that completed itself, but is still there.
const NOT_COMMITTED: &str = "completed in a transaction that was not committed";

/// When arguments are tried again that have not decoded for so long.
///
/// Beside workers of another build, any of them may claim the job. So there are about 16 attempts in the first minute,
/// when most deploys end, and one a minute after the first four.
fn decode_pause(since: Duration) -> Duration {
    (since / 4).clamp(Duration::from_secs(1), Duration::from_secs(60))
}

impl Attempt {
    /// Decides by how the handler ended, and why it was told to stop. None: the lease was lost, so there is nothing to
    /// record.
    pub(super) fn judge(&self, raw: Raw) -> Option<End> {
        let reason = self.switch.reason();
        Some(match raw {
            _ if reason == Some(Stop::LeaseLost) => return None,
            Raw::Returned(Ok(result)) => self.completed(result),
            Raw::Returned(Err(JobError(Failure::Snooze { delay, reason, give_up_at }))) => {
                match give_up_at.filter(|end| self.is_over(*end, delay)) {
                    Some(end) => self.gave_up(end, reason.as_deref().unwrap_or("it would have snoozed again")),
                    None => self.requeue(AttemptOutcome::Snoozed, Some(delay), 1, reason),
                }
            }
            Raw::Returned(Err(JobError(Failure::Cancel { reason }))) => self.cancelled(reason),
            Raw::Returned(Err(JobError(Failure::Dead { error }))) => self.bury(AttemptOutcome::Failed, chain(&error)),
            Raw::Returned(Err(JobError(Failure::Unbegun { error }))) => match reason {
                Some(Stop::Shutdown) => self.released(),
                Some(Stop::Cancelled) => self.cancelled("cancelled before it began".to_owned()),
                // what the handler needs is not there now
                _ => self.requeue(AttemptOutcome::Released, Some(self.backoff()), 1, Some(chain(&error))),
            },
            // it failed after it was told to stop: the reason for stopping decides
            Raw::Returned(Err(JobError(Failure::Retry { after, give_up_at, error }))) => match reason {
                Some(Stop::Shutdown) => self.released(),
                Some(Stop::Cancelled) => self.cancelled(chain(&error)),
                Some(Stop::Timeout) => self.failed(AttemptOutcome::TimedOut, after, self.timeout_text()),
                _ => {
                    let delay = after.unwrap_or_else(|| self.backoff());
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
        })
    }

    /// The arguments may fit another build, as in the middle of a deploy. So the job is tried again for a while, which
    /// costs no retry.
    pub(super) async fn judge_undecodable(&self, text: String) -> Option<End> {
        let grace = self.env.timing.decode_grace;
        if grace.is_zero() {
            return self.judge(Raw::Undecodable(text));
        }
        let found = tokio::select! {
            found = self.env.store.undecodable(self.job.id.get()) => found,
            // the attempt has to end
            () = self.switch.token.cancelled() => Ok(Duration::ZERO),
        };
        let since = match found {
            Ok(found) => found,
            Err(error) if error.is_a_missing_right() => {
                tracing::error!(
                    %error,
                    "cannot tell since when a job's arguments do not decode, so it is not tried again; grant the \
                     worker SELECT on queue_attempts as docs/security.md lists it"
                );
                grace
            }
            Err(error) => {
                tracing::warn!(%error, "cannot tell since when a job's arguments do not decode; the next attempt asks");
                Duration::ZERO
            }
        };
        if since >= grace || self.is_lost() {
            return self.judge(Raw::Undecodable(text));
        }
        let misfit = self.misfit(&text);
        Some(self.requeue(AttemptOutcome::Undecodable, Some(decode_pause(since)), 1, Some(misfit)))
    }

    /// Decides when it is known whether the handler's own completion of the job was committed. `is_held`: the worker
    /// still holds the job under the attempt's fence.
    pub(crate) fn settle(&self, raw: Raw, is_held: bool) -> Settled {
        match raw {
            // whether it was committed or another attempt has the job is not known here
            _ if !is_held && self.is_lost() => Settled::Lost,
            Raw::Returned(Ok(result)) if !is_held => {
                self.tell(Event::JobCompleted { job: &self.job, ran: self.ran() });
                Settled::Completed { result }
            }
            raw if !is_held => {
                let error = self.env.log_errors.then(|| self.redacted(raw.text()).replace(CAUSED_BY, ": "));
                self.tell(Event::JobFailedAfterCommit { job: &self.job, ran: self.ran(), error });
                Settled::Completed { result: None }
            }
            Raw::Returned(Ok(_)) => Settled::Ended(self.failed(AttemptOutcome::Failed, None, NOT_COMMITTED.to_owned())),
            raw => self.judge(raw).map_or(Settled::Lost, Settled::Ended),
        }
    }

    /// It ran for too long. It may also block its thread, so that it cannot even be dropped.
    pub(crate) fn timed_out(&self) -> End {
        self.failed(AttemptOutcome::TimedOut, None, self.timeout_text())
    }

    /// It panicked outside the handler: while its error was formatted, or while it was dropped.
    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) -> End {
        self.failed(AttemptOutcome::Panicked, None, format!("panicked: {}", panic_text(panic)))
    }

    /// It is tried again after this delay or its backoff, while retries are left.
    fn failed(&self, outcome: AttemptOutcome, after: Option<Duration>, error: String) -> End {
        match self.has_retries() {
            true => self.requeue(outcome, after.or_else(|| Some(self.backoff())), 0, Some(error)),
            false => self.bury(outcome, error),
        }
    }

    fn completed(&self, result: Option<String>) -> End {
        self.tell(Event::JobCompleted { job: &self.job, ran: self.ran() });
        let result = self.redacted_result(result).filter(|json| may_be_kept(json));
        self.end(AttemptOutcome::Completed, None, Destination::Finish { result })
    }

    fn cancelled(&self, why: String) -> End {
        self.tell(Event::JobCancelled { job: &self.job, ran: self.ran() });
        let why = self.redacted(why);
        self.end(AttemptOutcome::Cancelled, Some(why), Destination::Finish { result: None })
    }

    fn released(&self) -> End {
        self.requeue(AttemptOutcome::Released, None, 1, None)
    }

    fn gave_up(&self, end: DateTime<Utc>, error: &str) -> End {
        let end = end.to_rfc3339_opts(SecondsFormat::Secs, true);
        self.bury(AttemptOutcome::Failed, format!("gave up, because the next run would be after {end}: {error}"))
    }

    fn bury(&self, outcome: AttemptOutcome, error: String) -> End {
        let error = self.redacted(error);
        let logged = self.logged(outcome, &error);
        self.tell(Event::JobDead { job: &self.job, ran: self.ran(), outcome, error: logged });
        self.end(outcome, Some(error), Destination::Bury)
    }

    fn requeue(&self, outcome: AttemptOutcome, delay: Option<Duration>, uncount: i32, error: Option<String>) -> End {
        let (job, retry_in) = (&self.job, delay.unwrap_or_default());
        let error = error.map(|error| self.redacted(error));
        let logged = error.as_deref().and_then(|error| self.logged(outcome, error));
        match (outcome, delay) {
            (AttemptOutcome::Snoozed, _) => {
                self.tell(Event::JobSnoozed { job, ran: self.ran(), retry_in, error: logged })
            }
            (AttemptOutcome::Released, None) => self.tell(Event::JobReleased { job }),
            (AttemptOutcome::Released, _) => self.tell(Event::JobUnbegun { job, retry_in, error: logged }),
            _ => self.tell(Event::JobFailed { job, ran: self.ran(), outcome, retry_in, error: logged }),
        }
        self.end(outcome, error, Destination::Requeue { delay_us: delay.map(micros), uncount, record: true })
    }

    fn end(&self, outcome: AttemptOutcome, error: Option<String>, to: Destination) -> End {
        End { hold: self.job.hold(), ran_us: micros(self.ran()), outcome, error: error.map(storable), to }
    }

    fn has_retries(&self) -> bool {
        self.job.attempt <= self.job.max_retries
    }

    fn backoff(&self) -> Duration {
        self.definition.backoff.delay(self.job.attempt)
    }

    /// Whether the job would be due again after this time. The clock is the database's: it said when this attempt was
    /// due.
    fn is_over(&self, end: DateTime<Utc>, delay: Duration) -> bool {
        let again = self.job.run_at.saturating_add(micros(self.ran())).saturating_add(micros(delay));
        again > end.timestamp_micros()
    }

    /// The error as log lines show it: on one line. A decoder's error quotes arguments, which are never logged.
    fn logged(&self, outcome: AttemptOutcome, error: &str) -> Option<String> {
        self.env.log_errors.then(|| match outcome {
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
