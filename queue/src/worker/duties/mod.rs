//! Background duties: work for the whole database that any worker may do.
//!
//! Each duty runs in its own task: it waits until it is due, and does one bounded round. The end of the worker drops a
//! round midway, so each transaction of a round must be complete in itself.

mod feature;
pub(crate) mod rescue;
pub(crate) mod retention;
#[cfg(feature = "schedules")]
pub(crate) mod schedules;

use std::sync::Arc;

use crate::error::Error;
use crate::worker::lease::health::Failures;
use crate::worker::shared::Shared;

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
            match duty.run_once(&shared).await {
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
