//! Hand-written SQL: what the server can do on this machine without a framework. Same payload, same durability; rows of
//! the plainest table that a queue needs, finished ones moved to a history table.

use std::time::Instant;

use anyhow::Result;
use serde_json::Value;

use crate::database::{Db, Engine, each, url};
use crate::figures::rate;
use crate::{S32, SPELL};

mod mysql;
mod postgres;
mod sqlite;
mod worker;

/// Jobs claimed and finished together.
const BATCH: i64 = 500;

fn body(n: i64) -> String {
    format!("{{\"n\":{n},\"s\":\"{S32}\"}}")
}

pub(crate) async fn run(workload: &str) -> Result<Value> {
    let (engine, url) = url()?;
    if workload == "enqueue-tx" {
        return in_transactions(engine, &url).await;
    }
    match engine {
        Engine::Postgres => postgres::run(&url, workload).await,
        Engine::MySql => mysql::run(&url, workload).await,
        Engine::Sqlite => sqlite::run(&url, workload).await,
    }
}

/// The caller's transaction is what it is, so both sides begin and commit it in the same way: through a pool of sqlx.
async fn in_transactions(engine: Engine, url: &str) -> Result<Value> {
    match engine {
        Engine::Postgres => postgres::tables(url).await?,
        Engine::MySql => mysql::tables(url).await?,
        Engine::Sqlite => sqlite::tables(url).await?,
    }
    let db = Db::connect().await?;
    let insert = engine.pick(
        "insert into floor_jobs(payload) values ($1::text::jsonb)",
        "insert into floor_jobs(payload) values (?)",
        "insert into floor_jobs(payload) values (?)",
    );
    let start = Instant::now();
    let mut n = 0;
    while start.elapsed() < SPELL {
        each!(&db, pool => {
            let mut tx = pool.begin().await?;
            sqlx::query(insert).bind(body(n)).execute(&mut *tx).await?;
            tx.commit().await?;
        });
        n += 1;
    }
    Ok(rate(n, start))
}
