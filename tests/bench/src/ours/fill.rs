//! Many rows at once, written by the server itself.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use crate::database::{Db, Engine};
use crate::{S32, setting};

/// Rows written in one statement.
const CHUNK: i64 = 1_000_000;

/// Waiting rows, where a workload has many.
pub(super) fn backlog() -> i64 {
    setting("BENCH_BACKLOG", 1_000_000)
}

/// Finished jobs, where a workload has many.
pub(super) fn history() -> i64 {
    setting("BENCH_HISTORY", 10_000_000)
}

/// Dead letters, where a workload has many.
pub(super) fn dead() -> i64 {
    setting("BENCH_DEAD", 100_000)
}

/// The payload of row `n`, in SQL.
fn args(engine: Engine) -> String {
    engine.pick(
        format!("('{{\"n\":' || n || ',\"s\":\"{S32}\"}}')::json"),
        format!("CONCAT('{{\"n\":', n, ',\"s\":\"{S32}\"}}')"),
        format!("'{{\"n\":' || n || ',\"s\":\"{S32}\"}}'"),
    )
}

/// A time so many seconds (an expression) from now, in SQL.
fn time(engine: Engine, seconds: &str) -> String {
    engine.pick(
        format!("now() + ({seconds}) * interval '1 second'"),
        format!("UTC_TIMESTAMP(6) + INTERVAL ({seconds}) SECOND"),
        format!("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + ({seconds}) * 1000"),
    )
}

/// Writes rows for `n` from 1 to `rows`.
async fn rows(db: &Db, table: &str, columns: &[(&str, String)], rows: i64) -> Result<()> {
    let names = columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let values = columns.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ");
    let mut from = 0;
    while from < rows {
        let to = rows.min(from + CHUNK);
        let insert = format!("INSERT INTO {table} ({names})");
        let sql = match db.engine() {
            Engine::Postgres => format!("{insert} SELECT {values} FROM generate_series({from} + 1, {to}) n"),
            Engine::MySql => {
                let digit = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 \
                             UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 \
                             UNION ALL SELECT 9)";
                let count = to - from;
                format!(
                    "{insert} SELECT {values} FROM (SELECT {from} + 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d \
                     + 10000 * f.d + 100000 * g.d AS n \
                     FROM {digit} g, {digit} f, {digit} e, {digit} c, {digit} b, {digit} a) numbers \
                     WHERE n <= {from} + {count} ORDER BY n"
                )
            }
            Engine::Sqlite => format!(
                "WITH RECURSIVE numbers(n) AS (SELECT {from} + 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {to}) \
                 {insert} SELECT {values} FROM numbers; PRAGMA wal_checkpoint(TRUNCATE)"
            ),
        };
        db.run(sql).await?;
        from = to;
    }
    Ok(())
}

/// Waiting jobs.
pub(super) async fn jobs(db: &Db, kind: &str, count: i64, tomorrow: bool) -> Result<()> {
    let engine = db.engine();
    let due = time(engine, if tomorrow { "86400" } else { "0" });
    rows(db, "queue_jobs", &[("kind", format!("'{kind}'")), ("args", args(engine)), ("run_at", due)], count).await
}

/// Waiting jobs, each in a queue of its own.
pub(super) async fn jobs_of_many_queues(db: &Db, kind: &str, count: i64) -> Result<()> {
    let engine = db.engine();
    let queue = engine.pick("'customer ' || n", "CONCAT('customer ', n)", "'customer ' || n");
    rows(db, "queue_jobs", &[("kind", format!("'{kind}'")), ("queue", queue.into()), ("args", args(engine))], count)
        .await
}

/// Jobs that completed in the last days, under numbers below zero.
pub(super) async fn finished(db: &Db, count: i64) -> Result<()> {
    let engine = db.engine();
    // five days, a day ago at the latest
    let when = time(engine, &format!("-86400 - (n * 432000.0 / {count})"));
    let when = if engine == Engine::Sqlite { format!("CAST({when} AS INTEGER)") } else { when };
    let columns = [
        ("id", format!("n - {count} - 1")),
        ("kind", "'noop'".into()),
        ("queue", "'default'".into()),
        ("state", "'completed'".into()),
        ("args", args(engine)),
        ("priority", "0".into()),
        ("max_retries", "20".into()),
        ("attempt", "1".into()),
        ("fence", "1".into()),
        ("worker_id", "1".into()),
        ("enqueued_at", when.clone()),
        ("run_at", when.clone()),
        ("started_at", when.clone()),
        ("finished_at", when),
    ];
    rows(db, "queue_history", &columns, count).await
}

/// Dead letters, under numbers below zero.
pub(super) async fn dead_letters(db: &Db, kind: &str, count: i64) -> Result<()> {
    let engine = db.engine();
    let when = time(engine, "-86400");
    let columns = [
        ("id", format!("n - {count} - 1")),
        ("kind", format!("'{kind}'")),
        ("queue", "'default'".into()),
        ("args", args(engine)),
        ("priority", "0".into()),
        ("attempt", "21".into()),
        ("fence", "21".into()),
        ("worker_id", "1".into()),
        ("enqueued_at", when.clone()),
        ("run_at", when.clone()),
        ("started_at", when.clone()),
        ("finished_at", when),
        ("error", "'no more'".into()),
    ];
    rows(db, "queue_dead", &columns, count).await
}

/// As many finished and waiting jobs as [`history`] says, and a tenth as many dead letters with an attempt each: of 20
/// kinds in 1,000 queues.
pub(super) async fn world(db: &Db) -> Result<()> {
    let (engine, many) = (db.engine(), history());
    let mixed = |postgres: &str, mysql: &str| engine.pick(postgres, mysql, postgres).to_owned();
    let kind = || ("kind", mixed("'kind' || n % 20", "CONCAT('kind', n % 20)"));
    let queue = || ("queue", mixed("'q' || n % 1000", "CONCAT('q', n % 1000)"));
    let error = || {
        (
            "error",
            mixed(
                "'connection ' || n || ' refused by host' || n % 7",
                "CONCAT('connection ', n, ' refused by host', n % 7)",
            ),
        )
    };
    let lacks =
        async |table: &str, wanted: i64| anyhow::Ok(db.number(format!("SELECT count(*) FROM {table}")).await? < wanted);
    let ended = time(engine, &format!("-(n * 86400.0 / {many})"));
    let ended = if engine == Engine::Sqlite { format!("CAST({ended} AS INTEGER)") } else { ended };
    let of = |id: String| {
        let columns = [("id", id), kind(), queue(), ("args", args(engine)), ("priority", "0".into())];
        let times = ["enqueued_at", "run_at", "started_at", "finished_at"].map(|name| (name, ended.clone()));
        let numbers = ["attempt", "fence", "worker_id"].map(|name| (name, "1".to_owned()));
        columns.into_iter().chain(times).chain(numbers).collect::<Vec<_>>()
    };
    if lacks("queue_jobs", many).await? {
        let columns = [kind(), queue(), ("args", args(engine)), ("run_at", time(engine, "0"))];
        rows(db, "queue_jobs", &columns, many).await?;
        settle(db).await?;
    }
    if lacks("queue_history", many).await? {
        let columns = [of(format!("n - {many} - 1")), vec![("state", "'completed'".into())]].concat();
        rows(db, "queue_history", &columns, many).await?;
        settle(db).await?;
    }
    if lacks("queue_dead", many / 10).await? {
        let id = format!("n - {many} - {} - 2", many / 10);
        rows(db, "queue_dead", &[of(id.clone()), vec![error()]].concat(), many / 10).await?;
        let numbers = ["fence", "attempt", "worker_id"].map(|name| (name, "1".to_owned()));
        let times = ["started_at", "ended_at"].map(|name| (name, ended.clone()));
        let columns = [vec![("job_id", id), ("outcome", "'failed'".into()), error()], numbers.into(), times.into()];
        rows(db, "queue_attempts", &columns.concat(), many / 10).await?;
        settle(db).await?;
    }
    Ok(())
}

/// Waits until the server has done what the rows have left it to do, as it would have in the course of days.
pub(super) async fn settle(db: &Db) -> Result<()> {
    match db.engine() {
        Engine::Postgres => {
            db.run("VACUUM ANALYZE").await?;
            db.run("CHECKPOINT").await
        }
        Engine::MySql => {
            db.run("ANALYZE TABLE queue_jobs, queue_history, queue_dead").await?;
            // with its own settings, MariaDB keeps changed pages in memory for as long as there is room
            db.run("SET GLOBAL innodb_max_dirty_pages_pct = 0").await?;
            let patience = Instant::now() + Duration::from_secs(60);
            while Instant::now() < patience && db.status("Innodb_buffer_pool_pages_dirty").await? > 500 {
                sleep(Duration::from_millis(200)).await;
            }
            db.run("SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT").await
        }
        Engine::Sqlite => db.run("PRAGMA wal_checkpoint(TRUNCATE)").await,
    }
}
