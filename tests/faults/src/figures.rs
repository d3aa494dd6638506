//! Figures, printed and kept for the table in `docs/reliability.md`.

use std::fmt;

/// The median, the 99th percentile and the maximum, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    count: usize,
    p50: f64,
    p99: f64,
    max: f64,
}

impl Spread {
    /// Takes times in microseconds. `None` if there are none.
    pub fn of(mut micros: Vec<i64>) -> Option<Spread> {
        micros.sort_unstable();
        let last = micros.len().checked_sub(1)?;
        let at = |share: f64| micros[(last as f64 * share).ceil() as usize] as f64 / 1e6;
        Some(Spread { count: micros.len(), p50: at(0.5), p99: at(0.99), max: at(1.0) })
    }

    /// The same figures for short times.
    pub fn in_millis(&self) -> String {
        let Spread { count, .. } = self;
        let [p50, p99, max] = [self.p50, self.p99, self.max].map(|seconds| seconds * 1e3);
        format!("p50 {p50:.0} ms, p99 {p99:.0} ms, max {max:.0} ms ({count})")
    }

    /// No value is above this many seconds.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// 99 of 100 values are at most this many seconds.
    pub fn p99(&self) -> f64 {
        self.p99
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { count, p50, p99, max } = self;
        write!(f, "p50 {p50:.2} s, p99 {p99:.2} s, max {max:.2} s ({count})")
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn a_spread_takes_the_value_above() {
        let spread = Spread::of((1..=100).map(|n| n * 10_000).collect()).expect("values");
        assert_eq!(spread.to_string(), "p50 0.51 s, p99 1.00 s, max 1.00 s (100)");
        assert_eq!(spread.in_millis(), "p50 510 ms, p99 1000 ms, max 1000 ms (100)");
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
