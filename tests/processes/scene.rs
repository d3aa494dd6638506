//! A database, a folder for records and logs, and worker processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use queue_test_support::{Db, Engine, Helper, TestDb, database};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::records::{self, Record};

/// Time limit for what should take milliseconds, on a machine that is busy with other tests: only a
/// real failure exceeds it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

pub(crate) struct Scene {
    pub(crate) db: Db,
    pub(crate) base: TestDb,
    folder: TempDir,
    started: AtomicU32,
}

impl Scene {
    /// A migrated database, or `None` if the engine is skipped.
    pub(crate) async fn new(engine: Engine) -> Option<Self> {
        let base = database(engine).await?;
        let db = Db::open(&base).await;
        db.migrate().await;
        let folder = TempDir::with_prefix("queue-processes-").expect("a temporary folder");
        Some(Self { db, base, folder, started: AtomicU32::new(0) })
    }

    pub(crate) fn engine(&self) -> Engine {
        self.base.engine()
    }

    /// A worker process to configure. Its settings are the library's defaults.
    pub(crate) fn worker(&self, name: &str) -> Setup {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let log = self.path(&format!("{number}-{name}.log"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_queue-test-worker"));
        command
            .env("QUEUE_WORKER_URL", self.base.url())
            .env("QUEUE_WORKER_RECORDS", self.records_path())
            .env("QUEUE_WORKER_LOG", &log);
        Setup { command, log }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn records_path(&self) -> PathBuf {
        self.path("records")
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        records::read(&self.records_path())
    }

    /// Waits until the records satisfy a condition.
    pub(crate) async fn wait_for_records(
        &self,
        what: &str,
        within: Duration,
        done: impl Fn(&[Record]) -> bool,
    ) -> Vec<Record> {
        let deadline = Instant::now() + within;
        loop {
            let records = self.records();
            if done(&records) {
                return records;
            }
            if Instant::now() > deadline {
                let last: Vec<_> = records.iter().rev().take(10).rev().collect();
                panic!(
                    "{what}: not within {within:?}; {} records, the last: {last:#?}\n{}",
                    records.len(),
                    self.logs()
                );
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until a table has this many rows.
    pub(crate) async fn wait_for_rows(&self, table: &str, rows: i64, within: Duration) {
        let deadline = Instant::now() + within;
        loop {
            let count = self.db.count(table).await;
            if count == rows {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{table} has {count} rows, not {rows}, after {within:?}\n{}",
                self.logs()
            );
            sleep(LOOK * 2).await;
        }
    }

    /// The ends of the workers' logs.
    pub(crate) fn logs(&self) -> String {
        const LINES: usize = 30;
        let mut logs: Vec<PathBuf> = fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|it| it == "log"))
            .collect();
        logs.sort();
        let mut text = String::new();
        for log in logs {
            let lines = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<_> = lines.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
            text += &format!("--- {}\n{last}\n", log.file_name().unwrap_or_default().display());
        }
        text
    }
}

/// The configuration of a worker process.
pub(crate) struct Setup {
    command: Command,
    log: PathBuf,
}

impl Setup {
    pub(crate) fn url(self, url: &str) -> Self {
        self.set("URL", url)
    }

    pub(crate) fn concurrency(self, jobs: u32) -> Self {
        self.set("CONCURRENCY", jobs)
    }

    /// A lease, with a heartbeat in the same proportion as the defaults.
    pub(crate) fn lease(self, lease: Duration) -> Self {
        self.set("LEASE_MS", lease.as_millis()).set("HEARTBEAT_MS", lease.as_millis() / 4)
    }

    /// It answers probes, touches this file, and has a runtime of one thread.
    pub(crate) fn probes(self, file: &Path) -> Self {
        self.set("PROBES", file.display())
    }

    pub(crate) fn log_filter(self, filter: &str) -> Self {
        self.set("FILTER", filter)
    }

    /// It has a page of metrics.
    pub(crate) fn metrics(self) -> Self {
        self.set("METRICS", 1)
    }

    /// It enqueues a job instead, and ends.
    pub(crate) async fn enqueue(self) {
        let ended = self.set("ENQUEUE", 1).command.status().expect("a process");
        assert!(ended.success(), "{ended}");
    }

    fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.command.env(format!("QUEUE_WORKER_{name}"), value.to_string());
        self
    }

    /// Starts the process and waits until it is ready to claim.
    pub(crate) async fn start(mut self) -> Process {
        let helper = Helper::start(&mut self.command);
        let process = Process { helper, log: self.log };
        process.wait_for_log("worker.started", PATIENCE).await;
        process
    }
}

/// Waits for what is promised within a time, and plays it again on a new database if it came later: a machine that is busy
/// or stands still can be the reason. What is late for a reason of its own is late each time.
pub(crate) async fn keeps_within(engine: Engine, what: &str, limit: Duration, play: impl AsyncFn(&Scene) -> Duration) {
    const TRIES: usize = 5;
    let mut took = Vec::new();
    while took.len() < TRIES {
        let scene = Scene::new(engine).await.expect("the server is still there");
        let last = play(&scene).await;
        if last <= limit {
            return;
        }
        took.push(last);
    }
    panic!("{what}: {took:.1?} and never within {limit:?}");
}

/// A worker process. Killed when dropped.
pub(crate) struct Process {
    pub(crate) helper: Helper,
    log: PathBuf,
}

impl Process {
    pub(crate) fn id(&self) -> i64 {
        self.helper.id().into()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) async fn wait_for_log(&self, text: &str, within: Duration) {
        let deadline = Instant::now() + within;
        while !self.log().contains(text) {
            assert!(Instant::now() < deadline, "no {text:?} in the log within {within:?}:\n{}", self.log());
            sleep(LOOK).await;
        }
    }

    /// The address of its page of metrics.
    pub(crate) async fn metrics(&mut self) -> String {
        let line = self.helper.wait_for("metrics at ", PATIENCE).await;
        line.split(' ').next_back().expect("an address").to_owned()
    }

    /// Sends SIGTERM and waits for an end without an error.
    pub(crate) async fn end(&mut self, within: Duration) -> Duration {
        let start = Instant::now();
        self.helper.terminate();
        self.ended(within).await;
        start.elapsed()
    }

    /// Waits for an end without an error.
    pub(crate) async fn ended(&mut self, within: Duration) {
        let status: ExitStatus = self.helper.wait_for_exit(within).await;
        assert!(status.success(), "{status}\n{}", self.log());
    }
}

/// Creates the file that jobs wait for.
pub(crate) fn touch(path: &Path) {
    fs::write(path, "").expect("a file");
}

/// Creates the file that the jobs of one process wait for.
pub(crate) fn touch_for(process: i64, path: &Path) {
    touch(Path::new(&format!("{}.{process}", path.display())));
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}
