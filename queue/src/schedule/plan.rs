//! What happens to a schedule that is due: which ticks become jobs, which are passed over, and when the next one is.
//!
//! Everything is decided here, from its row and the database's clock. Times are microseconds since 1970.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sha2::{Digest, Sha256};

use crate::schedule::calendar::Calendar;
use crate::schedule::definition::Definition;
use crate::schedule::spec::{Missed, Overlap, Schedule};
use crate::secrets::Values;

/// A tick that is younger than this is late, not missed: it is fired whatever [`Missed`] says. So a worker that dies,
/// or a deployment, costs no tick.
pub(crate) const LATE: i64 = 60 * SECOND;
/// When a row that nobody could fire for [`LATE`] is tried again.
const AGAIN: i64 = 10 * 60 * SECOND;
/// The most jobs that one schedule gets in one transaction.
pub(crate) const MOST: usize = 1_000;
/// The most ticks that are walked over and counted, one by one.
const MOST_WALKED: i32 = 100_000;
const SECOND: i64 = 1_000_000;

/// A row of `queue_schedules`.
#[derive(Debug, Clone)]
pub(crate) struct ScheduleRow {
    pub(crate) id: i64,
    pub(crate) app: String,
    pub(crate) definition: Definition,
    pub(crate) changed_at: i64,
    pub(crate) paused_at: Option<i64>,
    pub(crate) retired_at: Option<i64>,
    /// None: never. 0: to be computed.
    pub(crate) next_at: Option<i64>,
    pub(crate) last_at: Option<i64>,
    pub(crate) last_job_id: Option<i64>,
    pub(crate) error: Option<String>,
    /// By the database's clock, when the row was read.
    pub(crate) now: i64,
    /// The oldest job that waits or runs, if that matters.
    pub(crate) busy: Option<i64>,
}

impl ScheduleRow {
    /// The last tick, unless the clock has been set back behind it. Then all ticks up to now count as decided.
    pub(crate) fn last(&self) -> Option<i64> {
        self.last_at.map(|last| if last > self.now + LATE { self.now } else { last })
    }
}

/// A worker's knowledge of a kind.
#[derive(Clone, Copy)]
pub(crate) struct KnownKind {
    /// The secret arguments.
    pub(crate) secrets: &'static [&'static str],
    pub(crate) max_retries: u32,
    /// Whether arguments decode.
    pub(crate) decodes: fn(&str) -> Result<(), serde_json::Error>,
}

/// What becomes of a row.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Plan {
    /// Ticks that become jobs, in order, and when each job is due (None: at once).
    pub(crate) fire: Vec<(i64, Option<i64>)>,
    /// Ticks that are passed over.
    pub(crate) passed: Vec<Passed>,
    /// The next tick, or when to try again. None: never.
    pub(crate) next: Option<i64>,
    pub(crate) error: Option<String>,
}

impl Plan {
    /// Leaves out ticks that are decided already. It happened while the clock was ahead.
    pub(crate) fn leave_out(&mut self, taken: &[i64]) {
        self.fire.retain(|(tick, _)| !taken.contains(tick));
        self.passed.retain(|passed| !taken.contains(&passed.tick));
    }

    /// The first and the last tick that it decides.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        let ticks = || self.fire.iter().map(|(tick, _)| *tick).chain(self.passed.iter().map(|passed| passed.tick));
        ticks().min().zip(ticks().max())
    }

    /// Whether the row has it already.
    pub(crate) fn is_known_to(&self, row: &ScheduleRow) -> bool {
        self.fire.is_empty() && self.passed.is_empty() && (self.next, &self.error) == (row.next_at, &row.error)
    }
}

/// Ticks in a row that are passed over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Passed {
    pub(crate) outcome: TickOutcome,
    /// The last one.
    pub(crate) tick: i64,
    /// How many before it; at least, if that is [`MOST_WALKED`].
    pub(crate) before: i32,
}

/// What happened at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TickOutcome {
    Fired,
    Hand,
    Missed,
    Overlap,
}

impl TickOutcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fired => "fired",
            Self::Hand => "hand",
            Self::Missed => "missed",
            Self::Overlap => "overlap",
        }
    }
}

/// Decides what becomes of a row that is due.
pub(crate) fn plan(row: &ScheduleRow, kind: KnownKind) -> Plan {
    // a row may hold anything, and one that is hostile to a parser must not end the worker
    catch_unwind(AssertUnwindSafe(|| plan_soundly(row, kind))).unwrap_or_else(|_| {
        refuse(row, "reading this row panicked; the panic's message is in the worker's output".into())
    })
}

fn plan_soundly(row: &ScheduleRow, kind: KnownKind) -> Plan {
    if row.paused_at.is_some() || row.retired_at.is_some() {
        return Plan::default();
    }
    let schedule = match row.definition.schedule() {
        Ok(schedule) => schedule,
        Err(error) => return refuse(row, error.to_string()),
    };
    let due = Due::of(row, &schedule);
    Plan { error: misfit(row, kind), ..due.into_plan(row, &schedule) }
}

/// Why this build cannot decode the arguments. The job is written all the same: another build may be able to, during a
/// deploy or its rollback, and the job waits for it.
fn misfit(row: &ScheduleRow, kind: KnownKind) -> Option<String> {
    let why = match catch_unwind(|| (kind.decodes)(&row.definition.args)) {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => Values::of(kind.secrets, &row.definition.args).redact(error.to_string()),
        Err(_) => "decoding panicked".into(),
    };
    Some(format!("the arguments do not fit `{}`: {why}", row.definition.kind))
}

/// This worker cannot fire the row, or the database refuses its job. Another worker may know more, so a young tick
/// stays due. Then nothing can be done until somebody mends the row.
pub(crate) fn refuse(row: &ScheduleRow, error: String) -> Plan {
    let due_since = row.next_at.filter(|next| *next > 0).unwrap_or(row.changed_at);
    let stays = row.next_at.filter(|_| due_since > row.now - LATE);
    Plan { next: stays.or(Some(row.now + AGAIN)), error: Some(error), ..Plan::default() }
}

/// The ticks of a row up to now.
#[derive(Default)]
struct Due {
    /// Missed ticks that are passed over: how many before the last one, the one before it, and the last one.
    missed: Option<(i32, i64, i64)>,
    /// Ticks to be fired, in order. At most [`MOST`].
    ticks: Vec<i64>,
    next: Option<i64>,
}

/// Ticks later than `after`, in microseconds.
fn ticks_after(calendar: &Calendar, after: i64) -> impl Iterator<Item = i64> {
    calendar.after(after.div_euclid(SECOND)).map(|(at, _)| at * SECOND)
}

impl Due {
    fn of(row: &ScheduleRow, schedule: &Schedule) -> Self {
        let calendar = schedule.calendar();
        let since = row.changed_at.max(row.last().unwrap_or(i64::MIN));
        // a tick is a fact once it is in the row, even if another worker's time zones would compute another one
        // but beside an error it may be the time of another try
        let known = row.next_at.filter(|next| *next > 0 && *next > since && *next <= row.now && row.error.is_none());
        let keep = match schedule.missed {
            Missed::All { within } => LATE.max(i64::try_from(within.as_micros()).unwrap_or(i64::MAX)),
            Missed::None | Missed::Last => LATE,
        };
        let young = row.now.saturating_sub(keep);
        let mut due = Self::default();
        let walk_after = |first: Option<i64>, after| first.into_iter().chain(ticks_after(&calendar, after));
        let mut walk = walk_after(known, known.unwrap_or(since));
        let mut next = walk.next();
        while let Some(tick) = next.filter(|tick| *tick <= row.now && *tick < young) {
            let (before, prior) = due.missed.map_or((0, tick), |(before, _, last)| (before + 1, last));
            due.missed = Some((before, prior, tick));
            if before + 1 == MOST_WALKED {
                // so many that they are not counted any further
                let last = last_before(&calendar, tick, young);
                due.missed = Some((MOST_WALKED, tick, last));
                walk = walk_after(None, last);
            }
            next = walk.next();
        }
        while let Some(tick) = next.filter(|tick| *tick <= row.now && due.ticks.len() < MOST) {
            due.ticks.push(tick);
            next = walk.next();
        }
        due.next = next;
        // if nothing else is due, the last missed tick stands for all
        if schedule.missed == Missed::Last
            && due.ticks.is_empty()
            && let Some((before, prior, last)) = due.missed.take()
        {
            due.missed = (before > 0).then_some((before - 1, prior, prior));
            due.ticks.push(last);
        }
        due
    }

    fn into_plan(mut self, row: &ScheduleRow, schedule: &Schedule) -> Plan {
        let fired = match schedule.overlap {
            _ if row.busy.is_some() => 0,
            Overlap::Skip => 1,
            Overlap::Allow => self.ticks.len(),
        };
        let fired = self.ticks.split_off(self.ticks.len().saturating_sub(fired));
        let missed = self.missed.map(|(before, _, tick)| Passed { outcome: TickOutcome::Missed, tick, before });
        let overlapped = self.ticks.last().map(|tick| {
            let before = i32::try_from(self.ticks.len() - 1).unwrap_or(i32::MAX);
            Passed { outcome: TickOutcome::Overlap, tick: *tick, before }
        });
        let due = |tick: i64| {
            // a time in the past would only place the job before others
            Some(tick + spread(&row.definition.name, tick, schedule.jitter)).filter(|due| *due > row.now)
        };
        let fire = fired.into_iter().map(|tick| (tick, due(tick))).collect();
        Plan { fire, passed: missed.into_iter().chain(overlapped).collect(), next: self.next, error: None }
    }
}

/// The last tick before `until`, which is later than `after`. It looks back over ever longer times.
fn last_before(calendar: &Calendar, after: i64, until: i64) -> i64 {
    let mut back = 60 * SECOND;
    loop {
        let from = until.saturating_sub(back).max(after);
        if let Some(last) = ticks_after(calendar, from - SECOND).take_while(|tick| *tick < until).last() {
            return last;
        }
        if from == after {
            return after;
        }
        back *= 8;
    }
}

/// How long after its tick a job is due: the same on every worker.
fn spread(name: &str, tick: i64, jitter: std::time::Duration) -> i64 {
    let most = i64::try_from(jitter.as_micros()).unwrap_or(i64::MAX);
    if most == 0 {
        return 0;
    }
    let hash = Sha256::new().chain_update(name).chain_update(tick.to_le_bytes()).finalize();
    let number = hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
    i64::try_from(number % most.unsigned_abs()).unwrap_or(0)
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
