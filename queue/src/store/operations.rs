//! What the administration and the database exchange about operations.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::operations::{Action, Note, Operation, Spread};
use crate::state::JobState;

/// A change of some jobs.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) action: Action,
    pub(crate) ids: Vec<i64>,
    /// The state that the jobs were listed with.
    pub(crate) listed: Option<JobState>,
    pub(crate) spread: Option<Spread>,
    /// Of an edit.
    pub(crate) args: BTreeMap<i64, NewArgs>,
    pub(crate) record: Record,
}

/// What becomes of a job's arguments.
#[derive(Debug, Clone)]
pub(crate) struct NewArgs {
    /// JSON.
    pub(crate) args: String,
    /// Only if they are this now.
    pub(crate) was: Option<String>,
}

/// What is written in the transaction of a change.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    Nothing,
    /// A whole operation, if anything changes.
    Note(Note),
    /// A step of an operation: it was at this job, and is at that one. It keeps what it does not change. If both are
    /// the same, it tries again what it could not change.
    Step {
        operation: i64,
        from: i64,
        to: i64,
    },
}

/// A job that an operation could not change.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Refused {
    pub(crate) id: i64,
    pub(crate) reason: String,
}

/// The reason of a job that an operation could not reach. It tries again at its end.
pub(crate) const LOCKED: &str = "an open transaction has locked it";

/// An operation as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Saved {
    pub(crate) operation: Operation,
    /// Its details as JSON.
    pub(crate) task: String,
    /// It has looked at the jobs up to this one.
    pub(crate) last_id: i64,
}
