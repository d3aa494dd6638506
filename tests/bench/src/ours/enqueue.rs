//! Writing jobs.

use std::time::Instant;

use anyhow::Result;
use queue::Job;
use queue::unique::OnConflict;
use serde_json::Value;

use super::jobs::Noop;
use crate::database::{Db, each};
use crate::figures::rate;
use crate::{MANY, S32, SPELL};

fn payload(n: i64) -> Noop {
    Noop { n, s: S32.to_owned() }
}

/// One job per call, from several tasks.
pub(super) async fn single(db: &Db, tasks: usize) -> Result<Value> {
    let start = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let db = db.clone();
            tokio::spawn(async move {
                let mut n = 0;
                while start.elapsed() < SPELL {
                    each!(&db, pool => payload(n).enqueue(pool).await)?;
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

/// One unique job per call, from one task.
pub(super) async fn unique(db: &Db, key: fn(i64) -> String) -> Result<Value> {
    let start = Instant::now();
    let mut n = 0;
    while start.elapsed() < SPELL {
        each!(db, pool => payload(n).unique_key(key(n)).enqueue(pool).await)?;
        n += 1;
    }
    Ok(rate(n, start))
}

/// Many unique jobs, each with a key of its own.
pub(super) async fn unique_bulk(db: &Db) -> Result<Value> {
    let jobs: Vec<_> = Noop::many(MANY).map(|job| job.on_conflict(OnConflict::Keep)).collect();
    let start = Instant::now();
    each!(db, pool => queue::enqueue_all(pool, jobs).await)?;
    Ok(rate(MANY, start))
}
