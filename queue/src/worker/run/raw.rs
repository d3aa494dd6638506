//! How a handler ended.

use std::any::Any;

use crate::outcome::{Failure, JobError};
use crate::worker::run::error_text::{chain, panic_text};
use crate::worker::run::switch::Stop;

/// How the handler's future ended.
pub(super) enum Raw {
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
        match result {
            Ok(result) => Self::Returned(result),
            Err(panic) => Self::Panicked(panic_text(&*panic)),
        }
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
