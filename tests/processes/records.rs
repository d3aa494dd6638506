//! Records that the jobs write about themselves.

use std::path::Path;
use std::time::Duration;

/// A line of the record file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) what: What,
    pub(crate) job: i64,
    pub(crate) attempt: i64,
    pub(crate) process: i64,
    /// Microseconds since 1970.
    pub(crate) at: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Start,
    End,
}

/// All lines so far, in the order in which they were written.
pub(crate) fn read(path: &Path) -> Vec<Record> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(|line| parse(line).unwrap_or_else(|| panic!("a broken record: {line:?}"))).collect()
}

fn parse(line: &str) -> Option<Record> {
    let mut words = line.split(' ');
    let what = match words.next()? {
        "start" => What::Start,
        "end" => What::End,
        _ => return None,
    };
    let mut number = || words.next()?.parse().ok();
    Some(Record { what, job: number()?, attempt: number()?, process: number()?, at: number()? })
}

/// The median, the 99th percentile and the maximum.
pub(crate) fn percentiles(mut micros: Vec<i64>) -> String {
    micros.sort_unstable();
    let ms = |share: f64| {
        let at = (micros.len().saturating_sub(1)) as f64 * share;
        let value = micros.get(at.round() as usize).copied().unwrap_or_default();
        format!("{:.1}", value as f64 / 1000.0)
    };
    format!("p50 {} p99 {} max {} ms", ms(0.5), ms(0.99), ms(1.0))
}

/// A duration for people.
pub(crate) fn seconds(micros: i64) -> String {
    format!("{:.2} s", Duration::from_micros(micros.max(0).cast_unsigned()).as_secs_f64())
}
