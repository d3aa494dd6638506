//! What the engines do differently, and how a statement is run on any of them.
//!
//! Statements are files under `sql/`. Places for values are written `$1`, `$2`, … in all of them (the MySQL driver's `?`
//! are made from that), values travel as [`Bind`]s, and rows are read as [`Cells`], so that no bound of sqlx appears
//! anywhere else.
//!
//! What crosses, on every engine: whole numbers as `i64`; times as `i64` microseconds since 1970; durations as `i64`
//! microseconds; lists as one JSON text, but what is a [`Bind::Ints`] as an array on PostgreSQL. A statement that reads a time
//! column converts it itself on MySQL (`TIMESTAMPDIFF(MICROSECOND, '1970-01-01', t)`) and SQLite (`t * 1000`); on PostgreSQL the
//! column is read as it is.

use std::borrow::Cow;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::{Database, Error};

use crate::engine::Engine;
use crate::limits::ARGS_AT_CLAIM_BYTES;

use crate::store::values::Whose;
use crate::store::values::{Ask, Claimed, Finish, Lane, LaneHead, NewJob, Reach, Share, WorkerId};

/// A value on its way to the database.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bind<'a> {
    Int(Option<i64>),
    /// An array, or a JSON text where there are none.
    Ints(&'a [i64]),
    Text(Option<&'a str>),
}

/// A list as one JSON text.
pub(crate) fn json<T: serde::Serialize>(list: &[T]) -> String {
    serde_json::to_string(list).expect("plain structs of numbers and text serialize")
}

/// For statements that claim: arguments of more bytes stay where they are for now.
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

/// A batch as a statement reads it: its values behind the worker's number.
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

/// Which jobs of a batch a statement is for: one that concerns none of them is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "no engine has them all")]
pub(crate) enum For {
    All,
    /// Those whose attempt goes into `queue_attempts`.
    Recorded,
    /// Those that have come back so often that some of their attempts are forgotten.
    Forgetting,
    /// All, and it touches one row for each that is accepted. When none is missing, that is the answer.
    Each,
    /// Asks which were accepted, when some were not.
    Refused,
    /// All, when none was refused and their numbers are few [`Runs`](crate::store::engine::ranges::Runs): it has these as well, behind its other
    /// binds.
    Runs,
    /// All, when it is not so.
    Scattered,
}

/// The statements of one transaction, in order, or one statement alone (and after it what [`Refused`](For::Refused) asks); all get
/// the same values. The rows of those that return any are ids: the answer.
pub(crate) type Script = &'static [(For, &'static str)];

/// What the statements of a look have brought.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) heads: Vec<LaneHead>,
    /// See [`Found::stopped`](crate::store::values::Found::stopped).
    pub(crate) stopped: Vec<Lane>,
    /// How often an answer was waited for.
    pub(crate) round_trips: u32,
}

/// The right to claim while others wait: a lock of the session. Statements without values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// Waits up to a second. One row: 1 when it was had; otherwise anything, or an error.
    pub(crate) take: &'static str,
    pub(crate) give: &'static str,
}

/// A worker's own connections beside the user's pool, each a pool of one.
#[derive(Debug)]
pub(crate) struct Beside<DB: Database> {
    /// For claims and heartbeats: it forces nothing to the disk.
    pub(crate) claims: sqlx::Pool<DB>,
    /// For the ends of attempts: it forces as much as the user's pool.
    pub(crate) ends: sqlx::Pool<DB>,
    /// For rescue and retention: the same.
    pub(crate) upkeep: sqlx::Pool<DB>,
}

/// An engine's statements about sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// Binds: worker. Takes the lock that says that it lives, without waiting. One row: 1 when it was taken.
    pub(crate) hold: &'static str,
    /// Binds: worker. Takes the lock that says that it holds jobs.
    pub(crate) busy: &'static str,
    /// Binds: worker. Lets that one go.
    pub(crate) idle: &'static str,
    /// Since when the server has kept sessions: with another answer it has lost all that there were before. No row: ask later.
    pub(crate) run: &'static str,
}

/// What an engine's connections are made with.
pub(crate) type Options<DB> = <<DB as Database>::Connection as sqlx::Connection>::Options;

/// An engine: its statements, and what is of another shape there. No defaults, so that nothing can be forgotten.
pub(crate) trait Dialect: Database<Row: Cells> {
    /// Which engine it is.
    const KIND: Engine;
    /// How the engine is called in messages.
    const ENGINE: &'static str;
    /// How many connections a worker keeps beside the user's pool.
    const CONNECTIONS: u32;
    /// Writers of this process take [turns](crate::store::engine::write_queue) instead of meeting in the database, and every operation takes its
    /// connection from the pool anew.
    const ONE_WRITER: bool;
    /// Begins a transaction that writes.
    const BEGIN: &'static str;
    /// Sent before `BEGIN` on a connection that is not ours.
    const BEFORE_BEGIN: Option<&'static str>;
    /// Sent once on a connection that is ours.
    const OPEN_LINE: &'static [&'static str];
    /// Sent as well, once on a connection of ours that has transactions, where it makes the server end every
    /// [silent](crate::store::engine::connection) session, not just a silent transaction: such a connection is pinged.
    const END_SILENT: Option<&'static str>;
    /// A question, and what is sent as well, once on a connection that is ours, when the answer has a row: this server is
    /// one of several that may each be a moment behind the others.
    const OPEN_LINE_IN_CLUSTER: Option<(&'static str, &'static str)>;

    /// How long a connection of ours that has transactions may be silent before it is pinged, where a server bears less
    /// than [others](crate::store::engine::connection::SILENCE).
    const SILENCE: Option<Duration>;
    /// Begins what is done on a connection of ours where a pooler lends it a session for one transaction at a time, and
    /// sets for that transaction what [`OPEN_LINE`](Self::OPEN_LINE) sets for a session. None: no worker can live on
    /// such.
    const BEGIN_LENT: Option<&'static str>;
    /// One row: the server's number for the session. Needed where there is [`BEGIN_LENT`](Self::BEGIN_LENT).
    const SESSION: Option<&'static str>;
    /// A question about a session of the pool. It has a row when our statements can run there as it is.
    const PLAIN_SESSION: Option<&'static str>;

    /// Sent before a migration, outside its transaction. On PostgreSQL nothing may be set there: a pooler would lend
    /// the session, with its settings, to the application.
    const BEFORE_MIGRATION: &'static [&'static str];
    /// Makes processes migrate one after the other, where the transaction alone does not.
    const LOCK_MIGRATION: Option<&'static str>;
    /// The opposite, where the lock outlives the transaction.
    const UNLOCK_MIGRATION: Option<&'static str>;
    /// Changes of the schema are undone when a transaction fails. Otherwise migrations must be written to be run again.
    const DDL_IN_TRANSACTION: bool;

    /// See [`Store::take_turn`](crate::store::Store::take_turn); None: writers are one after the other anyway.
    const CLAIM_TURN: Option<Turn>;

    /// Rows of name, type and columns of the tables and views that are there, where the first migration takes what it
    /// finds.
    const IN_THE_WAY: Option<&'static str>;
    /// A row when numbers are given again: the newest job has a lesser one than an older job that is over.
    const NUMBERS: &'static str;
    /// One row: the schema's version, the oldest version that a program may know to work with it, and the name of a trigger that is
    /// missing (NULL: none is).
    const SCHEMA: &'static str;
    /// Binds: host, pid, concurrency, queues (JSON), kinds (JSON), lease (unless the next one says it). The answer,
    /// when there is one, is the id.
    const JOIN: &'static str;
    /// Writes the first heartbeat, where joining does not. Binds: worker, lease.
    const JOIN_BEAT: Option<&'static str>;
    /// Inserts one job that is due and signals the workers of all processes. Binds: as for one job, without its time, and what
    /// the signal carries.
    const INSERT_AND_NOTIFY: Option<&'static str>;
    /// A heartbeat can see whether jobs wait.
    const BEAT_LOOKS: bool;
    /// See [`Store::claim_alone`](crate::store::Store::claim_alone). None where a look takes next to nothing.
    const CLAIM_ALONE: Option<ClaimAlone<Self>>;
    /// Sent before a heartbeat that has something to say of claims, where it does not forget those by itself. Binds: as for a
    /// heartbeat.
    const SETTLED: &'static [&'static str];
    /// Binds: worker, lease, kinds to look for (JSON), running jobs (JSON), settled claims (JSON), whether to look at all
    /// claims (0 or 1), the session that answered the last one on this connection (0: none), the run of the server in which its
    /// session holds the lock that says that it lives (NULL: it holds none), within which time the next heartbeat comes.
    ///
    /// The row of the last one, if any: is the worker alive, does a job of those kinds wait, the held jobs that
    /// somebody asked to cancel (JSON: `[[id, fence], …]`; NULL: none), the number of this session on the server, and
    /// other workers (JSON: `[[id, lives, holds jobs, last heartbeat, run, late, left, lease], …]`; NULL: none). Of
    /// those: what their locks say as 0 or 1, what their rows say of the run, for how many microseconds the next
    /// heartbeat has been due, in how many the lease runs out (negative: it has), and for how many it was given.
    const BEAT: &'static [&'static str];
    /// Locks that the server drops with a connection; None: there is no server.
    const SESSIONS: Option<Sessions>;
    /// Binds: worker. Rows `(id, fence)`.
    const HOLDING: &'static str;
    /// Binds: worker.
    const LEAVE: &'static str;
    /// Binds: worker, a list of [`Start`](crate::store::values::Start).
    const STARTED: Script;
    /// Binds: worker, what [`finish_list`](Self::finish_list) makes.
    const FINISH: Script;
    /// Binds: worker, a list of [`PutBack`](crate::store::values::PutBack).
    const PUT_BACK: Script;
    /// Binds: worker, a list of [`Bury`](crate::store::values::Bury).
    const BURY: Script;
    /// Declares a worker dead whose last heartbeat is the one given. Binds: worker, heartbeat, and 1 when its lease has
    /// run out or 0 when its lock is free, which each of them sees to. The answer of the first, if any, is its id; the
    /// others are run when there is an answer. Binds of those: a list of it.
    const DECLARE_GONE: &'static [&'static str];
    /// Forgets the claims of workers that are gone, once nothing of them is left. Binds: what the first one answered,
    /// as a list.
    const FORGET_CLAIMS: &'static [&'static str];
    /// Binds: limit. Jobs whose worker is dead, gone or unknown, with that worker; no lock.
    const LOST: &'static str;
    /// Binds: a list of `{id, worker_id}`. Locks those that are still lost; rows of what [`RESCUE`](Self::RESCUE) is
    /// told. The file says what the fates are.
    const LOCK_LOST: &'static str;
    /// Binds: a list of `{id, fate, doubts, losses, error}`, of locked jobs.
    const RESCUE: &'static [&'static str];
    /// Binds: keep, limit. Ids of history rows to remove; another worker may be about to remove them, too.
    const OVER: &'static str;
    /// Binds: a list of these. The first that is run touches one row for each job that it removes.
    const PURGE: Script;
    /// Binds: keep.
    const PURGE_WORKERS: &'static str;

    /// The options of a pool for a connection of ours: the server says whose it is, if it can and the user does not.
    fn named(options: &Options<Self>) -> Options<Self>;

    /// Ends as [`FINISH`](Self::FINISH) reads them.
    fn finish_list(batch: &[Finish]) -> List;

    /// Values in the order in which `sql` names them, and the text as the driver wants it.
    fn prepare(sql: &'static str, binds: &[Bind<'_>]) -> Result<(Cow<'static, str>, Self::Arguments), Error>;
    /// Runs a statement and returns its rows.
    fn fetch(
        conn: &mut Self::Connection,
        sql: Cow<'static, str>,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<Vec<Self::Row>, Error>> + Send;
    /// Runs a statement and returns how many rows it touched.
    fn execute(
        conn: &mut Self::Connection,
        sql: Cow<'static, str>,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<u64, Error>> + Send;
    /// Inserts one row and returns the number that it was given.
    fn insert_row(
        conn: &mut Self::Connection,
        sql: Cow<'static, str>,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<i64, Error>> + Send;
    /// Runs text without values: session settings, migrations.
    fn raw(conn: &mut Self::Connection, sql: &'static str) -> impl Future<Output = Result<(), Error>> + Send;
    /// Sets the [savepoint](crate::store::engine::savepoint::SAVEPOINT) if the connection is in a transaction, and answers whether it is.
    fn savepoint(conn: &mut Self::Connection) -> impl Future<Output = Result<bool, Error>> + Send;
    /// The statement failed because of others and may succeed when repeated. Nothing of it was done.
    fn is_transient(error: &Error) -> bool;

    /// The statement names a table that is not there.
    fn is_missing_table(error: &Error) -> bool;

    /// See [`Store::warn_of_options`](crate::store::Store::warn_of_options).
    fn warn_of_options(pool: &sqlx::Pool<Self>);
    /// See [`Store::poll_interval`](crate::store::Store::poll_interval).
    fn poll_interval(idle: Duration) -> Duration;
    /// See [`Store::lanes`](crate::store::Store::lanes): of `kinds`, whatever their queue, without those of paused queues.
    fn lanes(
        conn: &mut Self::Connection,
        kinds: &[String],
        behind: &[Lane],
        most: usize,
    ) -> impl Future<Output = Result<Seen, Error>> + Send;
    /// See [`Store::peek`](crate::store::Store::peek).
    fn peek(
        conn: &mut Self::Connection,
        asks: &[Ask],
        reach: Reach,
    ) -> impl Future<Output = Result<Vec<Share>, Error>> + Send;
    /// See [`Store::claim`](crate::store::Store::claim).
    fn claim(
        conn: &mut Self::Connection,
        worker: WorkerId,
        asks: &[Ask],
    ) -> impl Future<Output = Result<Vec<Claimed>, Error>> + Send;
    /// Writes all of them or none, inside the caller's transaction if it is the caller's connection and in one; ids in the
    /// order given.
    fn insert(
        conn: &mut Self::Connection,
        jobs: &[NewJob],
        whose: Whose,
    ) -> impl Future<Output = Result<Vec<i64>, Error>> + Send;
    /// What makes a pool or its server unusable, whatever is set on a connection; asked before a migration and by a
    /// worker that starts.
    fn unusable(
        pool: &sqlx::Pool<Self>,
        conn: &mut Self::Connection,
    ) -> impl Future<Output = Result<Option<String>, Error>> + Send;
    /// A worker's own connections, where such beside the user's pool are better than some out of it. None where there can be
    /// none.
    fn open_beside(pool: &sqlx::Pool<Self>) -> impl Future<Output = Result<Option<Beside<Self>>, Error>> + Send;
    /// See [`Store::watch`](crate::store::Store::watch).
    fn watch(
        pool: &sqlx::Pool<Self>,
        housekeeping: &Housekeeping,
        wake: &(dyn Fn() + Send + Sync),
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

/// [`Dialect::poll_interval`] where no signal tells of jobs.
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

/// When this process last wrote something that concerns no waiting job: a heartbeat must not wake the worker that beats.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    begin: Instant,
    /// Microseconds after `begin`.
    until: AtomicU64,
}

impl Housekeeping {
    /// How long after a write its traces may be met.
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
            sql: std::borrow::Cow<'static, str>,
            arguments: Self::Arguments,
        ) -> Result<Vec<Self::Row>, sqlx::Error> {
            // the text is ours, from the folder `sql`; no value is ever part of it
            sqlx::query_with(sqlx::AssertSqlSafe(sql), arguments).fetch_all(conn).await
        }

        async fn execute(
            conn: &mut Self::Connection,
            sql: std::borrow::Cow<'static, str>,
            arguments: Self::Arguments,
        ) -> Result<u64, sqlx::Error> {
            let done = sqlx::query_with(sqlx::AssertSqlSafe(sql), arguments).execute(conn).await?;
            Ok(done.rows_affected())
        }

        async fn raw(conn: &mut Self::Connection, sql: &'static str) -> Result<(), sqlx::Error> {
            sqlx::raw_sql(sql).execute(conn).await.map(drop)
        }
    };
}
pub(crate) use driver;

/// Adds values to a statement's arguments in the order given, lists of numbers as `$ints` makes them.
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

/// `$1` … as `?`, and which value stands at each. The comment at the head, which may speak of places too, is left out.
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
