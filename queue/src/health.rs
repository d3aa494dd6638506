//! Whether a worker is alive and ready, for the probes of a platform.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A worker is alive if its timer ran within this time.
const STILL: Duration = Duration::from_secs(30);
/// How often the timer runs.
pub(crate) const BEAT: Duration = Duration::from_secs(1);

/// Whether a worker is alive and ready. See [`Worker::health`](crate::Worker::health). Cheap to clone. No method asks
/// the database.
#[derive(Debug, Clone)]
pub struct Health(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// When the timer ran last. Before the worker runs: when it was built.
    beat: Instant,
    /// Why the worker does not claim.
    not_ready: Option<String>,
    file: Option<PathBuf>,
}

/// Why a worker does not claim jobs now. See [`Health::ready`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotReady(String);

impl Health {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        let not_ready = Some("it has not joined yet".to_owned());
        Self(Arc::new(Mutex::new(State { beat: Instant::now(), not_ready, file })))
    }

    /// Whether the runtime of the worker moves: its timer ran within 30 seconds. For a liveness probe: it stays true
    /// while the database is away, because a restart would not help.
    ///
    /// ```
    /// # fn example(worker: &queue::Worker) {
    /// let health = worker.health();
    /// // in the handler of a probe: 200 if `health.is_alive()`, otherwise 503
    /// assert!(health.is_alive());
    /// # }
    /// ```
    pub fn is_alive(&self) -> bool {
        self.state().beat.elapsed() < STILL
    }

    /// Whether the worker can claim jobs: it has joined, holds its lease, its database answers, and it is not stopping.
    /// For a readiness probe.
    ///
    /// # Errors
    /// The reason why it cannot, in words.
    pub fn ready(&self) -> Result<(), NotReady> {
        self.state().not_ready.clone().map_or(Ok(()), |reason| Err(NotReady(reason)))
    }

    /// The timer ran. Returns the file to touch.
    pub(crate) fn beat(&self, not_ready: Option<String>) -> Option<PathBuf> {
        let mut state = self.state();
        state.beat = Instant::now();
        state.not_ready = not_ready;
        state.file.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
