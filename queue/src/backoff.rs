//! How long to wait after a failure. Pure: takes the number of the attempt, returns the delay.

use std::time::Duration;

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
mod tests {
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
