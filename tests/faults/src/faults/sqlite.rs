//! Faults of the SQLite file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use queue_test_support::{Db, Helper};
use sqlx::AssertSqlSafe;

use super::Ground;
use crate::checker::{Checker, History, Rule};
use crate::crew::Setup;
use crate::load::Mix;
use crate::record::{self, now};
use crate::scene::{LOOK, Scene};
use crate::worker;

/// Time limit for what takes seconds, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Twice the size of a log that can be checkpointed, in KiB: SQLite checkpoints after 1,000 pages of 4 KiB and then
/// restarts the log.
const GROWN: u64 = 8 << 10;

/// The database's file.
fn file(scene: &Scene) -> PathBuf {
    scene.url().trim_start_matches("sqlite://").split('?').next().unwrap_or_default().into()
}

/// P22.
pub(super) async fn file_locked(ground: &Ground) -> Result<Vec<String>> {
    const BUSY: u64 = 500;
    // longer than the disk makes a worker stand still
    const LEASE: Duration = Duration::from_secs(4);
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    // the lock outlasts the lease
    crew.hire_many(2, &scene.worker().lease(LEASE).arg("busy-timeout-ms", BUSY))?;
    crew.ready().await?;
    let load = scene.load(None, &Mix::usual())?;
    let planned = scene.rounds(2, 20);
    let time = scene.span(Duration::from_secs(5), Duration::from_secs(12));
    let busy = worker::pool(scene.url(), 1, Duration::from_millis(BUSY))?;
    let (mut locks, mut in_vain) = (0, 0);
    // a machine that is busy with other things may look when the lock is gone
    while locks < planned || (in_vain == 0 && locks < planned * 5) {
        locks += 1;
        crew.work(Duration::from_millis(800)).await?;
        let mut command = Command::new("sqlite3");
        let hold = format!(".shell echo locked; sleep {}", time.as_secs());
        command.arg(file(&scene)).args([".timeout 60000", "BEGIN EXCLUSIVE", &hold, "ROLLBACK"]);
        let mut locker = Helper::start(&mut command);
        locker.wait_for("locked", PATIENCE).await;
        // whoever waits as long as the workers do waits in vain
        in_vain += u32::from(is_locked(&busy).await?);
        while locker.ended().is_none() {
            crew.work(LOOK).await?;
        }
        ensure!(locker.ended().is_some_and(|it| it.success()), "the other process could not lock the file");
    }
    ensure!(
        in_vain > 0,
        "locked {locks} times, and nobody waited for longer than the busy timeout: this shows nothing"
    );
    let history = scene.judge(Some(load), crew).await?;
    let deaths = Checker::new(&history).false_deaths();
    ensure!(deaths == 0, "{deaths} leases were lost to whoever held the file\n{}", scene.logs());
    scene.note(format!("locked {locks} times for {time:?}; {in_vain} times somebody waited {BUSY} ms in vain"));
    Ok(scene.notes)
}

/// Whether the write lock stays unavailable for the whole busy timeout.
async fn is_locked(db: &Db) -> Result<bool> {
    let Db::Sqlite(pool) = db else { bail!("this is not SQLite") };
    match sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK").execute(pool).await {
        Ok(_) => Ok(false),
        Err(error) if error.to_string().contains("database is locked") => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn pool(scene: &Scene) -> Result<&sqlx::SqlitePool> {
    match &scene.db {
        Db::Sqlite(pool) => Ok(pool),
        _ => bail!("this is not SQLite"),
    }
}

/// P1.
pub(super) async fn checkpoint_blocked(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    let load = scene.load(None, &Mix::usual())?;
    crew.work(Duration::from_secs(1)).await?;
    let mut reader = pool(&scene)?.begin().await?;
    sqlx::query("SELECT COUNT(*) FROM queue_jobs").execute(&mut *reader).await?;
    let time = scene.span(Duration::from_secs(4), Duration::from_secs(120));
    crew.work(time).await?;
    let wal = PathBuf::from(format!("{}-wal", file(&scene).display()));
    let size =
        || Ok::<_, anyhow::Error>(std::fs::metadata(&wal).context("looking at the write-ahead log")?.len() >> 10);
    let end = Instant::now() + PATIENCE;
    while size()? < GROWN && Instant::now() < end {
        crew.work(LOOK).await?;
    }
    let grown = size()?;
    ensure!(grown >= GROWN, "a log of {grown} KiB could have been checkpointed: this shows nothing");
    reader.rollback().await?;
    scene.judge(Some(load), crew).await?;
    let busy = scene.number("PRAGMA wal_checkpoint(TRUNCATE)").await?;
    let left = std::fs::metadata(&wal).map_or(0, |it| it.len() >> 10);
    ensure!(busy == 0 && left == 0, "the write-ahead log still has {left} KiB");
    scene.note(format!("log of {grown} KiB beside a reader of {time:?}, empty after it"));
    Ok(scene.notes)
}

/// P1, P2, P3, P10.
pub(super) async fn copied(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().concurrency(4))?;
    let load = scene.load(None, &Mix { pause: Duration::from_millis(60), ..Mix::usual() })?;
    let copies = scene.rounds(2, 20);
    for number in 0..copies {
        crew.work(Duration::from_secs(1)).await?;
        let copy = scene.folder().join(format!("copy-{number}.sqlite"));
        let begun = now();
        let sql = AssertSqlSafe(format!("VACUUM INTO '{}'", copy.display()));
        sqlx::raw_sql(sql).execute(pool(&scene)?).await.context("taking a copy")?;
        check_copy(&scene, &copy, begun).await?;
        if number == 0 {
            run_copy(&scene, &copy).await?;
        }
    }
    scene.judge(Some(load), crew).await?;
    scene.note(format!("{copies} copies, each consistent; the jobs of the first were run from it"));
    Ok(scene.notes)
}

/// Every job committed before the copy began is in it exactly once, with its ledger row.
async fn check_copy(scene: &Scene, copy: &Path, begun: i64) -> Result<()> {
    let db = worker::pool(&format!("sqlite://{}", copy.display()), 1, Duration::from_secs(5))?;
    let Db::Sqlite(pool) = &db else { bail!("this is not SQLite") };
    let integrity: String = sqlx::query_scalar("PRAGMA integrity_check").fetch_one(pool).await?;
    ensure!(integrity == "ok", "the copy is damaged: {integrity}");
    let ledger: Vec<i64> = sqlx::query_scalar("SELECT tag FROM faults_ledger").fetch_all(pool).await?;
    let tables = db.tables().await;
    // what was asked for later may be in it or not
    let events = record::read(scene.folder())?.into_iter().filter(|event| match event.what {
        record::What::Committed { .. } => event.at < begun,
        record::What::RolledBack { .. } | record::What::Unknown { .. } | record::What::Asked { .. } => true,
        _ => false,
    });
    let history = History { events: events.collect(), tables, ledger: ledger.into_iter().collect() };
    let checker = Checker::new(&history);
    let rules = [Rule::Lost, Rule::Twice, Rule::RolledBack, Rule::Ledger, Rule::Unasked];
    let broken: Vec<_> = checker.violations().into_iter().filter(|it| rules.contains(&it.rule)).collect();
    ensure!(broken.is_empty(), "the copy is not consistent\n{}", checker.tell(&broken));
    Ok(())
}

/// A worker on the copy finds jobs and finishes them all.
async fn run_copy(scene: &Scene, copy: &Path) -> Result<()> {
    let folder = copy.with_extension("records");
    std::fs::create_dir(&folder).context("making a folder")?;
    let url = format!("sqlite://{}", copy.display());
    let mut crew = crate::crew::Crew::new(record::Journal::open(&folder)?);
    crew.hire(Setup::new(&url, &folder))?;
    let db = worker::pool(&url, 1, Duration::from_secs(5))?;
    let Db::Sqlite(pool) = &db else { bail!("this is not SQLite") };
    let end = std::time::Instant::now() + Duration::from_secs(120);
    while sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM queue_jobs").fetch_one(pool).await? > 0 {
        ensure!(std::time::Instant::now() < end, "the jobs of the copy did not run\n{}", scene.logs());
        crew.work(Duration::from_millis(100)).await?;
    }
    crew.end().await
}
