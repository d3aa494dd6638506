//! The database server goes down and comes back.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use queue::Job as _;
use queue::admin::Admin;
use queue_test_servers::{Durability, Settings};
use queue_test_support::each;

use super::Ground;
use crate::checker::History;
use crate::crew::Crew;
use crate::figures::Spread;
use crate::jobs::Work;
use crate::load::{Load, Mix, enqueue_batch, quick, short};
use crate::record::{Options, What, now};
use crate::scene::Scene;

/// The window over which the rate of starts is measured.
const WINDOW: i64 = 500_000;
/// The share of the earlier rate that counts as full.
const FULL: f64 = 0.9;
/// The recovery time to report if the full rate is not reached within it, or before the server goes down again.
const LIMIT: i64 = 10_000_000;
/// The promised time to the full rate.
const BACK_WITHIN: f64 = 3.0;
/// Short jobs that wait before the server goes down, in the short and the long form. They must outlast the recovery, so
/// that the workers limit the rate, and not the producers. (A fast machine runs 50,000 within 2 s of the server's
/// return: two workers start 16,000 jobs/s.)
const BACKLOG: (usize, usize) = (10_000, 150_000);
/// How long the workers run undisturbed before the server goes down again.
const AFTER: Duration = Duration::from_secs(3);

/// P1, P5, P23.
pub(super) async fn killed(ground: &Ground) -> Result<Vec<String>> {
    let (mut scene, mut crew, load) = begin(ground).await?;
    let (mut returns, mut left) = (Vec::new(), Vec::new());
    for _ in 0..scene.rounds(2, 50) {
        backlog(&scene).await?;
        let pause = scene.between(Duration::from_millis(1500), Duration::from_millis(2000));
        crew.work(pause).await?;
        let down = now();
        let server = scene.server.as_mut().context("a server of its own")?;
        server.kill()?;
        tokio::task::block_in_place(|| server.start_again())?;
        returns.push((down, now()));
        crew.work(AFTER).await?;
        left.push(scene.open_jobs().await?);
    }
    let least = left.into_iter().min().unwrap_or_default();
    scene.note(format!("of the backlog at least {least} were left {AFTER:?} after its return"));
    end(scene, crew, load, &returns).await
}

/// P23.
pub(super) async fn stopped(ground: &Ground) -> Result<Vec<String>> {
    let (mut scene, mut crew, load) = begin(ground).await?;
    backlog(&scene).await?;
    crew.work(Duration::from_millis(1200)).await?;
    let down = now();
    let away = scene.span(Duration::from_secs(4), Duration::from_secs(30));
    let server = scene.server.as_mut().context("a server of its own")?;
    tokio::task::block_in_place(|| server.stop())?;
    crew.work(away).await?;
    let server = scene.server.as_mut().context("a server of its own")?;
    tokio::task::block_in_place(|| server.start_again())?;
    let returns = [(down, now())];
    crew.work(AFTER).await?;
    end(scene, crew, load, &returns).await
}

async fn begin(ground: &Ground) -> Result<(Scene, Crew, Load)> {
    let mut scene = ground.own(Settings::new(Durability::Process)).await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    crew.ready().await?;
    // beside the backlog, and no slower to do: a few that take half a second hold all slots of both workers
    let load = scene.load(None, &Mix { ahead: None, plan: quick, ..Mix::usual() })?;
    Ok((scene, crew, load))
}

/// Fills the backlog while the workers' queue is paused, because the workers run jobs as fast as one producer adds
/// them.
async fn backlog(scene: &Scene) -> Result<()> {
    let options = Options { max_retries: 20, ..Options::default() };
    let mut rng = fastrand::Rng::with_seed(scene.order.seed);
    let least = scene.jobs(BACKLOG.0, BACKLOG.1);
    let admin = each!(&scene.db, pool => Admin::new(pool));
    admin.pause(Work::QUEUE).await?;
    while scene.open_jobs().await? < least as i64 {
        let plans = (0..1000).map(|_| short(&mut rng)).collect();
        enqueue_batch(&scene.desk, &scene.db, plans, options.clone(), None).await?;
    }
    admin.resume(Work::QUEUE).await?;
    Ok(())
}

async fn end(mut scene: Scene, crew: Crew, load: Load, returns: &[(i64, i64)]) -> Result<Vec<String>> {
    let history = scene.judge(Some(load), crew).await?;
    let text = |times: Vec<i64>| Spread::of(times).map_or("none".into(), |it| it.to_string());
    let away = returns.iter().map(|(down, up)| up - down).collect();
    let each: Vec<Vec<i64>> = returns.iter().map(|(_, up)| first_starts(&history, *up)).collect();
    let (first, last) = each.iter().filter_map(|times| Some((*times.iter().min()?, *times.iter().max()?))).unzip();
    scene.note(format!("away {}", text(away)));
    scene.note(format!("first start after its return {}, of the other worker {}", text(first), text(last)));
    let starts = starts(&history);
    let next = returns.iter().skip(1).map(|(down, _)| *down).chain([i64::MAX]);
    let full: Vec<_> = (returns.iter().zip(next))
        .filter_map(|(&(down, up), next)| Some((full_rate(&starts, down, up, next)?, down, up)))
        .collect();
    if let Some((_, down, up)) = full.iter().max() {
        let course = |from: i64, windows: i64| -> Vec<usize> {
            (0..windows).map(|n| count(&starts, from + n * WINDOW)).collect()
        };
        let (before, after) = (course(down - 4 * WINDOW, 4), course(*up, 12));
        scene.note(format!("starts in each half second around the slowest: {before:?}, then {after:?}"));
    }
    match Spread::of(full.into_iter().map(|(time, ..)| time).collect()) {
        Some(full) => scene.promise("full rate after it", &full, full.max(), BACK_WITHIN)?,
        None => scene.note("its full rate was not measured: nothing was left to do"),
    }
    Ok(scene.notes)
}

/// The starts of handlers, in order.
fn starts(history: &History) -> Vec<i64> {
    let starts = history.events.iter().filter(|event| matches!(event.what, What::Started { .. }));
    starts.map(|event| event.at).collect()
}

/// The time from a moment to each worker's next start of a job.
fn first_starts(history: &History, moment: i64) -> Vec<i64> {
    let mut first = HashMap::new();
    for event in &history.events {
        if event.at > moment && matches!(event.what, What::Started { .. }) {
            first.entry(event.process).or_insert(event.at - moment);
        }
    }
    first.into_values().collect()
}

/// The number of starts before a moment.
fn before(starts: &[i64], moment: i64) -> usize {
    starts.partition_point(|at| *at < moment)
}

/// The number of starts in a window.
fn count(starts: &[i64], from: i64) -> usize {
    before(starts, from + WINDOW) - before(starts, from)
}

/// The time from the server's return to the first window with at least [`FULL`] of the mean rate of the two windows
/// before the failure. [`LIMIT`] if there is none before the `next` failure. `None` if there were no starts before the
/// failure.
fn full_rate(starts: &[i64], down: i64, up: i64, next: i64) -> Option<i64> {
    const STEP: usize = 50_000;
    let usual = (count(starts, down - WINDOW) + count(starts, down - 2 * WINDOW)) as f64 / 2.0 * FULL;
    let found = (up..(up + LIMIT).min(next - WINDOW)).step_by(STEP).find(|from| count(starts, *from) as f64 >= usual);
    (usual > 0.0).then(|| found.map_or(LIMIT, |from| from - up))
}

#[cfg(test)]
mod tests {
    use super::{LIMIT, full_rate};

    #[test]
    fn the_full_rate_is_that_of_the_window_before() {
        // a start each 10 ms until the server goes at 1 s; it returns at 2 s; from 3 s on as before
        let starts: Vec<i64> = (0..100).chain(300..500).map(|number| number * 10_000).collect();
        let back = full_rate(&starts, 1_000_000, 2_000_000, i64::MAX).expect("it comes back");
        assert_eq!(back, 950_000, "the first window with nine tenths of what was usual");
        let before = full_rate(&starts, 1_000_000, 2_000_000, 3_000_000);
        assert_eq!(before, Some(LIMIT), "it went again before it came to the full rate");
        let slow: Vec<i64> = (0..100).chain((300..1500).step_by(3)).map(|number| number * 10_000).collect();
        assert_eq!(
            full_rate(&slow, 1_000_000, 2_000_000, i64::MAX),
            Some(LIMIT),
            "a third of the rate is not the full one"
        );
        assert_eq!(full_rate(&[], 1_000_000, 2_000_000, i64::MAX), None, "there was no rate");
    }
}
