//! An incident: jobs fail because a host is down. The command line alone brings all of them to their end.
//!
//! Each engine leaves a transcript, with a clock beside it, in `target/incidents`. `QUEUE_INCIDENT_JOBS` sets how many
//! jobs there are; docs/operations.md has a transcript with 40,000.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use queue::admin::Admin;
use queue::{JobError, WorkerBuilder, job};
use queue_test_support::{Engine, database};

/// Whether the host answers.
static UP: AtomicBool = AtomicBool::new(false);

#[job(queue = "mail", max_retries = 0)]
async fn send_email(to: u64) -> Result<(), JobError> {
    let _ = to;
    tokio::time::sleep(Duration::from_millis(1)).await;
    match UP.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err(JobError::retry("connection refused (smtp.example.org:587)")),
    }
}

struct Story {
    url: String,
    alert: Instant,
    text: String,
    commands: usize,
}

impl Story {
    /// Runs a command, and writes down what it shows.
    async fn run(&mut self, words: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_queue"));
        command.args(words).env("DATABASE_URL", &self.url).env("COLUMNS", "100").env("USER", "ada");
        command.stdin(Stdio::null());
        let began = self.alert.elapsed();
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("it starts");
        self.commands += 1;
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        let quoted = words.iter().map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() });
        let line = quoted.collect::<Vec<_>>().join(" ");
        let _ = writeln!(self.text, "[{:>5.1} s] $ queue {line}\n{err}{out}", began.as_secs_f64());
        assert!(output.status.success() || words[0] == "status", "{}", self.text);
        out
    }
}

async fn incident_on(engine: Engine) {
    let Some(db) = database(engine).await else { return };
    let (pool, worker): (Admin, WorkerBuilder) = match db.engine() {
        Engine::Sqlite => {
            let pool = db.sqlite_pool(3).await;
            queue::migrate(&pool).await.expect("migrated");
            fill(&pool).await;
            (Admin::new(&pool), queue::Worker::builder(&pool))
        }
        Engine::Postgres => {
            let pool = db.pg_pool(10).await;
            queue::migrate(&pool).await.expect("migrated");
            fill(&pool).await;
            (Admin::new(&pool), queue::Worker::builder(&pool))
        }
        Engine::MariaDb | Engine::MySql => {
            let pool = db.mysql_pool(10).await;
            queue::migrate(&pool).await.expect("migrated");
            fill(&pool).await;
            (Admin::new(&pool), queue::Worker::builder(&pool))
        }
    };
    let admin = pool;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = worker.concurrency(64).build().expect("a worker");
    let worker = tokio::spawn(worker.run(async move { drop(stopped.await) }));
    let dead = async || admin.gauges().await.expect("gauges").depths.iter().map(|it| it.dead.jobs).sum::<u64>();
    let waits = async || {
        let gauges = admin.gauges().await.expect("gauges");
        gauges.depths.iter().map(|it| it.ready.jobs + it.running.jobs + it.scheduled.jobs).sum::<u64>()
    };
    while dead().await == 0 || waits().await > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // the alert
    let url = db.url().to_owned();
    let mut story = Story { url, alert: Instant::now(), text: String::new(), commands: 0 };
    let status = story.run(&["status"]).await;
    let group = status
        .split("queue errors ")
        .nth(1)
        .unwrap_or_else(|| panic!("{status}"))
        .split_whitespace()
        .next()
        .expect("a group")
        .to_owned();
    story.run(&["errors", &group]).await;
    // somebody mends the host
    UP.store(true, Ordering::SeqCst);
    let _ = writeln!(story.text, "          (the host answers again)\n");
    let query = format!("group:{group}");
    let sent = story.run(&["send-back", "--match", &query, "--first", "1", "--reason", "INC-421", "--yes"]).await;
    let id = sent.split("queue show ").nth(1).unwrap_or_else(|| panic!("{sent}")).trim().to_owned();
    while waits().await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(story.run(&["show", &id]).await.contains("completed"), "{}", story.text);
    let all = ["send-back", "--match", &query, "--over", "10s", "--reason", "INC-421", "--yes"];
    story.run(&all).await;
    story.run(&["audit"]).await;
    let began = Instant::now();
    while dead().await + waits().await > 0 {
        assert!(began.elapsed() < Duration::from_secs(300), "{}", story.text);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = story.run(&["status"]).await;
    assert!(status.contains("All well"), "{}", story.text);
    assert!(story.commands <= 8);
    let total = story.alert.elapsed();
    let _ = writeln!(story.text, "{} commands, {:.1} s", story.commands, total.as_secs_f64());
    drop(stop);
    worker.await.expect("no panic").expect("it ends well");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("incidents");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(format!("{engine:?}.txt")), story.text).expect("written");
}

async fn fill<T: Copy + queue::Target>(pool: T) {
    let jobs = std::env::var("QUEUE_INCIDENT_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(400_u64);
    let all: Vec<u64> = (0..jobs).collect();
    for some in all.chunks(1_000) {
        queue::enqueue_all(pool, some.iter().map(|to| SendEmail::new(*to))).await.expect("enqueued");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_on_sqlite() {
    incident_on(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_on_postgres() {
    incident_on(Engine::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_on_mariadb() {
    incident_on(Engine::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incident_on_mysql() {
    incident_on(Engine::MySql).await;
}
