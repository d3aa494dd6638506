//! A connection that the worker keeps for one purpose, and what the server does with it when the worker falls silent.
//!
//! A process that ends closes its sockets, and the server undoes what it had begun. A machine that loses its power or its
//! network closes nothing: a transaction that was open would hold its locks until the server's system gives the connection
//! up, after hours, and nobody else could take those jobs or declare that worker dead. So the server is told to end what is
//! silent for eight seconds, a little more than the default lease. PostgreSQL can end just a silent transaction. MySQL has one
//! limit for all silence of a session, so the lines that have it are pinged while nothing else is to be said on them.
//!
//! All lines are pinged now and then. Balancers and NAT forget a connection on which nothing is said for minutes, and
//! tell nobody: the next statement on it, the end of a job, would wait for an answer that never comes.
//!
//! A line is opened beside the user's pool, as the pool opens its own connections. Handlers may hold the pool's. A
//! worker that waited behind them could neither keep its lease nor record their ends.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Error, Pool};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use crate::store::engine::dialect::{Dialect, rows};

/// How long a line may be silent before it is pinged. Balancers forget a connection after minutes of silence.
pub(crate) const SILENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 60 });
/// How long the answer may take: with two of MySQL's pauses less than that server's limit.
const PING_LIMIT: Duration = Duration::from_secs(3);
/// How long a goodbye to the server may take.
const GOODBYE: Duration = Duration::from_secs(1);
/// Who was silent for so long although it is pinged stood still: the server has ended the session, or is about to.
const LOST_AFTER: Duration = Duration::from_secs(6);

/// A connection kept for one purpose: a claim never waits behind a completion, nor either behind a heartbeat. It is taken
/// out while in use and put back only when all went well.
pub(crate) struct Line<DB: Dialect>(Mutex<Option<Kept<DB>>>);

/// A connection between two uses.
pub(crate) struct Kept<DB: Dialect> {
    conn: DB::Connection,
    used: Instant,
}

/// A connection in use.
pub(crate) enum Conn<DB: Dialect> {
    /// It goes back to a pool.
    Pools(PoolConnection<DB>),
    /// A line, which nobody else knows.
    Own(DB::Connection),
}

impl<DB: Dialect> Deref for Conn<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        match self {
            Self::Pools(conn) => conn,
            Self::Own(conn) => conn,
        }
    }
}

impl<DB: Dialect> DerefMut for Conn<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        match self {
            Self::Pools(conn) => conn,
            Self::Own(conn) => conn,
        }
    }
}

/// A connection beside the user's pool, opened as the pool opens its own: with its present options, and with its hook
/// (`after_connect`), which sqlx runs only for a pool. So it comes out of a pool of one that is gone afterwards.
pub(crate) async fn connect<DB: Dialect>(pool: &Pool<DB>, within: Duration) -> Result<DB::Connection, Error> {
    if pool.is_closed() {
        return Err(Error::PoolClosed);
    }
    match alone(pool, within).acquire().await {
        // it counts in no pool from here on, nor in that of which the user's may be a part
        Ok(conn) => Ok(conn.detach()),
        // sqlx repeats what may pass, and does not tell what it was
        Err(Error::PoolTimedOut) => {
            match timeout(within, DB::Connection::connect_with(&DB::named(&pool.connect_options()))).await {
                Ok(Err(reason)) => Err(reason),
                Ok(Ok(_)) | Err(_) => Err(Error::PoolTimedOut),
            }
        }
        Err(error) => Err(error),
    }
}

/// A pool of one connection, beside the user's and made like it, that keeps what it has.
pub(crate) fn alone<DB: Dialect>(pool: &Pool<DB>, within: Duration) -> Pool<DB> {
    let options = pool.options().clone().max_connections(1).min_connections(0).acquire_timeout(within);
    options.idle_timeout(None).max_lifetime(None).connect_lazy_with(DB::named(&pool.connect_options()))
}

impl<DB: Dialect> Kept<DB> {
    pub(crate) fn new(conn: DB::Connection) -> Self {
        Self { conn, used: Instant::now() }
    }

    /// None when the server is not likely to know it any more. `transactions`: as when it was opened.
    pub(crate) fn into_conn(self, transactions: bool) -> Option<DB::Connection> {
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
    pub(crate) async fn lock(&self) -> MutexGuard<'_, Option<Kept<DB>>> {
        self.0.lock().await
    }

    /// Whether it is there, or in use.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.try_lock().map_or(true, |line| line.is_some())
    }

    /// Says something when nothing has been said for so long. A connection that does not answer is not used again.
    pub(crate) async fn ping(&self, silence: Duration) {
        let Ok(mut line) = self.0.try_lock() else { return };
        let Some(mut kept) = line.take_if(|kept| kept.used.elapsed() >= silence) else { return };
        if matches!(timeout(PING_LIMIT, kept.conn.ping()).await, Ok(Ok(()))) {
            *line = Some(Kept::new(kept.conn));
        }
    }
}

impl<DB: Dialect> Line<DB> {
    /// Closes it.
    pub(crate) async fn close(&self) {
        if let Some(kept) = self.lock().await.take() {
            let _ = timeout(GOODBYE, kept.conn.close()).await;
        }
    }
}

impl<DB: Dialect> Drop for Line<DB> {
    fn drop(&mut self) {
        // a server counts a connection that ends without a word as an accident; where no runtime is left, it is one
        if let Some(kept) = self.0.get_mut().take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(timeout(GOODBYE, kept.conn.close()));
        }
    }
}

/// Gives a connection that is ours its settings. `transactions`: it is for more than single statements. Returns whether the
/// server is one of several.
pub(crate) async fn open_line<DB: Dialect>(conn: &mut DB::Connection, transactions: bool) -> Result<bool, sqlx::Error> {
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
