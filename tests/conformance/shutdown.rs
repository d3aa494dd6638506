//! The end of a worker: what it has in hand is finished or given back, and never lost.
//!
//! Promise: P28.

use std::time::Duration;

use queue::JobState;
use queue_test_support::Engine;
use queue_tests::jobs::{Grind, Note, Play};
use queue_tests::{DEADLINE, Db, Step, What, eventually};
use serde_json::json;

conformance! {
    ends_an_idle_worker,
    claims_nothing_more,
    gives_back_at_once_what_was_not_started,
    lets_running_jobs_finish,
    cancels_and_gives_back_after_the_grace,
    drops_what_does_not_listen,
    takes_what_completes_at_the_last_moment,
    counts_a_failure_during_the_grace,
    leaves_a_blocked_thread_behind,
    ends_at_once_at_the_second_signal,
    ends_at_once_without_a_first_signal,
    hands_over_to_another_worker,
    signs_off_although_its_connections_are_gone,
}

/// P36.
async fn ends_an_idle_worker(db: Db) {
    let worker = db.start(db.worker());
    eventually("the worker's row", async || (db.count("queue_workers").await == 1).then_some(())).await;
    assert!(db.admin().workers().await.expect("an answer")[0].alive);
    worker.stop().await;
    let info = db.admin().workers().await.expect("an answer").remove(0);
    assert!(!info.alive && info.stopped_at.is_some() && info.running == 0, "{info:?}");
    // a signal that is there from the beginning
    let worker = db.start(db.worker());
    worker.stop().await;
}

/// Found by the fault `cut`: the connection kept for heartbeats had died since the last one, and the end was an error.
async fn signs_off_although_its_connections_are_gone(db: Db) {
    let (others, end) = match db.engine() {
        Engine::Sqlite => return, // a file, and no connections to cut
        Engine::Postgres => (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
            "SELECT pg_terminate_backend",
        ),
        Engine::MariaDb | Engine::MySql => {
            (queue_test_support::sessions!("id", "db = DATABASE() AND id <> CONNECTION_ID()"), "KILL")
        }
    };
    let slow_heart = db.worker().heartbeat(Duration::from_secs(15)).lease(Duration::from_secs(60));
    let worker = db.start(slow_heart);
    db.enqueue(Note::new("before")).await;
    db.finished(1).await;
    for connection in db.column(others).await {
        // one may be over by now, because another one is
        let _ = db.pool().sql(&format!("{end} ({connection})")).await;
    }
    worker.stop().await;
    assert_eq!(db.count("queue_workers WHERE stopped_at IS NOT NULL").await, 1);
}

async fn claims_nothing_more(db: Db) {
    let worker = db.start(db.worker());
    let id = db.enqueue(Play::new("running", [Step::hold("go")])).await;
    db.probe.wait_for(What::Started, "running", 1).await;
    worker.signal();
    // free slots, but no more claims; "stopping" shows nowhere, so this waits for heartbeats, which go on; the first
    // may have been under way before the signal came
    db.beats(2).await;
    let late = db.enqueue(Note::new("late")).await;
    db.beats(3).await;
    assert!(!worker.is_over());
    assert_eq!(db.job(late).await.job.attempt, 0);
    db.probe.release("go");
    worker.ended().await.expect("a good end");
    assert_eq!(db.state(id).await, JobState::Completed);
    assert_eq!(db.state(late).await, JobState::Ready);
}

async fn gives_back_at_once_what_was_not_started(db: Db) {
    while !gives_back_what_was_claimed_ahead(db.another().await).await {}
}

/// `false`: the machine was so slow that the worker claimed nothing ahead, so nothing was tested.
async fn gives_back_what_was_claimed_ahead(db: Db) -> bool {
    db.migrate().await.expect("the schema");
    // quick jobs, so that the worker claims ahead; then one that holds its only slot
    let mut jobs: Vec<_> = (0..600).map(|_| Play::new("quick", [])).collect();
    jobs.insert(400, Play::new("slow", [Step::hold("go")]));
    db.enqueue_all(jobs).await;
    // a heartbeat gives back what was claimed too early; here it is the signal that does
    let slow_heart = db.worker().heartbeat(2 * DEADLINE).lease(6 * DEADLINE);
    let worker = db.start(slow_heart.concurrency(1));
    db.probe.wait_for(What::Started, "slow", 1).await;
    worker.signal();
    eventually("what was not started to be given back", async || {
        (db.count("queue_jobs WHERE worker_id <> 0").await == 1).then_some(())
    })
    .await;
    assert!(!worker.is_over(), "the slow one still runs");
    assert_eq!(db.count("queue_jobs WHERE worker_id = 0 AND attempt = 0").await, 200);
    let claimed = db.count("queue_jobs WHERE worker_id = 0 AND fence > 0").await;
    db.probe.release("go");
    worker.ended().await.expect("a good end");
    assert_eq!(db.counts().await, (200, 401, 0));
    assert_eq!(db.count("queue_attempts").await, 0, "what never started leaves no attempt");
    // in their old order
    let worker = db.start(db.worker());
    db.finished(601).await;
    worker.stop().await;
    assert_eq!(db.count("queue_history WHERE attempt <> 1").await, 0);
    claimed > 0
}

async fn lets_running_jobs_finish(db: Db) {
    let worker = db.start(db.worker());
    let ids = [
        db.enqueue(Play::new("a", [Step::hold_then("go", Step::Return(json!("saved")))])).await,
        db.enqueue(Grind::new("b", [Step::block("go")])).await,
    ];
    db.probe.wait_for_all(What::Started, 2).await;
    worker.signal();
    db.beats(3).await;
    assert_eq!(db.probe.labels(What::Told).len(), 0, "they have time");
    db.probe.release("go");
    worker.ended().await.expect("a good end");
    for id in ids {
        assert_eq!(db.state(id).await, JobState::Completed);
    }
    assert_eq!(db.job(ids[0]).await.result.as_deref(), Some("\"saved\""));
}

/// P9.
async fn cancels_and_gives_back_after_the_grace(db: Db) {
    let worker = db.start(db.worker().shutdown_grace(Duration::from_millis(200)).cancel_grace(DEADLINE));
    let steps = [Step::Fail("no".into()), Step::hold("never"), Step::Return(json!("later"))];
    let id = db.enqueue(Play::new("a", steps)).await;
    db.probe.wait_for(What::Started, "a", 2).await;
    let before = db.job(id).await.job;
    worker.signal();
    db.probe.wait_for(What::Told, "a", 1).await;
    worker.ended().await.expect("a good end");
    let detail = db.job(id).await;
    assert_eq!(detail.job.state, JobState::Ready);
    assert_eq!((before.attempt, detail.job.attempt), (2, 1), "it did not count");
    assert_eq!(detail.job.run_at, before.run_at, "it keeps its place");
    let outcomes: Vec<_> = detail.attempts.iter().map(|a| (a.attempt, a.outcome.as_str())).collect();
    assert_eq!(outcomes, [(1, "failed"), (2, "released")]);
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!((detail.job.attempt, detail.result.as_deref()), (2, Some("\"later\"")));
    worker.stop().await;
}

async fn drops_what_does_not_listen(db: Db) {
    let worker = db.worker().shutdown_grace(Duration::ZERO).cancel_grace(Duration::from_millis(200));
    let worker = db.start(worker);
    let id = db.enqueue(Play::new("a", [Step::deaf("never")])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    worker.stop().await;
    assert_eq!((db.probe.count(What::Told, "a"), db.probe.count(What::Dropped, "a")), (1, 1));
    let job = db.job(id).await.job;
    assert_eq!((job.state, job.attempt), (JobState::Ready, 0));
}

async fn takes_what_completes_at_the_last_moment(db: Db) {
    let worker = db.start(db.worker().shutdown_grace(Duration::ZERO).cancel_grace(DEADLINE));
    let id = db.enqueue(Play::new("a", [Step::Heed("never".into(), Box::new(Step::Return(json!(1))))])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    worker.stop().await;
    let detail = db.job(id).await;
    assert_eq!((detail.job.state, detail.result.as_deref()), (JobState::Completed, Some("1")));
}

/// P30.
async fn counts_a_failure_during_the_grace(db: Db) {
    let worker = db.start(db.worker());
    let id = db.enqueue(Play::new("a", [Step::hold_then("go", Step::Die("no".into()))])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    worker.signal();
    db.beats(1).await;
    db.probe.release("go");
    worker.ended().await.expect("a good end");
    assert_eq!(db.job(id).await.job.state, JobState::Dead);
}

async fn leaves_a_blocked_thread_behind(db: Db) {
    let worker = db.worker().shutdown_grace(Duration::ZERO).cancel_grace(Duration::from_millis(200));
    let worker = db.start(worker);
    let id = db.enqueue(Grind::new("a", [Step::block("never"), Step::Complete])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    worker.stop().await;
    let job = db.job(id).await.job;
    assert_eq!((job.state, job.attempt), (JobState::Ready, 0));
    let worker = db.start(db.worker());
    db.reaches(id, JobState::Completed).await;
    worker.stop().await;
}

async fn ends_at_once_at_the_second_signal(db: Db) {
    let worker =
        db.start(db.worker().shutdown_grace(Duration::from_secs(3600)).cancel_grace(Duration::from_secs(3600)));
    let ids = db.enqueue_all((0..5).map(|n| Play::new(n.to_string(), [Step::deaf("never")]))).await;
    db.probe.wait_for_all(What::Started, 5).await;
    worker.signal();
    db.beats(2).await;
    assert!(!worker.is_over() && db.probe.labels(What::Dropped).is_empty());
    worker.hurry();
    // long before the grace periods are over
    worker.ended().await.expect("a good end");
    db.probe.wait_for_all(What::Dropped, 5).await;
    for id in ids {
        let job = db.job(id).await.job;
        assert_eq!((job.state, job.attempt), (JobState::Ready, 0));
    }
}

async fn ends_at_once_without_a_first_signal(db: Db) {
    let worker =
        db.start(db.worker().shutdown_grace(Duration::from_secs(3600)).cancel_grace(Duration::from_secs(3600)));
    let id = db.enqueue(Play::new("a", [Step::deaf("never")])).await;
    db.probe.wait_for_all(What::Started, 1).await;
    worker.hurry();
    // long before the grace periods are over
    worker.ended().await.expect("a good end");
    let job = db.job(id).await.job;
    assert_eq!((job.state, job.attempt), (JobState::Ready, 0));
}

/// P5: A deploy under load: workers come and go, and every job runs to its end exactly once.
async fn hands_over_to_another_worker(db: Db) {
    const JOBS: i64 = 600;
    db.enqueue_all((0..JOBS).map(|n| Play::new(n.to_string(), []))).await;
    let mut worker = db.start(db.worker_apart().await.concurrency(4));
    for round in 1..5 {
        db.probe.wait_for_all(What::Started, round * 100).await;
        let next = db.start(db.worker_apart().await.concurrency(4));
        std::mem::replace(&mut worker, next).stop().await;
    }
    db.finished(JOBS).await;
    worker.stop().await;
    assert_eq!(db.counts().await, (0, JOBS, 0));
    let mut ran = db.probe.labels(What::Started);
    ran.sort();
    ran.dedup();
    assert_eq!((ran.len() as i64, db.probe.labels(What::Started).len() as i64), (JOBS, JOBS));
    assert_eq!(db.count("queue_history WHERE attempt <> 1").await, 0);
}
