//! Wrong clocks, by means of `libfaketime` (Debian package `faketime`).

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use queue_test_servers::{Durability, Settings, paths, programs};
use tempfile::TempDir;

use super::{Ground, Skipped};
use crate::checker::{Checker, History};
use crate::jobs::Plan;
use crate::load::{Mix, enqueue_batch};
use crate::record::{self, Event, Options, What, now, time_of_day};
use crate::scene::{LEASE, Scene};

/// The path of libfaketime.
pub(super) fn library() -> Result<String> {
    let missing = || Skipped("libfaketime is not installed (Debian's package faketime)".into());
    Ok(programs::faketime().ok_or_else(missing)?.display().to_string())
}

/// Fakes only the time of day, not the monotonic clock.
const DURATIONS: (&str, &str) = ("FAKETIME_DONT_FAKE_MONOTONIC", "1");

/// The clocks of three workers, with their offsets in seconds.
const CLOCKS: [(&str, i64); 3] = [("+0", 0), ("+1d", 86_400), ("-1d", -86_400)];
/// Tries on a server that may hang for a while.
const TRIES: u32 = 20;
/// A worker that another one declares lost knows it after this time: two heartbeats.
const HINDSIGHT: Duration = Duration::from_secs(5);
/// Allowed difference between readings of two clocks, in microseconds.
const TOLERANCE: i64 = 60_000_000;

/// P12.
pub(super) async fn of_workers(ground: &Ground) -> Result<Vec<String>> {
    let library = library()?;
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    for clock in CLOCKS {
        let setup = scene.worker().lease(LEASE).variable("LD_PRELOAD", &library).variable("FAKETIME", clock.0);
        crew.hire(setup.variable(DURATIONS.0, DURATIONS.1))?;
    }
    crew.ready().await?;
    let load = scene.load(None, &Mix::usual())?;
    for _ in 0..scene.rounds(4, 100) {
        let pause = scene.between(Duration::from_millis(500), Duration::from_millis(1500));
        crew.work(pause).await?;
        let seat = scene.rng.usize(..crew.len());
        crew.kill(seat)?;
    }
    let history = scene.judge(Some(load), crew).await?;
    let wrong = CLOCKS.map(|(_, by)| processes_off_by(&history, by));
    ensure!(
        wrong.iter().all(|count| *count > 0),
        "so many processes had clocks that are off like {CLOCKS:?}: {wrong:?}"
    );
    let [right, ahead, behind] = wrong;
    scene.note(format!("clocks of the workers' processes: {right} right, {ahead} a day ahead, {behind} a day behind"));
    Ok(scene.notes)
}

/// The number of ready processes that recorded a time of day off by this many seconds.
fn processes_off_by(history: &History, seconds: i64) -> usize {
    // microseconds of the record at the beginning of 1970
    let zero = now() - time_of_day();
    let ready = history.events.iter().filter(|event| event.what == What::ProcessStarted);
    let ready: HashSet<i64> = ready.map(|event| event.process).collect();
    let off = |event: &&Event| match event.what {
        What::Clock { micros } => (micros - (event.at - zero) - seconds * 1_000_000).abs() < TOLERANCE,
        _ => false,
    };
    history.events.iter().filter(off).filter(|event| ready.contains(&event.process)).count()
}

/// A clock that can be set. Removed when dropped.
pub(super) struct Clock {
    _folder: TempDir,
    file: PathBuf,
}

impl Clock {
    pub(super) fn right() -> Result<Clock> {
        let folder = TempDir::with_prefix("queue-clock-").context("making a temporary folder")?;
        // the server runs as another user
        paths::create_open(folder.path())?;
        let clock = Clock { file: folder.path().join("offset"), _folder: folder };
        clock.set("+0")?;
        Ok(clock)
    }

    /// Takes effect with the next reading of the clock.
    pub(super) fn set(&self, offset: &str) -> Result<()> {
        // renamed into place: nobody may find it empty
        let draft = self.file.with_extension("draft");
        fs::write(&draft, format!("{offset}\n"))
            .and_then(|()| fs::rename(&draft, &self.file))
            .context("setting the clock")
    }

    /// A server that goes by this clock.
    pub(super) fn server(&self, library: String) -> Settings {
        let settings = Settings::new(Durability::Process).variable("LD_PRELOAD", library);
        let settings = settings.variable("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string());
        settings.variable("FAKETIME_NO_CACHE", "1").variable(DURATIONS.0, DURATIONS.1)
    }
}

/// P12, P22.
pub(super) async fn of_the_server(ground: &Ground) -> Result<Vec<String>> {
    let library = library()?;
    let clock = Clock::right()?;
    let mut scene = ground.own(clock.server(library)).await?;
    let mut crew = scene.crew();
    // with the default lease: a server whose clock was set back may stand still for seconds, which costs a shorter one
    crew.hire_many(2, &scene.worker())?;
    // A pause that was asked for while the clock was wrong is over at once when it is right again, by that clock; a
    // time of day is not. What is asked for before waits for the clock to come by again.
    let load = scene.load(None, &Mix { delayed: 5, ..Mix::usual() })?;
    let wanted = scene.rounds(1, 20);
    let (mut rounds, mut answered) = (0, 0);
    while answered < wanted {
        ensure!(
            rounds < wanted + TRIES,
            "the server hung in {} of {rounds} rounds\n{}",
            rounds - answered,
            scene.logs()
        );
        rounds += 1;
        let begin = now();
        crew.work(Duration::from_secs(1)).await?;
        let before = clock_of(&scene).await?;
        clock.set("-1h")?;
        let after = clock_of(&scene).await?;
        ensure!(before - after > 3000, "the server's clock went from {before} to {after}: it was not set back");
        let time = scene.span(Duration::from_secs(3), Duration::from_secs(20));
        crew.work(time).await?;
        crew.kill(0)?;
        crew.work(Duration::from_secs(1)).await?;
        put_off(&scene).await?;
        scene.record(What::ClockForward);
        clock.set("+0")?;
        // a server that hung says nothing of what a clock does to leases
        crew.work(HINDSIGHT).await?;
        let silent = |it: &Event| it.what == What::Unanswered && it.at >= begin;
        answered += u32::from(!record::read(scene.folder())?.iter().any(silent));
    }
    let history = scene.judge(Some(load), crew).await?;
    let deaths = Checker::new(&history).deaths_while_answered();
    ensure!(deaths == 0, "{deaths} leases were lost to a clock that was set\n{}", scene.logs());
    let waited = pending(&history);
    ensure!(waited > 0, "no job waited for a time of day while the clock was put right: this shows nothing");
    scene.note(format!(
        "the clock was an hour slow for a while; {waited} jobs waited for a time of day when it was put right"
    ));
    Ok(scene.notes)
}

/// Enqueues jobs that are not yet due when this returns. It tries again, because a server whose clock was set back may
/// hang for a while.
async fn put_off(scene: &Scene) -> Result<()> {
    const DELAY: i64 = 3000;
    for _ in 0..TRIES {
        let options = Options { delay_ms: DELAY, absolute: true, max_retries: 20, ..Options::default() };
        let begin = now();
        enqueue_batch(&scene.desk, &scene.db, vec![Plan::Ok { ms: 1 }; 10], options, None).await?;
        if now() - begin < DELAY * 1000 / 2 {
            return Ok(());
        }
    }
    bail!("to enqueue ten jobs took more than half of {DELAY} ms, {TRIES} times")
}

/// The number of jobs with a time of day that was not yet due when the clock was corrected. They show whether a job
/// begins too early after that.
fn pending(history: &History) -> usize {
    let forward: Vec<i64> =
        history.events.iter().filter(|it| it.what == What::ClockForward).map(|event| event.at).collect();
    let started: HashSet<i64> = (history.events.iter())
        .filter_map(|event| if let What::Started { tag, .. } = event.what { Some(tag) } else { None })
        .collect();
    let waits = |event: &Event| match &event.what {
        What::Asked { tags, options } if options.absolute => {
            let span = event.at..event.at + options.delay_ms * 1000;
            let waited = forward.iter().any(|at| span.contains(at));
            tags.iter().filter(|tag| waited && started.contains(*tag)).count()
        }
        _ => 0,
    };
    history.events.iter().map(waits).sum()
}

/// Seconds since 1970, by the server's clock.
pub(super) async fn clock_of(scene: &Scene) -> Result<i64> {
    let sql = match scene.engine {
        queue_test_support::Engine::Postgres => "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS BIGINT)",
        _ => "SELECT CAST(UNIX_TIMESTAMP() AS SIGNED)",
    };
    scene.number(sql).await
}
