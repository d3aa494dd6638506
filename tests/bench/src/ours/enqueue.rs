//! Writing jobs.

use std::time::Instant;

use anyhow::Result;
use queue::Job;
use serde_json::Value;

use super::jobs::Noop;
use crate::database::{Db, each};
use crate::figures::rate;
use crate::{MANY, S32, SPELL};

fn payload(n: i64) -> Noop {
    Noop { n, s: S32.to_owned() }
}

/// One job per call, from several tasks; a single one is the program's main task, as that of the hand-written statements.
pub(super) async fn single(db: &Db, tasks: usize) -> Result<Value> {
    let start = Instant::now();
    if tasks == 1 {
        return Ok(rate(one_by_one(db.clone(), start).await?, start));
    }
    let tasks: Vec<_> = (0..tasks).map(|_| tokio::spawn(one_by_one(db.clone(), start))).collect();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    Ok(rate(total, start))
}

/// How many jobs one task enqueues.
async fn one_by_one(db: Db, start: Instant) -> Result<i64> {
    let mut n = 0;
    while start.elapsed() < SPELL {
        each!(&db, pool => payload(n).enqueue(pool).await)?;
        n += 1;
    }
    Ok(n)
}

/// Begin, one job, commit.
pub(super) async fn in_transactions(db: &Db) -> Result<Value> {
    let start = Instant::now();
    let mut n = 0;
    while start.elapsed() < SPELL {
        each!(db, pool => {
            let mut tx = pool.begin().await?;
            payload(n).enqueue(&mut tx).await?;
            tx.commit().await?;
        });
        n += 1;
    }
    Ok(rate(n, start))
}

pub(super) async fn bulk(db: &Db) -> Result<Value> {
    let jobs: Vec<_> = Noop::many(MANY).collect();
    let start = Instant::now();
    each!(db, pool => queue::enqueue_all(pool, jobs).await)?;
    Ok(rate(MANY, start))
}
