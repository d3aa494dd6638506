//! Schedules of each policy, on a server whose clock is set forward and back.

use std::time::Duration;

use anyhow::{Result, ensure};
use queue::schedule::Missed;
use queue_test_support::each;

use super::Ground;
use super::clock::{Clock, clock_of, library};
use crate::checker::TickHistory;
use crate::scene::Scene;
use crate::timetable::{Line, Timetable};

/// Longer than the clock is ever set forward at once.
const WINDOW: Duration = Duration::from_secs(2 * 3600);
/// Intervals in seconds. After a jump, the last missed tick of the longest one is fired in place of all.
const INTERVALS: [u64; 3] = [1, 5, 420];
/// How many schedules there are of each interval and policy.
const ALIKE: usize = 2;
/// The ticks that were fired so far.
const FIRED: &str = "SELECT COUNT(*) FROM queue_ticks WHERE outcome = 'fired'";

/// P13, P14.
pub(super) async fn set_forward_and_back(ground: &Ground) -> Result<Vec<String>> {
    let library = library()?;
    let clock = Clock::right()?;
    let mut scene = ground.own(clock.server(library)).await?;
    let policies = [Missed::None, Missed::Last, Missed::All { within: WINDOW }];
    let lines = INTERVALS.iter().flat_map(|seconds| {
        policies.map(|missed| vec![Line { interval: Duration::from_secs(*seconds), missed }; ALIKE]).concat()
    });
    let timetable = Timetable::make(&scene, lines.collect()).await?;
    let mut crew = scene.crew();
    crew.hire_many(3, &scene.worker().concurrency(32))?;
    crew.ready().await?;
    let rounds = scene.rounds(1, 10);
    for hour in 1..=rounds {
        crew.work(Duration::from_secs(3)).await?;
        set(&scene, &clock, &format!("+{hour}h"), 3600).await?;
        crew.work(Duration::from_secs(3)).await?;
        timetable.reach_now(&scene, &mut crew).await?;
        set(&scene, &clock, &format!("+{}h", hour - 1), -3600).await?;
        crew.work(Duration::from_secs(1)).await?;
        let before = scene.number(FIRED).await?;
        // a worker that has not seen the other clock
        crew.kill(0)?;
        let time = scene.span(Duration::from_secs(4), Duration::from_secs(20));
        crew.work(time).await?;
        let after = scene.number(FIRED).await?;
        ensure!(before == after, "{} ticks were fired after the clock was set back\n{}", after - before, scene.logs());
        set(&scene, &clock, &format!("+{hour}h"), 3600).await?;
        // the others expect no tick soon, and may look half a minute later
        crew.kill(0)?;
        crew.work(Duration::from_secs(3)).await?;
        timetable.reach_now(&scene, &mut crew).await?;
    }
    let history = timetable.judge(&mut scene, crew).await?;
    let note = tell(&history)?;
    scene.note(format!("the clock was set forward by an hour and back {rounds} times: {note}"));
    Ok(scene.notes)
}

/// Moves the clock by this many seconds. No schedule fires meanwhile: a transaction that reads one clock and writes by
/// the other would seem to fire a tick too early.
async fn set(scene: &Scene, clock: &Clock, offset: &str, seconds: i64) -> Result<()> {
    let before = clock_of(scene).await?;
    each!(&scene.db, pool => {
        let mut tx = pool.begin().await?;
        sqlx::query("SELECT id FROM queue_schedules ORDER BY id FOR UPDATE").execute(&mut *tx).await?;
        clock.set(offset)?;
        tx.rollback().await?;
    });
    let moved = clock_of(scene).await? - before;
    ensure!((moved - seconds).abs() < 600, "the server's clock moved by {moved} s instead of {seconds}");
    Ok(())
}

/// What became of the missed ticks, by policy. Each policy must have been asked.
fn tell(history: &TickHistory) -> Result<String> {
    let mut notes = Vec::new();
    for (name, policy) in [("none", Missed::None), ("last", Missed::Last), ("all", Missed::All { within: WINDOW })] {
        let own: Vec<i64> = history.schedules.iter().filter(|it| it.missed == policy).map(|it| it.id).collect();
        let ticks = || history.ticks.iter().filter(|tick| own.contains(&tick.schedule));
        let passed: i64 = ticks().filter(|tick| tick.outcome != "fired").map(|tick| tick.skipped + 1).sum();
        let old = |tick: i64, at: i64| at - tick > 70_000_000;
        let fired = ticks().filter(|tick| tick.outcome == "fired" && old(tick.tick, tick.at)).count();
        ensure!(if name == "all" { fired > 0 } else { passed > 0 }, "no missed tick with the policy {name}");
        notes.push(format!("{name}: of the missed ticks, {fired} fired and {passed} passed over"));
    }
    Ok(notes.join("; "))
}
