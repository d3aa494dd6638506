//! The worker's own connections, each for one purpose. How the server ends one when the worker falls silent, and how
//! far away it is.
//!
//! The sockets of a process close with it, and the server rolls back its transactions. A machine that loses its power
//! or its network closes nothing. An open transaction would then keep its row locks for hours, until the server's
//! operating system gives up the connection. Meanwhile nobody else could take the jobs or declare the worker lost. So
//! the server is told to end what is silent for eight seconds, a little more than the default lease. PostgreSQL can end
//! only silent transactions. MySQL has one limit for any silence of a session, so connections with that limit are
//! pinged while idle.
//!
//! All these connections are pinged now and then. Balancers and NAT forget a connection that is silent for minutes, and
//! tell nobody. The next statement on it, such as the end of a job, would wait for an answer that never comes.
//!
//! The worker opens them outside the user's pool, in the same way as the pool opens its own. Handlers may hold all
//! connections of the pool. A worker that waited for them could neither keep its lease nor record the ends of their
//! jobs.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Error, Pool};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::rows;

/// How long such a connection may be silent before it is pinged. Balancers forget it after minutes of silence.
pub(crate) const SILENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 60 });
/// The time limit of a ping. Together with two of MySQL's intervals it is less than that server's limit.
const PING_LIMIT: Duration = Duration::from_secs(3);
/// The time limit for closing a connection.
const GOODBYE: Duration = Duration::from_secs(1);
/// A connection that is silent for this long, although it is pinged, belongs to a process that stood still. The server
/// has ended the session, or is about to.
const LOST_AFTER: Duration = Duration::from_secs(6);

/// One of the worker's own connections. Each has one purpose, so that claims, ends and heartbeats never wait for each
/// other. It is taken out while in use, and put back only after success.
pub(crate) struct Line<DB: Dialect>(Mutex<Option<Kept<DB>>>);

/// A connection between two uses.
pub(crate) struct Kept<DB: Dialect> {
    conn: Box<DB::Connection>,
    used: Instant,
}

/// A connection in use: it returns to a pool, or it is one of the worker's own.
pub(crate) type Conn<DB> = sqlx::Either<PoolConnection<DB>, Box<<DB as sqlx::Database>::Connection>>;

/// Opens a connection outside the user's pool, in the same way as the pool: with its current options and its
/// `after_connect` hook. sqlx runs that hook only for a pool, so the connection comes out of a temporary pool of one.
pub(crate) async fn connect<DB: Dialect>(pool: &Pool<DB>, within: Duration) -> Result<DB::Connection, Error> {
    if pool.is_closed() {
        return Err(Error::PoolClosed);
    }
    match alone(pool, within).acquire().await {
        // from here on it counts in no pool, not even in a parent of the user's pool
        Ok(conn) => Ok(conn.detach()),
        // sqlx retries transient errors and does not report them
        Err(Error::PoolTimedOut) => {
            match timeout(within, DB::Connection::connect_with(&DB::named(&pool.connect_options()))).await {
                Ok(Err(reason)) => Err(reason),
                Ok(Ok(_)) | Err(_) => Err(Error::PoolTimedOut),
            }
        }
        Err(error) => Err(error),
    }
}

/// A pool of one connection, made like the user's, that keeps its connection without a time limit.
pub(crate) fn alone<DB: Dialect>(pool: &Pool<DB>, within: Duration) -> Pool<DB> {
    let options = pool.options().clone().max_connections(1).min_connections(0).acquire_timeout(within);
    options.idle_timeout(None).max_lifetime(None).connect_lazy_with(DB::named(&pool.connect_options()))
}

impl<DB: Dialect> Kept<DB> {
    pub(crate) fn new(conn: Box<DB::Connection>) -> Self {
        Self { conn, used: Instant::now() }
    }

    /// None if the server has probably ended the session. `transactions`: as when it was opened.
    pub(crate) fn into_conn(self, transactions: bool) -> Option<Box<DB::Connection>> {
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

    /// Whether the connection exists, idle or in use.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.try_lock().map_or(true, |line| line.is_some())
    }

    /// Pings a connection that was silent for this long. One that does not answer is dropped.
    pub(crate) async fn ping(&self, silence: Duration) {
        let Ok(mut line) = self.0.try_lock() else { return };
        let Some(mut kept) = line.take_if(|kept| kept.used.elapsed() >= silence) else { return };
        if matches!(timeout(PING_LIMIT, kept.conn.ping()).await, Ok(Ok(()))) {
            *line = Some(Kept::new(kept.conn));
        }
    }

    pub(crate) async fn close(&self) {
        if let Some(kept) = self.lock().await.take() {
            let _ = timeout(GOODBYE, kept.conn.close()).await;
        }
    }

    pub(crate) async fn close_if_idle(&self) {
        let kept = self.0.try_lock().ok().and_then(|mut line| line.take());
        if let Some(kept) = kept {
            let _ = timeout(GOODBYE, kept.conn.close()).await;
        }
    }
}

impl<DB: Dialect> Drop for Line<DB> {
    fn drop(&mut self) {
        // a server counts a connection that closes without a goodbye as aborted; without a runtime that is unavoidable
        if let Some(kept) = self.0.get_mut().take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(timeout(GOODBYE, kept.conn.close()));
        }
    }
}

/// Applies the settings of the worker's own connections. `transactions`: it runs more than single statements. Returns
/// whether the server is one of several.
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

/// A statement that takes longer than this triggers a measurement, unless the known round trip explains it.
const WORTH: Duration = Duration::from_millis(2);
/// How long a measurement is valid.
const BELIEVED: Duration = Duration::from_secs(60);
/// How often a round trip is measured. The shortest counts, because the machine may pause during any of them.
const TRIES: usize = 2;

/// The last measured round trip. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distance(Arc<std::sync::Mutex<Option<(Instant, Duration)>>>);

impl Distance {
    /// The time that a statement took, less `round_trips` over the network. A round trip is measured only when the
    /// known one does not explain a long time. So a worker near its database hardly ever measures, and a distant one
    /// does once a minute.
    pub(crate) async fn without_network<DB: Dialect>(
        &self,
        conn: &mut DB::Connection,
        took: Duration,
        round_trips: u32,
    ) -> Result<Duration, sqlx::Error> {
        if DB::ONE_WRITER {
            return Ok(took);
        }
        let known = self.known(took / round_trips.max(1)).unwrap_or_default();
        let rest = took.saturating_sub(known * round_trips);
        if rest <= WORTH {
            return Ok(rest);
        }
        let mut least = Duration::MAX;
        for _ in 0..TRIES {
            let started = Instant::now();
            conn.ping().await?;
            least = least.min(started.elapsed());
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), least));
        Ok(took.saturating_sub(least * round_trips))
    }

    /// The known round trip, unless `seen` shows that it is shorter by now.
    fn known(&self, seen: Duration) -> Option<Duration> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = last.filter(|(at, round_trip)| at.elapsed() < BELIEVED && *round_trip <= seen);
        last.map(|(_, round_trip)| round_trip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_is_forgotten_when_one_was_shorter() {
        let ms = Duration::from_millis;
        let distance = Distance::default();
        assert_eq!(distance.known(ms(1)), None);
        *distance.0.lock().unwrap() = Some((Instant::now(), ms(6)));
        assert_eq!(distance.known(ms(7)), Some(ms(6)));
        assert_eq!(distance.known(ms(5)), None);
        assert_eq!(distance.known(ms(7)), None);
    }
}
