//! Many jobs at once, or unique ones.

use sqlx::pool::PoolConnection;
use sqlx::{Error, Pool};
use tokio::time::{sleep, timeout};

use crate::enqueue::group::desk::DeskOf;
use crate::enqueue::group::insert::{LIMIT, TRIES, given_up, pause};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::enqueue::enqueue;
use crate::store::engine::notify::{self, Signals};
use crate::store::engine::write_queue::{Errand, Turns};
use crate::store::values::{NewJob, Unwritten, Whose};
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
        let enqueued = match jobs.iter().any(|job| job.unique.is_some()) {
            false => enqueue_all(&mut conn, &turns, &jobs).await?,
            // somebody may hold a key for ever
            true => match timeout(LIMIT, enqueue_all(&mut conn, &turns, &jobs)).await {
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

/// Enqueues jobs. Repeats after a transient error, because nothing was written then.
async fn enqueue_all<DB: Dialect>(
    conn: &mut PoolConnection<DB>,
    turns: &Turns,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Unwritten> {
    let mut tries = 0;
    loop {
        let turn = turns.next(Errand::Other).await;
        match enqueue::<DB>(conn, jobs, Whose::Pools).await {
            Err(Unwritten::Sql(error)) if DB::is_transient(&error) && tries < TRIES => {
                tries += 1;
                drop(turn);
                sleep(pause(tries)).await;
            }
            result => {
                if result.is_ok() && jobs.iter().any(NewJob::is_due_now) {
                    turn.news();
                }
                return result;
            }
        }
    }
}
