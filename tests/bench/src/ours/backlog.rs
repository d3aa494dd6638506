//! The drain beside what a database has gathered, one thing at a time.
//!
//! What is there is left there, so that the next round finds it.

use anyhow::{Result, bail};
use serde_json::Value;

use super::{drain, fill};
use crate::database::{Db, Engine};

pub(super) async fn run(db: &Db, workload: &str) -> Result<Value> {
    // what an earlier round completed; the numbers of what was filled in are below zero
    let earlier = db.number("SELECT count(*) FROM queue_history WHERE id > 0").await?;
    if earlier > 0 {
        db.run("DELETE FROM queue_history WHERE id > 0").await?;
    }
    let mut missing = 0;
    let mut lacks = async |sql: &str, wanted: i64| {
        let lacks = wanted - db.number(sql).await?;
        missing += lacks.max(0);
        anyhow::Ok(lacks)
    };
    match workload {
        "drain-ready" => {
            let lacks = lacks("SELECT count(*) FROM queue_jobs WHERE kind = 'noop'", fill::backlog()).await?;
            fill::jobs(db, "noop", lacks, false).await?;
        }
        "drain-future" => {
            let lacks = lacks("SELECT count(*) FROM queue_jobs WHERE kind = 'noop'", fill::backlog()).await?;
            fill::jobs(db, "noop", lacks, true).await?;
        }
        "drain-foreign" => {
            let lacks = lacks("SELECT count(*) FROM queue_jobs WHERE kind = 'foreign'", fill::backlog()).await?;
            fill::jobs(db, "foreign", lacks, false).await?;
        }
        "drain-history" => {
            let lacks = lacks("SELECT count(*) FROM queue_history WHERE id < 0", fill::history()).await?;
            fill::finished(db, lacks).await?;
        }
        "drain-dead" => {
            let lacks = lacks("SELECT count(*) FROM queue_dead", fill::dead()).await?;
            fill::dead_letters(db, "noop", lacks).await?;
        }
        other => bail!("unknown workload `{other}`"),
    }
    if missing + earlier > 0 {
        fill::settle(db).await?;
    }
    if workload == "drain-ready" { drain::ahead(db).await } else { drain::fresh(db).await }
}

/// A transaction that has written something and then does nothing.
pub(super) async fn beside_writer(db: &Db) -> Result<Value> {
    if db.engine() == Engine::Sqlite {
        return Ok(Value::Null); // there it locks everybody out, by design
    }
    db.run("CREATE TABLE bench_other (n int)").await?;
    let other = Db::connect().await?;
    let mut session = other.session().await?;
    session.run("BEGIN").await?;
    session.run("INSERT INTO bench_other VALUES (1)").await?;
    let figures = drain::fresh(db).await?;
    session.run("ROLLBACK").await?;
    Ok(figures)
}

/// A transaction that goes on reading the database as it was before the jobs.
pub(super) async fn beside_reader(db: &Db) -> Result<Value> {
    let other = Db::connect().await?;
    let mut session = other.session().await?;
    session.pin().await?;
    let figures = drain::fresh(db).await?;
    session.run("ROLLBACK").await?;
    Ok(figures)
}
