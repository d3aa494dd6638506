//! Many jobs at once, or unique ones.

use sqlx::{Error, Pool};
use tokio::time::timeout;

use crate::enqueue::group::desk::DeskOf;
use crate::enqueue::group::insert::{LIMIT, given_up, insert};
use crate::store::engine::connection::notify::{self, Signals};
use crate::store::engine::connection::write_queue::{Errand, Turns};
use crate::store::engine::dialect::Dialect;
use crate::store::values::{NewJob, Unwritten};
use crate::unique::Enqueued;

/// Writes many jobs, or unique ones, all or none. It runs in its own task, so that a dropped future leaves no
/// connection inside a transaction. The kept connection saves the pool's two liveness checks, before and after.
pub(crate) async fn write_all<DB: Dialect + Signals>(
    pool: Pool<DB>,
    jobs: Vec<NewJob>,
) -> Result<Vec<Enqueued>, Unwritten> {
    let task = tokio::spawn(async move {
        let (place, turns) = (DeskOf::of(&pool), Turns::of(&pool));
        let (mut conn, _) = place.connection().await?;
        let turn = turns.next(Errand::Other).await;
        let is_plain = jobs.iter().all(|job| job.unique.is_none());
        let written = insert(&mut conn, &turns, turn, &jobs, None);
        let enqueued = match is_plain {
            true => written.await?,
            // somebody may hold a key for ever
            false => match timeout(LIMIT, written).await {
                Ok(enqueued) => enqueued?,
                Err(_) => return Err(given_up(&mut conn).into()),
            },
        };
        place.keep(conn);
        notify::committed(&pool, false);
        Ok(enqueued)
    });
    match task.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::WorkerCrashed.into()), // the runtime is shutting down
        },
    }
}
