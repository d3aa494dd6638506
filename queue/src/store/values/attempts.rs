//! A claimed job, and the ways in which its attempt ends.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::metadata::Metadata;
use crate::state::JobId;
use crate::store::values::lanes::Lane;
use crate::store::values::workers::WorkerId;

/// A job that a worker holds, as every write of the attempt names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Hold {
    pub(crate) id: i64,
    /// The number of the claim.
    pub(crate) fence: i32,
}

impl Hold {
    /// The id and the fence.
    pub(crate) fn key(self) -> (i64, i32) {
        (self.id, self.fence)
    }
}

/// A job that a worker has claimed, as [events](crate::telemetry::Event) name it.
#[derive(Clone)]
pub struct Claimed {
    pub(crate) id: JobId,
    /// The fence: the number of this claim of the job. Every write of the attempt names it.
    pub(crate) fence: i32,
    pub(crate) attempt: u32,
    pub(crate) max_retries: u32,
    pub(crate) lane: Lane,
    /// Microseconds since 1970.
    pub(crate) run_at: i64,
    pub(crate) enqueued_at: DateTime<Utc>,
    /// JSON. Only its size if that is over [`ARGS_AT_CLAIM_BYTES`](crate::limits::ARGS_AT_CLAIM_BYTES); then the
    /// arguments are fetched when the attempt begins.
    pub(crate) args: Result<String, i64>,
    /// How many workers were lost with it since an attempt last ended by itself.
    pub(crate) losses: u32,
    /// What was said of it beside its arguments. Else: why that cannot be read.
    pub(crate) meta: Result<Metadata, String>,
    /// The id of the claim record, on engines that have them.
    pub(crate) claim: Option<i64>,
}

impl Claimed {
    /// The job's number.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// Its kind, as stored in its row.
    pub fn kind(&self) -> &str {
        &self.lane.kind
    }

    /// Its queue.
    pub fn queue(&self) -> &str {
        &self.lane.queue
    }

    /// The number of the attempt; 1 is the first.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Its [metadata](crate::Job::meta). Empty if it has none.
    pub fn meta(&self) -> &BTreeMap<String, String> {
        self.metadata().map()
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        const NONE: &Metadata = &Metadata::NONE;
        self.meta.as_ref().unwrap_or(NONE)
    }

    pub(crate) fn hold(&self) -> Hold {
        Hold { id: self.id.get(), fence: self.fence }
    }
}

#[cfg(test)]
impl Claimed {
    /// For tests: the first attempt of three, of a job without arguments.
    pub(crate) fn example(lane: Lane, run_at: i64, id: i64) -> Self {
        Self {
            id: id.into(),
            fence: 1,
            attempt: 1,
            max_retries: 2,
            lane,
            run_at,
            enqueued_at: Utc::now(),
            args: Ok("null".into()),
            losses: 0,
            meta: Ok(Metadata::default()),
            claim: None,
        }
    }
}

/// Without its arguments, which may be private.
impl std::fmt::Debug for Claimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claimed")
            .field("id", &self.id)
            .field("fence", &self.fence)
            .field("attempt", &self.attempt)
            .field("kind", &self.lane.kind)
            .field("queue", &self.lane.queue)
            .finish_non_exhaustive()
    }
}

/// How an attempt ended, in the words of `queue_attempts.outcome` (where rescue writes words of its own).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// The handler returned `Ok`, or completed the job itself.
    Completed,
    /// It returned an error.
    Failed,
    /// It panicked.
    Panicked,
    /// It ran longer than its `timeout`.
    TimedOut,
    /// The arguments did not decode.
    Undecodable,
    /// Somebody cancelled the job, or the handler did.
    Cancelled,
    /// The handler wants to run later.
    Snoozed,
    /// The attempt does not count: a shutdown, or the handler did not begin.
    Released,
}

impl AttemptOutcome {
    /// The word that is stored and logged.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Panicked => "panicked",
            Self::TimedOut => "timed_out",
            Self::Undecodable => "undecodable",
            Self::Cancelled => "cancelled",
            Self::Snoozed => "snoozed",
            Self::Released => "released",
        }
    }
}

/// An attempt that begins or has begun.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Start {
    #[serde(flatten)]
    pub(crate) hold: Hold,
    /// How many other jobs its worker runs beside it at most. None: any number.
    pub(crate) max_neighbours: Option<u32>,
}

/// How an attempt ended, and where its job goes.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub(crate) hold: Hold,
    /// How long the attempt ran, in microseconds.
    pub(crate) ran_us: i64,
    pub(crate) outcome: AttemptOutcome,
    /// The error, or the reason for a cancellation or a snooze.
    pub(crate) error: Option<String>,
    pub(crate) to: Destination,
}

/// Where the job of an ended attempt goes. These are all edges out of `running`, apart from a rescue.
#[derive(Debug, Clone)]
pub(crate) enum Destination {
    /// Into the history, completed or cancelled as the outcome says.
    Finish {
        /// JSON, as text.
        result: Option<String>,
    },
    /// Back to waiting: a failure with retries left, a snooze or a release.
    Requeue {
        /// Microseconds until it may run again. None keeps `run_at`, and so its place.
        delay_us: Option<i64>,
        /// 0 or 1: what is subtracted from the attempt counter.
        uncount: i32,
        /// Whether the attempt goes into `queue_attempts`. One that never started does not.
        record: bool,
    },
    /// To the dead letters.
    Bury,
}

impl End {
    /// The job is completed, with what its handler returned, as JSON.
    pub(crate) fn completed(hold: Hold, ran_us: i64, result: Option<String>) -> Self {
        Self { hold, ran_us, outcome: AttemptOutcome::Completed, error: None, to: Destination::Finish { result } }
    }

    /// Releases a job that was never started.
    pub(crate) fn unstarted(hold: Hold) -> Self {
        Self::put_off(hold, None)
    }

    /// Releases a job that was never started, so that it is due again after so many microseconds. None: as before.
    pub(crate) fn put_off(hold: Hold, delay_us: Option<i64>) -> Self {
        let to = Destination::Requeue { delay_us, uncount: 1, record: false };
        Self { hold, ran_us: 0, outcome: AttemptOutcome::Released, error: None, to }
    }

    /// Releases a job that was running, without counting the attempt.
    pub(crate) fn released(hold: Hold, ran_us: i64) -> Self {
        let to = Destination::Requeue { delay_us: None, uncount: 1, record: true };
        Self { hold, ran_us, outcome: AttemptOutcome::Released, error: None, to }
    }

    /// What the handler returned, as JSON.
    pub(crate) fn result(&self) -> Option<&str> {
        match &self.to {
            Destination::Finish { result } => result.as_deref(),
            Destination::Requeue { .. } | Destination::Bury => None,
        }
    }
}

/// The row of a running job, as a transaction of its handler's names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningRow {
    pub(crate) hold: Hold,
    pub(crate) worker: WorkerId,
    /// Microseconds since 1970. It tells another database apart, in which the numbers could be the same.
    pub(crate) enqueued_us: i64,
}
