//! Whether the database answers: one log line per change, one backoff for all loops.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::telemetry;

/// The longest pause between two tries while the database is away.
const LONGEST: Duration = Duration::from_secs(1);

/// Shared by all loops of a worker.
#[derive(Default)]
pub(crate) struct Health {
    outage: Mutex<Outage>,
    /// A connection failed: the one for heartbeats may be gone too.
    pub(crate) doubt: Notify,
}

#[derive(Default)]
struct Outage {
    /// How many loops fail at present.
    failing: u32,
    since: Option<Instant>,
}

/// One loop's series of failures.
#[derive(Default)]
pub(crate) struct Failures(u32);

impl Health {
    /// The database answered this loop. The outage is over when it answers all of them.
    pub(crate) fn up(&self, failures: &mut Failures) {
        if std::mem::take(&mut failures.0) == 0 {
            return;
        }
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        outage.failing -= 1;
        if outage.failing == 0
            && let Some(since) = outage.since.take()
        {
            let outage_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(event = telemetry::DATABASE_BACK, outage_ms, "the database answers again");
        }
    }

    /// It did not. Waits before the next try: 50 ms at first, 1 s at most, with jitter.
    pub(crate) async fn down(&self, failures: &mut Failures, error: &Error) {
        self.failed(failures, error);
        let pause = LONGEST.min(Duration::from_millis(25) * 2u32.saturating_pow(failures.0.min(10)));
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }

    /// The same for who knows by itself when to try again.
    pub(crate) fn failed(&self, failures: &mut Failures, error: &Error) {
        if !error.blames_the_row() {
            self.doubt.notify_one();
        }
        if failures.0 == 0 {
            let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
            outage.failing += 1;
            if outage.since.is_none() {
                outage.since = Some(Instant::now());
                tracing::error!(event = telemetry::DATABASE_LOST, %error, "the database fails; trying again");
            }
        }
        failures.0 = failures.0.saturating_add(1);
    }
}
