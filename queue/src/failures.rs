//! The same failure of many jobs is one line: texts that differ only in what varies are one group.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::gauges::Count;
use crate::state::JobId;

/// The most characters of an error that are looked at, and those of a title.
pub(crate) const CHARS: usize = 2_000;
const TITLE_CHARS: usize = 200;

/// What fails now, by group. See [`Admin::failures`](crate::admin::Admin::failures).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failures {
    /// The groups with the most jobs first.
    pub groups: Vec<FailureGroup>,
    /// False if there are more dead letters or attempts than were looked at. Then those of older jobs are missing.
    pub complete: bool,
}

/// Jobs that fail in the same way. See [`Failures`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailureGroup {
    /// What [`Filter::group`](crate::admin::Filter::group) selects it by: 16 hexadecimal digits. It is the same on each
    /// engine and at any time.
    pub group: String,
    /// The kind of its jobs.
    pub kind: String,
    /// The error without the parts that vary, such as numbers, ids, addresses and quoted text: its first line and the
    /// last two, which name the cause.
    pub title: String,
    /// How many of its jobs are dead letters.
    pub dead: Count,
    /// How many of its jobs wait for another attempt. That includes dead letters that were just sent back.
    pub retrying: Count,
    /// When it was first seen: in the last 14 days, as the workers counted it, or as one of these jobs has it.
    pub first: DateTime<Utc>,
    /// The latest of their failures.
    pub last: DateTime<Utc>,
    /// It was first seen within the last 24 hours.
    pub is_new: bool,
    /// It had not occurred for a day or more, and has come back within the last 24 hours: since then.
    pub back_since: Option<DateTime<Utc>>,
    /// How many attempts failed in each of the last 24 hours, as the workers counted them. The last one is the hour that
    /// is not over. The 100 groups with the most jobs have these counts.
    pub by_hour: [u64; 24],
    /// The newest of them.
    pub sample: JobId,
    /// Its error as it is, up to 2,000 characters.
    pub error: String,
}

/// The failures of a group within an hour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hour {
    pub(crate) first: DateTime<Utc>,
    pub(crate) last: DateTime<Utc>,
    pub(crate) attempts: u64,
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
    /// `complete`: whether all waiting jobs were looked at, and all dead letters.
    pub(crate) fn of(counted: Vec<Counted>, complete: [bool; 2]) -> Self {
        let count = |is_dead: bool, jobs| match complete[usize::from(is_dead)] {
            true => Count::exactly(jobs),
            false => Count::at_least(jobs),
        };
        let mut groups: HashMap<(String, String), FailureGroup> = HashMap::new();
        for it in counted {
            let title = title(&it.error);
            let sum = groups.entry((it.kind.clone(), title.clone())).or_insert_with(|| FailureGroup {
                group: hash(&it.kind, &title),
                kind: it.kind,
                title,
                dead: count(true, 0),
                retrying: count(false, 0),
                first: it.first,
                last: it.last,
                is_new: false,
                back_since: None,
                by_hour: [0; 24],
                sample: JobId::from(it.sample),
                error: it.error.clone(),
            });
            *(if it.is_dead { &mut sum.dead } else { &mut sum.retrying }) += count(it.is_dead, it.jobs);
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
        Self { groups, complete: complete == [true; 2] }
    }
}

impl FailureGroup {
    /// What the workers counted, hour by hour.
    pub(crate) fn remember(&mut self, hours: &[Hour], now: DateTime<Utc>) {
        let day = TimeDelta::days(1);
        let Some((oldest, newest)) = hours.first().zip(hours.last()) else { return };
        (self.first, self.last) = (self.first.min(oldest.first), self.last.max(newest.last));
        self.is_new = self.first > now - day;
        let back = hours.windows(2).rfind(|pair| pair[1].first - pair[0].last >= day).map(|pair| pair[1].first);
        self.back_since = back.filter(|back| *back > now - day);
        let number = |time: DateTime<Utc>| time.timestamp().div_euclid(3600);
        for hour in hours {
            let place = usize::try_from(number(hour.first) - number(now) + 23).ok();
            if let Some(count) = place.and_then(|place| self.by_hour.get_mut(place)) {
                *count += hour.attempts;
            }
        }
    }
}

/// The group of a job with this error.
pub(crate) fn group_of(kind: &str, error: &str) -> String {
    hash(kind, &title(error))
}

/// FNV-1a: the group of a failure must be the same in each build.
fn hash(kind: &str, title: &str) -> String {
    let bytes = kind.bytes().chain([0]).chain(title.bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

/// The first `most` characters.
fn first(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// An error without the parts that vary.
fn title(error: &str) -> String {
    let mut text = first(error, CHARS);
    // cut in the middle of a word, the same error would have many titles
    if text.chars().count() == CHARS {
        text = text.rsplit_once(char::is_whitespace).map_or(text, |(whole, _)| whole);
    }
    let lines: Vec<&str> = text.lines().map(cause).filter(|line| !line.is_empty()).collect();
    let last = lines.len().saturating_sub(2).max(1);
    let kept = lines.iter().take(1).chain(lines.iter().skip(last));
    let title: Vec<String> = kept.map(|line| words(&quotes(line))).collect();
    first(&title.join("\n"), TITLE_CHARS).to_owned()
}

/// A line of an error without what only numbers and names the causes. Empty: it says nothing else.
fn cause(line: &str) -> &str {
    let line = line.trim();
    let line = match line.get(..10) {
        Some(head) if head.eq_ignore_ascii_case("caused by:") => line[10..].trim_start(),
        _ => line,
    };
    let text = line.trim_start_matches(|c: char| c.is_ascii_digit());
    text.strip_prefix(": ").filter(|_| text.len() < line.len()).unwrap_or(line)
}

/// A line in which quoted text is left out. A word of a program stays: text in backticks, a key of JSON, `snake_case`.
fn quotes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    let mut before = ' ';
    while let Some(open) = rest.chars().next() {
        let behind = &rest[open.len_utf8()..];
        out.push(open);
        let close = match open {
            '"' => Some('"'),
            '“' => Some('”'),
            // an apostrophe inside a word is no quote
            '\'' if !before.is_alphanumeric() => Some('\''),
            _ => None,
        };
        before = open;
        rest = behind;
        let Some(close) = close else { continue };
        let end = behind.find(close);
        if open == '\'' && end.is_none() {
            continue;
        }
        let (inside, after) = behind.split_at(end.unwrap_or(behind.len()));
        let is_key = open == '"' && after[end.map_or(0, |_| 1)..].trim_start().starts_with(':');
        let is_snake = inside.contains('_') && inside.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        out.push_str(if is_key || is_snake { inside } else { "…" });
        rest = after;
        if let Some(close) = rest.chars().next() {
            out.push(close);
            rest = &rest[close.len_utf8()..];
            before = close;
        }
    }
    out
}

/// A line in which words that vary are replaced.
fn words(line: &str) -> String {
    // the library's own text about a lost worker names its process
    if let Some((_, rest)) = line.strip_prefix("the worker (").and_then(|rest| rest.split_once(')')) {
        return format!("the worker (<process>){}", words(rest));
    }
    let is_end = |c: char| c.is_whitespace() || "()[]{}<>,;|\"`“”".contains(c);
    let mut out = String::with_capacity(line.len());
    for word in line.split_inclusive(is_end) {
        let (word, end) = match word.chars().next_back() {
            Some(last) if is_end(last) => word.split_at(word.len() - last.len_utf8()),
            _ => (word, ""),
        };
        let core = word.trim_end_matches([':', '.', '!', '?', '\'']);
        match stand_in(core) {
            Some(stand_in) => out.push_str(stand_in),
            None => {
                for piece in core.split_inclusive([':', '=']) {
                    let name = piece.trim_end_matches([':', '=']);
                    match (is_id(name), stand_in(name)) {
                        (true, _) => out.push_str("<id>"),
                        (false, Some(stand_in)) => out.push_str(stand_in),
                        (false, None) => out.push_str(&digits(name)),
                    }
                    out.push_str(&piece[name.len()..]);
                }
            }
        }
        out.push_str(&word[core.len()..]);
        out.push_str(end);
    }
    out
}

/// What stands for a time, an address or a path.
fn stand_in(word: &str) -> Option<&'static str> {
    let is = |more: &str| word.chars().all(|c| c.is_ascii_digit() || more.contains(c));
    let has_digit = word.contains(|c: char| c.is_ascii_digit());
    let colons = word.matches(':').count();
    if has_digit && colons > 0 && is(":.-+TZ") && word.split(':').all(|part| part.len() != 4 || part.contains('-')) {
        // 10.0.0.7:5432 has dots before its colon
        let is_time = colons > 1 || word.split(':').all(|part| part.len() <= 2) || word.contains('T');
        if is_time && !word.split(':').next().is_some_and(|first| first.contains('.')) {
            return Some("<time>");
        }
    }
    if word.contains("://") || (word.contains('@') && word.contains('.')) {
        return Some("<address>");
    }
    let is_drive = word.get(1..3) == Some(":\\");
    if is_drive || (word.len() > 1 && word.starts_with(['/', '~'])) || word.starts_with("./") || word.starts_with("../")
    {
        return Some("<path>");
    }
    let slashes = word.matches('/').count();
    if slashes > 1 || (slashes == 1 && word.contains('.')) {
        return Some("<path>");
    }
    let has_port = word
        .rsplit_once(':')
        .is_some_and(|(host, port)| host.contains('.') && !port.is_empty() && port.chars().all(|c| c.is_ascii_digit()));
    let is_v4 = word.split('.').count() == 4 && is(".");
    let is_v6 = (word.contains("::") || colons > 3) && word.chars().all(|c| c.is_ascii_hexdigit() || c == ':');
    (has_port || is_v4 || is_v6).then_some("<address>")
}

/// Whether a word is an id: letters and digits in turn, or hexadecimal.
fn is_id(word: &str) -> bool {
    let word = word.strip_prefix("0x").unwrap_or(word);
    let parts: Vec<bool> = word.chars().filter(|c| c.is_ascii_alphanumeric()).map(|c| c.is_ascii_digit()).collect();
    let turns = parts.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let is_word = word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let is_hex = word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    is_word && ((parts.len() >= 8 && turns >= 2) || (parts.len() >= 7 && is_hex && turns >= 1))
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
            ("no route to fe80::ab or 2001:db8:0:1:2:3:4:5", "no route to <address> or <address>"),
            ("timed out after 30s", "timed out after #s"),
            ("order 4711 not found", "order # not found"),
            ("order-4711 not found.", "order-# not found."),
            ("order 20261128 of 2026-11-28 failed at 12:30:45.123", "order # of #-#-# failed at <time>"),
            ("since 2026-11-28T09:12:00Z", "since <time>"),
            ("no user \"ada\" in 'shop 7'", "no user \"…\" in '…'"),
            ("no user “ada”", "no user “…”"),
            ("no user \"ada", "no user \"…"),
            ("can't read and won't", "can't read and won't"),
            ("missing field `email` at line 7", "missing field `email` at line #"),
            ("breaks the constraint \"users_email_key\"", "breaks the constraint \"users_email_key\""),
            (
                r#"{"error": "card_declined", "text": "No 402", "code": 402}"#,
                r#"{"error": "card_declined", "text": "…", "code": #}"#,
            ),
            ("job 550e8400-e29b-41d4-a716-446655440000: gone", "job <id>: gone"),
            ("user_id=550e8400-e29b-41d4-a716-446655440000", "user_id=<id>"),
            ("user:01ARZ3NDEKTSV4RRFFQ69G5FAV", "user:<id>"),
            ("no charge ch_3NxYzABC12 at a1b2c3d", "no charge <id> at <id>"),
            ("utf8mb4 and sha256 on x86_64", "utf#mb# and sha# on x#_#"),
            ("GET https://example.org/a?b=7 gave 503", "GET <address> gave #"),
            ("cannot open /var/lib/shop/7.json: no such file", "cannot open <path>: no such file"),
            (r"cannot open C:\Users\ada\a.txt", "cannot open <path>"),
            ("panicked at src/main.rs:10:5", "panicked at <path>"),
            ("and/or 1/2", "and/or #/#"),
            ("mail to ada@example.org bounced", "mail to <address> bounced"),
            ("card declined: insufficient_funds", "card declined: insufficient_funds"),
            (
                "the worker (app-7d9f8b6c5-x2x9k:1) running this job was lost",
                "the worker (<process>) running this job was lost",
            ),
            ("a\ncaused by: b 1\ncaused by: c\ncaused by: d", "a\nc\nd"),
            (
                "sending mail\n\nCaused by:\n    0: no route\n    1: host 7 is down",
                "sending mail\nno route\nhost # is down",
            ),
            ("sending mail\n\nCaused by:\n    refused", "sending mail\nrefused"),
            ("", ""),
        ] {
            assert_eq!(title(error), expected, "{error}");
        }
        assert_eq!(group_of("mail", "order 1"), group_of("mail", "order 22"));
        assert_ne!(group_of("mail", "order 1"), group_of("sms", "order 1"));
        assert_eq!(group_of("mail", "order 1"), "b0ce1613d74f3f3f", "it must never change");
        let long = |n: u64, text: &str| group_of("mail", &format!("order {n}: {} {text}", "a word ".repeat(400)));
        assert_eq!(long(9, "x"), long(1_000_000, "y"), "what is cut off does not matter");
    }

    #[test]
    fn a_group_is_new_or_has_come_back_for_a_day() {
        let hour = |first: i64, last: i64| {
            let time = |minutes| DateTime::from_timestamp(1_800_000_000 + minutes * 60, 0).expect("a time");
            Hour { first: time(first), last: time(last), attempts: 2 }
        };
        let seen = |hours: &[Hour], now: i64| {
            let row = Counted {
                is_dead: true,
                kind: "mail".into(),
                error: "refused".into(),
                jobs: 1,
                first: hour(1_000, 0).first,
                last: hour(1_000, 0).first,
                sample: 1,
            };
            let mut group = Failures::of(vec![row], [true; 2]).groups.remove(0);
            group.remember(hours, hour(now, 0).first);
            let back = group.back_since.map(|back| (back - hour(0, 0).first).num_minutes());
            (group.is_new, back, group.by_hour.iter().sum::<u64>(), group.by_hour[23])
        };
        assert_eq!(seen(&[], 1_010), (false, None, 0, 0), "nobody counted");
        assert_eq!(seen(&[hour(1_000, 1_005)], 1_010), (true, None, 2, 2));
        assert_eq!(seen(&[hour(1_000, 1_005)], 1_070), (true, None, 2, 0));
        assert_eq!(seen(&[hour(1_000, 1_005)], 1_000 + 1_441), (false, None, 0, 0), "for a day");
        let back = [hour(-5_000, -4_990), hour(-500, -450), hour(-440, -430), hour(1_011, 1_012)];
        assert_eq!(seen(&back, 1_012), (false, Some(1_011), 2, 2));
        assert_eq!(seen(&back[..3], 0), (false, Some(-500), 4, 0));
        assert_eq!(seen(&back[..3], 1_009), (false, None, 0, 0), "for a day");
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
        let found = Failures::of(rows.clone(), [true, true]);
        let [first, second] = &found.groups[..] else { panic!("{found:?}") };
        assert_eq!((&*first.title, first.dead.jobs, first.retrying.jobs), ("no user #", 4, 40));
        assert_eq!((first.first, first.last, first.sample.get()), (time(7), time(25), 20));
        assert_eq!((&*first.error, &*second.title), ("no user 2", "refused"));
        assert!(!first.dead.or_more && !first.retrying.or_more);
        let part = Failures::of(rows, [false, true]);
        assert!(!part.complete && part.groups.iter().all(|it| it.retrying.or_more && !it.dead.or_more), "{part:?}");
    }

    proptest! {
        #[test]
        fn any_error_has_a_title(error in ".*", more in "[0-9]{1,9}") {
            let title = title(&error);
            prop_assert!(title.lines().count() <= 3 && title.chars().count() <= TITLE_CHARS);
            prop_assert!(!title.contains(|c: char| c.is_ascii_digit()));
            prop_assert_eq!(group_of("k", &format!("a {more} b")), group_of("k", "a 7 b"));
        }
    }
}
