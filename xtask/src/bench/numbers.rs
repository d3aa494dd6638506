//! Values, and how they are shown.

use serde::{Deserialize, Serialize};

/// Several rounds of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Nothing of nothing.
    pub(crate) fn of(values: &[f64]) -> Option<Spread> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        // the same one twice, if their number is odd
        let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
        Some(Spread { median: round(median), least: round(least), most: round(most) })
    }

    pub(crate) fn show(spread: Option<&Spread>) -> String {
        match spread {
            None => "–".into(),
            Some(it) if it.least == it.most => short(it.median),
            Some(it) => format!("{} ({}–{})", short(it.median), short(it.least), short(it.most)),
        }
    }
}

/// How often the second goes into the first.
pub(crate) fn ratio(one: Option<Spread>, other: Option<Spread>) -> Option<f64> {
    let (one, other) = (one?, other.filter(|it| it.median > 0.0)?);
    Some(round(one.median / other.median))
}

/// To four digits behind the point, or none if it is large: the rest is noise.
fn round(value: f64) -> f64 {
    if value.abs() >= 1000.0 { value.round() } else { (value * 1e4).round() / 1e4 }
}

/// A number for people.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        ..0.1 => format!("{value:.3}"),
        ..100.0 => format!("{value:.2}"),
        _ => thousands(value),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::{Spread, short};

    #[test]
    fn numbers_are_short() {
        assert_eq!([short(0.0123), short(3.456), short(1234567.8)], ["0.012", "3.46", "1,234,568"]);
        assert_eq!(Spread::show(Spread::of(&[3.0, 1.0]).as_ref()), "2.00 (1.00–3.00)");
        assert_eq!(Spread::show(Spread::of(&[]).as_ref()), "–");
    }
}
