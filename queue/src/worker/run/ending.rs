//! How an attempt is told to stop, how its handler ended, and what its error says.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::limits::{MAX_ERROR_BYTES, cut};
use crate::outcome::{BoxError, Failure, JobError};

/// Why an attempt was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Timeout,
    Cancelled,
    Shutdown,
    LeaseLost,
}

/// Stops a running attempt. Fires once, with the first reason. A lost lease overrides every other reason.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    pub(crate) token: CancellationToken,
    /// Ends even the grace period, because another worker may have the job by now.
    pub(crate) lost: CancellationToken,
    reason: OnceLock<Stop>,
    /// The handler may hold the lock on its job's row, for as long as it likes. No statement for several jobs may begin
    /// to wait for that lock.
    locks_row: AtomicBool,
    /// Held by such a statement while it is under way.
    row: Arc<Mutex<()>>,
}

impl Switch {
    /// The handler is about to lock the row of its job. A statement for several jobs that is under way gets some time
    /// to end. It may need more: it may wait for something that the handler's transaction has locked.
    pub(crate) async fn handler_locks_row(&self, patience: Duration) {
        self.locks_row.store(true, Ordering::SeqCst);
        if !patience.is_zero() {
            let _ = timeout(patience, self.row.lock()).await;
        }
    }

    /// For a statement for several jobs. None: the handler may hold the row.
    pub(crate) fn may_lock_row(&self) -> Option<OwnedMutexGuard<()>> {
        let guard = self.row.clone().try_lock_owned().ok()?;
        (!self.locks_row.load(Ordering::SeqCst)).then_some(guard)
    }

    pub(crate) fn stop(&self, why: Stop) {
        if why == Stop::LeaseLost {
            self.lost.cancel();
        }
        let _ = self.reason.set(why);
        self.token.cancel();
    }

    pub(crate) fn reason(&self) -> Option<Stop> {
        if self.lost.is_cancelled() { Some(Stop::LeaseLost) } else { self.reason.get().copied() }
    }
}

/// How a handler ended.
pub(crate) enum Raw {
    Returned(Result<Option<String>, JobError>),
    Panicked(String),
    /// Dropped, because it did not stop when it was told to.
    Dropped(Stop),
    Undecodable(String),
    /// The arguments are longer than any job's may be.
    TooLong(i64),
}

impl Raw {
    /// The handler's future is over.
    pub(super) fn returned(result: Result<Result<Option<String>, JobError>, Box<dyn Any + Send>>) -> Self {
        result.map_or_else(|panic| Self::Panicked(panic_text(&*panic)), Self::Returned)
    }

    /// What went wrong, in words.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Returned(Ok(_)) => String::new(),
            Self::Returned(Err(ended @ JobError(failure))) => match failure {
                Failure::Retry { error, .. } | Failure::Dead { error } | Failure::Unbegun { error } => chain(error),
                Failure::Cancel { reason } => reason.clone(),
                Failure::Snooze { .. } => ended.to_string(),
            },
            Self::Panicked(text) => format!("panicked: {text}"),
            Self::Dropped(why) => format!("dropped: {why:?}"),
            Self::Undecodable(text) => text.clone(),
            Self::TooLong(bytes) => format!("{bytes} bytes of arguments"),
        }
    }
}

/// What a panic says.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "(the panic value is not a string)".to_owned(),
    }
}

/// Between an error and its cause.
pub(super) const CAUSED_BY: &str = "\ncaused by: ";

/// An error and its causes, one per line. Their number is limited, because an error may be its own cause.
pub(super) fn chain(error: &BoxError) -> String {
    const MOST: usize = 64;
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()).take(MOST) {
        if text.len() >= MAX_ERROR_BYTES {
            break;
        }
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text.push_str(CAUSED_BY);
            text.push_str(&cause);
        }
    }
    text
}

/// Cuts the text to size, and replaces NUL, which PostgreSQL refuses.
pub(super) fn storable(text: String) -> String {
    let text = cut(text);
    if text.contains('\0') { cut(text.replace('\0', "\u{FFFD}")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_to_stop_counts() {
        let switch = Switch::default();
        assert_eq!(switch.reason(), None);
        switch.stop(Stop::Timeout);
        switch.stop(Stop::Shutdown);
        assert_eq!(switch.reason(), Some(Stop::Timeout));
        assert!(switch.token.is_cancelled());
        switch.stop(Stop::LeaseLost);
        assert_eq!(switch.reason(), Some(Stop::LeaseLost));
    }

    #[tokio::test]
    async fn a_handler_that_locks_its_row_lets_a_statement_end_and_none_begin() {
        const LONG: Duration = Duration::from_secs(60);
        let switch = Arc::new(Switch::default());
        let statement = switch.may_lock_row().expect("nobody locks it");
        let of_handler = switch.clone();
        let mut handler = tokio::spawn(async move { of_handler.handler_locks_row(LONG).await });
        let soon = Duration::from_millis(50);
        assert!(timeout(soon, &mut handler).await.is_err(), "the statement is under way");
        drop(statement);
        handler.await.unwrap();
        assert!(switch.may_lock_row().is_none());
        switch.handler_locks_row(LONG).await; // once more costs nothing

        let switch = Switch::default();
        let _statement = switch.may_lock_row();
        timeout(LONG, switch.handler_locks_row(soon)).await.expect("it does not wait for ever");
        timeout(LONG, switch.handler_locks_row(Duration::ZERO)).await.expect("nor at all, if it must not");
    }

    #[test]
    fn error_texts_fit_every_engine() {
        assert_eq!(storable("a\0b".into()), "a\u{FFFD}b");
        let long = storable("ä".repeat(MAX_ERROR_BYTES));
        assert!(long.len() <= MAX_ERROR_BYTES && long.ends_with("(cut)"));
        let long = storable("\0".repeat(MAX_ERROR_BYTES));
        assert!(long.len() <= MAX_ERROR_BYTES && long.ends_with("(cut)"));
    }

    #[test]
    fn causes_are_kept_in_order() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] std::num::ParseIntError);
        let inner = "x".parse::<i32>().unwrap_err();
        let error: BoxError = Box::new(Outer(inner));
        assert_eq!(chain(&error), "outer\ncaused by: invalid digit found in string");
    }

    #[test]
    fn an_error_may_be_its_own_cause() {
        #[derive(Debug)]
        struct Round;
        impl std::fmt::Display for Round {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("round")
            }
        }
        impl std::error::Error for Round {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(self)
            }
        }
        assert_eq!(chain(&(Box::new(Round) as BoxError)), "round");
    }
}
