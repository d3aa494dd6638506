//! The order of this process's writers, on an engine with one writer at a time.
//!
//! A task that finds an SQLite file locked sleeps and tries again, longer each time. Among tasks that write all the
//! time, some would sleep for hundreds of milliseconds beside a free lock. Here they wait in order, and each continues
//! as soon as the previous one is done. Other processes, and transactions outside the library, meet them at the file's
//! own lock, which decides.
//!
//! If there is news, waiting ends yield for a moment to the claim of a worker that listens. Somebody waits for the jobs
//! that it takes, and hardly anybody for the ends.

use std::any::TypeId;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, LazyLock, PoisonError};
use std::time::Duration;

use sqlx::Pool;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};
use tokio::time::{Instant, timeout};

use crate::store::engine::connection::connecting::Connecting;
use crate::store::engine::connection::notify;

/// A writer that has waited this long proceeds without its turn. A process outside may hold the file's lock. Then all
/// waiting writers meet it at the same time, each with its own busy timeout, not one after the other.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long ends wait for a claim after news. Sometimes none comes, because no listening worker takes those jobs.
const SOON: Duration = Duration::from_millis(1);
/// Ends that have already waited this long do not yield.
const LONG: Duration = Duration::from_millis(100);

/// How long after a write a watcher may still notice it.
const TRACES: Duration = Duration::from_millis(5);
/// Longer than any write.
const LONGEST: Duration = Duration::from_secs(3_600);

#[derive(Debug, Default)]
struct Writers {
    turn: Arc<Mutex<()>>,
    /// For the transactions of handlers, which stay open longer than the patience of others.
    transaction: Arc<Mutex<()>>,
    /// Workers that claim as soon as there is news.
    listening: AtomicUsize,
    /// There was news for them, and none has claimed since.
    called: AtomicBool,
    claims: Notify,
    /// Until then, what a watcher notices may be a write of this process that concerns no waiting job.
    quiet_until: std::sync::Mutex<Option<Instant>>,
}

impl Writers {
    fn quiet_for(&self, time: Duration) {
        *self.quiet_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + time);
    }
}

/// By driver and address of the database.
type AllWriters = HashMap<(TypeId, String), Arc<Writers>>;

/// The write queues of this process.
static LINES: LazyLock<std::sync::Mutex<AllWriters>> = LazyLock::new(Default::default);

/// The write queue of one database. None: writers need no order.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Option<Arc<Writers>>);

/// What a turn is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Errand {
    /// To take jobs.
    Claim,
    /// To record how jobs ended.
    Ends,
    /// To write what concerns no waiting job. A heartbeat must not wake its own worker.
    Upkeep,
    /// Anything else.
    Other,
}

/// The right to keep a handler's transaction open, until dropped.
pub(crate) struct TxTurn(#[allow(dead_code, reason = "it is held")] Option<OwnedMutexGuard<()>>);

/// The right to write, until dropped.
pub(crate) struct Turn {
    _held: Option<OwnedMutexGuard<()>>,
    line: Option<Arc<Writers>>,
    errand: Errand,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(line) = self.line.as_ref().filter(|_| self.errand == Errand::Upkeep) {
            line.quiet_for(TRACES);
        }
    }
}

impl Turn {
    /// Jobs were written, and workers are told right after this. Call it before the next writer gets its turn.
    pub(crate) fn news(&self) {
        if let Some(line) = self.line.as_ref().filter(|line| line.listening.load(Relaxed) > 0) {
            line.called.store(true, Relaxed);
        }
    }
}

/// A worker listens, until this is dropped.
pub(crate) struct Listening(Option<Arc<Writers>>);

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.listening.fetch_sub(1, Relaxed);
        }
    }
}

impl Turns {
    pub(crate) fn of<DB: Connecting>(pool: &Pool<DB>) -> Self {
        if !DB::ONE_WRITER {
            return Self(None);
        }
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        Self(Some(lines.entry(notify::key(pool)).or_default().clone()))
    }

    /// Waits for its turn. The caller must already have its connection, so that a writer with a turn waits for nobody.
    pub(crate) async fn next(&self, errand: Errand) -> Turn {
        let Some(line) = &self.0 else { return Turn { _held: None, line: None, errand } };
        let turn = async || timeout(PATIENCE, line.turn.clone().lock_owned()).await.ok();
        let began = Instant::now();
        let mut held = turn().await;
        match errand {
            Errand::Claim => {
                line.called.store(false, Relaxed);
                line.claims.notify_waiters();
            }
            Errand::Ends if line.called.load(Relaxed) && began.elapsed() < LONG => {
                let mut claim = pin!(line.claims.notified());
                claim.as_mut().enable();
                drop(held);
                if timeout(SOON, claim).await.is_err() {
                    line.called.store(false, Relaxed);
                }
                held = turn().await;
            }
            Errand::Upkeep => line.quiet_for(LONGEST),
            Errand::Ends | Errand::Other => {}
        }
        Turn { _held: held, line: Some(line.clone()), errand }
    }

    /// Waits, however long, until no other handler's transaction is open. Then its turn comes as any other writer's:
    /// between two of them, others write.
    pub(crate) async fn transaction(&self) -> TxTurn {
        match &self.0 {
            Some(line) => TxTurn(Some(line.transaction.clone().lock_owned().await)),
            None => TxTurn(None),
        }
    }

    /// Whether this process writes what concerns no waiting job, or has just done so.
    pub(crate) fn are_quiet(&self) -> bool {
        let until = |line: &Arc<Writers>| *line.quiet_until.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.as_ref().and_then(until).is_some_and(|until| Instant::now() <= until)
    }

    /// Held while a worker does nothing but listen for news.
    pub(crate) fn listen(&self) -> Listening {
        if let Some(line) = &self.0 {
            line.listening.fetch_add(1, Relaxed);
        }
        Listening(self.0.clone())
    }

    /// For tests: a write queue of its own.
    #[cfg(test)]
    pub(crate) fn alone() -> Self {
        Self(Some(Arc::default()))
    }

    /// For tests: how many listen.
    #[cfg(test)]
    pub(crate) fn listeners(&self) -> usize {
        self.0.as_ref().map_or(0, |line| line.listening.load(Relaxed))
    }
}

#[cfg(all(test, feature = "sqlite"))]
#[path = "write_queue_tests.rs"]
mod tests;
