//! A database that logs every change, workers on it, and what they did.

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue::{Enqueue, Job, JobId};
use queue_model::trace::{Event, Holding, Trace, What};
use queue_test_support::{Engine, Helper, TestDb, database};
use queue_tests::{AnyPool, eventually};
use sqlx::ConnectOptions as _;
use tempfile::TempDir;

const LEASE_MS: &str = "3000";
const PATIENCE: Duration = Duration::from_secs(20);
/// Whoever has had an SQLite file's lock for so long stands still with it; the other workers write too.
const LONGEST_WRITE: Duration = Duration::from_millis(200);
/// Until all jobs of a test are over.
const LONGEST: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pool: AnyPool,
    base: TestDb,
    folder: TempDir,
    killed: Mutex<HashMap<i64, i64>>,
}

impl Scene {
    /// `None` when the engine is to be skipped.
    pub(crate) async fn new(engine: Engine) -> Option<Self> {
        let base = database(engine).await?;
        let (pool, triggers) = match engine {
            Engine::Sqlite => (AnyPool::Sqlite(base.sqlite_pool(3).await), include_str!("sqlite.sql")),
            Engine::Postgres => (AnyPool::Pg(base.pg_pool(3).await), include_str!("postgres.sql")),
            _ => (AnyPool::MySql(base.mysql_pool(3).await), include_str!("mysql.sql")),
        };
        pool.migrate().await.expect("an empty database takes the schema");
        pool.sql(triggers).await.expect("the triggers");
        let folder = TempDir::with_prefix("queue-model-").expect("a temporary folder");
        Some(Self { pool, base, folder, killed: Mutex::default() })
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("a path in UTF-8").to_owned()
    }

    pub(crate) fn worker(&self) -> Helper {
        let mut command = Command::new(env!("CARGO_BIN_EXE_queue-model-worker"));
        Helper::start(command.args([self.base.url(), &self.path("records"), LEASE_MS]))
    }

    pub(crate) fn kill(&self, worker: &mut Helper) {
        // the server's clock is this machine's
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
        let now = i64::try_from(now).expect("a time");
        self.killed.lock().expect("no panic").insert(worker.id().into(), now);
        worker.kill();
    }

    pub(crate) async fn ended(&self, worker: &mut Helper) {
        let status = worker.wait_for_exit(PATIENCE).await;
        assert!(status.success(), "{status}");
    }

    pub(crate) async fn enqueue<J: Job, I: Into<Enqueue<J>>>(&self, count: usize, job: impl Fn() -> I) -> Vec<JobId> {
        self.pool.enqueue_all((0..count).map(|_| job())).await.expect("enqueued")
    }

    pub(crate) async fn cancel(&self, jobs: &[JobId]) {
        for job in jobs {
            self.pool.admin().cancel(*job).await.expect("cancelled");
        }
    }

    pub(crate) async fn sql(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.pool.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    async fn any(&self, from: &str) -> bool {
        !self.sql(&format!("SELECT 'x' FROM {from} LIMIT 1")).await.is_empty()
    }

    pub(crate) async fn wait_until_held(&self, jobs: &[JobId]) {
        for job in jobs {
            let held = format!("queue_jobs WHERE id = {job} AND worker_id <> 0");
            eventually("the job is claimed", async || self.any(&held).await.then_some(())).await;
        }
    }

    pub(crate) async fn wait_until_ended(&self, jobs: &[JobId]) {
        for job in jobs {
            let ended = format!("queue_all WHERE id = {job} AND state IN ('completed', 'cancelled', 'dead')");
            eventually("the job ends", async || self.any(&ended).await.then_some(())).await;
        }
    }

    /// Waits until a process runs one of the jobs.
    pub(crate) async fn wait_until_runs(&self, worker: &Helper, jobs: &[JobId]) {
        let runs =
            |[job, _, process]: [i64; 3]| process == i64::from(worker.id()) && jobs.iter().any(|id| id.get() == job);
        // only what is known to have begun counts when its worker is lost
        let known = async || {
            for [job, ..] in self.records("start").into_iter().filter(|line| runs(*line)) {
                let known = format!("queue_jobs WHERE id = {job} AND (started_fence = fence OR worker_id = 0)");
                if self.any(&known).await {
                    return Some(());
                }
            }
            None
        };
        eventually("the worker runs one, and that is known", known).await;
    }

    /// Job, attempt and process of each line that says so.
    fn records(&self, what: &str) -> Vec<[i64; 3]> {
        let text = fs::read_to_string(self.path("records")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.strip_prefix(what));
        let numbers = |line: &str| line.split_whitespace().map(|it| it.parse().expect("a number")).collect::<Vec<_>>();
        lines.map(|line| numbers(line).try_into().expect("three numbers")).collect()
    }

    /// SIGSTOP, at a moment at which the process does not write: an SQLite file would be locked for all others.
    pub(crate) async fn pause(&self, worker: &mut Helper) {
        let AnyPool::Sqlite(pool) = &self.pool else { return worker.pause() };
        let soon = pool.connect_options().as_ref().clone().busy_timeout(LONGEST_WRITE);
        let mut other = soon.connect().await.expect("a connection");
        eventually("the worker stands still between two writes", async || {
            worker.pause();
            let others_write = sqlx::raw_sql("BEGIN IMMEDIATE; ROLLBACK").execute(&mut other).await.is_ok();
            if !others_write {
                worker.resume();
            }
            others_write.then_some(())
        })
        .await;
    }

    /// Waits until others have declared a process gone.
    pub(crate) async fn wait_until_gone(&self, worker: &Helper) {
        let gone = format!("queue_workers WHERE pid = {} AND stopped_at IS NOT NULL", worker.id());
        eventually("the worker is declared gone", async || self.any(&gone).await.then_some(())).await;
    }

    pub(crate) async fn wait_until_over(&self) {
        let over = async {
            while self.any("queue_jobs").await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(LONGEST, over).await.is_err() {
            panic!("not over within {LONGEST:?}: {:?}", self.sql("SELECT * FROM queue_jobs").await);
        }
    }

    pub(crate) async fn trace(&self) -> Trace {
        let text = |column: &str| match self.base.engine() {
            Engine::MariaDb | Engine::MySql => format!("CAST({column} AS CHAR)"),
            _ => format!("CAST({column} AS text)"),
        };
        let columns = [
            "what",
            "id",
            "at",
            "tx",
            "worker",
            "fence",
            "attempt",
            "was_worker",
            "was_fence",
            "was_attempt",
            "cancel",
            "retries",
            "until",
            "note",
        ];
        let list: Vec<String> = columns.into_iter().map(text).collect();
        let rows = self.sql(&format!("SELECT {} FROM trace_log ORDER BY seq", list.join(", "))).await;
        let returned = self.records("end").into_iter();
        let returned = returned.map(|[job, attempt, process]| (job, i32::try_from(attempt).expect("small"), process));
        Trace {
            events: rows.iter().map(|row| event(row)).collect(),
            returned: returned.collect(),
            killed: self.killed.lock().expect("no panic").clone(),
            left: self.records("left").into_iter().map(|[worker, at, _]| (worker, at)).collect(),
        }
    }
}

fn event(row: &[Option<String>]) -> Event {
    let text = |at: usize| row[at].clone().unwrap_or_default();
    let number = |at: usize| row[at].as_ref().map_or(0, |text| text.parse::<i64>().expect("a number"));
    let holding = |at: usize| Holding {
        worker: number(at),
        fence: u32::try_from(number(at + 1)).expect("a fence"),
        attempt: i32::try_from(number(at + 2)).expect("an attempt"),
    };
    let what = match text(0).as_str() {
        "added" => What::Added(holding(4)),
        "changed" => What::Changed(holding(7), holding(4), number(10) != 0),
        "removed" => What::Removed(holding(7)),
        "over" => What::Over(holding(4), text(13)),
        "attempt" => What::Attempt(text(13)),
        "effect" => What::Effect(holding(4).attempt),
        "joins" => What::Joins(number(13), number(12)),
        "beats" => What::Beats(number(12)),
        "stops" => What::Stops,
        what => panic!("the triggers log no {what:?}"),
    };
    let retries = row[11].as_ref().map(|text| text.parse().expect("a number"));
    Event { transaction: text(3), at: number(2), id: number(1), what, retries, run_at: number(12) }
}
