//! Several INSERTs of which all or none count, on a connection that may be the caller's, in the middle of a transaction.
//!
//! sqlx nests transactions, too. But one that is dropped while its savepoint is on its way rolls the whole transaction back, and
//! the caller's commit says nothing of it; nor does it know of a transaction that was begun by SQL, which `BEGIN` would commit
//! on MySQL.

use sqlx::{Connection, Error, Transaction};

use crate::store::engine::dialect::Dialect;
use crate::store::values::Whose;

pub(crate) const SAVEPOINT: &str = "SAVEPOINT queue_enqueue";
pub(crate) const RELEASE: &str = "RELEASE SAVEPOINT queue_enqueue";
const ROLLBACK: &str = "ROLLBACK TO SAVEPOINT queue_enqueue";

/// What the statements are in.
pub(crate) enum Together<'c, DB: Dialect> {
    /// A transaction for them alone.
    Alone(Transaction<'c, DB>),
    /// The caller's transaction, behind a savepoint. Who drops this has a part of them in the transaction.
    Part(&'c mut DB::Connection),
}

impl<'c, DB: Dialect> Together<'c, DB> {
    pub(crate) async fn begin(conn: &'c mut DB::Connection, whose: Whose) -> Result<Self, Error> {
        if whose == Whose::Callers && DB::savepoint(conn).await? {
            return Ok(Self::Part(conn));
        }
        Ok(Self::Alone(conn.begin().await?))
    }

    pub(crate) fn connection(&mut self) -> &mut DB::Connection {
        match self {
            Self::Alone(transaction) => transaction,
            Self::Part(conn) => conn,
        }
    }

    /// Keeps them if all went well, else undoes what was done and answers with what went wrong.
    pub(crate) async fn end<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        match (self, result) {
            (Self::Alone(transaction), Ok(it)) => transaction.commit().await.map(|()| it),
            (Self::Part(conn), Ok(it)) => DB::raw(conn, RELEASE).await.map(|()| it),
            // whether the rollback fails or not, the first error says what is wrong
            (Self::Alone(transaction), Err(error)) => {
                let _ = transaction.rollback().await;
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

/// Commits a transaction of our own if all went well in it, else rolls it back.
pub(crate) async fn ended<DB: Dialect, T>(
    transaction: Transaction<'_, DB>,
    result: Result<T, Error>,
) -> Result<T, Error> {
    match result {
        Ok(value) => transaction.commit().await.map(|()| value),
        Err(error) => {
            match transaction.rollback().await {
                // the engine has ended it by itself, for a reason that is worth more than the failure to do it again
                Err(_) if DB::ONE_WRITER => Err(error),
                Err(lost) => Err(lost),
                Ok(()) => Err(error),
            }
        }
    }
}
