//! The id of a job, its states and the edges between them.
//!
//! ```text
//!  enqueue ──► scheduled ──time passes──► ready ──claim──► running ──complete──► completed
//!                 ▲  ▲                      ▲                │ │ └─────cancel────► cancelled
//!                 │  └──retry / snooze──────┼────────────────┘ └───────bury──────► dead
//!                 │                         ├──release, rescue (lease lost)──┘        │
//!                 └──reschedule             └───────────────send back─────────────────┘
//! ```
//!
//! * `scheduled` and `ready` are the same in the table: a row of `queue_jobs` that no worker holds (`worker_id = 0`).
//!   Only the database's clock separates them (`run_at`), so no row has to be moved when a job becomes due.
//! * `running` is a row of `queue_jobs` that a worker holds.
//! * `completed` and `cancelled` rows are in `queue_history`, `dead` ones in `queue_dead`.
//!
//! An attempt ends as one value, [`End`](crate::store::values::End). [`Jobs::end`](crate::store::Jobs::end) writes it
//! for the worker, [`complete`](crate::store::engine::jobs::ends::complete) in a transaction of the handler's. Both
//! name the fence of the attempt. So a worker that was paused or cut off cannot move a job that another one holds by
//! now. A rescue moves only the jobs of lost workers. Every other edge is one method of the store, and nothing else
//! writes a state.

use serde::{Deserialize, Serialize};

/// The id of a job, unique within one database. The id of a committed job is never reused. (SQLite reuses the id of an
/// enqueue that was rolled back.)
///
/// ```
/// let id = queue::JobId::from(42);
/// assert_eq!(id.to_string(), "42");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(i64);

impl JobId {
    /// The value in the `id` column.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for JobId {
    fn from(id: i64) -> Self {
        Self(id)
    }
}

impl From<JobId> for i64 {
    fn from(id: JobId) -> Self {
        id.0
    }
}

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for JobId {
    type Err = std::num::ParseIntError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(Self)
    }
}

/// The state of a job.
///
/// ```
/// use queue::JobState;
/// assert_eq!(JobState::Dead.to_string(), "dead");
/// assert_eq!("running".parse(), Ok(JobState::Running));
/// assert!(JobState::Completed.is_final());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum JobState {
    /// Waits until it is due.
    Scheduled,
    /// Is due, and waits for a worker.
    Ready,
    /// Held by a worker.
    Running,
    /// Ended successfully. Kept in the history until retention removes it.
    Completed,
    /// Ended by a cancellation. Kept in the history until retention removes it.
    Cancelled,
    /// A dead letter: failed too often, or could not run at all. Kept until somebody acts.
    Dead,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 6] =
        [Self::Scheduled, Self::Ready, Self::Running, Self::Completed, Self::Cancelled, Self::Dead];

    /// The word in the SQL views, in logs and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
        }
    }

    /// Whether the job has ended. No worker runs it any more, unless a dead letter is sent back.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Dead)
    }

    /// Whether the state machine has an edge from here to `next`.
    ///
    /// ```
    /// use queue::JobState::*;
    /// assert!(Running.may_become(Completed));
    /// assert!(!Completed.may_become(Ready)); // a finished job never runs again
    /// ```
    pub const fn may_become(self, next: Self) -> bool {
        use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
        matches!(
            (self, next),
            (Scheduled, Ready | Scheduled | Cancelled)
                | (Ready, Running | Scheduled | Cancelled)
                | (Running, Completed | Cancelled | Dead | Scheduled | Ready)
                | (Dead, Ready)
        )
    }
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a text that is not the name of a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a job state; write one of scheduled, ready, running, completed, cancelled, dead")]
pub struct UnknownState(String);

impl std::str::FromStr for JobState {
    type Err = UnknownState;

    fn from_str(s: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == s).ok_or_else(|| UnknownState(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for state in JobState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("Ready".parse::<JobState>().is_err());
    }

    #[test]
    fn final_states_have_no_way_back_but_the_dead_letters() {
        for from in JobState::ALL.into_iter().filter(|s| s.is_final()) {
            for to in JobState::ALL {
                assert_eq!(from.may_become(to), from == JobState::Dead && to == JobState::Ready);
            }
        }
    }
}
