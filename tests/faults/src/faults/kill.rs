//! Workers are killed (`kill -9`).

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use queue_test_support::Engine;

use super::Ground;
use crate::checker::Checker;
use crate::figures::Spread;
use crate::jobs::Plan;
use crate::load::{Mix, enqueue_batch, everyday, long, short};
use crate::point::{Moment, Point};
use crate::record::Options;
use crate::scene::{Form, LEASE, Scene};

/// The promise for the default settings, in seconds.
const RESCUED_WITHIN: f64 = 10.0;
/// Counts workers that were declared lost or have stopped.
const STOPPED: &str = "SELECT COUNT(*) FROM queue_workers WHERE stopped_at IS NOT NULL";
/// Least number of ordered jobs that wait when their only worker is killed.
const BACKLOG: usize = 60;
/// Time limit for a worker to reach the point at which it kills itself.
const PATIENCE: Duration = Duration::from_secs(90);

/// P1, P3, P5, P21.
pub(super) async fn at_random(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(3, &scene.worker().concurrency(32))?;
    crew.ready().await?;
    let sqlite = ground.engine == Engine::Sqlite;
    let kills = scene.rounds(8, if sqlite { 100 } else { 1000 });
    let jobs = scene.jobs(0, if sqlite { 50_000 } else { 500_000 });
    let load = scene.load(None, &if ground.order.form == Form::Short { Mix::usual() } else { Mix::dense() })?;
    crew.work(Duration::from_millis(700)).await?;
    for kill in 0..kills {
        let pause = scene.between(Duration::from_millis(50), Duration::from_millis(900));
        crew.work(pause).await?;
        // spread over all the jobs
        let due = jobs as f64 * f64::from(kill) / f64::from(kills);
        while (load.enqueued() as f64) < due {
            crew.work(Duration::from_millis(50)).await?;
        }
        let seat = scene.rng.usize(..crew.len());
        crew.kill(seat)?;
    }
    while load.enqueued() < jobs {
        crew.work(Duration::from_millis(100)).await?;
    }
    let history = scene.judge(Some(load), crew).await?;
    let Some(spread) = Spread::of(Checker::new(&history).rescues()) else {
        bail!("no kill hit a running job: this shows nothing");
    };
    scene.promise(
        &format!("{kills} kills, from a kill to the next attempt's start"),
        &spread,
        spread.p99(),
        RESCUED_WITHIN,
    )?;
    Ok(scene.notes)
}

/// P21.
pub(super) async fn apart(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(3, &scene.worker())?;
    let load = scene.load(None, &Mix { bulk: 15, pause: Duration::from_millis(80), plan: long, ..Mix::usual() })?;
    let kills = scene.rounds(3, 100);
    for _ in 0..kills {
        // long enough for all to have seen each other
        let pause = scene.between(Duration::from_secs(4), Duration::from_secs(7));
        crew.work(pause).await?;
        let seat = scene.rng.usize(..crew.len());
        crew.kill(seat)?;
    }
    let end = Instant::now() + PATIENCE;
    while scene.number(STOPPED).await? < kills.into() && Instant::now() < end {
        crew.work(Duration::from_millis(50)).await?;
    }
    let told = scene.number(&format!("{STOPPED} AND stopped_at < heartbeat_at + INTERVAL '7' SECOND")).await?;
    let history = scene.judge(Some(load), crew).await?;
    let Some(spread) = Spread::of(Checker::new(&history).rescues()) else {
        bail!("no kill hit a running job: this shows nothing");
    };
    if told == 0 {
        bail!("{kills} kills, and not one was told by the end of a session: {spread}\n{}", scene.logs());
    }
    scene.note(format!("{kills} kills, {told} told by the session; from a kill to the next attempt's start: {spread}"));
    Ok(scene.notes)
}

/// P1, P5, P9, P21.
pub(super) async fn at_points(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    let healthy = scene.worker().lease(LEASE).concurrency(8);
    let mortal = crew.hire(healthy.clone())?;
    crew.hire(healthy.clone())?;
    let mix = Mix { pause: Duration::from_millis(60), ahead: Some(100), ..Mix::usual() };
    let load = scene.load(None, &mix)?;
    let rounds = scene.rounds(1, 50);
    for point in (0..rounds).flat_map(|_| Point::OF_ANY_JOB) {
        let time = scene.rng.u64(1..15);
        crew.next(mortal, healthy.clone().die(Moment { point, time }));
        crew.kill(mortal)?;
        crew.next(mortal, healthy.clone());
        let before = crew.ended();
        let end = Instant::now() + PATIENCE;
        while crew.ended() == before {
            if Instant::now() > end {
                bail!("no worker came to the point {point}:{time} within {PATIENCE:?}\n{}", scene.logs());
            }
            crew.work(Duration::from_millis(50)).await?;
        }
    }
    let history = scene.judge(Some(load), crew).await?;
    let rescues = Spread::of(Checker::new(&history).rescues()).map_or("none".into(), |it| it.to_string());
    scene.note(format!(
        "{} deaths at {} points; next attempts after {rescues} (lease {LEASE:?})",
        rounds * 4,
        Point::OF_ANY_JOB.len()
    ));
    Ok(scene.notes)
}

/// P11, P21.
pub(super) async fn the_only_claimer(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    let seat = crew.hire(scene.worker().lease(LEASE).concurrency(1).arg("queue", "ordered"))?;
    let plan = if ground.order.form == Form::Short { short } else { everyday };
    let mix = Mix { producers: 1, bulk: 15, plan, ordered: Some("ordered"), ..Mix::usual() };
    let load = scene.load(None, &mix)?;
    for _ in 0..scene.rounds(3, 60) {
        let pause = scene.between(Duration::from_millis(400), Duration::from_millis(900));
        crew.work(pause).await?;
        backlog(&mut scene).await?;
        crew.kill(seat)?;
    }
    let history = scene.judge(Some(load), crew).await?;
    let compared = Checker::new(&history).compared();
    if compared < BACKLOG {
        bail!("{compared} jobs began while others waited: this shows nothing");
    }
    scene.note(format!("{compared} jobs began while others waited"));
    Ok(scene.notes)
}

/// Jobs of several priorities that the next worker finds when it starts.
async fn backlog(scene: &mut Scene) -> Result<()> {
    for _ in 0..BACKLOG / 10 {
        let options = Options { ordered: true, priority: scene.rng.i16(-2..3), max_retries: 20, ..Options::default() };
        enqueue_batch(&scene.desk, &scene.db, vec![Plan::Ok { ms: 5 }; 10], options, Some("ordered")).await?;
    }
    Ok(())
}
