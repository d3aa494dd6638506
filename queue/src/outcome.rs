//! How an attempt ends, as the handler reports it, and how long a failed job waits.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

/// A boxed error with its chain of causes.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// How a handler's attempt failed, or why it ended without a result.
///
/// Any error converts with `?` and counts as a failure: the job waits for its backoff and runs again. That includes
/// `anyhow::Error`, `eyre::Report`, a [`BoxError`] and a string. Use the constructors for finer control.
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
/// It does not implement [`std::error::Error`], so that every error type can convert into it. So a handler that returns
/// `anyhow::Result` or `eyre::Result` wraps it, with queue's cargo feature of that name:
/// `return Err(anyhow::anyhow!(JobError::dead("no such card")))`, `helper().map_err(anyhow::Error::msg)?`, or
/// `eyre::Report::msg` likewise. Simpler: return `Result<_, JobError>`. There `?` converts an `anyhow::Error`.
pub struct JobError(pub(crate) Failure);

/// `E`: the error, or `()` for a verdict without it.
#[derive(Debug)]
pub(crate) enum Failure<E = BoxError> {
    Retry {
        after: Option<Duration>,
        give_up_at: Option<DateTime<Utc>>,
        error: E,
    },
    Dead {
        error: E,
    },
    Cancel {
        reason: String,
    },
    Snooze {
        delay: Duration,
        reason: Option<String>,
        give_up_at: Option<DateTime<Utc>>,
    },
    /// The handler did not begin.
    Unbegun {
        error: E,
    },
}

impl<E> Failure<E> {
    /// The same verdict with another error.
    fn with<F>(&self, error: F) -> Failure<F> {
        match self {
            Self::Retry { after, give_up_at, .. } => Failure::Retry { after: *after, give_up_at: *give_up_at, error },
            // it comes from the library, and so from no handler
            Self::Unbegun { .. } => Failure::Retry { after: None, give_up_at: None, error },
            Self::Dead { .. } => Failure::Dead { error },
            Self::Cancel { reason } => Failure::Cancel { reason: reason.clone() },
            Self::Snooze { delay, reason, give_up_at } => {
                Failure::Snooze { delay: *delay, reason: reason.clone(), give_up_at: *give_up_at }
            }
        }
    }
}

impl JobError {
    /// The handler did not begin: that is no attempt.
    pub(crate) fn unbegun(error: impl Into<BoxError>) -> Self {
        Self(Failure::Unbegun { error: error.into() })
    }

    /// A failure like any other error: retried after the job's backoff while retries are left, then a dead letter.
    pub fn retry(error: impl Into<BoxError>) -> Self {
        Self(Failure::Retry { after: None, give_up_at: None, error: error.into() })
    }

    /// A failure that is retried after `delay` instead of the backoff, while retries are left.
    pub fn retry_after(delay: Duration, error: impl Into<BoxError>) -> Self {
        Self(Failure::Retry { after: Some(delay), give_up_at: None, error: error.into() })
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
        Self(Failure::Snooze { delay, reason: None, give_up_at: None })
    }

    /// Like [`snooze`](Self::snooze), and says why. [`JobDetail::attempts`](crate::admin::JobDetail::attempts) has the
    /// reason as the attempt's error.
    ///
    /// ```
    /// use std::time::Duration;
    /// use queue::{JobContext, JobError};
    ///
    /// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    ///
    /// /// The provider is asked again each minute, for a day.
    /// fn too_many_requests(ctx: &JobContext) -> JobError {
    ///     let minute = Duration::from_secs(60);
    ///     JobError::snooze_because(minute, "429 Too Many Requests").give_up_at(ctx.enqueued_at() + DAY)
    /// }
    /// # let error = too_many_requests(&JobContext::for_test());
    /// # assert_eq!(error.to_string(), "snoozed for 60s: 429 Too Many Requests");
    /// ```
    pub fn snooze_because(delay: Duration, reason: impl Into<String>) -> Self {
        Self(Failure::Snooze { delay, reason: Some(reason.into()), give_up_at: None })
    }

    /// Sets an end to a snooze or a retry. If the job would run again after `time`, it becomes a dead letter, whatever
    /// retries are left. A job that does not run again anyway (dead, cancelled) stays as it is.
    ///
    /// The database's clock decides. The next run is when this attempt was due, plus its run time and the delay. So
    /// after an attempt that began late, one more may follow.
    #[must_use]
    pub fn give_up_at(mut self, time: DateTime<Utc>) -> Self {
        if let Failure::Retry { give_up_at, .. } | Failure::Snooze { give_up_at, .. } = &mut self.0 {
            *give_up_at = Some(time);
        }
        self
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Failure::Retry { error, .. } | Failure::Dead { error } | Failure::Unbegun { error } => error.fmt(f),
            Failure::Cancel { reason } => write!(f, "cancelled: {reason}"),
            Failure::Snooze { delay, reason: None, .. } => write!(f, "snoozed for {delay:?}"),
            Failure::Snooze { delay, reason: Some(reason), .. } => write!(f, "snoozed for {delay:?}: {reason}"),
        }
    }
}

impl<E: Into<BoxError> + 'static> From<E> for JobError {
    fn from(error: E) -> Self {
        error.into_job_error()
    }
}

/// What a handler may return as its error: [`JobError`], or anything that converts into a boxed error (every
/// [`std::error::Error`], `String`, `&str`, `anyhow::Error`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a job",
    label = "not an error that a worker can record",
    note = "implement `std::error::Error` for it, or return `Result<_, queue::JobError>` and use `?`",
    note = "a boxed error has to be `Box<dyn std::error::Error + Send + Sync>`"
)]
pub trait IntoJobError {
    /// Converts the error into the outcome of the attempt.
    fn into_job_error(self) -> JobError;
}

#[diagnostic::do_not_recommend]
impl IntoJobError for JobError {
    fn into_job_error(self) -> JobError {
        self
    }
}

/// A failure that is retried. With the cargo features `anyhow` and `eyre`, a [`JobError`] inside `anyhow::Error` or
/// `eyre::Report` decides instead, also below added context.
#[diagnostic::do_not_recommend]
impl<E: Into<BoxError> + 'static> IntoJobError for E {
    fn into_job_error(self) -> JobError {
        match inside(&self) {
            Some(verdict) => JobError(verdict.with(self.into())),
            None => JobError::retry(self),
        }
    }
}

/// The verdict of a [`JobError`] inside an error of `anyhow` or `eyre`.
fn inside(error: &dyn Any) -> Option<Failure<()>> {
    let found: Option<&JobError> = None;
    #[cfg(feature = "anyhow")]
    let found = found.or_else(|| error.downcast_ref::<anyhow::Error>()?.downcast_ref());
    #[cfg(feature = "eyre")]
    let found = found.or_else(|| error.downcast_ref::<eyre::Report>()?.downcast_ref());
    let _ = error;
    Some(found?.0.with(()))
}

/// How long a failed job waits before its next attempt.
///
/// ```
/// use std::time::Duration;
/// use queue::Backoff;
///
/// let fixed = Backoff::fixed(Duration::from_secs(5));
/// assert_eq!(fixed.delay(1), Duration::from_secs(5));
/// let exponential = Backoff::exponential(Duration::from_secs(2), Duration::from_secs(600));
/// assert!(exponential.delay(3) <= Duration::from_secs(8)); // full jitter: between zero and 2 s * 2^2
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff(Curve);

#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(unpredictable_function_pointer_comparisons, reason = "two copies of one function may differ, as documented")]
enum Curve {
    Exponential { base: Duration, max: Duration },
    Linear { step: Duration, max: Duration },
    Fixed { delay: Duration },
    Custom { delay: fn(u32) -> Duration },
}

impl Backoff {
    /// The longest delay that any backoff returns: 365 days.
    pub const LIMIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    /// Exponential from 2 s with full jitter, at most one hour.
    pub const DEFAULT: Self = Self::exponential(Duration::from_secs(2), Duration::from_secs(3600));

    /// After failure `n`, a random delay between zero and `base * 2^(n-1)`, at most `max`. This is "full jitter": jobs
    /// that failed together do not come back together.
    pub const fn exponential(base: Duration, max: Duration) -> Self {
        Self(Curve::Exponential { base, max })
    }

    /// After failure `n`, `step * n`, at most `max`.
    pub const fn linear(step: Duration, max: Duration) -> Self {
        Self(Curve::Linear { step, max })
    }

    /// Always `delay`.
    pub const fn fixed(delay: Duration) -> Self {
        Self(Curve::Fixed { delay })
    }

    /// The delay that `delay` returns for the number of the attempt that failed (1 is the first). If it panics, there
    /// is no delay.
    pub const fn custom(delay: fn(u32) -> Duration) -> Self {
        Self(Curve::Custom { delay })
    }

    /// The delay after attempt `attempt` failed (1 is the first), at most [`Backoff::LIMIT`].
    pub fn delay(&self, attempt: u32) -> Duration {
        let ceiling = self.ceiling(attempt);
        match self.0 {
            Curve::Exponential { .. } => {
                let micros = u64::try_from(ceiling.as_micros()).unwrap_or(u64::MAX - 1);
                Duration::from_micros(fastrand::u64(0..=micros))
            }
            _ => ceiling,
        }
    }

    /// The longest delay that [`delay`](Self::delay) can give after `attempt`.
    pub fn ceiling(&self, attempt: u32) -> Duration {
        let attempt = attempt.max(1);
        let delay = match self.0 {
            Curve::Exponential { base, max } => {
                let factor = 1u32.checked_shl(attempt - 1).unwrap_or(u32::MAX);
                base.saturating_mul(factor).min(max)
            }
            Curve::Linear { step, max } => step.saturating_mul(attempt).min(max),
            Curve::Fixed { delay } => delay,
            Curve::Custom { delay } => std::panic::catch_unwind(|| delay(attempt)).unwrap_or_default(),
        };
        delay.min(Self::LIMIT)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod backoff_tests {
    use proptest::prelude::*;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn any_duration() -> impl Strategy<Value = Duration> {
        (any::<u64>(), 0..1_000_000_000u32, 0..64u32)
            .prop_map(|(secs, nanos, shift)| Duration::new(secs >> shift, nanos))
    }

    proptest! {
        #[test]
        fn no_delay_is_above_its_ceiling(base in any_duration(), max in any_duration(), attempt in any::<u32>()) {
            let all = [Backoff::exponential(base, max), Backoff::linear(base, max), Backoff::fixed(base)];
            for backoff in all {
                let (delay, ceiling) = (backoff.delay(attempt), backoff.ceiling(attempt));
                prop_assert!(delay <= ceiling && ceiling <= Backoff::LIMIT, "{:?} {:?} {:?}", backoff, delay, ceiling);
                prop_assert!(ceiling <= backoff.ceiling(attempt.saturating_add(1)), "it grows: {:?}", backoff);
                // the database can add it to the current time
                prop_assert!(crate::limits::micros(delay) <= crate::limits::micros(Duration::MAX));
            }
            for backoff in &all[..2] {
                prop_assert!(backoff.ceiling(attempt) <= max);
            }
        }
    }

    #[test]
    fn exponential_doubles_to_its_cap() {
        let backoff = Backoff::exponential(2 * S, 60 * S);
        let ceilings: Vec<_> = (1..8).map(|n| backoff.ceiling(n).as_secs()).collect();
        assert_eq!(ceilings, [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.ceiling(u32::MAX), 60 * S);
    }

    #[test]
    fn full_jitter_spreads_between_zero_and_the_ceiling() {
        let backoff = Backoff::exponential(8 * S, 60 * S);
        let delays: Vec<_> = (0..1000).map(|_| backoff.delay(1)).collect();
        assert!(delays.iter().all(|d| *d <= 8 * S));
        assert!(delays.iter().any(|d| *d < 2 * S) && delays.iter().any(|d| *d > 6 * S));
    }

    #[test]
    fn linear_fixed_and_custom() {
        let linear = Backoff::linear(10 * S, 25 * S);
        assert_eq!([1, 2, 3].map(|n| linear.delay(n)), [10 * S, 20 * S, 25 * S]);
        assert_eq!(Backoff::fixed(3 * S).delay(9), 3 * S);
        assert_eq!(Backoff::custom(|n| n * S).delay(7), 7 * S);
        assert_eq!(Backoff::custom(|_| panic!("no")).delay(1), Duration::ZERO);
        assert_eq!(Backoff::fixed(Duration::MAX).delay(1), Backoff::LIMIT);
    }
}

#[cfg(all(test, feature = "anyhow", feature = "eyre"))]
mod tests {
    use super::*;

    fn text(error: impl IntoJobError) -> String {
        format!("{:?}", error.into_job_error())
    }

    #[test]
    fn a_verdict_inside_anyhow_or_eyre_counts() {
        let dead = || JobError::dead("no such card");
        assert!(text(anyhow::anyhow!(dead())).starts_with("Dead"));
        fn helper() -> Result<(), JobError> {
            Err(JobError::dead("no such card"))
        }
        let with_anyhow = || -> anyhow::Result<()> { helper().map_err(anyhow::Error::msg) };
        let with_eyre = || -> eyre::Result<()> { helper().map_err(eyre::Report::msg) };
        assert!(text(with_anyhow().unwrap_err()).starts_with("Dead"));
        assert!(text(with_eyre().unwrap_err()).starts_with("Dead"));
        assert!(text(anyhow::anyhow!(dead()).context("charging")).starts_with("Dead"));
        assert!(text(eyre::eyre!(dead())).starts_with("Dead"));
        assert!(text(eyre::Report::msg(dead()).wrap_err("charging")).starts_with("Dead"));
        let later = JobError::retry_after(Duration::from_secs(90), "rate limited");
        assert!(text(anyhow::anyhow!(later)).starts_with("Retry { after: Some(90s)"));
        assert_eq!(
            text(anyhow::anyhow!(JobError::cancel("no longer needed"))),
            text(JobError::cancel("no longer needed"))
        );
        let snooze = || JobError::snooze_because(Duration::ZERO, "429").give_up_at(DateTime::UNIX_EPOCH);
        assert_eq!(text(anyhow::anyhow!(snooze())), text(snooze()));
        let retry = || JobError::retry("down").give_up_at(DateTime::UNIX_EPOCH);
        assert!(text(anyhow::anyhow!(retry())).contains("give_up_at: Some(1970-01-01"));
        assert!(text(anyhow::anyhow!("broken")).starts_with("Retry { after: None"));
    }

    #[test]
    fn the_question_mark_converts_every_error() {
        fn fails(how: u8) -> Result<(), JobError> {
            match how {
                0 => Err(anyhow::anyhow!("a"))?,
                1 => Err(eyre::eyre!("b"))?,
                2 => Err("c")?,
                3 => Err(String::from("d"))?,
                4 => Err(BoxError::from("e"))?,
                5 => Err(anyhow::anyhow!(JobError::dead("f")))?,
                _ => drop("x".parse::<u8>()?),
            }
            Ok(())
        }
        let texts: Vec<_> = (0..7).map(|how| fails(how).unwrap_err().to_string()).collect();
        assert_eq!(texts, ["a", "b", "c", "d", "e", "f", "invalid digit found in string"]);
        assert!(format!("{:?}", fails(5).unwrap_err()).starts_with("Dead"));
    }
}
