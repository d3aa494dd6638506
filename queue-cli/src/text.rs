//! How values look on a screen. Nothing here reads or writes.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use queue::admin::Count;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A cell that is not the last one is cut to this width if the table does not fit.
const WIDEST: usize = 32;
/// The last column is dropped rather than shown in less than this.
const NARROWEST: usize = 10;
const GAP: usize = 2;

/// What a screen knows of the terminal.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Look {
    /// In columns. `None`: not a terminal, so nothing is cut.
    pub(crate) width: Option<usize>,
    pub(crate) colour: bool,
    /// Exact times.
    pub(crate) utc: bool,
    pub(crate) now: DateTime<Utc>,
}

/// What a colour says. The text beside it says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Faint,
    Good,
    Warn,
    Bad,
}

impl Look {
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            _ if !self.colour => return text.to_owned(),
            Tone::Faint => 2,
            Tone::Good => 32,
            Tone::Warn => 33,
            Tone::Bad => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A time as a person reads it: relative up to a day, then the date.
    pub(crate) fn time(&self, time: DateTime<Utc>) -> String {
        // whole seconds
        let past = TimeDelta::seconds((self.now - time).num_seconds());
        if self.utc {
            return exact(time);
        }
        if past.is_zero() {
            return "now".to_owned();
        }
        match (past.abs() < TimeDelta::days(1), past < TimeDelta::zero()) {
            (true, false) => format!("{} ago", short(past)),
            (true, true) => format!("in {}", short(-past)),
            (false, _) => time.format("%F").to_string(),
        }
    }

    /// A text in lines that fit, the later ones indented.
    pub(crate) fn wrap(&self, text: &str, first: usize, indent: usize) -> String {
        let Some(width) = self.width else { return text.to_owned() };
        let (mut out, mut at) = (String::new(), first);
        for (place, word) in text.split(' ').enumerate() {
            if place > 0 && at + 1 + word.width() > width {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent));
                at = indent;
            } else if place > 0 {
                out.push(' ');
                at += 1;
            }
            out.push_str(word);
            at += word.width();
        }
        out
    }
}

pub(crate) fn exact(time: DateTime<Utc>) -> String {
    time.format("%F %TZ").to_string()
}

/// One unit: "48 s", "4 min", "3 h".
fn short(time: TimeDelta) -> String {
    let whole = [3600, 60, 1].into_iter().find(|unit| time.num_seconds() >= *unit).unwrap_or(1);
    duration(Duration::from_secs((time.num_seconds() / whole * whole).unsigned_abs()))
}

/// Two units at most: "12 ms", "0.2 s", "48 s", "4 min 2 s", "3 h 12 min", "3 d".
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let two = |large, small, of| match seconds % of / (if small == "s" { 1 } else { of / 60 }) {
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

/// "1 job", "3 jobs".
pub(crate) fn jobs(number: u64) -> String {
    format!("{} {}", thousands(number), if number == 1 { "job" } else { "jobs" })
}

/// One line without control characters, and without those that turn the direction of the text.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.extend(char.escape_unicode())
            }
            char if char.is_control() => out.extend(char.escape_default()),
            char => out.push(char),
        }
    }
    out
}

/// What a list shows of an error: its first line.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}

/// At most so many columns, with "…" where something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut out, mut at) = (String::new(), 1);
    for char in text.chars() {
        at += char.width().unwrap_or(0);
        if at > width {
            break;
        }
        out.push(char);
    }
    out + "…"
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=@,+".contains(char);
    let plain = !word.is_empty() && word.chars().all(plain);
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// A table: titles, and rows of cells, each row in one tone. Titles that begin with `>` are aligned right.
pub(crate) struct Table {
    titles: Vec<&'static str>,
    rows: Vec<(Tone, Vec<String>)>,
}

impl Table {
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        Self { titles: titles.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, tone: Tone, cells: &[&str]) {
        self.rows.push((tone, cells.iter().map(|text| clean(text)).collect()));
    }

    /// Leaves a column out, for it would say the same in each row.
    pub(crate) fn without(&mut self, title: &str) {
        if let Some(at) = self.titles.iter().position(|it| *it == title) {
            self.titles.remove(at);
            self.rows.iter_mut().for_each(|(_, row)| drop(row.remove(at)));
        }
    }

    /// As a text.
    pub(crate) fn lines(&self, look: &Look, indent: usize) -> String {
        let lines = self.fitted(look, indent);
        lines.iter().map(|(tone, line)| look.paint(*tone, line) + "\n").collect()
    }

    /// The titles and the rows. What does not fit goes: first the end of the last column, then the last columns.
    pub(crate) fn fitted(&self, look: &Look, indent: usize) -> Vec<(Tone, String)> {
        let titles: Vec<String> = self.titles.iter().map(|title| title.trim_start_matches('>').to_owned()).collect();
        let rows = || std::iter::once((Tone::Faint, &titles)).chain(self.rows.iter().map(|(tone, row)| (*tone, row)));
        let widest = |at: usize| rows().map(|(_, row)| row[at].width()).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..titles.len()).map(widest).collect();
        let total = |widths: &[usize]| indent + widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
        let most = look.width.unwrap_or(usize::MAX);
        if total(&widths) > most {
            widths.iter_mut().rev().skip(1).for_each(|width| *width = WIDEST.min(*width));
        }
        while total(&widths) > most {
            let last = widths.len() - 1;
            let spare = most.saturating_sub(total(&widths) - widths[last]);
            if last == 0 {
                widths[last] = spare.max(1);
                break;
            }
            if !self.titles[last].starts_with('>') && spare >= NARROWEST {
                widths[last] = spare;
            } else {
                widths.pop();
            }
        }
        let line = |(tone, row): (Tone, &Vec<String>)| {
            let mut line = " ".repeat(indent);
            for (at, width) in widths.iter().enumerate() {
                let text = cut(&row[at], *width);
                let pad = " ".repeat(width - text.width());
                let gap = if at == 0 { "" } else { "  " };
                let right = self.titles[at].starts_with('>');
                line += &if right { format!("{gap}{pad}{text}") } else { format!("{gap}{text}{pad}") };
            }
            (tone, line.trim_end().to_owned())
        };
        rows().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(width: usize) -> Look {
        Look { width: Some(width), colour: false, utc: false, now: DateTime::UNIX_EPOCH }
    }

    #[test]
    fn numbers_and_times_are_short() {
        let numbers = [0, 999, 1_000, 1_234_567].map(thousands);
        assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
        let times =
            [0, 12, 299, 48_000, 242_000, 120_000, 11_520_000, 7_200_000, 300_000_000].map(Duration::from_millis);
        let times = times.map(duration);
        assert_eq!(times, ["0 s", "12 ms", "0.2 s", "48 s", "4 min 2 s", "2 min", "3 h 12 min", "2 h", "3 d"]);
    }

    #[test]
    fn times_are_relative_for_a_day() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).expect("a time");
        let look = Look { now: at(1_000_000), ..look(80) };
        let told = [999_958, 1_000_148, 900_000, 1_000_000].map(|time| look.time(at(time)));
        assert_eq!(told, ["42 s ago", "in 2 min", "1970-01-11", "now"]);
        assert_eq!(Look { utc: true, ..look }.time(at(0)), "1970-01-01 00:00:00Z");
    }

    #[test]
    fn a_narrow_table_drops_its_last_columns_and_wraps_nothing() {
        let mut table = Table::new(&[">ID", "KIND", ">JOBS", "ERROR"]);
        table.row(Tone::Plain, &["7", "発送メール", "1,204", "connection refused 🙂 by the host"]);
        table.row(Tone::Plain, &["12345", "a\tb\u{1b}[31m", "3", ""]);
        let wide = table.lines(&look(80), 2);
        assert!(wide.contains("      7  発送メール      1,204  connection"), "{wide}");
        assert!(wide.contains(r"  12345  a\tb\u{1b}[31m"), "{wide}");
        for width in 1..60 {
            let lines = table.lines(&look(width), 2);
            let width = width.max(3);
            assert!(lines.lines().all(|line| line.width() <= width), "{width}\n{lines}");
        }
        assert_eq!(table.lines(&look(30), 2).lines().next(), Some("     ID  KIND             JOBS"));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("発送メール", 5), "発送…");
        assert_eq!(cut("発送メール", 4), "発…");
        assert_eq!(cut("mail", 4), "mail");
        assert_eq!(clean("a\nb\u{202e}c"), r"a\nb\u{202e}c");
    }

    #[test]
    fn sentences_wrap_at_words() {
        assert_eq!(look(12).wrap("no worker is alive", 2, 2), "no worker\n  is alive");
    }
}
