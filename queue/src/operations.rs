//! Operations: what the administration changes, on one job or on all that match, and the record of it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::gauges::Count;
use crate::state::{JobId, JobState};
use crate::store::view::{Among, Filter, JobRow};

/// Who changes something, and why. See [`Admin::acting`](crate::admin::Admin::acting).
///
/// ```
/// use queue::admin::Actor;
///
/// let ada = Actor::new("ada").reason("INC-421");
/// # let _ = ada;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub(crate) name: String,
    pub(crate) reason: Option<String>,
}

impl Actor {
    /// A person or a program. Only the first 255 characters are kept.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into().chars().take(255).collect(), reason: None }
    }

    /// Why. Only the first 1,000 characters are kept.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into().chars().take(1_000).collect());
        self
    }
}

/// What to do about a job that cannot be edited.
pub(crate) const CURE: &str = "only waiting jobs and dead letters can be edited";

/// What [`Admin::plan`](crate::admin::Admin::plan) can do to jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// See [`Admin::retry`](crate::admin::Admin::retry).
    Retry,
    /// See [`Admin::send_back`](crate::admin::Admin::send_back).
    SendBack,
    /// See [`Admin::cancel`](crate::admin::Admin::cancel).
    Cancel,
    /// See [`Admin::delete`](crate::admin::Admin::delete).
    Delete,
    /// See [`Admin::reschedule`](crate::admin::Admin::reschedule).
    Reschedule(DateTime<Utc>),
    /// Replaces these fields of the arguments. See [`Admin::edit_args`](crate::admin::Admin::edit_args).
    Edit(serde_json::Map<String, serde_json::Value>),
}

impl Action {
    /// In records, such as `send_back`.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::SendBack => "send_back",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Reschedule(_) => "reschedule",
            Self::Edit(_) => "edit",
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::SendBack => "send back",
            action => action.word(),
        }
    }

    pub(crate) fn applies_to(&self, state: JobState) -> bool {
        use JobState::{Dead, Ready, Running, Scheduled};
        match self {
            Self::Retry => matches!(state, Scheduled | Dead),
            Self::SendBack => state == Dead,
            Self::Cancel => matches!(state, Scheduled | Ready | Running),
            Self::Delete => state != Running,
            Self::Reschedule(_) => matches!(state, Scheduled | Ready),
            Self::Edit(_) => matches!(state, Scheduled | Ready | Dead),
        }
    }

    /// Whether a job in this state already is what the action makes of it.
    pub(crate) fn is_done(&self, state: JobState) -> bool {
        match self {
            Self::Retry => state == JobState::Ready,
            Self::Cancel => state == JobState::Cancelled,
            _ => false,
        }
    }

    /// Of a change of one job.
    pub(crate) fn details(&self) -> serde_json::Value {
        match self {
            Self::Reschedule(at) => json!({"run_at": at}),
            // not what they are: the record outlives the job
            Self::Edit(fields) => json!({"fields": fields.keys().collect::<Vec<_>>()}),
            _ => json!({}),
        }
    }

    /// What to do instead, for a job in this state.
    pub(crate) fn cure(&self, state: JobState) -> &'static str {
        match self {
            Self::Retry if state == JobState::Running => "wait until its attempt has ended",
            Self::Retry => "only scheduled jobs and dead letters can be retried; enqueue a new job",
            Self::SendBack => "only dead letters can be sent back",
            Self::Cancel => "only waiting and running jobs can be cancelled; delete it if you no longer need it",
            Self::Delete => "cancel it first, and delete it when it has stopped",
            Self::Reschedule(_) => "only waiting jobs can be rescheduled; send a dead letter back first",
            Self::Edit(_) => CURE,
        }
    }

    /// The jobs that it can change among those that match. `None`: there are none.
    pub(crate) fn narrowed(&self, filter: &Filter) -> Option<Filter> {
        let excluded = filter.state.is_some_and(|state| !self.applies_to(state));
        let state = if *self == Self::SendBack { Some(JobState::Dead) } else { filter.state };
        (!excluded).then(|| Filter { state, among: self.among(), ..filter.clone() })
    }

    /// The tables that it looks at.
    pub(crate) fn among(&self) -> Among {
        match self {
            Self::Retry => Among::Retryable,
            Self::Cancel | Self::Reschedule(_) => Among::Unfinished,
            Self::SendBack | Self::Delete | Self::Edit(_) => Among::All,
        }
    }
}

/// What an operation on many jobs does, as its record keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) action: Action,
    pub(crate) filter: Filter,
    /// The most jobs that it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first: Option<u64>,
    /// Over how many microseconds their due times are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) over_us: Option<i64>,
    /// No job above this one.
    pub(crate) upto: i64,
    /// Nothing that ended later.
    pub(crate) planned_at: DateTime<Utc>,
}

impl Task {
    /// Whether it changes a job that its filter has found.
    pub(crate) fn wants(&self, job: &JobRow) -> bool {
        self.action.applies_to(job.state)
            && self.filter.has(job)
            && job.id.get() <= self.upto
            && job.finished_at.is_none_or(|at| at <= self.planned_at)
    }

    /// `from`: when it began.
    pub(crate) fn spread(&self, from: DateTime<Utc>) -> Option<Spread> {
        self.over_us.map(|over_us| Spread { from: from.timestamp_micros(), over_us })
    }

    /// How many more it may change.
    pub(crate) fn left(&self, changed: u64) -> usize {
        let left = self.first.map_or(u64::MAX, |first| first.saturating_sub(changed));
        usize::try_from(left).unwrap_or(usize::MAX)
    }
}

/// When the jobs of an operation become due. Each has a place of its own, whoever computes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    /// Microseconds since 1970.
    pub(crate) from: i64,
    pub(crate) over_us: i64,
}

impl Spread {
    /// Multiples of the golden ratio lie evenly, also those of consecutive ids.
    pub(crate) fn due(&self, id: i64) -> i64 {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let place = u128::from(id.cast_unsigned().wrapping_mul(GOLDEN));
        let after = (place * u128::from(self.over_us.max(0).cast_unsigned())) >> 64;
        self.from.saturating_add(i64::try_from(after).unwrap_or(i64::MAX))
    }
}

/// How far an operation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Progress {
    /// It goes on, if need be in another process: any worker takes it over when its program has ended.
    Running,
    /// It is over.
    Done,
    /// [`Admin::stop`](crate::admin::Admin::stop) has ended it.
    Stopped,
}

impl Progress {
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "running" => Self::Running,
            "stopped" => Self::Stopped,
            _ => Self::Done,
        }
    }

    /// As in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
        }
    }
}

/// Something that was done through [`Admin`](crate::admin::Admin). Its record is the audit log, and the progress of
/// what is not over. It is kept for 400 days.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Operation {
    /// Its number.
    pub id: i64,
    /// When it began.
    pub at: DateTime<Utc>,
    /// Who did it.
    pub actor: String,
    /// Why.
    pub reason: Option<String>,
    /// What, such as `send_back`, `pause` or `stop`.
    pub action: String,
    /// What it changes and how: a filter, a queue, a new due time.
    pub details: serde_json::Value,
    /// The job, if it changes one.
    pub job: Option<JobId>,
    /// How far it has come.
    pub progress: Progress,
    /// How many jobs, queues or schedules it has changed.
    pub changed: u64,
    /// How many jobs it could not change. [`Admin::refusals`](crate::admin::Admin::refusals) names them.
    pub refused: Count,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
}

/// A job that an operation could not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RefusedJob {
    /// The job.
    pub job: JobId,
    /// Why.
    pub reason: String,
}

/// A record to be written.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    pub(crate) by: Actor,
    pub(crate) action: &'static str,
    /// JSON.
    pub(crate) details: String,
    pub(crate) job: Option<i64>,
}

/// After this many leases without a step, a worker takes an operation over: its program has probably ended.
pub(crate) const SILENT_LEASES: u32 = 4;
/// How long records are kept.
pub(crate) const KEPT: Duration = Duration::from_secs(400 * 86_400);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn jobs_are_spread_evenly(first in any::<i64>(), jobs in 1..500_i64, over_us in 0..=i64::MAX) {
            let spread = Spread { from: 0, over_us };
            let due: Vec<i64> = (0..jobs).map(|n| spread.due(first.wrapping_add(n))).collect();
            prop_assert!(due.iter().all(|due| (0..=over_us).contains(due)));
            let half = due.iter().filter(|due| **due < over_us / 2).count() as i64;
            prop_assert!(over_us < 1_000 || (half - jobs / 2).abs() <= 3 + jobs / 50, "{half} of {jobs}");
        }
    }

    #[test]
    fn a_filter_for_other_states_matches_nothing() {
        let of = |state| Filter::new().state(state);
        assert!(Action::SendBack.narrowed(&of(JobState::Ready)).is_none());
        assert!(Action::Cancel.narrowed(&of(JobState::Dead)).is_none());
        assert!(Action::Delete.narrowed(&of(JobState::Running)).is_none());
        assert!(Action::Retry.narrowed(&of(JobState::Dead)).is_some());
        assert_eq!(Action::SendBack.narrowed(&Filter::new()).unwrap().state, Some(JobState::Dead));
    }
}
