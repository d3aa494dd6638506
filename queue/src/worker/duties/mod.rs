//! Background duties: work for the whole database that any worker may do.
//!
//! Each duty runs in its own task: it waits until it is due, and does one bounded round. The end of the worker drops a
//! round midway, so each transaction of a round must be complete in itself.

mod feature;
pub(crate) mod rescue;
pub(crate) mod retention;
#[cfg(feature = "schedules")]
pub(crate) mod schedules;
#[cfg(feature = "schedules")]
pub(crate) mod ticks;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::sleep;

use crate::error::Error;
use crate::telemetry;
use crate::worker::lease::health::Failures;
use crate::worker::shared::Shared;

/// The pause after a round that panicked. What made it panic may still be in the database.
const AFTER_PANIC: Duration = Duration::from_secs(30);

pub(crate) trait Duty: Send + 'static {
    /// Waits until a round is due.
    fn due(&mut self, shared: &Shared) -> impl Future<Output = ()> + Send;

    /// Does one round.
    fn run_once(&mut self, shared: &Arc<Shared>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether to repeat a failed round after the usual backoff. Otherwise the duty waits until it is due again, and
    /// this method logs the failure.
    fn repeats(&self, _error: &Error) -> bool {
        true
    }
}

/// Runs a duty until the worker ends.
pub(crate) async fn run(shared: Arc<Shared>, mut duty: impl Duty) {
    let mut failures = Failures::default();
    loop {
        duty.due(&shared).await;
        loop {
            // the worker's jobs must not end with a round
            let Ok(done) = AssertUnwindSafe(duty.run_once(&shared)).catch_unwind().await else {
                let event = telemetry::DUTY_FAILED;
                tracing::error!(event, "a round of a worker's background work panicked; a later one tries again");
                sleep(AFTER_PANIC).await;
                break;
            };
            match done {
                Ok(()) => {
                    shared.health.up(&mut failures);
                    break;
                }
                Err(error) if duty.repeats(&error) => shared.health.down(&mut failures, &error).await,
                Err(_) => break,
            }
        }
    }
}
