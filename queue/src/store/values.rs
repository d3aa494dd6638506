//! What crosses the seam between the workers and the database.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::id::JobId;

/// On whose connection jobs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The caller's, which may be in a transaction: by sqlx, or by SQL of which sqlx knows nothing.
    Callers,
    /// One that was taken from the pool for these jobs alone. Whether it is in a transaction need not be asked.
    Pools,
}

/// The row of a worker process in `queue_workers`; never zero.
pub(crate) type WorkerId = i64;

/// What a worker says of itself when it joins.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NewWorker {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) concurrency: u32,
    /// Empty: all queues.
    pub(crate) queues: Vec<String>,
    pub(crate) kinds: Vec<String>,
}

/// What a worker says with its heartbeat: of the jobs that it holds, and of the next one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Holding<'a> {
    /// It holds some, running or not.
    pub(crate) any: bool,
    /// Those that run: of these it wants to hear when they are to be cancelled. Named, because the way from a worker to its
    /// jobs leads over the remains of all that it ever held while an old snapshot keeps them.
    pub(crate) running: &'a [i64],
    /// Its claims of which it holds nothing any more, by what was acknowledged in the session of the last heartbeat.
    pub(crate) settled: &'a [i64],
    /// All its claims are to be looked at: of one whose answer was lost it knows nothing.
    pub(crate) check: bool,
    /// The next heartbeat comes within this time.
    pub(crate) again_in: Duration,
}

/// The database's answer to a heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Beat {
    /// False: this worker was declared dead and holds nothing any more.
    pub(crate) alive: bool,
    /// Running jobs that somebody asked to cancel, with the fence under which they are held.
    pub(crate) cancelled: Vec<(JobId, i32)>,
    /// The leases of other workers.
    pub(crate) leases: Vec<Lease>,
    /// Jobs wait that it was told to look for.
    pub(crate) work: bool,
    /// Which session of the server saw the others: another number, another session.
    pub(crate) session: u64,
    /// The sessions of those whose lease runs; none where sessions say nothing.
    pub(crate) others: Vec<Sight>,
    /// The lock that says that this worker lives is still to be taken.
    pub(crate) unheld: bool,
    /// Whoever comes later can tell, too, when this worker's session has ended.
    pub(crate) vouched: bool,
}

/// Another worker's lease, as a heartbeat sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) worker: WorkerId,
    /// When it last beat, by the database's clock: microseconds since 1970.
    pub(crate) heartbeat: i64,
    /// In how many microseconds it runs out by that clock; negative: it has.
    pub(crate) left: i64,
    /// For how many it was given with that heartbeat.
    pub(crate) given: i64,
}

/// Another worker's session, as a heartbeat sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) id: WorkerId,
    /// A session holds the lock that says that it lives.
    pub(crate) held: bool,
    /// A session holds the lock that says that it holds jobs.
    pub(crate) busy: bool,
    /// When it last beat, by the database's clock: microseconds since 1970.
    pub(crate) heartbeat: i64,
    /// By its row a session held that lock when it last beat, and the server has kept its sessions since.
    pub(crate) had: bool,
    /// For how long its next heartbeat has been due, in microseconds by the database's clock; negative before it is.
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

/// Waiting jobs of one kind, queue and priority: they stand side by side in the claim index, by due time and id, so that
/// a claim never walks rows that it may not take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    pub(crate) kind: Arc<str>,
    pub(crate) queue: Arc<str>,
    pub(crate) priority: i16,
}

/// A lane with rows in it, as the skip scan found it. Lanes of paused queues are left out.
#[derive(Debug, Clone)]
pub(crate) struct LaneHead {
    pub(crate) lane: Lane,
    /// Where the first row is, or before it: due at that time, its id may be a later one.
    pub(crate) first: Place,
    /// Time until it is due; zero when that has come.
    pub(crate) due_in: Duration,
}

/// What a look has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) heads: Vec<LaneHead>,
    /// The last lane that it has seen of each kind that has more: the next look goes on behind these. Empty: it has
    /// seen all.
    pub(crate) stopped: Vec<Lane>,
    /// How long the database took, without the network.
    pub(crate) took: Duration,
}

/// A place in a lane: the due time (microseconds since 1970) and id of a row. Where the newest come first, both count
/// backwards (−1 − id), so that there, too, the next row has the least place.
pub(crate) type Place = (i64, i64);

/// Where a row stands in the order of all lanes: its priority, then its place.
pub(crate) type Rank = (i16, Place);

/// How many jobs to take from one lane, and where to start.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) lane: Lane,
    pub(crate) take: u32,
    /// Start behind this place (first-in-first-out only): entries before it were taken earlier, and walking their
    /// remains again is what makes queues slow.
    pub(crate) behind: Option<Place>,
    /// Where its first row is that is due, or before it, when it need not be asked how many are (not where the newest come
    /// first): a comparison has just told, or the last claim got all that it asked for, up to there.
    pub(crate) first: Option<Place>,
    pub(crate) newest_first: bool,
    /// Stored with rows that name no number of retries.
    pub(crate) max_retries: u32,
}

/// How far to look in the order of all lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// No more jobs than these.
    pub(crate) most: u32,
    /// So many in any case …
    pub(crate) least: u32,
    /// … and beyond them those that come before this: from there on, other lanes may have the next one.
    pub(crate) before: Option<Rank>,
    /// What comes there or later is not read at all, so that it need not be counted; it may be read where the newest come
    /// first, and to the fraction of a millisecond.
    pub(crate) until: Option<Rank>,
}

/// What a lane has of the next jobs of all lanes that were asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// So many of those that are within reach …
    pub(crate) count: u32,
    /// … and so many of them that come before other lanes, whatever is in those.
    pub(crate) sure: u32,
    /// And so many in all, within reach or not.
    pub(crate) all: u32,
    /// Where the first and the last of them are, or before that: due at those times, their ids may be later ones. None: it has none
    /// of them.
    pub(crate) ends: Option<(Place, Place)>,
}

impl Reach {
    /// `most, least, priority, time, id`.
    pub(crate) fn numbers(&self) -> [i64; 5] {
        let [priority, time, id] = Self::rank(self.before);
        [self.most.into(), self.least.into(), priority, time, id]
    }

    /// A priority, time and id; behind all that there are for none.
    pub(crate) fn rank(rank: Option<Rank>) -> [i64; 3] {
        rank.map_or([i64::MAX, 0, 0], |(priority, (time, id))| [priority.into(), time, id])
    }

    /// Before what place jobs of a lane are read.
    #[cfg(any(feature = "mysql", feature = "sqlite"))]
    pub(crate) fn end_in(&self, lane: &Lane) -> Place {
        match self.until {
            Some((priority, place)) if lane.priority == priority => place,
            Some((priority, _)) if lane.priority > priority => (i64::MIN, i64::MIN),
            _ => NEVER,
        }
    }
}

/// After every place that is due: the year 9999 is the last that each engine can compute with.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) const NEVER: Place = (253_402_300_799_000_000, i64::MIN);

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
    /// JSON; only its size where that is over [`ARGS_AT_CLAIM_BYTES`](crate::limits::ARGS_AT_CLAIM_BYTES): then it is
    /// fetched when the attempt begins.
    pub(crate) args: Result<String, i64>,
    /// How many workers were lost with it, since an attempt of it last ended by itself.
    pub(crate) losses: u32,
    /// The number of the claim, where claims leave notes.
    pub(crate) claim: Option<i64>,
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
            claim: None,
        }
    }
}

/// How an attempt ended, in the words of `queue_attempts.outcome` (where rescue writes `lost` as well).
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

/// An attempt that begins, or has begun.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Start {
    pub(crate) id: i64,
    pub(crate) fence: i32,
    /// How many others its worker runs beside it at most; None: any number.
    pub(crate) max_neighbours: Option<u32>,
}

/// A running job that ends as completed or cancelled.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finish {
    pub(crate) id: i64,
    pub(crate) fence: i32,
    /// How long the attempt ran.
    pub(crate) ran_us: i64,
    /// `completed` or `cancelled`: the state in the history, and the attempt's outcome.
    pub(crate) state: Outcome,
    /// JSON, as text.
    pub(crate) result: Option<String>,
    /// The reason of a cancellation.
    pub(crate) error: Option<String>,
}

/// A running job that goes back to waiting: a failure with retries left, a snooze, or a give-back.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PutBack {
    pub(crate) id: i64,
    pub(crate) fence: i32,
    pub(crate) ran_us: i64,
    pub(crate) outcome: Outcome,
    /// From now until it may run again; None keeps its place (`run_at` unchanged).
    pub(crate) delay_us: Option<i64>,
    /// 0 or 1: how much of the attempt counter is given back.
    pub(crate) uncount: i32,
    /// Whether the attempt goes into `queue_attempts` (not when it never started).
    pub(crate) record: bool,
    pub(crate) error: Option<String>,
}

/// A running job that goes to the dead letters.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Bury {
    pub(crate) id: i64,
    pub(crate) fence: i32,
    pub(crate) ran_us: i64,
    pub(crate) outcome: Outcome,
    pub(crate) error: String,
}

/// What a round of rescue did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rescued {
    /// Jobs that are tried again.
    pub(crate) ready: u64,
    /// Jobs whose lost attempt was their last.
    pub(crate) dead: u64,
    /// Jobs that somebody had asked to cancel.
    pub(crate) cancelled: u64,
}

impl std::ops::AddAssign for Rescued {
    fn add_assign(&mut self, other: Self) {
        self.ready += other.ready;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
    }
}

/// A job to be written.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NewJob {
    pub(crate) kind: &'static str,
    pub(crate) queue: Cow<'static, str>,
    pub(crate) priority: i16,
    pub(crate) max_retries: i32,
    /// From now, in microseconds.
    pub(crate) delay_us: Option<i64>,
    /// Microseconds since 1970.
    pub(crate) run_at_us: Option<i64>,
    /// JSON, as text.
    pub(crate) args: String,
}
