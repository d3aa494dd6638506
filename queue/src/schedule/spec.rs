//! A schedule: its expression, its zone, and its rules.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, FixedOffset, Utc};
use jiff::tz::TimeZone;

use crate::error::Error;
use crate::schedule::calendar::{Calendar, Fold, Gap, TickKind, Ticks};
use crate::schedule::expression::Expression;

/// When a periodic job runs, and what happens around clock changes, missed ticks and overlapping jobs. See
/// [`Admin::schedule`](crate::admin::Admin::schedule) and [`#[job(schedule = …)]`](crate::job).
///
/// A schedule has *ticks*: the moments at which a job falls due.
///
/// ```
/// use queue::schedule::{Fold, Gap, Missed, Schedule};
///
/// # fn main() -> Result<(), queue::Error> {
/// let nightly = Schedule::cron("30 2 * * *")?.zone("Europe/Berlin")?.gap(Gap::Skip).missed(Missed::None);
/// let from = "2026-03-27T12:00:00Z".parse().unwrap();
/// let days: Vec<String> = nightly.preview(from).take(3).map(|tick| tick.local.to_rfc3339()).collect();
/// // on 29 March, clocks go from 2:00 to 3:00
/// assert_eq!(days, ["2026-03-28T02:30:00+01:00", "2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"]);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Without the zone.
    pub(super) text: String,
    pub(super) expression: Arc<Expression>,
    pub(super) zone: TimeZone,
    pub(super) gap: Option<Gap>,
    pub(super) fold: Option<Fold>,
    pub(crate) missed: Missed,
    pub(crate) overlap: Overlap,
    pub(crate) jitter: Duration,
}

/// What happens with ticks that were missed: no worker could fire them for more than a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// They are passed over.
    None,
    /// The last of them is fired, unless a later tick is due as well. The default.
    #[default]
    Last,
    /// Those of the last `within` are fired, the oldest first. Whole seconds.
    All {
        /// Older ones are passed over.
        within: Duration,
    },
}

/// What happens at a tick when a job of the schedule still waits or runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// It is fired all the same. The default.
    #[default]
    Allow,
    /// It is passed over. If several ticks are due at once, only the last is fired.
    Skip,
}

/// A tick that [`Schedule::preview`] foresees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upcoming {
    /// When.
    pub at: DateTime<Utc>,
    /// The same moment on the clock of the schedule's zone.
    pub local: DateTime<FixedOffset>,
    /// What kind of moment it is.
    pub kind: TickKind,
}

/// The ticks of a schedule. See [`Schedule::preview`].
#[derive(Debug, Clone)]
pub struct Preview {
    ticks: Ticks,
}

impl Schedule {
    /// Ticks at the wall-clock times that match five fields: minute, hour, day of the month, month, day of the week.
    ///
    /// | | |
    /// |---|---|
    /// | `*`, `5`, `1-5`, `1,15`, `*/10`, `8-18/2` | all, one, a range, a list, each tenth, a range with steps |
    /// | `JAN`-`DEC`, `SUN`-`SAT` | names of months and days of the week (0 and 7 are Sunday) |
    /// | `L`, `LW`, `15W` | last day of the month, its last weekday (Monday to Friday), the weekday nearest to the 15th |
    /// | `FRI#2`, `FRIL` | second and last Friday of the month |
    /// | `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly` | short for the usual ones |
    ///
    /// If both days are restricted, one of them has to match, as in cron: `0 9 1 * MON` ticks on the first of the month
    /// and on Mondays. A day field is not restricted if it is exactly `*`. No step is longer than its field: instead of
    /// `*/90` minutes, write `every 90m`.
    ///
    /// A time zone may follow the fields: `0 9 * * MON-FRI Europe/Berlin`. Without one, it is UTC. `every 15m` is
    /// understood, too.
    ///
    /// # Errors
    /// [`Error::Config`] says what is wrong with the text, also if the date never comes (31 February).
    pub fn cron(text: &str) -> Result<Self, Error> {
        let (expression, zone) = Expression::parse(text).map_err(Error::config)?;
        let words: Vec<&str> = text.split_whitespace().take_while(|word| Some(*word) != zone).collect();
        let schedule = Self {
            text: words.join(" "),
            expression: Arc::new(expression),
            zone: TimeZone::UTC,
            gap: None,
            fold: None,
            missed: Missed::default(),
            overlap: Overlap::default(),
            jitter: Duration::ZERO,
        };
        match zone {
            Some(zone) => schedule.zone(zone),
            None => Ok(schedule),
        }
    }

    /// Ticks at each whole multiple of `interval` since 1970-01-01 00:00 UTC, so all workers agree and nothing drifts:
    /// 15 minutes means at :00, :15, :30 and :45. From one second to 365 days, whole seconds.
    ///
    /// # Errors
    /// [`Error::Config`] for any other interval.
    pub fn every(interval: Duration) -> Result<Self, Error> {
        Expression::every(interval).map_err(Error::config)?;
        Self::cron(&format!("every {}s", interval.as_secs()))
    }

    /// Sets the time zone, by its name in the IANA database: `Europe/Berlin`. The default is UTC. The zone comes from
    /// the system's database, or from the one in this library where the system has none.
    ///
    /// # Errors
    /// [`Error::Config`] for an unknown zone, and for a schedule of [`every`](Self::every), which goes by UTC.
    pub fn zone(mut self, name: &str) -> Result<Self, Error> {
        if matches!(*self.expression, Expression::Every(_)) && name != "UTC" {
            return Err(Error::config(format!("`{}` has no time zone: write it as five fields", self.text)));
        }
        self.zone = TimeZone::get(name).ok().filter(|zone| !zone.is_unknown()).ok_or_else(|| {
            Error::config(format!("`{}` is no time zone: write a name like Europe/Berlin or UTC", name.escape_debug()))
        })?;
        Ok(self)
    }

    /// Sets what happens at a time that does not exist.
    pub fn gap(self, gap: Gap) -> Self {
        Self { gap: Some(gap), ..self }
    }

    /// Sets what happens at a time that comes twice.
    pub fn fold(self, fold: Fold) -> Self {
        Self { fold: Some(fold), ..self }
    }

    /// Sets what happens with missed ticks.
    pub fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// Sets what happens when a job of the schedule still waits or runs.
    pub fn overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// Makes each job due at a moment within `jitter` after its tick, the same on all workers. At most 30 days, in
    /// milliseconds; more counts as that.
    pub fn jitter(self, jitter: Duration) -> Self {
        Self { jitter: jitter.min(Duration::from_secs(30 * 86_400)), ..self }
    }

    /// The ticks after `from`, without end, or until the year 9998.
    pub fn preview(&self, from: DateTime<Utc>) -> Preview {
        Preview { ticks: self.calendar().after(from.timestamp()) }
    }

    /// Its name in the IANA database.
    pub(super) fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    pub(crate) fn calendar(&self) -> Calendar {
        let Self { expression, zone, gap, fold, .. } = self;
        // real time goes on, whatever the clock shows
        let hourly = counts_hours(&self.text);
        let (usual_gap, usual_fold) = if hourly { (Gap::Skip, Fold::Both) } else { (Gap::Shift, Fold::First) };
        Calendar {
            expression: expression.clone(),
            zone: zone.clone(),
            gap: gap.unwrap_or(usual_gap),
            fold: fold.unwrap_or(usual_fold),
        }
    }
}

/// The hour of five fields is `*` or `*/n`.
fn counts_hours(text: &str) -> bool {
    text == "@hourly" || text.split(' ').nth(1).is_some_and(|hour| hour.starts_with('*'))
}

impl Iterator for Preview {
    type Item = Upcoming;

    fn next(&mut self) -> Option<Upcoming> {
        let (instant, kind) = self.ticks.next()?;
        let at = DateTime::from_timestamp(instant, 0)?;
        let offset = i32::try_from(self.ticks.calendar.offset(instant)).ok().and_then(FixedOffset::east_opt)?;
        Some(Upcoming { at, local: at.with_timezone(&offset), kind })
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
