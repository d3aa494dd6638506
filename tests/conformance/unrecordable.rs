//! Ends that the tables of an application, or a past of these tables, are in the way of: what has succeeded does not
//! run again.

use std::time::Duration;

use queue::{Enqueue, Job, JobState, enqueue_all, job};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play};
use queue_tests::{Db, Step, What, each};

conformance! {
    beside_a_foreign_key_ends_as_a_dead_letter,
    beside_an_old_number_ends_as_it_ended,
    arguments_are_refused,
    large_ends_keep_nobody_waiting,
    numbers_that_were_set_back_are_told_of,
    delays_count_from_the_enqueue,
}

/// P5: An application's row that refers to the job keeps it in the table.
async fn beside_a_foreign_key_ends_as_a_dead_letter(db: Db) {
    let key = if db.engine() == Engine::Sqlite { "INTEGER" } else { "BIGINT" };
    db.sql(format!(
        "CREATE TABLE orders (job {key} REFERENCES queue_jobs (id), FOREIGN KEY (job) REFERENCES queue_jobs (id))"
    ))
    .await;
    let id = db.enqueue(Note::new("referred to")).await;
    let other = db.enqueue(Note::new("another")).await;
    db.sql(format!("INSERT INTO orders VALUES ({id})")).await;
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Ended, "referred to", 1).await;
    db.reaches(other, JobState::Completed).await;
    // what cannot leave the table stays with its worker, and the log says why
    db.beats(30).await;
    worker.stop().await;
    let worker = db.start(db.worker());
    db.beats(10).await;
    worker.stop().await;
    assert_eq!(db.probe.count(What::Started, "referred to"), 1, "it has run again");
}

/// P5, P31: The history has the number already: the numbers were set back.
async fn beside_an_old_number_ends_as_it_ended(db: Db) {
    let old = db.enqueue(Note::new("old")).await;
    let bad = db.enqueue(Enqueue::from(Play::new("old play", [Step::Die("no".into())]))).await;
    let worker = db.start(db.worker());
    db.reaches(old, JobState::Completed).await;
    db.reaches(bad, JobState::Dead).await;
    worker.stop().await;
    let columns = "kind, args, max_retries";
    let overriding = if db.engine() == Engine::Postgres { "OVERRIDING SYSTEM VALUE" } else { "" };
    let args = |steps: &[Step]| serde_json::to_string(&Play::new("new", steps.to_vec())).expect("JSON");
    let insert = async |id: queue::JobId, steps: &[Step]| {
        let args = args(steps);
        db.sql(format!("INSERT INTO queue_jobs (id, {columns}) {overriding} VALUES ({id}, 'play', '{args}', 2)")).await;
    };
    insert(old, &[Step::Return("new".into())]).await;
    insert(bad, &[Step::Fail("once".into()), Step::Die("for good".into())]).await;
    let worker = db.start(db.worker());
    queue_tests::eventually("ends", async || (db.count("queue_jobs").await == 0).then_some(())).await;
    let third = db.enqueue(Note::new("third")).await;
    db.reaches(third, JobState::Completed).await;
    worker.stop().await;
    assert_eq!((db.state(old).await, db.state(bad).await), (JobState::Completed, JobState::Dead));
    assert_eq!(db.job(old).await.result.as_deref(), Some("\"new\""));
    assert_eq!(db.job(bad).await.job.error.as_deref(), Some("for good"));
}

/// P40.
async fn numbers_that_were_set_back_are_told_of(db: Db) {
    let log = crate::logs::captured(db.engine(), "info", async |db| {
        let old = db.enqueue(Note::new("old")).await;
        let worker = db.start(db.worker());
        db.reaches(old, JobState::Completed).await;
        worker.stop().await;
        db.sql(format!("UPDATE queue_history SET id = id + 1000, enqueued_at = {}", db.time(-3_600_000))).await;
        db.enqueue(Note::new("new")).await;
        let worker = db.start(db.worker());
        db.finished(2).await;
        worker.stop().await;
    })
    .await;
    assert_eq!(log.matches("were set back").count(), 1, "{log}");
    drop(db);
}

#[job(max_retries = 0)]
async fn weighty(bytes: usize, fails: bool) -> Result<String, queue::JobError> {
    if fails { Err(queue::JobError::retry("x".repeat(bytes))) } else { Ok("x".repeat(bytes)) }
}

/// P38: Also beside a server that takes nothing so large (`max_allowed_packet`): what it would break the connection for
/// is recorded without.
async fn large_ends_keep_nobody_waiting(db: Db) {
    let large = db.enqueue(Weighty::new(1_040_000usize, false)).await;
    let medium = db.enqueue_all((0..60).map(|_| Weighty::new(50_000usize, false))).await;
    db.enqueue_all((0..60).map(|_| Weighty::new(8_000usize, true))).await;
    db.enqueue_all((0..60).map(|n| Note::new(format!("small {n}")))).await;
    let worker = db.start(db.worker().concurrency(100));
    queue_tests::eventually("ends", async || (db.counts().await == (0, 121, 60)).then_some(())).await;
    worker.stop().await;
    for id in medium.into_iter().chain([large]) {
        let detail = db.job(id).await;
        let told = detail.job.error.is_some_and(|error| error.contains("rejected the text"));
        assert!(detail.result.is_some() != told, "{id}: {told}");
    }
}

#[job]
async fn weighs(
    one: f64,
    small: f32,
    maybe: Option<f64>,
    many: Vec<f64>,
    named: std::collections::BTreeMap<String, f64>,
) {
    let _ = (one, small, maybe, many, named);
}

/// A kind that no worker can serve.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Crooked;

impl Job for Crooked {
    const KIND: &'static str = "a\nb";
    type Output = ();
    async fn run(self, _: queue::JobContext) -> Result<(), queue::JobError> {
        Ok(())
    }
}

/// P39.
async fn arguments_are_refused(db: Db) {
    let good = || Weighs { one: 1.0, small: 1.5, maybe: None, many: vec![0.0], named: Default::default() };
    db.enqueue(good()).await;
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let all = [
            Weighs { one: bad, ..good() },
            Weighs { small: bad as f32, ..good() },
            Weighs { maybe: Some(bad), ..good() },
            Weighs { many: vec![1.0, bad], ..good() },
            Weighs { named: [("weight".to_owned(), bad)].into(), ..good() },
        ];
        for job in all {
            let error = db.pool().enqueue(job.clone()).await.expect_err("not finite").to_string();
            assert!(error.contains("weighs") && error.contains("finite"), "{error}");
            let error = db.pool().enqueue_all([good(), job]).await.expect_err("not finite").to_string();
            assert!(error.contains("finite"), "{error}");
        }
    }
    let error = db.pool().enqueue(Crooked).await.expect_err("a kind with a line break").to_string();
    assert!(error.contains("kind") && error.contains(r"a\nb"), "{error}");
    assert_eq!(db.count("queue_jobs").await, 1);
}

/// P12: However old the transaction is.
async fn delays_count_from_the_enqueue(db: Db) {
    let late = |n: u64| Enqueue::from(Note::new(format!("late {n}"))).after(Duration::from_secs(20 + n));
    let mut tx = db.begin().await;
    tx.sql("SELECT 1").await.expect("begun");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = db.now().await;
    let mut jobs = vec![(0, tx.enqueue(late(0)).await.expect("enqueued"))];
    jobs.extend([(1, tx.enqueue_all([late(1)]).await.expect("enqueued")[0])]);
    let many = tx.enqueue_all([late(2), late(3), late(4)]).await.expect("enqueued");
    jobs.extend((2..).zip(many));
    let alike = tx.enqueue_all([late(5), late(5), late(5)]).await.expect("enqueued");
    jobs.extend(alike.into_iter().map(|id| (5, id)));
    each!(AnyTransaction, &mut tx, tx => {
        jobs.push((6, late(6).enqueue(&mut **tx).await.expect("enqueued")));
        jobs.push((7, enqueue_all(&mut **tx, [late(7)]).await.expect("enqueued")[0]));
    });
    tx.commit().await;
    let least = chrono::TimeDelta::milliseconds(-1);
    for (n, id) in jobs {
        let delay = db.job(id).await.job.run_at - before - chrono::TimeDelta::seconds(20 + n);
        assert!(delay > least, "{n}: {delay}");
    }
}
