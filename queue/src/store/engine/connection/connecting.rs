//! What differs between the engines in connections and transactions.

use std::future::{Future, pending, ready};
use std::sync::Weak;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Database, Error};

use crate::store::engine::driver::{Driver, refused_by_sqlstate};

/// A worker's own connections outside the user's pool, each in a pool of one.
#[derive(Debug)]
pub(crate) struct Beside<DB: Database> {
    /// For claims and heartbeats: commits do not wait for the disk.
    pub(crate) claims: sqlx::Pool<DB>,
    /// For the ends of attempts: commits are as durable as in the user's pool.
    pub(crate) ends: sqlx::Pool<DB>,
    /// For rescue and retention: as durable as `ends`.
    pub(crate) upkeep: sqlx::Pool<DB>,
}

/// An engine's connect options.
pub(crate) type Options<DB> = <<DB as Database>::Connection as sqlx::Connection>::Options;

/// How an engine is reached: its connections, its transactions, its signals, and what its errors mean. A default is
/// what all engines but one do.
pub(crate) trait Connecting: Driver {
    /// How many connections a worker keeps outside the user's pool.
    const CONNECTIONS: u32;
    /// Writers of this process take [turns](crate::store::engine::connection::write_queue) instead of colliding in the
    /// database.
    /// Every operation takes its connection from the pool. Such an engine is embedded in the process.
    const ONE_WRITER: bool;
    /// The engine may end a transaction because of a statement that fails, or commit it because of another one.
    const ENDS_BY_ITSELF: bool;
    /// One row: by how many microseconds the time in this transaction is behind the clock, the highest id of a job,
    /// and whether any job is due later (0 or 1). None: it never is. Sent before the jobs of a transaction run.
    #[cfg(feature = "testing")]
    const STANDSTILL: Option<&'static str> = None;
    /// Begins a transaction that writes.
    const BEGIN: &'static str;
    /// Sent before `BEGIN` on a connection of the user's pool.
    const BEFORE_BEGIN: Option<&'static str> = None;
    /// Sent once on each of the worker's own connections: every setting that our statements depend on.
    ///
    /// * The administration uses the pool's connections, if [`PLAIN_SESSION`](Self::PLAIN_SESSION) finds them usable.
    ///   Otherwise a connection gets these settings, and is closed afterwards.
    /// * An enqueue is one round trip, so its statement carries the check. It writes nothing if a setting would lose or
    ///   change the job. Only then is the cause determined (`Dialect::insert`).
    /// * What somebody has forbidden stays forbidden. The error names the setting
    ///   ([`cure`](crate::store::engines::cure)).
    ///
    /// The test `settings` of the conformance suite tries the worst values.
    const OPEN_LINE: &'static [&'static str];
    /// Sent once on a connection of the worker's own that runs transactions, if the server then ends every
    /// [silent](crate::store::engine::connection::line) session, not only a silent transaction. Such a connection is
    /// pinged.
    const END_SILENT: Option<&'static str> = None;
    /// A query, and a statement for the worker's own connections on which that query returns a row. Then this server is
    /// one of several, each of which may lag a moment behind the others.
    const OPEN_LINE_IN_CLUSTER: Option<(&'static str, &'static str)> = None;

    /// How long a connection of the worker's own that runs transactions may be silent before it is pinged, if that is
    /// less than on [others](crate::store::engine::connection::line::SILENCE).
    const SILENCE: Option<Duration> = None;
    /// Begins each operation on the worker's own connections behind a pooler that lends sessions for one transaction at
    /// a time. Sets for this transaction what [`OPEN_LINE`](Self::OPEN_LINE) sets for a session. None: no worker can
    /// run behind such a pooler.
    const BEGIN_LENT: Option<&'static str> = None;
    /// One row: the server's id of the session. Needed with [`BEGIN_LENT`](Self::BEGIN_LENT).
    const SESSION: Option<&'static str> = None;
    /// A query about a session of the pool. It returns a row if our statements can run there as it is.
    const PLAIN_SESSION: Option<&'static str>;

    /// Sent before a migration, outside its transaction. On PostgreSQL it must set nothing: a pooler would lend the
    /// session, with its settings, to the application.
    const BEFORE_MIGRATION: &'static [&'static str];
    /// Serializes the migrations of several processes, where the transaction alone does not.
    const LOCK_MIGRATION: Option<&'static str>;
    /// Releases that lock, where it outlives the transaction.
    const UNLOCK_MIGRATION: Option<&'static str> = None;
    /// A failed transaction undoes schema changes. Otherwise migrations must be idempotent.
    const DDL_IN_TRANSACTION: bool;

    /// Takes a connection from the pool that is in no transaction.
    fn acquire(pool: &sqlx::Pool<Self>) -> impl Future<Output = Result<PoolConnection<Self>, Error>> + Send {
        pool.acquire()
    }

    /// A pool's options for the worker's own connections. The server shows whose they are, if it can and the user has
    /// set no name.
    fn named(options: &Options<Self>) -> Options<Self> {
        options.clone()
    }
    /// Sets the [savepoint](crate::store::engine::connection::savepoint::SAVEPOINT) if the connection is in a
    /// transaction, and returns whether it is.
    fn savepoint(conn: &mut Self::Connection) -> impl Future<Output = Result<bool, Error>> + Send;
    /// Asks the database whether the connection is in a transaction. sqlx counts one that is over, and does not know of
    /// one that was begun by SQL.
    fn is_open(conn: &mut Self::Connection) -> impl Future<Output = Result<bool, Error>> + Send;
    /// The statement failed because of concurrent ones and may succeed when repeated. It has changed nothing.
    fn is_transient(error: &Error) -> bool;

    /// The server is up, and refuses this statement. It may accept others. A server that accepts nothing from anybody
    /// counts as away: it is starting or stopping, a standby, or its disk is full.
    fn is_refusal(error: &Error) -> bool {
        refused_by_sqlstate(error)
    }

    /// Logs a warning if the pool's settings may lose the database.
    fn warn_of_options(_pool: &sqlx::Pool<Self>) {}
    /// See [`Access::poll_interval`](crate::store::Access::poll_interval).
    fn poll_interval(idle: Duration) -> Duration;
    /// Why a pool or its server is unusable, whatever is set on a connection. Checked before a migration and when a
    /// worker starts.
    fn unusable(
        pool: &sqlx::Pool<Self>,
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<String>, Error>> + Send;
    /// A worker's own connections, where these are better than connections of the user's pool. None: there can be none.
    fn open_beside(_pool: &sqlx::Pool<Self>) -> impl Future<Output = Result<Option<Beside<Self>>, Error>> + Send {
        ready(Ok(None))
    }
    /// See [`Access::watch`](crate::store::Access::watch).
    fn watch(
        _pool: &sqlx::Pool<Self>,
        _wake: &(dyn Fn() + Send + Sync),
    ) -> impl Future<Output = Result<(), Error>> + Send {
        pending()
    }

    /// Whether the database passes signals between processes.
    const NOTIFIES: bool = false;
    /// Identifies a database within this process.
    fn address(pool: &sqlx::Pool<Self>) -> String;
    /// Signals the workers of all processes, if the engine can. `from`: the result of
    /// [`from`](crate::store::engine::connection::notify::from).
    fn notify(_conn: &mut Self::Connection, _from: &str) -> impl Future<Output = Result<(), Error>> + Send {
        ready(Ok(()))
    }

    /// Begins a transaction at READ COMMITTED on a connection of the user's pool.
    const BEGIN_IN_POOL: &'static str = Self::BEGIN;
    /// The same in a session that may be in a transaction already, because of its settings. It costs a little more.
    const BEGIN_ANEW: &'static str = Self::BEGIN;
    /// As [`BEGIN_ANEW`](Self::BEGIN_ANEW), for a handler: [`CHECK_TX`](crate::enqueue::tx::CHECK_TX) succeeds in that
    /// transaction alone.
    const BEGIN_TX: &'static str;
    /// Commits and rolls back the transaction of a handler, where its session has to be restored. Each is of no effect
    /// the second time.
    const END_TX: Option<(&'static str, &'static str)> = None;
    /// Keeps the connection from committing anything while `open` is there and true, if the engine can.
    fn hold_commits(
        _conn: &mut Self::Connection,
        _open: Weak<AtomicBool>,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        ready(Ok(()))
    }

    /// Ends it, and nothing else.
    const COMMIT_IN_POOL: &'static str = "COMMIT";
    const ROLLBACK_IN_POOL: &'static str = "ROLLBACK";
}

/// [`Connecting::poll_interval`] where no signal announces jobs.
pub(crate) fn without_signals(idle: Duration) -> Duration {
    match idle.as_millis() {
        0..250 => Duration::from_millis(10),
        250..60_000 => Duration::from_millis(45),
        _ => Duration::from_millis(250),
    }
}
