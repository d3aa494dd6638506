//! Unique jobs, while the processes that enqueue and run them are killed and suspended.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use queue::Job as _;
use queue::unique::UniqueUntil;
use queue_test_support::{Db, each};
use sqlx::AssertSqlSafe;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Ground;
use crate::checker::{History, Keyed, Sighting, UniqueHistory};
use crate::crew::Crew;
use crate::jobs::{Plan, Work};
use crate::producers::end_of_work;
use crate::record::{Tail, What};
use crate::scene::{Form, LEASE, LOOK, Scene};
use crate::timetable::micros;

/// Between two looks at all keys.
const BLINK: Duration = Duration::from_millis(20);
/// Fewer looks than this show nothing.
const LOOKS: usize = 50;
/// The most violations that are told.
const TOLD: usize = 30;

/// P15, P16, P17.
pub(super) async fn one_holder(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let short = ground.order.form == Form::Short;
    // processes that enqueue and run jobs, and producers in each
    let (processes, producers, keys) = if short { (3, 4, 100) } else { (4, 8, 1000) };
    let worker = scene.worker().lease(LEASE).concurrency(8);
    let worker = worker.arg("producers", producers).arg("keys", keys).arg("seed", ground.order.seed);
    let mut crew = scene.crew();
    crew.hire_many(processes, &worker)?;
    crew.ready().await?;
    let watch = Watch::start(&scene.db);
    let mut progress = Progress::default();
    let (jobs, rounds) = (scene.jobs(1500, 100_000), scene.rounds(4, 60));
    for round in 0..rounds {
        // spread over all the requests
        let due = jobs as f64 * f64::from(round) / f64::from(rounds);
        while (progress.asked(&scene)? as f64) < due {
            crew.work(LOOK * 3).await?;
        }
        let pause = scene.between(Duration::from_millis(100), Duration::from_millis(500));
        crew.work(pause).await?;
        let seat = scene.rng.usize(..crew.len());
        if round % 2 == 0 {
            crew.kill(seat)?;
            continue;
        }
        let pause = scene.between(LEASE.mul_f64(1.05), LEASE.mul_f64(1.5));
        crew.pause(seat, true);
        crew.work(pause).await?;
        crew.pause(seat, false);
    }
    while progress.asked(&scene)? < jobs {
        crew.work(LOOK * 3).await?;
    }
    end_producers(&scene, &mut crew, &mut progress).await?;
    let history = scene.judge(None, crew).await?;
    let watched = watch.stop().await?;
    sees_what_is_planted(&scene).await?;
    let note = judge(&scene, &history, watched).await?;
    scene.note(format!("{rounds} kills and suspensions; {} requests: {note}", progress.asked));
    Ok(scene.notes)
}

/// How far the producers are.
#[derive(Default)]
struct Progress {
    tail: Tail,
    asked: usize,
    /// The processes whose producers have ended.
    ended: HashSet<i64>,
}

impl Progress {
    /// How many jobs were asked for so far.
    fn asked(&mut self, scene: &Scene) -> Result<usize> {
        let Progress { tail, asked, ended } = self;
        tail.follow(scene.folder(), |event| match &event.what {
            What::Asked { tags, .. } => *asked += tags.len(),
            What::Produced => drop(ended.insert(event.process)),
            _ => {}
        })?;
        Ok(self.asked)
    }
}

/// Ends the producers of all processes, which run jobs until there are none left.
async fn end_producers(scene: &Scene, crew: &mut Crew, progress: &mut Progress) -> Result<()> {
    fs::write(end_of_work(scene.folder()), "").context("ending the producers")?;
    let goes_on = |crew: &Crew, progress: &Progress| {
        (0..crew.len()).any(|seat| crew.pid(seat).is_none_or(|process| !progress.ended.contains(&process)))
    };
    while goes_on(crew, progress) {
        crew.work(LOOK * 3).await?;
        progress.asked(scene)?;
    }
    Ok(())
}

/// Looks at who has each key, many times a second.
struct Watch {
    over: Arc<AtomicBool>,
    task: JoinHandle<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    looks: usize,
    /// The most keys that were held at once.
    keys: usize,
    sightings: Vec<Sighting>,
}

impl Watch {
    fn start(db: &Db) -> Watch {
        let over: Arc<AtomicBool> = Arc::default();
        let (db, stop) = (db.clone(), over.clone());
        let task = tokio::spawn(async move {
            let mut watched = Watched::default();
            while !stop.load(Ordering::Relaxed) {
                match look(&db).await {
                    Ok(holders) => {
                        watched.looks += 1;
                        watched.keys = watched.keys.max(holders.len());
                        let several = holders.into_iter().filter(|it| it.count > 1);
                        let unseen = several.filter(|it| !watched.sightings.contains(it));
                        let unseen: Vec<_> = unseen.collect();
                        watched.sightings.extend(unseen);
                    }
                    // a process that was killed may have left the file locked
                    Err(error) => tracing::debug!(%error, "a look failed"),
                }
                sleep(BLINK).await;
            }
            watched
        });
        Watch { over, task }
    }

    async fn stop(self) -> Result<Watched> {
        self.over.store(true, Ordering::Relaxed);
        let watched = self.task.await.context("the watcher")?;
        ensure!(watched.looks >= LOOKS, "{} looks at the keys: this shows nothing", watched.looks);
        ensure!(watched.keys > 0, "no key was held at any look: this shows nothing");
        Ok(watched)
    }
}

/// The holders of all keys, in one snapshot: those that are not over, and of those until the start, were never claimed.
async fn look(db: &Db) -> Result<Vec<Sighting>> {
    let sql = "SELECT n.unique_key, COUNT(*), MIN(n.job_id), MAX(n.job_id)
               FROM queue_jobs AS j JOIN queue_unique_jobs AS n ON n.job_id = j.id
               WHERE n.held_until = 'end' OR j.fence = 0
               GROUP BY n.kind, n.unique_key";
    let rows: Vec<(String, i64, i64, i64)> = each!(db, pool => sqlx::query_as(sql).fetch_all(pool).await)?;
    Ok(rows.into_iter().map(|(key, count, first, last)| Sighting { key, count, jobs: [first, last] }).collect())
}

/// A look finds two jobs that have one key, which only a person can bring about.
async fn sees_what_is_planted(scene: &Scene) -> Result<()> {
    for (number, until) in [UniqueUntil::End, UniqueUntil::Start].into_iter().enumerate() {
        let mut ids = Vec::new();
        for key in ["one", "two"] {
            let job = Work { tag: -1, plan: Plan::Dead }.unique_key(format!("{key}-{number}")).unique_until(until);
            ids.push(each!(&scene.db, pool => job.enqueue(pool).await)?.get());
        }
        let key = format!("planted-{number}");
        let [first, last] = [ids[0], ids[1]];
        let sql = format!("UPDATE queue_unique_jobs SET unique_key = '{key}' WHERE job_id IN ({first}, {last})");
        scene.execute(&sql).await?;
        let planted = Sighting { key, count: 2, jobs: [first, last] };
        ensure!(look(&scene.db).await?.contains(&planted), "a look does not find {planted:?}");
        scene.execute(&format!("DELETE FROM queue_unique_jobs WHERE job_id IN ({first}, {last})")).await?;
        scene.execute(&format!("DELETE FROM queue_jobs WHERE id IN ({first}, {last})")).await?;
    }
    Ok(())
}

/// Runs the checker. Returns figures.
async fn judge(scene: &Scene, history: &History, watched: Watched) -> Result<String> {
    let Watched { looks, keys, sightings } = watched;
    let keyed = keyed(scene).await.context("reading the keys of jobs")?;
    let unique = UniqueHistory { history, keyed, sightings };
    let violations = unique.violations();
    if !violations.is_empty() {
        let mut text = String::new();
        for violation in violations.iter().take(TOLD) {
            let _ = writeln!(text, "{violation}");
        }
        bail!("{} violations\n{text}{}", violations.len(), scene.logs());
    }
    let new = unique.answers().filter(|(_, request)| request.new).count();
    let kept = unique.answers().count() - new;
    let waited = unique.kept_waiting();
    ensure!(new > 0 && kept > waited && waited > 0, "{new} new, {kept} kept, {waited} waited: this shows nothing");
    let (mut undone, mut unknown, mut lost) = (0, 0, 0);
    for event in &history.events {
        match &event.what {
            What::RolledBack { tags } => undone += tags.len(),
            What::Unknown { tags } => unknown += tags.len(),
            What::LeaseLost => lost += 1,
            _ => {}
        }
    }
    // those that were kept are on record as rolled back, too
    let undone = undone - kept;
    ensure!(undone > 0, "nothing was rolled back: this shows nothing");
    Ok(format!(
        "{new} new, {kept} kept ({waited} of them until the start), {undone} rolled back, {unknown} unknown; {lost} leases lost; {looks} looks at up to \
         {keys} keys"
    ))
}

/// The keys of all jobs, and when they ended.
async fn keyed(scene: &Scene) -> Result<Vec<Keyed>> {
    let Scene { db, engine, .. } = scene;
    let sql = AssertSqlSafe(format!(
        "SELECT n.job_id, n.unique_key, n.held_until, {} FROM queue_unique_jobs AS n LEFT JOIN (
             SELECT id, finished_at FROM queue_history UNION ALL SELECT id, finished_at FROM queue_dead
         ) AS e ON e.id = n.job_id",
        micros(*engine, "e.finished_at")
    ));
    let rows: Vec<(i64, String, String, Option<i64>)> = each!(db, pool => sqlx::query_as(sql).fetch_all(pool).await)?;
    let until = |word: &str| if word == "start" { UniqueUntil::Start } else { UniqueUntil::End };
    Ok(rows.into_iter().map(|(job, key, held, ended)| Keyed { job, key, until: until(&held), ended }).collect())
}
