//! The differences between the engines, and how to run a statement on any of them.
//!
//! Statements are files under `sql/`. All of them name their values `$1`, `$2`, … (for MySQL these are replaced with
//! `?`). Values travel as [`Bind`]s and rows are read as [`Cells`], so that no trait bound of sqlx appears anywhere
//! else.
//!
//! On every engine, whole numbers travel as `i64`, times as `i64` microseconds since 1970, and durations as `i64`
//! microseconds. A list is one JSON text, but [`Bind::Ints`] is an array on PostgreSQL. A statement that reads a time
//! column converts it on MySQL (`TIMESTAMPDIFF(MICROSECOND, '1970-01-01', t)`) and SQLite (`t * 1000`). On PostgreSQL
//! the column is read as it is.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Database, Error, SqlSafeStr as _, SqlStr};

use crate::engine::Engine;
use crate::limits::ARGS_AT_CLAIM_BYTES;
#[cfg(feature = "schedules")]
use crate::store::engine::statement::topics::ScheduleStatements;
#[cfg(feature = "testing")]
use crate::store::engine::statement::topics::TestStatements;
use crate::store::engine::statement::topics::{
    AdminStatements, AttemptStatements, LeaseStatements, RetentionStatements, SchemaStatements, SessionStatements,
    UniqueStatements,
};
use crate::store::engine::unique::dialect::UniqueDialect;

use crate::store::values::{Ask, Claimed, End, Lane, LaneHead, NewJob, Reach, Share, Whose, WorkerId};

/// A value to bind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bind<'a> {
    Int(Option<i64>),
    /// An array; a JSON text on engines without arrays.
    Ints(&'a [i64]),
    Text(Option<&'a str>),
}

/// A list as one JSON text.
pub(crate) fn json<T: serde::Serialize>(list: &[T]) -> String {
    serde_json::to_string(list).expect("plain structs of numbers and text serialize")
}

/// For statements that claim: arguments of more bytes are fetched later.
pub(crate) const MOST_ARGS: Bind<'static> = Bind::Int(Some(ARGS_AT_CLAIM_BYTES as i64));

impl From<i64> for Bind<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Bind<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a [i64]> for Bind<'a> {
    fn from(list: &'a [i64]) -> Self {
        Self::Ints(list)
    }
}

impl<'a> From<&'a str> for Bind<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Bind<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value)
    }
}

/// A batch as its statement reads it: the values behind the worker's id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) numbers: Vec<Vec<i64>>,
    pub(crate) text: Option<String>,
}

impl From<String> for List {
    fn from(text: String) -> Self {
        Self { numbers: Vec::new(), text: Some(text) }
    }
}

impl List {
    pub(crate) fn behind(&self, worker: WorkerId) -> Vec<Bind<'_>> {
        let numbers = self.numbers.iter().map(|list| list.as_slice().into());
        std::iter::once(worker.into()).chain(numbers).chain([self.text.as_deref().into()]).collect()
    }
}

/// A statement that was put together from our own texts, with marks for its values. No input is in it.
///
/// This is the only place that turns a text into a statement at run time: sqlx takes no other text, and Clippy refuses
/// the type elsewhere.
#[expect(clippy::disallowed_methods, reason = "see above")]
#[cfg_attr(
    not(any(feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "PostgreSQL puts no statement together")
)]
pub(crate) fn assembled(text: String) -> SqlStr {
    sqlx::AssertSqlSafe(text).into_sql_str()
}

/// Reads a row by position. Whole numbers of any width (and booleans, and PostgreSQL's `timestamptz` as microseconds
/// since 1970) are `int`s; text and JSON are `text`.
pub(crate) trait Cells: Send + Unpin {
    fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error>;
    fn maybe_text(&self, column: usize) -> Result<Option<String>, Error>;

    fn int(&self, column: usize) -> Result<i64, Error> {
        self.maybe_int(column)?.ok_or_else(|| unexpected_null(column))
    }

    fn text(&self, column: usize) -> Result<String, Error> {
        self.maybe_text(column)?.ok_or_else(|| unexpected_null(column))
    }
}

fn unexpected_null(column: usize) -> Error {
    Error::ColumnDecode { index: column.to_string(), source: "the column is NULL".into() }
}

/// What the statements of a discovery returned.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) heads: Vec<LaneHead>,
    /// See [`Found::stopped`](crate::store::values::Found::stopped).
    pub(crate) stopped: Vec<Lane>,
    /// The number of round trips.
    pub(crate) round_trips: u32,
}

/// The claim lock: a lock of the session. Statements without values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimLock {
    /// Waits up to a second. One row: 1 if it was taken. Anything else, or an error: it was not.
    pub(crate) take: &'static str,
    pub(crate) release: &'static str,
}

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

/// An engine: its statements, and what differs in structure. There are no defaults, so that no engine forgets one. Only
/// [`UniqueDialect`] has two, for what all engines but one lack.
pub(crate) trait Dialect: Database<Row: Cells> + UniqueDialect {
    const ATTEMPTS: AttemptStatements;
    const LEASES: LeaseStatements;
    /// None: there is no server.
    const SESSIONS: Option<SessionStatements>;
    const RETENTION: RetentionStatements;
    const SCHEMA: SchemaStatements;
    const ADMIN: AdminStatements;
    const UNIQUE: UniqueStatements;
    #[cfg(feature = "schedules")]
    const SCHEDULES: ScheduleStatements;
    #[cfg(feature = "testing")]
    const TESTING: TestStatements;

    const KIND: Engine;
    /// The engine's name in messages.
    const ENGINE: &'static str;
    /// How many connections a worker keeps outside the user's pool.
    const CONNECTIONS: u32;
    /// Writers of this process take [turns](crate::store::engine::connection::write_queue) instead of colliding in the
    /// database.
    /// Every operation takes its connection from the pool. Such an engine is embedded in the process.
    const ONE_WRITER: bool;
    /// Set where [`complete`](AttemptStatements::complete) finds nothing outside a transaction, nor in one that has
    /// written nothing. This makes a transaction one that has.
    const BEGIN_TO_WRITE: Option<&'static str>;
    /// Set where [`complete`](AttemptStatements::complete) has a step for a transaction that nobody has looked for. It
    /// becomes false when a server turns out to find nothing by that step. Then each completion saves the try.
    const TRIES_FIRST: Option<&'static AtomicBool>;
    /// The engine may end a transaction because of a statement that fails, or commit it because of another one.
    const ENDS_BY_ITSELF: bool;
    /// An address for a pool that never connects.
    #[cfg(feature = "testing")]
    const NOWHERE: &'static str;
    /// One row: by how many microseconds the time in this transaction is behind the clock, the highest id of a job,
    /// and whether any job is due later (0 or 1). None: it never is. Sent before the jobs of a transaction run.
    #[cfg(feature = "testing")]
    const STANDSTILL: Option<&'static str>;
    /// Begins a transaction that writes.
    const BEGIN: &'static str;
    /// Sent before `BEGIN` on a connection of the user's pool.
    const BEFORE_BEGIN: Option<&'static str>;
    /// Sent once on each of the worker's own connections: every setting that our statements depend on.
    ///
    /// * The administration uses the pool's connections, if [`PLAIN_SESSION`](Self::PLAIN_SESSION) finds them usable.
    ///   Otherwise a connection gets these settings, and is closed afterwards.
    /// * An enqueue is one round trip, so its statement carries the check. It writes nothing if a setting would lose or
    ///   change the job. Only then is the cause determined ([`insert`](Self::insert)).
    /// * What somebody has forbidden stays forbidden. The error names the setting
    ///   ([`cure`](crate::store::engines::cure)).
    ///
    /// The test `settings` of the conformance suite tries the worst values.
    const OPEN_LINE: &'static [&'static str];
    /// Sent once on a connection of the worker's own that runs transactions, if the server then ends every
    /// [silent](crate::store::engine::connection::line) session, not only a silent transaction. Such a connection is
    /// pinged.
    const END_SILENT: Option<&'static str>;
    /// A query, and a statement for the worker's own connections on which that query returns a row. Then this server is
    /// one of several, each of which may lag a moment behind the others.
    const OPEN_LINE_IN_CLUSTER: Option<(&'static str, &'static str)>;

    /// How long a connection of the worker's own that runs transactions may be silent before it is pinged, if that is
    /// less than on [others](crate::store::engine::connection::line::SILENCE).
    const SILENCE: Option<Duration>;
    /// Begins each operation on the worker's own connections behind a pooler that lends sessions for one transaction at
    /// a time. Sets for this transaction what [`OPEN_LINE`](Self::OPEN_LINE) sets for a session. None: no worker can
    /// run behind such a pooler.
    const BEGIN_LENT: Option<&'static str>;
    /// One row: the server's id of the session. Needed with [`BEGIN_LENT`](Self::BEGIN_LENT).
    const SESSION: Option<&'static str>;
    /// A query about a session of the pool. It returns a row if our statements can run there as it is.
    const PLAIN_SESSION: Option<&'static str>;

    /// Sent before a migration, outside its transaction. On PostgreSQL it must set nothing: a pooler would lend the
    /// session, with its settings, to the application.
    const BEFORE_MIGRATION: &'static [&'static str];
    /// Serializes the migrations of several processes, where the transaction alone does not.
    const LOCK_MIGRATION: Option<&'static str>;
    /// Releases that lock, where it outlives the transaction.
    const UNLOCK_MIGRATION: Option<&'static str>;
    /// A failed transaction undoes schema changes. Otherwise migrations must be idempotent.
    const DDL_IN_TRANSACTION: bool;

    /// See [`Jobs::take_claim_lock`](crate::store::Jobs::take_claim_lock). None: there is only one writer anyway.
    const CLAIM_LOCK: Option<ClaimLock>;

    /// Inserts one job that is due and signals the workers of all processes. Binds: as for one job, without its time,
    /// and the payload of the signal.
    const INSERT_AND_NOTIFY: Option<&'static str>;
    /// A heartbeat can report whether jobs wait.
    const HEARTBEAT_DISCOVERS: bool;
    /// [`Jobs::claim`](crate::store::Jobs::claim) with `alone`. None: discovery costs next to nothing.
    const CLAIM_ALONE: Option<ClaimAlone<Self>>;

    /// Takes a connection from the pool that is in no transaction.
    fn acquire(pool: &sqlx::Pool<Self>) -> impl Future<Output = Result<PoolConnection<Self>, Error>> + Send;

    /// A pool's options for the worker's own connections. The server shows whose they are, if it can and the user has
    /// set no name.
    fn named(options: &Options<Self>) -> Options<Self>;

    /// The values of a statement for the runs of these ids, which are sorted and distinct, behind its other values.
    /// None: the statement for single ids does it.
    fn runs<'a>(ids: &[i64], others: &[Bind<'a>]) -> Option<Vec<Bind<'a>>>;
    /// Ends, as [`finish`](AttemptStatements::finish) reads them.
    fn finish_list(batch: &[End]) -> List;

    /// The values in the order in which `sql` names them, and the text as the driver needs it.
    fn prepare(sql: &'static str, binds: &[Bind<'_>]) -> Result<(SqlStr, Self::Arguments), Error>;
    /// Runs a statement and returns its rows.
    fn fetch(
        conn: &mut Self::Connection,
        sql: SqlStr,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<Vec<Self::Row>, Error>> + Send;
    /// Runs a statement and returns how many rows it touched.
    fn execute(
        conn: &mut Self::Connection,
        sql: SqlStr,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<u64, Error>> + Send;
    /// Inserts one row and returns its id.
    fn insert_row(
        conn: &mut Self::Connection,
        sql: SqlStr,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<i64, Error>> + Send;
    /// Runs text without values: session settings, migrations.
    fn raw(conn: &mut Self::Connection, sql: &'static str) -> impl Future<Output = Result<(), Error>> + Send;
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
    fn is_refusal(error: &Error) -> bool;

    /// The statement names a table that does not exist.
    fn is_missing_table(error: &Error) -> bool;

    /// Logs a warning if the pool's settings may lose the database.
    fn warn_of_options(pool: &sqlx::Pool<Self>);
    /// See [`Access::poll_interval`](crate::store::Access::poll_interval).
    fn poll_interval(idle: Duration) -> Duration;
    /// See [`Jobs::discover`](crate::store::Jobs::discover): for `kinds`, in any queue that is not paused.
    fn discover(
        conn: &mut Self::Connection,
        kinds: &[String],
        behind: &[Lane],
        most: usize,
    ) -> impl Future<Output = Result<Seen, Error>> + Send;
    /// See [`Jobs::preview`](crate::store::Jobs::preview).
    fn preview(
        conn: &mut Self::Connection,
        asks: &[Ask],
        reach: Reach,
    ) -> impl Future<Output = Result<Vec<Share>, Error>> + Send;
    /// See [`Jobs::claim`](crate::store::Jobs::claim). It has a transaction of its own, or is part of another one.
    fn claim(
        conn: &mut Self::Connection,
        worker: WorkerId,
        asks: &[Ask],
        whose: Whose,
    ) -> impl Future<Output = Result<Vec<Claimed>, Error>> + Send;
    /// Writes all of them or none, and returns the ids in the given order. If the connection is the caller's and in a
    /// transaction, they become part of it.
    fn insert(
        conn: &mut Self::Connection,
        jobs: &[NewJob],
        whose: Whose,
    ) -> impl Future<Output = Result<Vec<i64>, Error>> + Send;
    /// Why a pool or its server is unusable, whatever is set on a connection. Checked before a migration and when a
    /// worker starts.
    fn unusable(
        pool: &sqlx::Pool<Self>,
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<String>, Error>> + Send;
    /// A worker's own connections, where these are better than connections of the user's pool. None: there can be none.
    fn open_beside(pool: &sqlx::Pool<Self>) -> impl Future<Output = Result<Option<Beside<Self>>, Error>> + Send;
    /// See [`Access::watch`](crate::store::Access::watch).
    fn watch(
        pool: &sqlx::Pool<Self>,
        housekeeping: &Housekeeping,
        wake: &(dyn Fn() + Send + Sync),
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// [`Dialect::poll_interval`] where no signal announces jobs.
pub(crate) fn without_signals(idle: Duration) -> Duration {
    match idle.as_millis() {
        0..250 => Duration::from_millis(10),
        250..60_000 => Duration::from_millis(45),
        _ => Duration::from_millis(250),
    }
}

/// Claims from one lane, if no rows of these kinds wait in another one.
pub(crate) type ClaimAlone<DB> = for<'a> fn(
    &'a mut <DB as sqlx::Database>::Connection,
    WorkerId,
    &'a Ask,
    &'a [String],
) -> BoxFuture<'a, Result<Vec<Claimed>, Error>>;

/// When this process last wrote something that concerns no waiting job. A heartbeat must not wake its own worker.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    begin: Instant,
    /// Microseconds after `begin`.
    until: AtomicU64,
}

impl Housekeeping {
    /// How long after a write a watcher may still notice it.
    const TRACES: Duration = Duration::from_millis(5);

    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), until: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn starts(&self) {
        self.until.store(u64::MAX, Ordering::Release);
    }

    pub(crate) fn ends(&self) {
        self.until.store(self.now() + Self::TRACES.as_micros() as u64, Ordering::Release);
    }

    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "only a file is watched"))]
    pub(crate) fn is_near(&self) -> bool {
        self.now() <= self.until.load(Ordering::Acquire)
    }
}

/// Runs a statement and returns its rows.
pub(crate) async fn rows<DB: Dialect>(
    conn: &mut DB::Connection,
    sql: &'static str,
    binds: &[Bind<'_>],
) -> Result<Vec<DB::Row>, Error> {
    let (sql, arguments) = DB::prepare(sql, binds)?;
    DB::fetch(conn, sql, arguments).await
}

/// Runs a statement and returns its first column.
pub(crate) async fn ids<DB: Dialect>(
    conn: &mut DB::Connection,
    sql: &'static str,
    binds: &[Bind<'_>],
) -> Result<Vec<i64>, Error> {
    rows::<DB>(conn, sql, binds).await?.iter().map(|row| row.int(0)).collect()
}

/// Runs a statement and returns how many rows it touched.
pub(crate) async fn execute<DB: Dialect>(
    conn: &mut DB::Connection,
    sql: &'static str,
    binds: &[Bind<'_>],
) -> Result<u64, Error> {
    let (sql, arguments) = DB::prepare(sql, binds)?;
    DB::execute(conn, sql, arguments).await
}

/// Implements the part of [`Dialect`] that is the same text for every driver but needs its concrete types.
macro_rules! driver {
    () => {
        async fn fetch(
            conn: &mut Self::Connection,
            sql: sqlx::SqlStr,
            arguments: Self::Arguments,
        ) -> Result<Vec<Self::Row>, sqlx::Error> {
            sqlx::query_with(sql, arguments).fetch_all(conn).await
        }

        async fn execute(
            conn: &mut Self::Connection,
            sql: sqlx::SqlStr,
            arguments: Self::Arguments,
        ) -> Result<u64, sqlx::Error> {
            let done = sqlx::query_with(sql, arguments).execute(conn).await?;
            Ok(done.rows_affected())
        }

        async fn raw(conn: &mut Self::Connection, sql: &'static str) -> Result<(), sqlx::Error> {
            sqlx::raw_sql(sql).execute(conn).await.map(drop)
        }
    };
}
pub(crate) use driver;

/// The files of [`Dialect`] that every engine has in its folder `sql`.
macro_rules! topics {
    ($engine:literal) => {
        const ATTEMPTS: $crate::store::engine::statement::topics::AttemptStatements =
            $crate::store::engine::statement::topics::AttemptStatements::of(topic!($engine, "attempts"));
        const LEASES: $crate::store::engine::statement::topics::LeaseStatements =
            $crate::store::engine::statement::topics::LeaseStatements::of(topic!($engine, "leases"));
        const RETENTION: $crate::store::engine::statement::topics::RetentionStatements =
            $crate::store::engine::statement::topics::RetentionStatements::of(topic!($engine, "retention"));
        const SCHEMA: $crate::store::engine::statement::topics::SchemaStatements =
            $crate::store::engine::statement::topics::SchemaStatements::of(topic!($engine, "schema"));
        const ADMIN: $crate::store::engine::statement::topics::AdminStatements =
            $crate::store::engine::statement::topics::AdminStatements::of(topic!($engine, "admin"));
        const UNIQUE: $crate::store::engine::statement::topics::UniqueStatements =
            $crate::store::engine::statement::topics::UniqueStatements::of(topic!($engine, "unique"));
        #[cfg(feature = "schedules")]
        const SCHEDULES: $crate::store::engine::statement::topics::ScheduleStatements =
            $crate::store::engine::statement::topics::ScheduleStatements::of(topic!($engine, "schedules"));
        #[cfg(feature = "testing")]
        const TESTING: $crate::store::engine::statement::topics::TestStatements =
            $crate::store::engine::statement::topics::TestStatements::of(topic!($engine, "testing"));
    };
}
pub(crate) use topics;

/// Adds values to a statement's arguments in the given order. `$ints` converts lists of numbers.
#[cfg(any(feature = "postgres", feature = "mysql"))]
macro_rules! add_binds {
    ($db:ty, $binds:expr, $ints:expr) => {{
        let mut arguments = <$db as sqlx::Database>::Arguments::default();
        for bind in $binds {
            match *bind {
                $crate::store::engine::dialect::Bind::Int(value) => sqlx::Arguments::add(&mut arguments, value),
                $crate::store::engine::dialect::Bind::Ints(list) => sqlx::Arguments::add(&mut arguments, $ints(list)),
                $crate::store::engine::dialect::Bind::Text(value) => sqlx::Arguments::add(&mut arguments, value),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        arguments
    }};
}
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use add_binds;

/// Replaces `$1` … with `?`, and returns which value belongs to each. Drops the comment at the head, which may name
/// values, too.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn question_marks(sql: &str) -> (String, Vec<usize>) {
    let mut text = String::with_capacity(sql.len());
    let mut places = Vec::new();
    let mut rest = sql;
    while rest.starts_with("--") {
        rest = rest.split_once('\n').map_or("", |(_comment, rest)| rest);
    }
    while let Some(at) = rest.find('$') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        match rest[at + 1..at + 1 + digits].parse::<usize>() {
            Ok(place) if place > 0 => {
                text.push_str(&rest[..at]);
                text.push('?');
                places.push(place - 1);
            }
            _ => text.push_str(&rest[..=at]), // a JSON path
        }
        rest = &rest[at + 1 + digits..];
    }
    text.push_str(rest);
    (text, places)
}

/// [`Dialect::is_refusal`] by SQLSTATE. These classes mean that the server is away: connection exception, read-only
/// transaction, disk full, too many connections, operator intervention, system error.
#[cfg(any(feature = "postgres", feature = "mysql", test))]
pub(crate) fn refused_by_sqlstate(error: &Error) -> bool {
    const AWAY: [&str; 6] = ["08", "25006", "53100", "53300", "57P", "58"];
    let Error::Database(error) = error else { return false };
    error.code().is_none_or(|code| !AWAY.iter().any(|class| code.starts_with(class)))
}

#[cfg(all(test, any(feature = "mysql", feature = "sqlite")))]
mod tests {
    use super::*;

    #[test]
    fn places_become_question_marks() {
        let (text, places) =
            question_marks("-- of $1\n-- and $2\na = $2 AND b = $1 AND c = '$.id' AND d = $2 AND e = '$[*]'");
        assert_eq!(text, "a = ? AND b = ? AND c = '$.id' AND d = ? AND e = '$[*]'");
        assert_eq!(places, [1, 0, 1]);
    }
}
