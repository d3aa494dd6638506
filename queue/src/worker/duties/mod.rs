//! Background duties: work that is nobody's job, and that any worker of the fleet may do.
//!
//! Each duty is a task of its own, on one runner. A duty waits until it is due, and does one bounded round. It ends with
//! the run; a round under way is dropped then, so each of its transactions must stand alone.

pub(crate) mod rescue;
pub(crate) mod retention;

use std::sync::Arc;

use crate::error::Error;
use crate::worker::lease::health::Failures;
use crate::worker::shared::Shared;

pub(crate) trait Duty: Send + 'static {
    /// Comes back when a round is due.
    fn due(&mut self, shared: &Shared) -> impl Future<Output = ()> + Send;

    /// One round.
    fn run_once(&mut self, shared: &Arc<Shared>) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether a round that failed is repeated at once, after the pause that every loop makes while the database is away.
    /// Otherwise the next one is soon enough, and this tells of the failure.
    fn repeats(&self, _error: &Error) -> bool {
        true
    }
}

/// Does a duty until the run is over.
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
