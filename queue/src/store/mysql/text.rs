//! MySQL and MariaDB statements that travel together, as one text in one round trip.
//!
//! A statement with bound values travels alone, so these values are written into the text. They can only be numbers:
//! [`Digits`] cannot be made from anything else.

use sqlx::SqlStr;

use crate::store::engine::driver::{assembled, question_marks};

/// A value that is written into a text: a number, or a JSON list of numbers.
pub(crate) struct Digits(String);

impl From<i64> for Digits {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl From<&[i64]> for Digits {
    fn from(list: &[i64]) -> Self {
        Self(format!("'{list:?}'"))
    }
}

impl From<&[[i64; 2]]> for Digits {
    fn from(list: &[[i64; 2]]) -> Self {
        Self(format!("'{list:?}'"))
    }
}

/// Joins statements, each with its own values, into one text.
pub(crate) fn one_text(statements: &[(&'static str, &[Digits])]) -> SqlStr {
    let mut text = String::new();
    for (statement, values) in statements {
        let (marked, places) = question_marks(statement);
        let mut places = places.iter();
        for part in marked.split_inclusive('?') {
            match part.strip_suffix('?').zip(places.next()) {
                Some((part, place)) => text.extend([part, &values[*place].0]),
                None => text.push_str(part),
            }
        }
        text.push_str("; ");
    }
    assembled(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_where_they_are_named() {
        let pairs: [[i64; 2]; 2] = [[1, 20], [i64::MIN, 0]];
        let values = [7.into(), pairs[..].into(), [3_i64, -4][..].into()];
        let text = one_text(&[
            ("BEGIN", &[]),
            ("-- of $1\nSELECT $2, '$[*]', $1\n", &values),
            ("UPDATE t SET a = $3, b = $1", &values),
        ]);
        assert_eq!(
            text.as_str(),
            "BEGIN; SELECT '[[1, 20], [-9223372036854775808, 0]]', '$[*]', 7\n; UPDATE t SET a = '[3, -4]', b = 7; "
        );
    }
}
