//! What a handler writes and the end of its job, in one transaction.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::context::{JobContext, OwnRow, Row};
use crate::enqueue::InTransaction;
use crate::enqueue::tx::{Tx, TxDatabase, WorkerPool, type_name};
use crate::error::{Doing, Error};
use crate::job::StateType;
use crate::limits::may_be_kept;
use crate::outcome::JobError;
use crate::store::engine::dialect::Dialect as _;
use crate::store::engine::jobs::ends;

/// How long the worker's own connection may take to say whose the job is, while the handler's transaction waits.
const ASK: Duration = Duration::from_secs(2);
const ELSEWHERE: &str = "this transaction does not see the job: begin it on the worker's database, with READ COMMITTED \
    or after the attempt has begun";
pub(crate) const OPEN: &str = "needs an open transaction: `pool.begin()` begins one; if you did, it is over, because the database \
    rolled it back, or a statement such as COMMIT, ROLLBACK or ALTER ended it: return errors of the database";
const TWICE: &str = "`complete_in` was called already in this attempt: call it once, and not at all in a handler that \
    takes a `Tx`; if its transaction failed, return the error, and the job is tried again";
#[cfg(feature = "testing")]
const LENT: &str = "`complete_in` and `guard` need a transaction of their own, and this test queue works within one: \
    use `TestQueue::new(&pool)`";

impl JobContext {
    /// Completes the job in the handler's own transaction, with this result. What the handler writes in the
    /// transaction, the jobs that it enqueues there, and the completion commit together or not at all.
    ///
    /// After an error of the database, roll back. Some errors end the transaction, such as a deadlock on MySQL and
    /// MariaDB. What is written after that commits by itself.
    ///
    /// Call it last, once, then commit and return `Ok`. The result is kept as a returned one would be; what the
    /// handler returns afterwards is not. `tx` is a `&mut` transaction of the worker's database, or a connection
    /// that is in one.
    ///
    /// ```standalone_crate
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::{Job, JobContext, JobError, State, job};
    /// use sqlx::SqlitePool;
    ///
    /// #[job]
    /// async fn charge(ctx: JobContext, State(pool): State<SqlitePool>, cents: i64) -> Result<(), JobError> {
    ///     let mut tx = pool.begin().await?;
    ///     sqlx::query("INSERT INTO ledger VALUES ($1)").bind(cents).execute(&mut *tx).await?;
    ///     ctx.complete_in(&mut tx, &()).await?;
    ///     tx.commit().await?;
    ///     Ok(())
    /// }
    ///
    /// # sqlx::query("CREATE TABLE ledger (cents INTEGER)").execute(&pool).await?;
    /// # let mut queue = queue::testing::TestQueue::new(&pool).state(pool.clone());
    /// # Charge::new(500).enqueue(&pool).await?;
    /// # assert_eq!(queue.drain().await?.expect_ok().completed, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// How the attempt ends after that:
    ///
    /// | The handler | The transaction was committed | It was not |
    /// |---|---|---|
    /// | returns `Ok` | completed | failed, as "completed in a transaction that was not committed" |
    /// | fails, panics or times out | completed, and the log has the error | as without this call |
    ///
    /// In a context of [`for_test`](Self::for_test), and in
    /// `TestQueue::perform` of `queue::testing`, there is no row: it succeeds and writes nothing.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] if the job is another worker's by now: return the error, so that the transaction is rolled
    /// back. [`Error::Config`] if there is no transaction or it has ended, if it is one of another database, or if the
    /// job is completed already in this attempt. [`Error::Database`] for everything else.
    ///
    /// # Cancellation
    /// If it is dropped, roll the transaction back.
    #[doc(alias = "transaction")]
    pub fn complete_in<'a, O>(&'a self, tx: impl InTransaction + 'a, output: &O) -> BoxFuture<'a, Result<(), Error>>
    where
        O: Serialize + ?Sized,
    {
        let result = json(output);
        async move { self.complete(tx, result?).await }.boxed()
    }

    /// Locks the job's row until the end of the transaction, if this attempt is still current. While it is locked, no
    /// other worker can take the job. So effects without a completion, such as one step of several, are written by the
    /// current attempt alone.
    ///
    /// Call it first in the transaction, and keep the transaction short: somebody who cancels the job waits for it. On
    /// SQLite, it keeps every other writer out.
    ///
    /// ```standalone_crate
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::{Job, JobContext, JobError, State, job};
    /// use sqlx::SqlitePool;
    ///
    /// #[job]
    /// async fn import(ctx: JobContext, State(pool): State<SqlitePool>, pages: i64) -> Result<(), JobError> {
    ///     for page in 0..pages {
    ///         let mut tx = pool.begin().await?;
    ///         ctx.guard(&mut tx).await?;
    ///         sqlx::query("INSERT INTO pages VALUES ($1) ON CONFLICT DO NOTHING").bind(page).execute(&mut *tx).await?;
    ///         tx.commit().await?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// # sqlx::query("CREATE TABLE pages (page INTEGER PRIMARY KEY)").execute(&pool).await?;
    /// # let mut queue = queue::testing::TestQueue::new(&pool).state(pool.clone());
    /// # Import::new(3).enqueue(&pool).await?;
    /// # assert_eq!(queue.drain().await?.expect_ok().completed, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`complete_in`](Self::complete_in).
    ///
    /// # Cancellation
    /// If it is dropped, roll the transaction back.
    pub fn guard<'a, T: InTransaction + 'a>(&'a self, mut tx: T) -> BoxFuture<'a, Result<(), Error>> {
        async move {
            let Some(row) = self.row_for::<T>().await? else { return Ok(()) };
            match ends::guard::<T::Database>(tx.connection(), row.row())
                .await
                .doing("cannot lock the row of a running job")?
            {
                Some(true) => Ok(()),
                Some(false) => Err(self.refused(row).await),
                None => Err(Error::config(format!("`guard` {OPEN}"))),
            }
        }
        .boxed()
    }

    async fn complete<T: InTransaction>(&self, mut tx: T, result: Option<String>) -> Result<(), Error> {
        let row = self.row_for::<T>().await?;
        if !self.begins_to_complete() {
            return Err(Error::config(TWICE));
        }
        let Some(row) = row else { return Ok(()) };
        let (end, is_checked) = (row.completed(result), tx.is_checked());
        let done = ends::complete::<T::Database>(tx.connection(), row.row(), &end, is_checked).await;
        let done = match done.doing("cannot complete a job") {
            Ok(Some(true)) => return Ok(()),
            Ok(Some(false)) => Err(self.refused(row).await),
            Ok(None) => Err(Error::config(format!("`complete_in` {OPEN}"))),
            Err(error) => Err(error),
        };
        self.does_not_complete();
        done
    }

    /// The row, if this attempt may still be current. None: the job has none.
    async fn row_for<T: InTransaction>(&self) -> Result<Option<&dyn OwnRow>, Error> {
        let row = match self.row() {
            Row::None => return Ok(None),
            #[cfg(feature = "testing")]
            Row::Lent => return Err(Error::config(LENT)),
            Row::Own(row) => &**row,
        };
        if row.is_lost() {
            return Err(Error::LeaseLost { id: self.id() });
        }
        let (theirs, ours) = (T::Database::ENGINE, row.engine());
        if theirs != ours {
            return Err(Error::config(format!(
                "the job is in a database of {ours}, and this transaction is one of {theirs}: begin it on the worker's \
                 database"
            )));
        }
        // the handler may hold the lock from here on
        row.lock_soon().await;
        Ok(Some(row))
    }

    /// Why the transaction sees no row of this attempt.
    async fn refused(&self, row: &dyn OwnRow) -> Error {
        match tokio::time::timeout(ASK, row.is_held()).await {
            Ok(Ok(true)) => Error::config(ELSEWHERE),
            Ok(Ok(false)) | Err(_) => Error::LeaseLost { id: self.id() },
            Ok(Err(error)) => error,
        }
    }
}

/// The result as it is kept.
fn json(output: &(impl Serialize + ?Sized)) -> Result<Option<String>, Error> {
    let json = serde_json::to_string(output)
        .map_err(|error| Error::config(format!("the result is not serializable: {error}")))?;
    Ok(Some(json).filter(|json| json != "null" && may_be_kept(json)))
}

/// A [`Tx`] parameter.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a job",
    label = "not the transaction of a worker",
    note = "write `&mut queue::Tx<sqlx::Postgres>`, `Tx<sqlx::MySql>` or `Tx<sqlx::Sqlite>`"
)]
pub trait TxParameter: Sized {
    /// Begins the transaction.
    fn begin(ctx: &JobContext) -> impl Future<Output = Result<Self, JobError>> + Send;
    /// Completes the job in it, and commits.
    fn commit<O: Serialize>(self, ctx: &JobContext, output: &O) -> impl Future<Output = Result<(), JobError>> + Send;
    /// Undoes everything.
    fn roll_back(self) -> impl Future<Output = ()> + Send;
    /// Returns what a worker needs for it, for `Job::requires`.
    fn describe() -> StateType;
}

impl<DB: TxDatabase> TxParameter for Tx<DB> {
    async fn begin(ctx: &JobContext) -> Result<Self, JobError> {
        // cannot fail in a worker: `WorkerBuilder::build` refuses one on another database
        let pool = ctx.state::<WorkerPool<DB>>().ok_or_else(|| format!("there is no pool of {}", DB::ENGINE))?;
        #[cfg(feature = "schedules")]
        if DB::ONE_WRITER && pool.pool.options().get_max_connections() == 1 {
            // In memory, the transaction takes the only connection. The handler meets an error if it asks.
            let _ = ctx.tick().await;
        }
        tokio::select! {
            biased;
            begun = Self::begin(pool) => begun.doing("cannot begin the transaction of a job").map_err(JobError::unbegun),
            () = ctx.cancelled() => Err(JobError::unbegun("told to stop while it waited for its transaction")),
        }
    }

    fn commit<O: Serialize>(
        mut self,
        ctx: &JobContext,
        output: &O,
    ) -> impl Future<Output = Result<(), JobError>> + Send {
        let result = json(output);
        async move {
            // as for a result that is returned without a transaction: no retry can help
            let result = result.map_err(JobError::dead)?;
            self.is_still_open().await?;
            ctx.complete(&mut self, result).await?;
            Ok(self.commit().await.doing("cannot commit the transaction of a job")?)
        }
    }

    /// Before the failure is recorded: that waits for the lock on the row.
    async fn roll_back(self) {
        if let Err(error) = self.roll_back().await {
            tracing::debug!(%error, "the transaction of a failed job ends with its connection");
        }
    }

    fn describe() -> StateType {
        StateType::of_tx::<WorkerPool<DB>>(type_name::<DB>(), DB::ENGINE)
    }
}
