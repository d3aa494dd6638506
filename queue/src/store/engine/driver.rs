//! How to run a statement on any engine.
//!
//! Values travel as [`Bind`]s and rows are read as [`Cells`], so that no trait bound of sqlx appears anywhere else.

use std::future::Future;

use sqlx::{Database, Error, SqlSafeStr as _, SqlStr};

use crate::limits::ARGS_AT_CLAIM_BYTES;
use crate::store::values::WorkerId;

/// A value to bind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bind<'a> {
    Int(Option<i64>),
    /// An array; a JSON text on engines without arrays.
    Ints(&'a [i64]),
    Text(Option<&'a str>),
}

/// A list as one JSON text.
pub(crate) fn json<T: serde::Serialize>(list: &[T]) -> String {
    serde_json::to_string(list).expect("plain structs of numbers and text serialize")
}

/// For statements that claim: arguments of more bytes are fetched later.
pub(crate) const MOST_ARGS: Bind<'static> = Bind::Int(Some(ARGS_AT_CLAIM_BYTES as i64));

impl From<i64> for Bind<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Bind<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a [i64]> for Bind<'a> {
    fn from(list: &'a [i64]) -> Self {
        Self::Ints(list)
    }
}

impl<'a> From<&'a str> for Bind<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Bind<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value)
    }
}

/// A batch as its statement reads it: the values behind the worker's id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) numbers: Vec<Vec<i64>>,
    pub(crate) text: Option<String>,
}

impl From<String> for List {
    fn from(text: String) -> Self {
        Self { numbers: Vec::new(), text: Some(text) }
    }
}

impl List {
    pub(crate) fn behind(&self, worker: WorkerId) -> Vec<Bind<'_>> {
        let numbers = self.numbers.iter().map(|list| list.as_slice().into());
        std::iter::once(worker.into()).chain(numbers).chain([self.text.as_deref().into()]).collect()
    }
}

/// A statement that was put together from our own texts, with marks for its values. No input is in it.
///
/// This is the only place that turns a text into a statement at run time: sqlx takes no other text, and Clippy refuses
/// the type elsewhere.
#[expect(clippy::disallowed_methods, reason = "see above")]
pub(crate) fn assembled(text: String) -> SqlStr {
    sqlx::AssertSqlSafe(text).into_sql_str()
}

/// Reads a row by position. Whole numbers of any width (and booleans, and PostgreSQL's `timestamptz` as microseconds
/// since 1970) are `int`s; text and JSON are `text`.
pub(crate) trait Cells: Send + Unpin {
    fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error>;

    fn maybe_text(&self, column: usize) -> Result<Option<String>, Error>;

    fn int(&self, column: usize) -> Result<i64, Error> {
        self.maybe_int(column)?.ok_or_else(|| unexpected_null(column))
    }

    fn text(&self, column: usize) -> Result<String, Error> {
        self.maybe_text(column)?.ok_or_else(|| unexpected_null(column))
    }
}

fn unexpected_null(column: usize) -> Error {
    Error::ColumnDecode { index: column.to_string(), source: "the column is NULL".into() }
}

/// How an engine's driver runs statements.
pub(crate) trait Driver: Database<Row: Cells, Arguments: Clone + Sync> {
    /// The values in the order in which `sql` names them, and the text as the driver needs it.
    fn prepare(sql: &'static str, binds: &[Bind<'_>]) -> Result<(SqlStr, Self::Arguments), Error>;
    /// Runs a statement and returns its rows.
    fn fetch(
        conn: &mut Self::Connection,
        sql: SqlStr,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<Vec<Self::Row>, Error>> + Send;
    /// The same for a statement without values. On MariaDB it is not prepared: one that is run again gets another plan.
    fn fetch_anew(
        conn: &mut Self::Connection,
        sql: &'static str,
    ) -> impl Future<Output = Result<Vec<Self::Row>, Error>> + Send {
        async move {
            let (sql, arguments) = Self::prepare(sql, &[])?;
            Self::fetch(conn, sql, arguments).await
        }
    }
    /// Runs a statement and returns how many rows it touched.
    fn execute(
        conn: &mut Self::Connection,
        sql: SqlStr,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<u64, Error>> + Send;
    /// Inserts one row and returns its id.
    fn insert_row(
        conn: &mut Self::Connection,
        sql: SqlStr,
        arguments: Self::Arguments,
    ) -> impl Future<Output = Result<i64, Error>> + Send;
    /// Runs text without values: session settings, migrations.
    fn raw(conn: &mut Self::Connection, sql: &'static str) -> impl Future<Output = Result<(), Error>> + Send;
}

/// Runs a statement and returns its rows.
pub(crate) async fn rows<DB: Driver>(
    conn: &mut DB::Connection,
    sql: &'static str,
    binds: &[Bind<'_>],
) -> Result<Vec<DB::Row>, Error> {
    let (sql, arguments) = DB::prepare(sql, binds)?;
    DB::fetch(conn, sql, arguments).await
}

/// Runs a statement and returns its first column.
pub(crate) async fn ids<DB: Driver>(
    conn: &mut DB::Connection,
    sql: &'static str,
    binds: &[Bind<'_>],
) -> Result<Vec<i64>, Error> {
    read::<DB, _>(conn, sql, binds, |row| row.int(0)).await
}

/// Runs a statement and reads its rows.
pub(crate) async fn read<DB: Driver, T>(
    conn: &mut DB::Connection,
    sql: &'static str,
    binds: &[Bind<'_>],
    read: impl Fn(&DB::Row) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    rows::<DB>(conn, sql, binds).await?.iter().map(read).collect()
}

/// Runs a statement and returns how many rows it touched.
pub(crate) async fn execute<DB: Driver>(
    conn: &mut DB::Connection,
    sql: &'static str,
    binds: &[Bind<'_>],
) -> Result<u64, Error> {
    let (sql, arguments) = DB::prepare(sql, binds)?;
    DB::execute(conn, sql, arguments).await
}

/// Implements the part of [`Driver`] that is the same text for every driver but needs its concrete types.
macro_rules! driver {
    () => {
        async fn fetch(
            conn: &mut Self::Connection,
            sql: sqlx::SqlStr,
            arguments: Self::Arguments,
        ) -> Result<Vec<Self::Row>, sqlx::Error> {
            sqlx::query_with(sql, arguments).fetch_all(conn).await
        }

        async fn execute(
            conn: &mut Self::Connection,
            sql: sqlx::SqlStr,
            arguments: Self::Arguments,
        ) -> Result<u64, sqlx::Error> {
            let done = sqlx::query_with(sql, arguments).execute(conn).await?;
            Ok(done.rows_affected())
        }

        async fn raw(conn: &mut Self::Connection, sql: &'static str) -> Result<(), sqlx::Error> {
            sqlx::raw_sql(sql).execute(conn).await.map(drop)
        }
    };
}

pub(crate) use driver;

/// Adds values to a statement's arguments in the given order. `$ints` converts lists of numbers.
macro_rules! add_binds {
    ($db:ty, $binds:expr, $ints:expr) => {{
        let mut arguments = <$db as sqlx::Database>::Arguments::default();
        for bind in $binds {
            match *bind {
                $crate::store::engine::driver::Bind::Int(value) => sqlx::Arguments::add(&mut arguments, value),
                $crate::store::engine::driver::Bind::Ints(list) => sqlx::Arguments::add(&mut arguments, $ints(list)),
                $crate::store::engine::driver::Bind::Text(value) => sqlx::Arguments::add(&mut arguments, value),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        arguments
    }};
}

pub(crate) use add_binds;

/// Replaces `$1` … with `?`, and returns which value belongs to each. Drops the comment at the head, which may name
/// values, too.
pub(crate) fn question_marks(sql: &str) -> (String, Vec<usize>) {
    let mut text = String::with_capacity(sql.len());
    let mut places = Vec::new();
    let mut rest = sql;
    while rest.starts_with("--") {
        rest = rest.split_once('\n').map_or("", |(_comment, rest)| rest);
    }
    while let Some(at) = rest.find('$') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        match rest[at + 1..at + 1 + digits].parse::<usize>() {
            Ok(place) if place > 0 => {
                text.push_str(&rest[..at]);
                text.push('?');
                places.push(place - 1);
            }
            _ => text.push_str(&rest[..=at]), // a JSON path
        }
        rest = &rest[at + 1 + digits..];
    }
    text.push_str(rest);
    (text, places)
}

/// `Connecting::is_refusal` by SQLSTATE. These classes mean that the server is away: connection exception, read-only
/// transaction, disk full, too many connections, operator intervention, system error.
pub(crate) fn refused_by_sqlstate(error: &Error) -> bool {
    const AWAY: [&str; 6] = ["08", "25006", "53100", "53300", "57P", "58"];
    let Error::Database(error) = error else { return false };
    error.code().is_none_or(|code| !AWAY.iter().any(|class| code.starts_with(class)))
}

#[cfg(all(test, any(feature = "mysql", feature = "sqlite")))]
mod tests {
    use super::*;

    #[test]
    fn places_become_question_marks() {
        let (text, places) =
            question_marks("-- of $1\n-- and $2\na = $2 AND b = $1 AND c = '$.id' AND d = $2 AND e = '$[*]'");
        assert_eq!(text, "a = ? AND b = ? AND c = '$.id' AND d = ? AND e = '$[*]'");
        assert_eq!(places, [1, 0, 1]);
    }
}
