//! The jobs of the worker processes, and the file into which they write what they do: outside the database, so that a
//! test can compare the two.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue::{Job as _, JobContext, JobError, State, job};
use queue_test_support::Db;
use tokio::time::sleep;

/// How often a job looks for the file that it waits for.
const LOOK: Duration = Duration::from_millis(20);

/// A file that any number of processes append lines to.
#[derive(Clone, Debug)]
pub(crate) struct Recorder(Arc<File>);

impl Recorder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self(Arc::new(file)))
    }

    /// One line, `start|end <job> <attempt> <process> <microseconds since 1970>`, in one write.
    fn write(&self, what: &str, ctx: &JobContext) {
        let (id, attempt, process) = (ctx.id(), ctx.attempt(), std::process::id());
        let line = format!("{what} {id} {attempt} {process} {}\n", now());
        (&*self.0).write_all(line.as_bytes()).expect("the record file takes a line");
    }
}

/// Microseconds since 1970, by the clock that all processes of a test share.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
    i64::try_from(since.as_micros()).expect("a clock before the year 200,000")
}

/// Does nothing but say that it ran.
#[job]
pub(crate) async fn note(ctx: JobContext, State(recorder): State<Recorder>) {
    recorder.write("start", &ctx);
    recorder.write("end", &ctx);
}

/// Carries something heavy for a while.
#[job]
pub(crate) async fn haul(ctx: JobContext, State(recorder): State<Recorder>, load: String) {
    recorder.write("start", &ctx);
    sleep(Duration::from_millis(20)).await;
    drop(load);
    recorder.write("end", &ctx);
}

/// Takes its time.
#[job]
pub(crate) async fn nap(ctx: JobContext, State(recorder): State<Recorder>, ms: u64) {
    recorder.write("start", &ctx);
    sleep(Duration::from_millis(ms)).await;
    recorder.write("end", &ctx);
}

/// Whether the file is there for which jobs wait, or the one with the process's number behind its name, which lets only
/// the jobs of that process go on.
fn appeared(path: &str) -> bool {
    Path::new(path).exists() || Path::new(&format!("{path}.{}", std::process::id())).exists()
}

/// Ends when a file appears. Does not look at its cancellation token.
#[job]
pub(crate) async fn wait_for_file(ctx: JobContext, State(recorder): State<Recorder>, path: String) {
    recorder.write("start", &ctx);
    while !appeared(&path) {
        sleep(LOOK).await;
    }
    recorder.write("end", &ctx);
}

/// The same on a thread of its own, which nobody can cancel.
#[job(blocking)]
pub(crate) fn block_for_file(ctx: JobContext, State(recorder): State<Recorder>, path: String) {
    recorder.write("start", &ctx);
    while !appeared(&path) {
        std::thread::sleep(LOOK);
    }
    recorder.write("end", &ctx);
}

/// The same on the thread of the runtime: a mistake.
#[job]
pub(crate) async fn block_the_runtime(ctx: JobContext, State(recorder): State<Recorder>, path: String) {
    recorder.write("start", &ctx);
    while !appeared(&path) {
        std::thread::sleep(LOOK);
    }
    recorder.write("end", &ctx);
}

/// Ends as it is told, with a promise that it keeps.
#[job(queue = "acts", max_retries = 1, backoff = fixed("1ms"), timeout = "300ms", start_within = "1h")]
pub(crate) async fn act(ctx: JobContext, how: String) -> Result<(), JobError> {
    match &*how {
        "retry" if ctx.attempt() == 1 => Err(JobError::retry("once")),
        "fail" => Err(JobError::retry("always")),
        "panic" => panic!("as told"),
        "bury" => Err(JobError::dead("as told")),
        "cancel" => Err(JobError::cancel("as told")),
        "snooze" => Err(JobError::snooze(Duration::from_secs(3600))),
        "hang" => Err(JobError::retry(format!("{:?}", ctx.cancelled().await))),
        _ => Ok(()),
    }
}

/// Has a promise that is broken before it is enqueued: see [`load`].
#[job(queue = "acts", start_within = "1h")]
pub(crate) async fn late() {}

/// Is never run: its queue is paused.
#[job(queue = "paused")]
pub(crate) async fn rest() {}

/// How `act` ends, and how many of them.
pub(crate) const ACTS: [(&str, usize); 8] = [
    ("complete", 400),
    ("retry", 30),
    ("fail", 20),
    ("panic", 10),
    ("bury", 7),
    ("cancel", 6),
    ("snooze", 5),
    ("hang", 3),
];
/// How many start late, rest, and are due in an hour.
pub(crate) const LATE: usize = 12;
pub(crate) const RESTING: usize = 9;
pub(crate) const SCHEDULED: usize = 4;

/// Enqueues all of these: a program that is asked for its metrics has to write the jobs itself.
#[job]
pub(crate) async fn load(State(db): State<Db>) {
    for (how, jobs) in ACTS {
        db.enqueue_all((0..jobs).map(|_| Act { how: how.to_owned() }).collect()).await;
    }
    for _ in 0..LATE {
        db.enqueue(Late {}.at(chrono::Utc::now() - Duration::from_secs(7200))).await;
    }
    db.enqueue_all((0..RESTING).map(|_| Rest {}).collect()).await;
    for _ in 0..SCHEDULED {
        db.enqueue(Act { how: String::new() }.after(Duration::from_secs(3600))).await;
    }
}
