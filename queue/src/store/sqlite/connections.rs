//! A worker's own connections to an SQLite file: one for claims and heartbeats, one for the ends of attempts, one for
//! rescue and retention.
//!
//! With `synchronous = FULL`, SQLite's default, each commit forces the write-ahead log to disk. Enqueues and finished
//! jobs need that. Claims and heartbeats do not: they say which process holds a job, and a crash of the machine ends
//! all its processes. They use `synchronous = NORMAL`, which keeps the file consistent. Only a crash of the machine can
//! lose such a commit, until the next forced commit writes it as well.
//!
//! Ends of attempts never wait for a connection of the pool. Nobody else can leave a transaction open on theirs, so a
//! batch can be one statement without BEGIN and COMMIT.

use std::path::PathBuf;

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Error, Pool, Sqlite, SqliteConnection};

use crate::store::engine::connection::connecting::{Beside, Connecting as _};
use crate::telemetry::Event;

/// `synchronous = NORMAL`.
const NORMAL: i64 = 1;
/// `synchronous = FULL`.
const FULL: i64 = 2;
/// Rows that the driver's thread buffers before it waits for the reader. Nearly every claim has fewer.
const ROWS: usize = 2048;

/// What decides whether another connection sees the same tables and can write at the same time as the pool's.
#[derive(Debug, PartialEq, Eq)]
struct Storage {
    /// Empty: in memory.
    file: String,
    journal_mode: String,
    locking_mode: String,
    tables: i64,
}

/// The write-ahead log of the pool's file, if other processes can write to it.
pub(crate) async fn log(pool: &Pool<Sqlite>) -> Result<Option<PathBuf>, Error> {
    let Storage { file, journal_mode, locking_mode, .. } = kind(pool).await?;
    let shared = !file.is_empty() && journal_mode == "wal" && locking_mode == "normal";
    Ok(shared.then(|| PathBuf::from(file + "-wal")))
}

/// None if another connection would not be like the pool's: the database is in memory or in another file than the
/// options name, has no write-ahead log, has exclusive locks, or its tables are only attached.
pub(crate) async fn open(pool: &Pool<Sqlite>) -> Result<Option<Beside<Sqlite>>, Error> {
    let theirs = kind(pool).await?;
    if theirs.file.is_empty() || theirs.journal_mode != "wal" || theirs.locking_mode != "normal" || theirs.tables == 0 {
        return Ok(None);
    }
    let forced: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(pool).await?;
    let options = SqliteConnectOptions::clone(&pool.connect_options());
    let one = || {
        let one = SqlitePoolOptions::new().max_connections(1).test_before_acquire(false);
        one.idle_timeout(None).max_lifetime(None)
    };
    let forcing = |level: i64| match level {
        ..NORMAL => SqliteSynchronous::Off,
        NORMAL => SqliteSynchronous::Normal,
        FULL => SqliteSynchronous::Full,
        _ => SqliteSynchronous::Extra,
    };
    let unforced = options.clone().row_buffer_size(ROWS).synchronous(forcing(forced.min(NORMAL)));
    let claims = one().connect_with(unforced).await?;
    if kind(&claims).await? != theirs {
        claims.close().await;
        return Ok(None);
    }
    let options = options.synchronous(forcing(forced));
    match one().connect_with(options.clone()).await {
        // `upkeep` connects on first use
        Ok(ends) => Ok(Some(Beside { claims, ends, upkeep: one().connect_lazy_with(options) })),
        Err(error) => {
            claims.close().await;
            Err(error)
        }
    }
}

/// What in the pool's options makes its connections block each other, or not do what a statement says.
pub(crate) async fn unusable(pool: &Pool<Sqlite>, conn: &mut SqliteConnection) -> Result<Option<String>, Error> {
    let is_on = async |conn: &mut SqliteConnection, sql: &'static str| {
        sqlx::query_scalar::<_, i64>(sql).fetch_optional(conn).await.map(|on| on == Some(1))
    };
    if is_on(conn, "PRAGMA query_only").await? {
        return Ok(Some("the pool's connections have `PRAGMA query_only = ON` and write nothing: leave it out".into()));
    }
    if is_on(conn, "PRAGMA count_changes").await? {
        return Ok(Some(
            "the pool's connections have `PRAGMA count_changes = ON`, which changes answers: leave it out".into(),
        ));
    }
    let Storage { file, journal_mode, locking_mode, .. } = kind_of(conn).await?;
    if file.is_empty() || pool.options().get_max_connections() == 1 {
        return Ok(None);
    }
    if locking_mode != "normal" {
        let why = "which lets no second connection in: leave it out, or give the pool `max_connections(1)`";
        return Ok(Some(format!("the pool's connections have `locking_mode = {locking_mode}`, {why}")));
    }
    let next = match SqliteConnectOptions::connect(&pool.connect_options()).await {
        Ok(mut other) => {
            let next = kind_of(&mut other).await?;
            other.close().await?;
            if next.file != file {
                return Ok(Some(format!(
                    "the pool's next connection is in another file, `{}`, than this one, `{file}`: its path is \
                     relative, and the working directory has changed; give the pool an absolute path",
                    next.file
                )));
            }
            next.journal_mode
        }
        // the mode cannot be changed while others use the file
        Err(error) if Sqlite::is_transient(&error) => "another mode".to_owned(),
        Err(error) => return Err(error),
    };
    let why = "which keeps connections from working side by side: leave `journal_mode` out of the options \
               (`queue::migrate` sets WAL), or give the pool `max_connections(1)`";
    Ok((next != journal_mode)
        .then(|| format!("the pool's connections set `journal_mode` to {next} where it is {journal_mode}, {why}")))
}

async fn kind(pool: &Pool<Sqlite>) -> Result<Storage, Error> {
    kind_of(&mut *acquire(pool).await?).await
}

async fn kind_of(conn: &mut SqliteConnection) -> Result<Storage, Error> {
    let text = async |conn: &mut sqlx::SqliteConnection, sql: &'static str| {
        sqlx::query_scalar::<_, Option<String>>(sql).fetch_one(conn).await.map(Option::unwrap_or_default)
    };
    Ok(Storage {
        file: text(conn, "SELECT file FROM pragma_database_list WHERE name = 'main'").await?,
        journal_mode: text(conn, "PRAGMA main.journal_mode").await?,
        locking_mode: text(conn, "PRAGMA main.locking_mode").await?,
        tables: sqlx::query_scalar("SELECT count(*) FROM main.sqlite_schema WHERE name = 'queue_jobs'")
            .fetch_one(conn)
            .await?,
    })
}

/// Returns a row if the connection can be closed: a database in memory would be lost with it.
const IN_A_FILE: &str = "SELECT 1 FROM pragma_database_list WHERE name = 'main' AND file <> ''";

/// Takes a connection from the pool. Nobody has a transaction on it. If a connection believes otherwise, it is closed,
/// and another one is taken.
///
/// When its disk is full (or it runs out of memory, or cannot write), SQLite ends a transaction by itself. The
/// `ROLLBACK` that follows fails, and sqlx still counts the transaction. It then refuses every `BEGIN IMMEDIATE` on
/// that connection, and turns a plain `begin` into a savepoint. When that savepoint fails in turn, it leaves a
/// transaction open that no commit ends. The next user of the connection writes into that transaction, and its writes
/// are lost with the connection.
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

/// Warns of a pool that may lose a database that ends with its connection, in memory or in an unnamed temporary file,
/// or open several. It is not an error: short tests work with it.
///
/// By default, sqlx closes a connection that is 30 minutes old or was idle for 10 minutes. Such a database would vanish
/// with all its jobs. So the pool must have one connection and keep it.
pub(crate) fn warn(pool: &Pool<Sqlite>) {
    if let Err(text) = check(pool) {
        Event::DatabaseFleeting { text: &text }.log();
    }
}

fn check(pool: &Pool<Sqlite>) -> Result<(), String> {
    let options = pool.options();
    let mut faults = Vec::new();
    if options.get_max_connections() > 1 {
        faults.push("open a second connection");
    }
    if options.get_idle_timeout().is_some() {
        faults.push("close a connection that was not used for a while (`idle_timeout`)");
    }
    if options.get_max_lifetime().is_some() {
        faults.push("close a connection that is old (`max_lifetime`)");
    }
    if faults.is_empty() || !ends_with_its_connection(&pool.connect_options()) {
        return Ok(());
    }
    Err(format!(
        "this SQLite database is in memory and lives as long as its only connection, but the pool may {}: write \
         `SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None)`, or use a file",
        faults.join(", and ")
    ))
}

/// Whether the options name a database without a file of its own.
fn ends_with_its_connection(options: &SqliteConnectOptions) -> bool {
    // sqlx reveals the flags only in a URL, and panics if the file name does not fit into one
    let url = options.clone().filename("any").to_url_lossy();
    let given = |name: &str, value: &str| url.query_pairs().any(|pair| pair == (name.into(), value.into()));
    let name = options.get_filename().to_string_lossy();
    // SQLite reads such a name as a URI with parameters
    let (path, parameters) = match name.strip_prefix("file:") {
        Some(rest) => rest.split_once('?').unwrap_or((rest, "")),
        None => (&*name, ""),
    };
    let within = |parameter: &str| parameters.split('&').any(|it| it == parameter);
    let in_memory = given("mode", "memory") || within("mode=memory");
    let in_memory_by_vfs = given("vfs", "memdb") || within("vfs=memdb");
    in_memory || in_memory_by_vfs || path.is_empty() || path == ":memory:"
}

#[cfg(test)]
#[path = "poisoned_tests.rs"]
mod poisoned_tests;

#[cfg(test)]
mod tests {
    use sqlx::Executor;
    use sqlx::sqlite::{SqliteJournalMode, SqliteLockingMode, SqlitePool};

    use super::*;

    async fn migrated(options: SqliteConnectOptions) -> SqlitePool {
        let pool = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let pool = pool.connect_with(options).await.expect("a pool");
        crate::migrate(&pool).await.expect("a schema");
        pool
    }

    fn file(folder: &tempfile::TempDir) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(folder.path().join("queue.sqlite")).create_if_missing(true)
    }

    async fn beside(pool: &SqlitePool) -> Option<Beside<Sqlite>> {
        open(pool).await.expect("an answer")
    }

    async fn forces(pool: &SqlitePool) -> i64 {
        sqlx::query_scalar("PRAGMA synchronous").fetch_one(pool).await.expect("a number")
    }

    #[tokio::test]
    async fn claims_force_less_than_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = migrated(file(&folder)).await;
        let Beside { claims, ends, .. } = beside(&pool).await.expect("connections");
        assert_eq!((forces(&pool).await, forces(&claims).await, forces(&ends).await), (FULL, NORMAL, FULL));
    }

    #[tokio::test]
    async fn a_pool_that_forces_nothing_is_not_overruled() {
        let folder = tempfile::tempdir().expect("a folder");
        let by_options = migrated(file(&folder).synchronous(SqliteSynchronous::Off)).await;
        let by_pragma = migrated(file(&folder)).await;
        by_pragma.execute("PRAGMA synchronous = OFF").await.expect("set");
        for pool in [by_options, by_pragma] {
            let Beside { claims, ends, .. } = beside(&pool).await.expect("connections");
            assert_eq!((forces(&claims).await, forces(&ends).await), (0, 0));
        }
    }

    #[tokio::test]
    async fn there_is_none_where_it_would_not_be_the_same() {
        assert!(beside(&migrated(SqliteConnectOptions::new()).await).await.is_none(), "in memory");
        let folder = tempfile::tempdir().expect("a folder");
        let exclusive = file(&folder).locking_mode(SqliteLockingMode::Exclusive);
        let pool = migrated(exclusive).await;
        assert!(beside(&pool).await.is_none(), "exclusive");
        pool.close().await;
        let pool = migrated(file(&folder)).await;
        pool.execute("PRAGMA journal_mode = DELETE").await.expect("without a log");
        assert!(beside(&pool).await.is_none(), "without a log");
        drop(pool);
        let elsewhere = SqliteConnectOptions::new().filename(folder.path().join("app.sqlite")).create_if_missing(true);
        let pool = SqlitePool::connect_with(elsewhere.journal_mode(SqliteJournalMode::Wal)).await.expect("a pool");
        let attach = format!("ATTACH '{}' AS queue", folder.path().join("queue.sqlite").display());
        pool.execute(crate::store::engine::driver::assembled(attach)).await.expect("attached");
        assert!(beside(&pool).await.is_none(), "attached");
    }
}

#[cfg(test)]
mod in_memory_tests {
    use std::time::Duration;

    use sqlx::sqlite::SqlitePoolOptions;

    use super::*;

    fn stays() -> SqlitePoolOptions {
        SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None)
    }

    #[tokio::test]
    async fn a_database_in_memory_needs_a_connection_that_stays() {
        let names = [
            "sqlite::memory:",
            "sqlite://:memory:",
            "sqlite::memory:?cache=private",
            "sqlite:file:shared?mode=memory&cache=shared",
            "sqlite:any?mode=memory",
            "sqlite:",
            "sqlite://",
        ];
        let by_name = names.map(|name| (name, name.parse::<SqliteConnectOptions>().expect("options")));
        let new = SqliteConnectOptions::new;
        let by_hand = [
            ("new()", new()),
            ("a flag", new().filename("x").in_memory(true)),
            ("an address", new().filename("file:x?mode=memory&cache=shared")),
            ("an address without a file", new().filename("file:")),
            ("an address of memory", new().filename("file::memory:?cache=shared")),
            ("memdb", new().filename("file:/x?vfs=memdb")),
            ("memdb as an option", new().filename("/x").vfs("memdb")),
        ];
        let minute = Duration::from_secs(60);
        for (name, options) in by_name.into_iter().chain(by_hand) {
            let pools = [
                (SqlitePoolOptions::new(), "`idle_timeout`"),
                (SqlitePoolOptions::new().max_connections(1), "`max_lifetime`"),
                (stays().idle_timeout(minute), "`idle_timeout`"),
                (stays().max_lifetime(minute), "`max_lifetime`"),
                (stays().max_connections(2), "a second connection"),
                // a closed connection is replaced by one with another database
                (SqlitePoolOptions::new().max_connections(1).min_connections(1), "`idle_timeout`"),
            ];
            for (pool, fault) in pools {
                let why = check(&pool.connect_lazy_with(options.clone())).expect_err(name);
                for part in [fault, ".max_connections(1).idle_timeout(None).max_lifetime(None)"] {
                    assert!(why.contains(part), "{name}: {part} is not in: {why}");
                }
            }
            let pool = stays().connect_lazy_with(options);
            assert_eq!(check(&pool), Ok(()), "{name}");
        }
    }

    #[tokio::test]
    async fn a_file_may_have_any_pool() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("memory").display().to_string();
        for name in [format!("sqlite:{path}?mode=rwc"), format!("sqlite:file:{path}?mode=rwc")] {
            let pool = SqlitePoolOptions::new().connect(&name).await.expect("a pool");
            assert_eq!(check(&pool), Ok(()), "{name}");
        }
    }
}
