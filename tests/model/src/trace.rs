//! A trace of a real database and real workers. Triggers record every change of a row. The processes record each return
//! of a handler, so that the end of an attempt is not proved only by a worker's write.

use std::collections::{HashMap, HashSet};
use std::fmt;

/// What a row of `queue_jobs` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// `worker_id`
    pub worker: i64,
    /// `fence`
    pub fence: u32,
    /// `attempt`
    pub attempt: i32,
}

/// A change of a row.
#[derive(Clone, Debug)]
pub enum What {
    /// A row of `queue_jobs` is new.
    Added(Holding),
    /// A row of `queue_jobs` was one thing and is another; and whether somebody has asked to cancel the job.
    Changed(Holding, Holding, bool),
    /// A row of `queue_jobs` is gone.
    Removed(Holding),
    /// A row of `queue_history` or `queue_dead` is new.
    Over(Holding, String),
    /// A row of `queue_attempts` is new.
    Attempt(String),
    /// A handler's effect is committed, of this attempt.
    Effect(i32),
    /// A worker joins: its process, and when its lease ends.
    Joins(i64, i64),
    /// A worker's lease is extended to then.
    Beats(i64),
    /// A worker left, or was declared gone.
    Stops,
}

/// A change, when and where.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its transaction, where the engine tells.
    pub transaction: String,
    /// By the database's clock, in microseconds.
    pub at: i64,
    /// The job, or the worker.
    pub id: i64,
    /// The change.
    pub what: What,
    /// `max_retries`, in rows of `queue_jobs`.
    pub retries: Option<i32>,
    /// `run_at`, in rows of `queue_jobs`.
    pub run_at: i64,
}

/// All that was seen.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// In the order of the changes.
    pub events: Vec<Event>,
    /// Handlers that returned: job, attempt, process.
    pub returned: HashSet<(i64, i32, i64)>,
    /// Processes that were killed, and when.
    pub killed: HashMap<i64, i64>,
    /// Workers that gave their numbers up themselves, by their own word, and when they said so.
    pub left: HashMap<i64, i64>,
}

/// A change that the model does not allow.
#[derive(Debug)]
pub struct Refused {
    /// The last change that belongs to it.
    pub event: Box<Event>,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.why, self.event)
    }
}

impl Event {
    pub(crate) fn is_of_worker(&self) -> bool {
        matches!(self.what, What::Joins(..) | What::Beats(_) | What::Stops)
    }

    /// Without transactions, the row of `queue_jobs` is what each script changes last.
    pub(crate) fn ends_its_group(&self, later: &[Event]) -> bool {
        if self.transaction.is_empty() {
            return matches!(self.what, What::Added(_) | What::Changed(..) | What::Removed(_));
        }
        let is_of_row = |event: &&Event| !event.is_of_worker() && !matches!(event.what, What::Effect(_));
        let next = later.iter().filter(is_of_row).find(|event| event.id == self.id);
        next.is_none_or(|event| event.transaction != self.transaction)
    }
}
