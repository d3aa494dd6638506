//! The transaction that a worker begins for a handler.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{Error, Pool, SqlSafeStr, Transaction};
use tokio::runtime::Handle;

use crate::error::Doing as _;
use crate::outcome::JobError;
use crate::store::engine::connection::write_queue::{Errand, Turn, Turns, TxTurn};
use crate::store::engine::dialect::Dialect;

/// Fails if the transaction is not the one that was begun: its savepoint ends with it.
pub(crate) const CHECK_TX: &str = "RELEASE SAVEPOINT queue_attempt";

const OVER: &str = "the handler's transaction ended before the handler did: the database rolled it back, for example \
    after a deadlock or because of ON CONFLICT ROLLBACK, or a statement such as COMMIT, ROLLBACK, TRUNCATE or ALTER \
    ended it; return errors of the database, and run no such statement in a `Tx`";

/// A database of which a handler can take a [`Tx`]: `sqlx::Postgres`, `sqlx::MySql` or `sqlx::Sqlite`. Sealed.
#[diagnostic::on_unimplemented(
    message = "a worker has no transactions of `{Self}`",
    label = "not a database that queue can use",
    note = "write `sqlx::Postgres`, `sqlx::MySql` or `sqlx::Sqlite`, and enable queue's cargo feature `postgres`, \
            `mysql` or `sqlite` (the default)"
)]
#[allow(private_bounds, reason = "sealed: nobody outside can name it")]
pub trait TxDatabase: Dialect {}

/// The type's name in messages: `Postgres`.
pub(crate) fn type_name<DB: TxDatabase>() -> &'static str {
    let path = std::any::type_name::<DB>();
    path.rsplit_once("::").map_or(path, |(_, name)| name)
}

/// The transaction of an attempt: what the handler writes in it commits together with the completion of the job, or not
/// at all.
///
/// A handler takes it as `tx: &mut Tx<Postgres>`, `Tx<MySql>` or `Tx<Sqlite>`. The worker begins it on a connection of
/// its pool, at READ COMMITTED. If the handler returns `Ok`, the worker completes the job in it and commits. If the
/// handler fails, panics or is dropped, everything is rolled back.
///
/// Return errors of the database. Some end the transaction, such as a deadlock on MySQL and MariaDB or a full disk on
/// SQLite. An attempt that goes on after one fails, and nothing of it stays. Run no statement that ends the
/// transaction: no `COMMIT` or `ROLLBACK`, and on MySQL and MariaDB no `ALTER`, `TRUNCATE` or the like, which commit.
///
/// It dereferences to the connection, so `&mut **tx` runs queries. `&mut *tx` enqueues further jobs.
///
/// ```standalone_crate
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use queue::{Job, JobError, Tx, job};
/// use sqlx::Sqlite;
///
/// #[job]
/// async fn charge(tx: &mut Tx<Sqlite>, order: i64, cents: i64) -> Result<(), JobError> {
///     sqlx::query("INSERT INTO ledger VALUES ($1, $2)").bind(order).bind(cents).execute(&mut **tx).await?;
///     SendReceipt::new(order).enqueue(&mut *tx).await?;
///     Ok(())
/// }
///
/// #[job]
/// async fn send_receipt(order: i64) {}
///
/// # sqlx::query("CREATE TABLE ledger (\"order\" INTEGER, cents INTEGER)").execute(&pool).await?;
/// # let mut queue = queue::testing::TestQueue::new(&pool);
/// # Charge::new(7, 500).enqueue(&pool).await?;
/// # assert_eq!(queue.drain().await?.expect_ok().completed, 2);
/// # assert_eq!(sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM ledger").fetch_one(&pool).await?, 1);
/// # Ok(()) }
/// ```
///
/// To call the handler in a test, turn a transaction of the test into a `Tx`: `Tx::from(pool.begin().await?)`.
///
/// On SQLite, an open transaction keeps every other writer out, heartbeats included. So a handler with a `Tx<Sqlite>`
/// must end within 2 s.
#[must_use = "without a commit it is rolled back"]
pub struct Tx<DB: TxDatabase> {
    /// None: it has ended.
    transaction: Option<Transaction<'static, DB>>,
    /// Set if a worker has begun it.
    begun: Option<Begun>,
}

/// What a worker's transaction holds until its end.
struct Begun {
    /// On SQLite, nothing commits on the connection while this is true.
    open: Arc<AtomicBool>,
    /// It was found open at the end of the handler.
    checked: bool,
    _turns: (TxTurn, Turn),
}

impl<DB: TxDatabase> Tx<DB> {
    /// Begins one for an attempt. It may be dropped midway.
    pub(crate) async fn begin(WorkerPool { pool, turns }: WorkerPool<DB>) -> Result<Self, Error> {
        let turn = turns.transaction().await;
        // in a task: sqlx does not survive a drop while a transaction begins
        let begun = tokio::spawn(async move {
            let mut conn = DB::acquire(&pool).await?;
            let turn = (turn, turns.next(Errand::Other).await);
            let open = Arc::new(AtomicBool::new(true));
            DB::hold_commits(&mut conn, Arc::downgrade(&open)).await?;
            let transaction = Some(Transaction::begin(conn, Some(DB::BEGIN_TX.into_sql_str())).await?);
            Ok(Self { transaction, begun: Some(Begun { open, checked: false, _turns: turn }) })
        });
        begun.await.unwrap_or(Err(Error::PoolClosed)) // the runtime is shutting down
    }

    /// Error: the transaction has ended, although it looks open.
    pub(crate) async fn is_still_open(&mut self) -> Result<(), JobError> {
        let Some(begun) = &mut self.begun else { return Ok(()) };
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        match DB::raw(transaction, CHECK_TX).await {
            Err(Error::Database(error)) => Err(format!("{OVER} ({error})").into()),
            other => {
                begun.checked = other.is_ok();
                Ok(other.doing("cannot complete a job")?)
            }
        }
    }

    /// Whether that was found, and nothing was run since.
    pub(crate) fn is_checked(&self) -> bool {
        self.begun.as_ref().is_some_and(|begun| begun.checked)
    }

    pub(crate) async fn commit(mut self) -> Result<(), Error> {
        let Some(begun) = &self.begun else { return Self::into_inner(self).commit().await };
        begun.open.store(false, Ordering::Release);
        if let (Some((commit, _)), Some(transaction)) = (DB::END_TX, &mut self.transaction) {
            DB::raw(transaction, commit).await?;
            // there is nothing left to roll back
            drop(self.transaction.take());
            return Ok(());
        }
        match self.transaction.take() {
            Some(transaction) => transaction.commit().await,
            None => Ok(()),
        }
    }

    pub(crate) async fn roll_back(mut self) -> Result<(), Error> {
        match self.transaction.take() {
            Some(transaction) => roll_back(transaction, self.begun.take()).await,
            None => Ok(()),
        }
    }

    /// Returns the sqlx transaction inside. Use it in tests, after `Tx::from`.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// let tx = queue::Tx::from(pool.begin().await?);
    /// queue::Tx::into_inner(tx).rollback().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// For one that a worker has begun.
    pub fn into_inner(mut tx: Self) -> Transaction<'static, DB> {
        assert!(tx.begun.is_none(), "the transaction of a worker ends with its handler");
        tx.transaction.take().expect(HERE)
    }
}

const HERE: &str = "it is there until its end";

/// Rolls it back, and restores its session.
async fn roll_back<DB: Dialect>(mut transaction: Transaction<'static, DB>, begun: Option<Begun>) -> Result<(), Error> {
    let result = match DB::END_TX.filter(|_| begun.is_some()) {
        Some((_, roll_back)) => DB::raw(&mut transaction, roll_back).await,
        None => transaction.rollback().await,
    };
    drop(begun);
    result
}

impl<DB: TxDatabase> Drop for Tx<DB> {
    /// A handler that panics or is dropped leaves it behind.
    fn drop(&mut self) {
        if let Some(transaction) = self.transaction.take()
            && let begun @ Some(_) = self.begun.take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(roll_back(transaction, begun));
        }
    }
}

impl<DB: TxDatabase> From<Transaction<'static, DB>> for Tx<DB> {
    fn from(transaction: Transaction<'static, DB>) -> Self {
        Self { transaction: Some(transaction), begun: None }
    }
}

impl<DB: TxDatabase> Deref for Tx<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        self.transaction.as_ref().expect(HERE)
    }
}

impl<DB: TxDatabase> DerefMut for Tx<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        self.transaction.as_mut().expect(HERE)
    }
}

impl<DB: TxDatabase> std::fmt::Debug for Tx<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tx").field(&type_name::<DB>()).finish()
    }
}

/// The pool of a worker, among its states.
pub(crate) struct WorkerPool<DB: sqlx::Database> {
    pub(crate) pool: Pool<DB>,
    pub(crate) turns: Turns,
}

impl<DB: sqlx::Database> Clone for WorkerPool<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), turns: self.turns.clone() }
    }
}
