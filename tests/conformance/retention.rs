//! How long finished jobs stay.
//!
//! Promise: P37.

use std::time::Duration;

use queue::{Job, JobState};
use queue_tests::jobs::{Note, Play};
use queue_tests::{Db, Step, What, eventually};

conformance! {
    removes_what_was_kept_long_enough,
    keeps_what_is_young,
    removes_many_in_bounded_batches,
    forgets_workers_that_are_gone,
}

async fn removes_what_was_kept_long_enough(db: Db) {
    let worker = db.start(db.worker());
    let completed = db.enqueue(Play::new("a", [Step::Fail("once".into()), Step::Complete])).await;
    let cancelled = db.enqueue(Play::new("b", [Step::Cancel("x".into())])).await;
    let dead = db.enqueue(Play::new("c", [Step::Fail("x".into())])).await;
    let scheduled = db.enqueue(Note::new("d").after(Duration::from_secs(3600))).await;
    let young = db.enqueue(Note::new("young")).await;
    for (id, state) in [
        (completed, JobState::Completed),
        (cancelled, JobState::Cancelled),
        (dead, JobState::Dead),
        (young, JobState::Completed),
    ] {
        db.reaches(id, state).await;
    }
    worker.stop().await;
    // all but one ended two hours ago
    for table in ["queue_history", "queue_dead"] {
        db.sql(format!("UPDATE {table} SET finished_at = {} WHERE id <> {young}", db.time(-7_200_000))).await;
    }
    let worker = db.start(db.worker().retention(Duration::from_millis(500)));
    eventually("the finished jobs to be removed", async || {
        let (completed, cancelled) = (db.admin().job(completed).await, db.admin().job(cancelled).await);
        (completed.expect("an answer").is_none() && cancelled.expect("an answer").is_none()).then_some(())
    })
    .await;
    eventually("the young job to grow old", async || {
        db.admin().job(young).await.expect("an answer").is_none().then_some(())
    })
    .await;
    worker.stop().await;
    // dead letters stay until somebody acts, and so do their attempts
    let detail = db.job(dead).await;
    assert_eq!((detail.job.state, detail.attempts.len()), (JobState::Dead, 3));
    assert_eq!(db.count(&format!("queue_attempts WHERE job_id <> {dead}")).await, 0, "attempts go with their job");
    assert_eq!(db.state(scheduled).await, JobState::Scheduled);
    assert_eq!(db.counts().await, (1, 0, 1));
}

async fn keeps_what_is_young(db: Db) {
    let worker = db.start(db.worker());
    let old = db.enqueue(Note::new("old")).await;
    let young = db.enqueue(Note::new("young")).await;
    db.finished(2).await;
    worker.stop().await;
    db.sql(format!("UPDATE queue_history SET finished_at = {} WHERE id = {old}", db.time(-10_000))).await;
    db.sql(format!("UPDATE queue_history SET finished_at = {} WHERE id = {young}", db.time(3_600_000))).await;
    let worker = db.start(db.worker().retention(Duration::from_millis(500)));
    eventually("the old job to be removed", async || (db.count("queue_history").await == 1).then_some(())).await;
    assert_eq!(db.state(young).await, JobState::Completed);
    worker.stop().await;
}

async fn removes_many_in_bounded_batches(db: Db) {
    const JOBS: usize = 2600;
    let ids = db.enqueue_all((0..JOBS).map(|_| Note::new("a"))).await;
    for some in ids.chunks(1000) {
        let some: Vec<_> = some.iter().map(ToString::to_string).collect();
        db.sql(format!(
            "INSERT INTO queue_history (id, kind, queue, state, args, priority, attempt, fence, worker_id, \
             enqueued_at, run_at,
                                        finished_at)
             SELECT id, kind, queue, 'completed', args, priority, 1, 1, 1, enqueued_at, run_at, {} FROM queue_jobs
             WHERE id IN ({list});
             DELETE FROM queue_jobs WHERE id IN ({list})",
            db.time(-60_000),
            list = some.join(",")
        ))
        .await;
    }
    assert_eq!(db.counts().await, (0, JOBS as i64, 0));
    let workers = [0, 1].map(|_| db.start(db.worker().retention(Duration::from_millis(500))));
    db.enqueue(Note::new("meanwhile")).await;
    db.probe.wait_for(What::Ended, "meanwhile", 1).await;
    eventually("all to be removed", async || (db.counts().await == (0, 0, 0)).then_some(())).await;
    for worker in workers {
        worker.stop().await;
    }
}

async fn forgets_workers_that_are_gone(db: Db) {
    let gone = db.fake_worker(-50_000).await;
    db.sql(format!("UPDATE queue_workers SET stopped_at = {}", db.time(-40_000))).await;
    let worker = db.start(db.worker().retention(Duration::from_millis(500)));
    eventually("its row to be removed", async || {
        (db.count(&format!("queue_workers WHERE id = {gone}")).await == 0).then_some(())
    })
    .await;
    assert_eq!(db.admin().workers().await.expect("an answer").len(), 1, "the live one stays");
    worker.stop().await;
}
