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
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
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

/// To four digits behind the point, or none if it is large: the rest is noise.
pub(crate) fn round(value: f64) -> f64 {
    if value.abs() >= 1000.0 { value.round() } else { (value * 1e4).round() / 1e4 }
}

/// A number for people.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else if value.abs() < 0.1 {
        format!("{value:.3}")
    } else if value.abs() < 100.0 {
        format!("{value:.2}")
    } else {
        thousands(value)
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
