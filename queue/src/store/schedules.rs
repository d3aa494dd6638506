//! What schedules ask of a database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::schedule::definition::Definition;
use crate::schedule::plan::{KnownKind, Row};
use crate::store::Reply;
use crate::store::values::WorkerId;

/// The kinds that a worker knows.
pub(crate) type Kinds = Arc<HashMap<String, KnownKind>>;

/// A worker, as schedules see it.
#[derive(Debug, Clone)]
pub(crate) struct Scheduler {
    pub(crate) worker: WorkerId,
    pub(crate) app: Arc<str>,
}

/// What a look found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Schedules that are due.
    pub(crate) due: Vec<i64>,
    /// When the next one is due, if that is soon.
    pub(crate) next: Option<Duration>,
    /// When the worker's process joined first. None: the worker is not registered.
    pub(crate) since: Option<i64>,
    /// The worker is the latest live one of its application.
    pub(crate) decides: bool,
    /// Of what the application declares now.
    pub(crate) digest: Option<String>,
    /// Schedules of other kinds that have been due for a minute.
    pub(crate) orphans: Vec<i64>,
}

/// What became of schedules that were due.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fired {
    /// How many were due and not locked by anybody else.
    pub(crate) locked: usize,
    /// How many of these were left for the next transaction.
    pub(crate) left: usize,
    pub(crate) jobs: usize,
    /// Names and errors of those that cannot be fired.
    pub(crate) failed: Vec<(String, String)>,
}

/// What became of the schedules that an application declares.
#[derive(Debug, Clone, Default)]
pub(crate) struct Converged {
    pub(crate) written: Vec<String>,
    pub(crate) retired: Vec<String>,
    /// Names that belong to another application (empty: they were made at run time), which stay as they are.
    pub(crate) conflicts: Vec<(String, String)>,
}

/// What was found under a name.
pub(crate) type Named<T> = Result<T, NotThere>;

/// Why a schedule cannot be changed.
#[derive(Debug, Clone)]
pub(crate) enum NotThere {
    Unknown,
    /// The code of this application declares it.
    Declared(String),
}

/// A tick in the history.
#[derive(Debug, Clone)]
pub(crate) struct Noted {
    pub(crate) tick: i64,
    pub(crate) job_id: Option<i64>,
    pub(crate) outcome: String,
    pub(crate) skipped: i64,
    pub(crate) note: Option<String>,
    pub(crate) at: i64,
}

/// A change of a schedule by the administration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Pause,
    Resume,
    Remove,
}

/// Everything that schedules ask of a database. `ahead`: how many microseconds their time is ahead of the clock, in
/// tests.
pub(crate) trait ScheduleStore: Send + Sync + 'static {
    /// The one statement that is sent again and again. Takes no locks.
    fn look<'a>(&'a self, by: &'a Scheduler, kinds: &'a [String], ahead: i64) -> Reply<'a, Seen>;

    /// Makes the worker one of those that decide for its application. Since when: the last answer of
    /// [`look`](Self::look), or now.
    fn register<'a>(&'a self, by: &'a Scheduler, since: Option<i64>) -> Reply<'a, ()>;

    /// Fires those schedules that are due and locked by nobody else. Their jobs, the history of their ticks and their
    /// next ticks are one transaction.
    fn fire<'a>(&'a self, ids: &'a [i64], kinds: &'a Kinds, ahead: i64) -> Reply<'a, Fired>;

    /// Fires all ticks of a schedule up to so far ahead, as if each were on time. Returns how many.
    #[cfg(feature = "testing")]
    fn fire_on_time<'a>(&'a self, id: i64, kinds: &'a Kinds, ahead: i64) -> Reply<'a, usize>;

    /// Passes over the ticks of schedules whose kind no live worker knows.
    fn pass_orphans<'a>(&'a self, ids: &'a [i64], ahead: i64) -> Reply<'a, Fired>;

    /// Writes what an application declares, and retires what it does not declare any more, if the worker is still its
    /// latest one.
    fn converge<'a>(
        &'a self,
        by: &'a Scheduler,
        declared: &'a Arc<[Definition]>,
        digest: &'a str,
    ) -> Reply<'a, Converged>;

    /// Removes up to `limit` ticks that are older than `keep`, and retired schedules without ticks.
    fn purge_ticks(&self, keep: Duration, limit: u32) -> Reply<'_, u64>;

    /// Writes a schedule that no code declares.
    fn define<'a>(&'a self, definition: &'a Definition) -> Reply<'a, Named<()>>;

    fn change<'a>(&'a self, name: &'a str, change: Change) -> Reply<'a, Named<()>>;

    /// Enqueues the job of a schedule now, whatever its ticks are. `max_retries`: if the row says nothing.
    fn fire_by_hand<'a>(&'a self, name: &'a str, max_retries: fn(&str) -> u32) -> Reply<'a, Named<i64>>;

    /// Schedules by name, and whether a live worker knows their kind.
    fn list<'a>(&'a self, after: &'a str, limit: u32) -> Reply<'a, Vec<(Row, bool)>>;

    fn history<'a>(&'a self, name: &'a str, before: i64, limit: u32) -> Reply<'a, Named<Vec<Noted>>>;

    /// The tick that a job stands for: the schedule's name, the tick, and its outcome.
    fn tick_of(&self, job: i64) -> Reply<'_, Option<(String, i64, String)>>;
}
