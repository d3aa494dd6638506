//! PostgreSQL, through its fastest client.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

use super::{BATCH, body, worker};
use crate::far;
use crate::figures::{quantiles, rate};
use crate::{MANY, PAUSE, PICKUPS, SPELL};

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

pub(super) async fn tables(url: &str) -> Result<()> {
    Ok(connect(url).await?.batch_execute(DDL).await?)
}

/// Nothing where hand-written SQL has nothing to show.
pub(super) async fn run(url: &str, workload: &str) -> Result<Value> {
    tables(url).await?;
    let client = connect(url).await?;
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
        "pickup" | "pickup-other" => pickup(url).await.map(quantiles),
        "pickup-far" => far::compared(pickup).await,
        "paced-64" => worker::paced(Connections::open(url).await?, 64).await,
        "paced-256" => worker::paced(Connections::open(url).await?, 256).await,
        _ => Ok(Value::Null),
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
async fn pickup(url: &str) -> Result<Vec<f64>> {
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
        .prepare(
            "with i as (insert into floor_jobs(payload) values ($1::text::jsonb) returning id) \
             select pg_notify('floor', '') from i",
        )
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
    Ok(ms)
}

/// One for each statement.
struct Connections {
    insert: (Client, Statement),
    claim: (Client, Statement),
    finish: (Client, Statement),
}

impl Connections {
    async fn open(url: &str) -> Result<Connections> {
        let [insert, claim, finish] = [connect(url).await?, connect(url).await?, connect(url).await?];
        let statements = (insert.prepare(UNNEST).await?, claim.prepare(CLAIM).await?, finish.prepare(FINISH).await?);
        Ok(Connections { insert: (insert, statements.0), claim: (claim, statements.1), finish: (finish, statements.2) })
    }
}

impl worker::Queue for Connections {
    async fn insert(&self, bodies: Vec<String>) -> Result<()> {
        let (client, statement) = &self.insert;
        client.execute(statement, &[&bodies]).await?;
        Ok(())
    }

    async fn claim(&self, most: i64) -> Result<Vec<(i64, String)>> {
        let (client, statement) = &self.claim;
        let rows = client.query(statement, &[&most]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(3))).collect())
    }

    async fn finish(&self, ids: Vec<i64>) -> Result<()> {
        let (client, statement) = &self.finish;
        client.execute(statement, &[&ids]).await?;
        Ok(())
    }
}
