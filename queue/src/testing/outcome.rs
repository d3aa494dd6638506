//! How attempts ended in a test.

use std::time::Duration;

use crate::state::JobId;
use crate::store::values::{AttemptOutcome, Destination, End};

/// How an attempt ended, and what happens to its job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// It succeeded, with this result (`Null` for `()`).
    Completed {
        /// What the handler returned.
        result: serde_json::Value,
    },
    /// It failed, and the job will be retried.
    Retried {
        /// The pause before the retry.
        after: Duration,
        /// The error, with its causes.
        error: String,
    },
    /// It failed for good: the job is a dead letter.
    Dead {
        /// The error, with its causes.
        error: String,
    },
    /// The job was cancelled.
    Cancelled {
        /// The reason.
        reason: String,
    },
    /// The job asked to run later.
    Snoozed {
        /// The pause.
        after: Duration,
        /// Why, if the job said so.
        reason: Option<String>,
    },
    /// Its worker was lost, and the job runs again: see
    /// [`TestQueue::crash_before_end`](super::TestQueue::crash_before_end).
    Lost {
        /// The job.
        id: JobId,
    },
}

impl Outcome {
    pub(crate) fn of(end: &End) -> Self {
        let text = || end.error.clone().unwrap_or_default();
        match &end.to {
            Destination::Finish { result } if end.outcome == AttemptOutcome::Completed => {
                Self::completed(result.as_deref())
            }
            Destination::Finish { .. } => Self::Cancelled { reason: text() },
            Destination::Requeue { delay_us, .. } => {
                let after = Duration::from_micros(delay_us.unwrap_or(0).unsigned_abs());
                match end.outcome {
                    AttemptOutcome::Snoozed => Self::Snoozed { after, reason: end.error.clone() },
                    _ => Self::Retried { after, error: text() },
                }
            }
            Destination::Bury => Self::Dead { error: text() },
        }
    }

    pub(crate) fn completed(json: Option<&str>) -> Self {
        Self::Completed { result: serde_json::from_str(json.unwrap_or("null")).expect("a result is JSON") }
    }
}

/// What [`TestQueue::drain`](super::TestQueue::drain) and [`TestQueue::advance`](super::TestQueue::advance) ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a failed job is not an error: look at the counts, or call `expect_ok()`"]
pub struct Drained {
    /// Attempts that succeeded.
    pub completed: u32,
    /// Attempts that failed and will be retried.
    pub retried: u32,
    /// Attempts that failed for good.
    pub dead: u32,
    /// Jobs that were cancelled.
    pub cancelled: u32,
    /// Attempts that asked to run later.
    pub snoozed: u32,
    /// Attempts whose worker was lost, so that the job runs again.
    pub lost: u32,
    /// The errors of the failed attempts, in order.
    pub errors: Vec<String>,
}

/// What ran, without a failure: [`Drained::expect_ok`]. It has the fields and methods of [`Drained`].
///
/// ```
/// fn total(days: &[queue::testing::Succeeded]) -> u32 {
///     days.iter().map(|day| day.completed).sum()
/// }
/// assert_eq!(total(&[]), 0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Succeeded(Drained); // a type of its own, because `Drained` asks to be looked at

impl std::ops::Deref for Succeeded {
    type Target = Drained;

    fn deref(&self) -> &Drained {
        &self.0
    }
}

impl Drained {
    /// Returns the counts if no attempt failed.
    ///
    /// ```no_run
    /// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
    /// let mut queue = queue::testing::TestQueue::new(&pool);
    /// queue.drain().await?.expect_ok();
    /// assert_eq!(queue.advance("1d").await?.expect_ok().completed, 1);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// With all errors, if an attempt failed.
    #[track_caller]
    pub fn expect_ok(self) -> Succeeded {
        let failed = self.errors.len();
        assert!(failed == 0, "{failed} attempts failed:\n{}", self.errors.join("\n"));
        Succeeded(self)
    }

    /// How many attempts ran.
    pub fn runs(&self) -> u32 {
        self.completed + self.retried + self.dead + self.cancelled + self.snoozed + self.lost
    }

    pub(super) fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Completed { .. } => self.completed += 1,
            Outcome::Retried { error, .. } => {
                self.retried += 1;
                self.errors.push(error);
            }
            Outcome::Dead { error } => {
                self.dead += 1;
                self.errors.push(error);
            }
            Outcome::Cancelled { .. } => self.cancelled += 1,
            Outcome::Snoozed { .. } => self.snoozed += 1,
            Outcome::Lost { .. } => self.lost += 1,
        }
    }
}
