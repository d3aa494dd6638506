//! Jobs that end in every way, and tell so in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue::{JobContext, JobError, State, job};

/// A file that any number of processes append to.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Arc<File>);

impl Recorder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(OpenOptions::new().append(true).create(true).open(path)?)))
    }

    /// One line, `start|end <job> <attempt> <process>`: this process's handler starts, or is about to return.
    fn write(&self, what: &str, ctx: &JobContext) {
        self.line(&format!("{what} {} {} {}", ctx.id(), ctx.attempt(), std::process::id()));
    }

    /// Writes `left <worker> <microseconds since 1970> <process>`: this process is about to give up a worker number.
    pub(crate) fn left(&self, worker: i64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        self.line(&format!("left {worker} {now} {}", std::process::id()));
    }

    fn line(&self, line: &str) {
        (&*self.0).write_all(format!("{line}\n").as_bytes()).expect("the record file takes a line");
    }
}

/// Takes its time and completes.
#[job(max_retries = 5)]
pub(crate) async fn nap(ctx: JobContext, State(recorder): State<Recorder>, ms: u64) {
    recorder.write("start", &ctx);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    recorder.write("end", &ctx);
}

/// Fails so many times before it completes.
#[job(max_retries = 2, backoff = fixed("100ms"))]
pub(crate) async fn stumble(ctx: JobContext, State(recorder): State<Recorder>, times: u32) -> Result<(), JobError> {
    recorder.write("end", &ctx);
    if ctx.attempt() <= times { Err(io::Error::other("stumbled"))? } else { Ok(()) }
}

/// Where effects are written: the database of the worker.
#[derive(Clone, Debug)]
pub(crate) enum Effects {
    Postgres(sqlx::PgPool),
    MySql(sqlx::MySqlPool),
    Sqlite(sqlx::SqlitePool),
}

/// Writes an effect and completes its job in one transaction. Rolls back so many times before, and returns all the same.
#[job(max_retries = 5, backoff = fixed("100ms"))]
pub(crate) async fn pay(
    ctx: JobContext,
    State(recorder): State<Recorder>,
    State(effects): State<Effects>,
    ms: u64,
    rolls_back: u32,
) -> Result<(), JobError> {
    macro_rules! pay {
        ($pool:expr) => {{
            let mut tx = $pool.begin().await?;
            let effect = format!("INSERT INTO effects (job, attempt) VALUES ({}, {})", ctx.id(), ctx.attempt());
            sqlx::raw_sql(sqlx::AssertSqlSafe(effect)).execute(&mut *tx).await?;
            ctx.complete_in(&mut tx, &()).await?;
            recorder.write("end", &ctx);
            tokio::time::sleep(Duration::from_millis(ms / 10)).await;
            if ctx.attempt() <= rolls_back { tx.rollback().await? } else { tx.commit().await? }
        }};
    }
    recorder.write("start", &ctx);
    tokio::time::sleep(Duration::from_millis(ms)).await;
    match effects {
        Effects::Postgres(pool) => pay!(pool),
        Effects::MySql(pool) => pay!(pool),
        Effects::Sqlite(pool) => pay!(pool),
    }
    Ok(())
}

/// Snoozes until a file is there.
#[job(max_retries = 5)]
pub(crate) async fn doze(ctx: JobContext, State(recorder): State<Recorder>, file: String) -> Result<(), JobError> {
    recorder.write("end", &ctx);
    if Path::new(&file).exists() { Ok(()) } else { Err(JobError::snooze(Duration::from_millis(150))) }
}
