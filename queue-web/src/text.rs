//! How values look on a page. Nothing here reads or writes.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use queue::admin::Count;

/// Markup of our own. It never holds a text from the database: those are escaped by the templates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Html(pub(crate) String);

impl fmt::Display for Html {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for Html {}

/// A word and the class that gives its shape and colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sign {
    pub(crate) class: &'static str,
    pub(crate) word: &'static str,
}

impl Sign {
    pub(crate) const fn new(class: &'static str, word: &'static str) -> Self {
        Self { class, word }
    }
}

/// The characters that turn the direction of a text, or end a line where nobody expects it.
fn turns(char: char) -> bool {
    matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn is_hidden(char: char) -> bool {
    turns(char) || char.is_control() && !matches!(char, '\n' | '\t')
}

/// A whole page, in which control characters and those that turn the direction of the text are shown as `\u{1b}`.
pub(crate) fn clean(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    for char in page.chars() {
        if is_hidden(char) { out.extend(char.escape_unicode()) } else { out.push(char) }
    }
    out
}

/// A JSON text in which such characters are written as JSON writes them, so that a form can send it back unharmed. A
/// carriage return can only be between its values, and says nothing there.
pub(crate) fn plain_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for char in json.chars().filter(|char| *char != '\r') {
        match char {
            char if is_hidden(char) => char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                out.push_str(&format!("\\u{unit:04x}"));
            }),
            char => out.push(char),
        }
    }
    out
}

/// Whether a form sends this text back as it is.
pub(crate) fn is_one_plain_line(text: &str) -> bool {
    !text.chars().any(|char| is_hidden(char) || char.is_control())
}

/// The first line of a text that has something.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}

/// The beginning that takes at most this number of bytes in a page, with "…" where something is missing.
pub(crate) fn cut(text: &str, bytes: usize) -> String {
    let cost = |char: char| match char {
        '<' | '>' | '&' | '"' | '\'' => 5,
        char if is_hidden(char) => 8,
        char => char.len_utf8(),
    };
    let mut left = bytes;
    for (at, char) in text.char_indices() {
        match left.checked_sub(cost(char)) {
            Some(rest) => left = rest,
            None => return format!("{}…", &text[..at]),
        }
    }
    text.to_owned()
}

pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// "10,000+" where the count stopped.
pub(crate) fn count(count: Count) -> String {
    format!("{}{}", thousands(count.jobs), if count.or_more { "+" } else { "" })
}

/// The same, or a dash for what was not counted.
pub(crate) fn counted(number: Count) -> String {
    if number.jobs == 0 && number.or_more { "–".to_owned() } else { count(number) }
}

/// "1 job", "3 jobs".
pub(crate) fn jobs(number: u64) -> String {
    of(number, "job", "jobs")
}

pub(crate) fn of(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// "1 job waits", "10,000+ jobs wait".
pub(crate) fn waits(of: Count) -> String {
    if of.jobs == 1 && !of.or_more { "1 job waits".to_owned() } else { format!("{} jobs wait", count(of)) }
}

/// Two units at most: "12 ms", "0.2 s", "48 s", "4 min 2 s", "3 h 12 min", "3 d".
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let two = |large, small, of: u64| match seconds % of / (if small == "s" { 1 } else { of / 60 }) {
        0 => format!("{} {large}", seconds / of),
        rest => format!("{} {large} {rest} {small}", seconds / of),
    };
    match seconds {
        0 if time.as_millis() >= 100 => format!("0.{} s", time.as_millis() / 100),
        0 if time.as_millis() > 0 => format!("{} ms", time.as_millis()),
        0..60 => format!("{seconds} s"),
        60..3600 => two("min", "s", 60),
        3600..86_400 => two("h", "min", 3600),
        _ => format!("{} d", thousands(seconds / 86_400)),
    }
}

/// A difference of two times; none if the clocks disagree.
pub(crate) fn between(from: DateTime<Utc>, to: DateTime<Utc>) -> Duration {
    (to - from).to_std().unwrap_or_default()
}

/// A rate, from a number and its time: "0.4", "12", "1,200".
pub(crate) fn rate(number: u64, seconds: f64) -> String {
    match number as f64 / seconds {
        _ if number == 0 => "0".to_owned(),
        rate if rate < 0.1 => format!("{rate:.2}"),
        rate if rate < 10.0 => format!("{rate:.1}"),
        rate => thousands(rate.round() as u64),
    }
}

pub(crate) fn exact(time: DateTime<Utc>) -> String {
    time.format("%F %T UTC").to_string()
}

/// Relative for 30 days, in one unit: "48 s ago", "in 2 min", then the date.
pub(crate) fn relative(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let past = TimeDelta::seconds((now - time).num_seconds());
    if past.abs() >= TimeDelta::days(30) {
        return time.format("%F").to_string();
    }
    let far = past.num_seconds().unsigned_abs();
    let unit = [86_400, 3600, 60, 1].into_iter().find(|unit| far >= *unit).unwrap_or(1);
    let far = duration(Duration::from_secs(far / unit * unit));
    if past < TimeDelta::zero() { format!("in {far}") } else { format!("{far} ago") }
}

/// A time as a person reads it, with the exact one as its title.
pub(crate) fn time(time: DateTime<Utc>, now: DateTime<Utc>) -> Html {
    let (machine, exact, text) = (time.format("%FT%TZ"), exact(time), relative(time, now));
    Html(format!("<time datetime=\"{machine}\" title=\"{exact}\">{text}</time>"))
}

/// A value of a query in a link.
pub(crate) fn encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=@,+".contains(char);
    let plain = !word.is_empty() && word.chars().all(plain);
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        let times = [0, 12, 299, 48_000, 242_000, 120_000, 11_520_000, 300_000_000].map(Duration::from_millis);
        assert_eq!(times.map(duration), ["0 s", "12 ms", "0.2 s", "48 s", "4 min 2 s", "2 min", "3 h 12 min", "3 d"]);
        assert_eq!(
            [(0, 60.0), (3, 60.0), (90, 60.0), (90_000, 60.0)].map(|(n, s)| rate(n, s)),
            ["0", "0.05", "1.5", "1,500"]
        );
    }

    #[test]
    fn a_time_is_relative_and_says_the_exact_one() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).expect("a time");
        let told = [999_958, 1_000_148, 900_000, 1_000_000, -9_000_000].map(|it| relative(at(it), at(1_000_000)));
        assert_eq!(told, ["42 s ago", "in 2 min", "1 d ago", "0 s ago", "1969-09-18"]);
        let html = "<time datetime=\"1970-01-01T00:00:00Z\" title=\"1970-01-01 00:00:00 UTC\">7 s ago</time>";
        assert_eq!(time(at(0), at(7)).0, html);
    }

    #[test]
    fn a_page_has_no_character_that_is_not_seen() {
        assert_eq!(clean("a\n\tb\u{1b}[31m\u{202e}c"), "a\n\tb\\u{1b}[31m\\u{202e}c");
        assert_eq!(plain_json("\"\u{202e}a\""), "\"\\u202ea\"");
        assert_eq!(serde_json::from_str::<String>(&plain_json("\"\u{202e}a\"")).expect("JSON"), "\u{202e}a");
        assert!(is_one_plain_line("ü 🙂") && !is_one_plain_line("a\nb") && !is_one_plain_line("\u{200f}"));
    }

    #[test]
    fn a_cut_text_fits_when_it_is_escaped() {
        assert_eq!(cut("<<<<", 15), "<<<…");
        assert_eq!(cut("mail", 4), "mail");
        assert_eq!(cut("発送", 3), "発…");
    }
}
