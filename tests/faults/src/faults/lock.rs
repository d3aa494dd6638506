//! Foreign sessions lock and update our tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use queue_test_support::{Engine, each};
use sqlx::AssertSqlSafe;
use sqlx::mysql::MySqlDatabaseError;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Ground;
use crate::crew::Crew;
use crate::load::Mix;
use crate::scene::{LOOK, Scene};
use crate::worker;

/// Runs statements on one connection, with a pause after each. Returns the total number of rows, or `None` if a
/// statement failed: the other side won, and the transaction is over.
pub(super) async fn session(scene: &Scene, statements: &[(&str, Duration)]) -> Result<Option<usize>> {
    let db = worker::pool(scene.url(), 1, Duration::from_secs(5))?;
    let mut rows = 0;
    each!(&db, pool => {
        let mut connection = pool.acquire().await?;
        for (sql, pause) in statements {
            let sql = AssertSqlSafe((*sql).to_owned());
            let Ok(found) = sqlx::raw_sql(sql).fetch_all(&mut *connection).await else { return Ok(None) };
            rows += found.len();
            sleep(*pause).await;
        }
    });
    Ok(Some(rows))
}

/// Time limit until one foreign session has lost a deadlock.
const PATIENCE: Duration = Duration::from_secs(60);
/// Tries to take a lock: the other side may win, or there may be no row to lock.
const TRIES: u32 = 10;

/// P1, P4.
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
    let mut rows = 0;
    let rounds = scene.rounds(1, 20);
    for _ in 0..rounds {
        crew.work(Duration::from_millis(400)).await?;
        for (sql, time) in [
            ("SELECT id FROM queue_jobs ORDER BY id LIMIT 100 FOR UPDATE", longer),
            ("SELECT id FROM queue_workers FOR UPDATE", longer),
            ("SELECT id FROM queue_jobs FOR UPDATE", briefly),
        ] {
            rows += held(&scene, &mut crew, &[("BEGIN", none), (sql, time), ("ROLLBACK", none)], 1).await?;
        }
        held(&scene, &mut crew, &[(whole[0], none), (whole[1], briefly), (whole[2], none)], 0).await?;
    }
    scene.judge(Some(load), crew).await?;
    scene.note(format!("{} locks held, {longer:?} at most, on {rows} rows and on the whole tables", rounds * 4));
    Ok(scene.notes)
}

/// Holds a lock on `least` rows or more while the workers run. Returns the number of rows.
async fn held(scene: &Scene, crew: &mut Crew, statements: &[(&str, Duration)], least: usize) -> Result<usize> {
    for _ in 0..TRIES {
        let rows = session(scene, statements).await?;
        crew.work(Duration::from_millis(200)).await?;
        if let Some(rows) = rows.filter(|rows| *rows >= least) {
            return Ok(rows);
        }
    }
    bail!("no lock was held in {TRIES} tries: {}\n{}", statements[1].0, scene.logs());
}

/// P1, P10.
pub(super) async fn deadlocks(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    crew.ready().await?;
    let load = scene.load(None, &Mix { producers: 3, ..Mix::usual() })?;
    let (over, defeated) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut sessions = JoinSet::new();
    for direction in ["ASC", "DESC", "ASC", "DESC"] {
        sessions.spawn(pressure(scene.url().to_owned(), direction, over.clone(), defeated.clone()));
    }
    let time = scene.span(Duration::from_secs(4), Duration::from_secs(120));
    crew.work(time).await?;
    let end = Instant::now() + PATIENCE;
    while defeated.load(Ordering::Relaxed) == 0 && Instant::now() < end {
        crew.work(LOOK).await?;
    }
    over.store(true, Ordering::Relaxed);
    let mut updates = 0;
    while let Some(count) = sessions.join_next().await {
        updates += count??;
    }
    scene.judge(Some(load), crew).await?;
    let defeats = defeated.load(Ordering::Relaxed);
    ensure!(defeats > 0, "{updates} rows updated, and no session was deadlocked: this shows nothing");
    scene.note(format!(
        "foreign sessions updated rows {updates} times, and were deadlocked or timed out {defeats} times"
    ));
    Ok(scene.notes)
}

/// Updates our rows one by one without changing them, in one transaction after another. Returns the number of updates,
/// and counts how often it loses.
async fn pressure(url: String, direction: &str, over: Arc<AtomicBool>, defeated: Arc<AtomicU32>) -> Result<u32> {
    let db = worker::pool(&url, 1, Duration::from_secs(5))?;
    let mut updates = 0;
    let choose = format!("SELECT id FROM queue_jobs ORDER BY id {direction} LIMIT 30");
    while !over.load(Ordering::Relaxed) {
        each!(&db, pool => {
            let choose = AssertSqlSafe(choose.clone());
            let ids: Vec<i64> = sqlx::query_scalar(choose).fetch_all(pool).await.unwrap_or_default();
            let Ok(mut tx) = pool.begin().await else { continue };
            for id in ids {
                let sql = AssertSqlSafe(format!("UPDATE queue_jobs SET enqueued_at = enqueued_at WHERE id = {id}"));
                if let Err(error) = sqlx::raw_sql(sql).execute(&mut *tx).await {
                    defeated.fetch_add(u32::from(is_defeat(&error)), Ordering::Relaxed);
                    break;
                }
                updates += 1;
            }
            let _ = tx.rollback().await;
        });
        sleep(Duration::from_millis(5)).await;
    }
    Ok(updates)
}

/// A deadlock or a lock timeout.
fn is_defeat(error: &sqlx::Error) -> bool {
    let Some(error) = error.as_database_error() else { return false };
    match error.try_downcast_ref::<MySqlDatabaseError>() {
        Some(error) => matches!(error.number(), 1205 | 1213),
        None => matches!(error.code().as_deref(), Some("40P01" | "55P03")),
    }
}
