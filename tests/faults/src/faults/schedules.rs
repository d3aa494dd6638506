//! Schedules that tick each second.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use queue::schedule::Missed;
use queue_test_support::Engine;

use super::Ground;
use crate::figures::Spread;
use crate::scene::Form;
use crate::timetable::{Line, Timetable};

/// The promise on servers, in seconds: from a tick to its job that is ready.
const READY_WITHIN: f64 = 0.25;

/// P13.
pub(super) async fn every_second(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let (schedules, workers) = if ground.order.form == Form::Short { (150, 4) } else { (1000, 8) };
    let line = Line { interval: Duration::from_secs(1), missed: Missed::Last };
    let timetable = Timetable::make(&scene, vec![line; schedules]).await?;
    let mut crew = scene.crew();
    crew.hire_many(workers, &scene.worker().concurrency(32))?;
    crew.ready().await?;
    let kills = scene.rounds(4, 60);
    let (begin, time) = (Instant::now(), scene.span(Duration::from_secs(8), Duration::from_secs(300)));
    for kill in 0..kills {
        let share = (f64::from(kill) + scene.rng.f64()) / f64::from(kills);
        crew.work((begin + time.mul_f64(share)).saturating_duration_since(Instant::now())).await?;
        let seat = scene.rng.usize(..crew.len());
        crew.kill(seat)?;
    }
    crew.work((begin + time).saturating_duration_since(Instant::now())).await?;
    let history = timetable.judge(&mut scene, crew).await?;
    let (decided, ready) = history.delays();
    let decided = Spread::of(decided).context("no tick was fired")?;
    let ready = Spread::of(ready).context("no job of a tick began")?;
    scene.note(format!("{kills} kills, from a tick to the decision: {}", decided.in_millis()));
    let figures = format!("to its job that is ready: {}", ready.in_millis());
    match ground.engine {
        Engine::Sqlite => scene.note(figures),
        _ => {
            let note = scene.order.promised(&figures, ready.p99(), READY_WITHIN);
            scene.note(note.with_context(|| scene.notes.join("; "))?);
        }
    }
    Ok(scene.notes)
}
