//! A connection that the worker keeps for one purpose, and what the server does with it when the worker falls silent.
//!
//! A process that ends closes its sockets, and the server undoes what it had begun. A machine that loses its power or its
//! network closes nothing: a transaction that was open would hold its locks until the server's system gives the connection
//! up, after hours, and nobody else could take those jobs or declare that worker dead. So the server is told to end what is
//! silent for eight seconds, a little more than the default lease. PostgreSQL can end just a silent transaction. MySQL has one
//! limit for all silence of a session, so the lines that have it are pinged while nothing else is to be said on them.

use std::time::Duration;

use sqlx::Connection as _;
use sqlx::pool::PoolConnection;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use super::dialect::{Dialect, rows};

/// How often lines are looked at, and how long one must have been silent by then.
pub(super) const PING_EVERY: Duration = Duration::from_millis(1_500);
/// How long the answer may take: with two of the former less than the server's limit.
const PING_LIMIT: Duration = Duration::from_secs(3);
/// Who was silent for so long although it is pinged stood still: the server has ended the session, or is about to.
const LOST_AFTER: Duration = Duration::from_secs(6);

/// A connection kept for one purpose: a claim never waits behind a completion, nor either behind a heartbeat. It is taken
/// out while in use and put back only when all went well.
pub(super) struct Line<DB: Dialect>(Mutex<Option<Kept<DB>>>);

/// A connection between two uses.
pub(super) struct Kept<DB: Dialect> {
    conn: PoolConnection<DB>,
    used: Instant,
}

impl<DB: Dialect> Kept<DB> {
    pub(super) fn new(conn: PoolConnection<DB>) -> Self {
        Self { conn, used: Instant::now() }
    }

    /// None when the server is not likely to know it any more. `transactions`: as when it was opened.
    pub(super) fn into_conn(self, transactions: bool) -> Option<PoolConnection<DB>> {
        let is_limited = transactions && DB::END_SILENT.is_some();
        (!is_limited || self.used.elapsed() < LOST_AFTER).then_some(self.conn)
    }
}

impl<DB: Dialect> Default for Line<DB> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<DB: Dialect> Line<DB> {
    /// Waits until nobody else uses it.
    pub(super) async fn lock(&self) -> MutexGuard<'_, Option<Kept<DB>>> {
        self.0.lock().await
    }

    /// Whether it is there, or in use.
    pub(super) fn is_kept(&self) -> bool {
        self.0.try_lock().map_or(true, |line| line.is_some())
    }

    /// Says something when nothing has been said for long. A connection that does not answer is not used again.
    pub(super) async fn ping(&self) {
        let Ok(mut line) = self.0.try_lock() else { return };
        let Some(mut kept) = line.take_if(|kept| kept.used.elapsed() >= PING_EVERY) else { return };
        if matches!(timeout(PING_LIMIT, kept.conn.ping()).await, Ok(Ok(()))) {
            *line = Some(Kept::new(kept.conn));
        }
    }
}

impl<DB: Dialect> Drop for Line<DB> {
    fn drop(&mut self) {
        // sqlx closes connections in a task; where no runtime is left the socket is just dropped
        if let Some(kept) = self.0.get_mut().take()
            && tokio::runtime::Handle::try_current().is_err()
        {
            drop(kept.conn.leak());
        }
    }
}

/// Gives a connection that is ours its settings. `transactions`: it is for more than single statements. Returns whether the
/// server is one of several.
pub(super) async fn open_line<DB: Dialect>(conn: &mut DB::Connection, transactions: bool) -> Result<bool, sqlx::Error> {
    for sql in DB::OPEN_LINE {
        DB::raw(conn, sql).await?;
    }
    if let Some(sql) = DB::END_SILENT.filter(|_| transactions) {
        DB::raw(conn, sql).await?;
    }
    if let Some((ask, setting)) = DB::OPEN_LINE_IN_CLUSTER
        && !rows::<DB>(conn, ask, &[]).await?.is_empty()
    {
        DB::raw(conn, setting).await?;
        return Ok(true);
    }
    Ok(false)
}
