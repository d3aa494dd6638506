//! How a handler ended, and what its error says.

use std::any::Any;

use crate::limits::{MAX_ERROR_BYTES, cut};
use crate::outcome::{BoxError, Failure, JobError};
use crate::worker::run::switch::Stop;

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
