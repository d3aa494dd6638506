//! PostgreSQL: every verb is one statement, and LISTEN wakes workers.

use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use sqlx::postgres::{PgConnectOptions, PgListener, PgRow};
use sqlx::{Error, PgConnection, Pool, Postgres, Row, SqlStr, TypeInfo, ValueRef};

use crate::engine::Engine;
use crate::store::engine::connection::notify;

use crate::store::engine::connection::LIMIT;
use crate::store::engine::connection::connecting::Connecting;
use crate::store::engine::connection::line::alone;
use crate::store::engine::connection::savepoint::{SAVEPOINT, SET_AND_RELEASED, Together};
use crate::store::engine::dialect::{ClaimAlone, Dialect, Seen, topics};
use crate::store::engine::driver::{Bind, Cells, Driver, List, MOST_ARGS, add_binds, driver, ids, read, rows};
use crate::store::engine::jobs::enqueue::{alike, fitting, parts};
use crate::store::engine::statement::read::{claimed, discover, lane_of, number, shares};
use crate::store::engine::statement::topics::SessionStatements;
use crate::store::engine::statement::{lane_binds, sql, topic};
use crate::store::postgres::settings;
use crate::store::values::{Ask, AttemptOutcome, Claimed, End, Lane, NewJob, Reach, Share, Whose, WorkerId};

/// The channel that announces enqueues.
pub(crate) const CHANNEL: &str = "queue_jobs";
/// A listener that hears nothing for this long checks its connection.
const WATCHDOG: Duration = Duration::from_secs(60);
/// The application name of our connections, unless the user has set one.
const APPLICATION: &str = "queue";
/// Approximate bytes of arguments in one INSERT. A value is limited to a gigabyte.
pub(super) const CHUNK_BYTES: usize = 64 * 1024 * 1024;
/// Microseconds from 1970 to 2000, where PostgreSQL's clock starts.
const EPOCH: i64 = 946_684_800_000_000;

impl Cells for PgRow {
    fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error> {
        let value = self.try_get_raw(column)?;
        if value.is_null() {
            return Ok(None);
        }
        let wrong = |source| Error::ColumnDecode { index: column.to_string(), source };
        let bytes = value.as_bytes().map_err(wrong)?;
        let width = || wrong("neither a whole number nor a time".into());
        let int = match *bytes {
            [byte] => i64::from(byte),
            [a, b] => i64::from(i16::from_be_bytes([a, b])),
            [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
            _ => i64::from_be_bytes(bytes.try_into().map_err(|_| width())?),
        };
        Ok(Some(if value.type_info().name() == "TIMESTAMPTZ" { int.saturating_add(EPOCH) } else { int }))
    }

    fn maybe_text(&self, column: usize) -> Result<Option<String>, Error> {
        let value = self.try_get_raw(column)?;
        if value.is_null() {
            return Ok(None);
        }
        // JSON arrives as text; in a database with the encoding SQL_ASCII, any bytes are text
        let bytes = value.as_bytes().map_err(|source| Error::ColumnDecode { index: column.to_string(), source })?;
        Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
    }
}

#[derive(Serialize)]
struct PgAsk<'a> {
    ask: usize,
    kind: &'a str,
    queue: &'a str,
    priority: i16,
    take: u32,
    after_us: i64,
    after_id: i64,
    newest: bool,
    max_retries: i64,
}

/// The values that most ends lack, in the order of the ends. None: no end has one.
#[derive(Serialize)]
struct Rare<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Vec<Option<AttemptOutcome>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Vec<Option<&'a str>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Vec<Option<&'a str>>>,
}

impl<'a> Rare<'a> {
    fn of(ends: &[&'a End]) -> Option<String> {
        fn list<'a, T>(ends: &[&'a End], of: fn(&'a End) -> Option<T>) -> Option<Vec<Option<T>>> {
            ends.iter().any(|end| of(end).is_some()).then(|| ends.iter().map(|end| of(end)).collect())
        }
        let told = Self {
            state: list(ends, |end| Some(end.outcome).filter(|outcome| *outcome != AttemptOutcome::Completed)),
            result: list(ends, |end| end.result()),
            error: list(ends, |end| end.error.as_deref()),
        };
        let has_any = told.state.is_some() || told.result.is_some() || told.error.is_some();
        has_any.then(|| serde_json::to_string(&told).expect("text serializes"))
    }
}

/// A claimed row. That column holds the id of its claim record.
fn noted(row: &PgRow, column: usize, lane: Lane) -> Result<Claimed, Error> {
    Ok(Claimed { claim: row.maybe_int(column)?, ..claimed(row, lane)? })
}

fn asks_json(asks: &[Ask]) -> String {
    let list: Vec<_> = asks
        .iter()
        .enumerate()
        .map(|(number, ask)| PgAsk {
            ask: number,
            kind: &ask.lane.kind,
            queue: &ask.lane.queue,
            priority: ask.lane.priority,
            take: ask.take,
            after_us: behind(ask).0,
            after_id: behind(ask).1,
            newest: ask.newest_first,
            max_retries: ask.retries(),
        })
        .collect();
    serde_json::to_string(&list).expect("plain structs of numbers and text serialize")
}

/// The place behind which a claim starts. Without one, it is before every time that can be stored.
fn behind(ask: &Ask) -> (i64, i64) {
    ask.behind.unwrap_or((-210_866_803_200_000_000, 0)) // 4713 BC
}

impl Driver for Postgres {
    fn prepare(sql: &'static str, binds: &[Bind<'_>]) -> Result<(SqlStr, Self::Arguments), Error> {
        Ok((SqlStr::from_static(sql), add_binds!(Self, binds, std::convert::identity)))
    }

    driver!();

    async fn insert_row(conn: &mut PgConnection, sql: SqlStr, arguments: Self::Arguments) -> Result<i64, Error> {
        Self::fetch(conn, sql, arguments).await?.first().ok_or(Error::RowNotFound)?.int(0)
    }
}

impl Connecting for Postgres {
    const CONNECTIONS: u32 = 5;
    const ONE_WRITER: bool = false;
    const ENDS_BY_ITSELF: bool = false;
    #[cfg(feature = "testing")]
    // Without JIT, as in a worker's own sessions: from some costs on, it would take a claim seconds.
    const STANDSTILL: Option<&'static str> = Some(
        "SELECT (extract(epoch FROM clock_timestamp() - now()) * 1000000)::bigint, \
              (SELECT coalesce(max(id), 0) FROM queue_jobs), \
              (SELECT count(*) FROM (SELECT FROM queue_jobs WHERE run_at > now() LIMIT 1) AS later), \
              set_config('jit', 'off', true)",
    );
    const BEGIN: &'static str = "BEGIN ISOLATION LEVEL READ COMMITTED";
    const BEGIN_TX: &'static str = "BEGIN ISOLATION LEVEL READ COMMITTED; SAVEPOINT queue_attempt";
    const OPEN_LINE: &'static [&'static str] = settings::LINE;
    const BEGIN_LENT: Option<&'static str> = Some(settings::BEGIN_LENT);
    const SESSION: Option<&'static str> = Some("SELECT pg_backend_pid()");
    const PLAIN_SESSION: Option<&'static str> = Some(settings::PLAIN);
    // A change of a table waits for open transactions, and all others wait for it: heartbeats too.
    const BEFORE_MIGRATION: &'static [&'static str] = &["SET lock_timeout = '1s'"];
    // the number is "queue" in ASCII
    const LOCK_MIGRATION: Option<&'static str> = Some("SELECT 1 FROM pg_advisory_xact_lock(487384675685)");
    const DDL_IN_TRANSACTION: bool = true;

    fn named(options: &PgConnectOptions) -> PgConnectOptions {
        match options.get_application_name() {
            Some(_) => options.clone(),
            None => options.clone().application_name(APPLICATION),
        }
    }

    async fn savepoint(conn: &mut PgConnection) -> Result<bool, Error> {
        match Self::raw(conn, SAVEPOINT).await {
            Ok(()) => Ok(true),
            // no transaction, neither one of sqlx nor one that was begun by SQL
            Err(error) if is_outside(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn is_open(conn: &mut PgConnection) -> Result<bool, Error> {
        match Self::raw(conn, SET_AND_RELEASED).await {
            Ok(()) => Ok(true),
            Err(error) if is_outside(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn is_transient(error: &Error) -> bool {
        // serialization failure, deadlock, lock not available
        matches!(error, Error::Database(e) if matches!(e.code().as_deref(), Some("40001" | "40P01" | "55P03")))
    }

    fn poll_interval(_idle: Duration) -> Duration {
        Duration::from_secs(1)
    }

    async fn unusable(_pool: &Pool<Self>, conn: &mut PgConnection) -> Result<Option<String>, Error> {
        let hidden: Vec<String> = sqlx::query_scalar(settings::HIDDEN).fetch_all(conn).await?;
        let why = |table: &String| {
            format!(
                "row level security hides rows of `{table}` from this account: connect as the owner of the tables or \
                 as a role with BYPASSRLS, run `ALTER TABLE {table} DISABLE ROW LEVEL SECURITY`, or create a policy \
                 with `USING (true)` for this account"
            )
        };
        Ok(hidden.first().map(why))
    }

    async fn watch(pool: &Pool<Self>, wake: &(dyn Fn() + Send + Sync)) -> Result<(), Error> {
        let mut listener = PgListener::connect_with(&alone(pool, LIMIT)).await?;
        listener.eager_reconnect(false);
        sqlx::raw_sql(settings::NO_END_OF_IDLE).execute(&mut listener).await?;
        listener.listen(CHANNEL).await?;
        wake(); // for earlier enqueues
        loop {
            match tokio::time::timeout(WATCHDOG, listener.try_recv()).await {
                Ok(Ok(Some(signal))) if notify::is_known(pool, signal.payload()) => {}
                Ok(Ok(Some(_))) => wake(),
                Ok(Ok(None)) => return Err(lost("the connection was closed")),
                Ok(Err(error)) => return Err(error),
                // A half-open connection looks like a quiet one. Only a round trip can tell.
                Err(_quiet) => {
                    match tokio::time::timeout(Duration::from_secs(5), sqlx::raw_sql("").execute(&mut listener)).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => return Err(error),
                        Err(_) => return Err(lost("the connection does not answer")),
                    }
                }
            }
        }
    }

    const NOTIFIES: bool = true;

    fn address(pool: &sqlx::Pool<Self>) -> String {
        let options = pool.connect_options();
        let database = options.get_database().unwrap_or_else(|| options.get_username());
        match options.get_socket() {
            Some(socket) => format!("{}:{}/{database}", socket.display(), options.get_port()),
            None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
        }
    }

    async fn notify(conn: &mut sqlx::PgConnection, from: &str) -> Result<(), sqlx::Error> {
        // a hint needs no durability: it should not wait for the disk, nor take disk time from commits that need it
        let hint = "SELECT set_config('synchronous_commit', 'off', true), pg_notify('queue_jobs', $1)";
        sqlx::query(hint).bind(from).execute(conn).await.map(drop)
    }
}

impl Dialect for Postgres {
    const KIND: Engine = Engine::Postgres;
    const ENGINE: &'static str = "PostgreSQL";
    const BEGIN_TO_WRITE: Option<&'static str> = Some("SELECT txid_current()");
    const INSERT_AND_NOTIFY: Option<&'static str> = Some(sql!("postgres", "enqueue", "insert_and_notify"));
    const HEARTBEAT_DISCOVERS: bool = true;
    const CLAIM_ALONE: Option<ClaimAlone<Self>> =
        Some(|conn, worker, ask, kinds| claim_one(conn, worker, ask, Some(kinds)).boxed());

    const SESSIONS: Option<SessionStatements> = Some(SessionStatements::of(topic!("postgres", "sessions")));
    topics!("postgres");

    fn finish_list(batch: &[End]) -> List {
        // if a batch has a job under two fences, one is refused anyway: the lower one is not sent (it is older unless a
        // thousand million claims lie between them)
        let mut ends: Vec<&End> = Vec::with_capacity(batch.len());
        for end in batch {
            ends.pop_if(|before| before.hold.id == end.hold.id);
            ends.push(end);
        }
        let numbers = |of: fn(&End) -> i64| ends.iter().map(|end| of(end)).collect();
        List {
            numbers: vec![numbers(|end| end.hold.id), numbers(|end| end.hold.fence.into()), numbers(|end| end.ran_us)],
            text: Rare::of(&ends),
        }
    }

    async fn discover(conn: &mut PgConnection, kinds: &[String], behind: &[Lane], most: usize) -> Result<Seen, Error> {
        discover::<Self>(conn, sql!("postgres", "claims", "discover"), kinds, behind, most).await
    }

    async fn preview(conn: &mut PgConnection, asks: &[Ask], reach: Reach) -> Result<Vec<Share>, Error> {
        let list = asks_json(asks);
        let numbers = reach.numbers().into_iter().chain(Reach::rank(reach.until)).map(Bind::from);
        let binds: Vec<_> = std::iter::once(Bind::from(list.as_str())).chain(numbers).collect();
        shares(asks, &rows::<Self>(conn, sql!("postgres", "claims", "preview"), &binds).await?, number)
    }

    async fn claim(
        conn: &mut PgConnection,
        worker: WorkerId,
        asks: &[Ask],
        _whose: Whose,
    ) -> Result<Vec<Claimed>, Error> {
        if let [ask] = asks
            && !ask.newest_first
        {
            return claim_one(conn, worker, ask, None).await;
        }
        let list = asks_json(asks);
        let binds = [worker.into(), list.as_str().into(), MOST_ARGS];
        let sql = sql!("postgres", "claims", "claim_many");
        read::<Self, _>(conn, sql, &binds, |row| noted(row, 13, lane_of(row, asks)?)).await
    }

    async fn insert(conn: &mut PgConnection, jobs: &[NewJob], whose: Whose) -> Result<Vec<i64>, Error> {
        if let [job @ NewJob { meta: None, .. }] = jobs {
            let binds = job.binds();
            return match (job.delay_us, job.run_at_us) {
                (None, None) => ids::<Self>(conn, sql!("postgres", "enqueue", "insert_one"), &binds[..5]).await,
                _ => ids::<Self>(conn, sql!("postgres", "enqueue", "insert_one_later"), &binds).await,
            };
        }
        if fitting(jobs, usize::MAX, CHUNK_BYTES) == jobs.len() {
            return insert_chunk(conn, jobs).await;
        }
        let mut together = Together::<Self>::begin(conn, whose).await?;
        let ids = insert_chunks(together.connection(), jobs).await;
        together.end(ids).await
    }
}

/// The next jobs of one lane. With kinds, only if no rows of these wait in another lane.
async fn claim_one(
    conn: &mut PgConnection,
    worker: WorkerId,
    ask: &Ask,
    kinds: Option<&[String]>,
) -> Result<Vec<Claimed>, Error> {
    let kinds = kinds.map(|kinds| serde_json::to_string(kinds).expect("text serializes"));
    let [kind, queue, priority] = lane_binds(ask);
    let binds = [
        worker.into(),
        kind,
        queue,
        priority,
        behind(ask).0.into(),
        behind(ask).1.into(),
        i64::from(ask.take).into(),
        ask.retries().into(),
        MOST_ARGS,
        kinds.as_deref().into(),
    ];
    read::<Postgres, _>(conn, sql!("postgres", "claims", "claim"), &binds, |row| noted(row, 10, ask.lane.clone())).await
}

async fn insert_chunks(conn: &mut PgConnection, jobs: &[NewJob]) -> Result<Vec<i64>, Error> {
    let mut all = Vec::with_capacity(jobs.len());
    for part in parts(jobs, usize::MAX, CHUNK_BYTES) {
        all.extend(insert_chunk(conn, part).await?);
    }
    Ok(all)
}

async fn insert_chunk(conn: &mut PgConnection, jobs: &[NewJob]) -> Result<Vec<i64>, Error> {
    let args: Vec<_> = jobs.iter().map(|job| job.args.as_str()).collect();
    if alike(jobs) {
        let common = &jobs[0];
        return sqlx::query_scalar(sql!("postgres", "enqueue", "insert_alike"))
            .bind(&*common.kind)
            .bind(&*common.queue)
            .bind(common.priority)
            .bind(common.max_retries)
            .bind(args)
            .fetch_all(conn)
            .await;
    }
    let has_meta = jobs.iter().any(|job| job.meta.is_some());
    let sql =
        if has_meta { sql!("postgres", "enqueue", "insert_with_meta") } else { sql!("postgres", "enqueue", "insert") };
    let query = sqlx::query_scalar(sql)
        .bind(jobs.iter().map(|job| &*job.kind).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| &*job.queue).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| job.priority).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| job.max_retries).collect::<Vec<_>>())
        .bind(args)
        .bind(jobs.iter().map(|job| job.delay_us).collect::<Vec<_>>())
        .bind(jobs.iter().map(|job| job.run_at_us).collect::<Vec<_>>());
    let metas = || jobs.iter().map(|job| job.meta.as_deref()).collect::<Vec<_>>();
    if has_meta { query.bind(metas()) } else { query }.fetch_all(conn).await
}

fn lost(why: &'static str) -> Error {
    Error::Io(std::io::Error::new(std::io::ErrorKind::ConnectionReset, why))
}

/// The statement is allowed only in a transaction, and there is none.
fn is_outside(error: &Error) -> bool {
    matches!(error, Error::Database(error) if error.code().as_deref() == Some("25P01"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::values::Hold;

    #[test]
    fn what_no_end_has_is_not_sent() {
        let end = |id, fence| End::completed(Hold { id, fence }, 9, None);
        let numbers = |ids: &[i64], fences: &[i64]| vec![ids.to_vec(), fences.to_vec(), vec![9; ids.len()]];
        let list = Postgres::finish_list(&[end(1, 1), end(2, 3)]);
        assert_eq!(list, List { numbers: numbers(&[1, 2], &[1, 3]), text: None });
        let with_result = End::completed(Hold { id: 2, fence: 3 }, 9, Some("[]".into()));
        let cancelled = End { outcome: AttemptOutcome::Cancelled, error: Some("why".into()), ..end(3, 1) };
        let list = Postgres::finish_list(&[end(1, 1), with_result.clone()]);
        assert_eq!(list.text.unwrap(), r#"{"result":[null,"[]"]}"#);
        let list = Postgres::finish_list(&[with_result, cancelled]);
        let all = r#"{"state":[null,"cancelled"],"result":["[]",null],"error":[null,"why"]}"#;
        assert_eq!(list.text.unwrap(), all);
    }

    #[test]
    fn a_job_is_in_a_list_once() {
        let end = |id, fence| End::completed(Hold { id, fence }, 9, None);
        let list = Postgres::finish_list(&[end(1, 1), end(1, 2), end(1, 3), end(2, 1)]);
        assert_eq!(list.numbers, [[1, 2], [3, 1], [9, 9]]);
    }
}
