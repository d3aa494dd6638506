//! Whether the database answers. Logs each change, and continuing errors once a minute. All loops use the same backoff.

use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::telemetry::{Event, Observers};
use crate::worker::notices::lock;

/// The longest pause between two tries while the database is away.
const LONGEST: Duration = Duration::from_secs(1);

/// A continuing error is logged again after this time.
const AGAIN: Duration = Duration::from_secs(60);
/// The most errors logged within that time.
const MOST_TOLD: usize = 8;

/// Shared by all loops of a worker.
#[derive(Default)]
pub(crate) struct Health {
    outage: Mutex<Outage>,
    observers: Observers,
    /// Notified when a connection failed: the connection of the heartbeats may be gone too.
    pub(crate) doubt: Notify,
}

#[derive(Default)]
struct Outage {
    /// How many loops fail at present.
    failing: u32,
    since: Option<Instant>,
    /// The errors that were logged within a minute, and since when.
    told: Vec<String>,
    told_since: Option<Instant>,
}

/// One loop's series of failures.
#[derive(Default)]
pub(crate) struct Failures {
    tries: u32,
    /// One of them was part of an outage.
    lost: bool,
}

impl Outage {
    /// Whether to log this one, too.
    fn is_news(&mut self, error: &Error) -> bool {
        let now = Instant::now();
        if self.told_since.is_none_or(|since| now - since >= AGAIN) {
            (self.told, self.told_since) = (Vec::new(), Some(now));
        }
        let text = match error {
            // all loops fail for the same reason, whatever they were doing
            Error::Database { source, .. } if !matches!(source, sqlx::Error::Database(_)) => source.to_string(),
            error => error.to_string(),
        };
        let news = self.told.len() < MOST_TOLD && !self.told.contains(&text);
        if news {
            self.told.push(text);
        }
        news
    }
}

impl Health {
    pub(crate) fn new(observers: Observers) -> Self {
        Self { observers, ..Self::default() }
    }

    /// Since when the database does not answer.
    pub(crate) fn away_since(&self) -> Option<Instant> {
        lock(&self.outage).since
    }

    /// The database answered this loop. The outage is over when it answers all of them.
    pub(crate) fn up(&self, failures: &mut Failures) {
        if failures.tries == 0 || !std::mem::take(failures).lost {
            return;
        }
        let mut outage = lock(&self.outage);
        outage.failing -= 1;
        if outage.failing == 0
            && let Some(since) = outage.since.take()
        {
            outage.told_since = None;
            Event::DatabaseBack { outage: since.elapsed() }.emit(&self.observers);
        }
    }

    /// The database did not answer. Waits before the next try: 50 ms at first, 1 s at most, with jitter.
    pub(crate) async fn down(&self, failures: &mut Failures, error: &Error) {
        self.failed(failures, error);
        let pause = LONGEST.min(Duration::from_millis(25) * 2u32.saturating_pow(failures.tries.min(10)));
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }

    /// Like [`down`](Self::down), for callers that know by themselves when to try again.
    pub(crate) fn failed(&self, failures: &mut Failures, error: &Error) {
        failures.tries = failures.tries.saturating_add(1);
        let mut outage = lock(&self.outage);
        if error.blames_the_row() {
            if outage.is_news(error) {
                tracing::error!(%error, "the database rejects a value; trying again");
            }
            return;
        }
        self.doubt.notify_one();
        if !std::mem::replace(&mut failures.lost, true) {
            outage.failing += 1;
            outage.since.get_or_insert_with(Instant::now);
        }
        if outage.is_news(error) {
            Event::DatabaseLost { error }.emit(&self.observers);
        }
    }
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
