//! The values that the workers and the store exchange.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::id::JobId;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
use crate::limits::END_OF_9999;
use crate::unique::UniqueJob;

/// Whose connection writes the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The caller's. It may be in a transaction, begun by sqlx or by SQL that sqlx does not know of.
    Callers,
    /// Taken from the pool for these jobs alone, so it need not be checked for an open transaction.
    Pools,
    /// Either of them, in a transaction or behind a savepoint that undoes all after an error.
    InTransaction,
}

/// The row of a worker process in `queue_workers`; never zero.
pub(crate) type WorkerId = i64;

/// What a worker registers when it joins.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NewWorker {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) concurrency: u32,
    /// Empty: all queues.
    pub(crate) queues: Vec<String>,
    pub(crate) kinds: Vec<String>,
}

/// What a worker reports with its heartbeat: the jobs that it holds, and its next heartbeat.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Holding<'a> {
    /// It holds jobs, running or not.
    pub(crate) any: bool,
    /// The running jobs: the answer says which of them to cancel. They are listed, because a search by worker would
    /// walk over the dead index entries of all that it ever held, while an old snapshot keeps them.
    pub(crate) running: &'a [i64],
    /// Claims whose jobs have all ended, by what was acknowledged in the session of the last heartbeat.
    pub(crate) settled: &'a [i64],
    /// All its claim records are to be checked. It lost the answer to a claim, so it does not know that record.
    pub(crate) check: bool,
    /// The next heartbeat comes within this time.
    pub(crate) again_in: Duration,
}

/// The database's answer to a heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// False: this worker was declared lost and no longer holds anything.
    pub(crate) alive: bool,
    /// Running jobs with a cancel request, with the fence under which they are held.
    pub(crate) cancelled: Vec<(JobId, i32)>,
    /// The leases of other workers.
    pub(crate) leases: Vec<Lease>,
    /// Jobs of the requested kinds wait.
    pub(crate) work: bool,
    /// The number of the server session that saw the other workers. Another number means another session.
    pub(crate) session: u64,
    /// The sessions of the workers whose lease runs. Empty where sessions carry no information.
    pub(crate) others: Vec<Sight>,
    /// This worker does not hold the lock yet that shows that it lives.
    pub(crate) unheld: bool,
    /// Workers that start later can also tell when this worker's session has ended.
    pub(crate) vouched: bool,
}

/// Another worker's lease, as a heartbeat sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) worker: WorkerId,
    /// Its last heartbeat, by the database's clock: microseconds since 1970.
    pub(crate) heartbeat: i64,
    /// Microseconds until it runs out by that clock; negative: it has run out.
    pub(crate) left: i64,
    /// For how many microseconds that heartbeat extended it.
    pub(crate) given: i64,
}

/// Another worker's session, as a heartbeat sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) id: WorkerId,
    /// A session holds the lock that shows that the worker lives.
    pub(crate) held: bool,
    /// A session holds the lock that shows that it holds jobs.
    pub(crate) busy: bool,
    /// Its last heartbeat, by the database's clock: microseconds since 1970.
    pub(crate) heartbeat: i64,
    /// By its row, a session held the first lock at its last heartbeat, in the current run of the server.
    pub(crate) had: bool,
    /// For how many microseconds its next heartbeat has been overdue, by the database's clock; negative before it is
    /// due.
    pub(crate) late: i64,
}

/// Which rows a worker may take.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// Kinds and aliases that this worker serves.
    pub(crate) kinds: Vec<String>,
    /// Empty: every queue.
    pub(crate) queues: Vec<String>,
}

/// Waiting jobs of one kind, queue and priority. They are adjacent in the claim index, by due time and id, so that a
/// claim never walks over rows that it may not take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    pub(crate) kind: Arc<str>,
    pub(crate) queue: Arc<str>,
    pub(crate) priority: i16,
}

/// A lane with rows, as discovery found it. Lanes of paused queues are left out.
#[derive(Debug, Clone)]
pub(crate) struct LaneHead {
    pub(crate) lane: Lane,
    /// The place of the first row, or before it: the due time is exact, the id may be lower.
    pub(crate) first: Place,
    /// Time until it is due; zero if it is due.
    pub(crate) due_in: Duration,
}

/// The result of a discovery.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) heads: Vec<LaneHead>,
    /// The last lane seen of each kind that has more: the next discovery continues behind these. Empty: it has seen
    /// all.
    pub(crate) stopped: Vec<Lane>,
    /// How long the database took, without the network.
    pub(crate) took: Duration,
}

/// A place in a lane: the due time (microseconds since 1970) and id of a row. In newest-first lanes both count
/// backwards (the id as −1 − id), so that the next row always has the lowest place.
pub(crate) type Place = (i64, i64);

/// A row's position in the order of all lanes: its priority, then its place.
pub(crate) type Rank = (i16, Place);

/// How many jobs to take from one lane, and where to start.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) lane: Lane,
    pub(crate) take: u32,
    /// Start behind this place (first-in-first-out only). Rows before it were taken earlier. Walking over their dead
    /// index entries again is what makes queues slow.
    pub(crate) behind: Option<Place>,
    /// The place of its first due row, or before it (first-in-first-out only). If it is given, the due rows need not be
    /// counted first. A preview has just counted them, or the last claim up to this place got all that it asked for.
    pub(crate) first: Option<Place>,
    pub(crate) newest_first: bool,
    /// Stored in rows without a number of retries.
    pub(crate) max_retries: u32,
}

/// How far a preview reads in the order of all lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// It counts at most this many jobs.
    pub(crate) most: u32,
    /// This many count in any case …
    pub(crate) least: u32,
    /// … and, beyond them, those before this rank. From there on, other lanes may have the next job.
    pub(crate) before: Option<Rank>,
    /// Jobs from this rank on are not read, so they cost nothing. Newest-first lanes may still read them, and the bound
    /// is only exact to the millisecond.
    pub(crate) until: Option<Rank>,
}

/// A lane's share of the next jobs of all given lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// How many of them are within reach …
    pub(crate) count: u32,
    /// … and how many of those come before all other lanes, whatever these contain.
    pub(crate) sure: u32,
    /// How many there are in all, within reach or not.
    pub(crate) all: u32,
    /// The places of the first and the last of them, or before: the due times are exact, the ids may be lower. None:
    /// there are none.
    pub(crate) ends: Option<(Place, Place)>,
}

impl Reach {
    /// `most, least, priority, time, id`.
    pub(crate) fn numbers(&self) -> [i64; 5] {
        let [priority, time, id] = Self::rank(self.before);
        [self.most.into(), self.least.into(), priority, time, id]
    }

    /// The priority, time and id. For none, a rank behind all others.
    pub(crate) fn rank(rank: Option<Rank>) -> [i64; 3] {
        rank.map_or([i64::MAX, 0, 0], |(priority, (time, id))| [priority.into(), time, id])
    }

    /// The place at which to stop reading a lane.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn end_in(&self, lane: &Lane) -> Place {
        match self.until {
            Some((priority, place)) if lane.priority == priority => place,
            Some((priority, _)) if lane.priority > priority => (i64::MIN, i64::MIN),
            _ => NEVER,
        }
    }
}

/// After every due place: 9999 is the last year that each engine can compute with.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const NEVER: Place = (END_OF_9999, i64::MIN);

/// The features of this library that a job uses: one bit for each. This build ignores bits that it does not know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Features(u16);

impl From<Features> for i64 {
    fn from(features: Features) -> Self {
        features.0.into()
    }
}

impl Features {
    pub(crate) const NONE: Self = Self(0);

    /// As the database has it. A row may hold any number.
    pub(crate) fn of(column: i64) -> Self {
        Self((column & i64::from(u16::MAX)) as u16)
    }

    /// Unique jobs.
    pub(crate) const UNIQUE: Self = Self::bit(0);

    pub(crate) fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    pub(crate) const fn bit(number: u32) -> Self {
        assert!(number < 15, "the column has 16 bits, one of them for the sign");
        Self(1 << number)
    }

    pub(crate) const fn has_any_of(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

/// A job that a worker holds, as every write of the attempt names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Hold {
    pub(crate) id: i64,
    /// The number of the claim.
    pub(crate) fence: i32,
    #[serde(skip)]
    pub(crate) features: Features,
}

impl Hold {
    /// Of a job that uses no feature.
    #[cfg(test)]
    pub(crate) fn example(id: i64, fence: i32) -> Self {
        Self { id, fence, features: Features::NONE }
    }

    /// The id and the fence.
    pub(crate) fn key(self) -> (i64, i32) {
        (self.id, self.fence)
    }
}

/// A job as it was claimed.
#[derive(Debug, Clone)]
pub(crate) struct Claimed {
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
    pub(crate) features: Features,
    /// The id of the claim record, on engines that have them.
    pub(crate) claim: Option<i64>,
}

impl Claimed {
    pub(crate) fn hold(&self) -> Hold {
        Hold { id: self.id.get(), fence: self.fence, features: self.features }
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
            features: Features::NONE,
            claim: None,
        }
    }
}

/// How an attempt ended, in the words of `queue_attempts.outcome` (where rescue writes words of its own).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Completed,
    Failed,
    Panicked,
    TimedOut,
    Undecodable,
    Cancelled,
    Snoozed,
    Released,
}

impl Outcome {
    /// The word that is stored and logged.
    pub(crate) const fn as_str(self) -> &'static str {
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

/// A running job that ends as completed or cancelled.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finish {
    #[serde(flatten)]
    pub(crate) hold: Hold,
    /// How long the attempt ran, in microseconds.
    pub(crate) ran_us: i64,
    /// `completed` or `cancelled`: the state in the history, and the attempt's outcome.
    pub(crate) state: Outcome,
    /// JSON, as text.
    pub(crate) result: Option<String>,
    /// The reason for a cancellation.
    pub(crate) error: Option<String>,
}

/// The end of an attempt in a transaction of its handler's.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    pub(crate) hold: Hold,
    pub(crate) worker: WorkerId,
    /// Microseconds since 1970. It tells another database apart, in which the numbers could be the same.
    pub(crate) enqueued_us: i64,
    pub(crate) ran_us: i64,
    /// JSON, as text.
    pub(crate) result: Option<String>,
}

/// A running job that returns to waiting: a failure with retries left, a snooze or a release.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Requeue {
    #[serde(flatten)]
    pub(crate) hold: Hold,
    pub(crate) ran_us: i64,
    pub(crate) outcome: Outcome,
    /// Microseconds until it may run again. None keeps `run_at`, and so its place.
    pub(crate) delay_us: Option<i64>,
    /// 0 or 1: what is subtracted from the attempt counter.
    pub(crate) uncount: i32,
    /// Whether the attempt goes into `queue_attempts`. One that never started does not.
    pub(crate) record: bool,
    pub(crate) error: Option<String>,
}

/// A running job that goes to the dead letters.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Bury {
    #[serde(flatten)]
    pub(crate) hold: Hold,
    pub(crate) ran_us: i64,
    pub(crate) outcome: Outcome,
    pub(crate) error: String,
}

/// The result of one rescue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rescued {
    /// Jobs that are retried.
    pub(crate) ready: u64,
    /// Jobs whose lost attempt was their last.
    pub(crate) dead: u64,
    /// Jobs with a cancel request.
    pub(crate) cancelled: u64,
}

impl std::ops::AddAssign for Rescued {
    fn add_assign(&mut self, other: Self) {
        self.ready += other.ready;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
    }
}

/// A job to insert.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NewJob {
    pub(crate) kind: Cow<'static, str>,
    pub(crate) queue: Cow<'static, str>,
    pub(crate) priority: i16,
    pub(crate) max_retries: i32,
    /// From now, in microseconds.
    pub(crate) delay_us: Option<i64>,
    /// Microseconds since 1970.
    pub(crate) run_at_us: Option<i64>,
    /// JSON, as text.
    pub(crate) args: String,
    #[serde(skip_serializing_if = "Features::is_none")]
    pub(crate) features: Features,
    #[serde(skip)]
    pub(crate) unique: Option<Box<UniqueJob>>,
}

impl NewJob {
    /// How a unique job is unique.
    pub(crate) fn rule(&self) -> &UniqueJob {
        self.unique.as_deref().expect("a job that wants a key is unique")
    }
}

/// A dead letter that cannot be sent back, because another job has its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) id: i64,
    pub(crate) key: String,
    pub(crate) holder: i64,
}

/// Why jobs were not written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    Sql(sqlx::Error),
    /// A job that must not be enqueued twice. `existing` has its key. None: another job of the batch.
    Duplicate {
        key: String,
        existing: Option<i64>,
    },
}

impl From<sqlx::Error> for Unwritten {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}
