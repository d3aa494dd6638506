//! The administration in a transaction of the caller's.

use tokio::time::sleep;

use crate::admin::Admin;
use crate::carry_out::{AGAIN, Fate};
use crate::effects::OPEN;
use crate::enqueue::InTransaction;
use crate::error::{Doing as _, Error};
use crate::operations::Action;
use crate::state::JobId;
use crate::store::engine::connection::connecting::Connecting as _;
use crate::store::engine::dialect::Dialect as _;
use crate::store::engine::driver::execute;
use crate::store::engine::{changes, inspect};
use crate::store::operations::Record;

/// So often it tries to reach a job that is locked: for a second, because the caller's transaction has locks as well.
const TRIES: u32 = 20;

/// Changes jobs and schedules in a transaction of yours: [`Admin::within`] gives it. The changes and their
/// [records](Admin::operations) commit together with your data, or not at all.
///
/// Everything goes through your connection. So a job or schedule that the transaction has just written is there, and
/// the pool may have a single connection. Its account needs the rights of an administrator on these tables. What is
/// changed stays locked until the transaction ends: keep it short.
///
/// # Errors
/// Of each method, beside those of the method of [`Admin`]: [`Error::Config`] if there is no transaction or it has
/// ended, or if it is one of another engine. Then nothing is written. It may be one of another database of the same
/// engine, and changes that one. After [`Error::Database`], roll back.
///
/// # Cancellation
/// If a method is dropped, roll the transaction back.
pub struct Within<'a, T> {
    pub(crate) admin: &'a Admin,
    tx: T,
}

impl Admin {
    /// The changes that can be part of your own transaction: a `&mut` transaction, or a connection that is in one.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// # sqlx::raw_sql("CREATE TABLE shops (id INTEGER, closed INTEGER)").execute(&pool).await?;
    /// use queue::admin::Admin;
    /// use queue::{Job, JobState, job};
    ///
    /// #[job]
    /// async fn sync_shop(shop: u32) {
    ///     println!("{shop}");
    /// }
    ///
    /// let admin = Admin::new(&pool);
    /// let id = SyncShop::new(7).enqueue(&pool).await?;
    ///
    /// let mut tx = pool.begin().await?;
    /// sqlx::query("UPDATE shops SET closed = TRUE WHERE id = 7").execute(&mut *tx).await?;
    /// admin.within(&mut tx).cancel(id).await?;
    /// tx.commit().await?;
    /// assert_eq!(admin.job(id).await?.expect("it is there").job.state, JobState::Cancelled);
    /// # Ok(()) }
    /// ```
    pub fn within<T: InTransaction>(&self, tx: T) -> Within<'_, T> {
        Within { admin: self, tx }
    }
}

impl<T: InTransaction> Within<'_, T> {
    /// As [`Admin::cancel`]. A running job gets the request after the commit. Until then its worker cannot end it.
    ///
    /// # Errors
    /// As for [`Admin::cancel`], with less patience: if a job is locked, it tries again for a second. Then it is
    /// [`Error::Locked`]. On MySQL and MariaDB at REPEATABLE READ, so may be a job that has ended since your first
    /// `SELECT`. See also [`Within`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::{Error, Job, job};
    ///
    /// #[job]
    /// async fn remind(visit: u32) {
    ///     println!("{visit}");
    /// }
    ///
    /// let (admin, id) = (Admin::new(&pool), Remind::new(7).enqueue(&pool).await?);
    /// let mut tx = pool.begin().await?;
    /// match admin.within(&mut tx).cancel(id).await {
    ///     Err(Error::Conflict { .. } | Error::NotFound(_)) => println!("it is over"),
    ///     cancelled => cancelled?,
    /// }
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    pub async fn cancel(&mut self, id: JobId) -> Result<(), Error> {
        let action = Action::Cancel;
        let record = Record::Note(self.admin.note(action.word(), &action.details(), Some(id)));
        let conn = self.open().await?;
        for _ in 0..TRIES {
            if changes::cancel::<T::Database>(conn, id, &record).await.doing("cannot cancel a job")? {
                return Ok(());
            }
            let found = inspect::detail::<T::Database>(conn, id).await.doing("cannot read a job")?;
            if let Some(result) = Fate::of(found.map(|it| it.job.state), &action).result(id, &action) {
                return result;
            }
            // a worker that claims it locks it for a moment, a handler with `guard` for longer
            sleep(AGAIN).await;
        }
        Err(Error::Locked { operation: action.name(), jobs: vec![id], changed: 0 })
    }

    /// The connection, if it is in a transaction of this engine.
    pub(crate) async fn open(&mut self) -> Result<&mut <T::Database as sqlx::Database>::Connection, Error> {
        let (theirs, ours) = (T::Database::ENGINE, self.admin.store.engine());
        if theirs != ours {
            return Err(Error::config(format!(
                "this `Admin` is one of {ours}, and the transaction is one of {theirs}: begin it on the same database"
            )));
        }
        let conn = self.tx.connection();
        if !T::Database::is_open(conn).await.doing("cannot look for a transaction")? {
            return Err(Error::config(format!("`within` {OPEN}")));
        }
        if T::Database::ONE_WRITER {
            // changes nothing: a transaction that reads before it writes fails when others write; this one waits
            let binds = [0.into(), "".into()];
            execute::<T::Database>(conn, T::Database::OPERATIONS.end, &binds).await.doing("cannot begin to write")?;
        }
        Ok(conn)
    }
}
