//! Handlers that damage their process.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use queue::Job as _;
use queue_test_support::{Engine, each};

use super::Ground;
use crate::checker::Checker;
use crate::crew::Mortal;
use crate::jobs::{Limited, Plan};
use crate::load::{Mix, enqueue_batch};
use crate::record::{Options, What};
use crate::scene::{LEASE, Scene};

/// P1, P9.
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

/// One job that kills its process, among others that run longer.
struct Killer {
    plan: Plan,
    mortal: Mortal,
    retries: i64,
    /// Retries of the other jobs.
    others: i64,
}

/// P9, P24.
pub(super) async fn aborts_in_a_crowd(ground: &Ground) -> Result<Vec<String>> {
    let killer = Killer { plan: Plan::Abort, mortal: Mortal::aborts(), retries: 3, others: 3 };
    in_a_crowd(ground, killer).await
}

/// P9, P24.
pub(super) async fn aborts_stubbornly(ground: &Ground) -> Result<Vec<String>> {
    // some while after it began, so that the others are known to run; and they have fewer retries than it
    let plan = Plan::Late { ms: 300, then: Box::new(Plan::Abort) };
    in_a_crowd(ground, Killer { plan, mortal: Mortal::aborts(), retries: 4, others: 2 }).await
}

/// P9, P24.
pub(super) async fn eats_in_a_crowd(ground: &Ground) -> Result<Vec<String>> {
    let killer = Killer { plan: Plan::EatAll, mortal: Mortal::starves(), retries: 3, others: 3 };
    in_a_crowd(ground, killer).await
}

/// The killer becomes a dead letter, all others complete, and none of them loses an attempt that never began.
async fn in_a_crowd(ground: &Ground, killer: Killer) -> Result<Vec<String>> {
    const CROWD: usize = 99;
    let mut scene = ground.scene().await?;
    let mut plans: Vec<Plan> = (0..CROWD).map(|_| Plan::Ok { ms: 1000 }).collect();
    let options = Options { max_retries: killer.others, ..Options::default() };
    let others = plans.split_off(CROWD / 3);
    let batch = async |scene: &Scene, plans, options: &Options| {
        enqueue_batch(&scene.desk, &scene.db, plans, options.clone(), None).await
    };
    batch(&scene, plans, &options).await?;
    let tags = batch(&scene, vec![killer.plan], &Options { max_retries: killer.retries, ..Options::default() }).await?;
    batch(&scene, others, &options).await?;
    let mut crew = scene.crew();
    let worker = scene.worker().lease(LEASE).concurrency(32).arg("memory-mb", 1024).mortal(killer.mortal);
    crew.hire_many(3, &worker)?;
    let is_dead = format!("SELECT COUNT(*) FROM queue_dead WHERE args LIKE '%\"tag\":{},%'", tags[0]);
    let is_dead =
        is_dead.replace("args LIKE", if ground.engine == Engine::Postgres { "args::text LIKE" } else { "args LIKE" });
    let began = Instant::now();
    while scene.number(&is_dead).await? == 0 {
        if began.elapsed() > Duration::from_secs(150) {
            bail!("the job that kills its process is no dead letter\n{}", scene.logs());
        }
        crew.work(Duration::from_millis(50)).await?;
    }
    let (died, ended) = (Instant::now(), crew.ended());
    // at full rate, all slots of all workers are in use again
    let full = 3 * 32;
    let plans = (0..full * 3).map(|_| Plan::Ok { ms: 1000 }).collect();
    batch(&scene, plans, &options).await?;
    let running = "SELECT COUNT(*) FROM queue_jobs WHERE worker_id <> 0";
    while scene.number(running).await? < full && died.elapsed() < Duration::from_secs(60) {
        crew.work(Duration::from_millis(50)).await?;
    }
    let full_after = died.elapsed().as_secs_f64();
    let history = scene.judge(None, crew).await?;
    let dead = scene.number("SELECT COUNT(*) FROM queue_dead").await?;
    if dead != 1 {
        bail!("{dead} dead letters, not the one that kills its process\n{}", scene.logs());
    }
    let checker = Checker::new(&history);
    let charged = checker.charged_unstarted();
    if !charged.is_empty() {
        bail!("jobs {charged:?} lost an attempt that never began\n{}", scene.logs());
    }
    let starts = checker.starts_of(tags[0]);
    if starts != usize::try_from(killer.retries)? + 1 {
        bail!("it began {starts} times, with {} retries", killer.retries);
    }
    scene.note(format!("{ended} processes ended in {:.1} s", (died - began).as_secs_f64()));
    scene.promise("all slots at work again", &format!("{full_after:.1} s"), full_after, 30.0)?;
    Ok(scene.notes)
}

/// P6, P30.
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

/// P1, P9.
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
