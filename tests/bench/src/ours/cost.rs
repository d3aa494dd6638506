//! What a job costs: 50,000 enqueued together and drained.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::drain;
use crate::MANY;
use crate::database::{Db, Engine, each, url};
use crate::process::{own_cpu, server, server_cpu};

/// On SQLite the log is read afterwards, so nothing of it may be checkpointed in between.
pub(super) async fn connect() -> Result<Db> {
    Db::connect_with(&[("wal_autocheckpoint", "0")]).await
}

/// Counters of the server, from its start.
#[derive(Clone, Copy, Default)]
struct Reading {
    log_bytes: i64,
    binlog_bytes: Option<i64>,
    commits: i64,
    own_cpu: f64,
    server_cpu: Option<f64>,
}

impl Reading {
    async fn take(db: &Db, server: Option<u32>) -> Result<Reading> {
        let cpu = Reading { own_cpu: own_cpu(), server_cpu: server_cpu(server), ..Reading::default() };
        Ok(match db.engine() {
            Engine::Postgres => Reading {
                log_bytes: db.number("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").await?,
                commits: db
                    .number("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
                    .await?,
                ..cpu
            },
            Engine::MySql => Reading {
                log_bytes: db.status("Innodb_os_log_written").await?,
                // read-write ones; those that only read are free
                commits: db
                    .number(
                        "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics \
                         WHERE name = 'trx_rw_commits'",
                    )
                    .await?,
                binlog_bytes: binlog(db).await?,
                ..cpu
            },
            Engine::Sqlite => {
                let (log_bytes, commits) = read_log()?;
                Reading { log_bytes, commits, ..cpu }
            }
        })
    }
}

/// Bytes in the binary logs, where there are any.
async fn binlog(db: &Db) -> Result<Option<i64>> {
    let Db::MySql(pool) = db else { return Ok(None) };
    match sqlx::raw_sql("SHOW BINARY LOGS").fetch_all(pool).await {
        Ok(rows) => {
            let sizes = rows.iter().map(|row| sqlx::Row::try_get_unchecked::<u64, _>(row, 1));
            Ok(Some(sizes.sum::<Result<u64, _>>()? as i64))
        }
        Err(_) => Ok(None),
    }
}

/// Bytes and commits in SQLite's write-ahead log: a header, then frames with a header each, in which the size of the
/// database is named by the last frame of a commit.
fn read_log() -> Result<(i64, i64)> {
    let (_, url) = url()?;
    let log = fs::read(format!("{}-wal", url.trim_start_matches("sqlite://")))?;
    let number = |at: usize| log.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_be_bytes);
    let frame = number(8) as usize + 24;
    let mut commits = 0;
    for at in (32..log.len()).step_by(frame.max(25)) {
        commits += i64::from(number(at + 4) != 0);
    }
    Ok((log.len() as i64, commits))
}

pub(super) async fn run(db: Db) -> Result<Value> {
    let observer = connect().await?;
    let server = server(&url()?.1);
    match db.engine() {
        Engine::Postgres => observer.run("CHECKPOINT").await?,
        Engine::MySql => observer.run("SET GLOBAL innodb_monitor_enable = 'trx_rw_commits'").await?,
        Engine::Sqlite => {}
    }
    let before = Reading::take(&observer, server).await?;
    drain::fresh(&db).await?;
    let own_cpu = own_cpu();
    // a backend of PostgreSQL reports what it did at its end
    each!(&db, pool => pool.close().await);
    sleep(Duration::from_millis(500)).await;
    let after = Reading::take(&observer, server).await?;
    let kept = observer.size_of("queue_history").await? + observer.size_of("queue_attempts").await?;
    let per_job = |amount: f64| amount / MANY as f64;
    Ok(json!({
        "log_bytes": per_job((after.log_bytes - before.log_bytes) as f64),
        "binlog_bytes":
            after.binlog_bytes.zip(before.binlog_bytes).map(|(after, before)| per_job((after - before) as f64)),
        "commits": per_job((after.commits - before.commits) as f64) * 1000.0,
        "client_cpu": per_job(own_cpu - before.own_cpu) * 10_000.0,
        "server_cpu": after.server_cpu.zip(before.server_cpu).map(|(after, before)| per_job(after - before) * 10_000.0),
        "bytes_kept": per_job(kept as f64),
    }))
}

impl Db {
    /// Bytes of a table with its indexes.
    pub(super) async fn size_of(&self, table: &str) -> Result<i64> {
        if self.engine() == Engine::MySql {
            self.run(format!("ANALYZE TABLE {table}")).await?;
        }
        self.number(self.engine().pick(
            format!("SELECT pg_total_relation_size('{table}')"),
            format!(
                "SELECT CAST(data_length + index_length AS SIGNED) FROM information_schema.tables \
                 WHERE table_schema = DATABASE() AND table_name = '{table}'"
            ),
            format!(
                "SELECT sum(pgsize) FROM dbstat \
                 WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = '{table}')"
            ),
        ))
        .await
    }

    /// Bytes of all tables of the library.
    pub(super) async fn size(&self) -> Result<i64> {
        if self.engine() == Engine::Sqlite {
            let pages = self.number("PRAGMA page_count").await? - self.number("PRAGMA freelist_count").await?;
            return Ok(pages * self.number("PRAGMA page_size").await?);
        }
        let mut sum = 0;
        for table in [
            "queue_jobs",
            "queue_claims",
            "queue_history",
            "queue_attempts",
            "queue_dead",
            "queue_workers",
            "queue_heartbeats",
        ] {
            sum += self.size_of(table).await?;
        }
        Ok(sum)
    }
}
