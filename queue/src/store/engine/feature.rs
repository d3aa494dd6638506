//! Features: what jobs can do beyond running once.
//!
//! No feature has steps yet, except the ledger in the tests. Unique jobs use only their bit. They act when a job is
//! enqueued or sent back, in [`unique`](crate::store::engine::unique).
//!
//! A feature owns its tables, a folder with its statements, its steps at the edges of a job's life, and its duty. A row
//! names the features that its job uses (`features`, one bit for each). So every process that has the feature runs its
//! steps, whether or not it serves the job's kind. A job that uses no feature sends no statement more than without any.
//!
//! A build that does not know a bit skips the steps of that feature, as during a rolling deployment. A feature's duty
//! must therefore mend what such a skip leaves.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::{Database, Error};

use crate::store::values::Features;

/// A moment in a job's life at which features may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The job was inserted, in this transaction. It may be the caller's.
    Enqueue,
    /// The job was just claimed. This edge has a transaction of its own, before the job can start. Its last statement
    /// returns the ids of the jobs that may not start now, after it has put them aside.
    Admit,
    /// The attempt is known to have begun.
    Start,
    /// The attempt ended as completed or cancelled.
    Finish,
    /// The job was released, snoozed, or will be retried. If its cancellation was requested, it is in the history now.
    Requeue,
    /// The job became a dead letter.
    Bury,
    /// The job's worker was lost. The job waits again, or is over.
    Rescue,
    /// Somebody cancels the job. It is in the history now, or still runs and is marked.
    Cancel,
    /// The dead letter waits again.
    SendBack,
    /// Somebody deleted the job.
    Delete,
    /// Retention removed the job.
    Purge,
}

/// A feature on one engine.
pub(crate) struct Feature<DB: Database> {
    /// In log lines.
    pub(crate) name: &'static str,
    /// Its bit in `features`. It never changes and is never used again.
    pub(crate) bit: Features,
    /// Its statements at each edge. They run after the statements of the edge itself, in the same transaction, and with
    /// one value: a list of `{id, fence}`, of the jobs that use the feature. Where there is no attempt, `fence` is 0.
    pub(crate) steps: &'static [(Edge, &'static [&'static str])],
    pub(crate) duty: Option<Background<DB>>,
}

/// Background work of a feature. Every worker does it, so rounds of several workers must not disturb each other.
pub(crate) struct Background<DB: Database> {
    /// The pause between two rounds, with jitter.
    pub(crate) every: Duration,
    /// One bounded round, in a transaction.
    pub(crate) round: for<'c> fn(&'c mut DB::Connection) -> BoxFuture<'c, Result<(), Error>>,
}
