//! One attempt: decodes the arguments, calls the handler, and judges how it ended.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::context::{Cancellation, ContextParts, JobContext, OwnRow, Row, States};
#[cfg(feature = "schedules")]
use crate::context::{Tick, Ticks};
use crate::error::Error;
use crate::limits::micros;
use crate::middleware::Wrappers;
use crate::propagation::propagation;
use crate::registry::{JobDefinition, Running};
use crate::secrets::Values;
use crate::store::Store;
use crate::store::values::{AttemptOutcome, Claimed, Destination, End, Hold, RunningRow, WorkerId};
use crate::telemetry::{Event, Observers};
use crate::worker::notices::until;
use crate::worker::run::ending::{Raw, Stop, Switch, panic_text};

/// The durations of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) heartbeat: Duration,
    pub(crate) lease: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) retention: Duration,
    /// For how long arguments that do not decode are tried again.
    pub(crate) decode_grace: Duration,
    /// The longest pause between two writes of tallies.
    pub(crate) tallies: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(2500),
            lease: Duration::from_millis(7500),
            shutdown_grace: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            retention: Duration::from_secs(7 * 24 * 60 * 60),
            decode_grace: Duration::from_secs(60 * 60),
            tallies: Duration::from_secs(10),
        }
    }
}

/// What the attempts of a worker have in common.
pub(crate) struct Env {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) states: Arc<States>,
    pub(crate) timing: Timing,
    /// Whether log lines carry the errors of jobs.
    pub(crate) log_errors: bool,
    pub(crate) observers: Observers,
    /// What is around each handler.
    pub(crate) wrappers: Wrappers,
}

/// An attempt of a claimed job.
pub(crate) struct Attempt {
    pub(crate) env: Arc<Env>,
    pub(crate) job: Claimed,
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) row: AttemptRow,
    pub(crate) switch: Switch,
    /// The values of the secret arguments, once they are decoded. Empty: the kind has none.
    secrets: OnceLock<Values>,
    /// Empty while it waits for its turn to begin.
    started: OnceLock<Instant>,
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

/// Arguments too long to come with the claim.
pub(crate) struct LongArgs {
    pub(crate) json: String,
    /// It limits how many of them are in memory.
    pub(crate) _turn: Option<OwnedSemaphorePermit>,
}

impl Attempt {
    pub(crate) fn new(env: Arc<Env>, job: Claimed, definition: Arc<JobDefinition>, row: AttemptRow) -> Arc<Self> {
        let (switch, secrets, started) = (Switch::default(), OnceLock::new(), OnceLock::new());
        Arc::new(Self { env, job, definition, row, switch, secrets, started })
    }

    /// It begins now, unless it has begun.
    pub(crate) fn begin(&self) -> Instant {
        *self.started.get_or_init(Instant::now)
    }

    /// When it began, if it has.
    pub(crate) fn began(&self) -> Option<Instant> {
        self.started.get().copied()
    }

    /// How long it has run.
    pub(crate) fn ran(&self) -> Duration {
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        event.emit(&self.env.observers);
    }

    /// The text without the values of secret arguments.
    pub(crate) fn redacted(&self, text: String) -> String {
        match self.secrets.get() {
            Some(secrets) => secrets.redact(text),
            None => text,
        }
    }

    /// The same for a result.
    pub(crate) fn redacted_result(&self, result: Option<String>) -> Option<String> {
        match self.secrets.get() {
            Some(secrets) => result.map(|json| secrets.redact_json(json)),
            None => result,
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.switch.reason() == Some(Stop::LeaseLost)
    }

    /// Runs to its end. None: the lease was lost, so there is nothing to record. `since_enqueue`: by the database's
    /// clock, if that is known.
    pub(crate) async fn run(
        self: Arc<Self>,
        long_args: Option<LongArgs>,
        since_enqueue: Option<Duration>,
    ) -> Option<Ended> {
        let span = tracing::info_span!(
            "job",
            job.id = %self.job.id,
            job.kind = %self.job.lane.kind,
            job.queue = %self.job.lane.queue.escape_debug(),
            job.attempt = self.job.attempt,
            job.meta = self.job.metadata().json().map(tracing::field::display),
            otel.name = Empty,
            otel.kind = Empty,
        );
        if let Err(error) = &self.job.meta {
            self.tell(Event::JobMetaUnread { job: &self.job, error });
        }
        let Some(propagation) = propagation() else { return self.run_in(span, long_args).await };
        propagation.begins(&span, &self.job, since_enqueue);
        let log_errors = self.env.log_errors;
        let ended = self.run_in(span.clone(), long_args).await;
        let (outcome, error) = match &ended {
            Some(Ended::Known(end)) => (Some(end.outcome), end.error.as_deref()),
            Some(Ended::Unsettled(..)) => (Some(AttemptOutcome::Completed), None),
            None => (None, None),
        };
        propagation.ends(&span, outcome, error.filter(|_| log_errors));
        ended
    }

    async fn run_in(self: Arc<Self>, span: Span, long_args: Option<LongArgs>) -> Option<Ended> {
        async move {
            let began = self.begin();
            let ctx = self.context();
            let raw = match self.decode(long_args, ctx.clone()) {
                Ok(handler) => self.call(handler, began).await,
                Err(raw) => raw,
            };
            if let Raw::Undecodable(text) = raw {
                return self.judge_undecodable(text).await.map(Ended::from);
            }
            if ctx.completes() && self.row != AttemptRow::None {
                return (!self.is_lost()).then(|| Ended::Unsettled(self.clone(), raw));
            }
            self.judge(raw).map(Ended::from)
        }
        .instrument(span)
        .await
    }

    fn decode(&self, long_args: Option<LongArgs>, ctx: JobContext) -> Result<Running, Raw> {
        let args = match (&self.job.args, &long_args) {
            (Ok(json), _) | (Err(_), Some(LongArgs { json, .. })) => json,
            (Err(bytes), None) => return Err(Raw::TooLong(*bytes)),
        };
        if !self.definition.secrets.is_empty() {
            let _ = self.secrets.set(Values::of(self.definition.secrets, args));
        }
        // the handler has what is decoded, and may run for hours: the arguments go now
        match std::panic::catch_unwind(AssertUnwindSafe(|| (self.definition.start)(args, ctx.clone()))) {
            Ok(Ok(handler)) => Ok(self.handing_on(self.env.wrappers.around(&ctx, args, handler))),
            Ok(decoded) => decoded.map_err(|error| Raw::Undecodable(error.to_string())),
            Err(panic) => Err(Raw::Undecodable(format!("decoding panicked: {}", panic_text(&*panic)))),
        }
    }

    /// The handler, whose enqueues get the metadata of its job.
    fn handing_on(&self, handler: Running) -> Running {
        match self.job.metadata() {
            meta if meta.map().is_empty() => handler,
            meta => meta.clone().hand_on(handler).boxed(),
        }
    }

    /// Runs the handler until it ends, or does not end although it was told to.
    async fn call(&self, handler: Running, began: Instant) -> Raw {
        let mut handler = AssertUnwindSafe(handler).catch_unwind();
        let deadline = self.definition.timeout.and_then(|timeout| began.checked_add(timeout));
        loop {
            tokio::select! {
                biased;
                result = &mut handler => return Raw::returned(result),
                () = self.switch.token.cancelled() => break,
                () = until(deadline), if deadline.is_some() => self.switch.stop(Stop::Timeout),
            }
        }
        // told to stop, it may still end by itself
        let reason = self.switch.reason().unwrap_or(Stop::Cancelled);
        tokio::select! {
            biased;
            () = self.switch.lost.cancelled() => Raw::Dropped(Stop::LeaseLost),
            result = &mut handler => Raw::returned(result),
            () = tokio::time::sleep(self.env.timing.cancel_grace) => {
                self.tell(Event::JobDropped { job: &self.job, reason: &reason });
                Raw::Dropped(reason)
            }
        }
    }

    fn context(self: &Arc<Self>) -> JobContext {
        let job = &self.job;
        let row = match self.row {
            AttemptRow::Of(_) => Row::Own(self.clone()),
            #[cfg(feature = "testing")]
            AttemptRow::Lent => Row::Lent,
            AttemptRow::None => Row::None,
        };
        JobContext::new(ContextParts {
            id: job.id,
            attempt: job.attempt,
            max_attempts: job.max_retries.saturating_add(1),
            kind: job.lane.kind.clone(),
            queue: job.lane.queue.clone(),
            enqueued_at: job.enqueued_at,
            meta: job.metadata().clone(),
            cancelled: Cancellation(self.switch.token.clone()),
            states: self.env.states.clone(),
            row,
            #[cfg(feature = "schedules")]
            ticks: self.ticks(),
        })
    }

    /// Asks the database for the tick when the handler wants it.
    #[cfg(feature = "schedules")]
    fn ticks(&self) -> Ticks {
        let (store, id) = (self.env.store.clone(), self.job.id.get());
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
}

impl OwnRow for Attempt {
    fn engine(&self) -> &'static str {
        self.env.store.capabilities().engine
    }

    fn row(&self) -> RunningRow {
        let worker = if let AttemptRow::Of(worker) = self.row { worker } else { 0 };
        let enqueued_us = self.job.enqueued_at.timestamp_micros();
        RunningRow { hold: self.job.hold(), worker, enqueued_us }
    }

    fn completed(&self, result: Option<String>) -> End {
        End::completed(self.job.hold(), micros(self.ran()), self.redacted_result(result))
    }

    fn is_lost(&self) -> bool {
        self.is_lost()
    }

    fn lock_soon(&self) -> BoxFuture<'_, ()> {
        self.switch.handler_locks_row(self.env.store.capabilities().lock_patience).boxed()
    }

    fn is_held(&self) -> BoxFuture<'_, Result<bool, Error>> {
        let RunningRow { hold, worker, .. } = self.row();
        async move { Ok(!self.env.store.still_held(worker, &[hold]).await?.is_empty()) }.boxed()
    }
}

/// What is to be recorded of an attempt.
pub(crate) enum Ended {
    Known(End),
    /// The handler completed the job in a transaction of its own: whether that was committed is still to be read.
    Unsettled(Arc<Attempt>, Raw),
}

impl Ended {
    pub(crate) fn hold(&self) -> Hold {
        match self {
            Self::Known(end) => end.hold,
            Self::Unsettled(attempt, _) => attempt.job.hold(),
        }
    }

    /// The arguments did not decode, and another worker may be able to.
    pub(crate) fn is_misfit(&self) -> bool {
        matches!(self, Self::Known(End { outcome: AttemptOutcome::Undecodable, to: Destination::Requeue { .. }, .. }))
    }
}

impl From<End> for Ended {
    fn from(end: End) -> Self {
        Self::Known(end)
    }
}

/// How an attempt ended whose handler completed the job itself.
pub(crate) enum Settled {
    /// The job is gone: there is nothing to write. The result is what the handler returned.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "only tests look at the result"))]
    Completed { result: Option<String> },
    /// As the transaction was not committed.
    Ended(End),
    /// The lease was lost, so there is nothing to record.
    Lost,
}
