//! Clocks that are wrong. `libfaketime` (Debian's package `faketime`) makes them so.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use queue_test_servers::{Durability, Settings, paths, programs};
use tempfile::TempDir;

use super::{Ground, Skipped};
use crate::load::Mix;
use crate::record::What;
use crate::scene::LEASE;

/// The library that lies about the time.
fn library() -> Result<String> {
    let missing = || Skipped("libfaketime is not installed (Debian's package faketime)".into());
    Ok(programs::faketime().ok_or_else(missing)?.display().to_string())
}

/// Only the time of day: what measures durations goes on as ever.
const DURATIONS: (&str, &str) = ("FAKETIME_DONT_FAKE_MONOTONIC", "1");

pub(super) async fn of_workers(ground: &Ground) -> Result<Vec<String>> {
    let library = library()?;
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    for clock in ["+0", "+1d", "-1d"] {
        let setup = scene.worker().lease(LEASE).variable("LD_PRELOAD", &library).variable("FAKETIME", clock);
        crew.hire(setup.variable(DURATIONS.0, DURATIONS.1))?;
    }
    let load = scene.load(None, &Mix::usual())?;
    for _ in 0..scene.rounds(4, 100) {
        let pause = scene.between(Duration::from_millis(500), Duration::from_millis(1500));
        crew.work(pause).await?;
        let seat = scene.rng.usize(..crew.len());
        crew.kill(seat)?;
    }
    scene.judge(Some(load), crew).await?;
    scene.note("clocks of three workers: right, a day ahead, a day behind");
    Ok(scene.notes)
}

/// A clock that can be set. Removed when dropped.
struct Clock {
    _folder: TempDir,
    file: PathBuf,
}

impl Clock {
    fn right() -> Result<Clock> {
        let folder = TempDir::with_prefix("queue-clock-").context("making a temporary folder")?;
        // the server runs as another user
        paths::create_open(folder.path())?;
        let clock = Clock { file: folder.path().join("offset"), _folder: folder };
        clock.set("+0")?;
        Ok(clock)
    }

    /// Takes effect with the next look at the clock.
    fn set(&self, offset: &str) -> Result<()> {
        // renamed into place: nobody may find it empty
        let draft = self.file.with_extension("draft");
        fs::write(&draft, format!("{offset}\n"))
            .and_then(|()| fs::rename(&draft, &self.file))
            .context("setting the clock")
    }

    fn path(&self) -> &Path {
        &self.file
    }
}

pub(super) async fn of_the_server(ground: &Ground) -> Result<Vec<String>> {
    let library = library()?;
    let clock = Clock::right()?;
    let settings = Settings::new(Durability::Process).variable("LD_PRELOAD", library);
    let settings = settings.variable("FAKETIME_TIMESTAMP_FILE", clock.path().display().to_string());
    let settings = settings.variable("FAKETIME_NO_CACHE", "1").variable(DURATIONS.0, DURATIONS.1);
    let mut scene = ground.own(settings).await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().lease(LEASE))?;
    // a delay that was asked for while the clock was wrong is over at once when it is right again, by that clock
    let load = scene.load(None, &Mix { varied: false, ..Mix::usual() })?;
    for _ in 0..scene.rounds(1, 20) {
        crew.work(Duration::from_secs(1)).await?;
        let before = clock_of(&scene).await?;
        clock.set("-1h")?;
        let after = clock_of(&scene).await?;
        anyhow::ensure!(before - after > 3000, "the server's clock went from {before} to {after}: it was not set back");
        let time = scene.span(Duration::from_secs(3), Duration::from_secs(20));
        crew.work(time).await?;
        crew.kill(0)?;
        crew.work(Duration::from_secs(1)).await?;
        scene.record(What::ClockForward);
        clock.set("+0")?;
    }
    scene.judge(Some(load), crew).await?;
    scene.note("the clock was an hour slow for a while");
    Ok(scene.notes)
}

/// Seconds since 1970, by the server.
async fn clock_of(scene: &crate::scene::Scene) -> Result<i64> {
    let sql = match scene.engine {
        queue_test_support::Engine::Postgres => "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)",
        _ => "SELECT CAST(UNIX_TIMESTAMP() AS SIGNED)",
    };
    scene.number(sql).await
}
