//! MySQL and MariaDB.

use std::time::Instant;

use anyhow::Result;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, QueryBuilder, Row};
use tokio::sync::Mutex;

use super::{BATCH, body, worker};
use crate::far;
use crate::figures::{quantiles, rate};
use crate::{MANY, PAUSE, PICKUPS, SPELL};

const DDL: [&str; 4] = [
    "drop table if exists floor_jobs",
    "drop table if exists floor_done",
    "create table floor_jobs(id bigint not null auto_increment primary key, queue smallint not null default 0,
       state tinyint not null default 0, priority smallint not null default 0, attempts smallint not null default 0,
       run_at datetime(6) not null default now(6), locked_at datetime(6), finished_at datetime(6),
       kind varchar(64) not null default 'bench', payload longtext not null,
       key floor_ready (state, queue, priority, run_at, id)) engine=innodb",
    "create table floor_done(id bigint not null primary key, queue smallint, state tinyint, priority smallint,
       attempts smallint, run_at datetime(6), locked_at datetime(6), finished_at datetime(6), kind varchar(64),
       payload longtext) engine=innodb",
];
const INSERT: &str = "insert into floor_jobs(payload) values (?)";
const CLAIM: &str = "select id, kind, attempts, payload from floor_jobs where state = 0 and queue = 0
    and run_at <= now(6) order by priority, run_at, id limit ? for update skip locked";

async fn connect(url: &str) -> Result<MySqlConnection> {
    let mut connection = MySqlConnection::connect(url).await?;
    connection.execute("set session transaction isolation level read committed").await?;
    Ok(connection)
}

pub(super) async fn tables(url: &str) -> Result<()> {
    let mut connection = connect(url).await?;
    for statement in DDL {
        connection.execute(statement).await?;
    }
    Ok(())
}

/// Nothing where hand-written SQL has nothing to show.
pub(super) async fn run(url: &str, workload: &str) -> Result<Value> {
    tables(url).await?;
    let mut connection = connect(url).await?;
    match workload {
        "enqueue-1" => insert(url, 1).await,
        "enqueue-16" => insert(url, 16).await,
        "bulk" => {
            let start = Instant::now();
            fill(&mut connection).await?;
            Ok(rate(MANY, start))
        }
        "drain" => {
            fill(&mut connection).await?;
            drain(url).await
        }
        "pickup" => pickup(url).await.map(quantiles),
        "pickup-far" => far::compared(pickup).await,
        "paced-64" => worker::paced(Connections::open(url).await?, 64).await,
        "paced-256" => worker::paced(Connections::open(url).await?, 256).await,
        _ => Ok(Value::Null),
    }
}

async fn fill(connection: &mut MySqlConnection) -> Result<()> {
    let mut tx = connection.begin().await?;
    for chunk in (0..MANY).collect::<Vec<_>>().chunks(1000) {
        insert_many(&mut tx, chunk.iter().map(|n| body(*n))).await?;
    }
    Ok(tx.commit().await?)
}

async fn insert_many(connection: &mut MySqlConnection, bodies: impl Iterator<Item = String>) -> Result<()> {
    let mut insert = QueryBuilder::<sqlx::MySql>::new("insert into floor_jobs(payload) ");
    insert.push_values(bodies, |mut row, body| {
        row.push_bind(body);
    });
    insert.build().execute(connection).await?;
    Ok(())
}

async fn insert(url: &str, connections: usize) -> Result<Value> {
    let mut all = Vec::new();
    for _ in 0..connections {
        all.push(connect(url).await?);
    }
    let start = Instant::now();
    let tasks: Vec<_> = all
        .into_iter()
        .map(|mut connection| {
            tokio::spawn(async move {
                let mut n = 0;
                while start.elapsed() < SPELL {
                    sqlx::query(INSERT).bind(body(n)).execute(&mut connection).await?;
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

async fn drain(url: &str) -> Result<Value> {
    let connections = [connect(url).await?, connect(url).await?];
    let start = Instant::now();
    let tasks = connections.map(|mut connection| {
        tokio::spawn(async move {
            loop {
                let ids: Vec<i64> = claim(&mut connection, BATCH).await?.into_iter().map(|(id, _)| id).collect();
                if ids.is_empty() {
                    return anyhow::Ok(());
                }
                finish(&mut connection, &ids).await?;
            }
        })
    });
    for task in tasks {
        task.await??;
    }
    Ok(rate(MANY, start))
}

/// INSERT, and then, told within the process, another connection claims one row.
async fn pickup(url: &str) -> Result<Vec<f64>> {
    let (mut producer, mut worker) = (connect(url).await?, connect(url).await?);
    let mut ms = Vec::new();
    for n in 0..PICKUPS {
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        sqlx::query(INSERT).bind(body(n as i64)).execute(&mut producer).await?;
        let rows = claim(&mut worker, 1).await?;
        anyhow::ensure!(rows.len() == 1, "claimed {} rows", rows.len());
        ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(ms)
}

/// Ids, in order, and bodies.
async fn claim(connection: &mut MySqlConnection, limit: i64) -> Result<Vec<(i64, String)>> {
    raw(connection, "begin".into()).await?;
    let rows = sqlx::query(CLAIM).bind(limit).fetch_all(&mut *connection).await?;
    let mut jobs: Vec<(i64, String)> = rows.iter().map(|row| (row.get(0), row.get(3))).collect();
    jobs.sort_unstable();
    if jobs.is_empty() {
        raw(connection, "commit".into()).await?;
        return Ok(jobs);
    }
    let listed = list(jobs.iter().map(|(id, _)| id));
    raw(
        connection,
        format!(
            "update floor_jobs set state = 1, attempts = attempts + 1, locked_at = now(6) where id in ({listed}); \
             commit"
        ),
    )
    .await?;
    Ok(jobs)
}

async fn finish(connection: &mut MySqlConnection, ids: &[i64]) -> Result<()> {
    let ids = list(ids.iter());
    raw(
        connection,
        format!(
            "begin; \
             insert into floor_done select id, queue, 2, priority, attempts, run_at, locked_at, now(6), kind, payload \
             from floor_jobs where id in ({ids}) and state = 1; \
             delete from floor_jobs where id in ({ids}) and state = 1; commit"
        ),
    )
    .await
}

/// One for each errand.
struct Connections {
    insert: Mutex<MySqlConnection>,
    claim: Mutex<MySqlConnection>,
    finish: Mutex<MySqlConnection>,
}

impl Connections {
    async fn open(url: &str) -> Result<Connections> {
        let [insert, claim, finish] = [connect(url).await?, connect(url).await?, connect(url).await?].map(Mutex::new);
        Ok(Connections { insert, claim, finish })
    }
}

/// Nothing was done: the server has ended the transaction.
fn is_deadlock(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
    error.is_some_and(|error| error.code().as_deref() == Some("40001"))
}

impl worker::Queue for Connections {
    async fn insert(&self, bodies: Vec<String>) -> Result<()> {
        insert_many(&mut *self.insert.lock().await, bodies.into_iter()).await
    }

    async fn claim(&self, most: i64) -> Result<Vec<(i64, String)>> {
        loop {
            match claim(&mut *self.claim.lock().await, most).await {
                Err(error) if is_deadlock(&error) => {}
                result => return result,
            }
        }
    }

    async fn finish(&self, ids: Vec<i64>) -> Result<()> {
        loop {
            match finish(&mut *self.finish.lock().await, &ids).await {
                Err(error) if is_deadlock(&error) => {}
                result => return result,
            }
        }
    }
}

fn list<'a>(ids: impl Iterator<Item = &'a i64>) -> String {
    ids.map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Only numbers that the database gave us are put into the text.
async fn raw(connection: &mut MySqlConnection, sql: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await?;
    Ok(())
}
