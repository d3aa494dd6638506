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
