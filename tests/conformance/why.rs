//! Why a job does not run: the one reason, on each engine.
//!
//! Promise: P48.

use std::time::Duration;

use queue::admin::{Filter, Reason, Why};
use queue::{Error, Job, JobId, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play};
use queue_tests::{Db, Step, What, eventually};

conformance! {
    names_what_holds_a_waiting_job_back,
    follows_a_job_to_its_end,
    counts_the_jobs_that_come_first,
    sums_up_what_all_wait_for,
    knows_the_limit_of_a_queue,
    finds_a_transaction_that_has_the_row,
}

async fn why(db: &Db, id: JobId) -> Why {
    let why = db.admin().why(id).await.expect("a reason");
    let drift = (db.now().await - why.at).abs();
    assert!(drift < chrono::TimeDelta::minutes(5), "by the database's clock: {drift}");
    why
}

async fn names_what_holds_a_waiting_job_back(db: Db) {
    let later = db.enqueue(Note::new("later").after(Duration::from_secs(3600))).await;
    let ready = db.enqueue(Note::new("ready")).await;
    let elsewhere = db.enqueue(Note::new("elsewhere").queue("defualt")).await;
    db.sql("INSERT INTO queue_jobs (kind) VALUES ('ntoe')").await;
    let misspelt = JobId::from(db.int("SELECT id FROM queue_jobs WHERE kind = 'ntoe'").await);
    assert!(matches!(why(&db, later).await.reason, Reason::NotDue { .. }));
    assert_eq!(why(&db, ready).await.reason, Reason::NoWorker);
    db.admin().pause("default").await.expect("paused");
    assert!(matches!(why(&db, ready).await.reason, Reason::Paused { .. }), "a paused queue comes before workers");
    let worker = db.start(db.worker().queue("default", 1));
    eventually("the worker lives", async || (db.admin().gauges().await.ok()?.workers == 1).then_some(())).await;
    let reason = why(&db, elsewhere).await.reason;
    assert_eq!(reason, Reason::UnservedQueue { served: vec!["default".into()] });
    db.admin().resume("default").await.expect("resumed");
    assert_eq!(why(&db, misspelt).await.reason, Reason::UnknownKind { similar: Some("note".into()) });
    db.reaches(ready, JobState::Completed).await;
    worker.stop().await;
    let none = db.admin().why(JobId::from(999_999)).await.unwrap_err();
    assert!(matches!(none, Error::NotFound(_)), "{none}");
}

async fn follows_a_job_to_its_end(db: Db) {
    let worker = db.start(db.worker().concurrency(1));
    let retried = db.enqueue(Play::new("r", vec![Step::RetryAfter(3_600_000, "no answer".into())])).await;
    db.reaches(retried, JobState::Scheduled).await;
    let reason = why(&db, retried).await.reason;
    let error = Some("no answer".to_owned());
    assert!(matches!(&reason, Reason::Retrying { error: is, .. } if *is == error), "{reason:?}");
    let first = db.enqueue(Play::new("a", vec![Step::Hold("never".into(), Box::new(Step::Complete))])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    let reason = why(&db, first).await.reason;
    assert!(matches!(&reason, Reason::Running { since: Some(_), .. }), "{reason:?}");
    let second = db.enqueue(Note::new("b")).await;
    // a worker claims ahead
    let reason = why(&db, second).await.reason;
    assert!(matches!(reason, Reason::Busy { slots: 1, .. } | Reason::Running { .. }), "{reason:?}");
    db.admin().cancel(first).await.expect("cancelled");
    db.reaches(first, JobState::Cancelled).await;
    assert!(matches!(why(&db, first).await.reason, Reason::Cancelled { .. }));
    db.reaches(second, JobState::Completed).await;
    assert_eq!(why(&db, second).await.reason, Reason::Completed);
    let dead = db.enqueue(Play::new("c", vec![Step::Die("no mailbox".into())])).await;
    db.reaches(dead, JobState::Dead).await;
    assert_eq!(why(&db, dead).await.reason, Reason::Dead { error: Some("no mailbox".into()) });
    worker.stop().await;
    // in the hands of a worker that is gone
    let lost = db.enqueue(Note::new("d")).await;
    let gone = db.fake_worker(-1).await;
    db.hand_over(lost, gone).await;
    let reason = why(&db, lost).await.reason;
    assert!(matches!(reason, Reason::WorkerLost { others: false, .. }), "{reason:?}");
}

async fn counts_the_jobs_that_come_first(db: Db) {
    let ids = db.enqueue_all((0..30).map(|n| Note::new(n.to_string()))).await;
    let other = db.enqueue(Note::new("urgent").priority(-1)).await;
    let worker = db.fake_worker(3_600_000).await;
    db.sql(format!(
        "UPDATE queue_workers SET concurrency = 8, kinds = '[\"note\"]', queues = '[]' WHERE id = {worker}"
    ))
    .await;
    for (place, id) in [(0, ids[0]), (7, ids[7]), (29, ids[29])] {
        let reason = why(&db, id).await.reason;
        match (place, &reason) {
            (0, Reason::Next) => {}
            (_, Reason::Behind { ahead }) => assert_eq!((ahead.jobs, ahead.or_more), (place, false)),
            _ => panic!("{place}: {reason:?}"),
        }
    }
    assert_eq!(why(&db, other).await.reason, Reason::Next, "another priority is another lane");
}

async fn sums_up_what_all_wait_for(db: Db) {
    let lines = async |filter: &Filter| -> Vec<String> {
        db.admin().why_summary(filter).await.expect("a summary").iter().map(ToString::to_string).collect()
    };
    let all = Filter::new();
    assert_eq!(lines(&all).await, [""; 0]);
    db.enqueue_all((0..5).map(|n| Note::new(n.to_string()))).await;
    db.enqueue_all((0..4).map(|n| Note::new(n.to_string()).queue("paused"))).await;
    db.enqueue_all((0..3).map(|n| Note::new(n.to_string()).after(Duration::from_secs(3600)))).await;
    db.sql("INSERT INTO queue_jobs (kind) VALUES ('ntoe'), ('ntoe')").await;
    db.admin().pause("paused").await.expect("paused");
    assert_eq!(
        lines(&all).await,
        [
            "7 wait for a worker: none is alive",
            "4 wait until the queue `paused` is resumed",
            "3 wait until they are due",
        ]
    );
    let worker = db.start(db.worker());
    db.finished(5).await;
    assert_eq!(
        lines(&all).await,
        [
            "4 wait until the queue `paused` is resumed",
            "3 wait until they are due",
            "2 wait for a worker that knows `ntoe`",
        ]
    );
    assert_eq!(lines(&Filter::new().kind("ntoe")).await, ["2 wait for a worker that knows `ntoe`"]);
    assert_eq!(lines(&Filter::new().queue("paused")).await, ["4 wait until the queue `paused` is resumed"]);
    worker.stop().await;
}

async fn knows_the_limit_of_a_queue(db: Db) {
    let worker = db.start(db.worker().queue("slow", 1).queue("quick", 4));
    let held = db.enqueue(Play::new("a", vec![Step::hold("never")]).queue("slow")).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    let waits = db.enqueue(Note::new("b").queue("slow")).await;
    // four slots are free, but none for this queue
    let reason = why(&db, waits).await.reason;
    assert!(matches!(reason, Reason::Busy { running: 1, slots: 1 } | Reason::Running { .. }), "{reason:?}");
    let it = db.admin().workers().await.expect("workers").remove(0);
    let limits: Vec<_> = it.limits.iter().map(|(queue, most)| (&**queue, *most)).collect();
    assert_eq!(limits, [("quick", 4), ("slow", 1)]);
    assert!(it.held["slow"] >= 1 && it.running == it.held["slow"], "{it:?}");
    // a worker of the build before tells no limits
    db.sql("UPDATE queue_workers SET limits = NULL").await;
    assert!(db.admin().workers().await.expect("workers")[0].limits.is_empty());
    db.admin().cancel(held).await.expect("cancelled");
    db.reaches(waits, JobState::Completed).await;
    worker.stop().await;
}

async fn finds_a_transaction_that_has_the_row(db: Db) {
    let id = db.enqueue(Note::new("a")).await;
    let worker = db.fake_worker(3_600_000).await;
    db.sql(format!("UPDATE queue_workers SET kinds = '[\"note\"]', queues = '[]' WHERE id = {worker}")).await;
    db.sql(format!("UPDATE queue_jobs SET run_at = {} WHERE id = {id}", db.time(-60_000))).await;
    assert!(matches!(why(&db, id).await.reason, Reason::Unexplained { .. }));
    if db.engine() == Engine::Sqlite {
        return; // it locks no rows
    }
    let mut tx = db.begin().await;
    tx.sql(&format!("SELECT id FROM queue_jobs WHERE id = {id} FOR UPDATE")).await.expect("locked");
    assert_eq!(why(&db, id).await.reason, Reason::Locked);
    tx.rollback().await;
    assert!(matches!(why(&db, id).await.reason, Reason::Unexplained { .. }));
}
