//! Statements of MySQL and MariaDB: what several of them share, runs of ids, and statements that travel together.

use sqlx::mysql::MySqlRow;
use sqlx::{Error, MySql, MySqlConnection, SqlStr};

use crate::limits::YEAR_1;
use crate::store::engine::driver::{Bind, Driver, add_binds, assembled, json, question_marks};
use crate::store::values::Place;

/// Around each part of a union, which has an order, a limit and locks of its own.
pub(super) const PARTS: [&str; 2] = ["(", ")"];

/// Before every time that can be stored.
pub(super) const FIRST: Place = (YEAR_1, -1);

pub(super) async fn fetch(conn: &mut MySqlConnection, sql: String, binds: &[Bind<'_>]) -> Result<Vec<MySqlRow>, Error> {
    MySql::fetch(conn, assembled(sql), add_binds!(MySql, binds, json)).await
}

/// A statement with `?, ?, ?` for this many values.
pub(super) fn with_places(sql: &str, count: usize) -> String {
    sql.replace("/* places */", &vec!["?"; count].join(", "))
}

/// A statement has places for this many runs.
const MOST_RUNS: usize = 8;
/// Fewer ids stay a list. In a table of a handful of rows, a range becomes a full scan, which meets rows that others
/// have locked.
const LEAST: usize = 32;

/// Ids as runs of consecutive numbers: the first and last id of each. If there are fewer runs, the last one is
/// repeated.
///
/// MySQL and MariaDB remove listed rows in two passes, and find each of them twice. They remove the rows of a range in
/// one pass, for half the work. Jobs that were claimed together end together and expire together, so their ids form few
/// runs.
pub(super) struct Runs([(i64, i64); MOST_RUNS]);

impl Runs {
    /// `numbers` are sorted and distinct. None: they are too few, or too many runs for one statement.
    pub(super) fn of(numbers: &[i64]) -> Option<Self> {
        if numbers.len() < LEAST {
            return None;
        }
        let mut found = numbers.chunk_by(|one, next| *next == one.saturating_add(1));
        let mut run = |or| found.next().map(|run| (run[0], run[run.len() - 1])).or(or);
        let mut last = run(None)?;
        let mut runs = [last; MOST_RUNS];
        for place in &mut runs[1..] {
            last = run(Some(last))?;
            *place = last;
        }
        found.next().is_none().then_some(Self(runs))
    }

    /// As binds of a statement, behind its others.
    pub(super) fn behind<'a>(&self, others: &[Bind<'a>]) -> Vec<Bind<'a>> {
        let ends = self.0.iter().flat_map(|(first, last)| [*first, *last]).map(Bind::from);
        others.iter().copied().chain(ends).collect()
    }
}

/// A value that is written into the text of statements that travel together, in one round trip: a number, or a JSON
/// list of numbers. It cannot be made from anything else. A statement with bound values travels alone.
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

    fn runs(numbers: &[i64]) -> Option<Vec<(i64, i64)>> {
        Runs::of(numbers).map(|runs| runs.0.into())
    }

    #[test]
    fn consecutive_numbers_are_one_run() {
        let all = |first, last| vec![(first, last); MOST_RUNS];
        assert_eq!(runs(&(-1..40).collect::<Vec<_>>()), Some(all(-1, 39)));
        assert_eq!(runs(&(i64::MAX - 40..=i64::MAX).collect::<Vec<_>>()), Some(all(i64::MAX - 40, i64::MAX)));
        let two: Vec<_> = (0..40).chain([50]).collect();
        assert_eq!(runs(&two), Some([vec![(0, 39)], vec![(50, 50); MOST_RUNS - 1]].concat()));
        assert_eq!(runs(&two[..LEAST - 1]), None, "too few");
    }

    #[test]
    fn more_than_there_are_places_for_are_none() {
        let mut numbers: Vec<_> = (0..MOST_RUNS as i64 * 10).filter(|n| n % 10 < 5).collect();
        let expected: Vec<_> = (0..MOST_RUNS as i64).map(|n| (n * 10, n * 10 + 4)).collect();
        assert_eq!(runs(&numbers), Some(expected));
        numbers.push(1_000);
        assert_eq!(runs(&numbers), None);
    }

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
