//! Single enqueues through a pool: those that come at the same time are written by one statement.
//!
//! An enqueue that comes when nobody writes does so itself. What comes meanwhile goes to a task that writes it, together: sixteen
//! at once cost a few round trips and commits instead of sixteen. Nobody waits for a future that its owner may have
//! stopped polling: an enqueue that writes for itself writes nothing else, and the task has a connection of its own. Where
//! there is none, or one writer at a time, the task writes everything. An enqueue whose future is dropped midway is
//! finished by a task, so that no connection is ever left inside a statement. A connection that was used stays at hand for
//! a moment.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Error, Pool};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use crate::store::engine::dialect::Dialect;
use crate::store::engine::dialect::ids;
use crate::store::engine::notify::can_spare_one;
use crate::store::engine::notify::{self, Signals};
use crate::store::engine::write_queue::{Errand, Turn, Turns};
use crate::store::values::{NewJob, Whose};

/// Jobs in one statement.
pub(crate) const MOST: usize = 256;
/// Bytes of arguments in one statement, about.
const MOST_BYTES: usize = 1024 * 1024;
/// How long the connection is kept when nothing comes: long enough for the next enqueue of a busy program, too short to be
/// missed, or to have died meanwhile, which shows only when it is used. Not at all when the pool has no other to give.
const LINGER: Duration = Duration::from_millis(2);
/// How long an answer is waited for. Whoever comes meanwhile waits behind it: behind a connection whose other end is gone without a
/// word, for ever.
const LIMIT: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 60 });
/// PostgreSQL's word for it: some session listens, and has not ended its transaction for very long.
const SIGNALS_ARE_FULL: &str = "54000";
/// How often an enqueue that was in the way of others is repeated.
const TRIES: u32 = 6;

/// An enqueue that waits for its number.
struct Waiting {
    job: NewJob,
    written: oneshot::Sender<Result<i64, Error>>,
}

/// A pool, by engine and address of its options (each pool has its own), and the runtime that drives its connections.
type Key = (TypeId, usize, runtime::Id);

/// Pools that are written through, each with its [`Desk`].
static DESKS: LazyLock<Mutex<HashMap<Key, Box<dyn Any + Send>>>> = LazyLock::new(Mutex::default);

/// Who writes through one pool.
struct Desk<DB: Dialect> {
    /// An enqueue writes for itself.
    alone: bool,
    /// What the task writes that is at work.
    task: Option<mpsc::UnboundedSender<Waiting>>,
    /// The connection used last, and when.
    kept: Option<(PoolConnection<DB>, Instant)>,
    /// A task gives it back.
    watched: bool,
    /// Keeps the address in the key from being given to another pool.
    _options: Arc<dyn Any + Send + Sync>,
}

/// A way to a desk.
struct Place<DB: Dialect> {
    pool: Pool<DB>,
    key: Key,
    options: Arc<dyn Any + Send + Sync>,
}

impl<DB: Dialect> Clone for Place<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), key: self.key, options: self.options.clone() }
    }
}

impl<DB: Dialect + Signals> Place<DB> {
    fn of(pool: &Pool<DB>) -> Self {
        let options = pool.connect_options();
        let key = (TypeId::of::<DB>(), Arc::as_ptr(&options).cast::<()>().addr(), runtime::Handle::current().id());
        Self { pool: pool.clone(), key, options }
    }

    /// The desk is there as long as somebody is at it, or a connection.
    fn desk<R>(&self, act: impl FnOnce(&mut Desk<DB>) -> R) -> R {
        let mut desks = DESKS.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = desks.entry(self.key).or_insert_with(|| {
            let _options = self.options.clone();
            Box::new(Desk::<DB> { alone: false, task: None, kept: None, watched: false, _options })
        });
        let desk = desk.downcast_mut::<Desk<DB>>().expect("the key names the type");
        let result = act(desk);
        if !desk.alone && desk.task.is_none() && desk.kept.is_none() && !desk.watched {
            desks.remove(&self.key);
        }
        result
    }

    /// Whether an enqueue may write for itself: it keeps a connection as long as its owner does not poll it, and on SQLite its
    /// turn to write.
    fn has_room(&self) -> bool {
        !DB::ONE_WRITER && self.pool.options().get_max_connections() > 1
    }

    /// Whether a connection at hand is in nobody's way.
    fn may_keep(&self) -> bool {
        can_spare_one(&self.pool) && !self.pool.is_closed()
    }

    /// The connection that is at hand, or one from the pool: then it is the first for a while. Who waits for a connection
    /// goes first where there is no other.
    async fn connection(&self) -> Result<(PoolConnection<DB>, bool), Error> {
        let kept = self.desk(|desk| desk.kept.take());
        match kept.filter(|_| self.may_keep()) {
            Some((conn, _)) => Ok((conn, false)),
            None => Ok((self.pool.acquire().await?, true)),
        }
    }

    /// Keeps a connection at hand for a while.
    fn keep(&self, conn: PoolConnection<DB>) {
        if !self.may_keep() {
            return;
        }
        let (_other, unwatched) = self.desk(|desk| {
            let other = desk.kept.replace((conn, Instant::now()));
            (other, !std::mem::replace(&mut desk.watched, true))
        });
        if unwatched {
            let watch = Watch(self.clone());
            tokio::spawn(async move { watch.run().await });
        }
    }
}

/// Gives the kept connection back: when nobody has used it for a while, or when the runtime ends.
struct Watch<DB: Dialect + Signals>(Place<DB>);

impl<DB: Dialect + Signals> Watch<DB> {
    async fn run(self) {
        let recent = |desk: &mut Desk<DB>| desk.kept.as_ref().is_some_and(|(_, used)| used.elapsed() < LINGER);
        loop {
            sleep(LINGER).await;
            if !self.0.desk(recent) {
                return;
            }
        }
    }
}

impl<DB: Dialect + Signals> Drop for Watch<DB> {
    fn drop(&mut self) {
        let kept = self.0.desk(|desk| {
            desk.watched = false;
            desk.kept.take()
        });
        drop(kept);
    }
}

/// A future that is finished by a task when it is dropped before its end.
struct Finished<T: Send + 'static> {
    future: Option<BoxFuture<'static, T>>,
    runtime: runtime::Handle,
}

impl<T: Send> Finished<T> {
    fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Some(Box::pin(future)), runtime: runtime::Handle::current() }
    }
}

impl<T: Send> Future for Finished<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // one that panics is over
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
            // a runtime that has ended drops it here, and a connection cannot be dropped outside of any
            let _context = self.runtime.enter();
            self.runtime.spawn(future);
        }
    }
}

/// Writes one job and returns its number.
pub(crate) async fn write<DB: Dialect + Signals>(pool: &Pool<DB>, job: NewJob) -> Result<i64, Error> {
    let place = Place::of(pool);
    let alone = |desk: &mut Desk<DB>| desk.task.is_none() && !std::mem::replace(&mut desk.alone, true);
    if place.has_room() && place.desk(alone) {
        let alone = Alone(place);
        return Finished::new(async move { alone.write(job).await }).await;
    }
    let (written, number) = oneshot::channel();
    place.hand_over(Waiting { job, written });
    // the task answers everybody; it is gone only with its runtime
    number.await.unwrap_or(Err(Error::WorkerCrashed))
}

/// An enqueue that writes for itself.
struct Alone<DB: Dialect + Signals>(Place<DB>);

impl<DB: Dialect + Signals> Alone<DB> {
    async fn write(self, job: NewJob) -> Result<i64, Error> {
        let pool = &self.0.pool;
        let (mut conn, first_for_a_while) = self.0.connection().await?;
        // its signal goes with it
        let announce = first_for_a_while && job.is_due_now() && DB::INSERT_AND_NOTIFY.is_some();
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

impl<DB: Dialect + Signals> Drop for Alone<DB> {
    fn drop(&mut self) {
        self.0.desk(|desk| desk.alone = false);
    }
}

impl<DB: Dialect + Signals> Place<DB> {
    /// To the task, which is begun if there is none.
    fn hand_over(&self, waiting: Waiting) {
        // sent under the lock: a task that ends looks under it whether something came
        let begun = self.desk(|desk| {
            let waiting = match &desk.task {
                Some(task) => match task.send(waiting) {
                    Ok(()) => return None,
                    Err(mpsc::error::SendError(back)) => back, // its runtime is gone
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

/// Writes for those that wait.
struct Task<DB: Dialect + Signals> {
    place: Place<DB>,
    receiver: mpsc::UnboundedReceiver<Waiting>,
}

impl<DB: Dialect + Signals> Drop for Task<DB> {
    fn drop(&mut self) {
        // ended with its runtime, it is still at the desk
        self.receiver.close();
        self.place.desk(|desk| desk.task.take_if(|task| task.is_closed()));
    }
}

impl<DB: Dialect + Signals> Task<DB> {
    /// Writes what comes, until there is one at most at a time.
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
                    // whoever has come meanwhile would only wait for the same
                    let others = std::iter::from_fn(|| receiver.try_recv().ok());
                    refuse(std::iter::once(first).chain(others).collect(), error);
                    continue;
                }
            };
            let turn = turns.next(Errand::Other).await;
            let group = gather(first, receiver);
            // a single one may write for itself the next time
            go_on = group.len() > 1 || !place.has_room();
            // where nobody writes for himself: it is alone, and its signal goes with it
            let lone = !place.has_room() && first_for_a_while && group.len() == 1;
            let announce = lone && group[0].job.is_due_now() && DB::INSERT_AND_NOTIFY.is_some();
            let announce = announce.then(|| notify::from(&place.pool));
            if write_group(&mut conn, &turns, turn, group, announce.as_deref()).await {
                place.keep(conn);
            }
            notify::committed(&place.pool, announce.is_some());
        }
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

/// Writes the jobs of a group, with a signal that carries `announce` or without one, and answers everybody. Returns whether all
/// went well: an error may say that the server has ended the session, and the pool asks.
async fn write_group<DB: Dialect>(
    conn: &mut PoolConnection<DB>,
    turns: &Turns,
    turn: Turn,
    group: Vec<Waiting>,
    announce: Option<&str>,
) -> bool {
    let (jobs, answers): (Vec<NewJob>, Vec<_>) = group.into_iter().map(|w| (w.job, w.written)).unzip();
    let error = match insert_in_time(conn, turns, turn, &jobs, announce).await {
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
            let result = insert_in_time(conn, turns, turns.next(Errand::Other).await, &[job], announce).await;
            sound &= result.is_ok();
            let _ = answer.send(result.and_then(|numbers| numbers.first().copied().ok_or(Error::RowNotFound)));
        }
        return sound;
    }
    refuse(jobs.into_iter().zip(answers).map(|(job, written)| Waiting { job, written }).collect(), error);
    false
}

/// As [`insert`], as long as an answer may be expected. A connection that gave none is closed.
async fn insert_in_time<DB: Dialect>(
    conn: &mut PoolConnection<DB>,
    turns: &Turns,
    turn: Turn,
    jobs: &[NewJob],
    announce: Option<&str>,
) -> Result<Vec<i64>, Error> {
    match timeout(LIMIT, insert(conn, turns, turn, jobs, announce)).await {
        Ok(result) => result,
        Err(_) => {
            conn.close_on_drop();
            let what = format!("no answer within {LIMIT:?}: whether it was written is not known");
            Err(Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, what)))
        }
    }
}

/// Repeats what was refused because of others, when nothing was written.
async fn insert<DB: Dialect>(
    conn: &mut PoolConnection<DB>,
    turns: &Turns,
    mut turn: Turn,
    jobs: &[NewJob],
    mut announce: Option<&str>,
) -> Result<Vec<i64>, Error> {
    let mut tries = 0;
    loop {
        let written = match (jobs, DB::INSERT_AND_NOTIFY, announce) {
            ([job], Some(sql), Some(from)) => {
                let [kind, queue, priority, max_retries, args, ..] = job.binds();
                ids::<DB>(conn, sql, &[kind, queue, priority, max_retries, args, from.into()]).await
            }
            _ => DB::insert(conn, jobs, Whose::Pools).await,
        };
        match written {
            // a hint is worth no job
            Err(Error::Database(error)) if announce.is_some() && error.code().as_deref() == Some(SIGNALS_ARE_FULL) => {
                tracing::debug!(%error, "an enqueue is not announced to other processes; polling will find it");
                announce = None;
            }
            Err(error) if DB::is_transient(&error) && tries < TRIES => {
                tries += 1;
                drop(turn);
                sleep(Duration::from_millis(fastrand::u64(1..10 << tries))).await;
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
/// transaction. A connection at hand spares the two questions whether it lives, before and after.
pub(crate) async fn write_all<DB: Dialect + Signals>(pool: Pool<DB>, jobs: Vec<NewJob>) -> Result<Vec<i64>, Error> {
    let task = tokio::spawn(async move {
        let (place, turns) = (Place::of(&pool), Turns::of(&pool));
        let (mut conn, _) = place.connection().await?;
        let numbers = insert(&mut conn, &turns, turns.next(Errand::Other).await, &jobs, None).await?;
        place.keep(conn);
        notify::committed(&pool, false);
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

#[cfg(all(test, feature = "sqlite"))]
#[path = "group_tests.rs"]
mod tests;
