//! Jobs for tests. They are linked into every test binary, so every worker needs their states ([`with_states`]), except
//! one with [`only_registered`](queue::WorkerBuilder::only_registered).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use queue::{JobContext, JobError, State, WorkerBuilder, job};
use serde_json::Value;

use crate::{AnyPool, Probe, Step};

/// Tells that it ran.
#[job]
pub async fn note(ctx: JobContext, State(probe): State<Probe>, label: String) {
    probe.note(&ctx, &label);
}

/// As [`note`], of another kind.
#[job]
pub async fn remark(ctx: JobContext, State(probe): State<Probe>, label: String) {
    probe.note(&ctx, &label);
}

/// Does what the steps say. Three attempts, in quick succession.
#[job(max_retries = 2, backoff = fixed("10ms"))]
pub async fn play(
    ctx: JobContext,
    State(probe): State<Probe>,
    label: String,
    steps: Vec<Step>,
) -> Result<Value, JobError> {
    probe.perform(&ctx, &label, &steps).await
}

/// As [`play`], with little time.
#[job(max_retries = 2, backoff = fixed("10ms"), timeout = "150ms")]
pub async fn hurried(
    ctx: JobContext,
    State(probe): State<Probe>,
    label: String,
    steps: Vec<Step>,
) -> Result<Value, JobError> {
    probe.perform(&ctx, &label, &steps).await
}

/// As [`play`], off the async threads.
#[job(blocking, max_retries = 2, backoff = fixed("10ms"))]
pub fn grind(ctx: JobContext, State(probe): State<Probe>, label: String, steps: Vec<Step>) -> Result<Value, JobError> {
    probe.perform_blocking(&ctx, &label, &steps)
}

/// As [`grind`], with little time.
#[job(blocking, max_retries = 2, backoff = fixed("10ms"), timeout = "150ms")]
pub fn grind_hurried(
    ctx: JobContext,
    State(probe): State<Probe>,
    label: String,
    steps: Vec<Step>,
) -> Result<Value, JobError> {
    probe.perform_blocking(&ctx, &label, &steps)
}

/// A job that declares where it goes.
#[job(queue = "mail", priority = 7, max_retries = 4)]
pub async fn placed(ctx: JobContext, State(probe): State<Probe>, label: String) {
    probe.note(&ctx, &label);
}

/// A job without arguments.
#[job]
pub async fn bare(ctx: JobContext, State(probe): State<Probe>) {
    probe.note(&ctx, "bare");
}

/// A job that was called otherwise in former releases.
#[job(name = "renamed", aliases = ["former_name", "first_name"])]
pub async fn renamed(ctx: JobContext, State(probe): State<Probe>, label: String) {
    probe.note(&ctx, &label);
}

/// Fails and waits for longer and longer.
#[job(max_retries = 5, backoff = exponential("1000s", max = "3000s"))]
pub async fn fails_exponentially(ctx: JobContext, State(probe): State<Probe>) -> Result<(), JobError> {
    probe.note(&ctx, "exponential");
    Err(JobError::retry("no"))
}

/// Fails and waits a little longer each time.
#[job(max_retries = 5, backoff = linear("1000s", max = "2500s"))]
pub async fn fails_linearly(ctx: JobContext, State(probe): State<Probe>) -> Result<(), JobError> {
    probe.note(&ctx, "linear");
    Err(JobError::retry("no"))
}

/// Fails and always waits as long.
#[job(max_retries = 5, backoff = fixed("1000s"))]
pub async fn fails_steadily(ctx: JobContext, State(probe): State<Probe>) -> Result<(), JobError> {
    probe.note(&ctx, "fixed");
    Err(JobError::retry("no"))
}

fn squares(attempt: u32) -> Duration {
    Duration::from_secs(1000) * attempt * attempt
}

/// Fails and waits as it likes.
#[job(max_retries = 5, backoff = custom(squares))]
pub async fn fails_its_own_way(ctx: JobContext, State(probe): State<Probe>) -> Result<(), JobError> {
    probe.note(&ctx, "custom");
    Err(JobError::retry("no"))
}

/// A job in a module, of a name that is used outside of it as well.
pub mod deep {
    /// Far down.
    pub mod deeper {
        use queue::{JobContext, State, job};

        use crate::Probe;

        /// Tells that it ran.
        #[job(name = "deeper_note")]
        pub async fn note(ctx: JobContext, State(probe): State<Probe>, label: String) {
            probe.note(&ctx, &label);
        }
    }
}

pub use deep::deeper::Note as DeepNote;

/// A state for [`greets`].
#[derive(Debug, Clone)]
pub struct Greeting(pub &'static str);

/// Another state for [`greets`].
#[derive(Debug, Clone)]
pub struct Mark(pub char);

/// Takes three states, in any place.
#[job]
pub async fn greets(
    State(greeting): State<Greeting>,
    name: String,
    State(probe): State<Probe>,
    ctx: JobContext,
    mark: State<Mark>,
) {
    probe.note(&ctx, &format!("{}, {name}{}", greeting.0, mark.0.0));
}

/// A state that knows how often it was cloned.
#[derive(Debug, Default)]
pub struct Clones(Arc<AtomicUsize>);

impl Clones {
    /// How often.
    pub fn count(&self) -> Arc<AtomicUsize> {
        self.0.clone()
    }
}

impl Clone for Clones {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::SeqCst);
        Self(self.0.clone())
    }
}

/// Takes a clone of its state.
#[job]
pub async fn counts_clones(State(_clones): State<Clones>) {}

/// Enqueues two of the next generation.
#[job]
pub async fn spreads(State(pool): State<AnyPool>, generations: u32) -> Result<(), JobError> {
    for _ in 0..if generations > 0 { 2 } else { 0 } {
        pool.enqueue(Spreads::new(generations - 1)).await?;
    }
    Ok(())
}

/// Gives a worker every state that some job here takes.
pub fn with_states(worker: WorkerBuilder, probe: &Probe, pool: &AnyPool) -> WorkerBuilder {
    worker.state(probe.clone()).state(pool.clone()).state(Greeting("Hello")).state(Mark('!')).state(Clones::default())
}
