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
    /// When the timer ran last. `None` if there is none: before the worker has joined, and when it no longer runs.
    beat: Option<Instant>,
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
        Self(Arc::new(Mutex::new(State { beat: None, not_ready, file })))
    }

    /// Whether the runtime of the worker moves: its timer ran within 30 seconds. For a liveness probe: it stays true
    /// while the database is away, because a restart would not help. A worker that does not run is alive.
    ///
    /// ```
    /// # fn example(worker: &queue::Worker) {
    /// let health = worker.health();
    /// // in the handler of a probe: 200 if `health.is_alive()`, otherwise 503
    /// assert!(health.is_alive());
    /// # }
    /// ```
    pub fn is_alive(&self) -> bool {
        self.state().beat.is_none_or(|beat| beat.elapsed() < STILL)
    }

    /// Whether the worker can claim jobs: it has joined, holds its lease, its database answers, its runtime moves, and
    /// it is not stopping. For a readiness probe.
    ///
    /// # Errors
    /// The reason why it cannot, in words.
    pub fn ready(&self) -> Result<(), NotReady> {
        let reason = self.state().not_ready.clone();
        reason.or_else(|| (!self.is_alive()).then(still)).map_or(Ok(()), |reason| Err(NotReady(reason)))
    }

    /// Answers the probes of a platform over HTTP: `GET /livez` and `GET /readyz`, with 200, or with 503 and the
    /// reason. It asks no database. Serve it alone, or merge it into a router of yours.
    ///
    /// ```no_run
    /// # async fn example(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
    /// let worker = queue::Worker::builder(pool).build()?;
    /// let listener = tokio::net::TcpListener::bind("0.0.0.0:8080").await?;
    /// tokio::spawn(axum::serve(listener, worker.health().router()).into_future());
    /// worker.run(queue::shutdown_signal()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// A runtime that stands still answers nothing, which fails the probes too. On a runtime of its own, the server
    /// answers 503.
    #[cfg(feature = "axum")]
    pub fn router<S: Clone + Send + Sync + 'static>(&self) -> axum::Router<S> {
        use axum::{http::StatusCode, routing::get};
        let answer = |failed: Option<String>, well: &str| match failed {
            None => (StatusCode::OK, well.to_owned()),
            Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
        };
        let (live, ready) = (self.clone(), self.clone());
        let live = move || async move { answer((!live.is_alive()).then(still), "alive") };
        let ready = move || async move { answer(ready.ready().err().map(|it| it.to_string()), "ready") };
        axum::Router::new().route("/livez", get(live)).route("/readyz", get(ready))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The timer of a worker that runs. When it is dropped, the worker runs no more.
pub(crate) struct Timer<'a>(pub(crate) &'a Health);

impl Timer<'_> {
    /// It ran. Returns the file to touch.
    pub(crate) fn beat(&self, not_ready: Option<String>) -> Option<PathBuf> {
        let mut state = self.0.state();
        state.beat = Some(Instant::now());
        state.not_ready = not_ready;
        state.file.clone()
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.beat = None;
        state.not_ready.get_or_insert_with(|| "it has ended".to_owned());
    }
}

fn still() -> String {
    format!("its runtime has stood still for {} s", STILL.as_secs())
}
