//! The jobs of the worker processes, and the file into which they write what they do: outside the database, so that a
//! test can compare the two.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue::{JobContext, State, job};
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
