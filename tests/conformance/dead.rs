//! Dead letters: seen, mended, sent back.

use queue::admin::Filter;
use queue::{Error, Job, JobState};
use queue_tests::jobs::{Note, Play};
use queue_tests::{Db, Step, What};
use serde_json::json;

conformance! {
    are_listed_shown_mended_and_sent_back,
    start_anew_when_sent_back,
    go_back_many_at_a_time,
    wait_until_somebody_acts,
}

/// P36, P37.
async fn are_listed_shown_mended_and_sent_back(db: Db) {
    // a producer's mistake: a number where a text belongs
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"label\": 5}')").await;
    let fine = db.enqueue(Note::new("fine")).await;
    let worker = db.start(db.worker());
    db.reaches(fine, JobState::Completed).await;
    let admin = db.admin();
    let page = queue_tests::eventually("a dead letter", async || {
        let page = admin.jobs(&Filter::new().state(JobState::Dead)).await.expect("an answer");
        (!page.items.is_empty()).then_some(page)
    })
    .await;
    assert_eq!((page.items.len(), page.next), (1, None));
    let id = page.items[0].id;
    let detail = db.job(id).await;
    assert_eq!(detail.args, "{\"label\": 5}");
    assert!(detail.job.error.is_some_and(|error| error.contains("invalid type")));
    admin.edit_args(id, &json!({"label": "mended"})).await.expect("edited");
    assert_eq!(db.state(id).await, JobState::Dead, "editing alone changes nothing else");
    admin.send_back(id).await.expect("sent back");
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&detail.args).expect("JSON"), json!({"label": "mended"}));
    let outcomes: Vec<_> = detail.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
    assert_eq!(outcomes, ["undecodable", "completed"]);
    assert_eq!(db.probe.labels(What::Started), ["fine", "mended"]);
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 2, 0));
}

/// P9, P37.
async fn start_anew_when_sent_back(db: Db) {
    let mut steps = vec![Step::Fail("no".into()); 5];
    steps.push(Step::Return(json!("at last")));
    let id = db.enqueue(Play::new("a", steps).queue("mail").priority(3)).await;
    let worker = db.start(db.worker());
    db.reaches(id, JobState::Dead).await;
    assert_eq!(db.probe.count(What::Started, "a"), 3);
    db.admin().send_back(id).await.expect("sent back");
    let detail = db.reaches(id, JobState::Completed).await;
    let numbers: Vec<_> = db.probe.log().into_iter().filter(|e| e.what == What::Started).map(|e| e.attempt).collect();
    assert_eq!(numbers, [1, 2, 3, 1, 2, 3], "all its attempts are before it again");
    assert_eq!(detail.attempts.len(), 6, "those that it had stay on record");
    assert_eq!((detail.job.queue.as_str(), detail.job.priority, detail.job.max_retries), ("mail", 3, Some(2)));
    assert_eq!(detail.job.id, id);
    let error = db.admin().send_back(id).await.expect_err("it is not dead");
    assert!(matches!(error, Error::Conflict { state: JobState::Completed, .. }), "{error}");
    worker.stop().await;
}

/// P36.
async fn go_back_many_at_a_time(db: Db) {
    let jobs = |label: &'static str| (0..60).map(move |_| Play::new(label, [Step::Die("x".into()), Step::Complete]));
    db.enqueue_all(jobs("a")).await;
    db.enqueue_all(jobs("b").map(|job| job.queue("mail"))).await;
    let worker = db.start(db.worker());
    queue_tests::eventually("dead letters", async || (db.counts().await == (0, 0, 120)).then_some(())).await;
    assert_eq!(db.admin().send_back_all(&Filter::new().queue("mail")).await.expect("sent back"), 60);
    db.finished(60).await;
    assert_eq!(db.count("queue_history WHERE queue = 'mail'").await, 60);
    assert_eq!(db.counts().await, (0, 60, 60));
    worker.stop().await;
}

/// P37.
async fn wait_until_somebody_acts(db: Db) {
    let id = db.enqueue(Play::new("a", [Step::Die("x".into())])).await;
    let worker = db.start(db.worker());
    db.reaches(id, JobState::Dead).await;
    worker.stop().await;
    let worker = db.start(db.worker());
    db.enqueue(Note::new("marker")).await;
    db.probe.wait_for(What::Ended, "marker", 1).await;
    db.beats(3).await;
    assert_eq!((db.state(id).await, db.probe.count(What::Started, "a")), (JobState::Dead, 1));
    worker.stop().await;
}
