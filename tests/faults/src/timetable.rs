//! Schedules under test: makes them, waits for them, and reads the tables about them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use queue::schedule::Missed;
use queue_test_support::{Db, Engine, each};
use serde::Deserialize;
use sqlx::AssertSqlSafe;

use crate::checker::{Decided, Made, Scheduled, TickHistory, TickRule};
use crate::crew::Crew;
use crate::scene::{LOOK, Scene};

/// Schedules that do not get further for this long are stuck.
const STUCK: Duration = Duration::from_secs(90);
/// How often a statement is repeated that deadlocks with the workers.
const TRIES: u32 = 20;
/// The most violations that are told.
const TOLD: usize = 30;

/// A kind of schedule.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Between two ticks.
    pub interval: Duration,
    /// What happens with missed ticks.
    pub missed: Missed,
}

/// The schedules of a scene. The number of each is its place here, from 1.
#[derive(Debug)]
pub struct Timetable {
    lines: Vec<Line>,
}

/// The argument of [`tick`](crate::jobs::tick).
#[derive(Deserialize)]
struct Args {
    schedule: String,
}

impl Timetable {
    /// Inserts schedules by SQL. They are due at once: workers that start see them, others within 30 seconds.
    ///
    /// # Errors
    /// When the database refuses them.
    pub async fn make(scene: &Scene, lines: Vec<Line>) -> Result<Timetable> {
        let rows: Vec<String> = lines.iter().enumerate().map(|(at, line)| insert(at, *line)).collect();
        for some in rows.chunks(100) {
            let columns = "name, kind, expression, args, missed, window_s";
            scene.execute(&format!("INSERT INTO queue_schedules ({columns}) VALUES {}", some.join(", "))).await?;
        }
        Ok(Timetable { lines })
    }

    /// Waits until all ticks until now are decided about. Returns this moment, in microseconds since 1970.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn reach_now(&self, scene: &Scene, crew: &mut Crew) -> Result<i64> {
        let now = scene.number(&format!("SELECT {}", micros(scene.engine, clock(scene.engine)))).await?;
        let behind = format!("SELECT COUNT(*) FROM queue_schedules WHERE {} <= {now}", micros(scene.engine, "next_at"));
        let end = Instant::now() + STUCK;
        loop {
            match scene.number(&behind).await {
                Ok(0) => return Ok(now),
                Ok(left) if Instant::now() > end => {
                    bail!("{left} schedules are stuck: behind for {STUCK:?}\n{}", scene.logs())
                }
                Err(error) if Instant::now() > end => return Err(error),
                _ => crew.work(LOOK * 3).await?,
            }
        }
    }

    /// Waits until all ticks until now are decided about, stops the schedules, drains the queue, ends the workers, and
    /// runs the checker.
    ///
    /// # Errors
    /// When a promise was broken.
    pub async fn judge(&self, scene: &mut Scene, mut crew: Crew) -> Result<TickHistory> {
        let until = self.reach_now(scene, &mut crew).await?;
        pause(scene, &mut crew).await?;
        scene.drain(&mut crew).await?;
        crew.end().await?;
        let history = self.read(scene, until).await?;
        let violations = history.violations();
        if !violations.is_empty() {
            let mut text = String::new();
            for violation in violations.iter().take(TOLD) {
                let _ = writeln!(text, "{violation}");
            }
            bail!("{} violations\n{text}{}{}", violations.len(), complaints(scene).join("\n"), scene.logs());
        }
        finds_what_is_planted(&history, &mut scene.rng)?;
        let fired = history.ticks.iter().filter(|tick| tick.outcome == "fired").count();
        ensure!(fired > 0, "no tick was fired: this shows nothing");
        scene.note(format!("{} schedules, {fired} ticks, {} jobs", history.schedules.len(), history.jobs.len()));
        let complaints = complaints(scene);
        if let Some(first) = complaints.first() {
            scene.note(format!("{} warnings about schedules, such as {first}", complaints.len()));
        }
        Ok(history)
    }

    /// Reads the tables.
    async fn read(&self, scene: &Scene, until: i64) -> Result<TickHistory> {
        let Scene { db, engine, .. } = scene;
        let schedules = self.schedules(db, *engine).await.context("reading schedules")?;
        let ticks = ticks(db, *engine).await.context("reading ticks")?;
        let jobs = jobs(db, *engine).await.context("reading the jobs of ticks")?;
        Ok(TickHistory { schedules, ticks, jobs, until })
    }

    async fn schedules(&self, db: &Db, engine: Engine) -> Result<Vec<Scheduled>> {
        type Cells = (i64, String, i64, Option<i64>, Option<i64>, Option<String>);
        let sql = AssertSqlSafe(format!(
            "SELECT id, name, {}, {}, last_job_id, error FROM queue_schedules",
            micros(engine, "changed_at"),
            micros(engine, "last_at")
        ));
        let rows: Vec<Cells> = each!(db, pool => sqlx::query_as(sql).fetch_all(pool).await)?;
        ensure!(rows.len() == self.lines.len(), "{} schedules, of {}", rows.len(), self.lines.len());
        rows.into_iter()
            .map(|(id, name, changed_at, last_at, last_job, error)| {
                let line = self.lines.get(name.parse::<usize>().context("the name of a schedule")? - 1);
                let Line { interval, missed } = *line.context("an unknown schedule")?;
                let interval = i64::try_from(interval.as_micros())?;
                Ok(Scheduled { id, name, interval, missed, changed_at, last_at, last_job, error })
            })
            .collect()
    }
}

/// A row of `queue_schedules`.
fn insert(at: usize, line: Line) -> String {
    let (name, seconds) = (at + 1, line.interval.as_secs());
    let (missed, window) = match line.missed {
        Missed::None => ("none", "NULL".to_owned()),
        Missed::Last => ("last", "NULL".to_owned()),
        Missed::All { within } => ("all", within.as_secs().to_string()),
    };
    format!("('{name}', 'tick', 'every {seconds}s', '{{\"schedule\":\"{name}\"}}', '{missed}', {window})")
}

/// Pauses all schedules.
async fn pause(scene: &Scene, crew: &mut Crew) -> Result<()> {
    let sql = format!("UPDATE queue_schedules SET paused_at = {}, next_at = NULL", clock(scene.engine));
    for _ in 1..TRIES {
        if scene.execute(&sql).await.is_ok() {
            return Ok(());
        }
        crew.work(LOOK * 3).await?;
    }
    scene.execute(&sql).await.context("pausing the schedules")
}

async fn ticks(db: &Db, engine: Engine) -> Result<Vec<Decided>> {
    let sql = AssertSqlSafe(format!(
        "SELECT schedule_id, {}, job_id, outcome, {}, {} FROM queue_ticks",
        micros(engine, "tick_at"),
        whole(engine, "skipped"),
        micros(engine, "at")
    ));
    let rows: Vec<(i64, i64, Option<i64>, String, i64, i64)> =
        each!(db, pool => sqlx::query_as(sql).fetch_all(pool).await)?;
    let decided = |(schedule, tick, job, outcome, skipped, at)| Decided { schedule, tick, job, outcome, skipped, at };
    Ok(rows.into_iter().map(decided).collect())
}

async fn jobs(db: &Db, engine: Engine) -> Result<Vec<Made>> {
    let text = if matches!(engine, Engine::MariaDb | Engine::MySql) { "CHAR" } else { "TEXT" };
    let earlier = attempts(db, engine).await?;
    let mut jobs = Vec::new();
    for (table, state, began) in [
        ("queue_history", "state", "started_at"),
        ("queue_dead", "'dead'", "started_at"),
        ("queue_jobs", "CASE WHEN worker_id = 0 THEN 'waiting' ELSE 'running' END", "claimed_at"),
    ] {
        let began = micros(engine, began);
        let sql = AssertSqlSafe(format!(
            "SELECT id, CAST(args AS {text}), {state}, {began} FROM {table} WHERE kind = 'tick'"
        ));
        let rows: Vec<(i64, String, String, Option<i64>)> =
            each!(db, pool => sqlx::query_as(sql).fetch_all(pool).await)?;
        for (id, args, state, began) in rows {
            let Args { schedule: of } = serde_json::from_str(&args).context("the arguments of a tick's job")?;
            // an earlier attempt may have been lost with its worker
            let began = [earlier.get(&id).copied(), began].into_iter().flatten().min();
            jobs.push(Made { id, of, state, began });
        }
    }
    Ok(jobs)
}

/// When the first attempt of a job began that did not complete it.
async fn attempts(db: &Db, engine: Engine) -> Result<HashMap<i64, i64>> {
    let began = micros(engine, "MIN(started_at)");
    let sql = AssertSqlSafe(format!("SELECT job_id, {began} FROM queue_attempts GROUP BY job_id"));
    let rows: Vec<(i64, i64)> = each!(db, pool => sqlx::query_as(sql).fetch_all(pool).await)?;
    Ok(rows.into_iter().collect())
}

/// A time as microseconds since 1970.
pub(crate) fn micros(engine: Engine, time: &str) -> String {
    match engine {
        Engine::Sqlite => format!("{time} * 1000"),
        Engine::Postgres => format!("CAST(EXTRACT(EPOCH FROM {time}) * 1000000 AS BIGINT)"),
        Engine::MariaDb | Engine::MySql => whole(engine, &format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time})")),
    }
}

/// A whole number in the width that is read.
fn whole(engine: Engine, number: &str) -> String {
    let width = if matches!(engine, Engine::MariaDb | Engine::MySql) { "SIGNED" } else { "BIGINT" };
    format!("CAST({number} AS {width})")
}

/// The time of day by the database's clock.
fn clock(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
        Engine::Postgres => "clock_timestamp()",
        Engine::MariaDb | Engine::MySql => "UTC_TIMESTAMP(6)",
    }
}

/// What the workers' logs say against schedules.
fn complaints(scene: &Scene) -> Vec<String> {
    let paths = fs::read_dir(scene.folder()).into_iter().flatten().flatten().map(|entry| entry.path());
    let logs = paths.filter(|path| path.extension().is_some_and(|it| it == "log"));
    let lines = logs.flat_map(|log| {
        let text = fs::read_to_string(log).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let against = |line: &String| [" WARN ", " ERROR "].iter().any(|word| line.contains(word));
    lines.filter(|line| against(line) && line.contains("schedule")).collect()
}

/// The checker finds each violation that is planted in a record which has none.
fn finds_what_is_planted(good: &TickHistory, rng: &mut Rng) -> Result<()> {
    let fired = good.ticks.iter().enumerate().filter(|(_, tick)| tick.job.is_some());
    let Some((at, tick)) = rng.choice(fired.collect::<Vec<_>>()) else { return Ok(()) };
    let id = tick.job.unwrap_or_default();
    let job = good.jobs.iter().position(|job| job.id == id).context("the job of a tick")?;
    let plant = |what: &str, rule: TickRule, change: &dyn Fn(&mut TickHistory)| {
        let mut bad = good.clone();
        change(&mut bad);
        let found = bad.violations().iter().any(|violation| violation.rule == rule);
        found.then_some(()).with_context(|| format!("the checker does not find {what}, which was planted"))
    };
    plant("a tick that is missing", TickRule::TickLost, &|bad| drop(bad.ticks.swap_remove(at)))?;
    plant("a tick without its job", TickRule::NoJob, &|bad| drop(bad.jobs.swap_remove(job)))?;
    plant("a second job of a tick", TickRule::NoTick, &|bad| {
        let second = Made { id: -1, ..bad.jobs[job].clone() };
        bad.jobs.push(second);
    })
}
