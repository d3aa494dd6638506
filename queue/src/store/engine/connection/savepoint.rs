//! Several INSERTs, all or none, on a connection that may be the caller's and in the middle of a transaction.
//!
//! sqlx nests transactions, too. But a nested one that is dropped while its savepoint is being sent rolls the whole
//! transaction back, and the caller's commit does not report that. Nor does sqlx know of a transaction that was begun
//! by SQL. On MySQL, `BEGIN` would commit that one.

use sqlx::{Connection, Error, SqlSafeStr, Transaction};

use crate::store::engine::dialect::Dialect;
use crate::store::values::Whose;

pub(crate) const SAVEPOINT: &str = "SAVEPOINT queue_enqueue";
const RELEASE: &str = "RELEASE SAVEPOINT queue_enqueue";
/// Fails outside a transaction, on servers.
pub(crate) const SET_AND_RELEASED: &str = "SAVEPOINT queue_enqueue; RELEASE SAVEPOINT queue_enqueue";
const ROLLBACK: &str = "ROLLBACK TO SAVEPOINT queue_enqueue";

/// The transaction around the statements.
pub(crate) enum Together<'c, DB: Dialect> {
    /// A transaction for them alone.
    Alone(Transaction<'c, DB>),
    /// The same on a connection of the pool, by statements that mean the same in every session.
    InPool(&'c mut DB::Connection),
    /// The caller's transaction, behind a savepoint. If this is dropped, some of the rows stay in that transaction.
    Part(&'c mut DB::Connection),
    /// A transaction that the caller of [`begin`](Self::begin) ends.
    Inside(&'c mut DB::Connection),
}

impl<'c, DB: Dialect> Together<'c, DB> {
    pub(crate) async fn begin(conn: &'c mut DB::Connection, whose: Whose) -> Result<Self, Error> {
        match whose {
            Whose::InTransaction => Ok(Self::Inside(conn)),
            Whose::Callers if DB::savepoint(conn).await? => Ok(Self::Part(conn)),
            // as through a pool, whatever the session's level
            Whose::Callers => Ok(Self::Alone(conn.begin_with(DB::BEGIN_ANEW.into_sql_str()).await?)),
            Whose::Pools => Ok(Self::Alone(conn.begin().await?)),
        }
    }

    /// Close the connection if this is dropped before its [end](Self::end): the transaction is still open.
    pub(crate) async fn begin_in_pool(conn: &'c mut DB::Connection) -> Result<Self, Error> {
        if let Err(error) = DB::raw(conn, DB::BEGIN_IN_POOL).await {
            if !matches!(error, Error::Database(_)) || DB::BEGIN_ANEW == DB::BEGIN_IN_POOL {
                return Err(error);
            }
            DB::raw(conn, DB::BEGIN_ANEW).await?;
        }
        Ok(Self::InPool(conn))
    }

    pub(crate) fn is_alone(&self) -> bool {
        matches!(self, Self::Alone(_))
    }

    pub(crate) fn connection(&mut self) -> &mut DB::Connection {
        match self {
            Self::Alone(transaction) => transaction,
            Self::InPool(conn) | Self::Part(conn) | Self::Inside(conn) => conn,
        }
    }

    /// Keeps the rows after success, else undoes them and returns the error.
    pub(crate) async fn end<T, E: From<Error>>(self, result: Result<T, E>) -> Result<T, E> {
        match (self, result) {
            (Self::Inside(_), result) => result,
            (Self::Alone(transaction), Ok(it)) => Ok(transaction.commit().await.map(|()| it)?),
            (Self::InPool(conn), Ok(it)) => match DB::raw(conn, DB::COMMIT_IN_POOL).await {
                Ok(()) => Ok(it),
                Err(error) => {
                    let _ = DB::raw(conn, DB::ROLLBACK_IN_POOL).await;
                    Err(error.into())
                }
            },
            (Self::Part(conn), Ok(it)) => Ok(DB::raw(conn, RELEASE).await.map(|()| it)?),
            // the first error is the cause, even if the rollback fails, too
            (Self::Alone(transaction), Err(error)) => {
                let _ = transaction.rollback().await;
                Err(error)
            }
            (Self::InPool(conn), Err(error)) => {
                let _ = DB::raw(conn, DB::ROLLBACK_IN_POOL).await;
                Err(error)
            }
            (Self::Part(conn), Err(error)) => {
                if DB::raw(conn, ROLLBACK).await.is_ok() {
                    let _ = DB::raw(conn, RELEASE).await;
                }
                Err(error)
            }
        }
    }
}

/// Commits our own transaction after success, else rolls it back.
pub(crate) async fn ended<DB: Dialect, T>(
    transaction: Transaction<'_, DB>,
    result: Result<T, Error>,
) -> Result<T, Error> {
    match result {
        Ok(value) => transaction.commit().await.map(|()| value),
        Err(error) => {
            match transaction.rollback().await {
                // the engine has already ended it; the first error says why
                Err(_) if DB::ONE_WRITER => Err(error),
                Err(lost) => Err(lost),
                Ok(()) => Err(error),
            }
        }
    }
}
