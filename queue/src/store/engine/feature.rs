//! Features: what jobs can do beyond running once, such as unique keys or limits.
//!
//! A feature owns its tables, a folder with its statements, its steps at the edges of a job's life, and its duty. A row
//! names the features that its job uses (`features`, one bit for each). So every process that has the feature runs its
//! steps, whether or not it serves the job's kind. A job that uses no feature sends no statement more than without any.
//!
//! A build that does not know a bit skips the steps of that feature, as during a rolling deployment. A feature's duty
//! must therefore mend what such a skip leaves.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::Error;

use crate::store::engine::dialect::{Dialect, execute, ids, json};
use crate::store::engine::savepoint::Together;
use crate::store::values::{Features, Hold, NewJob, Whose};

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
    PutBack,
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
pub(crate) struct Feature<DB: Dialect> {
    /// In log lines.
    pub(crate) name: &'static str,
    /// Its bit in `features`. It never changes and is never used again.
    pub(crate) bit: Features,
    /// Its statements at each edge. They run after the statements of the edge itself, in the same transaction, and with
    /// one value: a list of `{id, fence}`, of the jobs that use the feature. Where there is no attempt, `fence` is 0.
    pub(crate) steps: &'static [(Edge, &'static [&'static str])],
    pub(crate) duty: Option<Duty<DB>>,
}

/// Background work of a feature. Every worker does it, so rounds of several workers must not disturb each other.
pub(crate) struct Duty<DB: Dialect> {
    /// The pause between two rounds, with jitter.
    pub(crate) every: Duration,
    /// One bounded round, in a transaction.
    pub(crate) round: for<'c> fn(&'c mut DB::Connection) -> BoxFuture<'c, Result<(), Error>>,
}

/// The features with steps at this edge that one of these jobs uses.
fn used<DB: Dialect>(
    edge: Edge,
    jobs: impl Iterator<Item = Features> + Clone,
) -> impl Iterator<Item = (Features, &'static [&'static str])> {
    DB::FEATURES.iter().filter_map(move |feature| {
        let (_, steps) = feature.steps.iter().find(|(at, _)| *at == edge)?;
        jobs.clone().any(|features| features.has_any_of(feature.bit)).then_some((feature.bit, *steps))
    })
}

/// Whether any feature has a step at this edge.
pub(crate) fn acts_at<DB: Dialect>(edge: Edge) -> bool {
    DB::FEATURES.iter().any(|feature| feature.steps.iter().any(|(at, _)| *at == edge))
}

/// Whether a feature has a step at this edge for one of these jobs.
pub(crate) fn has_steps<DB: Dialect>(edge: Edge, jobs: impl Iterator<Item = Features> + Clone) -> bool {
    used::<DB>(edge, jobs).next().is_some()
}

/// Runs the steps of an edge, in its transaction. Returns the ids that the last statement of each feature returned, at
/// [`Edge::Admit`].
pub(crate) async fn run_steps<DB: Dialect>(
    conn: &mut DB::Connection,
    edge: Edge,
    jobs: &[Hold],
) -> Result<Vec<i64>, Error> {
    #[derive(serde::Serialize)]
    struct Told {
        id: i64,
        fence: i32,
    }
    let mut returned = Vec::new();
    for (bit, steps) in used::<DB>(edge, jobs.iter().map(|job| job.features)) {
        let told =
            jobs.iter().filter(|job| job.features.has_any_of(bit)).map(|job| Told { id: job.id, fence: job.fence });
        let list = json(&told.collect::<Vec<_>>());
        let binds = [list.as_str().into()];
        let (last, others) = steps.split_last().expect("a feature has statements where it acts");
        for sql in others {
            execute::<DB>(conn, sql, &binds).await?;
        }
        if edge == Edge::Admit {
            returned.extend(ids::<DB>(conn, last, &binds).await?);
        } else {
            execute::<DB>(conn, last, &binds).await?;
        }
    }
    Ok(returned)
}

/// Inserts jobs with the steps of their features. See [`Dialect::insert`].
pub(crate) async fn insert<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    whose: Whose,
) -> Result<Vec<i64>, Error> {
    if !has_steps::<DB>(Edge::Enqueue, jobs.iter().map(|job| job.features)) {
        return DB::insert(conn, jobs, whose).await;
    }
    let mut together = Together::<DB>::begin(conn, whose).await?;
    let ids = insert_with_steps::<DB>(together.connection(), jobs).await;
    together.end(ids).await
}

async fn insert_with_steps<DB: Dialect>(conn: &mut DB::Connection, jobs: &[NewJob]) -> Result<Vec<i64>, Error> {
    let ids = DB::insert(conn, jobs, Whose::InTransaction).await?;
    let inserted = ids.iter().zip(jobs).map(|(&id, job)| Hold { id, fence: 0, features: job.features });
    let inserted: Vec<_> = inserted.filter(|job| job.features != Features::NONE).collect();
    let marked: Vec<_> = inserted.iter().map(|job| [job.id, job.features.into()]).collect();
    execute::<DB>(conn, DB::MARK_FEATURES, &[json(&marked).as_str().into()]).await?;
    run_steps::<DB>(conn, Edge::Enqueue, &inserted).await?;
    Ok(ids)
}
