//! SQLite.

use std::time::Instant;

use anyhow::Result;
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{AssertSqlSafe, Connection, Executor, Row, SqliteConnection};
use tokio::sync::{Mutex, mpsc, oneshot};

use super::{BATCH, body, worker};
use crate::figures::{quantiles, rate};
use crate::{MANY, PAUSE, PICKUPS, SPELL};

const DDL: &str = "drop table if exists floor_jobs; drop table if exists floor_done;
create table floor_jobs(id integer primary key, queue integer not null default 0, state integer not null default 0,
 priority integer not null default 0, attempts integer not null default 0, run_at integer not null default 0,
 locked_at integer, finished_at integer, kind text not null default 'bench', payload text not null);
create index floor_ready on floor_jobs(queue, priority, run_at, id) where state = 0;
create table floor_done(id integer primary key, queue integer, state integer, priority integer, attempts integer,
 run_at integer, locked_at integer, finished_at integer, kind text, payload text);";
const INSERT: &str = "insert into floor_jobs(payload) values (?)";
const CLAIM: &str =
    "update floor_jobs set state = 1, attempts = attempts + 1, locked_at = unixepoch() where id in (select id
    from floor_jobs where state = 0 and queue = 0 and run_at <= unixepoch() order by priority, run_at, id
    limit ?) returning id, kind, attempts, payload";
const BULK: &str = "insert into floor_jobs(payload) select value from json_each(?)";

async fn connect(url: &str) -> Result<SqliteConnection> {
    let options: SqliteConnectOptions = url.parse()?;
    // as on the library's side: WAL, SQLite's default `synchronous` (FULL), and all rows of a claim delivered at once
    let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal).row_buffer_size(2048);
    Ok(SqliteConnection::connect_with(&options).await?)
}

pub(super) async fn tables(url: &str) -> Result<()> {
    connect(url).await?.execute(DDL).await?;
    Ok(())
}

/// Nothing where hand-written SQL has nothing to show.
pub(super) async fn run(url: &str, workload: &str) -> Result<Value> {
    tables(url).await?;
    let mut connection = connect(url).await?;
    match workload {
        // in a task, as those of the other engines and as ours: one that is the program's first is woken in another way
        "enqueue-1" => tokio::spawn(one_by_one(connection)).await?,
        "enqueue-16" => group(connection).await,
        "bulk" => {
            let start = Instant::now();
            fill(&mut connection).await?;
            Ok(rate(MANY, start))
        }
        "drain" => {
            fill(&mut connection).await?;
            drain(connection).await
        }
        "paced-64" => worker::paced(ready(connection).await?, 64).await,
        "paced-256" => worker::paced(ready(connection).await?, 256).await,
        "pickup" => pickup(connection, connect(url).await?).await,
        _ => Ok(Value::Null),
    }
}

async fn one_by_one(mut connection: SqliteConnection) -> Result<Value> {
    let start = Instant::now();
    let mut n = 0;
    while start.elapsed() < SPELL {
        sqlx::query(INSERT).bind(body(n)).execute(&mut connection).await?;
        n += 1;
    }
    Ok(rate(n, start))
}

async fn fill(connection: &mut SqliteConnection) -> Result<()> {
    let mut tx = connection.begin().await?;
    for chunk in (0..MANY).collect::<Vec<_>>().chunks(5000) {
        let list = chunk.iter().map(|n| body(*n)).collect::<Vec<_>>().join(",");
        sqlx::query(BULK).bind(format!("[{list}]")).execute(&mut *tx).await?;
    }
    Ok(tx.commit().await?)
}

/// 16 tasks hand their rows to one writer, which commits what waits together.
async fn group(mut connection: SqliteConnection) -> Result<Value> {
    let (rows, mut waiting) = mpsc::unbounded_channel::<(String, oneshot::Sender<()>)>();
    tokio::spawn(async move {
        let mut batch = Vec::new();
        while waiting.recv_many(&mut batch, 1000).await > 0 {
            let list = batch.iter().map(|(row, _)| row.as_str()).collect::<Vec<_>>().join(",");
            sqlx::query(BULK).bind(format!("[{list}]")).execute(&mut connection).await?;
            for (_, written) in batch.drain(..) {
                let _ = written.send(());
            }
        }
        anyhow::Ok(())
    });
    let start = Instant::now();
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let rows = rows.clone();
            tokio::spawn(async move {
                let mut n = 0;
                while start.elapsed() < SPELL {
                    let (sender, written) = oneshot::channel();
                    rows.send((body(n), sender))?;
                    written.await?;
                    n += 1;
                }
                anyhow::Ok(n)
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    Ok(rate(total, start))
}

async fn drain(mut connection: SqliteConnection) -> Result<Value> {
    let start = Instant::now();
    loop {
        let rows = sqlx::query(CLAIM).bind(BATCH).fetch_all(&mut connection).await?;
        if rows.is_empty() {
            return Ok(rate(MANY, start));
        }
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        finish(&mut connection, &ids).await?;
    }
}

/// INSERT, and then, told within the process, another connection claims one row without forcing the claim to the disk.
async fn pickup(mut producer: SqliteConnection, mut worker: SqliteConnection) -> Result<Value> {
    worker.execute("pragma synchronous = normal").await?;
    let mut ms = Vec::new();
    for n in 0..PICKUPS {
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        sqlx::query(INSERT).bind(body(n as i64)).execute(&mut producer).await?;
        let rows = sqlx::query(CLAIM).bind(1).fetch_all(&mut worker).await?;
        anyhow::ensure!(rows.len() == 1, "claimed {} rows", rows.len());
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(quantiles(ms))
}

async fn finish(connection: &mut SqliteConnection, ids: &[i64]) -> Result<()> {
    let ids = serde_json::to_string(ids)?;
    let mut tx = connection.begin_with("begin immediate").await?;
    sqlx::query(
        "insert into floor_done \
         select id, queue, 2, priority, attempts, run_at, locked_at, unixepoch(), kind, payload from floor_jobs \
         where id in (select value from json_each(?)) and state = 1",
    )
    .bind(&ids)
    .execute(&mut *tx)
    .await?;
    sqlx::query("delete from floor_jobs where id in (select value from json_each(?)) and state = 1")
        .bind(&ids)
        .execute(&mut *tx)
        .await?;
    Ok(tx.commit().await?)
}

/// With ids that are never used again: those of an emptied table begin anew, and the history has them already.
async fn ready(mut connection: SqliteConnection) -> Result<Mutex<SqliteConnection>> {
    let ddl = DDL.replacen("integer primary key", "integer primary key autoincrement", 1);
    connection.execute(AssertSqlSafe(ddl)).await?;
    Ok(Mutex::new(connection))
}

/// One connection, which does one thing at a time: SQLite has one writer.
impl worker::Queue for Mutex<SqliteConnection> {
    async fn insert(&self, bodies: Vec<String>) -> Result<()> {
        let list = format!("[{}]", bodies.join(","));
        sqlx::query(BULK).bind(list).execute(&mut *self.lock().await).await?;
        Ok(())
    }

    async fn claim(&self, most: i64) -> Result<Vec<(i64, String)>> {
        let rows = sqlx::query(CLAIM).bind(most).fetch_all(&mut *self.lock().await).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(3))).collect())
    }

    async fn finish(&self, ids: Vec<i64>) -> Result<()> {
        finish(&mut *self.lock().await, &ids).await
    }
}
