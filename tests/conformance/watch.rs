//! What surrounds handlers and is told of them: observers, wrappers, promises to start in time, and health.
//!
//! Promise: P46.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::{Either, Ready, ready};
use queue::middleware::{Done, Next, Refused};
use queue::telemetry::Event;
use queue::{Job, JobContext, JobError, JobState, job};
use queue_test_support::Engine;
use queue_tests::jobs::{Hurried, Note, Placed, Play, Remark};
use queue_tests::{Db, Step, What, eventually, within};
use serde_json::json;
use tower::Service;
use tower::layer::layer_fn;
use tower::limit::ConcurrencyLimitLayer;
use tower::timeout::TimeoutLayer;

use crate::logs::captured;

conformance! {
    observers_are_told_of_each_attempt,
    the_time_from_due_to_start_is_by_the_databases_clock,
    an_observer_that_fails_costs_no_job,
    wrappers_are_around_the_handler_in_order,
    a_wrapper_may_answer_instead_of_the_handler,
    a_wrapper_that_never_answers_is_stopped_by_the_time_limit,
    layers_of_tower_are_around_the_handler,
    a_worker_is_ready_while_it_can_claim;
    servers:
    the_scaler_asks_for_the_seconds_of_work_that_wait,
}

/// Counts events by name, for one kind.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, usize>>>);

impl Seen {
    fn observe(&self, event: &Event<'_>) {
        let name = match event {
            Event::JobsClaimed { jobs, .. } => {
                return jobs.iter().for_each(|job| self.add(format!("claimed {}", job.kind())));
            }
            Event::JobStarted { job, .. } => format!("started {}", job.kind()),
            Event::JobCompleted { job, .. } => format!("completed {}", job.kind()),
            Event::JobFailed { job, outcome, .. } => format!("{} {}", outcome.as_str(), job.kind()),
            Event::JobDead { job, outcome, .. } => format!("dead {} {}", outcome.as_str(), job.kind()),
            Event::JobCancelled { job, .. } => format!("cancelled {}", job.kind()),
            Event::JobSnoozed { job, .. } => format!("snoozed {}", job.kind()),
            Event::WorkerStarted { .. } => "worker started".to_owned(),
            Event::WorkerStopping { .. } => "worker stopping".to_owned(),
            Event::WorkerStopped { .. } => "worker stopped".to_owned(),
            _ => return,
        };
        self.add(name);
    }

    fn add(&self, name: String) {
        *self.0.lock().unwrap().entry(name).or_default() += 1;
    }
}

async fn observers_are_told_of_each_attempt(db: Db) {
    let play = |steps: &[Step]| Play::new("a", steps.to_vec());
    db.enqueue(play(&[Step::Complete])).await;
    db.enqueue(play(&[Step::Fail("one".into()), Step::Complete])).await;
    let dead =
        db.enqueue(play(&[Step::Panic("one".into()), Step::Fail("two".into()), Step::Fail("three".into())])).await;
    let cancelled = db.enqueue(play(&[Step::Snooze(1), Step::Cancel("no more".into())])).await;
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '[]')").await;
    let seen = Seen::default();
    let (first, second) = (seen.clone(), Arc::new(AtomicUsize::new(0)));
    let count = second.clone();
    let worker =
        db.worker().decode_grace(Duration::ZERO).observe(move |event| first.observe(event)).observe(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    let worker = db.start(worker);
    db.reaches(dead, JobState::Dead).await;
    db.reaches(cancelled, JobState::Cancelled).await;
    eventually("the row that does not decode is dead", async || {
        (db.count("queue_dead WHERE kind = 'note'").await == 1).then_some(())
    })
    .await;
    db.finished(3).await;
    worker.stop().await;
    let expected = [
        ("cancelled play", 1),
        ("claimed note", 1),
        ("claimed play", 8),
        ("completed play", 2),
        ("dead failed play", 1),
        ("dead undecodable note", 1),
        ("failed play", 2),
        ("panicked play", 1),
        ("snoozed play", 1),
        ("started note", 1),
        ("started play", 8),
        ("worker started", 1),
        ("worker stopped", 1),
        ("worker stopping", 1),
    ];
    let expected: BTreeMap<_, _> = expected.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    assert_eq!(*seen.0.lock().unwrap(), expected);
    assert!(second.load(Ordering::Relaxed) >= 15, "the second observer is told of each, too");
}

#[job(start_within = "10s", queue = "prompt")]
async fn prompt() {}

async fn the_time_from_due_to_start_is_by_the_databases_clock(db: Db) {
    let late = db.time(-60_000);
    db.sql(format!("INSERT INTO queue_jobs (kind, queue, run_at) VALUES ('prompt', 'prompt', {late})")).await;
    db.sql(format!(
        "INSERT INTO queue_jobs (kind, queue, args, run_at) VALUES ('note', 'other', '{{\"label\": \"a\"}}', {late})"
    ))
    .await;
    let waits = Arc::new(Mutex::new(BTreeMap::new()));
    let told = waits.clone();
    let worker = db.worker().start_within("other", Duration::from_secs(90)).observe(move |event| {
        if let Event::JobStarted { job, waited, promise, .. } = event {
            told.lock().unwrap().insert(job.kind().to_owned(), (*waited, *promise));
        }
    });
    let worker = db.start(worker);
    db.finished(2).await;
    worker.stop().await;
    let waits = waits.lock().unwrap();
    for (kind, promised) in [("prompt", 10), ("note", 90)] {
        let (waited, promise) = waits[kind];
        let waited = waited.expect("known by the discovery");
        assert!(waited >= Duration::from_secs(59) && waited < Duration::from_secs(60 + 600), "{kind}: {waited:?}");
        assert_eq!(promise, Some(Duration::from_secs(promised)), "{kind}");
    }
}

async fn an_observer_that_fails_costs_no_job(db: Db) {
    let text = captured(db.engine(), "warn", async move |db| {
        db.enqueue_all((0..20).map(|_| Note::new("a"))).await;
        let worker = db
            .worker()
            .observe(|event| assert!(!matches!(event, Event::JobCompleted { .. }), "of an observer"))
            .observe(|event| {
                if let Event::JobStarted { .. } = event {
                    std::thread::sleep(Duration::from_millis(110));
                }
            });
        let worker = db.start(worker);
        db.finished(20).await;
        worker.stop().await;
    })
    .await;
    let told: Vec<_> = text.lines().filter(|line| line.contains("observer.failed")).collect();
    assert_eq!(told.len(), 2, "once for each: {text}");
    for what in ["panicked", "blocked its thread"] {
        assert!(told.iter().any(|line| line.contains(what)), "{what}: {told:?}");
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Passed(Vec<&'static str>);

#[job(max_retries = 0)]
async fn tells_what_was_passed(ctx: JobContext, order: i64) -> Result<String, JobError> {
    let Passed(names) = ctx.extensions().get().ok_or("nothing was passed")?;
    Ok(format!("{order}: {}", names.join(" ")))
}

async fn wrappers_are_around_the_handler_in_order(db: Db) {
    let id = db.enqueue(TellsWhatWasPassed::new(7)).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let (outer, inner) = (log.clone(), log.clone());
    let worker = db
        .worker()
        .wrap(move |ctx, next| {
            let log = outer.clone();
            async move {
                log.lock().unwrap().push(format!("outer begins {} {}", ctx.kind(), next.args().replace(' ', "")));
                ctx.extensions().insert(Passed(vec!["outer"]));
                let outcome = next.run().await;
                log.lock().unwrap().push(format!("outer sees {:?}", outcome.as_ref().ok().and_then(Done::json)));
                outcome
            }
        })
        .wrap(move |ctx, next| {
            let log = inner.clone();
            async move {
                log.lock().unwrap().push("inner begins".to_owned());
                let Passed(mut names) = ctx.extensions().get().expect("passed");
                names.push("inner");
                ctx.extensions().insert(Passed(names));
                next.run().await?;
                Ok(Done::new(&json!("of the inner one"))?)
            }
        });
    let worker = db.start(worker);
    let detail = db.reaches(id, JobState::Completed).await;
    worker.stop().await;
    assert_eq!(detail.result.as_deref(), Some("\"of the inner one\""));
    let expected = [
        "outer begins tells_what_was_passed {\"order\":7}",
        "inner begins",
        "outer sees Some(\"\\\"of the inner one\\\"\")",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

async fn a_wrapper_may_answer_instead_of_the_handler(db: Db) {
    let [refused, put_off, answered, panics] = ["refused", "put off", "answered", "panics"].map(Note::new);
    let ids = [db.enqueue(refused).await, db.enqueue(put_off).await, db.enqueue(answered).await];
    let panicked = db.enqueue(panics.max_retries(0)).await;
    let worker = db.worker().wrap(|ctx, next| async move {
        let args = next.args().to_owned();
        match args {
            args if args.contains("refused") => Err(JobError::dead("not on my watch")),
            args if args.contains("put off") && ctx.attempt() == 1 => Err(JobError::snooze(Duration::from_secs(3600))),
            args if args.contains("panics") => panic!("of a wrapper"),
            _ => Ok(Done::default()),
        }
    });
    let worker = db.start(worker);
    let dead = db.reaches(ids[0], JobState::Dead).await;
    assert_eq!(dead.job.error.as_deref(), Some("not on my watch"));
    db.reaches(ids[1], JobState::Scheduled).await;
    db.reaches(ids[2], JobState::Completed).await;
    let dead = db.reaches(panicked, JobState::Dead).await;
    assert_eq!(dead.job.error.as_deref(), Some("panicked: of a wrapper"));
    worker.stop().await;
    assert!(db.probe.labels(What::Started).is_empty(), "no handler began");
}

async fn a_wrapper_that_never_answers_is_stopped_by_the_time_limit(db: Db) {
    let id = db.enqueue(Hurried::new("a", vec![Step::Complete]).max_retries(0)).await;
    let worker = db.worker().cancel_grace(Duration::from_millis(10)).wrap(|_, next| async move {
        let outcome = next.run().await;
        std::future::pending::<()>().await;
        outcome
    });
    let worker = db.start(worker);
    let dead = db.reaches(id, JobState::Dead).await;
    assert!(dead.job.error.as_deref().is_some_and(|error| error.contains("timed out")), "{dead:?}");
    worker.stop().await;
}

/// Puts the first attempt of each job off.
#[derive(Clone)]
struct NotYet<S>(S);

impl<S: Service<(JobContext, Next), Error: From<Refused>, Future: Send + 'static>> Service<(JobContext, Next)>
    for NotYet<S>
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<Ready<Result<S::Response, S::Error>>, S::Future>;

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, (ctx, next): (JobContext, Next)) -> Self::Future {
        if ctx.kind() == "remark" {
            return Either::Left(ready(Err(Refused(JobError::cancel("not today")).into())));
        }
        Either::Right(self.0.call((ctx, next)))
    }
}

async fn layers_of_tower_are_around_the_handler(db: Db) {
    let late = db.enqueue(Play::new("late", vec![Step::deaf("never")]).max_retries(0)).await;
    let refused = db.enqueue(Remark::new("refused")).await;
    let many = db.enqueue_all((0..6).map(|_| Play::new("many", vec![Step::Pause(5)]))).await;
    let worker = db
        .worker()
        .layer(layer_fn(NotYet))
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(TimeoutLayer::new(Duration::from_secs(1)));
    let worker = db.start(worker);
    let dead = db.reaches(late, JobState::Dead).await;
    assert_eq!(dead.job.error.as_deref(), Some("request timed out"));
    let cancelled = db.reaches(refused, JobState::Cancelled).await;
    assert_eq!(cancelled.job.error.as_deref(), Some("not today"));
    for id in many {
        db.reaches(id, JobState::Completed).await;
    }
    worker.stop().await;
    assert_eq!(db.probe.peak(|event| event.label == "many"), 1);
    assert_eq!(db.probe.count(What::Started, "refused"), 0);
}

async fn a_worker_is_ready_while_it_can_claim(db: Db) {
    let file = tempfile_path(&db);
    let worker = db.worker().alive_file(&file).build().expect("built");
    let health = worker.health();
    assert!(health.is_alive());
    assert_eq!(health.ready().unwrap_err().to_string(), "it has not joined yet");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let id = db.enqueue(Play::new("a", vec![Step::deaf("go")])).await;
    let running = tokio::spawn(worker.run(async move { drop(stopped.await) }));
    eventually("ready", async || health.ready().ok()).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    eventually("the file is there", async || std::fs::metadata(&file).ok()).await;
    drop(stop);
    let reason = eventually("not ready", async || health.ready().err()).await;
    assert_eq!(reason.to_string(), "it is stopping");
    assert!(health.is_alive());
    db.probe.release("go");
    within("the end", running).await.expect("no panic").expect("stopped");
    assert_eq!(db.state(id).await, JobState::Completed);
    assert_eq!(health.ready().unwrap_err().to_string(), "it is stopping");
    std::fs::remove_file(&file).expect("removed");

    // its caller may drop it
    let worker = db.worker().build().expect("built");
    let health = worker.health();
    let running = tokio::spawn(worker.run(std::future::pending()));
    eventually("ready", async || health.ready().ok()).await;
    running.abort();
    let reason = eventually("not ready", async || health.ready().err()).await;
    assert_eq!(reason.to_string(), "it has ended");
    assert!(health.is_alive());
}

fn tempfile_path(db: &Db) -> std::path::PathBuf {
    let name: String = db.url().chars().filter(char::is_ascii_alphanumeric).collect();
    std::env::temp_dir().join(format!("queue-alive-{}-{name}", std::process::id()))
}

/// The query of `ops/keda.yaml`. KEDA and what reads its files are not in Debian: the database reads the query.
fn scalers_query(db: &Db) -> String {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/keda.yaml")).expect("text");
    let kind = if db.engine() == Engine::Postgres { "postgresql" } else { "mysql" };
    let trigger = text.split("- type: ").find(|it| it.starts_with(&format!("{kind}\n"))).expect("its trigger");
    let query = trigger.split("query: |\n").nth(1).expect("a query");
    query.lines().take_while(|line| line.starts_with("          ")).collect::<Vec<_>>().join("\n")
}

/// No worker is alive in this test.
async fn the_scaler_asks_for_the_seconds_of_work_that_wait(db: Db) {
    let query = scalers_query(&db);
    let work = async || db.int(&query).await;
    assert_eq!(work().await, 0, "there is nothing");
    db.enqueue(Note::new("later").after(Duration::from_secs(3600))).await;
    assert_eq!(work().await, 0, "nothing is due");
    db.admin().pause("mail").await.expect("paused");
    db.enqueue(Placed::new("paused")).await;
    assert_eq!(work().await, 0, "the queue is paused");
    db.enqueue_all((0..4).map(|_| Note::new("due"))).await;
    assert_eq!(work().await, 4, "a second each, since none has ended");
    db.admin().resume("mail").await.expect("resumed");
    assert_eq!(work().await, 5);
    for (id, took) in [(1_000_001, 1000), (1_000_002, 4000)] {
        db.sql(format!(
            "INSERT INTO queue_history (id, kind, queue, state, args, priority, attempt, fence, worker_id, \
             enqueued_at, run_at, started_at, finished_at)
             VALUES ({id}, 'note', 'default', 'completed', '{{}}', 0, 1, 1, 1, {0}, {0}, {0}, {1})",
            "TIMESTAMP '2026-01-01 00:00:00'",
            format_args!("TIMESTAMP '2026-01-01 00:00:0{}'", took / 1000)
        ))
        .await;
    }
    assert_eq!(work().await, 13, "2.5 seconds each, rounded up");

    // a worker that was killed has them
    let lost = db.fake_worker(-1000).await;
    db.hand_over_all(&format!("run_at <= {}", db.time(0)), lost, 3).await;
    assert_eq!(work().await, 1, "somebody has to rescue them");
    db.sql("DELETE FROM queue_jobs WHERE worker_id <> 0").await;
    assert_eq!(work().await, 0, "its claims are not jobs");

    let schedule = "INSERT INTO queue_schedules (name, kind, expression) VALUES ('nightly', 'note', '0 3 * * *')";
    db.sql(schedule).await;
    assert_eq!(work().await, 1, "somebody has to fire it");
    db.sql("UPDATE queue_schedules SET error = 'no such kind'").await;
    assert_eq!(work().await, 0, "it does not fire");

    // not all of a long lane is read
    db.enqueue_all((0..1000).map(|_| Note::new("later").after(Duration::from_secs(3600)))).await;
    for _ in 0..5 {
        db.sql("INSERT INTO queue_jobs (kind, args, run_at) SELECT kind, args, run_at FROM queue_jobs").await;
    }
    db.enqueue_all((0..20).map(|_| Note::new("due"))).await;
    let expected = if db.engine() == Engine::Postgres { 50 } else { 25 };
    assert_eq!(work().await, expected);
    let mut session = db.begin().await;
    if db.engine() == Engine::Postgres {
        for _ in 0..2 {
            let plan = format!("{:?}", session.sql(&format!("EXPLAIN (ANALYZE) {query}")).await.expect("a plan"));
            assert!(!plan.contains("Seq Scan on queue_jobs"), "{plan}");
            session.sql("ANALYZE queue_jobs").await.expect("analyzed");
        }
    } else {
        let read = "SHOW SESSION STATUS LIKE 'Handler_read_next'";
        session.sql("ANALYZE TABLE queue_jobs").await.expect("analyzed");
        let mut counts = Vec::new();
        for sql in [read, &query, read] {
            counts.extend(session.sql(sql).await.expect("rows").swap_remove(0).pop().flatten());
        }
        let [before, _, after] = [0, 1, 2].map(|at: usize| counts[at].parse::<i64>().expect("a number"));
        assert!(after - before < 12_000, "{} entries were read", after - before);
    }
    session.rollback().await;
    db.sql(format!("UPDATE queue_jobs SET run_at = {}", db.time(-1000))).await;
    assert_eq!(work().await, 25_000, "no more than 10,000 are counted");
}

/// With Prometheus' own tool, if the machine has it: `cargo xtask test` installs it where it can.
#[test]
fn the_alert_rules_fire_when_they_should_and_not_otherwise() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (rules, test) = (root.join("../ops/prometheus-rules.yml"), root.join("conformance/rules-test.yml"));
    let promtool = |args: &[&str], file: &Path| Command::new("promtool").args(args).arg(file).output();
    let Ok(checked) = promtool(&["check", "rules"], &rules) else {
        return eprintln!("skipped: there is no promtool (Debian: apt-get install prometheus)");
    };
    for output in [checked, promtool(&["test", "rules"], &test).expect("promtool")] {
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "{text}");
    }
    // a rule that is wrong is noticed
    let wrong = std::env::temp_dir().join(format!("queue-rules-{}.yml", std::process::id()));
    let text =
        std::fs::read_to_string(&test).expect("text").replace("../../ops", &format!("{}/../ops", root.display()));
    std::fs::write(&wrong, text.replace("0+60x20", "0+1x20")).expect("written");
    assert!(!promtool(&["test", "rules"], &wrong).expect("promtool").status.success());
    std::fs::remove_file(wrong).expect("removed");
}
