//! Statements by name, scripts (the statements of one transaction), and statements for many lanes.

pub(crate) mod read;
pub(crate) mod topics;

use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::StrDeserializer;

use crate::store::engine::driver::{Bind, Driver, execute, ids, question_marks};
use crate::store::values::Ask;

/// The statements of one transaction. Each begins with a head, `-- step: WORD`, which says when it runs. A text without
/// heads is one statement. All statements get the same values, unless their word says otherwise. The rows that they
/// return are ids: the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script(&'static str);

/// When a step of a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum When {
    /// `all`: always, for all jobs of the batch.
    All,
    /// `recorded`: if the attempt of some job goes into `queue_attempts`.
    Recorded,
    /// `forgetting`: if some job has so many attempts that do not count that old ones are deleted now.
    Forgetting,
    /// `each`: always. It touches one row for each accepted job: if it touches all, their ids are the answer.
    Each,
    /// `refused`: if some jobs were not accepted. It reads which were.
    Refused,
    /// `runs`: if none was refused and the ids form few runs of numbers (`Dialect::runs`). These
    /// are bound behind the other values.
    Runs,
    /// `scattered`: otherwise.
    Scattered,
    /// `find`: always. It returns the ids of the jobs for the next steps.
    Find,
    /// `found`: if the last `find` returned ids. Its value is a list of them.
    Found,
    /// `claims`: if a heartbeat reports claims.
    Claims,
    /// `sure`: in place of the next step, while nobody has looked whether there is a transaction. It finds nothing
    /// outside one.
    Sure,
}

impl Script {
    pub(crate) const HEAD: &'static str = "-- step: ";

    pub(crate) const fn new(text: &'static str) -> Self {
        Self(text)
    }

    /// The steps in order. A test reads every file, so no word is unknown here.
    pub(crate) fn steps(self) -> impl Iterator<Item = (When, &'static str)> {
        let heads = self.0.starts_with(Self::HEAD);
        let plain = (!heads).then_some((When::All, self.0));
        let rest = if heads { self.0 } else { "" };
        let parts = rest.split(Self::HEAD).skip(1).map(|part| {
            let (word, sql) = part.split_once('\n').unwrap_or((part, ""));
            (When::of(word).unwrap_or_else(|| panic!("unknown step `{word}`")), sql.trim_end())
        });
        plain.into_iter().chain(parts)
    }

    /// The first statement.
    #[cfg(test)]
    pub(crate) fn first(self) -> &'static str {
        self.steps().next().expect("a script has a statement").1
    }

    /// Whether it is a single statement.
    pub(crate) fn is_one(self) -> bool {
        self.steps().nth(1).is_none()
    }
}

impl When {
    pub(crate) fn of(word: &str) -> Option<Self> {
        let word: StrDeserializer<'_, serde::de::value::Error> = word.into_deserializer();
        Self::deserialize(word).ok()
    }
}

/// Runs a script that finds ids by `binds`, and then works on those. Returns them.
pub(crate) async fn find_then<DB: Driver>(
    conn: &mut DB::Connection,
    script: Script,
    binds: &[Bind<'_>],
) -> Result<Vec<i64>, sqlx::Error> {
    let mut found = Vec::new();
    for (when, sql) in script.steps() {
        match when {
            When::Found if found.is_empty() => {}
            When::Found => drop(execute::<DB>(conn, sql, &[found.as_slice().into()]).await?),
            _ => found = ids::<DB>(conn, sql, binds).await?,
        }
    }
    Ok(found)
}

/// The line above each statement of a file.
const NAME: &[u8] = b"-- name: ";

/// The statement of this name in a file of statements.
pub(crate) const fn named(file: &'static str, name: &str) -> &'static str {
    match find(file, name) {
        Some(sql) => sql,
        None => panic!("no statement of that name is in the file"),
    }
}

/// The same, where it need not be there.
pub(crate) const fn find(file: &'static str, name: &str) -> Option<&'static str> {
    let (text, name) = (file.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at < text.len() {
        let end = line_end(text, at);
        if is_at(text, at, NAME) && end - at == NAME.len() + name.len() && is_at(text, at + NAME.len(), name) {
            let begin = end + 1;
            let mut over = begin;
            while over < text.len() && !is_at(text, over, NAME) {
                over = line_end(text, over) + 1;
            }
            if over > text.len() {
                over = text.len();
            }
            // the empty line before the next name
            while over > begin + 1 && text[over - 2] == b'\n' {
                over -= 1;
            }
            return Some(file.split_at(over).0.split_at(begin).1);
        }
        at = end + 1;
    }
    None
}

const fn line_end(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at] != b'\n' {
        at += 1;
    }
    at
}

const fn is_at(text: &[u8], at: usize, what: &[u8]) -> bool {
    if text.len() < at + what.len() {
        return false;
    }
    let mut byte = 0;
    while byte < what.len() {
        if text[at + byte] != what[byte] {
            return false;
        }
        byte += 1;
    }
    true
}

/// All statements of a file, with their names.
#[cfg(test)]
pub(crate) fn all(file: &'static str) -> Vec<(&'static str, &'static str)> {
    let names = file.lines().filter_map(|line| line.strip_prefix("-- name: "));
    names.map(|name| (name, named(file, name))).collect()
}

/// A file of statements.
macro_rules! topic {
    ($engine:literal, $topic:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/", $engine, "/sql/", $topic, ".sql"))
    };
}
pub(crate) use topic;

/// A statement that one engine alone has.
macro_rules! sql {
    ($engine:literal, $topic:literal, $name:literal) => {
        const { $crate::store::engine::statement::named($crate::store::engine::statement::topic!($engine, $topic), $name) }
    };
}
pub(crate) use sql;

/// A statement for one lane, and its values.
pub(crate) type LanePart<'a> = (&'static str, Vec<Bind<'a>>);

/// The placeholder for the lanes in the statement around them.
pub(crate) const LANES: &str = "/* lanes */";

/// A statement for many lanes.
pub(crate) struct Union<'a> {
    pub(crate) sql: String,
    pub(crate) binds: Vec<Bind<'a>>,
    /// The number of the ask of each part.
    pub(crate) asks: Vec<usize>,
}

/// The kind, queue and priority of its lane.
pub(crate) fn lane_binds(ask: &Ask) -> [Bind<'_>; 3] {
    [(&*ask.lane.kind).into(), (&*ask.lane.queue).into(), i64::from(ask.lane.priority).into()]
}

/// The number of the ask that a row belongs to, from the part that the row names.
pub(crate) fn ask_of(asks: &[usize], part: i64) -> Result<usize, sqlx::Error> {
    let ask = usize::try_from(part).ok().and_then(|part| asks.get(part));
    ask.copied().ok_or_else(|| sqlx::Error::Decode(format!("the statement has no part {part}").into()))
}

/// Puts the statements of all asks into the one around them. The last column of each part, `ask`, is the part's number.
/// So that few such statements must be kept prepared, newest-first lanes come last, and each group is padded to a power
/// of two. Padding asks for no rows (`part` gets `false`).
pub(crate) fn united<'a>(
    around: &'static str,
    outer: &[Bind<'a>],
    [open, close]: [&str; 2],
    asks: &'a [Ask],
    part: impl Fn(&'a Ask, bool) -> LanePart<'a>,
) -> Union<'a> {
    let (head, tail) = around.split_once(LANES).unwrap_or((around, ""));
    let ((head, before), (tail, after)) = (question_marks(head), question_marks(tail));
    let mut union = Union { sql: head, binds: before.iter().map(|place| outer[*place]).collect(), asks: Vec::new() };
    for newest_first in [false, true] {
        let group: Vec<_> = (0..asks.len()).filter(|number| asks[*number].newest_first == newest_first).collect();
        let Some(last) = group.last() else { continue };
        let (text, places) = question_marks(part(&asks[*last], false).0);
        let (columns, rest) = text.split_once("\nFROM ").unwrap_or((&text, ""));
        for n in 0..group.len().next_power_of_two() {
            let (number, wanted) = group.get(n).map_or((*last, false), |number| (*number, true));
            let values = part(&asks[number], wanted).1;
            union.binds.extend(places.iter().map(|place| values[*place]));
            let glue = if union.asks.is_empty() { "" } else { " UNION ALL " };
            let own = union.asks.len().to_string();
            for text in [glue, open, columns, ", ", &own, " AS ask\nFROM ", rest.trim_end(), close] {
                union.sql.push_str(text);
            }
            union.asks.push(number);
        }
    }
    union.sql.push_str(&tail);
    union.binds.extend(after.iter().map(|place| outer[*place]));
    union
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_file_without_heads_is_one_statement() {
        let one = Script::new("-- why\nSELECT 1\n");
        assert!(one.is_one());
        assert_eq!(one.steps().collect::<Vec<_>>(), [(When::All, "-- why\nSELECT 1\n")]);
        let two = Script::new("-- step: find\n-- why\nSELECT 1\n\n-- step: found\nDELETE\nFROM a\n");
        assert!(!two.is_one());
        let steps: Vec<_> = two.steps().collect();
        assert_eq!(steps, [(When::Find, "-- why\nSELECT 1"), (When::Found, "DELETE\nFROM a")]);
    }

    fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "sql") || path.ends_with("settings.rs") {
                found.push(path);
            }
        }
    }

    /// A database without Unicode may refuse any other character, even in a comment.
    #[test]
    fn all_that_is_sent_is_ascii() {
        let mut all = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        files(&root.join("src/store"), &mut all);
        files(&root.join("migrations"), &mut all);
        assert!(all.len() > 40);
        for path in all {
            assert!(std::fs::read_to_string(&path).unwrap().is_ascii(), "{}", path.display());
        }
    }

    #[test]
    fn a_statement_is_found_by_its_name() {
        let file = "-- About.\n\n-- name: one\n-- why\nSELECT 1\n\n-- name: one_more\nSELECT 2\n\nFROM a\n";
        assert_eq!(find(file, "one"), Some("-- why\nSELECT 1\n"));
        assert_eq!(find(file, "one_more"), Some("SELECT 2\n\nFROM a\n"));
        assert_eq!(find(file, "on"), None);
        assert_eq!(find("-- name: last\nSELECT 3", "last"), Some("SELECT 3"));
        assert_eq!(all(file), [("one", "-- why\nSELECT 1\n"), ("one_more", "SELECT 2\n\nFROM a\n")]);
    }

    #[test]
    fn every_step_of_every_file_is_known() {
        let mut found = Vec::new();
        files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store"), &mut found);
        let mut checked = 0;
        for path in found.into_iter().filter(|path| path.extension().is_some_and(|it| it == "sql")) {
            let text = std::fs::read_to_string(&path).unwrap();
            #[expect(clippy::disallowed_methods, reason = "a file is read once")]
            let file = text.leak();
            for (name, text) in all(file) {
                let place = || format!("{}: {name}", path.display());
                checked += 1;
                assert!(
                    !text.contains("-- step") || text.starts_with(Script::HEAD),
                    "{}: what stands before the first step is not sent",
                    place()
                );
                for part in text.split("-- step").skip(1) {
                    let (word, sql) = part.split_once('\n').unwrap();
                    let word = word.strip_prefix(": ").unwrap_or(word);
                    assert!(When::of(word).is_some(), "{}: unknown step `{word}`", place());
                    assert!(!sql.trim().is_empty(), "{}: the step `{word}` has no statement", place());
                }
            }
        }
        assert!(checked > 200, "{checked} statements");
    }
}
