//! The INSERT of one job or a group through a connection of the pool.

use std::time::Duration;

use sqlx::Error;
use sqlx::pool::PoolConnection;
use tokio::time::{sleep, timeout};

use crate::store::engine::connection::write_queue::{Errand, Turn, Turns};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::jobs::enqueue::enqueue;
use crate::store::values::{NewJob, Unwritten, Whose};
use crate::unique::Enqueued;

/// How long to wait for an answer. Without this limit, a connection whose server vanished silently would block every
/// later enqueue for ever.
pub(super) const LIMIT: Duration = Duration::from_secs(if cfg!(test) { 10 } else { 60 });
/// PostgreSQL's error code for a full notification queue: a listening session has kept its transaction open too long.
const SIGNALS_ARE_FULL: &str = "54000";
/// How often an enqueue is repeated after a transient error, such as a deadlock.
const TRIES: u32 = 6;

/// [`insert`] of jobs that are not unique, with the time limit [`LIMIT`]. Returns their ids. A connection that does not
/// answer in time is closed.
pub(super) async fn insert_in_time<DB: Dialect>(
    conn: &mut PoolConnection<DB>,
    turns: &Turns,
    turn: Turn,
    jobs: &[NewJob],
    announce: Option<&str>,
) -> Result<Vec<i64>, Error> {
    match timeout(LIMIT, insert(conn, turns, turn, jobs, announce)).await {
        Ok(written) => Ok(written.map_err(Unwritten::of_plain_jobs)?.iter().map(|it| it.id().get()).collect()),
        Err(_) => Err(given_up(conn)),
    }
}

/// The error of an enqueue without an answer. Its connection is closed.
pub(super) fn given_up<DB: Dialect>(conn: &mut PoolConnection<DB>) -> Error {
    conn.close_on_drop();
    let what = format!("no answer within {LIMIT:?}: whether it was written is not known");
    Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, what))
}

/// Inserts jobs. Repeats after a transient error, because nothing was written then.
pub(super) async fn insert<DB: Dialect>(
    conn: &mut PoolConnection<DB>,
    turns: &Turns,
    mut turn: Turn,
    jobs: &[NewJob],
    mut announce: Option<&str>,
) -> Result<Vec<Enqueued>, Unwritten> {
    let mut tries = 0;
    loop {
        match enqueue::<DB>(conn, jobs, Whose::Pools, announce).await {
            // the signal is only a hint: the job matters more
            Err(Unwritten::Sql(Error::Database(error)))
                if announce.is_some() && error.code().as_deref() == Some(SIGNALS_ARE_FULL) =>
            {
                tracing::debug!(%error, "could not notify other processes of an enqueue; polling will find the job");
                announce = None;
            }
            Err(Unwritten::Sql(error)) if DB::is_transient(&error) && tries < TRIES => {
                tries += 1;
                drop(turn);
                sleep(pause(tries)).await;
                turn = turns.next(Errand::Other).await;
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

/// Before a repetition.
fn pause(tries: u32) -> Duration {
    Duration::from_millis(fastrand::u64(1..10 << tries))
}
