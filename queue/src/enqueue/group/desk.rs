//! The desk of a pool: who writes through it at the moment, and the connection that is kept for the next one.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Error, Pool};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::store::engine::connection::notify::can_spare_one;
use crate::store::engine::dialect::Dialect;
use crate::store::values::NewJob;

/// How long an idle connection is kept. It is long enough for the next enqueue of a busy program. It is too short for
/// others to miss the connection, or for it to die unnoticed. Nothing is kept if the pool has no other connection.
pub(super) const LINGER: Duration = Duration::from_millis(2);

/// A pool and the runtime that drives it. The pool's engine and the address of its options identify it.
type DeskKey = (TypeId, usize, runtime::Id);

/// The [`Desk`] of each pool that is in use.
pub(super) static DESKS: LazyLock<Mutex<HashMap<DeskKey, Box<dyn Any + Send>>>> = LazyLock::new(Mutex::default);

/// The state of the enqueues through one pool.
pub(super) struct Desk<DB: Dialect> {
    /// Whether an enqueue is writing its own job.
    pub(super) alone: bool,
    /// The input of the running task.
    pub(super) task: Option<mpsc::UnboundedSender<PendingInsert>>,
    /// The kept connection, and when it was last used.
    kept: Option<(PoolConnection<DB>, Instant)>,
    /// Whether a task will release the kept connection.
    watched: bool,
    /// Holds the address in the key, so that no other pool gets it.
    _options: Arc<dyn Any + Send + Sync>,
}

/// A pool and the key of its desk.
pub(super) struct DeskOf<DB: Dialect> {
    pub(super) pool: Pool<DB>,
    pub(super) key: DeskKey,
    options: Arc<dyn Any + Send + Sync>,
}

impl<DB: Dialect> Clone for DeskOf<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), key: self.key, options: self.options.clone() }
    }
}

impl<DB: Dialect> DeskOf<DB> {
    pub(super) fn of(pool: &Pool<DB>) -> Self {
        let options = pool.connect_options();
        let key = (TypeId::of::<DB>(), Arc::as_ptr(&options).cast::<()>().addr(), runtime::Handle::current().id());
        Self { pool: pool.clone(), key, options }
    }

    /// Runs `act` on the desk. The desk exists only while it has a writer or a connection.
    pub(super) fn desk<R>(&self, act: impl FnOnce(&mut Desk<DB>) -> R) -> R {
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

    /// Whether an enqueue may write its own job. While its owner does not poll it, it holds a connection, and on SQLite
    /// also its turn to write.
    pub(super) fn has_room(&self) -> bool {
        !DB::ONE_WRITER && self.pool.options().get_max_connections() > 1
    }

    /// Whether a kept connection takes nothing away from other users of the pool.
    pub(super) fn may_keep(&self) -> bool {
        can_spare_one(&self.pool) && !self.pool.is_closed()
    }

    /// Returns the kept connection, or one from the pool. The flag is true for one from the pool: this is the first
    /// enqueue for a while. If the pool has no other connection, its waiting users go first.
    pub(super) async fn connection(&self) -> Result<(PoolConnection<DB>, bool), Error> {
        let kept = self.desk(|desk| desk.kept.take());
        match kept.filter(|_| self.may_keep()) {
            Some((conn, _)) => Ok((conn, false)),
            None => Ok((self.pool.acquire().await?, true)),
        }
    }

    /// Keeps a connection for the next enqueue.
    pub(super) fn keep(&self, conn: PoolConnection<DB>) {
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

/// Releases the kept connection after it was idle for [`LINGER`], or when the runtime ends.
struct Watch<DB: Dialect>(DeskOf<DB>);

impl<DB: Dialect> Watch<DB> {
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

impl<DB: Dialect> Drop for Watch<DB> {
    fn drop(&mut self) {
        let kept = self.0.desk(|desk| {
            desk.watched = false;
            desk.kept.take()
        });
        drop(kept);
    }
}

/// An enqueue that waits for its id.
pub(super) struct PendingInsert {
    pub(super) job: NewJob,
    pub(super) written: oneshot::Sender<Result<i64, Error>>,
}
