//! The same failure of many jobs is one line: texts that differ only in what varies are one group.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::gauges::Count;
use crate::state::JobId;

/// The lines of an error that count, and the characters.
const LINES: usize = 3;
pub(crate) const CHARS: usize = 400;

/// What fails now, by group. See [`Admin::failures`](crate::admin::Admin::failures).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Failures {
    /// The groups with the most jobs first.
    pub groups: Vec<FailureGroup>,
    /// False if there are more failures than were looked at. Then the counts are of the newest jobs.
    pub complete: bool,
}

/// Jobs that fail in the same way. See [`Failures`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FailureGroup {
    /// What [`Filter::group`](crate::admin::Filter::group) selects it by: 8 hexadecimal digits. It is the same on each
    /// engine and at any time.
    pub group: String,
    /// The kind of its jobs.
    pub kind: String,
    /// The error without the parts that vary, such as numbers, ids, addresses and quoted text.
    pub title: String,
    /// How many of its jobs are dead letters.
    pub dead: Count,
    /// How many of its jobs wait for another attempt.
    pub retrying: Count,
    /// When the first of them failed.
    pub first: DateTime<Utc>,
    /// When the last of them failed.
    pub last: DateTime<Utc>,
    /// The newest of them.
    pub sample: JobId,
    /// Its error as it is. The first few hundred characters.
    pub error: String,
}

/// Failures with one text, as a statement counts them.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) is_dead: bool,
    pub(crate) kind: String,
    pub(crate) error: String,
    pub(crate) jobs: i64,
    pub(crate) first: DateTime<Utc>,
    pub(crate) last: DateTime<Utc>,
    pub(crate) sample: i64,
}

impl Failures {
    pub(crate) fn of(counted: Vec<Counted>, complete: bool) -> Self {
        let mut groups: HashMap<String, FailureGroup> = HashMap::new();
        for it in counted {
            let title = title(&it.error);
            let group = hash(&it.kind, &title);
            let sum = groups.entry(group.clone()).or_insert_with(|| FailureGroup {
                group,
                kind: it.kind,
                title,
                dead: Count::default(),
                retrying: Count::default(),
                first: it.first,
                last: it.last,
                sample: JobId::from(it.sample),
                error: it.error.clone(),
            });
            let jobs = if complete { Count::exactly(it.jobs) } else { Count::at_least(it.jobs) };
            *(if it.is_dead { &mut sum.dead } else { &mut sum.retrying }) += jobs;
            (sum.first, sum.last) = (sum.first.min(it.first), sum.last.max(it.last));
            if it.sample > sum.sample.get() {
                (sum.sample, sum.error) = (JobId::from(it.sample), it.error);
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by(|a, b| {
            let jobs = |it: &FailureGroup| it.dead.jobs + it.retrying.jobs;
            (jobs(b), b.last, &a.group).cmp(&(jobs(a), a.last, &b.group))
        });
        Self { groups, complete }
    }
}

/// The group of a job with this error.
pub(crate) fn group_of(kind: &str, error: &str) -> String {
    hash(kind, &title(error))
}

/// FNV-1a: the group of a failure must be the same in each build.
fn hash(kind: &str, title: &str) -> String {
    let bytes = kind.bytes().chain([0]).chain(title.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

/// An error without the parts that vary.
fn title(error: &str) -> String {
    let end = error.char_indices().nth(CHARS).map_or(error.len(), |(end, _)| end);
    let lines: Vec<String> = error[..end].lines().take(LINES).map(|line| words(&quotes(line))).collect();
    lines.join("\n")
}

/// A line in which quoted text is left out.
fn quotes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let behind = &rest[first.len_utf8()..];
        // an apostrophe inside a word is no quote
        let end = match first {
            '"' | '`' => behind.find(first),
            '\'' if !before.is_alphanumeric() => behind.find('\''),
            _ => None,
        };
        out.push(first);
        rest = match end {
            Some(end) => {
                out.push('…');
                out.push(first);
                &behind[end + 1..]
            }
            None => behind,
        };
        before = first;
    }
    out
}

/// A line in which words that vary are replaced.
fn words(line: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || "()[]{}<>,;|".contains(c);
    let mut out = String::with_capacity(line.len());
    for word in line.split_inclusive(is_end) {
        let (word, end) = match word.chars().next_back() {
            Some(last) if is_end(last) => word.split_at(word.len() - last.len_utf8()),
            _ => (word, ""),
        };
        let core = word.trim_end_matches([':', '.', '!', '?']);
        out.push_str(&stand_in(core).unwrap_or_else(|| digits(core)));
        out.push_str(&word[core.len()..]);
        out.push_str(end);
    }
    out
}

/// What stands for an id, an address or a path.
fn stand_in(word: &str) -> Option<String> {
    let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let has_digit = word.contains(|c: char| c.is_ascii_digit());
    let has_letter = word.contains(|c: char| c.is_ascii_alphabetic());
    let port = word.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()) && host.contains(['.', ':'])
    });
    let is_address = word.contains("://")
        || (word.contains('@') && word.contains('.'))
        || port
        || (has_digit && word.split('.').count() == 4 && word.chars().all(|c| c.is_ascii_digit() || c == '.'));
    let is_path = word.len() > 1 && word.starts_with(['/', '~']) || word.matches('/').count() > 1;
    if is_address {
        Some("<address>".to_owned())
    } else if is_path {
        Some("<path>".to_owned())
    } else if has_digit && has_letter && word.len() >= 8 && is_hex(word.strip_prefix("0x").unwrap_or(word)) {
        Some("<id>".to_owned())
    } else {
        None
    }
}

/// A word in which each number is `#`.
fn digits(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        match c {
            _ if !c.is_ascii_digit() => out.push(c),
            _ if out.ends_with('#') => {}
            _ => out.push('#'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_differ_in_what_varies_have_one_title() {
        for (error, expected) in [
            ("connection refused (smtp.example.org:587)", "connection refused (<address>)"),
            ("connection refused: 10.0.0.7:5432", "connection refused: <address>"),
            ("no route to 192.168.1.20", "no route to <address>"),
            ("timed out after 30s", "timed out after #s"),
            ("order 4711 not found", "order # not found"),
            ("order-4711 not found.", "order-# not found."),
            ("no user \"ada\" in 'shop 7'", "no user \"…\" in '…'"),
            ("can't read `a` and won't", "can't read `…` and won't"),
            ("job 550e8400-e29b-41d4-a716-446655440000: gone", "job <id>: gone"),
            ("hash deadbeef12 differs", "hash <id> differs"),
            ("GET https://example.org/a?b=7 gave 503", "GET <address> gave #"),
            ("cannot open /var/lib/shop/7.json: no such file", "cannot open <path>: no such file"),
            ("mail to ada@example.org bounced", "mail to <address> bounced"),
            ("card declined: insufficient_funds", "card declined: insufficient_funds"),
            ("a\nb 1\nc\nd", "a\nb #\nc"),
            ("", ""),
        ] {
            assert_eq!(title(error), expected, "{error}");
        }
        assert_eq!(group_of("mail", "order 1"), group_of("mail", "order 22"));
        assert_ne!(group_of("mail", "order 1"), group_of("sms", "order 1"));
        assert_eq!(group_of("mail", "order 1"), "4bd7f2bf", "it must never change");
    }

    #[test]
    fn texts_of_one_group_are_added_up() {
        let time = |second| DateTime::from_timestamp(second, 0).expect("a time");
        let counted = |is_dead, error: &str, jobs, sample| Counted {
            is_dead,
            kind: "mail".into(),
            error: error.into(),
            jobs,
            first: time(sample),
            last: time(sample + 5),
            sample,
        };
        let rows = vec![
            counted(true, "no user 1", 3, 10),
            counted(false, "no user 2", 40, 20),
            counted(true, "no user 3", 1, 7),
            counted(true, "refused", 9, 1),
        ];
        let found = Failures::of(rows.clone(), true);
        let [first, second] = &found.groups[..] else { panic!("{found:?}") };
        assert_eq!((&*first.title, first.dead.jobs, first.retrying.jobs), ("no user #", 4, 40));
        assert_eq!((first.first, first.last, first.sample.get()), (time(7), time(25), 20));
        assert_eq!((&*first.error, &*second.title), ("no user 2", "refused"));
        assert!(!first.dead.or_more && Failures::of(rows, false).groups[0].dead.or_more);
    }

    proptest! {
        #[test]
        fn any_error_has_a_title(error in ".*", more in "[0-9]{1,9}") {
            let title = title(&error);
            prop_assert!(title.lines().count() <= LINES);
            prop_assert!(!title.contains(|c: char| c.is_ascii_digit()));
            prop_assert_eq!(group_of("k", &format!("a {more} b")), group_of("k", "a 7 b"));
        }
    }
}
