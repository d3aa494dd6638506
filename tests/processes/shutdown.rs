//! A worker is told to stop (SIGTERM).

use std::time::Duration;

use crate::checker::Checker;
use crate::figures;
use crate::jobs::{Nap, WaitForFile, now};
use crate::records::{Record, What};
use crate::scene::{PATIENCE, Scene, text, touch};

/// Several times as long as a nap.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(4000);
const CANCEL_GRACE: Duration = Duration::from_millis(500);
/// Time for the last writes on a busy machine. Less than the default of the grace period, which is 30 s.
const SPARE: Duration = Duration::from_secs(25);

/// P9, P28: Two jobs end within the grace period, two do not, and the others never start.
pub(crate) async fn sigterm_gives_back(scene: &Scene) {
    let go = scene.path("go");
    let naps = scene.db.enqueue_all(vec![Nap { ms: 800 }, Nap { ms: 800 }]).await;
    let waiting = (0..2).map(|_| WaitForFile { path: text(&go) });
    let waiting = scene.db.enqueue_all(waiting.collect()).await;
    let rest = scene.db.enqueue_all((0..20).map(|_| Nap { ms: 1 }).collect()).await;
    let setup = scene.worker("first").concurrency(4).graces(SHUTDOWN_GRACE, CANCEL_GRACE);
    let mut first = setup.start().await;
    scene.wait_for_records("four run", PATIENCE, |records| records.len() == 4).await;
    let took = first.end(SHUTDOWN_GRACE + CANCEL_GRACE + SPARE).await;

    let mut checker = Checker::of(scene).await;
    for &id in &naps {
        checker.has_state(id, "completed");
    }
    for &id in waiting.iter().chain(&rest) {
        checker.has_state(id, "waiting");
        if checker.row(id).is_some_and(|row| row.attempt != 0) {
            checker.violation(id, "the release was counted as an attempt");
        }
    }
    for &id in &waiting {
        if !matches!(checker.attempts(id), [it] if it.outcome == "released") {
            checker.violation(id, "its history does not have the one released attempt");
        }
    }
    for &id in &rest {
        checker.started(id, 0);
    }
    if scene.db.number("SELECT COUNT(*) FROM queue_workers WHERE stopped_at IS NULL").await != 0 {
        checker.violation(None, "the worker did not sign off");
    }
    checker.verdict();

    // nobody has to wait for a lease to run out
    touch(&go);
    let restarted = now();
    let second = scene.worker("second").concurrency(4).start().await;
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    let again = |it: &Record| it.what == What::Start && it.process == second.id() && waiting.contains(&it.job);
    let last = scene.records().iter().filter(|it| again(it)).map(|it| it.at).max();
    figures(
        scene.engine(),
        "SIGTERM",
        &format!(
            "ended after {took:.2?} of {:?}; what it gave back ran again {} ms after the start of the next worker",
            SHUTDOWN_GRACE + CANCEL_GRACE,
            (last.unwrap_or_default() - restarted) / 1000
        ),
    );
    let mut checker = Checker::of(scene).await;
    let all: Vec<i64> = naps.iter().chain(&waiting).chain(&rest).copied().collect();
    checker.completed_exactly_once(&all);
    for id in all {
        if checker.row(id).is_some_and(|row| row.attempt != 1) {
            checker.violation(id, "not completed in the first attempt that counts");
        }
    }
    checker.verdict();
}

/// P28: The grace period is the default, 30 s.
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
