//! Calling jobs off, in each state.

use std::time::Duration;

use queue::{Error, Job, JobId, JobState};
use queue_tests::jobs::{Note, Play};
use queue_tests::{DEADLINE, Db, Step, What};
use serde_json::json;

conformance! {
    ends_a_scheduled_job,
    ends_a_ready_job,
    reaches_the_token_of_a_running_job,
    drops_a_running_job_that_ignores_it,
    leaves_a_running_job_its_success,
    ends_a_running_job_that_fails_first,
    ends_a_running_job_that_is_given_back,
    is_refused_for_jobs_that_are_over,
}

/// P8.
async fn ends_a_scheduled_job(db: Db) {
    let id = db.enqueue(Note::new("never").after(Duration::from_millis(300))).await;
    db.admin().cancel(id).await.expect("cancelled");
    let detail = db.job(id).await;
    assert_eq!((detail.job.state, detail.job.attempt), (JobState::Cancelled, 0));
    assert!(detail.job.error.is_some_and(|reason| reason.contains("cancelled")));
    assert!(detail.job.finished_at.is_some() && detail.job.claimed_at.is_none() && detail.attempts.is_empty());
    let worker = db.start(db.worker());
    db.enqueue(Note::new("later").after(Duration::from_millis(400))).await;
    db.probe.wait_for(What::Ended, "later", 1).await;
    assert_eq!(db.probe.labels(What::Started), ["later"]);
    worker.stop().await;
}

/// P8.
async fn ends_a_ready_job(db: Db) {
    let ids = db.enqueue_all((0..10).map(|n| Note::new(n.to_string()))).await;
    for id in &ids[..5] {
        db.admin().cancel(*id).await.expect("cancelled");
    }
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for_all(What::Ended, 5).await;
    db.finished(10).await;
    assert_eq!(db.probe.labels(What::Started), ["5", "6", "7", "8", "9"]);
    worker.stop().await;
    assert_eq!(db.count("queue_history WHERE state = 'cancelled'").await, 5);
}

/// P8, P30.
async fn reaches_the_token_of_a_running_job(db: Db) {
    let worker = db.start(db.worker().cancel_grace(DEADLINE));
    let id = db.enqueue(Play::new("a", [Step::hold("never")])).await;
    let other = db.enqueue(Play::new("b", [Step::hold("go")])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.probe.wait_for(What::Started, "b", 1).await;
    db.admin().cancel(id).await.expect("asked");
    db.probe.wait_for(What::Told, "a", 1).await;
    let detail = db.reaches(id, JobState::Cancelled).await;
    assert_eq!((detail.attempts.len(), detail.attempts[0].outcome.as_str()), (1, "cancelled"));
    assert!(detail.job.error.is_some(), "there is a reason");
    db.probe.release("go");
    db.reaches(other, JobState::Completed).await;
    db.beats(2).await;
    assert_eq!((db.probe.count(What::Started, "a"), db.probe.count(What::Told, "b")), (1, 0));
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 2, 0));
}

/// P8, P30.
async fn drops_a_running_job_that_ignores_it(db: Db) {
    let worker = db.start(db.worker().concurrency(1));
    let id = db.enqueue(Play::new("a", [Step::deaf("never")])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.admin().cancel(id).await.expect("asked");
    db.probe.wait_for(What::Told, "a", 1).await;
    db.probe.wait_for(What::Dropped, "a", 1).await;
    db.reaches(id, JobState::Cancelled).await;
    db.enqueue(Note::new("next")).await;
    db.probe.wait_for(What::Ended, "next", 1).await;
    worker.stop().await;
}

/// P30.
async fn leaves_a_running_job_its_success(db: Db) {
    let worker = db.start(db.worker().cancel_grace(DEADLINE));
    let id = db.enqueue(Play::new("a", [Step::Heed("never".into(), Box::new(Step::Return(json!(1))))])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.admin().cancel(id).await.expect("asked");
    db.probe.wait_for(What::Told, "a", 1).await;
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(detail.result.as_deref(), Some("1"));
    worker.stop().await;
}

/// P8: The wish is not forgotten when the attempt fails before its token could fire.
async fn ends_a_running_job_that_fails_first(db: Db) {
    // its first heartbeat may still tell the worker: then the handlers do not hear it
    let worker = db.worker().heartbeat(2 * DEADLINE).lease(6 * DEADLINE).cancel_grace(DEADLINE);
    let worker = db.start(worker);
    let mut ids: Vec<JobId> = Vec::new();
    for (n, end) in [Step::Fail("no".into()), Step::Snooze(0), Step::Panic("x".into())].into_iter().enumerate() {
        let deaf = Step::Deaf("go".into(), Box::new(end));
        ids.push(db.enqueue(Play::new(n.to_string(), [deaf, Step::Complete])).await);
    }
    db.probe.wait_for_all(What::Started, 3).await;
    for id in &ids {
        db.admin().cancel(*id).await.expect("asked");
        assert!(db.job(*id).await.job.cancel_requested);
    }
    db.probe.release("go");
    for id in &ids {
        db.reaches(*id, JobState::Cancelled).await;
    }
    assert_eq!(db.probe.labels(What::Started).len(), 3, "one ran again");
    worker.stop().await;
}

/// P8, P28.
async fn ends_a_running_job_that_is_given_back(db: Db) {
    let worker = db.worker().heartbeat(Duration::from_secs(5)).lease(Duration::from_secs(20));
    let worker = db.start(worker.shutdown_grace(Duration::ZERO).cancel_grace(DEADLINE));
    let id = db.enqueue(Play::new("a", [Step::hold("never")])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.admin().cancel(id).await.expect("asked");
    worker.stop().await;
    assert_eq!(db.state(id).await, JobState::Cancelled);
    // and when its worker dies
    let dead = db.fake_worker(-1000).await;
    let id = db.enqueue(Note::new("b")).await;
    db.hand_over(id, dead).await;
    db.admin().cancel(id).await.expect("asked");
    let worker = db.start(db.worker());
    db.reaches(id, JobState::Cancelled).await;
    assert_eq!(db.probe.count(What::Started, "b"), 0);
    worker.stop().await;
}

/// P36.
async fn is_refused_for_jobs_that_are_over(db: Db) {
    let completed = db.enqueue(Note::new("a")).await;
    let dead = db.enqueue(Play::new("b", [Step::Die("no".into())])).await;
    let cancelled = db.enqueue(Play::new("c", [Step::Cancel("no".into())])).await;
    let worker = db.start(db.worker());
    for (id, state) in [(completed, JobState::Completed), (dead, JobState::Dead), (cancelled, JobState::Cancelled)] {
        db.reaches(id, state).await;
    }
    for (id, in_state) in [(completed, JobState::Completed), (dead, JobState::Dead)] {
        let error = db.admin().cancel(id).await.expect_err("it is over");
        assert!(
            matches!(
                error,
                Error::Conflict { id: it, operation: "cancel", state, .. } if it == id && state == in_state
            ),
            "{error}"
        );
        assert!(error.to_string().contains(in_state.as_str()), "{error}");
        assert_eq!(db.state(id).await, in_state);
    }
    db.admin().cancel(cancelled).await.expect("twice is once");
    assert_eq!(db.job(cancelled).await.job.error.as_deref(), Some("no"), "the first reason counts");
    let nobody = JobId::from(completed.get() + 1000);
    let error = db.admin().cancel(nobody).await.expect_err("there is no such job");
    assert!(matches!(error, Error::NotFound(id) if id == nobody), "{error}");
    worker.stop().await;
}
