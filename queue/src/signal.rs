//! The signals that end a process.

use std::sync::LazyLock;

use tokio_util::sync::CancellationToken;

/// Fires with the second signal.
static SECOND: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Ready on Ctrl-C, or on SIGTERM (not on Windows): for [`Worker::run`](crate::Worker::run). A second signal ends all
/// workers of this process at once, without a grace period. Their running jobs are released.
///
/// # Panics
/// Outside a tokio runtime with I/O enabled, or if the signals cannot be watched.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
/// queue::Worker::builder(pool).build()?.run(queue::shutdown_signal()).await
/// # }
/// ```
pub fn shutdown_signal() -> impl Future<Output = ()> + Send {
    let mut signals = Signals::watch();
    async move {
        signals.next().await;
        tokio::spawn(async move {
            signals.next().await;
            SECOND.cancel();
        });
    }
}

/// Ready when [`shutdown_signal`] has seen a second signal.
pub(crate) async fn second() {
    SECOND.cancelled().await;
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn watch() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let watch = |kind| signal(kind).unwrap_or_else(|error| panic!("cannot watch the signals: {error}"));
        Self { interrupt: watch(SignalKind::interrupt()), terminate: watch(SignalKind::terminate()) }
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn watch() -> Self {
        Self
    }

    async fn next(&mut self) {
        if let Err(error) = tokio::signal::ctrl_c().await {
            panic!("cannot watch for Ctrl-C: {error}");
        }
    }
}
