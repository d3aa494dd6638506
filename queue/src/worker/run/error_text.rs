//! The text of an error as the database keeps it.

use std::any::Any;

use crate::limits::{MAX_ERROR_BYTES, cut};
use crate::outcome::BoxError;

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
