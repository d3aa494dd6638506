//! Single enqueues through a pool: concurrent ones are written by one statement.
//!
//! An enqueue writes its own job if no other enqueue writes at that moment. Jobs that arrive meanwhile go to a task,
//! which writes them together. Sixteen concurrent enqueues then cost a few round trips and commits instead of sixteen.
//!
//! No enqueue depends on a future that its owner may have stopped polling. An enqueue writes only its own job, and the
//! task uses another connection. If the pool has only one connection, or the database only one writer at a time, the
//! task writes every job.
//!
//! If an enqueue is dropped midway, a task finishes it, so that no connection stays inside a statement. A used
//! connection is kept for a moment, for the next enqueue.

mod desk;
#[cfg(all(test, feature = "sqlite"))]
mod tests;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Error, Pool};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::enqueue::group::desk::{Desk, DeskOf, LINGER, PendingInsert};
use crate::store::engine::connection::notify;
use crate::store::engine::connection::write_queue::{Errand, Turn, Turns};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::jobs::enqueue::{can_signal, enqueue};
use crate::store::values::{NewJob, Unwritten, Whose};
use crate::unique::Enqueued;

/// The most jobs in one statement.
pub(crate) const MOST: usize = 256;
/// About how many bytes of arguments one statement may have.
const MOST_BYTES: usize = 1024 * 1024;

/// Writes one job and returns its id.
pub(crate) async fn write<DB: Dialect>(pool: &Pool<DB>, job: NewJob) -> Result<i64, Error> {
    let place = DeskOf::of(pool);
    let alone = |desk: &mut Desk<DB>| desk.task.is_none() && !std::mem::replace(&mut desk.alone, true);
    if place.has_room() && place.desk(alone) {
        let alone = Alone(place);
        return Finished::new(async move { alone.write(job).await }).await;
    }
    let (written, number) = oneshot::channel();
    place.hand_over(PendingInsert { job, written });
    // the task answers every enqueue, unless its runtime ends
    number.await.unwrap_or(Err(Error::WorkerCrashed))
}

/// An enqueue that writes its own job.
struct Alone<DB: Dialect>(DeskOf<DB>);

impl<DB: Dialect> Alone<DB> {
    async fn write(self, job: NewJob) -> Result<i64, Error> {
        let pool = &self.0.pool;
        let (mut conn, first_for_a_while) = self.0.connection().await?;
        // the statement also sends the signal, which saves a round trip
        let announce = first_for_a_while && can_signal::<DB>(&job);
        let announce = announce.then(|| notify::from(pool));
        let turns = Turns::of(pool);
        let turn = turns.next(Errand::Other).await;
        let written = insert_in_time(&mut conn, &turns, turn, &[job], announce.as_deref()).await;
        if written.is_ok() {
            self.0.keep(conn);
        }
        notify::committed(pool, announce.is_some());
        written?.first().copied().ok_or(Error::RowNotFound)
    }
}

impl<DB: Dialect> Drop for Alone<DB> {
    fn drop(&mut self) {
        self.0.desk(|desk| desk.alone = false);
    }
}

impl<DB: Dialect> DeskOf<DB> {
    /// Hands a job to the task. Starts the task if none runs.
    fn hand_over(&self, waiting: PendingInsert) {
        // sent under the lock: before a task ends, it checks under the same lock that nothing has arrived
        let begun = self.desk(|desk| {
            let waiting = match &desk.task {
                Some(task) => match task.send(waiting) {
                    Ok(()) => return None,
                    Err(mpsc::error::SendError(back)) => back, // its runtime has ended
                },
                None => waiting,
            };
            let (jobs, receiver) = mpsc::unbounded_channel();
            let _ = jobs.send(waiting);
            desk.task = Some(jobs);
            Some(receiver)
        });
        if let Some(receiver) = begun {
            let task = Task { place: self.clone(), receiver };
            tokio::spawn(async move { task.run().await });
        }
    }
}

/// The task that writes the jobs of several enqueues.
struct Task<DB: Dialect> {
    place: DeskOf<DB>,
    receiver: mpsc::UnboundedReceiver<PendingInsert>,
}

impl<DB: Dialect> Drop for Task<DB> {
    fn drop(&mut self) {
        // if the runtime ended the task, the desk still refers to it
        self.receiver.close();
        self.place.desk(|desk| desk.task.take_if(|task| task.is_closed()));
    }
}

impl<DB: Dialect> Task<DB> {
    /// Writes groups of jobs, until no more than one arrives at a time.
    async fn run(mut self) {
        let (place, receiver) = (&self.place, &mut self.receiver);
        let turns = Turns::of(&place.pool);
        let mut go_on = false;
        loop {
            let first = match receiver.try_recv() {
                Ok(first) => Some(first),
                Err(_) if go_on && place.may_keep() => timeout(LINGER, receiver.recv()).await.unwrap_or(None),
                Err(_) => None,
            };
            let Some(first) = first else {
                let over = place.desk(|desk| {
                    let over = receiver.is_empty();
                    if over {
                        desk.task = None;
                    }
                    over
                });
                if over {
                    return;
                }
                continue;
            };
            let (mut conn, first_for_a_while) = match place.connection().await {
                Ok(found) => found,
                Err(error) => {
                    // the others would only wait for the same error
                    let others = std::iter::from_fn(|| receiver.try_recv().ok());
                    refuse(std::iter::once(first).chain(others).collect(), error);
                    continue;
                }
            };
            let turn = turns.next(Errand::Other).await;
            let group = gather(first, receiver);
            // after a group of one, the next enqueue can write its own job
            go_on = group.len() > 1 || !place.has_room();
            // if the task writes every job, a single one is sent together with its signal
            let lone = !place.has_room() && first_for_a_while && group.len() == 1;
            let announce = lone && can_signal::<DB>(&group[0].job);
            let announce = announce.then(|| notify::from(&place.pool));
            if write_group(&mut conn, &turns, turn, group, announce.as_deref()).await {
                place.keep(conn);
            }
            notify::committed(&place.pool, announce.is_some());
        }
    }
}

/// Collects the jobs that have arrived, as many as fit into one statement.
fn gather(first: PendingInsert, receiver: &mut mpsc::UnboundedReceiver<PendingInsert>) -> Vec<PendingInsert> {
    let mut bytes = first.job.args.len();
    let mut group = vec![first];
    while group.len() < MOST && bytes < MOST_BYTES {
        let Ok(next) = receiver.try_recv() else { break };
        bytes += next.job.args.len();
        group.push(next);
    }
    group
}

/// Writes the jobs of a group and answers each enqueue. With `announce`, the statement also sends that signal. Returns
/// whether the connection may be kept. After an error it may be dead: the pool checks that.
async fn write_group<DB: Dialect>(
    conn: &mut PoolConnection<DB>,
    turns: &Turns,
    turn: Turn,
    group: Vec<PendingInsert>,
    announce: Option<&str>,
) -> bool {
    let (jobs, answers): (Vec<NewJob>, Vec<_>) = group.into_iter().map(|w| (w.job, w.written)).unzip();
    let error = match insert_in_time(conn, turns, turn, &jobs, announce).await {
        Ok(numbers) => {
            for (answer, number) in answers.into_iter().zip(numbers) {
                let _ = answer.send(Ok(number)); // an error here: the caller no longer waits
            }
            return true;
        }
        Err(error) => error,
    };
    if jobs.len() > 1 && matches!(error, Error::Database(_)) {
        // Nothing was written. Written one by one, only the bad jobs get an error.
        let mut sound = true;
        for (job, answer) in jobs.into_iter().zip(answers) {
            let result = insert_in_time(conn, turns, turns.next(Errand::Other).await, &[job], announce).await;
            sound &= result.is_ok();
            let _ = answer.send(result.and_then(|numbers| numbers.first().copied().ok_or(Error::RowNotFound)));
        }
        return sound;
    }
    refuse(jobs.into_iter().zip(answers).map(|(job, written)| PendingInsert { job, written }).collect(), error);
    false
}

/// Answers every enqueue of the group with the same error.
fn refuse(group: Vec<PendingInsert>, error: Error) {
    let again = |error: &Error| match error {
        Error::PoolTimedOut => Error::PoolTimedOut,
        Error::PoolClosed => Error::PoolClosed,
        Error::Io(error) => Error::Io(std::io::Error::new(error.kind(), error.to_string())),
        error => Error::Io(std::io::Error::other(error.to_string())),
    };
    let mut group = group.into_iter();
    let Some(first) = group.next() else { return };
    for waiting in group {
        let _ = waiting.written.send(Err(again(&error)));
    }
    let _ = first.written.send(Err(error));
}

/// A future that a task finishes if it is dropped before its end.
pub(super) struct Finished<T: Send + 'static> {
    future: Option<BoxFuture<'static, T>>,
    runtime: runtime::Handle,
}

impl<T: Send> Finished<T> {
    pub(super) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Some(Box::pin(future)), runtime: runtime::Handle::current() }
    }
}

impl<T: Send> Future for Finished<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // taken out, so that a future that panics is not polled again
        let mut future = self.future.take().expect("not polled after its end");
        let result = future.as_mut().poll(context);
        if result.is_pending() {
            self.future = Some(future);
        }
        result
    }
}

impl<T: Send> Drop for Finished<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            // A runtime that has ended drops the future here. A connection must be dropped inside a runtime.
            let _context = self.runtime.enter();
            self.runtime.spawn(future);
        }
    }
}

/// Writes many jobs, or unique ones, all or none. It runs in its own task, so that a dropped future leaves no
/// connection inside a transaction. The kept connection saves the pool's two liveness checks, before and after.
pub(crate) async fn write_all<DB: Dialect>(pool: Pool<DB>, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Unwritten> {
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

/// How long to wait for an answer. Without this limit, a connection whose server vanished silently would block every
/// later enqueue for ever.
const LIMIT: Duration = Duration::from_secs(if cfg!(test) { 10 } else { 60 });
/// PostgreSQL's error code for a full notification queue: a listening session has kept its transaction open too long.
const SIGNALS_ARE_FULL: &str = "54000";
/// How often an enqueue is repeated after a transient error, such as a deadlock.
const TRIES: u32 = 6;

/// [`insert`] of jobs that are not unique, with the time limit [`LIMIT`]. Returns their ids. A connection that does not
/// answer in time is closed.
async fn insert_in_time<DB: Dialect>(
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
fn given_up<DB: Dialect>(conn: &mut PoolConnection<DB>) -> Error {
    conn.close_on_drop();
    let what = format!("no answer within {LIMIT:?}: whether it was written is not known");
    Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, what))
}

/// Inserts jobs. Repeats after a transient error, because nothing was written then.
async fn insert<DB: Dialect>(
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
