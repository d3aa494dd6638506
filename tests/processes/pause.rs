//! A worker is suspended (SIGSTOP), others run its jobs, and it continues (SIGCONT).

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::checker::Checker;
use crate::figures;
use crate::jobs::{BlockForFile, Nap, Note, WaitForFile, now};
use crate::records::{Record, What};
use crate::scene::{PATIENCE, Scene, text, touch_for};

/// Of the worker that is suspended. Shorter than the default, to save time.
const LEASE: Duration = Duration::from_secs(4);

/// P6, P21.
pub(crate) async fn sigstop_past_the_lease(scene: &Scene) {
    let go = scene.path("go");
    let path = text(&go);
    let waiting = (0..10).map(|_| WaitForFile { path: path.clone() });
    let mut ids = scene.db.enqueue_all(waiting.collect()).await;
    let blocking = (0..10).map(|_| BlockForFile { path: path.clone() });
    ids.extend(scene.db.enqueue_all(blocking.collect()).await);
    let mut stopped = scene.worker("stopped").concurrency(20).lease(LEASE).start().await;
    let (jobs, id) = (ids.len(), stopped.id());
    scene.wait_for_records("all jobs run", PATIENCE, |records| records.len() == jobs).await;
    let mut other = scene.worker("other").start().await;

    stopped.helper.pause();
    touch_for(id, &go);
    let elsewhere = |it: &&Record| it.what == What::Start && it.process == other.id();
    scene
        .wait_for_records("all jobs run elsewhere", PATIENCE, |records| {
            records.iter().filter(elsewhere).count() == jobs
        })
        .await;
    let continued = now();
    stopped.helper.resume();
    stopped.wait_for_log("worker.lease_lost", PATIENCE).await;
    // blocking jobs end whatever their worker thinks
    let records = scene
        .wait_for_records("late ends", PATIENCE, |records| {
            let late = |it: &&Record| it.what == What::End && it.process == id;
            records.iter().filter(late).count() >= jobs / 2
        })
        .await;

    // what it wrote late, it wrote while others ran its jobs
    sleep(Duration::from_millis(300)).await;
    let mut checker = Checker::of(scene).await;
    checker.held_by(other.id(), 2, &ids);
    checker.verdict();
    touch_for(other.id(), &go);
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;

    // it comes back to work, alone
    other.end(PATIENCE).await;
    let last = scene.db.enqueue(Note {}).await.get();
    let enqueued = now();
    let back = scene
        .wait_for_records("the stopped worker works again", PATIENCE, |records| {
            records.iter().any(|it| it.job == last && it.process == id)
        })
        .await;
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    stopped.end(PATIENCE).await;

    let late = records.iter().filter(|it| it.process == id && it.what == What::End).count();
    let refused = stopped.log().matches("job.refused").count();
    let back = back.iter().rfind(|it| it.job == last).map_or(0, |it| it.at - enqueued);
    figures(
        scene.engine(),
        "SIGSTOP past the lease",
        &format!(
            "{late} handlers ended late, {refused} writes refused; runs a new job {} ms after its enqueue, {} ms \
             after SIGCONT",
            back / 1000,
            (enqueued + back - continued) / 1000
        ),
    );
    let mut checker = Checker::of(scene).await;
    for &id in &ids {
        let row = checker.row(id).cloned();
        if row.is_some_and(|row| checker.process(row.worker) != Some(other.id()) || row.fence != 2) {
            checker.violation(id, "not completed by the other worker under the second lease");
        }
        checker.started(id, 2);
    }
    ids.push(last);
    checker.completed_exactly_once(&ids);
    checker.verdict();
}

/// P4: A worker that continues after its lease starts none of the jobs that it had claimed: another worker has them
/// now. (The fault suite found handlers that overlapped with the current attempt.) Only on PostgreSQL: elsewhere a
/// process that is stopped during a claim holds locks, on SQLite the lock of the whole database.
pub(crate) async fn what_was_claimed_is_not_begun_after_the_lease(scene: &Scene) {
    const JOBS: usize = 2000;
    let naps = (0..JOBS).map(|_| Nap { ms: 5 });
    let ids = scene.db.enqueue_all(naps.collect()).await;
    // short jobs are claimed ahead
    let mut stopped = scene.worker("stopped").concurrency(2).lease(LEASE).start().await;
    scene.wait_for_records("some jobs ran", PATIENCE, |records| records.len() > 60).await;
    stopped.helper.pause();
    let held = scene.db.number("SELECT COUNT(*) FROM queue_jobs WHERE worker_id <> 0").await;
    let mut other = scene.worker("other").start().await;
    let end = Instant::now() + PATIENCE;
    while scene.db.number("SELECT COUNT(*) FROM queue_workers WHERE stopped_at IS NOT NULL").await == 0 {
        assert!(Instant::now() < end, "the stopped worker's lease does not run out\n{}", scene.logs());
        sleep(Duration::from_millis(20)).await;
    }
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    let continued = now();
    stopped.helper.resume();
    stopped.wait_for_log("worker.joined", PATIENCE).await;
    stopped.end(PATIENCE).await;
    other.end(PATIENCE).await;

    let id = stopped.id();
    let begun = |it: &&Record| it.what == What::Start && it.process == id && it.at > continued;
    let begun: Vec<i64> = scene.records().iter().filter(begun).map(|it| it.job).collect();
    figures(scene.engine(), "SIGSTOP with jobs claimed ahead", &format!("{held} held, {} begun after it", begun.len()));
    let mut checker = Checker::of(scene).await;
    checker.completed_exactly_once(&ids);
    for job in begun {
        checker.violation(job, "begun by the stopped worker, after its lease and after another one had run it");
    }
    checker.verdict();
}

/// P5, P6: One of two workers is suspended repeatedly for about the length of its lease, so each rescue is a close
/// race.
pub(crate) async fn sigstop_around_the_lease(scene: &Scene) {
    const JOBS: usize = 600;
    const PAUSES: u32 = 4;
    let lease = Duration::from_secs(1);
    let stopped = scene.worker("stopped").concurrency(8).lease(lease).start().await;
    let other = scene.worker("other").concurrency(8).lease(lease).start().await;
    let naps = (0..JOBS).map(|_| Nap { ms: 100 });
    let ids = scene.db.enqueue_all(naps.collect()).await;
    let mut stopped = stopped;
    for pause in 0..PAUSES {
        sleep(Duration::from_millis(300)).await;
        stopped.helper.pause();
        // the other worker looks every quarter of a lease
        sleep(lease.mul_f64(0.9 + 0.15 * f64::from(pause))).await;
        stopped.helper.resume();
    }
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    let mut checker = Checker::of(scene).await;
    let lost = ids.iter().filter(|id| !checker.attempts(**id).is_empty()).count();
    let refused = stopped.log().matches("job.refused").count();
    let by = |id: i64| {
        let rows = ids.iter().filter_map(|job| checker.row(*job));
        rows.filter(|row| checker.process(row.worker) == Some(id)).count()
    };
    figures(
        scene.engine(),
        "SIGSTOP around the lease",
        &format!(
            "{lost} of {JOBS} jobs taken away, {refused} writes refused, {} completed by the stopped worker, {} by \
             the other",
            by(stopped.id()),
            by(other.id())
        ),
    );
    checker.completed_exactly_once(&ids);
    checker.verdict();
}
