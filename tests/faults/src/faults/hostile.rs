//! Rows that a broken or hostile producer writes.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use queue::job;
use queue_test_support::bad_rows::{COLUMNS, End, Rows};
use queue_test_support::{Engine, each};
use sqlx::AssertSqlSafe;

use super::Ground;
use crate::jobs::Plan;
use crate::scene::Scene;

/// Interval between counts of waiting rows. It is long, because each count reads the whole table while the worker runs.
const LOOK: Duration = Duration::from_millis(500);

/// The kind of the good rows, and of many bad ones.
#[job]
pub(crate) async fn note(label: String) {
    drop(label);
}

/// A kind of which no row decodes.
#[job]
pub(crate) async fn spreads(generations: u32) {
    let _ = generations;
}

/// Another kind of which no row decodes.
#[job]
pub(crate) async fn play(label: String, steps: Vec<Plan>) {
    drop((label, steps));
}

/// A range of ids of rows that end in the same way.
struct Batch {
    first: i64,
    last: i64,
    end: End,
}

/// P38: Runs good rows alone, then as many again mixed with as many bad rows. Times are reported, not judged.
pub(super) async fn bad_rows(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let count = scene.jobs(2_000, 100_000);
    let patience = scene.span(Duration::from_secs(60), Duration::from_secs(3600));
    insert(&scene, count, 0).await?;
    let (alone, _) = work_off(&scene, 0, patience).await?;
    let before = scene.number("SELECT MAX(id) FROM queue_history").await?;
    let batches = insert(&scene, count, count).await?;
    let bad = |wanted: &[End]| -> i64 {
        let batches = batches.iter().filter(|batch| wanted.contains(&batch.end));
        batches.map(|batch| batch.last - batch.first + 1).sum()
    };
    let (among, ahead) = work_off(&scene, bad(&[End::Ready, End::Scheduled]), patience).await?;
    account(&scene, before, count, &batches).await?;
    let [alone, among, all] = [(count, alone), (count, among), (count + ahead, among)]
        .map(|(rows, micros)| rows as f64 / Duration::from_micros(micros).as_secs_f64().max(1e-6));
    scene.note(format!(
        "{count} good rows alone: {alone:.0} a second; among {} bad ones, of which {ahead} were worked off before the \
         last good one: {among:.0} good ones a second ({:.2}), {all:.0} rows ({:.2}); {} completed, {} dead, {} left \
         alone",
        bad(&End::TAKEN),
        among / alone,
        all / alone,
        bad(&[End::Completed]),
        bad(&[End::Dead]),
        bad(&[End::Ready, End::Scheduled]),
    ));
    Ok(scene.notes)
}

/// Inserts good and bad rows in turns.
async fn insert(scene: &Scene, mut good: usize, mut bad: usize) -> Result<Vec<Batch>> {
    let mut rows = Rows::new(scene.engine, scene.order.seed);
    let mut batches = Vec::new();
    while good + bad > 0 {
        let chunk = good.min(400);
        if chunk > 0 {
            let rows = vec![r#"('note', '{"label":"good"}')"#; chunk].join(", ");
            scene.execute(&format!("INSERT INTO queue_jobs (kind, args) VALUES {rows}")).await?;
        }
        good -= chunk;
        for end in End::TAKEN {
            let chunk = bad.min(100);
            bad -= chunk;
            if chunk > 0 {
                batches.push(insert_bad(scene, &mut rows, end, chunk).await?);
            }
        }
        if bad > 0 {
            let sql = format!("INSERT INTO queue_jobs ({COLUMNS}) VALUES {}", rows.row(End::Refused).values());
            ensure!(scene.execute(&sql).await.is_err(), "taken by the database: {sql}");
        }
    }
    Ok(batches)
}

async fn insert_bad(scene: &Scene, rows: &mut Rows, end: End, count: usize) -> Result<Batch> {
    let last = "SELECT COALESCE(MAX(id), 0) FROM queue_jobs";
    let before = scene.number(last).await?;
    let mut sql = format!("INSERT INTO queue_jobs ({COLUMNS}) VALUES ");
    for number in 0..count {
        write!(sql, "{}{}", if number > 0 { ", " } else { "" }, rows.row(end).values())?;
    }
    scene.execute(&sql).await?;
    // nobody else writes: what has been added are these, one after the other
    let after = scene.number(last).await?;
    let first = scene.number(&format!("SELECT MIN(id) FROM queue_jobs WHERE id > {before}")).await?;
    ensure!(after - first + 1 == count as i64, "{count} rows have the numbers {first} to {after}");
    Ok(Batch { first, last: after, end })
}

/// Lets one worker process run until only `waiting` rows are left. Returns the microseconds from its start to the end
/// of the last good row, and the number of other rows finished until then.
async fn work_off(scene: &Scene, waiting: i64, patience: Duration) -> Result<(u64, usize)> {
    let mut crew = scene.crew();
    crew.hire(scene.worker())?;
    let started = Instant::now();
    while scene.open_jobs().await? != waiting {
        ensure!(started.elapsed() < patience, "{} rows wait after {patience:?}", scene.open_jobs().await?);
        crew.work(LOOK).await?;
    }
    crew.end().await?;
    let worker = "(SELECT MAX(id) FROM queue_workers)";
    let begin =
        scene.number(&micros(scene.engine, "started_at", &format!("queue_workers WHERE id = {worker}"))).await?;
    let last =
        format!("SELECT MAX(finished_at) AS at FROM queue_history WHERE queue = 'default' AND worker_id = {worker}");
    let end = scene.number(&micros(scene.engine, "it.at", &format!("({last}) AS it"))).await?;
    let mut others = 0;
    for table in ["queue_history", "queue_dead"] {
        let count = format!("SELECT COUNT(*) FROM {table} WHERE queue <> 'default' AND worker_id = {worker}");
        others += scene.number(&format!("{count} AND finished_at <= ({last})")).await?;
    }
    Ok(((end - begin).unsigned_abs(), usize::try_from(others)?))
}

/// A query for a time, in microseconds since 1970.
fn micros(engine: Engine, column: &str, from: &str) -> String {
    let time = match engine {
        Engine::Postgres => format!("CAST(EXTRACT(EPOCH FROM {column}) * 1000000 AS BIGINT)"),
        Engine::MariaDb | Engine::MySql => format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column})"),
        Engine::Sqlite => format!("{column} * 1000"),
    };
    format!("SELECT {time} FROM {from}")
}

/// Every row since `before` is where it should be, and no attempt panicked.
async fn account(scene: &Scene, before: i64, good: usize, batches: &[Batch]) -> Result<()> {
    let sql = AssertSqlSafe(format!("SELECT id, state FROM queue_all WHERE id > {before} ORDER BY id"));
    let rows: Vec<(i64, String)> = each!(&scene.db, pool => sqlx::query_as(sql).fetch_all(pool).await)?;
    let mut completed = 0;
    let mut batches = batches.iter().peekable();
    let mut left = batches.clone().map(|batch| batch.last - batch.first + 1).sum::<i64>();
    for (id, state) in rows {
        while batches.next_if(|batch| batch.last < id).is_some() {}
        let end = match batches.peek() {
            Some(batch) if batch.first <= id => {
                left -= 1;
                batch.end
            }
            _ => {
                completed += 1;
                End::Completed
            }
        };
        if end.state() != state {
            bail!("job {id} is {state}, not {end:?}\n{}", scene.logs());
        }
    }
    ensure!(left == 0 && completed == good, "{left} bad rows are gone; {completed} of {good} good ones completed");
    let panics = scene.number("SELECT COUNT(*) FROM queue_attempts WHERE outcome = 'panicked'").await?;
    ensure!(panics == 0, "{panics} panics");
    Ok(())
}
