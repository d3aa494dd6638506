//! Many claimers on one backlog.

use std::collections::{HashMap, HashSet};
use std::env;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::checker::Checker;
use crate::deadlocks::Deadlocks;
use crate::figures;
use crate::jobs::{Note, WaitForFile, now};
use crate::records::{Record, What};
use crate::scene::{PATIENCE, Scene, text, touch};

/// The default. The acceptance test sets `QUEUE_TEST_JOBS=100000`.
pub(crate) const JOBS: usize = 5_000;
const PROCESSES: usize = 4;
const EACH: u32 = 8;
/// Limit of rounds of enqueues, until more than one process runs jobs.
const WAVES: usize = 10;

pub(crate) fn jobs() -> usize {
    env::var("QUEUE_TEST_JOBS").map_or(JOBS, |text| text.parse().expect("QUEUE_TEST_JOBS is a number"))
}

/// P4, P5.
pub(crate) async fn thirty_two_claimers(scene: &Scene) {
    let jobs = jobs();
    let deadlocks = Deadlocks::watch(scene).await;
    let mut workers = Vec::new();
    for number in 0..PROCESSES {
        let setup = scene.worker(&format!("claimer-{number}")).concurrency(EACH);
        workers.push(setup.start().await);
    }
    let awake = wake(scene).await;
    let drain = PATIENCE.max(Duration::from_millis(10) * u32::try_from(jobs).unwrap_or(u32::MAX));
    let mut ids = Vec::new();
    // No share is promised to a process, but if only one runs jobs there is no competition to test.
    while shares(&scene.records(), &awake).len() < 2 {
        assert!(ids.len() < jobs * WAVES, "only one process ran jobs\n{}", scene.logs());
        let started = now();
        // one commit: all of them want the same rows at the same moment
        ids.extend(scene.db.enqueue_all((0..jobs).map(|_| Note {}).collect()).await);
        let enqueued = now();
        scene.wait_for_rows("queue_jobs", 0, drain).await;
        let took = (now() - enqueued) as f64 / 1e6;
        figures(
            scene.engine(),
            "32 claimers",
            &format!(
                "{jobs} jobs enqueued in {:.2} s, run in {took:.2} s ({:.0}/s), by process {:?}",
                (enqueued - started) as f64 / 1e6,
                jobs as f64 / took,
                shares(&scene.records(), &awake)
            ),
        );
    }
    for worker in &mut workers {
        worker.end(PATIENCE).await;
    }
    let found = deadlocks.found(scene).await;

    ids.extend(&awake);
    let mut checker = Checker::of(scene).await;
    checker.completed_exactly_once(&ids);
    for &id in &ids {
        checker.started(id, 1);
        // a release after a claim ahead raises the fence, and is allowed; a second attempt is not
        if checker.row(id).is_some_and(|row| row.attempt != 1) {
            checker.violation(id, "not completed in the first attempt");
        }
    }
    if found.ours > 0 {
        checker.violation(None, format!("deadlocks: {found}"));
    }
    checker.verdict();
}

/// How many jobs each process started, apart from those in `without`.
fn shares(records: &[Record], without: &[i64]) -> Vec<usize> {
    let mut shares: HashMap<i64, usize> = HashMap::new();
    for record in records.iter().filter(|it| it.what == What::Start && !without.contains(&it.job)) {
        *shares.entry(record.process).or_default() += 1;
    }
    let mut shares: Vec<usize> = shares.into_values().collect();
    shares.sort_unstable();
    shares
}

/// Waits until every process runs a job, then lets these jobs end, and returns them. Without this, an idle worker may
/// poll so rarely that another one runs everything first.
async fn wake(scene: &Scene) -> Vec<i64> {
    let go = scene.path("go");
    let deadline = Instant::now() + PATIENCE;
    let mut ids = Vec::new();
    loop {
        let awake: HashSet<_> = scene.records().iter().map(|record| record.process).collect();
        if awake.len() == PROCESSES {
            touch(&go);
            return ids;
        }
        assert!(Instant::now() < deadline, "only {} processes run jobs\n{}", awake.len(), scene.logs());
        ids.push(scene.db.enqueue(WaitForFile { path: text(&go) }).await.get());
        sleep(Duration::from_millis(10)).await;
    }
}
