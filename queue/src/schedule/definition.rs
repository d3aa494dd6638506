//! A schedule and its job as one row: what code declares, the administration writes and the database keeps.

use std::time::Duration;

use serde::Serialize;

use crate::error::Error;
use crate::limits::check_name;
use crate::schedule::calendar::{Fold, Gap};
use crate::schedule::expression::Expression;
use crate::schedule::spec::{Missed, Overlap, Schedule};
use crate::store::values::NewJob;

/// A row of `queue_schedules`, without its state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) args: String,
    pub(crate) priority: i16,
    pub(crate) max_retries: Option<i32>,
    pub(crate) expression: String,
    pub(crate) zone: String,
    pub(crate) gap: Option<String>,
    pub(crate) fold: Option<String>,
    pub(crate) missed: String,
    pub(crate) window_s: Option<i64>,
    pub(crate) overlap: String,
    pub(crate) jitter_ms: i64,
}

const GAPS: [(&str, Gap); 2] = [("shift", Gap::Shift), ("skip", Gap::Skip)];
const FOLDS: [(&str, Fold); 3] = [("first", Fold::First), ("last", Fold::Last), ("both", Fold::Both)];
const OVERLAPS: [(&str, Overlap); 2] = [("allow", Overlap::Allow), ("skip", Overlap::Skip)];

fn word_of<T: PartialEq>(words: &[(&str, T)], meaning: T) -> String {
    words.iter().find(|(_, it)| *it == meaning).map(|(word, _)| (*word).to_owned()).unwrap_or_default()
}

fn meaning<T: Copy>(words: &[(&str, T)], column: &str, word: &str) -> Result<T, Error> {
    words.iter().find(|(it, _)| *it == word).map(|(_, meaning)| *meaning).ok_or_else(|| unknown(column, word))
}

fn unknown(column: &str, word: &str) -> Error {
    Error::config(format!("`{}` is no {column}", word.escape_debug()))
}

impl Definition {
    pub(crate) fn new(name: String, schedule: &Schedule, job: NewJob) -> Result<Self, Error> {
        check_name("schedule", &name).map_err(|why| {
            let name = name.escape_debug();
            Error::config(format!("the schedule `{name}` of `{}` cannot be kept: {why}", job.kind))
        })?;
        for (what, text, most) in [("expression", &*schedule.text, 256), ("time zone", schedule.zone_name(), 64)] {
            let length = text.chars().count();
            if length > most {
                return Err(Error::config(format!(
                    "the schedule `{name}`: its {what} has {length} characters, and the limit is {most}; \
                     write it shorter, or as several schedules"
                )));
            }
        }
        if job.unique.is_some() {
            return Err(Error::config(format!(
                "the schedule `{name}`: its job `{}` is unique, and a schedule takes no key; schedule a job that is \
                 not unique and enqueues this one",
                job.kind
            )));
        }
        if matches!(schedule.missed, Missed::All { within } if within.subsec_nanos() != 0 || within.is_zero()) {
            return Err(Error::config(format!("the schedule `{name}`: `missed` takes whole seconds, at least one")));
        }
        let (missed, window_s) = match schedule.missed {
            Missed::None => ("none", None),
            Missed::Last => ("last", None),
            Missed::All { within } => ("all", i64::try_from(within.as_secs()).ok()),
        };
        Ok(Self {
            name,
            kind: job.kind.into_owned(),
            queue: job.queue.into_owned(),
            args: job.args,
            priority: job.priority,
            max_retries: job.max_retries,
            expression: schedule.text.clone(),
            zone: schedule.zone_name().to_owned(),
            gap: schedule.gap.map(|gap| word_of(&GAPS, gap)),
            fold: schedule.fold.map(|fold| word_of(&FOLDS, fold)),
            missed: missed.to_owned(),
            window_s,
            overlap: word_of(&OVERLAPS, schedule.overlap),
            jitter_ms: i64::try_from(schedule.jitter.as_millis()).unwrap_or(i64::MAX),
        })
    }

    /// Whether it is the same schedule. Arguments are compared as JSON: the order of a map's keys says nothing.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        let json = |args: &str| serde_json::from_str::<serde_json::Value>(args).ok();
        let args = self.args == other.args || (json(&self.args).is_some() && json(&self.args) == json(&other.args));
        args && *self == Self { args: self.args.clone(), ..other.clone() }
    }

    /// The schedule, or what is wrong with the row.
    pub(crate) fn schedule(&self) -> Result<Schedule, Error> {
        let mut schedule = Schedule::cron(&self.expression)?;
        // the column's default says nothing
        if !self.zone.eq_ignore_ascii_case("UTC") {
            let in_text = Expression::parse(&self.expression).ok().and_then(|(_, zone)| zone);
            let by_column = schedule.clone().zone(&self.zone)?;
            if let Some(in_text) = in_text.filter(|_| by_column != schedule) {
                return Err(Error::config(format!(
                    "the expression ends with the time zone `{in_text}`, and the column zone says `{}`: keep one of \
                     the two",
                    self.zone
                )));
            }
            schedule = by_column;
        }
        schedule.gap = self.gap.as_deref().map(|word| meaning(&GAPS, "gap", word)).transpose()?;
        schedule.fold = self.fold.as_deref().map(|word| meaning(&FOLDS, "fold", word)).transpose()?;
        let within = Duration::from_secs(self.window_s.unwrap_or(0).max(0).unsigned_abs());
        let missed = match self.missed.as_str() {
            "none" => Missed::None,
            "last" => Missed::Last,
            "all" if !within.is_zero() => Missed::All { within },
            "all" => return Err(Error::config("missed is `all`, and window_s does not say for how long")),
            other => return Err(unknown("missed", other)),
        };
        let overlap = meaning(&OVERLAPS, "overlap", &self.overlap)?;
        let jitter = Duration::from_millis(self.jitter_ms.max(0).unsigned_abs());
        Ok(schedule.missed(missed).overlap(overlap).jitter(jitter))
    }
}
