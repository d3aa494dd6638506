//! Connections that believe themselves inside a transaction that is over.
//!
//! When its disk is full (or it runs out of memory, or cannot write), SQLite ends a transaction by itself. The
//! `ROLLBACK` that follows fails, and sqlx still counts the transaction. It then refuses every `BEGIN IMMEDIATE` on
//! that connection, and turns a plain `begin` into a savepoint. When that savepoint fails in turn, it leaves a
//! transaction open that no commit ends. The next user of the connection writes into that transaction, and its writes
//! are lost with the connection.

use sqlx::pool::PoolConnection;
use sqlx::{Connection, Pool};

use crate::store::engine::dialect::{Dialect, rows};

/// A database in memory is lost with its connection.
const IN_A_FILE: &str = "SELECT 1 FROM pragma_database_list WHERE name = 'main' AND file <> ''";

/// Takes a connection from the pool. Nobody has a transaction on it. If a connection of an embedded database believes
/// otherwise, it is closed, and another one is taken.
pub(crate) async fn acquire<DB: Dialect>(pool: &Pool<DB>) -> Result<PoolConnection<DB>, sqlx::Error> {
    loop {
        let mut conn = pool.acquire().await?;
        if !DB::ONE_WRITER || !is_entangled::<DB>(&mut conn).await? {
            return Ok(conn);
        }
        conn.close_on_drop();
    }
}

async fn is_entangled<DB: Dialect>(conn: &mut DB::Connection) -> Result<bool, sqlx::Error> {
    if !conn.is_in_transaction() {
        return Ok(false);
    }
    // a rollback may still be queued; this answer comes after it
    let in_a_file = !rows::<DB>(conn, IN_A_FILE, &[]).await?.is_empty();
    Ok(in_a_file && conn.is_in_transaction())
}

#[cfg(all(test, feature = "sqlite"))]
#[path = "poisoned_tests.rs"]
mod tests;
