//! The database server goes away and comes back.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use queue_test_servers::{Durability, Settings};

use super::Ground;
use crate::checker::History;
use crate::crew::Crew;
use crate::load::{Load, Mix, enqueue_batch, short};
use crate::record::{Options, What, now};
use crate::scene::Scene;

/// The rate of starts is taken over this time.
const WINDOW: i64 = 500_000;
/// Of the rate before.
const FULL: f64 = 0.9;

pub(super) async fn killed(ground: &Ground) -> Result<Vec<String>> {
    let (mut scene, mut crew, load) = begin(ground).await?;
    let mut returns = Vec::new();
    for _ in 0..scene.rounds(2, 50) {
        backlog(&scene).await?;
        let pause = scene.between(Duration::from_millis(1000), Duration::from_millis(1500));
        crew.work(pause).await?;
        let down = now();
        let server = scene.server.as_mut().context("a server of its own")?;
        server.kill()?;
        tokio::task::block_in_place(|| server.start_again())?;
        returns.push((down, now()));
        crew.work(Duration::from_secs(3)).await?;
    }
    end(scene, crew, load, &returns).await
}

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
    crew.work(Duration::from_secs(3)).await?;
    end(scene, crew, load, &returns).await
}

async fn begin(ground: &Ground) -> Result<(Scene, Crew, Load)> {
    let mut scene = ground.own(Settings::new(Durability::Process)).await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    let load = scene.load(None, &Mix::usual())?;
    Ok((scene, crew, load))
}

/// More than the workers can do meanwhile, so that their rate is their own and not the producers'.
async fn backlog(scene: &Scene) -> Result<()> {
    let options = Options { max_retries: 20, ..Options::default() };
    for _ in 0..3 {
        let mut rng = fastrand::Rng::with_seed(scene.order.seed);
        let plans = (0..1000).map(|_| short(&mut rng)).collect();
        enqueue_batch(&scene.desk, &scene.db, plans, options.clone(), None).await?;
    }
    Ok(())
}

async fn end(mut scene: Scene, crew: Crew, load: Load, returns: &[(i64, i64)]) -> Result<Vec<String>> {
    let restarted = crew.ended();
    let history = scene.judge(Some(load), crew).await?;
    if restarted > 0 {
        bail!("{restarted} workers ended by themselves while the server was away\n{}", scene.logs());
    }
    let mut texts = Vec::new();
    for &(down, up) in returns {
        let away = (up - down) as f64 / 1e6;
        let back = full_rate(&history, down, up);
        let back = back.map_or("not measured: nothing was left to do".into(), |it| format!("{it:.2} s"));
        texts.push(format!(
            "away {away:.1} s, first start {:.2} s and full rate {back} after its return",
            first(&history, up)
        ));
    }
    scene.note(texts.join("; "));
    Ok(scene.notes)
}

fn starts(history: &History) -> impl Iterator<Item = i64> + '_ {
    history.events.iter().filter(|event| matches!(event.what, What::Started { .. })).map(|event| event.at)
}

fn first(history: &History, up: i64) -> f64 {
    starts(history).find(|at| *at > up).map_or(f64::INFINITY, |at| (at - up) as f64 / 1e6)
}

/// Seconds after the server's return until the first window in which as much was started as before, nearly.
fn full_rate(history: &History, down: i64, up: i64) -> Option<f64> {
    let all: Vec<i64> = starts(history).collect();
    let count = |from: i64| all.iter().filter(|at| (from..from + WINDOW).contains(*at)).count() as f64;
    let before = count(down - WINDOW);
    let step = 50_000;
    let from = (up..up + 10_000_000).step_by(step).find(|from| count(*from) >= FULL * before)?;
    (before > 0.0).then_some((from - up) as f64 / 1e6)
}
