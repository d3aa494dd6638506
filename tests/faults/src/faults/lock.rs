//! Foreign sessions on our tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use queue_test_support::{Engine, each};
use sqlx::AssertSqlSafe;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Ground;
use crate::load::Mix;
use crate::scene::Scene;
use crate::worker;

/// Runs statements on one connection, some time apart. An error ends the transaction: the other side won.
pub(super) async fn session(scene: &Scene, statements: &[(&str, Duration)]) -> Result<bool> {
    let db = worker::pool(scene.url(), 1, Duration::from_secs(5))?;
    each!(&db, pool => {
        let mut connection = pool.acquire().await?;
        for (sql, pause) in statements {
            let sql = AssertSqlSafe((*sql).to_owned());
            if sqlx::raw_sql(sql).execute(&mut *connection).await.is_err() {
                return Ok(false);
            }
            sleep(*pause).await;
        }
    });
    Ok(true)
}

pub(super) async fn foreign_locks(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    crew.ready().await?;
    let load = scene.load(None, &Mix::usual())?;
    let (none, briefly) = (Duration::ZERO, Duration::from_millis(700));
    let longer = scene.span(Duration::from_millis(2500), Duration::from_secs(5));
    let whole: &[_] = match ground.engine {
        Engine::Postgres => &["BEGIN", "LOCK TABLE queue_jobs IN EXCLUSIVE MODE", "ROLLBACK"],
        _ => &["DO 0", "LOCK TABLES queue_jobs WRITE, queue_history WRITE", "UNLOCK TABLES"],
    };
    let mut held = 0;
    for _ in 0..scene.rounds(1, 20) {
        crew.work(Duration::from_millis(400)).await?;
        for (sql, time) in [
            ("SELECT id FROM queue_jobs ORDER BY id LIMIT 100 FOR UPDATE", longer),
            ("SELECT id FROM queue_workers FOR UPDATE", longer),
            ("SELECT id FROM queue_jobs FOR UPDATE", briefly),
        ] {
            held += u32::from(session(&scene, &[("BEGIN", none), (sql, time), ("ROLLBACK", none)]).await?);
            crew.work(Duration::from_millis(200)).await?;
        }
        held += u32::from(session(&scene, &[(whole[0], none), (whole[1], briefly), (whole[2], none)]).await?);
    }
    if held == 0 {
        bail!("no lock was held: this shows nothing");
    }
    scene.judge(Some(load), crew).await?;
    scene.note(format!("{held} locks held, {longer:?} at most"));
    Ok(scene.notes)
}

pub(super) async fn deadlocks(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    crew.ready().await?;
    let load = scene.load(None, &Mix { producers: 3, ..Mix::usual() })?;
    let over = Arc::new(AtomicBool::new(false));
    let mut sessions = JoinSet::new();
    for direction in ["ASC", "DESC", "ASC", "DESC"] {
        sessions.spawn(pressure(scene.url().to_owned(), direction, over.clone()));
    }
    let time = scene.span(Duration::from_secs(4), Duration::from_secs(120));
    crew.work(time).await?;
    over.store(true, Ordering::Relaxed);
    let (mut updates, mut defeats) = (0, 0);
    while let Some(counts) = sessions.join_next().await {
        let (updated, defeated) = counts??;
        updates += updated;
        defeats += defeated;
    }
    scene.judge(Some(load), crew).await?;
    scene.note(format!(
        "foreign sessions updated rows {updates} times, and were deadlocked or timed out {defeats} times"
    ));
    Ok(scene.notes)
}

/// Updates rows of ours one after the other, in one transaction after the other. Nothing is changed by it.
async fn pressure(url: String, direction: &str, over: Arc<AtomicBool>) -> Result<(u32, u32)> {
    let db = worker::pool(&url, 1, Duration::from_secs(5))?;
    let (mut updates, mut defeats) = (0, 0);
    let choose = format!("SELECT id FROM queue_jobs ORDER BY id {direction} LIMIT 30");
    while !over.load(Ordering::Relaxed) {
        each!(&db, pool => {
            let choose = AssertSqlSafe(choose.clone());
            let ids: Vec<i64> = sqlx::query_scalar(choose).fetch_all(pool).await.unwrap_or_default();
            let Ok(mut tx) = pool.begin().await else { continue };
            for id in ids {
                let sql = AssertSqlSafe(format!("UPDATE queue_jobs SET enqueued_at = enqueued_at WHERE id = {id}"));
                if sqlx::raw_sql(sql).execute(&mut *tx).await.is_err() {
                    defeats += 1;
                    break;
                }
                updates += 1;
            }
            let _ = tx.rollback().await;
        });
        sleep(Duration::from_millis(5)).await;
    }
    Ok((updates, defeats))
}
