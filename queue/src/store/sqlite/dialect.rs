//! SQLite: one writer at a time, in a file that several processes may share.

use std::collections::HashMap;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Serialize, Serializer};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Error, Pool, Row, SqlStr, Sqlite, SqliteConnection};
use tokio::time::sleep;

use crate::engine::Engine;

use crate::store::engine::connection::connecting::{Beside, Connecting};
use crate::store::engine::connection::savepoint::{SAVEPOINT, Together};
use crate::store::engine::connection::write_queue::Turns;
use crate::store::engine::dialect::{ClaimAlone, Dialect, Seen, topics};
use crate::store::engine::driver::{Bind, Cells, Driver, List, MOST_ARGS, assembled, driver, ids, json, rows};
use crate::store::engine::jobs::enqueue::{alike, args_list, fitting, parts};
use crate::store::engine::statement::read::{claimed, discover, lane_of, shares};
use crate::store::engine::statement::topics::SessionStatements;
use crate::store::engine::statement::{LanePart, ask_of, lane_binds, united};
use crate::store::engine::statement::{sql, topic};
use crate::store::sqlite::connections;
use crate::store::sqlite::watch::Writes;
use crate::store::values::{Ask, AttemptOutcome, Claimed, End, Lane, NewJob, Reach, Share, Whose, WorkerId};

/// Most commits are complete this long after their write.
const COMMIT: Duration = Duration::from_millis(3);
/// Jobs in one INSERT, and approximate bytes of arguments. (SQLite limits a value to 1,000,000,000 bytes.)
pub(super) const CHUNK: usize = 5_000;
pub(super) const CHUNK_BYTES: usize = 64 * 1024 * 1024;

impl Cells for SqliteRow {
    fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error> {
        self.try_get_unchecked(column)
    }

    fn maybe_text(&self, column: usize) -> Result<Option<String>, Error> {
        // SQLite can store text that is not UTF-8: it is read lossily, and then does not decode
        let bytes: Option<Vec<u8>> = self.try_get_unchecked(column)?;
        Ok(bytes.map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }))
    }
}

/// The place behind which an ask starts. NULL: the beginning.
fn behind(ask: &Ask) -> (Bind<'_>, Bind<'_>) {
    let (run_at, id) = ask.behind.map_or((None, 0), |(run_at, id)| (Some(run_at), id));
    (run_at.into(), id.into())
}

/// An end in the list of finished jobs, an object by id. Nested JSON is expensive to read.
#[derive(Serialize)]
#[serde(untagged)]
enum ListedEnd<'a> {
    /// Completed without a result, as nearly all are: the fence, and above its bits the run time in milliseconds.
    Plain(i64),
    /// Fence, run time in microseconds, state, result, error.
    Other(i32, i64, AttemptOutcome, Option<&'a str>, Option<&'a str>),
}

impl ListedEnd<'_> {
    const FENCE_BITS: u32 = 30;

    fn of(end: &End) -> ListedEnd<'_> {
        let (fence, ran_us) = (end.hold.fence, end.ran_us);
        let (low, high) = (i64::from(fence), ran_us / 1000);
        let fits = (0..1 << Self::FENCE_BITS).contains(&low) && (0..1 << (63 - Self::FENCE_BITS)).contains(&high);
        match (end.outcome, end.result(), end.error.as_deref()) {
            (AttemptOutcome::Completed, None, None) if fits => ListedEnd::Plain(high << Self::FENCE_BITS | low),
            (outcome, result, error) => ListedEnd::Other(fence, ran_us, outcome, result, error),
        }
    }
}

/// The statement for the next rows of an ask: `oldest` or `newest`, by its order.
fn places<'a>(ask: &'a Ask, [oldest, newest]: [&'static str; 2], limit: i64) -> LanePart<'a> {
    let [kind, queue, priority] = lane_binds(ask);
    if ask.newest_first {
        return (newest, vec![kind, queue, priority, limit.into()]);
    }
    let (run_at, id) = behind(ask);
    (oldest, vec![kind, queue, priority, run_at, id, limit.into()])
}

/// Owned copies: the driver's thread keeps them.
fn values(binds: &[Bind<'_>]) -> Result<SqliteArguments, Error> {
    let mut arguments = SqliteArguments::default();
    for bind in binds {
        match *bind {
            Bind::Int(value) => sqlx::Arguments::add(&mut arguments, value),
            Bind::Ints(list) => sqlx::Arguments::add(&mut arguments, json(list)),
            Bind::Text(value) => sqlx::Arguments::add(&mut arguments, value.map(str::to_owned)),
        }
        .map_err(Error::Encode)?;
    }
    Ok(arguments)
}

impl Driver for Sqlite {
    fn prepare(sql: &'static str, binds: &[Bind<'_>]) -> Result<(SqlStr, Self::Arguments), Error> {
        Ok((SqlStr::from_static(sql), values(binds)?))
    }

    driver!();

    async fn insert_row(conn: &mut SqliteConnection, sql: SqlStr, arguments: Self::Arguments) -> Result<i64, Error> {
        let done = sqlx::query_with(sql, arguments).execute(conn).await?;
        Ok(done.last_insert_rowid())
    }
}

impl Connecting for Sqlite {
    const CONNECTIONS: u32 = 3;
    const ONE_WRITER: bool = true;
    const ENDS_BY_ITSELF: bool = true;
    // a transaction that reads before it writes may fail for good; this one waits for its turn
    const BEGIN: &'static str = "BEGIN IMMEDIATE";
    const OPEN_LINE: &'static [&'static str] = &[];
    const PLAIN_SESSION: Option<&'static str> = None;
    const BEFORE_MIGRATION: &'static [&'static str] = &["PRAGMA journal_mode = WAL"];
    const LOCK_MIGRATION: Option<&'static str> = None;
    const DDL_IN_TRANSACTION: bool = true;

    async fn acquire(pool: &Pool<Self>) -> Result<PoolConnection<Self>, Error> {
        connections::acquire(pool).await
    }

    async fn savepoint(conn: &mut SqliteConnection) -> Result<bool, Error> {
        // outside a transaction, a savepoint would begin one
        if !Self::is_open(conn).await? {
            return Ok(false);
        }
        Self::raw(conn, SAVEPOINT).await.map(|()| true)
    }

    async fn is_open(conn: &mut SqliteConnection) -> Result<bool, Error> {
        match Self::raw(conn, "BEGIN").await {
            Ok(()) => Self::raw(conn, "ROLLBACK").await.map(|()| false),
            Err(Error::Database(error)) if error.message().contains("within a transaction") => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn is_transient(error: &Error) -> bool {
        let Error::Database(error) = error else { return false };
        let code = error.code().and_then(|code| code.parse::<u32>().ok());
        matches!(code.map(|code| code & 0xff), Some(5 | 6)) // SQLITE_BUSY, SQLITE_LOCKED
    }

    fn is_refusal(error: &Error) -> bool {
        let Error::Database(error) = error else { return false };
        let Some(code) = error.code() else { return true };
        // the file is locked by others, cannot be opened or written, or the disk is full: SQLITE_BUSY, SQLITE_LOCKED,
        // SQLITE_READONLY, SQLITE_IOERR, SQLITE_FULL, SQLITE_CANTOPEN
        code.parse::<u32>().is_ok_and(|code| !matches!(code & 0xff, 5 | 6 | 8 | 10 | 13 | 14))
    }

    fn warn_of_options(pool: &Pool<Self>) {
        connections::warn(pool);
    }

    fn poll_interval(_idle: Duration) -> Duration {
        // the file is watched: this only finds what the watch missed
        Duration::from_secs(1)
    }

    fn address(pool: &sqlx::Pool<Self>) -> String {
        pool.connect_options().get_filename().display().to_string()
    }

    async fn unusable(pool: &Pool<Self>, conn: &mut SqliteConnection) -> Result<Option<String>, Error> {
        connections::unusable(pool, conn).await
    }

    async fn open_beside(pool: &Pool<Self>) -> Result<Option<Beside<Self>>, Error> {
        connections::open(pool).await
    }

    /// Wakes after writes to the write-ahead log, which every commit of every process makes.
    async fn watch(pool: &Pool<Self>, wake: &(dyn Fn() + Send + Sync)) -> Result<(), Error> {
        // In a task of its own: dropping an acquire midway closes the connection, and with it a database in memory.
        let asked = pool.clone();
        let asked = tokio::spawn(async move { connections::log(&asked).await });
        let Some(log) = asked.await.map_err(|_| Error::PoolClosed)?? else {
            return std::future::pending().await; // in memory, or without a log: there is nothing to watch
        };
        let (mut writes, turns) = (Writes::to(log), Turns::of(pool));
        wake(); // for writes before the watch
        loop {
            writes.next().await;
            if turns.are_quiet() {
                continue;
            }
            // a claim now waits for the file's lock, and gets it right after the commit if that is soon
            wake();
            sleep(COMMIT).await;
            wake();
        }
    }

    const BEGIN_TX: &'static str = "BEGIN IMMEDIATE; SAVEPOINT queue_attempt";

    /// After a rollback of its own, SQLite would commit each further statement.
    async fn hold_commits(conn: &mut SqliteConnection, open: Weak<AtomicBool>) -> Result<(), Error> {
        let may_commit = move || open.upgrade().is_none_or(|open| !open.load(Ordering::Acquire));
        conn.lock_handle().await?.set_commit_hook(may_commit);
        Ok(())
    }
}

impl Dialect for Sqlite {
    const KIND: Engine = Engine::Sqlite;
    const ENGINE: &'static str = "SQLite";
    const HEARTBEAT_DISCOVERS: bool = true;
    const CLAIM_ALONE: Option<ClaimAlone<Self>> = None;

    const SESSIONS: Option<SessionStatements> = None;
    topics!("sqlite");

    fn finish_list(batch: &[End]) -> List {
        // not a map: the same job may be in the batch under two fences
        let mut list = Vec::with_capacity(batch.len() * 32);
        let mut json = serde_json::Serializer::new(&mut list);
        json.collect_map(batch.iter().map(|end| (end.hold.id, ListedEnd::of(end))))
            .expect("numbers and text serialize");
        String::from_utf8(list).expect("JSON is UTF-8").into()
    }

    async fn discover(
        conn: &mut SqliteConnection,
        kinds: &[String],
        behind: &[Lane],
        most: usize,
    ) -> Result<Seen, Error> {
        discover::<Self>(conn, sql!("sqlite", "claims", "discover"), kinds, behind, most).await
    }

    async fn preview(conn: &mut SqliteConnection, asks: &[Ask], reach: Reach) -> Result<Vec<Share>, Error> {
        let outer = reach.numbers().map(Bind::from);
        let parts = ["SELECT * FROM (", ")"];
        let to_id = reach.until.is_some_and(|(_, (_, id))| id != i64::MIN);
        let oldest =
            if to_id { sql!("sqlite", "claims", "preview_to_id") } else { sql!("sqlite", "claims", "preview") };
        let sql = [oldest, sql!("sqlite", "claims", "preview_newest")];
        let union = united(sql!("sqlite", "claims", "preview_many"), &outer, parts, asks, |ask, wanted| {
            let (sql, mut binds) = places(ask, sql, if wanted { reach.most.into() } else { 0 });
            let (time, id) = reach.end_in(&ask.lane);
            binds.extend([time, id].map(Bind::from));
            (sql, binds)
        });
        let rows = Self::fetch(conn, assembled(union.sql), values(&union.binds)?).await?;
        shares(asks, &rows, |part| ask_of(&union.asks, part))
    }

    async fn claim(
        conn: &mut SqliteConnection,
        worker: WorkerId,
        asks: &[Ask],
        _whose: Whose,
    ) -> Result<Vec<Claimed>, Error> {
        if let [ask] = asks
            && !ask.newest_first
        {
            let [kind, queue, priority] = lane_binds(ask);
            let (take, retries) = (i64::from(ask.take).into(), ask.retries().into());
            let (run_at, id) = behind(ask);
            let binds = [worker.into(), kind, queue, priority, run_at, id, take, retries, MOST_ARGS];
            let rows = rows::<Self>(conn, sql!("sqlite", "claims", "claim"), &binds).await?;
            return rows.iter().map(|row| claimed(row, ask.lane.clone())).collect();
        }
        let retries: HashMap<&str, i64> = asks.iter().map(|ask| (&*ask.lane.kind, ask.retries())).collect();
        let retries = serde_json::to_string(&retries).expect("text and numbers serialize");
        let outer = [worker.into(), retries.as_str().into(), MOST_ARGS];
        let parts = ["SELECT id FROM (", ")"];
        let union = united(sql!("sqlite", "claims", "claim_many"), &outer, parts, asks, |ask, wanted| {
            let sql = [sql!("sqlite", "claims", "next"), sql!("sqlite", "claims", "next_newest")];
            places(ask, sql, if wanted { ask.take.into() } else { 0 })
        });
        let rows = Self::fetch(conn, assembled(union.sql), values(&union.binds)?).await?;
        rows.iter().map(|row| claimed(row, lane_of(row, asks)?)).collect()
    }

    async fn insert(conn: &mut SqliteConnection, jobs: &[NewJob], whose: Whose) -> Result<Vec<i64>, Error> {
        if let [job @ NewJob { meta: None, .. }] = jobs {
            let binds = job.binds();
            let (sql, arguments) = if job.is_due_now() {
                Self::prepare(sql!("sqlite", "enqueue", "insert_one"), &binds[..5])?
            } else {
                Self::prepare(sql!("sqlite", "enqueue", "insert_one_later"), &binds)?
            };
            return Ok(vec![Self::insert_row(conn, sql, arguments).await?]);
        }
        if fitting(jobs, CHUNK, CHUNK_BYTES) == jobs.len() {
            return insert_chunk(conn, jobs).await;
        }
        let mut together = Together::<Self>::begin(conn, whose).await?;
        let ids = insert_chunks(together.connection(), jobs).await;
        together.end(ids).await
    }
}

async fn insert_chunks(conn: &mut SqliteConnection, jobs: &[NewJob]) -> Result<Vec<i64>, Error> {
    let mut all = Vec::with_capacity(jobs.len());
    for part in parts(jobs, CHUNK, CHUNK_BYTES) {
        all.extend(insert_chunk(conn, part).await?);
    }
    Ok(all)
}

async fn insert_chunk(conn: &mut SqliteConnection, jobs: &[NewJob]) -> Result<Vec<i64>, Error> {
    if !alike(jobs) {
        let list = serde_json::to_string(jobs).expect("plain structs of numbers and text serialize");
        let sql = match jobs.iter().any(|job| job.meta.is_some()) {
            true => sql!("sqlite", "enqueue", "insert_with_meta"),
            false => sql!("sqlite", "enqueue", "insert"),
        };
        return ids::<Sqlite>(conn, sql, &[list.as_str().into()]).await;
    }
    let common = &jobs[0];
    let list = args_list(jobs);
    let binds = [
        (&*common.kind).into(),
        (&*common.queue).into(),
        i64::from(common.priority).into(),
        common.max_retries.map(i64::from).into(),
        list.as_str().into(),
    ];
    let (sql, arguments) = Sqlite::prepare(sql!("sqlite", "enqueue", "insert_alike"), &binds)?;
    // one writer at a time, and ids only rise: the ids of one statement are consecutive
    let last = Sqlite::insert_row(conn, sql, arguments).await?;
    Ok((last + 1 - jobs.len() as i64..=last).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use sqlx::Connection as _;
    use sqlx::sqlite::SqlitePoolOptions;
    use tokio::sync::Notify;
    use tokio::time::timeout;

    use super::*;
    use crate::store::values::Hold;

    #[test]
    fn an_end_is_one_number_when_that_holds_it() {
        let end = End::completed(Hold { id: 7, fence: 3 }, 5_999, None);
        let all = |batch: &[End]| Sqlite::finish_list(batch).text.unwrap();
        let list = |end: &End| all(std::slice::from_ref(end));
        let number = (5_i64 << 30) + 3;
        assert_eq!(list(&end), format!("{{\"7\":{number}}}"));
        let longest = End { hold: Hold { id: 7, fence: (1 << 30) - 1 }, ran_us: ((1 << 33) - 1) * 1000, ..end.clone() };
        assert_eq!(list(&longest), format!("{{\"7\":{}}}", i64::MAX));
        let others = [
            End { hold: Hold { id: 7, fence: 1 << 30 }, ..end.clone() },
            End { hold: Hold { id: 7, fence: -1 }, ..end.clone() },
            End { ran_us: (1 << 33) * 1000, ..end.clone() },
            End { ran_us: -1000, ..end.clone() },
            End::completed(end.hold, end.ran_us, Some("1".into())),
            End { outcome: AttemptOutcome::Cancelled, error: Some("why".into()), ..end.clone() },
        ];
        for other in others {
            let (fence, ran_us) = (other.hold.fence, other.ran_us);
            assert!(list(&other).starts_with(&format!("{{\"7\":[{fence},{ran_us},\"")), "{}", list(&other));
        }
        let again = End { hold: Hold { id: 7, fence: 4 }, ..end.clone() };
        assert_eq!(all(&[end, again]), format!("{{\"7\":{number},\"7\":{}}}", number + 1));
    }

    /// If a bound value could satisfy the condition of a partial index, SQLite reads the value while planning. It then
    /// plans the statement anew at each execution, which takes 0.1 ms of the turn to write. A `+` prevents that.
    #[test]
    fn no_plan_depends_on_which_worker_asks() {
        let scripts = [
            Sqlite::ATTEMPTS.started,
            Sqlite::ATTEMPTS.finish,
            Sqlite::ATTEMPTS.requeue,
            Sqlite::ATTEMPTS.bury,
            Sqlite::LEASES.heartbeat,
        ];
        let statements = scripts.into_iter().flat_map(|script| script.steps()).map(|(_, sql)| sql);
        for sql in statements {
            for (at, _) in sql.match_indices("worker_id = $") {
                let before = sql[..at].rsplit(char::is_whitespace).next().expect("a part");
                // the history and the heartbeats have no such index
                let has_none = before == "h." || (before.is_empty() && sql.contains("UPDATE queue_heartbeats"));
                assert!(before.starts_with('+') || has_none, "{before}worker_id = $ in\n{sql}");
            }
        }
    }

    /// The database's clock has whole milliseconds. Rounding must not make a job start early.
    #[tokio::test]
    async fn a_delay_is_never_short() {
        let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
        let mut conn = pool.acquire().await.unwrap();
        let job = NewJob { delay_us: Some(5_001), ..NewJob::example("k") };
        let other = NewJob { delay_us: Some(5_000), ..job.clone() };
        for jobs in [vec![job.clone()], vec![job, other]].iter().cycle().take(400) {
            let before = chrono::Utc::now().timestamp_micros();
            let ids = Sqlite::insert(&mut conn, jobs, Whose::Pools).await.unwrap();
            let due: i64 = sqlx::query_scalar("SELECT run_at * 1000 FROM queue_jobs WHERE id = $1")
                .bind(ids[0])
                .fetch_one(&mut *conn)
                .await
                .unwrap();
            let delay = due - before;
            assert!((5_001..500_000).contains(&delay), "{delay}");
        }
    }

    #[tokio::test]
    async fn a_dropped_watch_keeps_a_database_in_memory() {
        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
        sqlx::query("CREATE TABLE here (n)").execute(&pool).await.unwrap();
        for _ in 0..20 {
            for polls in 0..4 {
                let mut watch = Box::pin(Sqlite::watch(&pool, &|| ()));
                for _ in 0..polls {
                    assert!(watch.as_mut().now_or_never().is_none());
                    tokio::task::yield_now().await;
                }
                drop(watch);
                sqlx::query("INSERT INTO here VALUES (1)").execute(&pool).await.unwrap();
            }
        }
    }

    #[tokio::test]
    async fn a_commit_is_heard_when_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("queue.sqlite").display());
        let pool = SqlitePoolOptions::new().max_connections(1).connect(&url).await.unwrap();
        crate::migrate(&pool).await.unwrap();
        let heard = Arc::<Notify>::default();
        let (told, watched) = (heard.clone(), pool.clone());
        let watcher = tokio::spawn(async move { Sqlite::watch(&watched, &|| told.notify_one()).await });
        let mut other = SqliteConnection::connect(&url).await.unwrap();
        // until the watch has begun
        while timeout(Duration::from_millis(50), heard.notified()).await.is_err() {
            sqlx::raw_sql("UPDATE queue_paused SET queue = queue; PRAGMA user_version = 1")
                .execute(&mut other)
                .await
                .unwrap();
        }
        while timeout(Duration::from_millis(50), heard.notified()).await.is_ok() {}
        let log = folder.path().join("queue.sqlite-wal");
        let before = std::fs::metadata(&log).unwrap().len();
        let large = "PRAGMA cache_size = 1; BEGIN IMMEDIATE; CREATE TABLE large (a);
                     WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 1000)
                     INSERT INTO large SELECT hex(randomblob(1000)) FROM n";
        sqlx::raw_sql(large).execute(&mut other).await.unwrap();
        assert!(std::fs::metadata(&log).unwrap().len() > before, "it is written before its commit");
        while timeout(Duration::from_millis(50), heard.notified()).await.is_ok() {}
        sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
        timeout(Duration::from_secs(60), heard.notified()).await.expect("heard");
        watcher.abort();
    }
}
