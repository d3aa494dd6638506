//! A job that aborts its worker process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use queue::Job as _;

use crate::checker::Checker;
use crate::figures;
use crate::jobs::{AbortProcess, Nap};
use crate::scene::{PATIENCE, Process, Scene};

/// Shorter than the default, to save time.
const LEASE: Duration = Duration::from_millis(1500);
const NEIGHBOURS: usize = 30;

/// P1, P9.
pub(crate) async fn a_job_that_kills_its_process(scene: &Scene) {
    let naps = (0..NEIGHBOURS).map(|_| Nap { ms: 400 });
    let neighbours = scene.db.enqueue_all(naps.collect()).await;
    // before all others, among which it then runs
    let killer = AbortProcess {}.max_retries(1).priority(-1);
    let killer = scene.db.enqueue(killer).await.get();

    let ends = Arc::new(AtomicU32::new(0));
    let supervise = |name: &'static str| supervise(scene, name, ends.clone());
    let work = async {
        scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    };
    tokio::select! {
        () = supervise("one") => {}
        () = supervise("two") => {}
        () = work => {}
    }

    let mut checker = Checker::of(scene).await;
    let neighbours_lost = neighbours.iter().filter(|id| !checker.attempts(**id).is_empty()).count();
    figures(
        scene.engine(),
        "a job that kills its process",
        &format!(
            "{} processes ended, {neighbours_lost} of {NEIGHBOURS} neighbours were lost with them and run again",
            ends.load(Ordering::Relaxed)
        ),
    );
    checker.has_state(killer, "dead");
    checker.started(killer, 2);
    let row = checker.row(killer).cloned();
    if row.is_none_or(|row| row.attempt != 2 || !row.error.contains("lost")) {
        checker.violation(killer, "it is no dead letter, after two attempts, that speaks of the loss of its worker");
    }
    let lost = checker.attempts(killer).iter().filter(|it| it.outcome == "lost").count();
    if lost != 2 {
        checker.violation(killer, format!("{lost} lost attempts, not 2"));
    }
    checker.records.remove(&killer);
    checker.tables.jobs.remove(&killer);
    checker.completed_exactly_once(&neighbours);
    if ends.load(Ordering::Relaxed) != 2 {
        checker.violation(killer, "it did not end two processes");
    }
    checker.verdict();
}

/// Restarts a worker that has ended, as systemd or Kubernetes would.
async fn supervise(scene: &Scene, name: &'static str, ends: Arc<AtomicU32>) {
    loop {
        let mut worker: Process = scene.worker(name).concurrency(8).lease(LEASE).start().await;
        let status = worker.helper.wait_for_exit(PATIENCE * 3).await;
        assert!(!status.success(), "nobody told it to end");
        ends.fetch_add(1, Ordering::Relaxed);
    }
}
