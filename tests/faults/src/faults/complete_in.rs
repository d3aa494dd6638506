//! Handlers commit their effects together with the completion, while their processes are killed and suspended around
//! that commit.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use queue_test_support::{Db, Engine, Tables, each};
use sqlx::AssertSqlSafe;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Ground;
use crate::checker::{Effect, EffectHistory, EffectRule, Step};
use crate::crew::{Crew, Setup};
use crate::effects::{Deal, EFFECTS, STEPS, enqueue, make_tables};
use crate::load::Desk;
use crate::point::{Moment, Point};
use crate::record::{Event, Tail, What};
use crate::scene::{LEASE, LOOK, Scene};

/// Processes that kill themselves, in the first seats. One more suspends itself, and one lives on. Only the last has run
/// for a whole lease, so it can notice that the suspended one is gone.
const MORTALS: usize = 2;
/// Jobs at a time in each process.
const CONCURRENCY: u32 = 4;
/// Connections of each process: the worker's own, and one for each handler.
const CONNECTIONS: u32 = 6 + CONCURRENCY;
/// The producer pauses while more jobs than this are open.
const AHEAD: i64 = 60;
/// Jobs of a batch.
const BATCH: usize = 20;
/// The producer's pause.
const PAUSE: Duration = Duration::from_millis(60);
/// Kills for each suspension.
const KILLS_PER_STOP: usize = 20;
/// How much longer a process sleeps to be overtaken. It may never be: one that sleeps in a transaction of its worker's
/// holds the locks of that.
const PATIENCE: Duration = LEASE;
/// How long SQLite waits for a lock. The process that sleeps may hold it.
const BUSY_MS: u32 = 10_000;
/// The most violations that are told.
const TOLD: usize = 30;

/// P18, P19, P20.
pub(super) async fn one_effect(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    make_tables(&scene.db).await?;
    let worker = scene.worker().lease(LEASE).concurrency(CONCURRENCY).arg("connections", CONNECTIONS);
    let worker = worker.arg("busy-timeout-ms", BUSY_MS);
    let kills = scene.rounds(12, 500) as usize;
    let stops = (kills / KILLS_PER_STOP).max(2);
    let mut crew = scene.crew();
    for _ in 0..MORTALS {
        crew.hire(dies(&worker, &mut scene.rng))?;
    }
    crew.hire(worker.clone())?;
    let mut stopper = Stopper::hire(&mut crew, &worker, &mut scene, stops)?;
    let producer = Producer::start(&scene.desk, &scene.db, scene.rng.fork());
    let mut processes = [None; MORTALS];
    let jobs = scene.jobs(120, 5000);
    while crew.ended() < kills || !stopper.is_over() || scene.desk.committed.load(Ordering::Relaxed) < jobs {
        crew.work(LOOK).await?;
        for (seat, process) in processes.iter_mut().enumerate() {
            if *process != crew.pid(seat) {
                *process = crew.pid(seat);
                crew.next(seat, dies(&worker, &mut scene.rng));
            }
        }
        stopper.tend(&mut crew, &worker, &mut scene)?;
    }
    producer.stop().await?;
    let died = crew.ended();
    // those that are left are to live
    for seat in 0..crew.len() {
        crew.next(seat, worker.clone());
        crew.kill(seat)?;
    }
    let judged = scene.judge(None, crew).await;
    let figures = judge(&scene, &scene.db.tables().await).await;
    let (history, figures) = match (judged, figures) {
        (Err(one), Err(other)) => bail!("{other:#}\n{one:#}"),
        (judged, figures) => (judged?, figures?),
    };
    sees_what_is_planted(&scene, &history.tables).await?;
    let count = |what: fn(&What) -> bool| history.events.iter().filter(|event| what(&event.what)).count();
    let (refused, lost) = (count(|it| matches!(it, What::Refused { .. })), count(|it| *it == What::LeaseLost));
    let Stopper { done, overtaken, .. } = stopper;
    ensure!(overtaken > 0 && lost > 0, "{done} stops, {overtaken} overtaken, {lost} leases lost: this shows nothing");
    scene.note(format!(
        "{died} kills, {done} stops ({overtaken} overtaken, {lost} leases lost, {refused} attempts refused): {figures}"
    ));
    Ok(scene.notes)
}

/// A worker that kills itself somewhere around a commit.
fn dies(worker: &Setup, rng: &mut Rng) -> Setup {
    let point = Point::OF_EFFECTS[rng.usize(..Point::OF_EFFECTS.len())];
    worker.clone().die(Moment { point, time: rng.u64(1..=6) })
}

/// Where a process holds no lock that keeps its jobs from being rescued.
fn free(engine: Engine) -> &'static [Point] {
    if engine == Engine::Sqlite { &[Point::Begun] } else { &[Point::Begun, Point::Effects] }
}

/// Where it may hold such a lock.
fn locked(engine: Engine) -> &'static [Point] {
    if engine == Engine::Sqlite {
        &[Point::Guarded, Point::Effects, Point::Completed, Point::Commit, Point::Recording]
    } else {
        &[Point::Guarded, Point::Completed, Point::Commit, Point::Recording]
    }
}

/// The process that suspends itself, until its lease is over.
struct Stopper {
    seat: usize,
    planned: usize,
    done: usize,
    /// How often another process began a job again that the suspended one ran.
    overtaken: usize,
    tail: Tail,
    /// The jobs that run, by process.
    running: HashMap<i64, HashSet<i64>>,
    state: State,
}

enum State {
    /// It works.
    Awake,
    Asleep(Sleep),
    /// It works again, until then.
    Late(Instant),
}

struct Sleep {
    process: i64,
    /// What it ran.
    tags: HashSet<i64>,
    overtaken: bool,
    until: Instant,
}

impl Stopper {
    fn hire(crew: &mut Crew, worker: &Setup, scene: &mut Scene, planned: usize) -> Result<Stopper> {
        let seat = crew.hire(stops(worker, scene, 0))?;
        let (tail, running) = (Tail::default(), HashMap::new());
        Ok(Stopper { seat, planned, done: 0, overtaken: 0, tail, running, state: State::Awake })
    }

    /// Not before one was overtaken: jobs that were lost twice wait before they run again.
    fn is_done(&self) -> bool {
        self.done >= self.planned && (self.overtaken > 0 || self.done >= self.planned * 8)
    }

    /// The last one has had its time, too.
    fn is_over(&self) -> bool {
        self.is_done() && matches!(self.state, State::Awake)
    }

    /// Wakes it in time, and replaces it when it has had time to do what it must not.
    fn tend(&mut self, crew: &mut Crew, worker: &Setup, scene: &mut Scene) -> Result<()> {
        self.watch(scene)?;
        let now = Instant::now();
        match &self.state {
            State::Asleep(sleep) => {
                // one that can be overtaken is left to be, and finds the other attempt at work
                let due = if is_free(self.done) {
                    sleep.overtaken || now > sleep.until + PATIENCE
                } else {
                    now > sleep.until
                };
                if !due {
                    return Ok(());
                }
                ensure!(crew.pid(self.seat) == Some(sleep.process), "the wrong process is suspended");
                crew.pause(self.seat, false);
                self.overtaken += usize::from(sleep.overtaken);
                self.done += 1;
                self.state = State::Late(now + scene.between(LEASE.mul_f64(0.2), LEASE.mul_f64(0.4)));
            }
            State::Late(until) if *until < now => {
                let next = if self.is_done() { worker.clone() } else { stops(worker, scene, self.done) };
                crew.next(self.seat, next);
                crew.kill(self.seat)?;
                self.state = State::Awake;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads in the record whether it sleeps, and what became of its jobs meanwhile.
    fn watch(&mut self, scene: &mut Scene) -> Result<()> {
        let Stopper { tail, running, state, .. } = self;
        let mut slept = None;
        tail.follow(scene.folder(), |event| {
            note(running, event);
            match (&event.what, &mut *state) {
                (What::Stopped, State::Awake) => slept = Some(event.process),
                (What::Started { tag, .. }, State::Asleep(sleep)) if event.process != sleep.process => {
                    sleep.overtaken |= sleep.tags.contains(tag);
                }
                _ => {}
            }
        })?;
        if let Some(process) = slept {
            let tags = running.get(&process).cloned().unwrap_or_default();
            let until = Instant::now() + scene.between(LEASE.mul_f64(1.05), LEASE.mul_f64(1.6));
            *state = State::Asleep(Sleep { process, tags, overtaken: false, until });
        }
        Ok(())
    }
}

fn is_free(number: usize) -> bool {
    number.is_multiple_of(2)
}

/// A worker that suspends itself somewhere around a commit.
fn stops(worker: &Setup, scene: &mut Scene, number: usize) -> Setup {
    // beside it, another handler of the process may hold the lock of the file
    let concurrency = if scene.engine == Engine::Sqlite { 1 } else { CONCURRENCY };
    let points = if is_free(number) { free(scene.engine) } else { locked(scene.engine) };
    let point = points[scene.rng.usize(..points.len())];
    worker.clone().concurrency(concurrency).stop(Moment { point, time: scene.rng.u64(1..=4) })
}

fn note(running: &mut HashMap<i64, HashSet<i64>>, event: &Event) {
    match event.what {
        What::Started { tag, .. } => drop(running.entry(event.process).or_default().insert(tag)),
        What::Ended { tag, .. } => drop(running.entry(event.process).or_default().remove(&tag)),
        _ => {}
    }
}

/// Enqueues deals. A task of its own: on SQLite it waits for a suspended process, which the fault has to wake.
struct Producer {
    over: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Producer {
    fn start(desk: &Desk, db: &Db, mut rng: Rng) -> Producer {
        let over: Arc<AtomicBool> = Arc::default();
        let (desk, db, stop) = (desk.clone(), db.clone(), over.clone());
        let task = tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                if db.count("queue_jobs").await < AHEAD {
                    let deals = (0..BATCH).map(|_| Deal::any(&mut rng)).collect();
                    // whoever gets an error does not know whether they are there, and the checker accepts both
                    if let Err(error) = enqueue(&desk, &db, deals).await {
                        tracing::debug!(%error, "an enqueue failed");
                    }
                }
                sleep(PAUSE).await;
            }
        });
        Producer { over, task }
    }

    async fn stop(self) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        self.task.await.context("the producer")
    }
}

/// Runs the checker. Returns figures.
async fn judge(scene: &Scene, tables: &Tables) -> Result<String> {
    let history = look(scene, tables).await?;
    let violations = history.violations();
    if !violations.is_empty() {
        let mut text = String::new();
        for violation in violations.iter().take(TOLD) {
            let _ = writeln!(text, "{violation}");
        }
        bail!("{} violations\n{text}{}", violations.len(), scene.logs());
    }
    let ((completed, not), follow_ups) = (history.ends(), history.follow_ups());
    let (effects, steps) = (history.effects.len(), history.steps.len());
    let undone = scene.number("SELECT COUNT(*) FROM queue_attempts WHERE error LIKE '%was not committed%'").await?;
    let figures = format!(
        "{completed} completed, {not} not, {effects} effects, {follow_ups} follow-ups, {steps} steps, {undone} \
         without a commit"
    );
    ensure!(completed > 0 && not > 0 && follow_ups > 0 && steps > 0 && undone > 0, "{figures}: this shows nothing");
    Ok(figures)
}

/// All effects and steps.
async fn look<'a>(scene: &Scene, tables: &'a Tables) -> Result<EffectHistory<'a>> {
    let pairs = async |sql: String| -> Result<Vec<(i64, i64)>> {
        let sql = AssertSqlSafe(sql);
        Ok(each!(&scene.db, pool => sqlx::query_as(sql).fetch_all(pool).await)?)
    };
    let effects = pairs(format!("SELECT job, attempt FROM {EFFECTS}")).await.context("reading the effects")?;
    let effects = effects.into_iter().map(|(job, attempt)| Effect { job, attempt }).collect();
    let steps = pairs(format!("SELECT job, step FROM {STEPS}")).await.context("reading the steps")?;
    let steps = steps.into_iter().map(|(job, step)| Step { job, step }).collect();
    Ok(EffectHistory { tables, effects, steps })
}

/// A look finds an effect that is missing, and one that is there twice.
async fn sees_what_is_planted(scene: &Scene, tables: &Tables) -> Result<()> {
    let job = scene.number(&format!("SELECT MIN(job) FROM {EFFECTS}")).await?;
    let attempt = scene.number(&format!("SELECT attempt FROM {EFFECTS} WHERE job = {job}")).await?;
    let remove = format!("DELETE FROM {EFFECTS} WHERE job = {job}");
    let add = format!("INSERT INTO {EFFECTS} (job, attempt) VALUES ({job}, {attempt})");
    for (now, rule) in [(&remove, Some(EffectRule::NoEffect)), (&add, None), (&add, Some(EffectRule::TwoEffects))] {
        scene.execute(now).await?;
        let Some(rule) = rule else { continue };
        let found = look(scene, tables).await?.violations();
        ensure!(found.iter().any(|it| it.rule == rule && it.job == job), "a look does not find {rule:?} of job {job}");
    }
    scene.execute(&remove).await?;
    scene.execute(&add).await
}
