//! A long transaction holds an old snapshot while the workers run at full load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use queue_test_support::Engine;

use super::Ground;
use super::lock::session;
use crate::checker::History;
use crate::crew::Crew;
use crate::load::{enqueue_batch, short};
use crate::order::Form;
use crate::record::{Options, Tail, What, now};
use crate::scene::Scene;

/// Least number of waiting jobs, so that the workers limit the rate of starts.
const BACKLOG: usize = 4000;
/// The promised rate of starts at the end, as a share of that at the start.
const KEPT: f64 = 0.9;
/// The number of parts into which the time is divided.
const PARTS: usize = 20;
/// The number of parts that count as the start and as the end. The very first part is skipped: the backlog still grows.
const COMPARED: usize = 3;

/// P24.
pub(super) async fn old(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    crew.ready().await?;
    let begin: &[&str] = match ground.engine {
        Engine::Postgres => &["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM queue_jobs"],
        _ => &["SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"],
    };
    let time = scene.span(Duration::from_secs(6), Duration::from_secs(600));
    let (none, over, from) = (Duration::ZERO, AtomicBool::new(false), now());
    let snapshot = async {
        let held = session(&scene, &[(begin[0], none), (begin[1], time), ("ROLLBACK", none)]).await;
        over.store(true, Ordering::Relaxed);
        held.map(|held| (held, now()))
    };
    let ((held, until), ()) = tokio::try_join!(snapshot, full_load(&scene, &mut crew, &over))?;
    if held.is_none() {
        bail!("the snapshot was not held");
    }
    let history = scene.judge(None, crew).await?;
    let rates = rates(&history, from, until);
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let (start, end) = (mean(&rates[1..=COMPARED]), mean(&rates[PARTS - COMPARED..]));
    let all: Vec<_> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    let all = all.join(" ");
    scene.note(format!("snapshot held {time:?}; {start:.0} starts/s at first, {end:.0} at last; by twentieths {all}"));
    let kept = start > 0.0 && end >= start * KEPT;
    ensure!(ground.order.form == Form::Short || kept, "slower and slower: {}", scene.notes.join("; "));
    Ok(scene.notes)
}

/// Enqueues more than the workers can do. It does not count waiting rows: that would take longer each time.
async fn full_load(scene: &Scene, crew: &mut Crew, over: &AtomicBool) -> Result<()> {
    let options = Options { max_retries: 20, ..Options::default() };
    let mut rng = fastrand::Rng::with_seed(scene.order.seed);
    let (mut tail, mut enqueued) = (Tail::default(), 0);
    // beside the snapshot, and then as many as were asked for
    while !over.load(Ordering::Relaxed) || enqueued < scene.jobs(0, 0) {
        if enqueued < tail.starts(scene.folder())? + BACKLOG {
            let plans: Vec<_> = (0..1000).map(|_| short(&mut rng)).collect();
            enqueued += enqueue_batch(&scene.desk, &scene.db, plans, options.clone(), None).await?.len();
        }
        crew.work(Duration::from_millis(10)).await?;
    }
    Ok(())
}

/// Starts per second in each part of the time.
fn rates(history: &History, from: i64, until: i64) -> [f64; PARTS] {
    let span = (until - from) / PARTS as i64;
    let mut rates = [0.0; PARTS];
    for event in history.events.iter().filter(|it| matches!(it.what, What::Started { .. })) {
        if let Some(part) = usize::try_from((event.at - from) / span).ok().and_then(|part| rates.get_mut(part)) {
            *part += 1e6 / span as f64;
        }
    }
    rates
}
