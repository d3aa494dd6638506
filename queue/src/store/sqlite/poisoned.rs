//! Connections that believe themselves inside a transaction that is over.
//!
//! When its disk is full (or it runs out of memory, or cannot write), SQLite ends a transaction by itself. The
//! `ROLLBACK` that follows fails, and sqlx still counts the transaction. It then refuses every `BEGIN IMMEDIATE` on
//! that connection, and turns a plain `begin` into a savepoint. When that savepoint fails in turn, it leaves a
//! transaction open that no commit ends. The next user of the connection writes into that transaction, and its writes
//! are lost with the connection.

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Error, Pool, Sqlite, SqliteConnection};

/// Returns a row if the connection can be closed: a database in memory would be lost with it.
const IN_A_FILE: &str = "SELECT 1 FROM pragma_database_list WHERE name = 'main' AND file <> ''";

/// Takes a connection from the pool. Nobody has a transaction on it. If a connection believes otherwise, it is closed,
/// and another one is taken.
pub(super) async fn acquire(pool: &Pool<Sqlite>) -> Result<PoolConnection<Sqlite>, Error> {
    loop {
        let mut conn = pool.acquire().await?;
        if !is_entangled(&mut conn).await? {
            return Ok(conn);
        }
        conn.close_on_drop();
    }
}

async fn is_entangled(conn: &mut SqliteConnection) -> Result<bool, Error> {
    if !conn.is_in_transaction() {
        return Ok(false);
    }
    // a rollback may still be queued; this answer comes after it
    let in_a_file = sqlx::query(IN_A_FILE).fetch_optional(&mut *conn).await?.is_some();
    Ok(in_a_file && conn.is_in_transaction())
}

#[cfg(test)]
#[path = "poisoned_tests.rs"]
mod tests;
