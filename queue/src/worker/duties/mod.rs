//! Background duties: work for the whole database that any worker may do.
//!
//! Each duty runs in its own task: it waits until it is due, and does one bounded round. The end of the worker drops a
//! round midway, so each transaction of a round must be complete in itself.

pub(crate) mod operations;
pub(crate) mod rescue;
pub(crate) mod retention;
#[cfg(feature = "schedules")]
pub(crate) mod schedules;
pub(crate) mod tallies;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::sleep;

use crate::error::Error;
use crate::telemetry::Event;
use crate::worker::lease::health::Failures;
use crate::worker::shared::Shared;

/// The pause after a round that panicked. What made it panic may still be in the database.
const AFTER_PANIC: Duration = Duration::from_secs(30);

/// The pause after the account turned out to lack a right.
const NEVER: Duration = Duration::from_secs(365 * 86_400);

pub(crate) trait Duty: Send + 'static {
    /// Waits until a round is due.
    fn due(&mut self, shared: &Shared) -> impl Future<Output = ()> + Send;

    /// Does one round.
    fn run_once(&mut self, shared: &Arc<Shared>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether to repeat a failed round after the usual backoff. Otherwise the duty waits until it is due again, and
    /// this method logs the failure.
    fn repeats(&mut self, _: &Shared, _error: &Error) -> bool {
        true
    }
}

/// Tells of a failed round. Returns whether the duty is given up, because the account lacks a right.
fn failed(shared: &Shared, feature: &'static str, what: &'static str, error: &Error) -> bool {
    let given_up = error.is_a_missing_right();
    match given_up {
        true => shared.tell(Event::DutyGivenUp { feature, error }),
        false => shared.tell(Event::DutyFailed { feature, what, error }),
    }
    given_up
}

/// Runs a duty until the worker ends.
pub(crate) async fn run(shared: Arc<Shared>, mut duty: impl Duty) {
    let mut failures = Failures::default();
    loop {
        duty.due(&shared).await;
        loop {
            // the worker's jobs must not end with a round
            let Ok(done) = AssertUnwindSafe(duty.run_once(&shared)).catch_unwind().await else {
                shared.tell(Event::DutyPanicked);
                sleep(AFTER_PANIC).await;
                break;
            };
            match done {
                Ok(()) => {
                    shared.health.up(&mut failures);
                    break;
                }
                Err(error) if duty.repeats(&shared, &error) => shared.health.down(&mut failures, &error).await,
                Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::Instant;

    use super::*;
    use crate::worker::fake::log::Log;
    use crate::worker::fake::{Answer, MadeUp, nothing};

    /// Is due each second. After so many rounds, each panics. It tells when they began.
    struct Panics(u32, Arc<Mutex<Vec<Instant>>>);

    impl Duty for Panics {
        async fn due(&mut self, _: &Shared) {
            sleep(Duration::from_secs(1)).await;
        }

        async fn run_once(&mut self, _: &Arc<Shared>) -> Result<(), Error> {
            self.1.lock().unwrap().push(Instant::now());
            self.0 = self.0.checked_sub(1).unwrap_or_else(|| panic!("of a hostile row"));
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_logged_and_backs_off() {
        let database = MadeUp::new(|_| Answer::Yes);
        let (shared, _ends) = database.shared(Default::default(), Default::default(), nothing);
        let ((log, _listening), rounds) = (Log::listen(), Arc::default());
        let running = tokio::spawn(run(shared, Panics(2, Arc::clone(&rounds))));
        sleep(Duration::from_secs(100)).await;
        assert!(!running.is_finished(), "the worker goes on");
        running.abort();
        let rounds = rounds.lock().unwrap();
        let pauses: Vec<u64> = rounds.windows(2).map(|two| (two[1] - two[0]).as_secs()).collect();
        assert_eq!(pauses, [1, 1, 31, 31, 31]);
        assert_eq!(log.take("event=\"duty.failed\""), 4);
    }
}
