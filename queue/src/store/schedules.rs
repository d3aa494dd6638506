//! The values of what schedules ask of a database.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::schedule::plan::KnownKind;
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
    pub(crate) jobs: usize,
    /// Names and errors of those that cannot be fired.
    pub(crate) failed: Vec<(String, String)>,
}

impl Fired {
    pub(crate) fn add(&mut self, other: Self) {
        self.locked += other.locked;
        self.jobs += other.jobs;
        self.failed.extend(other.failed);
    }
}

/// What became of the schedules that an application declares.
#[derive(Debug, Clone, Default)]
pub(crate) struct Converged {
    pub(crate) written: Vec<String>,
    pub(crate) retired: Vec<String>,
    /// Names that belong to another application (empty: they were made at run time), which stay as they are.
    pub(crate) conflicts: Vec<(String, String)>,
    /// Names and errors of those that the database refuses. As long as there is one, none is retired.
    pub(crate) refused: Vec<(String, String)>,
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
