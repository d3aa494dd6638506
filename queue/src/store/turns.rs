//! Who writes next, of the tasks of this process, where the engine has one writer at a time.
//!
//! Whoever finds an SQLite file locked sleeps and tries again, longer each time: of tasks that write all the time, some
//! sleep for hundreds of milliseconds beside a lock that is free. Here they wait for each other in order, and each goes on
//! as soon as the one before is done. Other processes, and transactions that are not the library's, meet them at the
//! file's own lock, which decides.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, Weak};
use std::time::Duration;

use sqlx::Pool;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use super::Dialect;
use crate::signal::{self, Signals};

/// Whoever has waited this long goes without its turn: somebody outside may hold the file's lock, and each of those in line
/// shall meet it for its own busy timeout, not one after the other.
const PATIENCE: Duration = Duration::from_secs(1);

type Line = Mutex<()>;
/// By driver and address of the database.
type Lines = HashMap<(TypeId, String), Weak<Line>>;

/// The lines in which somebody may stand.
static LINES: LazyLock<std::sync::Mutex<Lines>> = LazyLock::new(Default::default);

/// The line of one database; none where writers need no order.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Option<Arc<Line>>);

/// The right to write, until dropped.
pub(crate) struct Turn {
    _held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    pub(crate) fn of<DB: Dialect + Signals>(pool: &Pool<DB>) -> Self {
        if !DB::ONE_WRITER {
            return Self(None);
        }
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        let key = signal::key(pool);
        if let Some(line) = lines.get(&key).and_then(Weak::upgrade) {
            return Self(Some(line));
        }
        lines.retain(|_, line| line.strong_count() > 0);
        let line = Arc::default();
        lines.insert(key, Arc::downgrade(&line));
        Self(Some(line))
    }

    /// Waits for its turn. To be taken by who has a connection already: whoever writes waits for nobody else.
    pub(crate) async fn next(&self) -> Turn {
        let held = match self.0.clone() {
            Some(line) => timeout(PATIENCE, line.lock_owned()).await.ok(),
            None => None,
        };
        Turn { _held: held }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use sqlx::SqlitePool;
    use sqlx::sqlite::SqlitePoolOptions;
    use tokio::task::JoinSet;

    use super::super::{NewJob, NewWorker, SqlStore, Store as _};
    use super::*;
    use crate::writer;

    fn turns(file: &str) -> Turns {
        Turns::of(&SqlitePool::connect_lazy(&format!("sqlite:{file}")).expect("a pool"))
    }

    #[tokio::test]
    async fn writers_of_one_file_wait_for_each_other() {
        let [a, also_a, b] = ["a", "a", "b"].map(turns);
        let turn = a.next().await;
        assert!(b.next().now_or_never().is_some(), "another file");
        let mut waiting = Box::pin(also_a.next());
        assert!((&mut waiting).now_or_never().is_none());
        drop(turn);
        assert!(waiting.now_or_never().is_some());
    }

    fn worker() -> NewWorker {
        NewWorker { host: "here".into(), pid: 1, concurrency: 1, queues: Vec::new(), kinds: vec!["k".into()] }
    }

    #[tokio::test]
    async fn whatever_the_library_writes_waits_for_its_turn() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}?mode=rwc", folder.path().join("queue.sqlite").display());
        let pool = SqlitePool::connect(&url).await.expect("a pool");
        crate::migrate(&pool).await.expect("a schema");
        let turn = Turns::of(&pool).next().await;
        let mut writers = JoinSet::new();
        let (one, many, store) = (pool.clone(), pool.clone(), SqlStore::new(pool.clone()));
        writers.spawn(async move { writer::write(&one, NewJob::example("k")).await.is_ok() });
        writers.spawn(async move {
            writer::write_all(many, vec![NewJob::example("k"), NewJob::example("k")]).await.is_ok()
        });
        writers.spawn(async move { store.join(&worker(), PATIENCE).await.is_ok() });
        let early = timeout(PATIENCE / 10, writers.join_next()).await;
        assert!(early.is_err(), "{early:?}");
        drop(turn);
        assert_eq!(writers.join_all().await, [true; 3]);
    }

    /// Where there is one connection, whoever has it is next.
    #[tokio::test]
    async fn one_connection_goes_from_hand_to_hand() {
        const JOINS: usize = 50;
        let options = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let pool = options.connect("sqlite::memory:").await.expect("a pool");
        crate::migrate(&pool).await.expect("a schema");
        let store = SqlStore::new(pool.clone());
        let mut producers = JoinSet::new();
        let written = Arc::new(AtomicUsize::new(0));
        // more than one statement takes, so that there is always one more to write
        for _ in 0..600 {
            let (pool, written) = (pool.clone(), written.clone());
            producers.spawn(async move {
                loop {
                    writer::write(&pool, NewJob::example("k")).await.expect("written");
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let joins = async {
            for _ in 0..JOINS {
                store.join(&worker(), PATIENCE).await.expect("joined");
            }
        };
        timeout(PATIENCE * 10, joins).await.expect("no second for each of them");
        let written = written.load(Ordering::Relaxed);
        assert!(written <= JOINS * writer::MOST * 4, "each was behind a few statements at most: {written}");
        producers.shutdown().await;
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let line = turns("stuck");
        let _turn = line.next().await;
        let waiting = [line.next(), line.next()].map(Box::pin);
        let began = tokio::time::Instant::now();
        futures_util::future::join_all(waiting).await;
        assert_eq!(began.elapsed(), PATIENCE, "all of them, side by side");
    }
}
