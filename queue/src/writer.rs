//! Single enqueues through a pool: those that come at the same time are written by one statement.
//!
//! The first enqueue starts a writer, which takes a connection of the pool and writes what has come; what comes meanwhile
//! is written next, together. A lone enqueue waits for nobody; sixteen at once cost one round trip and one commit instead
//! of sixteen. When nothing comes for a moment the connection goes back and the writer ends. Dropping an enqueue's future
//! leaves the writer alone, so that no connection is ever left inside a statement.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Error, Pool};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::signal::{self, Signals};
use crate::store::dialect::{can_spare_one, ids};
use crate::store::turns::{Turn, Turns};
use crate::store::{Dialect, NewJob};

/// Jobs in one statement.
pub(crate) const MOST: usize = 256;
/// Bytes of arguments in one statement, about.
const MOST_BYTES: usize = 1024 * 1024;
/// How long the connection is kept when nothing comes: long enough for the next enqueue of a busy program, too short to be
/// missed. Not at all when the pool has no other to give.
const LINGER: Duration = Duration::from_millis(2);
/// How often an enqueue that was in the way of others is repeated.
const TRIES: u32 = 6;

/// An enqueue that waits for its number.
struct Waiting {
    job: NewJob,
    written: oneshot::Sender<Result<i64, Error>>,
}

/// A pool, by engine and address of its options (each pool has its own), and the runtime that drives its writer.
type Key = (TypeId, usize, runtime::Id);

/// The writers at work.
static WRITERS: LazyLock<Mutex<HashMap<Key, Writer>>> = LazyLock::new(Mutex::default);

struct Writer {
    jobs: mpsc::UnboundedSender<Waiting>,
    /// Keeps the address in the key from being given to another pool.
    _options: Arc<dyn Any + Send + Sync>,
}

fn writers() -> MutexGuard<'static, HashMap<Key, Writer>> {
    WRITERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes one job and returns its number.
pub(crate) async fn write<DB: Dialect + Signals>(pool: &Pool<DB>, job: NewJob) -> Result<i64, Error> {
    let options = pool.connect_options();
    let key = (TypeId::of::<DB>(), Arc::as_ptr(&options).cast::<()>().addr(), runtime::Handle::current().id());
    let (written, number) = oneshot::channel();
    hand_over(pool, key, options, Waiting { job, written });
    // the writer answers everybody; it is gone only with its runtime
    number.await.unwrap_or(Err(Error::WorkerCrashed))
}

fn hand_over<DB: Dialect + Signals>(
    pool: &Pool<DB>,
    key: Key,
    options: Arc<dyn Any + Send + Sync>,
    mut waiting: Waiting,
) {
    // sent under the lock: a writer that ends looks under it whether something came
    let mut writers = writers();
    if let Some(writer) = writers.get(&key) {
        match writer.jobs.send(waiting) {
            Ok(()) => return,
            Err(mpsc::error::SendError(back)) => waiting = back, // its runtime is gone
        }
    }
    let (jobs, receiver) = mpsc::unbounded_channel();
    let _ = jobs.send(waiting);
    writers.insert(key, Writer { jobs, _options: options });
    tokio::spawn(run(pool.clone(), key, receiver));
}

async fn run<DB: Dialect + Signals>(pool: Pool<DB>, key: Key, mut receiver: mpsc::UnboundedReceiver<Waiting>) {
    let mut kept: Option<PoolConnection<DB>> = None;
    let turns = Turns::of(&pool);
    loop {
        let first = match receiver.try_recv() {
            Ok(first) => Some(first),
            Err(_) if can_spare_one(&pool) => timeout(LINGER, receiver.recv()).await.unwrap_or(None),
            Err(_) => None,
        };
        let Some(first) = first else {
            kept = None;
            let mut writers = writers();
            if receiver.is_empty() {
                writers.remove(&key);
                return;
            }
            continue;
        };
        let first_for_a_while = kept.is_none();
        // who waits for a connection goes first where there is no other
        let mut conn = match kept.take().filter(|_| can_spare_one(&pool)) {
            Some(conn) => conn,
            None => match pool.acquire().await {
                Ok(conn) => conn,
                Err(error) => {
                    refuse(gather(first, &mut receiver), error);
                    continue;
                }
            },
        };
        let turn = turns.next().await;
        let group = gather(first, &mut receiver);
        // alone: its signal goes with it
        let lone = first_for_a_while && matches!(&*group, [waiting] if waiting.job.is_due_now());
        let announce = lone && DB::INSERT_AND_NOTIFY.is_some();
        if write_group(&mut conn, &turns, turn, group, announce).await {
            kept = Some(conn);
        }
        signal::committed(&pool, announce);
    }
}

/// What has come, as much as fits into one statement.
fn gather(first: Waiting, receiver: &mut mpsc::UnboundedReceiver<Waiting>) -> Vec<Waiting> {
    let mut bytes = first.job.args.len();
    let mut group = vec![first];
    while group.len() < MOST && bytes < MOST_BYTES {
        let Ok(next) = receiver.try_recv() else { break };
        bytes += next.job.args.len();
        group.push(next);
    }
    group
}

/// Writes the jobs of a group, with a signal or without, and answers everybody. Returns whether the connection is sound.
async fn write_group<DB: Dialect>(
    conn: &mut PoolConnection<DB>,
    turns: &Turns,
    turn: Turn,
    group: Vec<Waiting>,
    announce: bool,
) -> bool {
    let (jobs, answers): (Vec<NewJob>, Vec<_>) = group.into_iter().map(|w| (w.job, w.written)).unzip();
    let error = match insert(conn, turns, turn, &jobs, announce).await {
        Ok(numbers) => {
            for (answer, number) in answers.into_iter().zip(numbers) {
                let _ = answer.send(Ok(number)); // an error here: nobody waits any more
            }
            return true;
        }
        Err(error) => error,
    };
    if jobs.len() > 1 && matches!(error, Error::Database(_)) {
        // nothing was written; whoever is to blame gets the error, the others their numbers
        let mut sound = true;
        for (job, answer) in jobs.into_iter().zip(answers) {
            let result = insert(conn, turns, turns.next().await, &[job], announce).await;
            sound &= matches!(result, Ok(_) | Err(Error::Database(_)));
            let _ = answer.send(result.and_then(|numbers| numbers.first().copied().ok_or(Error::RowNotFound)));
        }
        return sound;
    }
    let sound = matches!(error, Error::Database(_));
    refuse(jobs.into_iter().zip(answers).map(|(job, written)| Waiting { job, written }).collect(), error);
    sound
}

/// Repeats what was refused because of others, when nothing was written.
async fn insert<DB: Dialect>(
    conn: &mut PoolConnection<DB>,
    turns: &Turns,
    mut turn: Turn,
    jobs: &[NewJob],
    announce: bool,
) -> Result<Vec<i64>, Error> {
    let mut tries = 0;
    loop {
        let written = match (jobs, DB::INSERT_AND_NOTIFY) {
            ([job], Some(sql)) if announce => ids::<DB>(conn, sql, &job.binds()[..5]).await,
            _ => DB::insert(conn, jobs).await,
        };
        match written {
            Err(error) if DB::is_transient(&error) && tries < TRIES => {
                tries += 1;
                drop(turn);
                sleep(Duration::from_millis(fastrand::u64(1..10 << tries))).await;
                turn = turns.next().await;
            }
            result => return result,
        }
    }
}

/// The same error for everybody.
fn refuse(group: Vec<Waiting>, error: Error) {
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

/// Writes many jobs, all or none, in a task of its own, so that dropping the caller's future leaves no connection inside a
/// transaction.
pub(crate) async fn write_all<DB: Dialect + Signals>(pool: Pool<DB>, jobs: Vec<NewJob>) -> Result<Vec<i64>, Error> {
    let task = tokio::spawn(async move {
        let turns = Turns::of(&pool);
        let mut conn = pool.acquire().await?;
        let numbers = insert(&mut conn, &turns, turns.next().await, &jobs, false).await?;
        drop(conn);
        signal::committed(&pool, false);
        Ok(numbers)
    });
    match task.await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::WorkerCrashed), // the runtime is shutting down
        },
    }
}
