//! The charts: shapes in an SVG that stretches, and their words beside it.

use std::fmt::Write as _;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use queue::admin::Throughput;

use crate::text::{Html, duration, thousands};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 136.0;
/// How many lines a chart has from its top to its bottom, without the first.
const LINES: u64 = 5;
/// Waits go from 10 ms to 1,000 s, by powers of ten.
const WAITS: [&str; 6] = ["1,000 s", "100 s", "10 s", "1 s", "100 ms", "10 ms"];

/// What happened in one minute or hour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Bin {
    ended: u64,
    failed: u64,
    started: u64,
    waited: Duration,
    longest: Duration,
}

/// A row of the table behind a chart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) from: String,
    pub(crate) ended: String,
    pub(crate) failed: String,
    pub(crate) mean: String,
    pub(crate) longest: String,
}

/// What ended and failed, and how long jobs waited.
#[derive(Debug)]
pub(crate) struct Charts {
    /// "minute" or "hour".
    pub(crate) unit: &'static str,
    pub(crate) ended: String,
    pub(crate) failed: String,
    pub(crate) rates: Html,
    pub(crate) rate_labels: Vec<String>,
    pub(crate) waits: Html,
    pub(crate) wait_labels: [&'static str; 6],
    pub(crate) times: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

impl Charts {
    /// `bins`: how many minutes or hours. The last one is not over.
    pub(crate) fn of(throughput: &Throughput, bins: usize) -> Self {
        let span = TimeDelta::from_std(throughput.span).unwrap_or(TimeDelta::minutes(1));
        let start = throughput.open_since - span * i32::try_from(bins.saturating_sub(1)).unwrap_or(0);
        let mut all = vec![Bin::default(); bins];
        for tally in &throughput.tallies {
            let place = (tally.began_at - start).num_seconds().div_euclid(span.num_seconds().max(1));
            let Some(bin) = usize::try_from(place).ok().and_then(|place| all.get_mut(place)) else { continue };
            if tally.outcome.is_end() {
                bin.ended += tally.attempts;
                bin.failed += if tally.outcome.is_failure() { tally.attempts } else { 0 };
            } else {
                bin.started += tally.attempts;
                bin.waited += tally.total;
                bin.longest = bin.longest.max(tally.longest);
            }
        }
        let (step, below) = scale(&all);
        let at = |place: usize| start + span * i32::try_from(place).unwrap_or(0);
        let spans_days = span * i32::try_from(bins).unwrap_or(i32::MAX) > TimeDelta::days(1);
        let form = if spans_days { "%a %d" } else { "%H:%M" };
        let sum = |of: fn(&Bin) -> u64| thousands(all.iter().map(of).sum());
        Self {
            unit: if span < TimeDelta::hours(1) { "minute" } else { "hour" },
            ended: sum(|bin| bin.ended),
            failed: sum(|bin| bin.failed),
            rates: rates(&all, step, below),
            rate_labels: (0..=LINES).map(|line| thousands((LINES - below).abs_diff(line) * step)).collect(),
            waits: waits(&all),
            wait_labels: WAITS,
            times: (0..5).map(|place| at(place * (bins - 1) / 4).format(form).to_string()).collect(),
            rows: all.iter().enumerate().map(|(place, bin)| row(bin, at(place), spans_days)).collect(),
        }
    }
}

fn row(bin: &Bin, from: DateTime<Utc>, spans_days: bool) -> Row {
    let mean = (bin.started > 0).then(|| bin.waited.div_f64(bin.started as f64));
    let told = |wait: Option<Duration>| wait.map_or_else(|| "–".to_owned(), duration);
    Row {
        from: from.format(if spans_days { "%a %d, %H:%M" } else { "%H:%M" }).to_string(),
        ended: thousands(bin.ended),
        failed: thousands(bin.failed),
        mean: told(mean),
        longest: told(mean.map(|_| bin.longest)),
    }
}

/// What one line is worth, and how many of the lines are below zero: failures hang there, on the same scale.
fn scale(bins: &[Bin]) -> (u64, u64) {
    let most = |of: fn(&Bin) -> u64| bins.iter().map(of).max().unwrap_or(0);
    let (up, down) = (most(|bin| bin.ended - bin.failed), most(|bin| bin.failed));
    let step = |below: u64| round(up.div_ceil(LINES - below).max(down.div_ceil(below)));
    (1..LINES).map(|below| (step(below), below)).min().unwrap_or((1, 1))
}

/// The next of 1, 2, 5, 10, 20, 50, …
fn round(number: u64) -> u64 {
    let mut power = 1_u64;
    loop {
        for step in [1, 2, 5] {
            if power.saturating_mul(step) >= number {
                return power.saturating_mul(step);
            }
        }
        power = power.saturating_mul(10);
    }
}

fn grid() -> String {
    let mut path = String::from("<path class=\"g\" d=\"");
    for line in 0..=LINES {
        let _ = write!(path, "M0 {:.1}H600", HEIGHT * line as f64 / LINES as f64);
    }
    path + "\"/>"
}

fn rates(bins: &[Bin], step: u64, below: u64) -> Html {
    let zero = HEIGHT * (LINES - below) as f64 / LINES as f64;
    let (width, unit) = (WIDTH / bins.len() as f64, HEIGHT / LINES as f64 / step as f64);
    let bars = |of: fn(&Bin) -> u64, sign: f64| {
        let mut path = String::new();
        for (place, number) in bins.iter().map(of).enumerate().filter(|(_, number)| *number > 0) {
            // what happened once must be seen
            let height = sign * (number as f64 * unit).max(1.5);
            let (x, wide) = (place as f64 * width + width * 0.1, width * 0.8);
            let _ = write!(path, "M{x:.1} {zero:.1}v{height:.1}h{wide:.1}V{zero:.1}z");
        }
        path
    };
    let (ended, failed) = (bars(|bin| bin.ended - bin.failed, -1.0), bars(|bin| bin.failed, 1.0));
    Html(format!(
        "{}<path class=\"f1\" d=\"{ended}\"/><path class=\"f2\" d=\"{failed}\"/>\
         <path class=\"a0\" d=\"M0 {zero:.1}H600\"/>",
        grid()
    ))
}

fn waits(bins: &[Bin]) -> Html {
    let width = WIDTH / bins.len() as f64;
    let height = |wait: Duration| HEIGHT * (1.0 - ((wait.as_secs_f64().max(0.01).log10() + 2.0) / 5.0).min(1.0));
    let line = |of: fn(&Bin) -> Duration| {
        let (mut path, mut is_open) = (String::new(), false);
        for (place, bin) in bins.iter().enumerate() {
            let (x, y) = ((place as f64 + 0.5) * width, height(of(bin)));
            if bin.started > 0 {
                // a minute alone is a short line
                let from =
                    if is_open { format!("L{x:.1} {y:.1}") } else { format!("M{:.1} {y:.1}L{x:.1} {y:.1}", x - 2.0) };
                path += &from;
            }
            is_open = bin.started > 0;
        }
        path
    };
    let mean = line(|bin| bin.waited.div_f64(bin.started.max(1) as f64));
    let longest = line(|bin| bin.longest);
    Html(format!("{}<path class=\"l1\" d=\"{mean}\"/><path class=\"l2\" d=\"{longest}\"/>", grid()))
}

/// The attempts that failed, hour by hour.
pub(crate) fn spark(hours: &[u64; 24], class: &'static str) -> Html {
    let most = hours.iter().copied().max().unwrap_or(0).max(1);
    let mut path = String::new();
    for (place, number) in hours.iter().enumerate().filter(|(_, number)| **number > 0) {
        let _ = write!(path, "M{} 28v-{:.1}h3V28z", place * 4, (*number as f64 / most as f64 * 26.0).max(1.5));
    }
    Html(format!("<path class=\"g\" d=\"M0 27.5H96\"/><path class=\"{class}\" d=\"{path}\"/>"))
}

/// How full something is.
pub(crate) fn meter(part: u64, of: u64) -> Html {
    let (wide, class) = (64.0 * part.min(of) as f64 / of.max(1) as f64, if part >= of { "f2" } else { "f1" });
    Html(format!(
        "<svg class=\"meter\" viewBox=\"0 0 64 8\" aria-hidden=\"true\"><rect class=\"f0\" width=\"64\" height=\"8\"/>\
         <rect class=\"{class}\" width=\"{wide:.1}\" height=\"8\"/></svg>"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_hang_below_on_the_same_scale() {
        let bin = |ended, failed| Bin { ended, failed, ..Bin::default() };
        assert_eq!(scale(&[bin(0, 0)]), (1, 1));
        assert_eq!(scale(&[bin(360, 33)]), (100, 1));
        assert_eq!(scale(&[bin(10, 10)]), (5, 2));
        assert_eq!([0, 1, 3, 11, 501].map(round), [1, 1, 5, 20, 1000]);
    }

    #[test]
    fn each_minute_has_its_place() {
        let at = |minute: i64| DateTime::from_timestamp(60 * minute, 0);
        let tally = |minute, outcome: &str, attempts: u64, total: u64| {
            json!({"began_at": at(minute), "queue": "q", "kind": "k", "outcome": outcome, "attempts": attempts,
                   "total": Duration::from_secs(total), "longest": Duration::from_secs(total)})
        };
        let throughput = json!({"span": Duration::from_secs(60), "open_since": at(9), "complete": true, "tallies": [
            tally(5, "completed", 7, 1), tally(8, "started", 2, 4), tally(8, "failed", 1, 1),
            tally(8, "completed", 1200, 1), tally(9, "completed", 1, 1),
        ]});
        let charts = Charts::of(&serde_json::from_value(throughput).expect("a throughput"), 4);
        let rows: Vec<_> =
            charts.rows.iter().map(|it| [&it.from, &it.ended, &it.failed, &it.mean].map(|it| &**it)).collect();
        let empty = ["0", "0", "–"];
        assert_eq!(rows[0], ["00:06", empty[0], empty[1], empty[2]]);
        assert_eq!(rows[2], ["00:08", "1,201", "1", "2 s"]);
        assert_eq!(rows[3], ["00:09", "1", "0", "–"]);
        assert_eq!((&*charts.ended, &*charts.failed, charts.unit), ("1,202", "1", "minute"));
        assert_eq!(charts.rate_labels, ["2,000", "1,500", "1,000", "500", "0", "500"]);
    }
}
