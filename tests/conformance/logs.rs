//! What a worker logs. Arguments, results and error texts of jobs appear at level `trace` only, or not at all.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use queue::{Job, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::{Grind, Hurried, Note, Play};
use queue_tests::{Db, Step, eventually};
use serde_json::json;
use tracing_subscriber::EnvFilter;

conformance! {
    never_tell_what_jobs_are_about,
    tell_why_a_job_failed,
    say_which_job_failed_whatever_the_filter,
    name_queues_and_jobs_that_do_not_fit,
    tell_of_a_round_of_retention_that_failed,
}

/// Everything that was logged, as text.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()).expect("text")
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a test on its own database, and returns what all crates of this process logged meanwhile. It uses its own
/// thread, so that the logs of other tests do not mix in.
pub(crate) async fn captured<F>(engine: Engine, filter: &'static str, test: F) -> String
where
    F: AsyncFnOnce(Db) + Send + 'static,
{
    captured_and_read(engine, filter, async move |db, _| test(db).await).await
}

/// The same for a test that reads what was logged so far.
async fn captured_and_read<F>(engine: Engine, filter: &'static str, test: F) -> String
where
    F: AsyncFnOnce(Db, Log) + Send + 'static,
{
    let run = move || {
        let log = Log::default();
        let (writer, reader) = (log.clone(), log.clone());
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(filter))
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let _listening = tracing::subscriber::set_default(subscriber);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(queue_tests::on(engine, async move |db| test(db, reader).await));
        log.text()
    };
    tokio::task::spawn_blocking(run).await.expect("a test that ends")
}

const SECRETS: [&str; 7] =
    ["s3cret-args", "s3cret-result", "s3cret-error", "s3cret-panic", "s3cret-dead", "s3cret-bad", "s3cret-why"];

/// Jobs that end in every way, with something private in each place where there can be any.
async fn run_secrets(db: Db, log_errors: bool) {
    let [args, result, error, panic, dead, bad, why] = SECRETS;
    let [fail, panics] = [Step::Fail(error.into()), Step::Panic(panic.into())];
    let completed = [
        db.enqueue(Note::new(args)).await,
        db.enqueue(Play::new(args, [fail.clone(), panics.clone(), Step::Return(json!({ "is": result }))])).await,
        db.enqueue(Grind::new(args, [panics.clone(), Step::Return(json!([result]))])).await,
    ];
    let given_up = [
        db.enqueue(Play::new(args, [Step::Die(dead.into())])).await,
        db.enqueue(Play::new(args, [fail.clone()])).await,
        db.enqueue(Grind::new(args, [panics])).await,
        db.enqueue(Hurried::new(args, [Step::deaf("never")])).await,
    ];
    let cancelled = [
        db.enqueue(Play::new(args, [Step::Cancel(why.into())])).await,
        db.enqueue(Play::new("held", [Step::hold_then("never", fail)])).await,
    ];
    // what does not decode, and whose decoder quotes it
    db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{{\"label\":{{\"{bad}\":1}}}}')")).await;
    db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('play', '{{\"label\":\"a\",\"steps\":\"{bad}\"}}')"))
        .await;
    // what the database itself refuses, with its own words
    let refused = format!("INSERT INTO queue_jobs (kind, args, max_retries) VALUES ('note', '\"{bad}\"', -1)");
    assert!(db.pool().sql(&refused).await.is_err());
    let worker = db.start(db.worker().log_errors(log_errors));
    db.probe.wait_for(queue_tests::What::Started, "held", 1).await;
    db.admin().cancel(cancelled[1]).await.expect("cancelled");
    for id in completed {
        db.reaches(id, JobState::Completed).await;
    }
    for id in cancelled {
        db.reaches(id, JobState::Cancelled).await;
    }
    for id in given_up {
        db.reaches(id, JobState::Dead).await;
    }
    eventually("all are over", async || (db.count("queue_jobs").await == 0).then_some(())).await;
    worker.stop().await;
    // they are where they belong
    let kept = db.column("SELECT coalesce(error, '') FROM queue_dead").await.join("\n");
    assert!(kept.contains(dead) && kept.contains(error) && kept.contains(panic) && kept.contains(bad), "{kept}");
}

/// P40.
async fn never_tell_what_jobs_are_about(db: Db) {
    let log = captured(db.engine(), "debug", async |db| run_secrets(db, false).await).await;
    // sqlx logs the texts of statements: those with values in them are the test's own
    assert!(db.engine() == Engine::Sqlite || log.contains("INSERT INTO queue_history"), "nothing of sqlx in {log}");
    let log: String = log.lines().filter(|line| !line.contains("VALUES ('")).collect::<Vec<_>>().join("\n");
    for event in ["job.completed", "job.failed", "job.dead", "job.cancelled", "worker.started", "worker.stopped"] {
        assert!(log.contains(event), "no {event} in {log}");
    }
    for secret in SECRETS {
        let told: Vec<_> = log.lines().filter(|line| line.contains(secret)).collect();
        assert!(told.is_empty(), "{told:?}");
    }
}

/// P40: Errors are told where they happen, with arguments and results left out.
async fn tell_why_a_job_failed(db: Db) {
    let log = captured(db.engine(), "queue=trace", async |db| run_secrets(db, true).await).await;
    let [args, result, error, panic, dead, bad, _] = SECRETS;
    for told in [error, panic, dead] {
        let line = |event| log.lines().any(|line| line.contains(event) && line.contains(told));
        assert!(line("job.failed") || line("job.dead"), "{told} is in no line of {log}");
    }
    assert!(log.lines().any(|line| line.contains("the arguments do not fit `queue_tests::jobs::Note`")), "{log}");
    for secret in [args, result, bad] {
        assert!(!log.contains(secret), "{secret} is in {log}");
    }
}

/// P40: The filter `warn` removes the span of the attempt, and with it what the span says.
async fn say_which_job_failed_whatever_the_filter(db: Db) {
    // the second is the filter without `RUST_LOG` of docs/operations.md
    for filter in ["queue=warn", "info,sqlx=warn"] {
        let log = captured(db.engine(), filter, async |db| run_secrets(db, true).await).await;
        for event in ["\"job.failed\"", "\"job.dead\"", "\"job.abandoned\""] {
            let lines: Vec<_> = log.lines().filter(|line| line.contains(event)).collect();
            assert!(!lines.is_empty(), "no {event} in {log}");
            for field in ["job.id=", "job.kind=", "job.queue=", "job.attempt="] {
                assert!(lines.iter().all(|line| line.contains(field)), "{field} is missing in {lines:?}");
            }
        }
    }
}

/// P40: A misspelt queue would leave its jobs waiting in silence.
async fn name_queues_and_jobs_that_do_not_fit(db: Db) {
    let run = async |db: Db| {
        let worker = db.start(db.worker().queue("defualt", 1));
        db.enqueue(Note::new("a").queue("defualt")).await;
        db.probe.wait_for(queue_tests::What::Started, "a", 1).await;
        worker.stop().await;
    };
    let log = captured(db.engine(), "queue=warn", run).await;
    let line =
        |event: &str| log.lines().find(|line| line.contains(event)).unwrap_or_else(|| panic!("no {event} in {log}"));
    assert!(line("worker.queues_undeclared").contains("defualt"), "{log}");
    assert!(line("worker.jobs_unserved").contains("note (default)"), "{log}");
    let all = captured(db.engine(), "queue=warn", async |db: Db| {
        let worker = db.start(db.worker());
        db.enqueue(Note::new("a")).await;
        db.probe.wait_for(queue_tests::What::Started, "a", 1).await;
        worker.stop().await;
    });
    assert!(!all.await.contains("unserved"), "a worker without queues serves all");
}

/// P37, P40: It is a warning, and the next round goes on.
async fn tell_of_a_round_of_retention_that_failed(db: Db) {
    let log = captured_and_read(db.engine(), "queue=warn", async |db: Db, log: Log| {
        let id = db.enqueue(Note::new("kept")).await;
        let worker = db.start(db.worker());
        db.reaches(id, JobState::Completed).await;
        worker.stop().await;
        db.sql("ALTER TABLE queue_history RENAME TO queue_elsewhere".to_owned()).await;
        let worker = db.start(db.worker().retention(Duration::from_millis(500)));
        eventually("it is told", async || log.text().contains("retention.failed").then_some(())).await;
        db.sql("ALTER TABLE queue_elsewhere RENAME TO queue_history".to_owned()).await;
        eventually("the job is removed", async || (db.count("queue_history").await == 0).then_some(())).await;
        worker.stop().await;
    })
    .await;
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains("retention.failed")), "{log}");
}
