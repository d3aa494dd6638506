//! How attempts end: success, failure and its retries, everything that a handler can say, and what is kept of it.

use std::time::Duration;

use chrono::TimeDelta;
use queue::admin::JobDetail;
use queue::{Backoff, Job, JobError, JobState, job};
use queue_tests::jobs::{
    Bare, FailsExponentially, FailsItsOwnWay, FailsLinearly, FailsSteadily, Grind, GrindHurried, Hurried, Note, Play,
};
use queue_tests::{DEADLINE, Db, Step, What, eventually};
use serde_json::json;

conformance! {
    keeps_the_result,
    keeps_no_result_of_nothing,
    tries_again_as_often_as_declared,
    succeeds_at_last,
    tries_as_often_as_the_enqueue_says,
    keeps_the_chain_of_causes,
    cuts_long_errors,
    backs_off_exponentially,
    backs_off_linearly,
    backs_off_steadily,
    backs_off_as_it_likes,
    retries_when_the_handler_says,
    gives_up_when_the_handler_says,
    ends_when_the_handler_cancels,
    snoozes_without_counting,
    keeps_the_message_of_a_panic,
    times_out_with_a_token_first,
    drops_what_ignores_its_timeout,
    takes_what_completes_in_spite_of_its_timeout,
    leaves_time_to_end_after_the_token,
    runs_blocking_jobs,
    leaves_a_blocking_job_behind,
    records_every_attempt,
    sets_undecodable_arguments_aside,
    tries_undecodable_arguments_again_for_a_while,
    gives_up_undecodable_arguments_after_the_grace_period,
    sets_unserializable_results_aside,
    records_thousands_of_ends,
}

/// Returns a text of this length.
#[job]
async fn swells(bytes: usize) -> Result<String, JobError> {
    Ok("x".repeat(bytes))
}

/// Succeeds with a result that JSON cannot express.
#[job]
async fn returns_the_unspeakable() -> Result<std::collections::HashMap<(u8, u8), u8>, JobError> {
    Ok([((1, 2), 3)].into())
}

/// P38.
async fn sets_unserializable_results_aside(db: Db) {
    let id = db.enqueue(ReturnsTheUnspeakable).await;
    let worker = db.start(db.worker());
    let error = db.reaches(id, JobState::Dead).await.job.error.expect("an error");
    assert!(error.contains("succeeded") && error.contains("not serializable"), "{error}");
    worker.stop().await;
}

fn outcomes(detail: &JobDetail) -> Vec<(u32, &str)> {
    detail.attempts.iter().map(|attempt| (attempt.attempt, attempt.outcome.as_str())).collect()
}

/// P31.
async fn keeps_the_result(db: Db) {
    let value = json!({"sent": 3, "to": ["ä", "\u{0}", null], "big": 9_007_199_254_740_993_i64});
    let id = db.enqueue(Play::new("a", [Step::Return(value.clone())])).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Completed).await;
    let result = detail.result.as_deref().expect("a result");
    assert_eq!(serde_json::from_str::<serde_json::Value>(result).expect("JSON"), value);
    assert_eq!((detail.job.attempt, detail.job.error.as_deref()), (1, None));
    worker.stop().await;
}

/// P31.
async fn keeps_no_result_of_nothing(db: Db) {
    let nothing = db.enqueue(Bare).await;
    let null = db.enqueue(Play::new("a", [Step::Complete])).await;
    let large = db.enqueue(Swells::new(1024 * 1024 - 2)).await;
    let too_large = db.enqueue(Swells::new(1024 * 1024 - 1)).await;
    let worker = db.start(db.worker());
    assert_eq!(db.reaches(nothing, JobState::Completed).await.result, None);
    assert_eq!(db.reaches(null, JobState::Completed).await.result, None);
    assert_eq!(db.reaches(large, JobState::Completed).await.result.map(|json| json.len()), Some(1024 * 1024));
    assert_eq!(db.reaches(too_large, JobState::Completed).await.result, None, "the job is completed all the same");
    worker.stop().await;
}

/// P9, P31.
async fn tries_again_as_often_as_declared(db: Db) {
    let id = db.enqueue(Play::new("a", [1, 2, 3].map(|n| Step::Fail(format!("error {n}"))))).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Dead).await;
    let runs: Vec<_> = db.probe.log().into_iter().filter(|e| e.what == What::Started).collect();
    let numbers: Vec<_> = runs.iter().map(|e| (e.attempt, e.max_attempts)).collect();
    assert_eq!(numbers, [(1, 3), (2, 3), (3, 3)]);
    assert_eq!(outcomes(&detail), [(1, "failed"), (2, "failed"), (3, "failed")]);
    assert_eq!(detail.job.error.as_deref(), Some("error 3"));
    let errors: Vec<_> = detail.attempts.iter().map(|attempt| attempt.error.clone().expect("an error")).collect();
    assert_eq!(errors, ["error 1", "error 2", "error 3"]);
    assert_eq!((detail.job.attempt, detail.job.max_retries), (3, Some(2)));
    db.beats(2).await;
    assert_eq!(db.probe.count(What::Started, "a"), 3);
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 0, 1));
}

/// P9, P30.
async fn succeeds_at_last(db: Db) {
    let steps = [Step::Fail("no".into()), Step::Panic("never".into()), Step::Return(json!(7))];
    let id = db.enqueue(Play::new("a", steps)).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!((detail.result.as_deref(), detail.job.attempt), (Some("7"), 3));
    assert_eq!(outcomes(&detail), [(1, "failed"), (2, "panicked"), (3, "completed")]);
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 1, 0));
}

/// P9.
async fn tries_as_often_as_the_enqueue_says(db: Db) {
    let fail = || [Step::Fail("no".into())];
    let never = db.enqueue(Play::new("never", fail()).max_retries(0)).await;
    let often = db.enqueue(Play::new("often", fail()).max_retries(6)).await;
    let worker = db.start(db.worker());
    db.reaches(never, JobState::Dead).await;
    db.reaches(often, JobState::Dead).await;
    assert_eq!((db.probe.count(What::Started, "never"), db.probe.count(What::Started, "often")), (1, 7));
    worker.stop().await;
}

mod chained {
    //! A job whose error has causes.
    use queue::{JobError, job};

    #[derive(Debug)]
    pub(super) struct Layer(&'static str, Option<Box<Layer>>);

    impl std::fmt::Display for Layer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Layer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn std::error::Error + 'static))
        }
    }

    /// Fails for a reason that has a reason that has a reason.
    #[job(max_retries = 0)]
    pub(super) async fn fails_in_layers() -> Result<(), JobError> {
        let cause = Layer("the host is down", None);
        let error = Layer("no connection", Some(Box::new(cause)));
        Err(Layer("the mail was not sent", Some(Box::new(error))))?
    }

    /// Fails with an error type of its own, without `JobError`.
    #[job(max_retries = 0)]
    pub(super) async fn fails_plainly() -> Result<(), std::num::ParseIntError> {
        "x".parse::<i32>().map(drop)
    }

    /// Fails with a text.
    #[job(max_retries = 0)]
    pub(super) async fn fails_in_words(text: String) -> Result<u8, String> {
        Err(text)
    }
}

/// P31.
async fn keeps_the_chain_of_causes(db: Db) {
    let layers = db.enqueue(chained::FailsInLayers).await;
    let plain = db.enqueue(chained::FailsPlainly).await;
    let words = db.enqueue(chained::FailsInWords::new("say it \0 in 'words'")).await;
    let worker = db.start(db.worker());
    let error = db.reaches(layers, JobState::Dead).await.job.error.expect("an error");
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines, ["the mail was not sent", "caused by: no connection", "caused by: the host is down"]);
    let error = db.reaches(plain, JobState::Dead).await.job.error.expect("an error");
    assert!(error.contains("invalid digit"), "{error}");
    let error = db.reaches(words, JobState::Dead).await.job.error.expect("an error");
    assert_eq!(error, "say it \u{FFFD} in 'words'", "NUL, which not every database takes, is replaced");
    worker.stop().await;
}

/// P31.
async fn cuts_long_errors(db: Db) {
    let text = "ä".repeat(100_000);
    let dead = db.enqueue(chained::FailsInWords::new(text.clone())).await;
    let cancelled = db.enqueue(Play::new("b", [Step::Cancel(text.clone())])).await;
    let retried = db.enqueue(Play::new("c", [Step::Fail(text), Step::Complete])).await;
    let worker = db.start(db.worker());
    let error = db.reaches(dead, JobState::Dead).await.job.error.expect("an error");
    assert!(error.len() <= 8192 && error.starts_with("ää") && error.ends_with("(cut)"), "{} bytes", error.len());
    let error = db.reaches(cancelled, JobState::Cancelled).await.job.error.expect("a reason");
    assert!(error.len() <= 8192, "{} bytes", error.len());
    let error = db.reaches(retried, JobState::Completed).await.attempts.remove(0).error.expect("an error");
    assert!(error.len() <= 8192, "{} bytes", error.len());
    worker.stop().await;
}

/// Fails a job several times, and gives the waiting time after each failure, by the database.
async fn delays(db: &Db, job: impl Job, label: &str, failures: usize) -> Vec<TimeDelta> {
    let id = db.enqueue(job).await;
    let worker = db.start(db.worker());
    let mut delays = Vec::new();
    for n in 1..=failures {
        db.probe.wait_for(What::Ended, label, n).await;
        let detail = queue_tests::eventually("the failure to be recorded", async || {
            Some(db.job(id).await).filter(|detail| detail.attempts.len() == n && detail.job.state != JobState::Running)
        })
        .await;
        assert_eq!(detail.job.state, JobState::Scheduled);
        let ended = detail.attempts[n - 1].ended_at.expect("it ended");
        delays.push(detail.job.run_at - ended);
        if n < failures {
            db.admin().retry(id).await.expect("retried at once");
        }
    }
    worker.stop().await;
    delays
}

fn near(delay: TimeDelta, seconds: i64) -> bool {
    (delay - TimeDelta::seconds(seconds)).abs() < TimeDelta::milliseconds(500)
}

/// P30.
async fn backs_off_exponentially(db: Db) {
    // full jitter: anything between nothing and the ceiling, which doubles up to its cap
    let delays = delays(&db, FailsExponentially, "exponential", 4).await;
    for (delay, (ceiling, n)) in delays.iter().zip([(1000, 1), (2000, 2), (3000, 3), (3000, 4)]) {
        assert!(*delay >= TimeDelta::zero() && *delay <= TimeDelta::seconds(ceiling), "{delay} after {n} failures");
    }
    assert!(delays.iter().any(|delay| !near(*delay, 1000)), "no jitter: {delays:?}");
    assert_eq!(FailsExponentially::BACKOFF, Backoff::exponential(Duration::from_secs(1000), Duration::from_secs(3000)));
}

/// P30.
async fn backs_off_linearly(db: Db) {
    let delays = delays(&db, FailsLinearly, "linear", 4).await;
    assert!(delays.iter().zip([1000, 2000, 2500, 2500]).all(|(delay, s)| near(*delay, s)), "{delays:?}");
}

/// P30.
async fn backs_off_steadily(db: Db) {
    let delays = delays(&db, FailsSteadily, "fixed", 3).await;
    assert!(delays.iter().all(|delay| near(*delay, 1000)), "{delays:?}");
}

/// P30.
async fn backs_off_as_it_likes(db: Db) {
    let delays = delays(&db, FailsItsOwnWay, "custom", 3).await;
    assert!(delays.iter().zip([1000, 4000, 9000]).all(|(delay, s)| near(*delay, s)), "{delays:?}");
}

/// P9, P30.
async fn retries_when_the_handler_says(db: Db) {
    let steps = [Step::RetryAfter(100, "busy".into()), Step::RetryAfter(600_000, "closed".into())];
    let id = db.enqueue(Play::new("a", steps)).await;
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Ended, "a", 2).await;
    let detail = db.reaches(id, JobState::Scheduled).await;
    assert_eq!(outcomes(&detail), [(1, "failed"), (2, "failed")], "counted like any failure");
    let (first, second) = (&detail.attempts[0], &detail.attempts[1]);
    let pause = second.started_at - first.ended_at.expect("it ended");
    assert!(pause >= TimeDelta::milliseconds(95), "again after {pause}");
    assert!(near(detail.job.run_at - second.ended_at.expect("it ended"), 600));
    // retries are limited all the same
    db.admin().retry(id).await.expect("retried at once");
    let detail = db.reaches(id, JobState::Dead).await;
    assert_eq!((detail.job.attempt, detail.job.error.as_deref()), (3, Some("closed")));
    worker.stop().await;
}

/// P30.
async fn gives_up_when_the_handler_says(db: Db) {
    let id = db.enqueue(Play::new("a", [Step::Die("no such account".into())])).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Dead).await;
    assert_eq!(outcomes(&detail), [(1, "failed")]);
    assert_eq!(detail.job.error.as_deref(), Some("no such account"));
    worker.stop().await;
}

/// P7, P30.
async fn ends_when_the_handler_cancels(db: Db) {
    let id = db.enqueue(Play::new("a", [Step::Cancel("nothing to do".into())])).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Cancelled).await;
    assert_eq!((outcomes(&detail), detail.job.error.as_deref()), (vec![(1, "cancelled")], Some("nothing to do")));
    assert_eq!(detail.result, None);
    worker.stop().await;
    assert_eq!((db.counts().await, db.probe.count(What::Started, "a")), ((0, 1, 0), 1));
}

/// P9, P30.
async fn snoozes_without_counting(db: Db) {
    let mut steps = vec![Step::Snooze(10); 5];
    steps.extend([Step::Fail("no".into()), Step::Snooze(200), Step::Return(json!("done"))]);
    let id = db.enqueue(Play::new("a", steps).max_retries(1)).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!((detail.job.attempt, detail.result.as_deref()), (2, Some("\"done\"")));
    let numbers: Vec<_> = db.probe.log().into_iter().filter(|e| e.what == What::Started).map(|e| e.attempt).collect();
    assert_eq!(numbers, [1, 1, 1, 1, 1, 1, 2, 2], "a snoozed attempt gives its number to the next");
    let mut expected = vec![(1, "snoozed"); 5];
    expected.extend([(1, "failed"), (2, "snoozed"), (2, "completed")]);
    assert_eq!(outcomes(&detail), expected);
    let pause = detail.attempts[7].started_at - detail.attempts[6].ended_at.expect("it ended");
    assert!(pause >= TimeDelta::milliseconds(195), "again after {pause}");
    worker.stop().await;
}

/// P30, P31.
async fn keeps_the_message_of_a_panic(db: Db) {
    let id = db.enqueue(Play::new("a", [Step::Panic("index out of \"bounds\"".into())])).await;
    let blocking = db.enqueue(Grind::new("b", [Step::Panic("off the threads".into())]).max_retries(0)).await;
    let worker = db.start(db.worker().concurrency(1));
    let detail = db.reaches(id, JobState::Dead).await;
    assert_eq!(outcomes(&detail), [(1, "panicked"), (2, "panicked"), (3, "panicked")]);
    assert_eq!(detail.job.error.as_deref(), Some("panicked: index out of \"bounds\""));
    let error = db.reaches(blocking, JobState::Dead).await.job.error;
    assert_eq!(error.as_deref(), Some("panicked: off the threads"));
    // the only slot is as good as new
    db.enqueue(Note::new("next")).await;
    db.probe.wait_for(What::Ended, "next", 1).await;
    worker.stop().await;
}

/// P30.
async fn times_out_with_a_token_first(db: Db) {
    let id = db.enqueue(Hurried::new("a", [Step::hold("never"), Step::Return(json!(1))])).await;
    let worker = db.start(db.worker().cancel_grace(DEADLINE));
    db.probe.wait_for(What::Told, "a", 1).await;
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "timed_out"), (2, "completed")]);
    let first = &detail.attempts[0];
    let error = first.error.as_deref().expect("an error");
    assert!(error.contains("timed out") && error.contains("150ms"), "{error}");
    let ran = first.ended_at.expect("it ended") - first.started_at;
    assert!(ran >= TimeDelta::milliseconds(140), "it ran for {ran}");
    assert_eq!(db.probe.count(What::Dropped, "a"), 0);
    worker.stop().await;
}

/// P30.
async fn drops_what_ignores_its_timeout(db: Db) {
    let id = db.enqueue(Hurried::new("a", [Step::deaf("never")]).max_retries(1)).await;
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for(What::Told, "a", 1).await;
    db.probe.wait_for(What::Dropped, "a", 1).await;
    let detail = db.reaches(id, JobState::Dead).await;
    assert_eq!(outcomes(&detail), [(1, "timed_out"), (2, "timed_out")]);
    assert!(detail.job.error.is_some_and(|error| error.contains("timed out")));
    db.enqueue(Note::new("next")).await;
    db.probe.wait_for(What::Ended, "next", 1).await;
    worker.stop().await;
}

/// P30.
async fn takes_what_completes_in_spite_of_its_timeout(db: Db) {
    let id = db.enqueue(Hurried::new("a", [Step::Heed("never".into(), Box::new(Step::Return(json!("saved"))))])).await;
    let worker = db.start(db.worker().cancel_grace(DEADLINE));
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!((db.probe.count(What::Told, "a"), detail.result.as_deref()), (1, Some("\"saved\"")));
    assert_eq!(outcomes(&detail), [(1, "completed")]);
    worker.stop().await;
}

/// P30: Between the token and the drop lies the worker's grace: time to put things in order.
async fn leaves_time_to_end_after_the_token(db: Db) {
    let tidies_up = Step::Heed("never".into(), Box::new(Step::Pause(300)));
    let id = db.enqueue(Hurried::new("a", [tidies_up])).await;
    let worker = db.start(db.worker().cancel_grace(DEADLINE));
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "completed")]);
    assert_eq!((db.probe.count(What::Told, "a"), db.probe.count(What::Dropped, "a")), (1, 0));
    worker.stop().await;
}

/// P29.
async fn runs_blocking_jobs(db: Db) {
    let done = db.enqueue(Grind::new("a", [Step::Fail("no".into()), Step::Return(json!([1]))])).await;
    // more of them than there are threads for async work, all at the same time
    db.enqueue_all((0..6).map(|n| Grind::new(format!("{n}"), [Step::block("go")]))).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(done, JobState::Completed).await;
    assert_eq!((outcomes(&detail), detail.result.as_deref()), (vec![(1, "failed"), (2, "completed")], Some("[1]")));
    for n in 0..6 {
        db.probe.wait_for(What::Started, &n.to_string(), 1).await;
    }
    db.probe.release("go");
    db.finished(7).await;
    worker.stop().await;
}

/// P6, P30: Nobody can end a thread: the attempt is given up, its slot replaced and its lease revoked, so that what the
/// thread comes to in the end is not taken for the job's result.
async fn leaves_a_blocking_job_behind(db: Db) {
    // on a busy machine a later attempt may get its thread too late as well
    let steps = [Step::block("first"), Step::Return(json!("second"))];
    let stuck = db.enqueue(GrindHurried::new("stuck", steps).max_retries(50)).await;
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for(What::Started, "stuck", 1).await;
    db.enqueue(Note::new("next")).await;
    db.probe.wait_for(What::Ended, "next", 1).await;
    let detail = db.reaches(stuck, JobState::Completed).await;
    let [given_up @ .., (_, "completed")] = &outcomes(&detail)[..] else { panic!("{detail:?}") };
    assert!(!given_up.is_empty() && given_up.iter().all(|it| it.1 == "timed_out"), "{detail:?}");
    db.probe.release("first");
    db.probe.wait_for(What::Ended, "stuck", db.probe.count(What::Started, "stuck")).await;
    db.beats(1).await;
    assert_eq!(db.job(stuck).await, detail);
    assert_eq!(detail.result.as_deref(), Some("\"second\""));
    worker.stop().await;
}

/// P31.
async fn records_every_attempt(db: Db) {
    let steps = [
        Step::Fail("first".into()),
        Step::Snooze(1),
        Step::hold_then("go", Step::Panic("second".into())),
        Step::Return(json!(3)),
    ];
    let id = db.enqueue(Play::new("a", steps)).await;
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Started, "a", 3).await;
    let number = db.admin().workers().await.expect("an answer").remove(0).id;
    let running = db.job(id).await;
    assert_eq!((running.job.state, running.job.worker), (JobState::Running, Some(number)));
    assert_eq!(outcomes(&running), [(1, "failed"), (2, "snoozed"), (2, "running")]);
    assert_eq!(running.attempts[2].ended_at, None);
    db.probe.release("go");
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "failed"), (2, "snoozed"), (2, "panicked"), (3, "completed")]);
    let mut last = detail.job.enqueued_at;
    for attempt in &detail.attempts {
        assert_eq!(attempt.worker, number);
        assert!(attempt.worker_name.as_deref().is_some_and(|name| name.ends_with(&format!(":{}", std::process::id()))));
        let ended = attempt.ended_at.expect("it ended");
        // the engines' times are whole microseconds or milliseconds
        let slack = TimeDelta::milliseconds(2);
        assert!(last <= attempt.started_at + slack && attempt.started_at <= ended, "{detail:#?}");
        last = ended;
    }
    let errors: Vec<_> = detail.attempts.iter().map(|attempt| attempt.error.as_deref()).collect();
    assert_eq!(errors, [Some("first"), None, Some("panicked: second"), None]);
    assert_eq!(detail.job.finished_at, detail.attempts[3].ended_at);
    assert_eq!(detail.job.worker, Some(number));
    worker.stop().await;
}

/// P38.
async fn sets_undecodable_arguments_aside(db: Db) {
    let rows = [
        ("note", r#"{"label":5}"#, "expected a string"),
        ("note", "{}", "`label`"),
        ("note", "[1, 2, 3]", "expected a string"),
        ("note", "null", "the arguments of `note`"),
        ("play", r#"{"label":"a", "steps":[{"Unknown":1}]}"#, "`Unknown`"),
    ];
    for (kind, args, _) in rows {
        db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('{kind}', '{args}')")).await;
    }
    let ids = db.column("SELECT id FROM queue_jobs ORDER BY id").await;
    let worker = db.start(db.worker().concurrency(1));
    for (id, (kind, args, word)) in ids.iter().zip(rows) {
        let detail = db.reaches(id.parse().expect("an id"), JobState::Dead).await;
        assert_eq!(outcomes(&detail), [(1, "undecodable")], "at the first attempt");
        let error = detail.job.error.expect("an error");
        assert!(error.contains("do not fit") && error.contains(word), "{error}");
        assert_eq!(
            (detail.args.as_str(), detail.job.kind.as_str()),
            (args, kind),
            "the arguments are kept as they came"
        );
    }
    db.enqueue(Note::new("next")).await;
    db.probe.wait_for(What::Ended, "next", 1).await;
    assert_eq!(db.probe.labels(What::Started), ["next"]);
    worker.stop().await;
}

/// P38: A row that a newer build has enqueued heals when its arguments fit, and no attempt was lost.
async fn tries_undecodable_arguments_again_for_a_while(db: Db) {
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('play', '{\"label\":\"a\",\"steps\":7}')".to_owned()).await;
    let id = db.column("SELECT id FROM queue_jobs").await[0].parse().expect("an id");
    let worker = db.start(db.worker().decode_grace(Duration::from_secs(3600)));
    eventually("three attempts", async || (db.job(id).await.attempts.len() > 3).then_some(())).await;
    let detail = db.job(id).await;
    assert!(detail.attempts.iter().take(3).all(|it| it.outcome == "undecodable"), "{detail:?}");
    assert!(detail.attempts[0].error.as_ref().is_some_and(|error| error.contains("do not fit")), "{detail:?}");
    let mended = serde_json::json!({ "label": "a", "steps": [] });
    eventually("it waits", async || db.admin().edit_args(id, &mended).await.ok()).await;
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(detail.job.attempt, 1, "what did not decode did not count");
    worker.stop().await;
}

/// P38.
async fn gives_up_undecodable_arguments_after_the_grace_period(db: Db) {
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('play', '7')".to_owned()).await;
    let id = db.column("SELECT id FROM queue_jobs").await[0].parse().expect("an id");
    let worker = db.start(db.worker().decode_grace(Duration::from_secs(3600)));
    eventually("an attempt", async || (!db.job(id).await.attempts.is_empty()).then_some(())).await;
    assert!(db.job(id).await.job.state != JobState::Dead);
    // ten minutes later
    eventually("the longest pause", async || {
        db.sql(format!("UPDATE queue_attempts SET started_at = {}", db.time(-600_000))).await;
        let pause = db.job(id).await.job.run_at - db.now().await;
        (50..=60).contains(&pause.num_seconds()).then_some(())
    })
    .await;
    // an hour later
    db.sql(format!("UPDATE queue_attempts SET started_at = {}", db.time(-3_700_000))).await;
    db.admin().retry(id).await.expect("it waits");
    db.reaches(id, JobState::Dead).await;
    let detail = db.job(id).await;
    assert_eq!(detail.job.attempt, 1, "only the last one counts");
    assert!(detail.job.error.is_some_and(|error| error.contains("do not fit")));
    worker.stop().await;
}

/// P31: Ends are recorded in batches; none is lost in them, whatever it is.
async fn records_thousands_of_ends(db: Db) {
    const EACH: i64 = 300;
    let kinds = [
        vec![Step::Complete],
        vec![Step::Return(json!({"n": 1}))],
        vec![Step::Die("x".into())],
        vec![Step::Cancel("y".into())],
        vec![Step::RetryAfter(0, "z".into()), Step::Complete],
        vec![Step::Snooze(0), Step::Complete],
        vec![Step::RetryAfter(3_600_000, "later".into())],
    ];
    let jobs = (0..EACH).flat_map(|_| kinds.iter().enumerate().map(|(n, steps)| Play::new(n.to_string(), &steps[..])));
    db.enqueue_all(jobs).await;
    let worker = db.start(db.worker().concurrency(100));
    db.finished(5 * EACH).await;
    queue_tests::eventually("all ends", async || (db.counts().await == (EACH, 5 * EACH, EACH)).then_some(())).await;
    worker.stop().await;
    assert_eq!(db.count("queue_history WHERE state = 'cancelled' AND error = 'y'").await, EACH);
    assert_eq!(db.count("queue_history WHERE result IS NOT NULL").await, EACH);
    assert_eq!(db.count("queue_attempts WHERE outcome = 'snoozed'").await, EACH);
    assert_eq!(db.count("queue_attempts WHERE outcome = 'failed'").await, 3 * EACH);
    assert_eq!(db.count("queue_jobs WHERE attempt = 1 AND worker_id = 0").await, EACH);
}
