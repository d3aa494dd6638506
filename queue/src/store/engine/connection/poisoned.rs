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

/// Takes a connection from the pool. Nobody has a transaction on it. If a connection of an embedded database believes
/// otherwise, it is closed, and another one is taken.
pub(crate) async fn acquire<DB: Dialect>(pool: &Pool<DB>) -> Result<PoolConnection<DB>, sqlx::Error> {
    loop {
        let mut conn = pool.acquire().await?;
        if !is_entangled::<DB>(&mut conn).await? {
            return Ok(conn);
        }
        conn.close_on_drop();
    }
}

async fn is_entangled<DB: Dialect>(conn: &mut DB::Connection) -> Result<bool, sqlx::Error> {
    let Some(in_a_file) = DB::IN_A_FILE.filter(|_| conn.is_in_transaction()) else { return Ok(false) };
    // a rollback may still be queued; this answer comes after it
    let in_a_file = !rows::<DB>(conn, in_a_file, &[]).await?.is_empty();
    Ok(in_a_file && conn.is_in_transaction())
}

#[cfg(all(test, feature = "sqlite"))]
#[path = "poisoned_tests.rs"]
mod tests;
