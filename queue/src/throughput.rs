//! Throughput: what started and ended in each minute or hour, from the tallies that workers write.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// What started and ended lately. See [`Admin::throughput`](crate::admin::Admin::throughput).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Throughput {
    /// How long the time is that each tally covers: a minute or an hour.
    pub span: Duration,
    /// The beginning of the minute or hour that is not over, by the database's clock. Tallies from then on still grow.
    pub open_since: DateTime<Utc>,
    /// In the order of their times, then by queue, kind and outcome. Where nothing happened there is none.
    pub tallies: Vec<Tally>,
    /// False if there are more tallies than were read. The oldest are left out.
    pub complete: bool,
}

impl Throughput {
    /// The tallies of the minutes or hours that are over.
    pub fn over(&self) -> impl Iterator<Item = &Tally> {
        self.tallies.iter().filter(|tally| tally.began_at < self.open_since)
    }
}

/// How often one thing happened within a minute or an hour. See [`Throughput`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tally {
    /// When that minute or hour began, by the database's clock.
    pub began_at: DateTime<Utc>,
    /// The jobs' queue. Empty, as the kind: all those for which a worker had no room.
    pub queue: String,
    /// The jobs' kind.
    pub kind: String,
    /// What happened.
    pub outcome: TallyOutcome,
    /// To how many attempts.
    pub attempts: u64,
    /// All their times together: from due to the start of those that started, else how long they ran.
    pub total: Duration,
    /// The longest of these times.
    pub longest: Duration,
}

/// What a [`Tally`] counts: starts of attempts, or one way in which they end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TallyOutcome {
    /// An attempt started.
    Started,
    /// It completed its job.
    Completed,
    /// It failed, and its job waits for another one.
    Failed,
    /// It failed, and its job became a dead letter.
    Dead,
    /// Its job was cancelled.
    Cancelled,
    /// Its job asked to run later.
    Snoozed,
    /// It does not count: a shutdown, or the handler did not begin.
    Released,
}

impl TallyOutcome {
    pub(crate) const ALL: [Self; 7] =
        [Self::Started, Self::Completed, Self::Failed, Self::Dead, Self::Cancelled, Self::Snoozed, Self::Released];

    /// The word that is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Snoozed => "snoozed",
            Self::Released => "released",
        }
    }

    /// Whether an attempt ended. All but [`Started`](Self::Started) are ends.
    pub const fn is_end(self) -> bool {
        !matches!(self, Self::Started)
    }

    /// Whether the attempt failed: [`Failed`](Self::Failed) or [`Dead`](Self::Dead).
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Failed | Self::Dead)
    }
}
