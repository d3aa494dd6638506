//! Rows as a broken or hostile producer may write them by SQL, of every sort that ends somewhere else.
//!
//! The worker must know the kinds `note` (`label`: text), `spreads` (`generations`: a 32-bit number) and `play`
//! (`label`, and its own list of `steps`).

use fastrand::Rng;

use crate::Engine;

/// Where a row is in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Odd, and in order.
    Completed,
    /// Its arguments do not decode.
    Dead,
    /// Of a kind that nobody knows.
    Ready,
    /// Its time has not come.
    Scheduled,
    /// Not taken by the database.
    Refused,
}

impl End {
    /// Those that the database takes: by far the most.
    pub const TAKEN: [Self; 4] = [Self::Completed, Self::Dead, Self::Ready, Self::Scheduled];

    /// As `queue_all` calls it.
    pub fn state(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Ready => "ready",
            Self::Scheduled => "scheduled",
            Self::Refused => "refused",
        }
    }
}

/// A row: SQL of each of its columns.
#[derive(Debug)]
pub struct Row {
    kind: String,
    args: String,
    queue: String,
    priority: String,
    run_at: String,
    max_retries: String,
    attempt: String,
    fence: String,
}

/// The columns that [`Row::values`] gives.
pub const COLUMNS: &str = "kind, args, queue, priority, run_at, max_retries, attempt, fence";

impl Row {
    /// As a list in parentheses.
    pub fn values(&self) -> String {
        let Self { kind, args, queue, priority, run_at, max_retries, attempt, fence } = self;
        format!("({kind}, {args}, {queue}, {priority}, {run_at}, {max_retries}, {attempt}, {fence})")
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A JSON text as an SQL literal, whose backslashes MySQL and MariaDB would take for their own.
fn json(engine: Engine, text: &str) -> String {
    match engine {
        Engine::MariaDb | Engine::MySql => quoted(&text.replace('\\', "\\\\")),
        _ => quoted(text),
    }
}

/// Letters of every length in UTF-8, without those that no engine takes in a name.
fn word(rng: &mut Rng, most: usize) -> String {
    const LETTERS: [char; 14] = ['a', 'Z', '0', '_', '-', '.', '%', '\'', '"', 'ä', '≠', '😀', '𝔘', '\u{202e}'];
    (0..rng.usize(1..=most)).map(|_| LETTERS[rng.usize(..LETTERS.len())]).collect()
}

/// Makes rows.
#[derive(Debug)]
pub struct Rows {
    rng: Rng,
    engine: Engine,
}

impl Rows {
    /// For a database of this engine; the same rows for the same seed.
    pub fn new(engine: Engine, seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), engine }
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.usize(..of.len())]
    }

    fn past(&mut self) -> String {
        let times: &[&str] = match self.engine {
            Engine::Postgres => &["now()", "'0001-01-01 00:00Z'", "'1969-12-31'", "now() - interval '1 day'"],
            Engine::MariaDb | Engine::MySql => &["UTC_TIMESTAMP(6)", "'0001-01-01'", "'1969-12-31'", "'1999-01-01'"],
            Engine::Sqlite => &["0", "-1", "-9223372036854775808", "946684800000"],
        };
        self.pick(times).to_owned()
    }

    fn future(&mut self) -> String {
        let times: &[&str] = match self.engine {
            Engine::Postgres => &["'9999-12-31'", "'294276-12-31'", "now() + interval '1 day'"],
            Engine::MariaDb | Engine::MySql => &["'9999-12-31 23:59:59.999999'", "'2999-01-01'"],
            Engine::Sqlite => &["9223372036854775807", "253402300799999", "32503680000000"],
        };
        self.pick(times).to_owned()
    }

    /// Nothing wrong with it but its numbers: absurd, and still in range.
    fn odd(&mut self) -> Row {
        let queue = format!("queue {} {}", self.rng.u8(..8), ["", "😀", "\n", "\t\u{7f}"][self.rng.usize(..4)]);
        let queue = queue.trim_end().to_owned();
        let priority = self.pick(&["0", "0", "0", "32767", "-32768", "1", "-1"]).to_owned();
        let max_retries = self.pick(&["NULL", "0", "2147483647"]).to_owned();
        let attempt = self.pick(&["0", "0", "0", "0", "1000000000"]).to_owned();
        let fence = self.pick(&["0", "0", "0", "0", "1000000000"]).to_owned();
        let label = ["odd", "😀😀", "\\u0000", "\\ud83d\\ude00", "\\\"\\\\"][self.rng.usize(..5)];
        let args = json(self.engine, &format!(r#"{{"label":"{label}"}}"#));
        Row {
            kind: "'note'".into(),
            args,
            queue: quoted(&queue),
            priority,
            run_at: self.past(),
            max_retries,
            attempt,
            fence,
        }
    }

    /// Arguments that are JSON and do not fit.
    fn misfit(&mut self) -> (&'static str, String) {
        // MySQL takes no number that its doubles cannot hold
        let numbers = ["99999999999999999999999999", "4294967296", "-1", "1.5", "1e400", "-1e999"];
        let number = numbers[self.rng.usize(..if self.engine == Engine::MySql { 4 } else { 6 })];
        let surrogate = if matches!(self.engine, Engine::MariaDb | Engine::MySql) { "{}" } else { r#""\ud800""# };
        let (kind, text): (_, String) = match self.rng.u8(..12) {
            0 => ("note", "null".into()),
            1 => ("note", "[]".into()),
            2 => ("note", "{}".into()),
            3 => ("note", r#""text""#.into()),
            4 => ("note", number.into()),
            5 => ("note", format!(r#"{{"label":{number}}}"#)),
            6 => ("spreads", format!(r#"{{"generations":{number}}}"#)),
            7 => ("note", r#"{"label":"a","label":"b"}"#.into()),
            8 => ("note", format!(r#"{{"label":{surrogate}}}"#)),
            9 => ("note", format!(r#"{{"label":{}{}}}"#, "[".repeat(25), "]".repeat(25))),
            10 => ("play", format!(r#"{{"label":"a","steps":[{{"Return":{number}}}, {{"None":1}}]}}"#)),
            _ => ("note", format!(r#"{{"{}":{}}}"#, word(&mut self.rng, 5).replace('"', ""), self.rng.i64(..))),
        };
        (kind, json(self.engine, &text))
    }

    /// One that ends there.
    pub fn row(&mut self, end: End) -> Row {
        let mut row = self.odd();
        match end {
            End::Completed => {}
            End::Dead => {
                let (kind, args) = self.misfit();
                (row.kind, row.args) = (quoted(kind), args);
                if self.rng.u16(..500) == 0 {
                    row.args = self.large();
                } else if self.engine == Engine::Postgres && self.rng.u8(..50) == 0 {
                    row.args = format!("(repeat('[', {0}) || repeat(']', {0}))::json", self.rng.usize(128..5000));
                }
            }
            End::Ready => row.kind = quoted(&format!("{}!", word(&mut self.rng, 20))),
            End::Scheduled => row.run_at = self.future(),
            End::Refused => self.spoil(&mut row),
        }
        row
    }

    /// Over the limit, made by the server.
    fn large(&mut self) -> String {
        let size = self.rng.usize(1_100_000..1_500_000);
        match self.engine {
            Engine::Postgres => format!("('\"' || repeat('x', {size}) || '\"')::json"),
            Engine::MariaDb | Engine::MySql => format!("CONCAT('\"', REPEAT('x', {size}), '\"')"),
            Engine::Sqlite => format!("'\"' || hex(zeroblob({})) || '\"'", size / 2),
        }
    }

    /// What no engine takes.
    fn spoil(&mut self, row: &mut Row) {
        match self.rng.u8(..11) {
            0 => row.args = "'{\"label\":'".into(),
            1 => row.args = "'not JSON'".into(),
            2 => row.args = "''".into(),
            3 => row.args = "NULL".into(),
            4 => row.kind = "NULL".into(),
            5 => row.kind = "''".into(),
            6 => row.kind = quoted(&"k".repeat(129)),
            7 => row.queue = "'ends with a space '".into(),
            8 => row.priority = "40000".into(),
            9 => row.max_retries = "-1".into(),
            _ => row.run_at = "NULL".into(),
        }
    }
}
