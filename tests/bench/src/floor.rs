//! Hand-written SQL: what the server can do on this machine without a framework. Same payload, same durability; rows of
//! the plainest table that a queue needs, finished ones moved to a history table.

use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Connection, Executor, Row};

use crate::{Engine, MANY, PAUSE, PICKUPS, S32, SPELL, quantiles, rate, url};

/// Jobs claimed and finished together.
const BATCH: i64 = 500;

fn body(n: i64) -> String {
    format!("{{\"n\":{n},\"s\":\"{S32}\"}}")
}

pub(crate) async fn run(workload: &str) -> Result<Value> {
    let (engine, url) = url()?;
    match engine {
        Engine::Postgres => postgres::run(&url, workload).await,
        Engine::MySql => mysql::run(&url, workload).await,
        Engine::Sqlite => sqlite::run(&url, workload).await,
    }
}

mod postgres {
    use std::sync::Arc;

    use futures_util::StreamExt;
    use tokio::sync::mpsc;
    use tokio_postgres::{AsyncMessage, Client, NoTls};

    use super::*;

    const DDL: &str = "
drop table if exists floor_jobs; drop table if exists floor_done;
create table floor_jobs(id bigint generated always as identity primary key, queue smallint not null default 0,
  state smallint not null default 0, priority smallint not null default 0, attempts smallint not null default 0,
  run_at timestamptz not null default now(), locked_at timestamptz, finished_at timestamptz,
  kind text not null default 'bench', payload jsonb not null);
create index floor_ready on floor_jobs(queue, priority, run_at, id) where state = 0;
create table floor_done(id bigint, queue smallint, state smallint, priority smallint, attempts smallint,
  run_at timestamptz, locked_at timestamptz, finished_at timestamptz, kind text, payload jsonb);";
    const INSERT: &str = "insert into floor_jobs(payload) values ($1::text::jsonb)";
    const UNNEST: &str = "insert into floor_jobs(payload) select x::jsonb from unnest($1::text[]) x";
    const CLAIM: &str = "with c as (select id from floor_jobs where state = 0 and queue = 0 and run_at <= now()
        order by priority, run_at, id limit $1 for update skip locked)
      update floor_jobs set state = 1, attempts = floor_jobs.attempts + 1, locked_at = now() from c
      where floor_jobs.id = c.id returning floor_jobs.id, floor_jobs.kind, floor_jobs.attempts, floor_jobs.payload::text";
    const FINISH: &str = "with d as (delete from floor_jobs where id = any($1) and state = 1 returning *)
      insert into floor_done(id, queue, state, priority, attempts, run_at, locked_at, finished_at, kind, payload)
      select id, queue, 2, priority, attempts, run_at, locked_at, now(), kind, payload from d";

    async fn connect(url: &str) -> Result<Client> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    pub(super) async fn run(url: &str, workload: &str) -> Result<Value> {
        let client = connect(url).await?;
        client.batch_execute(DDL).await?;
        match workload {
            "enqueue-1" => insert(url, 1).await,
            "enqueue-16" => insert(url, 16).await,
            "bulk" => {
                let rows: Vec<String> = (0..MANY).map(body).collect();
                let start = Instant::now();
                client.execute(UNNEST, &[&rows]).await?;
                Ok(rate(MANY, start))
            }
            "drain" => {
                let rows: Vec<String> = (0..MANY).map(body).collect();
                client.execute(UNNEST, &[&rows]).await?;
                client.batch_execute("analyze floor_jobs").await?;
                drain(url).await
            }
            "pickup" | "pickup-other" => pickup(url).await,
            other => bail!("unknown workload `{other}`"),
        }
    }

    async fn insert(url: &str, connections: usize) -> Result<Value> {
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(connect(url).await?);
        }
        let start = Instant::now();
        let tasks: Vec<_> = clients
            .into_iter()
            .map(|client| {
                tokio::spawn(async move {
                    let statement = client.prepare(INSERT).await?;
                    let mut n = 0;
                    while start.elapsed() < SPELL {
                        client.execute(&statement, &[&body(n)]).await?;
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
        let clients = [connect(url).await?, connect(url).await?];
        let start = Instant::now();
        let tasks = clients.map(|client| {
            tokio::spawn(async move {
                let (claim, finish) = (client.prepare(CLAIM).await?, client.prepare(FINISH).await?);
                loop {
                    let rows = client.query(&claim, &[&BATCH]).await?;
                    if rows.is_empty() {
                        return anyhow::Ok(());
                    }
                    let mut ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                    ids.sort_unstable();
                    client.execute(&finish, &[&ids]).await?;
                }
            })
        });
        for task in tasks {
            task.await??;
        }
        Ok(rate(MANY, start))
    }

    /// Insert and NOTIFY in one statement, the listener claims one row.
    async fn pickup(url: &str) -> Result<Value> {
        let (listener, mut connection) = tokio_postgres::connect(url, NoTls).await?;
        let (heard, mut hear) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notification(_) = message {
                    let _ = heard.send(());
                }
            }
        });
        listener.batch_execute("listen floor").await?;
        let (producer, worker) = (connect(url).await?, connect(url).await?);
        let insert = producer
            .prepare("with i as (insert into floor_jobs(payload) values ($1::text::jsonb) returning id) select pg_notify('floor', '') from i")
            .await?;
        let claim = Arc::new(worker.prepare(CLAIM).await?);
        let mut ms = Vec::new();
        for n in 0..PICKUPS {
            tokio::time::sleep(PAUSE).await;
            let start = Instant::now();
            let row = body(n as i64);
            let written = async { producer.query(&insert, &[&row]).await };
            let claimed = async {
                hear.recv().await;
                let rows = worker.query(&*claim, &[&32i64]).await?;
                anyhow::ensure!(rows.len() == 1, "claimed {} rows", rows.len());
                Ok(start.elapsed().as_secs_f64() * 1e3)
            };
            let (written, claimed) = tokio::join!(written, claimed);
            written?;
            ms.push(claimed?);
        }
        Ok(quantiles(ms))
    }
}

mod mysql {
    use sqlx::{AssertSqlSafe, MySqlConnection, QueryBuilder};

    use super::*;

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

    pub(super) async fn run(url: &str, workload: &str) -> Result<Value> {
        let mut connection = connect(url).await?;
        for statement in DDL {
            connection.execute(statement).await?;
        }
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
            // nothing tells a MySQL client of a new row: there is no floor but polling
            "pickup" | "pickup-other" => Ok(Value::Null),
            other => bail!("unknown workload `{other}`"),
        }
    }

    async fn fill(connection: &mut MySqlConnection) -> Result<()> {
        let mut tx = connection.begin().await?;
        for chunk in (0..MANY).collect::<Vec<_>>().chunks(1000) {
            let mut insert = QueryBuilder::<sqlx::MySql>::new("insert into floor_jobs(payload) ");
            insert.push_values(chunk, |mut row, n| {
                row.push_bind(body(*n));
            });
            insert.build().execute(&mut *tx).await?;
        }
        Ok(tx.commit().await?)
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
                let raw = async |connection: &mut MySqlConnection, sql: String| {
                    // only numbers that the database gave us are put into the text
                    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
                };
                loop {
                    raw(&mut connection, "begin".into()).await?;
                    let rows = sqlx::query(CLAIM).bind(BATCH).fetch_all(&mut connection).await?;
                    if rows.is_empty() {
                        raw(&mut connection, "commit".into()).await?;
                        return anyhow::Ok(());
                    }
                    let mut ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                    ids.sort_unstable();
                    let ids = ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                    raw(&mut connection, format!("update floor_jobs set state = 1, attempts = attempts + 1, locked_at = now(6) where id in ({ids}); commit")).await?;
                    raw(&mut connection, format!("begin; insert into floor_done select id, queue, 2, priority, attempts, run_at, locked_at, now(6), kind, payload from floor_jobs where id in ({ids}) and state = 1; delete from floor_jobs where id in ({ids}) and state = 1; commit")).await?;
                }
            })
        });
        for task in tasks {
            task.await??;
        }
        Ok(rate(MANY, start))
    }
}

mod sqlite {
    use sqlx::SqliteConnection;
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    const DDL: &str = "drop table if exists floor_jobs; drop table if exists floor_done;
create table floor_jobs(id integer primary key, queue integer not null default 0, state integer not null default 0,
 priority integer not null default 0, attempts integer not null default 0, run_at integer not null default 0,
 locked_at integer, finished_at integer, kind text not null default 'bench', payload text not null);
create index floor_ready on floor_jobs(queue, priority, run_at, id) where state = 0;
create table floor_done(id integer primary key, queue integer, state integer, priority integer, attempts integer,
 run_at integer, locked_at integer, finished_at integer, kind text, payload text);";
    const BULK: &str = "insert into floor_jobs(payload) select value from json_each(?)";

    async fn connect(url: &str) -> Result<SqliteConnection> {
        let options: SqliteConnectOptions = url.parse()?;
        // the same as the library's side: WAL, and SQLite's default `synchronous` (FULL)
        let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
        Ok(SqliteConnection::connect_with(&options).await?)
    }

    pub(super) async fn run(url: &str, workload: &str) -> Result<Value> {
        let mut connection = connect(url).await?;
        connection.execute(DDL).await?;
        match workload {
            "enqueue-1" => {
                let start = Instant::now();
                let mut n = 0;
                while start.elapsed() < SPELL {
                    sqlx::query("insert into floor_jobs(payload) values (?)")
                        .bind(body(n))
                        .execute(&mut connection)
                        .await?;
                    n += 1;
                }
                Ok(rate(n, start))
            }
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
            // nothing tells another SQLite client of a new row
            "pickup" | "pickup-other" => Ok(Value::Null),
            other => bail!("unknown workload `{other}`"),
        }
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
            let rows = sqlx::query(
                "update floor_jobs set state = 1, attempts = attempts + 1, locked_at = unixepoch() where id in (select id
                 from floor_jobs where state = 0 and queue = 0 and run_at <= unixepoch() order by priority, run_at, id
                 limit ?) returning id, kind, attempts, payload",
            )
            .bind(BATCH)
            .fetch_all(&mut connection)
            .await?;
            if rows.is_empty() {
                return Ok(rate(MANY, start));
            }
            let ids: Vec<String> = rows.iter().map(|row| row.get::<i64, _>(0).to_string()).collect();
            let ids = format!("[{}]", ids.join(","));
            let mut tx = connection.begin_with("begin immediate").await?;
            sqlx::query("insert into floor_done select id, queue, 2, priority, attempts, run_at, locked_at, unixepoch(), kind, payload from floor_jobs where id in (select value from json_each(?)) and state = 1")
                .bind(&ids)
                .execute(&mut *tx)
                .await?;
            sqlx::query("delete from floor_jobs where id in (select value from json_each(?)) and state = 1")
                .bind(&ids)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
        }
    }
}
