//! Handlers that harm their process.

use std::time::Duration;

use anyhow::{Result, bail};
use queue::Job as _;
use queue_test_support::each;

use super::Ground;
use crate::crew::Mortal;
use crate::jobs::{Limited, Plan};
use crate::load::{Mix, enqueue_batch};
use crate::record::{Options, What};
use crate::scene::{LEASE, Scene};

pub(super) async fn aborts(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().lease(LEASE).mortal(Mortal::aborts()))?;
    let load = scene.load(None, &Mix::usual())?;
    crew.work(Duration::from_millis(500)).await?;
    let count = scene.rounds(2, 50);
    // ahead of what else waits
    let options = Options { max_retries: 1, priority: -9, ..Options::default() };
    let plans = (0..count).map(|_| Plan::Abort).collect();
    let tags = enqueue_batch(&scene.desk, &scene.db, plans, options, None).await?;
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while scene.number("SELECT COUNT(*) FROM queue_dead").await? < tags.len() as i64 && std::time::Instant::now() < end
    {
        crew.work(Duration::from_millis(100)).await?;
    }
    let ended = crew.ended();
    scene.judge(Some(load), crew).await?;
    let dead = scene.number("SELECT COUNT(*) FROM queue_dead WHERE error LIKE '%lost%'").await?;
    if dead != tags.len() as i64 {
        bail!("{dead} of {} jobs that abort their process are dead letters that say so\n{}", tags.len(), scene.logs());
    }
    scene.note(format!("{} jobs took {ended} processes along, and are dead letters", tags.len()));
    Ok(scene.notes)
}

pub(super) async fn blocks(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().arg("cancel-grace-ms", 300))?;
    let load = scene.load(None, &Mix::usual())?;
    crew.work(Duration::from_millis(500)).await?;
    for _ in 0..scene.rounds(1, 20) {
        // the last one is dropped, however late the others let its time limit be noticed
        for plan in [Plan::Block { ms: 4000 }, Plan::Spin { ms: 3500 }, Plan::Ignore { ms: 60_000 }] {
            limited(&scene, plan).await?;
        }
        crew.work(Duration::from_millis(4500)).await?;
    }
    let history = scene.judge(Some(load), crew).await?;
    let dropped = history.tables.attempts.values().flatten().filter(|it| it.outcome == "timed_out").count();
    if dropped == 0 {
        bail!("no attempt ran out of time: this shows nothing");
    }
    scene.note(format!("{dropped} attempts ran out of time"));
    Ok(scene.notes)
}

async fn limited(scene: &Scene, plan: Plan) -> Result<()> {
    let tag = scene.desk.tags.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let options = Options { max_retries: 3, priority: -9, blocking: true, ..Options::default() };
    scene.desk.journal.write(What::Asked { tags: vec![tag], options });
    each!(&scene.db, pool => Limited { tag, plan }.max_retries(3).priority(-9).enqueue(pool).await)?;
    scene.desk.commit(vec![tag]);
    Ok(())
}

pub(super) async fn eats(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().lease(LEASE).arg("memory-mb", 1024).mortal(Mortal::starves()))?;
    let load = scene.load(None, &Mix::usual())?;
    crew.work(Duration::from_millis(500)).await?;
    let count = scene.rounds(2, 20);
    let options = Options { max_retries: 5, priority: -9, ..Options::default() };
    for _ in 0..count {
        let before = crew.ended();
        enqueue_batch(&scene.desk, &scene.db, vec![Plan::Eat], options.clone(), None).await?;
        let end = std::time::Instant::now() + Duration::from_secs(90);
        while crew.ended() == before {
            if std::time::Instant::now() > end {
                bail!("no process ran out of memory\n{}", scene.logs());
            }
            crew.work(Duration::from_millis(50)).await?;
        }
    }
    let ended = crew.ended();
    scene.judge(Some(load), crew).await?;
    scene.note(format!("{ended} processes ran out of memory"));
    Ok(scene.notes)
}
