//! A worker is told to stop (SIGTERM).

use std::time::Duration;

use crate::checker::Checker;
use crate::figures;
use crate::jobs::{WaitForFile, now};
use crate::scene::{PATIENCE, Scene, text, touch};

/// Time for the last writes on a busy machine. Less than the default of the grace period, which is 30 s.
const SPARE: Duration = Duration::from_secs(25);

/// P9, P28: The grace period is the default, 30 s.
pub(crate) async fn a_second_sigterm_ends_at_once(scene: &Scene) {
    let go = scene.path("go");
    let jobs = (0..8).map(|_| WaitForFile { path: text(&go) });
    let ids = scene.db.enqueue_all(jobs.collect()).await;
    let mut first = scene.worker("first").concurrency(4).start().await;
    scene.wait_for_records("four run", PATIENCE, |records| records.len() == 4).await;
    first.helper.terminate();
    first.wait_for_log("worker.stopping", PATIENCE).await;
    let told = now();
    first.helper.terminate();
    first.ended(SPARE).await;
    let took = now() - told;

    let mut checker = Checker::of(scene).await;
    for &id in &ids {
        checker.has_state(id, "waiting");
        if checker.row(id).is_some_and(|row| row.attempt != 0) {
            checker.violation(id, "the release was counted as an attempt");
        }
    }
    checker.verdict();
    touch(&go);
    let _second = scene.worker("second").start().await;
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    figures(scene.engine(), "second SIGTERM", &format!("ended {} ms later", took / 1000));
    let mut checker = Checker::of(scene).await;
    checker.completed_exactly_once(&ids);
    checker.verdict();
}
