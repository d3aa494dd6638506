//! The contract for other programs: one statement enqueues, two views tell.

use queue::{Job, JobState};
use queue_tests::jobs::{Note, Play};
use queue_tests::{Db, Step, What};

conformance! {
    need_kind_and_arguments_only,
    may_set_the_optional_columns,
    may_leave_the_retries_to_the_job,
    are_heard_without_a_signal,
    may_use_their_own_transaction,
    are_refused_what_no_worker_could_read,
    see_every_job_in_one_view,
    see_counts_in_another_view,
}

async fn need_kind_and_arguments_only(db: Db) {
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"label\":\"hi\"}')").await;
    db.sql("INSERT INTO queue_jobs (kind) VALUES ('bare')").await;
    let ids = db.column("SELECT id FROM queue_jobs ORDER BY id").await;
    let job = db.job(ids[0].parse().expect("an id")).await;
    assert_eq!((job.job.queue.as_str(), job.job.priority, job.job.state), ("default", 0, JobState::Ready));
    assert_eq!((job.job.max_retries, job.job.attempt, job.args.as_str()), (None, 0, "{\"label\":\"hi\"}"));
    let age = db.now().await - job.job.run_at;
    assert!(age.num_seconds().abs() < 20 && job.job.run_at == job.job.enqueued_at, "due {age} ago");
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Ended, "hi", 1).await;
    db.probe.wait_for(What::Ended, "bare", 1).await;
    db.finished(2).await;
    worker.stop().await;
}

async fn may_set_the_optional_columns(db: Db) {
    let insert = "INSERT INTO queue_jobs (kind, args, queue, priority, run_at, max_retries)";
    db.sql(format!(
        "{insert} VALUES ('note', '{{\"label\":\"second\"}}', 'mail', 5, {}, 0),
                         ('note', '{{\"label\":\"first\"}}', 'mail', -5, {}, NULL),
                         ('note', '{{\"label\":\"tomorrow\"}}', 'mail', -9, {}, 7)",
        db.time(-10_000),
        db.time(-5_000),
        db.time(86_400_000)
    ))
    .await;
    let worker = db.start(db.worker().queue("mail", 1));
    db.probe.wait_for_all(What::Ended, 2).await;
    db.finished(2).await;
    assert_eq!(db.probe.labels(What::Started), ["first", "second"]);
    let most: Vec<_> = db.probe.log().into_iter().filter(|e| e.what == What::Started).map(|e| e.max_attempts).collect();
    assert_eq!(most, [21, 1]);
    assert_eq!(db.column("SELECT state FROM queue_all WHERE priority = -9").await, ["scheduled"]);
    worker.stop().await;
}

async fn may_leave_the_retries_to_the_job(db: Db) {
    let fail = serde_json::to_string(&Play::new("a", [Step::Fail("no".into())])).expect("JSON");
    db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('play', '{fail}')")).await;
    db.sql(format!("INSERT INTO queue_jobs (kind, args, max_retries) VALUES ('play', '{fail}', NULL)")).await;
    db.sql(format!("INSERT INTO queue_jobs (kind, args, max_retries) VALUES ('play', '{fail}', 0)")).await;
    let worker = db.start(db.worker());
    queue_tests::eventually("dead letters", async || (db.counts().await == (0, 0, 3)).then_some(())).await;
    worker.stop().await;
    assert_eq!(db.column("SELECT attempt FROM queue_dead ORDER BY id").await, ["3", "3", "1"]);
    assert_eq!(db.column("SELECT max_retries FROM queue_dead ORDER BY id").await, ["2", "2", "0"]);
}

/// Nothing tells a worker of a plain insert; it looks by itself, also after a while without work.
async fn are_heard_without_a_signal(db: Db) {
    let worker = db.start(db.worker());
    for n in 0..3 {
        db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{{\"label\":\"{n}\"}}')")).await;
        db.probe.wait_for(What::Ended, &n.to_string(), 1).await;
        db.beats(3).await;
    }
    worker.stop().await;
}

async fn may_use_their_own_transaction(db: Db) {
    let worker = db.start(db.worker());
    let mut tx = db.begin().await;
    tx.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"label\":\"lost\"}')").await.expect("inserted");
    tx.rollback().await;
    let mut tx = db.begin().await;
    tx.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"label\":\"kept\"}')").await.expect("inserted");
    tx.commit().await;
    db.probe.wait_for(What::Ended, "kept", 1).await;
    assert_eq!(db.probe.labels(What::Started), ["kept"]);
    worker.stop().await;
}

async fn are_refused_what_no_worker_could_read(db: Db) {
    for (columns, values, why) in [
        ("kind, args", "'note', '{\"label\":'", "broken JSON"),
        ("kind, args", "'', '{}'", "an empty kind"),
        ("kind, args, queue", "'note', '{}', ''", "an empty queue"),
        (
            "kind, args",
            "'note ', '{}'",
            "a kind with a space at its end, which not every engine tells from one without",
        ),
        ("kind, args, queue", "'note', '{}', 'mail '", "such a queue"),
        ("kind, args", "NULL, '{}'", "no kind"),
        ("kind, args", "'note', NULL", "no arguments"),
        ("kind, args, max_retries", "'note', '{}', -1", "a negative number of retries"),
    ] {
        let result = db.pool().sql(&format!("INSERT INTO queue_jobs ({columns}) VALUES ({values})")).await;
        assert!(result.is_err(), "{why} is accepted");
    }
    assert_eq!(db.count("queue_jobs").await, 0);
}

/// One job in each state, and a worker that holds the running one.
async fn one_of_each(db: &Db) -> queue_tests::Running {
    db.enqueue(Note::new("scheduled").after(std::time::Duration::from_secs(3600)).queue("mail")).await;
    db.enqueue(Play::new("running", [Step::hold("go")])).await;
    let over = [
        db.enqueue(Play::new("completed", [Step::Fail("once".into()), Step::Return(serde_json::json!({"n": 1}))]))
            .await,
        db.enqueue(Play::new("cancelled", [Step::Cancel("because".into())])).await,
        db.enqueue(Play::new("dead", [Step::Die("too bad".into())])).await,
    ];
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Started, "running", 1).await;
    for (id, state) in over.into_iter().zip([JobState::Completed, JobState::Cancelled, JobState::Dead]) {
        db.reaches(id, state).await;
    }
    db.admin().pause("paused").await.expect("paused");
    db.enqueue(Note::new("ready").queue("paused")).await;
    worker
}

async fn see_every_job_in_one_view(db: Db) {
    let worker = one_of_each(&db).await;
    let rows = db
        .sql(
            "SELECT id, kind, queue, state, priority, attempt, max_retries, enqueued_at, run_at, started_at, \
             finished_at,
                    worker_id, args, result, error
             FROM queue_all ORDER BY id",
        )
        .await;
    let states: Vec<_> = rows.iter().map(|row| row[3].clone().expect("a state")).collect();
    assert_eq!(states, ["scheduled", "running", "completed", "cancelled", "dead", "ready"]);
    let number = db.value("SELECT MAX(id) FROM queue_workers").await;
    for row in &rows {
        let [.., enqueued, run_at, started, finished, worker, args, result, error] = row.as_slice() else { panic!() };
        let state = row[3].as_deref().expect("a state");
        assert!(enqueued.is_some() && run_at.is_some() && args.as_deref().is_some_and(|args| args.contains(state)));
        // people read these: a year, not a count of milliseconds
        assert!(run_at.as_deref().is_some_and(|time| time.starts_with("20") && time.contains(':')), "{run_at:?}");
        assert_eq!(started.is_some(), !["scheduled", "ready"].contains(&state), "{state}");
        assert_eq!(finished.is_some(), ["completed", "cancelled", "dead"].contains(&state), "{state}");
        assert_eq!(*worker, number.clone().filter(|_| started.is_some()), "{state}");
        assert_eq!(result.is_some(), state == "completed");
        let expected = match state {
            "cancelled" => Some("because"),
            "dead" => Some("too bad"),
            _ => None,
        };
        assert_eq!(error.as_deref(), expected);
    }
    db.probe.release("go");
    worker.stop().await;
}

async fn see_counts_in_another_view(db: Db) {
    let worker = one_of_each(&db).await;
    db.enqueue_all((0..3).map(|_| Note::new("ready").queue("paused"))).await;
    let rows = db.sql("SELECT kind, queue, state, jobs, oldest FROM queue_stats ORDER BY kind, queue, state").await;
    let counts: Vec<_> = rows
        .iter()
        .map(|row| row[..4].iter().map(|cell| cell.as_deref().expect("not NULL")).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        counts,
        [
            "note mail scheduled 1",
            "note paused ready 4",
            "play default cancelled 1",
            "play default completed 1",
            "play default dead 1",
            "play default running 1",
        ]
    );
    assert!(rows.iter().all(|row| row[4].is_some()), "each has an age");
    // the library counts the same
    let stats = db.admin().stats().await.expect("an answer");
    let mut same: Vec<_> = stats.iter().map(|s| format!("{} {} {} {}", s.kind, s.queue, s.state, s.jobs)).collect();
    same.sort();
    assert_eq!(same, counts);
    db.probe.release("go");
    worker.stop().await;
}
