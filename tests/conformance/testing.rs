//! What users test with: `queue::testing`.
//!
//! Promise: P44.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use queue::testing::{Outcome, TestQueue};
use queue::testing::{assert_enqueued, refute_enqueued};
use queue::{Job, JobContext, JobError, JobState, job};
use queue_tests::jobs::{Note, Play};
use queue_tests::{Db, Step, What, each};

conformance! {
    a_test_sees_what_its_transaction_enqueued,
    jobs_run_by_priority_then_due_time_then_id,
    a_test_leaves_nothing_behind,
    time_passes_from_one_due_moment_to_the_next,
    a_snooze_can_have_a_reason_and_an_end,
    outcomes_are_counted,
    a_job_is_performed_without_a_row,
    a_crash_before_the_end_runs_the_job_again,
    a_crash_in_the_last_attempt_is_a_failure,
    a_delay_is_over_after_exactly_that_time,
    a_delay_counts_from_its_enqueue_also_after_a_drain,
    a_job_that_lacks_its_state_runs_when_it_has_it,
    arguments_that_never_decode_are_dead_after_the_grace_period,
    a_lost_lease_drops_the_handler_and_runs_the_job_again,
    a_test_queue_on_a_pool_runs_committed_jobs,
    a_failed_assertion_shows_what_waits,
    long_arguments_arrive,
    two_hundred_tests_share_a_database,
}

async fn a_test_sees_what_its_transaction_enqueued(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx);
        refute_enqueued!(queue, Note { .. });
        Note::new("a").enqueue(&mut *queue).await.unwrap();
        let id = Note::new("b").queue("other").after(Duration::from_secs(60)).enqueue(&mut *queue).await.unwrap();
        let found = assert_enqueued!(queue, Note { label } if label == "b");
        assert_eq!((found.row.id, found.label.as_str(), found.row.queue.as_str()), (id, "b", "other"));
        assert_enqueued!(queue, Note { .. });
        refute_enqueued!(queue, Note { label } if label == "c");
        refute_enqueued!(queue, Play { .. });
    });
}

/// P11.
async fn jobs_run_by_priority_then_due_time_then_id(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        let at = |seconds| chrono::Utc::now() - chrono::TimeDelta::seconds(seconds);
        Note::new("late").at(at(10)).enqueue(&mut *queue).await.unwrap();
        Note::new("early").queue("other").at(at(20)).enqueue(&mut *queue).await.unwrap();
        Play::new("same time", [Step::Complete]).at(at(0)).priority(3).enqueue(&mut *queue).await.unwrap();
        Note::new("first").priority(-1).enqueue(&mut *queue).await.unwrap();
        for label in ["x", "y"] {
            Note::new(label).queue(label).priority(5).at(at(5)).enqueue(&mut *queue).await.unwrap();
        }
        assert_eq!(queue.drain().await.unwrap().expect_ok().completed, 6);
        let order: Vec<_> = db.probe.labels(What::Started);
        assert_eq!(order, ["first", "early", "late", "same time", "x", "y"]);
    });
}

async fn a_test_leaves_nothing_behind(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        Note::new("a").enqueue(&mut *queue).await.unwrap();
        Play::new("b", [Step::Die("x".into())]).enqueue(&mut *queue).await.unwrap();
        Note::new("c").after(Duration::from_secs(60)).enqueue(&mut *queue).await.unwrap();
        assert_eq!(queue.drain().await.unwrap().runs(), 2);
        tx.rollback().await.unwrap();
    });
    assert_eq!(db.counts().await, (0, 0, 0));
    assert_eq!(db.count("queue_workers").await, 0);
}

async fn time_passes_from_one_due_moment_to_the_next(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        let hour = 60 * 60 * 1_000;
        let steps = [Step::RetryAfter(hour, "once".into()), Step::Snooze(24 * hour), Step::Complete];
        Play::new("patient", steps).enqueue(&mut *queue).await.unwrap();
        Note::new("in between").after(Duration::from_secs(2 * 60 * 60)).enqueue(&mut *queue).await.unwrap();
        assert_eq!(queue.drain().await.unwrap().retried, 1);
        assert_eq!(queue.advance("59m").await.unwrap().runs(), 0);
        let two_days = queue.advance(Duration::from_secs(2 * 24 * 60 * 60)).await.unwrap();
        assert_eq!((two_days.snoozed, two_days.completed), (1, 2));
        assert_eq!(db.probe.labels(What::Started), ["patient", "patient", "in between", "patient"]);
        refute_enqueued!(queue, Play { .. });
    });
}

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Asks a provider that always says no: each hour, for a day.
#[job(max_retries = 0)]
async fn ask_a_provider(ctx: JobContext) -> Result<(), JobError> {
    Err(JobError::snooze_because(HOUR, "429 Too Many Requests").give_up_at(ctx.enqueued_at() + 24 * HOUR))
}

/// Has retries left that would come too late.
#[job(max_retries = 5)]
async fn too_late(ctx: JobContext) -> Result<(), JobError> {
    Err(JobError::retry("no answer").give_up_at(ctx.enqueued_at()))
}

/// P30, P31.
async fn a_snooze_can_have_a_reason_and_an_end(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx);
        AskAProvider {}.enqueue(&mut *queue).await.unwrap();
        assert_eq!(queue.drain().await.unwrap().snoozed, 1);
        // the run of 23:00 would be followed by one after the end
        let day = queue.advance("2d").await.unwrap();
        assert_eq!((day.snoozed, day.dead), (22, 1));
        let error = day.errors.first().unwrap();
        assert!(error.starts_with("gave up, because the next run would be after "), "{error}");
        assert!(error.ends_with("Z: 429 Too Many Requests"), "{error}");
        TooLate {}.enqueue(&mut *queue).await.unwrap();
        let late = queue.drain().await.unwrap();
        assert_eq!((late.retried, late.dead), (0, 1));
        assert!(late.errors[0].ends_with("Z: no answer"), "{:?}", late.errors);
    });
    let id = db.enqueue(AskAProvider {}).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Scheduled).await;
    let shown: Vec<_> = detail.attempts.iter().map(|it| (it.outcome.as_str(), it.error.as_deref())).collect();
    assert_eq!(shown, [("snoozed", Some("429 Too Many Requests"))]);
    assert!(!detail.job.retrying, "it did not fail");
    worker.stop().await;
}

async fn outcomes_are_counted(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        for (label, step) in [
            ("a", Step::Complete),
            ("b", Step::RetryAfter(60_000, "broken".into())),
            ("c", Step::Die("hopeless".into())),
            ("d", Step::Cancel("not needed".into())),
            ("e", Step::Snooze(60_000)),
        ] {
            Play::new(label, [step]).enqueue(&mut *queue).await.unwrap();
        }
        let drained = queue.drain().await.unwrap();
        let counts = (drained.completed, drained.retried, drained.dead, drained.cancelled, drained.snoozed);
        assert_eq!(counts, (1, 1, 1, 1, 1));
        assert_eq!(drained.errors, ["broken", "hopeless"]);
        let failed = std::panic::catch_unwind(|| drained.expect_ok()).unwrap_err();
        assert_eq!(failed.downcast_ref::<String>().unwrap(), "2 attempts failed:\nbroken\nhopeless");
        // attempts are numbered as by a worker
        let waiting = assert_enqueued!(queue, Play { label, .. } if label == "b");
        assert_eq!((waiting.row.state, waiting.row.attempt), (JobState::Scheduled, 1));
    });
}

async fn a_job_is_performed_without_a_row(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx);
        let lacks = queue.perform(&Note::new("a")).await.unwrap_err().to_string();
        assert!(lacks.contains("`State<queue_tests::probe::Probe>`") && lacks.contains(".state("), "{lacks}");
        let mut queue = queue.state(db.probe.clone());
        let result = queue.perform(&Play::new("a", [Step::Return(7.into())])).await.unwrap();
        assert_eq!(result, Outcome::Completed { result: 7.into() });
        let retried = queue.perform(&Play::new("a", [Step::RetryAfter(1_500, "x".into())])).await.unwrap();
        assert_eq!(retried, Outcome::Retried { after: Duration::from_millis(1_500), error: "x".into() });
        let panicked = queue.perform(&Play::new("a", [Step::Panic("ouch".into())])).await.unwrap();
        assert!(matches!(panicked, Outcome::Retried { error, .. } if error == "panicked: ouch"));
        let dead = queue.perform(&Play::new("a", [Step::Die("y".into())])).await.unwrap();
        assert_eq!(dead, Outcome::Dead { error: "y".into() });
        tx.rollback().await.unwrap();
    });
    assert_eq!(db.counts().await, (0, 0, 0));
}

async fn a_crash_before_the_end_runs_the_job_again(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        let id = Note::new("a").enqueue(&mut *queue).await.unwrap();
        queue.crash_before_end();
        let drained = queue.drain().await.unwrap();
        assert_eq!((drained.lost, drained.completed), (1, 1));
        let started = db.probe.log().into_iter().filter(|it| it.what == What::Started && it.id == id);
        let told: Vec<_> = started.map(|it| it.attempt).collect();
        assert_eq!(told, [1, 2], "the lost attempt counts");
    });
}

async fn a_crash_in_the_last_attempt_is_a_failure(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        Note::new("a").max_retries(0).enqueue(&mut *queue).await.unwrap();
        queue.crash_before_end();
        let drained = queue.drain().await.unwrap();
        assert_eq!((drained.lost, drained.dead, drained.runs()), (0, 1, 1));
        assert!(drained.errors[0].contains("lost in its last attempt"), "{:?}", drained.errors);
    });
}

async fn a_delay_is_over_after_exactly_that_time(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        for day in 0..20 {
            Note::new("a").after(Duration::from_secs(day * 60 * 60 * 24)).enqueue(&mut *queue).await.unwrap();
        }
        assert_eq!(queue.drain().await.unwrap().completed, 1);
        for _ in 1..20 {
            assert_eq!(queue.advance("1d").await.unwrap().completed, 1);
        }
    });
}

async fn a_delay_counts_from_its_enqueue_also_after_a_drain(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        for round in 0..3 {
            // a transaction that lasts
            tokio::time::sleep(Duration::from_millis(150)).await;
            assert_eq!(queue.drain().await.unwrap().runs(), 0, "{round}");
            Note::new("a").after(Duration::from_secs(3600)).enqueue(&mut *queue).await.unwrap();
            assert_eq!(queue.advance("59m").await.unwrap().runs(), 0, "{round}");
            assert_eq!(queue.advance("1m").await.unwrap().completed, 1, "{round}");
        }
    });
}

async fn a_job_that_lacks_its_state_runs_when_it_has_it(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx);
        Note::new("a").enqueue(&mut *queue).await.unwrap();
        assert!(queue.drain().await.unwrap_err().to_string().contains(".state("));
        let mut queue = queue.state(db.probe.clone());
        assert_eq!(queue.drain().await.unwrap().completed, 1);
        // so does one whose drain was dropped
        Play::new("b", [Step::deaf("never"), Step::Complete]).enqueue(&mut *queue).await.unwrap();
        tokio::select! {
            drained = queue.drain() => panic!("the handler waits: {drained:?}"),
            _ = db.probe.wait_for(What::Started, "b", 1) => {}
        }
        assert_eq!(queue.drain().await.unwrap().completed, 1);
    });
}

/// P38.
async fn arguments_that_never_decode_are_dead_after_the_grace_period(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let insert = "INSERT INTO queue_jobs (kind, args) VALUES ('note', '{}')";
        sqlx::query(insert).execute(&mut *tx).await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        let half = queue.advance("30m").await.unwrap();
        assert!(half.retried > 10 && half.dead == 0, "{half:?}");
        let rest = queue.advance("31m").await.unwrap();
        assert_eq!(rest.dead, 1, "{rest:?}");
    });
}

async fn a_lost_lease_drops_the_handler_and_runs_the_job_again(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        Play::new("a", [Step::Deaf("never".into(), Box::new(Step::Complete)), Step::Complete])
            .enqueue(&mut *queue)
            .await
            .unwrap();
        queue.lose_lease();
        let drained = queue.drain().await.unwrap();
        assert_eq!((drained.lost, drained.completed), (1, 1));
        // a handler without a pause runs to its return, and its end is refused
        Note::new("b").enqueue(&mut *queue).await.unwrap();
        queue.lose_lease();
        let drained = queue.drain().await.unwrap();
        assert_eq!((drained.lost, drained.completed), (1, 1));
        assert_eq!(db.probe.labels(What::Started), ["a", "a", "b", "b"]);
    });
}

async fn a_test_queue_on_a_pool_runs_committed_jobs(db: Db) {
    let id = db.enqueue(Note::new("a")).await;
    each!(AnyPool, db.pool(), pool => {
        let mut queue = TestQueue::new(pool).state(db.probe.clone());
        assert_enqueued!(queue, Note { label } if label == "a");
        assert_eq!(queue.drain().await.unwrap().expect_ok().completed, 1);
        assert_eq!(queue.drain().await.unwrap().runs(), 0);
    });
    assert_eq!(db.state(id).await, JobState::Completed);
}

async fn a_failed_assertion_shows_what_waits(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx);
        Note::new("a").enqueue(&mut *queue).await.unwrap();
        let missing = queue::testing::find::<Note, _>(&mut queue, "Note { .. } if no", |_| false).await.unwrap_err();
        assert!(missing.starts_with("no waiting job matches `Note { .. } if no`\n1 `note` waits:\n  "), "{missing}");
        assert!(missing.contains("Note { label: \"a\" } (queue default, due "), "{missing}");
        let found = queue::testing::refute::<Note, _>(&mut queue, "Note { .. }", |_| true).await.unwrap_err();
        assert!(found.contains("matches `Note { .. }`, and none should"), "{found}");
    });
}

async fn long_arguments_arrive(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        let label = "x".repeat(200_000);
        Note::new(label.clone()).enqueue(&mut *queue).await.unwrap();
        assert_eq!(queue.drain().await.unwrap().expect_ok().completed, 1);
        assert_eq!(db.probe.labels(What::Started), [label]);
    });
}

/// Run by name: prints what a test costs beyond its transaction, and how long 30 days of an hourly retry take.
mod figures {
    #[tokio::test]
    #[ignore = "a measurement"]
    async fn on_each_engine() {
        use queue_test_support::Engine;
        for engine in [Engine::Sqlite, Engine::Postgres, Engine::MariaDb, Engine::MySql] {
            queue_tests::on(engine, super::print_figures).await;
        }
    }
}

async fn print_figures(db: Db) {
    const ROUNDS: u32 = 200;
    each!(AnyPool, db.pool(), pool => {
        let (mut alone, mut tested) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let mut tx = pool.begin().await.unwrap();
            Note::new("a").enqueue(&mut *tx).await.unwrap();
            tx.rollback().await.unwrap();
            alone += began.elapsed();
            let began = Instant::now();
            let mut tx = pool.begin().await.unwrap();
            let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
            Note::new("a").enqueue(&mut *queue).await.unwrap();
            assert_enqueued!(queue, Note { label } if label == "a");
            assert_eq!(queue.drain().await.unwrap().expect_ok().completed, 1);
            tx.rollback().await.unwrap();
            tested += began.elapsed();
        }
        let mut tx = pool.begin().await.unwrap();
        let mut queue = TestQueue::within(&mut tx).state(db.probe.clone());
        let hour = Step::Snooze(60 * 60 * 1_000);
        Play::new("hourly", [hour]).enqueue(&mut *queue).await.unwrap();
        let began = Instant::now();
        let drained = queue.advance("30d").await.unwrap();
        println!(
            "{:?}: transaction {:?}, with an assertion and a job {:?}; {} hourly runs in {:?}",
            db.engine(), alone / ROUNDS, tested / ROUNDS, drained.runs(), began.elapsed()
        );
        tx.rollback().await.unwrap();
    });
}

#[job]
async fn count_to(test: u32) {
    let _ = test;
}

/// Each enqueues jobs, runs them, and sees no other test's jobs.
async fn two_hundred_tests_share_a_database(db: Db) {
    each!(AnyPool, db.pool(), pool => {
        let tests = (0..200).map(|test| async move {
            let mut tx = pool.begin().await.unwrap();
            let mut queue = TestQueue::within(&mut tx);
            for _ in 0..3 {
                CountTo::new(test).enqueue(&mut *queue).await.unwrap();
            }
            CountTo::new(test).after(Duration::from_secs(60)).enqueue(&mut *queue).await.unwrap();
            refute_enqueued!(queue, CountTo { test: other } if *other != test);
            assert_eq!(queue.drain().await.unwrap().expect_ok().completed, 3);
            assert_eq!(queue.advance("1m").await.unwrap().expect_ok().completed, 1);
            refute_enqueued!(queue, CountTo { .. });
        });
        // as many at a time as there are connections
        let most = pool.options().get_max_connections() as usize;
        futures_util::stream::iter(tests).buffer_unordered(most).collect::<Vec<()>>().await;
    });
    assert_eq!(db.counts().await, (0, 0, 0));
}
