//! How an attempt ends, as the handler reports it.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// A boxed error with its chain of causes.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// How a handler's attempt failed, or why it ended without a result.
///
/// Any error type converts with `?` and counts as a failure: the job waits for its backoff and runs again. Use the
/// constructors for finer control. Types that are not errors themselves (`anyhow::Error`, a [`BoxError`], a string)
/// convert with `.map_err(JobError::retry)?`.
///
/// ```
/// use std::time::Duration;
/// use queue::JobError;
///
/// async fn charge(card: &str) -> Result<(), JobError> {
///     let cents: u64 = card.parse()?; // a failure: retried with backoff
///     match cents {
///         0 => Err(JobError::cancel("nothing to charge")),
///         1..=99 => Err(JobError::dead("below the minimum: no retry will help")),
///         100 => Err(JobError::retry_after(Duration::from_secs(90), "rate limited")),
///         101 => Err(JobError::snooze(Duration::from_secs(600))),
///         _ => Ok(()),
///     }
/// }
/// ```
///
/// It does not implement [`std::error::Error`], so that every error type can convert into it.
pub struct JobError(pub(crate) Failure);

pub(crate) enum Failure {
    Retry { after: Option<Duration>, error: BoxError },
    Dead { error: BoxError },
    Cancel { reason: String },
    Snooze { delay: Duration },
}

impl JobError {
    /// A failure like any other error: retried after the job's backoff while retries are left, then a dead letter.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self(Failure::Retry { after: None, error: error.into() })
    }

    /// A failure that is retried after `delay` instead of the backoff, while retries are left.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self(Failure::Retry { after: Some(delay), error: error.into() })
    }

    /// A failure that no retry can fix: the job becomes a dead letter at once.
    pub fn dead(error: impl Into<BoxError>) -> Self {
        Self(Failure::Dead { error: error.into() })
    }

    /// The job is no longer needed: it ends as cancelled, with this reason.
    pub fn cancel(reason: impl Into<String>) -> Self {
        Self(Failure::Cancel { reason: reason.into() })
    }

    /// Runs the job again after `delay`. This does not count as an attempt, so a job may snooze any number of times.
    /// Its last hundred snoozes stay on record.
    pub fn snooze(delay: Duration) -> Self {
        Self(Failure::Snooze { delay })
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Failure::Retry { after, error } => {
                f.debug_struct("Retry").field("after", after).field("error", error).finish()
            }
            Failure::Dead { error } => f.debug_struct("Dead").field("error", error).finish(),
            Failure::Cancel { reason } => f.debug_struct("Cancel").field("reason", reason).finish(),
            Failure::Snooze { delay } => f.debug_struct("Snooze").field("delay", delay).finish(),
        }
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Failure::Retry { error, .. } | Failure::Dead { error } => error.fmt(f),
            Failure::Cancel { reason } => write!(f, "cancelled: {reason}"),
            Failure::Snooze { delay } => write!(f, "snoozed for {delay:?}"),
        }
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for JobError {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

/// What a handler may return as its error: [`JobError`], or anything that converts into a boxed error (every
/// [`std::error::Error`], `String`, `&str`, `anyhow::Error`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a job",
    label = "not an error that a worker can record",
    note = "implement `std::error::Error` (+ Send + Sync) for it, or return `Result<_, queue::JobError>` and use `?`"
)]
pub trait IntoJobError {
    /// Converts the error into the outcome of the attempt.
    fn into_job_error(self) -> JobError;
}

impl IntoJobError for JobError {
    fn into_job_error(self) -> JobError {
        self
    }
}

impl<E: Into<BoxError>> IntoJobError for E {
    fn into_job_error(self) -> JobError {
        JobError::retry(self)
    }
}

/// What a handler may return: nothing, or a `Result` with a serializable value and an error.
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "a job returns nothing or a `Result`",
    note = "return `Result<T, E>` where `T: serde::Serialize` (kept as the job's result) and `E` is any error type"
)]
pub trait JobReturn {
    /// The value that is kept as the job's result.
    type Output: Serialize + Send + 'static;
    /// Converts the value into the outcome of the attempt.
    fn into_result(self) -> Result<Self::Output, JobError>;
}

impl JobReturn for () {
    type Output = ();
    fn into_result(self) -> Result<(), JobError> {
        Ok(())
    }
}

impl<T: Serialize + Send + 'static, E: IntoJobError> JobReturn for Result<T, E> {
    type Output = T;
    fn into_result(self) -> Result<T, JobError> {
        self.map_err(IntoJobError::into_job_error)
    }
}
