//! Runs one attempt: decodes the arguments and runs the handler. [`Verdict`] says what becomes of the job, and
//! [`crate::worker::record`] records it.

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
use crate::registry::JobDefinition;
use crate::store::Store;
use crate::store::values::{AttemptOutcome, Claimed, End, WorkerId};
use crate::telemetry;
use crate::worker::run::ended::{Ended, Settled, Unsettled};
use crate::worker::run::error_text::{CAUSED_BY, panic_text};
use crate::worker::run::own_row::HeldRow;
use crate::worker::run::raw::Raw;
use crate::worker::run::switch::{Stop, Switch};
use crate::worker::run::verdict::Verdict;

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
                Raw::Undecodable(text) => self.undecodable(text).await.map(Ended::from),
                raw if ctx.completes() && self.row != AttemptRow::None => self.unsettled(raw, settles_in),
                raw => self.classify(raw).map(Ended::from),
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
                Settled::Ended(self.verdict().failed(AttemptOutcome::Failed, None, NOT_COMMITTED.to_owned()))
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
                result = &mut future => return Raw::returned(result),
                () = self.switch.token.cancelled() => break,
                () = until(deadline), if deadline.is_some() => self.switch.stop(Stop::Timeout),
            }
        }
        // told to stop, it may still end by itself
        let reason = self.switch.reason().unwrap_or(Stop::Cancelled);
        tokio::select! {
            biased;
            () = self.switch.lost.cancelled() => Raw::Dropped(Stop::LeaseLost),
            result = &mut future => Raw::returned(result),
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

    fn classify(&self, raw: Raw) -> Option<End> {
        let reason = self.switch.reason();
        (reason != Some(Stop::LeaseLost)).then(|| self.verdict().on(raw, reason))
    }

    fn verdict(&self) -> Verdict<'_> {
        let (job, definition) = (&*self.job, &*self.definition);
        Verdict { job, definition, ran: self.started.elapsed(), log_errors: self.log_errors }
    }

    /// The arguments may fit another build, as in the middle of a deploy. So the job is tried again for a while, which
    /// costs no retry.
    async fn undecodable(&self, text: String) -> Option<End> {
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
        Some(self.verdict().undecodable_here(&text, decode_pause(since)))
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
