//! What the peers of the benchmark share.
//!
//! A peer's program implements [`Peer`] and calls [`run`]; the workloads are the same for all. See `../README.md`.

use std::fmt::Display;
use std::future::Future;
use std::process::{ExitCode, exit};

pub use anyhow::{Context, Result, bail};

mod seen;
mod workloads;

pub use seen::handle;

/// What every job carries.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Payload {
    /// The number of the job, from 0.
    pub n: i64,
    /// [`S32`].
    pub s: String,
}

/// The 32 characters of every payload.
pub const S32: &str = "0123456789abcdef0123456789abcdef";

impl Payload {
    fn new(n: i64) -> Payload {
        Payload { n, s: S32.into() }
    }
}

/// Which of its settings a peer is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// What a user gets who follows the peer's README.
    Default,
    /// The best that its documentation shows.
    Best,
}

/// A job library under measurement. Its handler must await [`handle`] with the number of the job, and nothing else.
pub trait Peer: Clone + Send + Sync + 'static {
    /// Jobs that one call of [`Peer::enqueue_all`] is given.
    const CHUNK: i64 = 5_000;

    /// Whether there is a call for many jobs. Without one [`Peer::enqueue_all`] makes many calls.
    const BULK: bool = true;

    /// Connects to an empty database and installs the peer's tables.
    fn open(url: &str, variant: Variant) -> impl Future<Output = Result<Self>>;

    /// Jobs that the worker may run at a time, where the workload does not say.
    fn slots(&self) -> usize {
        32
    }

    /// Tasks that fill the queue in a closed loop.
    fn producers(&self) -> i64 {
        2
    }

    /// Enqueues one job, by the call for one job.
    fn enqueue(&self, job: Payload) -> impl Future<Output = Result<()>> + Send;

    /// Enqueues one job that is unique by its arguments, or by a key made of them.
    fn enqueue_unique(&self, _job: Payload) -> impl Future<Output = Result<()>> + Send {
        async { not_offered("there are no unique jobs, or nobody has written this workload") }
    }

    /// Enqueues many jobs, by the call for many.
    fn enqueue_all(&self, jobs: Vec<Payload>) -> impl Future<Output = Result<()>> + Send;

    /// Enqueues the jobs that wait for a drain, which no figure counts: another way where jobs that were enqueued
    /// together take longer to end.
    fn enqueue_waiting(&self, jobs: Vec<Payload>) -> impl Future<Output = Result<()>> + Send {
        self.enqueue_all(jobs)
    }

    /// Starts a worker that runs until the process ends, `slots` jobs at a time.
    fn work(&self, slots: usize) -> impl Future<Output = Result<()>> + Send;

    /// How many of the `sent` jobs are not done, by what the database says.
    fn left(&self, sent: i64) -> impl Future<Output = Result<i64>> + Send;

    /// What brings the planner's statistics up to date, as every server does by itself within a minute.
    fn analyze(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Transactions (PostgreSQL) or statements (MySQL, MariaDB) that the server has counted so far.
    fn traffic(&self) -> impl Future<Output = Result<i64>> + Send {
        async { not_offered("SQLite has no server that counts statements") }
    }
}

/// Transactions of the database under test.
pub const POSTGRES_TRAFFIC: &str =
    "SELECT (xact_commit + xact_rollback)::bigint FROM pg_stat_database WHERE datname = current_database()";

/// Statements of the server; the second column, a text.
pub const MYSQL_TRAFFIC: &str = "SHOW GLOBAL STATUS LIKE 'Questions'";

/// The `main` of every peer: `peer-NAME VARIANT WORKLOAD` with the variables that `../README.md` names.
pub async fn run<P: Peer>() -> ExitCode {
    match figures::<P>().await {
        Ok(figures) => {
            println!("{figures}");
            // The workers are still running.
            exit(0)
        }
        Err(error) => {
            eprintln!("{error:#}");
            exit(1)
        }
    }
}

async fn figures<P: Peer>() -> Result<String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [variant, workload] = args.as_slice() else { bail!("usage: peer-NAME default|best WORKLOAD") };
    let variant = match variant.as_str() {
        "default" => Variant::Default,
        "best" => Variant::Best,
        other => bail!("the variant must be `default` or `best`, not `{other}`"),
    };
    let url = std::env::var("BENCH_URL").context("set BENCH_URL to an empty database")?;
    workloads::run(P::open(&url, variant).await?, workload).await
}

/// Ends the process with the code that says: this peer does not have that.
pub fn not_offered(why: &str) -> ! {
    eprintln!("not offered: {why}");
    exit(3)
}

/// Runs a worker beside the workload. Its failure ends the process.
pub fn background<E: Display>(worker: impl Future<Output = Result<(), E>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = worker.await {
            eprintln!("the worker failed: {error}");
            exit(1)
        }
    });
}
