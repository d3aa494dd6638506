//! A worker is killed (`kill -9`).

use std::time::Duration;

use tokio::time::sleep;

use crate::checker::Checker;
use crate::figures;
use crate::jobs::{WaitForFile, now};
use crate::records::{What, percentiles, seconds};
use crate::scene::{PATIENCE, Scene, keeps_within, text, touch};

const JOBS: usize = 100;
/// The promise for default settings.
const RESCUED_WITHIN: Duration = Duration::from_secs(10);

/// P1, P21.
pub(crate) async fn kill_9_holding_100_running_jobs(scene: &Scene) {
    keeps_within(scene.engine(), "the last job ran again after", RESCUED_WITHIN, kill_9).await;
}

/// Returns how long after it the last job ran again.
async fn kill_9(scene: &Scene) -> Duration {
    let go = scene.path("go");
    let path = text(&go);
    let jobs = (0..JOBS).map(|_| WaitForFile { path: path.clone() });
    let ids = scene.db.enqueue_all(jobs.collect()).await;
    let mut victim = scene.worker("victim").concurrency(100).start().await;
    scene.wait_for_records("all jobs run", PATIENCE, |records| records.len() == JOBS).await;
    let other = scene.worker("other").start().await;
    // at any moment between two heartbeats
    sleep(Duration::from_millis(now().cast_unsigned() % 2000)).await;

    victim.helper.kill();
    let killed = now();
    touch(&go);
    let starts_elsewhere = |it: &crate::records::Record| it.what == What::Start && it.process == other.id();
    let records = scene
        .wait_for_records("all jobs run again", PATIENCE, |records| {
            records.iter().filter(|it| starts_elsewhere(it)).count() >= JOBS
        })
        .await;
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;

    let delays: Vec<i64> = records.iter().filter(|it| starts_elsewhere(it)).map(|it| it.at - killed).collect();
    let last = delays.iter().copied().max().unwrap_or_default();
    figures(scene.engine(), "kill -9 to start elsewhere", &format!("last {}, {}", seconds(last), percentiles(delays)));
    let mut checker = Checker::of(scene).await;
    checker.completed_exactly_once(&ids);
    for id in ids {
        checker.started(id, 2);
        let row = checker.row(id).cloned();
        if row.is_some_and(|row| row.attempt != 2 || checker.process(row.worker) != Some(other.id())) {
            checker.violation(id, "not completed by the other worker in the second attempt");
        }
        if !matches!(checker.attempts(id), [lost] if lost.outcome == "lost") {
            checker.violation(id, "its history does not have the one lost attempt");
        }
    }
    checker.verdict();
    Duration::from_micros(last.max(0).cast_unsigned())
}
