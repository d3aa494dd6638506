//! Code that the suites share: a database under test, with the same methods on every engine ([`Db`]); jobs that a test
//! controls and observes ([`jobs`], [`Probe`]); and waiting with a deadline ([`within`], [`eventually`]).

pub mod jobs;

mod db;
mod probe;

use std::time::Duration;

pub use db::{AnyPool, AnyTransaction, Db, Running, on};
pub use probe::{Event, Probe, Step, What};

/// How long a test waits for anything. A busy machine needs far less, so only a real failure exceeds it.
pub const DEADLINE: Duration = Duration::from_secs(240);

/// Waits for a future, at most until the deadline.
///
/// # Panics
/// When it is not ready by then; the message names `what`.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {DEADLINE:?} in vain: {what}"),
    }
}

/// Looks again and again until there is something to see: the last resort where no event can be waited for.
///
/// # Panics
/// When the deadline passes; the message names `what`.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let seen = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    };
    within(what, seen).await
}
