//! A schedule and its job as one row: what code declares, the administration writes and the database keeps.

use std::time::Duration;

use serde::Serialize;

use crate::error::Error;
use crate::limits::check_name;
use crate::schedule::expression::Expression;
use crate::schedule::rules::{Fold, Gap, Missed, Overlap};
use crate::schedule::spec::Schedule;
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

impl Definition {
    pub(crate) fn new(name: String, schedule: &Schedule, job: NewJob) -> Result<Self, Error> {
        check_name("schedule", &name).map_err(|why| {
            let name = name.escape_debug();
            Error::config(format!("the schedule `{name}` of `{}` cannot be kept: {why}", job.kind))
        })?;
        for (what, text, most) in [("expression", &schedule.text, 256), ("time zone", &schedule.zone.1, 64)] {
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
        Ok(Self {
            name,
            kind: job.kind.into_owned(),
            queue: job.queue.into_owned(),
            args: job.args,
            priority: job.priority,
            max_retries: Some(job.max_retries),
            expression: schedule.text.clone(),
            zone: schedule.zone.1.clone(),
            gap: schedule.gap.map(|gap| gap.as_str().to_owned()),
            fold: schedule.fold.map(|fold| fold.as_str().to_owned()),
            missed: schedule.missed.as_str().to_owned(),
            window_s: match schedule.missed {
                Missed::All { within } => i64::try_from(within.as_secs()).ok(),
                _ => None,
            },
            overlap: schedule.overlap.as_str().to_owned(),
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
        let unknown = |column: &str, text: &str| Error::config(format!("`{}` is no {column}", text.escape_debug()));
        if let Some(gap) = &self.gap {
            let gap = Gap::ALL.into_iter().find(|it| it.as_str() == gap).ok_or_else(|| unknown("gap", gap))?;
            schedule = schedule.gap(gap);
        }
        if let Some(fold) = &self.fold {
            let fold = Fold::ALL.into_iter().find(|it| it.as_str() == fold).ok_or_else(|| unknown("fold", fold))?;
            schedule = schedule.fold(fold);
        }
        let within = Duration::from_secs(self.window_s.unwrap_or(0).max(0).unsigned_abs());
        let missed = match self.missed.as_str() {
            "none" => Missed::None,
            "last" => Missed::Last,
            "all" if !within.is_zero() => Missed::All { within },
            "all" => return Err(Error::config("missed is `all`, and window_s does not say for how long")),
            other => return Err(unknown("missed", other)),
        };
        let overlap = match self.overlap.as_str() {
            "allow" => Overlap::Allow,
            "skip" => Overlap::Skip,
            other => return Err(unknown("overlap", other)),
        };
        let jitter = Duration::from_millis(self.jitter_ms.max(0).unsigned_abs());
        Ok(schedule.missed(missed).overlap(overlap).jitter(jitter))
    }
}

impl Gap {
    const ALL: [Self; 2] = [Self::Shift, Self::Skip];

    fn as_str(self) -> &'static str {
        match self {
            Self::Shift => "shift",
            Self::Skip => "skip",
        }
    }
}

impl Fold {
    const ALL: [Self; 3] = [Self::First, Self::Last, Self::Both];

    fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Both => "both",
        }
    }
}

impl Missed {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Last => "last",
            Self::All { .. } => "all",
        }
    }
}

impl Overlap {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
        }
    }
}
