//! Writes jobs to the database: through a pool, connection or transaction, one at a time or in groups. This file is the
//! boundary to sqlx: what is accepted, and what each means.

pub(crate) mod group;
pub(crate) mod tx;

use std::any::{Any, TypeId};
use std::sync::Arc;

use sqlx::Connection as _;

use crate::enqueue::tx::{Tx, TxDatabase, WorkerPool};
use crate::store::engine::connection::SqlStore;
use crate::store::engine::connection::connecting::Connecting;
use crate::store::engine::connection::notify;
use crate::store::engine::connection::write_queue::Turns;
use crate::store::engine::dialect::Dialect;
use crate::store::engine::jobs::enqueue::enqueue;
use crate::store::values::{NewJob, Unwritten, Whose};
use crate::store::{AdminStore, Store};
use crate::unique::Enqueued;

/// A pool of a supported database: `sqlx::PgPool`, `sqlx::MySqlPool` or `sqlx::SqlitePool`, or a reference to one.
/// Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a pool that queue can use",
    note = "give a `sqlx::PgPool`, `sqlx::MySqlPool` or `sqlx::SqlitePool`, and enable queue's cargo feature \
            `postgres`, `mysql` or `sqlite` (the default)"
)]
pub trait Pool: sealed::SealedPool {}

/// What a job can be enqueued through: `&PgPool`, `&MySqlPool`, `&SqlitePool`, or a `&mut` connection or transaction of
/// one. Sealed.
#[diagnostic::on_unimplemented(
    message = "a job cannot be enqueued into `{Self}`",
    label = "give `&pool`, `&mut connection` or `&mut transaction`",
    note = "of PostgreSQL, MySQL or SQLite (sqlx 0.9), with queue's cargo feature `postgres`, `mysql` or `sqlite` (the \
            default)"
)]
pub trait Target: sealed::SealedTarget {}

/// What a job can be completed in: a `&mut` transaction or connection of the worker's database, or a
/// [`&mut Tx`](crate::Tx). Sealed.
#[diagnostic::on_unimplemented(
    message = "a job cannot be completed in `{Self}`",
    label = "give `&mut transaction`",
    note = "what the job writes and its completion share one transaction, so a pool will not do: `pool.begin()` gives one"
)]
pub trait InTransaction: sealed::SealedTransaction {}

/// For workers and for the administration.
pub(crate) trait AnyStore: Store + AdminStore {}

impl<S: Store + AdminStore> AnyStore for S {}

#[allow(private_interfaces, private_bounds, reason = "sealed: nobody outside can name these methods")]
pub(crate) mod sealed {
    use super::*;

    pub trait SealedPool: Send + Sync {
        #[doc(hidden)]
        fn store(&self) -> Arc<dyn AnyStore>;
        /// The pool as a state of a worker: where a [`Tx`](crate::Tx) begins.
        #[doc(hidden)]
        fn state(&self) -> (TypeId, Arc<dyn Any + Send + Sync>);
    }

    pub trait SealedTarget: Send {
        #[doc(hidden)]
        fn write(self, jobs: Vec<NewJob>) -> impl Future<Output = Result<Vec<Enqueued>, Unwritten>> + Send;
    }

    pub trait SealedTransaction: Send {
        #[doc(hidden)]
        type Database: Dialect;
        #[doc(hidden)]
        fn connection(&mut self) -> &mut <Self::Database as sqlx::Database>::Connection;
        /// The transaction was found open just now.
        #[doc(hidden)]
        fn is_checked(&self) -> bool {
            false
        }
    }
}

#[allow(private_interfaces, reason = "sealed: nobody outside can name these methods")]
impl<P: sealed::SealedPool + ?Sized> sealed::SealedPool for &P {
    fn store(&self) -> Arc<dyn AnyStore> {
        (**self).store()
    }

    fn state(&self) -> (TypeId, Arc<dyn Any + Send + Sync>) {
        (**self).state()
    }
}
impl<P: Pool + ?Sized> Pool for &P {}

/// Writes through a pool. See [`group`].
pub(crate) async fn write_through_pool<DB: Dialect>(
    pool: &sqlx::Pool<DB>,
    mut jobs: Vec<NewJob>,
) -> Result<Vec<Enqueued>, Unwritten> {
    match (jobs.pop(), jobs.is_empty()) {
        (Some(job), true) if job.unique.is_none() => Ok(vec![Enqueued::New(group::write(pool, job).await?.into())]),
        (Some(job), _) => {
            jobs.push(job);
            group::write_all(pool.clone(), jobs).await
        }
        (None, _) => Ok(Vec::new()),
    }
}

/// Writes on the caller's connection.
async fn write<DB: Dialect>(conn: &mut DB::Connection, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Unwritten> {
    // outside the transaction that the caller believes in, the jobs would stay although its commit fails
    if DB::ENDS_BY_ITSELF && conn.is_in_transaction() && !DB::is_open(conn).await? {
        return Err(Unwritten::TransactionOver);
    }
    let enqueued = enqueue::<DB>(conn, jobs, Whose::Callers, None).await?;
    notify::announce::<DB>(conn).await?;
    Ok(enqueued)
}

/// Writes through a connection of a pool. If this is dropped midway, the connection may be in a transaction that sqlx
/// does not know of. It is then closed, and does not return to the pool.
async fn write_through_connection<DB: Dialect>(
    conn: &mut sqlx::pool::PoolConnection<DB>,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Unwritten> {
    struct CloseUnlessDone<'a, DB: Dialect>(&'a mut sqlx::pool::PoolConnection<DB>, bool);
    impl<DB: Dialect> Drop for CloseUnlessDone<'_, DB> {
        fn drop(&mut self) {
            // SQLite never leaves a connection in that state, and closing one could lose a database in memory
            if !self.1 && !DB::ONE_WRITER {
                self.0.close_on_drop();
            }
        }
    }
    let mut guard = CloseUnlessDone(conn, false);
    let result = write::<DB>(guard.0, jobs).await;
    guard.1 = true;
    result
}

#[allow(private_interfaces, reason = "sealed: nobody outside can name these methods")]
impl<DB: TxDatabase> sealed::SealedTransaction for &mut Tx<DB> {
    type Database = DB;

    fn connection(&mut self) -> &mut DB::Connection {
        self
    }

    fn is_checked(&self) -> bool {
        (**self).is_checked()
    }
}
#[diagnostic::do_not_recommend]
impl<DB: TxDatabase> InTransaction for &mut Tx<DB> {}

macro_rules! connection {
    ($db:ty, $ty:ty, $write:ident) => {
        impl sealed::SealedTarget for &mut $ty {
            async fn write(self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Unwritten> {
                $write::<$db>(self, &jobs).await
            }
        }
        #[diagnostic::do_not_recommend]
        impl Target for &mut $ty {}

        impl sealed::SealedTransaction for &mut $ty {
            type Database = $db;

            fn connection(&mut self) -> &mut <$db as sqlx::Database>::Connection {
                self
            }
        }
        #[diagnostic::do_not_recommend]
        impl InTransaction for &mut $ty {}
    };
}

macro_rules! database {
    ($feature:literal, $db:ty, $connection:ty) => {
        #[cfg(feature = $feature)]
        #[allow(private_interfaces, reason = "sealed: nobody outside can name these methods")]
        const _: () = {
            impl sealed::SealedPool for sqlx::Pool<$db> {
                fn store(&self) -> Arc<dyn AnyStore> {
                    notify::introduce(self);
                    Arc::new(SqlStore::<$db>::new(self.clone()))
                }

                fn state(&self) -> (TypeId, Arc<dyn Any + Send + Sync>) {
                    let pool = WorkerPool { pool: self.clone(), turns: Turns::of(self) };
                    (TypeId::of::<WorkerPool<$db>>(), Arc::new(pool))
                }
            }
            #[diagnostic::do_not_recommend]
            impl Pool for sqlx::Pool<$db> {}

            impl sealed::SealedTarget for &sqlx::Pool<$db> {
                fn write(self, jobs: Vec<NewJob>) -> impl Future<Output = Result<Vec<Enqueued>, Unwritten>> + Send {
                    write_through_pool(self, jobs)
                }
            }
            #[diagnostic::do_not_recommend]
            impl Target for &sqlx::Pool<$db> {}

            impl TxDatabase for $db {}

            impl sealed::SealedTarget for &mut Tx<$db> {
                async fn write(self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, Unwritten> {
                    if !<$db as Connecting>::ENDS_BY_ITSELF && !<$db as Connecting>::is_open(self).await? {
                        return Err(Unwritten::TransactionOver);
                    }
                    write::<$db>(self, &jobs).await
                }
            }
            #[diagnostic::do_not_recommend]
            impl Target for &mut Tx<$db> {}

            connection!($db, $connection, write);
            connection!($db, sqlx::pool::PoolConnection<$db>, write_through_connection);
            connection!($db, sqlx::Transaction<'_, $db>, write);
        };
    };
}

database!("postgres", sqlx::Postgres, sqlx::PgConnection);
database!("mysql", sqlx::MySql, sqlx::MySqlConnection);
database!("sqlite", sqlx::Sqlite, sqlx::SqliteConnection);
