//! The transaction that a worker begins for a handler.

use std::ops::{Deref, DerefMut};

use sqlx::{Error, Pool, Transaction};

use crate::error::Doing as _;
use crate::outcome::JobError;

/// A database of which a handler can take a [`Tx`]: `sqlx::Postgres`, `sqlx::MySql` or `sqlx::Sqlite`. Sealed.
#[diagnostic::on_unimplemented(
    message = "a worker has no transactions of `{Self}`",
    label = "not a database that queue can use",
    note = "write `sqlx::Postgres`, `sqlx::MySql` or `sqlx::Sqlite`, and enable queue's cargo feature `postgres`, \
            `mysql` or `sqlite` (the default)"
)]
pub trait TxDatabase: sealed::SealedTx {}

pub(crate) mod sealed {
    use crate::engine::Engine;
    use crate::store::engine::dialect::Dialect;

    #[allow(private_bounds, reason = "sealed: nobody outside can name it")]
    pub trait SealedTx: Dialect {
        /// The type's name in messages.
        #[doc(hidden)]
        const TYPE: &'static str;
    }

    impl<DB: Dialect> SealedTx for DB {
        const TYPE: &'static str = match DB::KIND {
            Engine::Postgres => "Postgres",
            Engine::MySql => "MySql",
            Engine::Sqlite => "Sqlite",
        };
    }
}

/// The transaction of an attempt: what the handler writes in it commits together with the completion of the job, or not
/// at all.
///
/// A handler takes it as `tx: &mut Tx<Postgres>`, `Tx<MySql>` or `Tx<Sqlite>`. The worker begins it on a connection of
/// its pool, at READ COMMITTED. If the handler returns `Ok`, the worker completes the job in it and commits. If the
/// handler fails, panics or is dropped, everything is rolled back.
///
/// Return errors of the database. On MySQL and MariaDB a deadlock ends the transaction, and an attempt that goes on after
/// it fails.
///
/// It dereferences to the connection, so `&mut **tx` runs queries. `&mut *tx` enqueues further jobs.
///
/// ```standalone_crate
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = queue::__doctest::pool().await;
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
pub struct Tx<DB: TxDatabase>(Transaction<'static, DB>);

impl<DB: TxDatabase> Tx<DB> {
    pub(crate) async fn begin(pool: &Pool<DB>) -> Result<Self, Error> {
        Ok(Self(pool.begin_with(DB::BEGIN_TX).await?))
    }

    /// Error: the transaction has ended, although it looks open. MySQL and MariaDB roll it back after a deadlock and
    /// commit it before some statements, and the next statement begins another one.
    pub(crate) async fn is_still_open(&mut self) -> Result<(), JobError> {
        let Some(check) = DB::CHECK_TX else { return Ok(()) };
        match DB::raw(&mut self.0, check).await {
            Err(Error::Database(error)) => Err(format!(
                "the handler's transaction ended before the handler did: the database rolled it back, for example \
                 after a deadlock, or committed it before a statement such as TRUNCATE or ALTER; return errors of the \
                 database, and run no such statement in a `Tx` ({error})"
            )
            .into()),
            other => Ok(other.doing("cannot complete a job")?),
        }
    }

    /// Returns the sqlx transaction inside. Use it in tests, after `Tx::from`.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = queue::__doctest::pool().await;
    /// let tx = queue::Tx::from(pool.begin().await?);
    /// queue::Tx::into_inner(tx).rollback().await?;
    /// # Ok(()) }
    /// ```
    pub fn into_inner(tx: Self) -> Transaction<'static, DB> {
        tx.0
    }
}

impl<DB: TxDatabase> From<Transaction<'static, DB>> for Tx<DB> {
    fn from(transaction: Transaction<'static, DB>) -> Self {
        Self(transaction)
    }
}

impl<DB: TxDatabase> Deref for Tx<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.0
    }
}

impl<DB: TxDatabase> DerefMut for Tx<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.0
    }
}

impl<DB: TxDatabase> std::fmt::Debug for Tx<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tx").field(&DB::TYPE).finish()
    }
}

/// The pool of a worker, among its states.
pub(crate) struct WorkerPool<DB: sqlx::Database>(pub(crate) Pool<DB>);

impl<DB: sqlx::Database> Clone for WorkerPool<DB> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
