//! Network faults between the workers and the server.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use queue_test_support::{Engine, Proxy};
use tokio::time::sleep;

use super::Ground;
use crate::figures::Spread;
use crate::jobs::Plan;
use crate::load::{Mix, enqueue_batch};
use crate::record::{self, How, Options, What, now};
use crate::scene::Scene;

/// The promise for jobs whose worker silently loses its network.
const ELSEWHERE_WITHIN: f64 = 15.0;
/// Time limit for what takes seconds, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn proxy(ground: &Ground, scene: &Scene) -> (Proxy, String) {
    let proxy = Proxy::start(ground.engine, scene.url()).await;
    let url = proxy.url(scene.url());
    (proxy, url)
}

/// P23.
pub(super) async fn cut(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let (mut proxy, url) = proxy(ground, &scene).await;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().url(&url))?;
    crew.ready().await?;
    let load = scene.load(Some(&url), &Mix::usual())?;
    let cuts = scene.rounds(4, 100);
    for _ in 0..cuts {
        let pause = scene.between(Duration::from_millis(500), Duration::from_millis(1000));
        crew.work(pause).await?;
        proxy.cut().await;
        let pause = scene.between(Duration::from_millis(100), Duration::from_millis(1000));
        crew.work(pause).await?;
        proxy.heal().await;
    }
    scene.judge(Some(load), crew).await?;
    scene.note(format!("{cuts} cuts"));
    Ok(scene.notes)
}

/// P21.
pub(super) async fn half_open(ground: &Ground) -> Result<Vec<String>> {
    const LATE: usize = 4;
    let mut scene = ground.scene().await?;
    let jobs = scene.jobs(12, 12);
    // a worker has room for all of them
    let room = u32::try_from(jobs + LATE)?;
    let mut delays = Vec::new();
    let mut in_transactions = 0;
    for _ in 0..scene.rounds(1, 20) {
        let (mut proxy, url) = proxy(ground, &scene).await;
        let mut crew = scene.crew();
        let cut_off = crew.hire(scene.worker().url(&url).concurrency(room))?;
        let options = Options { max_retries: 20, ..Options::default() };
        // none of them ends before the network does, however slow the machine is
        let plans = vec![Plan::Ignore { ms: 300_000 }; jobs];
        let tags = enqueue_batch(&scene.desk, &scene.db, plans, options.clone(), None).await?;
        let began = async |scene: &Scene| Ok((starts(scene, &tags, None)?.len() == jobs).then_some(()));
        scene.wait("all jobs run", PATIENCE, began).await?;
        // else they begin anew as their first attempt, in which they last for minutes
        let noted = async |scene: &Scene| {
            let noted =
                scene.number("SELECT COUNT(*) FROM queue_jobs WHERE worker_id <> 0 AND started_fence = fence").await?;
            Ok((usize::try_from(noted)? >= jobs).then_some(()))
        };
        scene.wait("the database knows that they run", PATIENCE, noted).await?;
        let process = crew.pid(cut_off).context("a running worker")?;
        // The last that the server hears of it is a transaction without an end, where jobs are claimed in one.
        proxy.hold_next_commit();
        let late = enqueue_batch(&scene.desk, &scene.db, vec![Plan::Ok { ms: 1 }; LATE], options, None).await?;
        let claimed = async |scene: &Scene| {
            Ok((proxy.holds_a_commit() || starts(scene, &late, None)?.len() >= LATE).then_some(()))
        };
        scene.wait("the last jobs are claimed", PATIENCE, claimed).await?;
        let in_transaction = proxy.holds_a_commit();
        ensure!(in_transaction || ground.engine == Engine::Postgres, "no commit was held");
        in_transactions += u32::from(in_transaction);
        proxy.freeze();
        let frozen = now();
        crew.hire(scene.worker().concurrency(room))?;
        let elsewhere = async |scene: &Scene| {
            let (first, late) = (starts(scene, &tags, Some(process))?, starts(scene, &late, None)?);
            Ok((first.len() >= jobs && late.len() >= LATE).then(|| [first, late].concat()))
        };
        let found = scene.wait("all jobs run elsewhere", PATIENCE, elsewhere).await?;
        delays.extend(found.into_iter().map(|at| at - frozen).filter(|after| *after > 0));
        proxy.heal().await;
        scene.judge(None, crew).await?;
    }
    let spread = Spread::of(delays).context("no job ran elsewhere")?;
    scene.promise("from the last packet to the start elsewhere", &spread, spread.max(), ELSEWHERE_WITHIN)?;
    scene.note(format!("{in_transactions} in the middle of a transaction"));
    Ok(scene.notes)
}

/// The starts of these jobs in all processes except one.
fn starts(scene: &Scene, tags: &[i64], but: Option<i64>) -> Result<Vec<i64>> {
    let events = record::read(scene.folder())?;
    let starts = events.iter().filter(|event| match event.what {
        What::Started { tag, .. } => tags.contains(&tag) && Some(event.process) != but,
        _ => false,
    });
    Ok(starts.map(|event| event.at).collect())
}

/// P1, P4.
pub(super) async fn delay(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let (proxy, url) = proxy(ground, &scene).await;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().url(&url))?;
    crew.ready().await?;
    let load = scene.load(Some(&url), &Mix::usual())?;
    crew.work(Duration::from_millis(500)).await?;
    proxy.delay(Duration::from_millis(200));
    let time = scene.span(Duration::from_secs(4), Duration::from_secs(120));
    crew.work(time).await?;
    let history = scene.judge(Some(load), crew).await?;
    let ends = history.events.iter().filter(|it| matches!(it.what, What::Ended { how: How::Ok, .. })).count();
    scene.note(format!("{ends} handlers ended well"));
    Ok(scene.notes)
}

/// P3, P10.
pub(super) async fn stall(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let (proxy, url) = proxy(ground, &scene).await;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().url(&url))?;
    crew.ready().await?;
    let load = scene.load(Some(&url), &Mix { producers: 4, ..Mix::usual() })?;
    for round in 0..u64::from(scene.rounds(4, 100)) {
        let pause = scene.between(Duration::from_millis(100), Duration::from_millis(600));
        crew.work(pause).await?;
        proxy.stall_next_commit();
        let end = std::time::Instant::now() + PATIENCE;
        while proxy.stalled() <= round {
            if std::time::Instant::now() > end {
                bail!("no commit came by");
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
    // until those who wait for an answer have given up
    crew.work(Duration::from_secs(2)).await?;
    let history = scene.judge(Some(load), crew).await?;
    let unknown = history.events.iter().filter(|event| matches!(event.what, What::Unknown { .. })).count();
    scene.note(format!("{} replies stopped midway, {unknown} of them to producers", proxy.stalled()));
    Ok(scene.notes)
}
