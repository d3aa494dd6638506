//! What the administration shows of jobs, queues and workers, and which jobs it acts on.

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::id::JobId;
use crate::state::JobState;

/// Jobs counted by kind, queue and state. See [`Admin::stats`](crate::Admin::stats).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stat {
    /// The jobs' kind.
    pub kind: String,
    /// The jobs' queue.
    pub queue: String,
    /// The jobs' state.
    pub state: JobState,
    /// How many there are.
    pub jobs: u64,
    /// The oldest of them: by due time while they wait, by start while they run, by end when they are over.
    pub oldest: DateTime<Utc>,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Its state, by the database's clock at the time of the question.
    pub state: JobState,
    /// Smaller runs first.
    pub priority: i16,
    /// Attempts counted so far.
    pub attempt: u32,
    /// Retries allowed; None while the job's own number applies and no worker has claimed it.
    pub max_retries: Option<u32>,
    /// When it was enqueued.
    pub enqueued_at: DateTime<Utc>,
    /// When it was or will be due.
    pub run_at: DateTime<Utc>,
    /// When its attempt was claimed, while it runs, or the last one, when it is over; None while it waits.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// The worker that holds it, or held it when it ended; None while it waits.
    pub worker: Option<i64>,
    /// Whether somebody asked to cancel it while it runs.
    pub cancel_requested: bool,
    /// The last error of a dead letter, or the reason of a cancellation.
    pub error: Option<String>,
}

/// A job with everything that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobDetail {
    /// What lists show.
    #[serde(flatten)]
    pub job: Job,
    /// The arguments, as JSON text.
    pub args: String,
    /// The result of a completed job, as JSON text; None for `()`.
    pub result: Option<String>,
    /// Every attempt, oldest first; of those that do not count (snoozes, give-backs at a shutdown) the last hundred or two, and of
    /// all the last 1,000.
    pub attempts: Vec<Attempt>,
}

/// One attempt of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Attempt {
    /// Its number; 1 is the first. Attempts that were not counted (snoozed, given back) share the number of the next.
    pub attempt: u32,
    /// The worker that ran it.
    pub worker: i64,
    /// That worker's host and process, `host:pid`, while its row is kept.
    pub worker_name: Option<String>,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it ended; None while it runs.
    pub ended_at: Option<DateTime<Utc>>,
    /// `running`, `completed`, `failed`, `panicked`, `timed_out`, `undecodable`, `cancelled`, `snoozed`, `released`,
    /// `lost`, `unstarted`.
    pub outcome: String,
    /// The error with its chain of causes, cut at 8 KiB.
    pub error: Option<String>,
}

/// A queue. See [`Admin::queues`](crate::Admin::queues).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its name.
    pub queue: String,
    /// Since when it is paused.
    pub paused_at: Option<DateTime<Utc>>,
    /// Jobs that are not due yet.
    pub scheduled: u64,
    /// Jobs that wait for a worker.
    pub ready: u64,
    /// Jobs that are held by a worker.
    pub running: u64,
}

/// A worker process. See [`Admin::workers`](crate::Admin::workers).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Its number.
    pub id: i64,
    /// The host that it runs on.
    pub host: String,
    /// Its process number there.
    pub pid: u32,
    /// How many jobs it runs at a time.
    pub concurrency: u32,
    /// The queues it serves; empty: all.
    pub queues: Vec<String>,
    /// The kinds it serves.
    pub kinds: Vec<String>,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// Its last heartbeat.
    pub heartbeat_at: DateTime<Utc>,
    /// When it ended or was declared dead.
    pub stopped_at: Option<DateTime<Utc>>,
    /// Whether it holds its lease.
    pub alive: bool,
    /// How many jobs it holds.
    pub running: u64,
}

/// Some jobs of a list, and where the next ones start.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// In ascending order of their ids.
    pub items: Vec<T>,
    /// What to give to [`Filter::after`] for the next page; None on the last one.
    pub next: Option<JobId>,
}

/// Which jobs to list or to act on: all that match every condition set.
///
/// Jobs are found along their ids. A page of a kind or a queue that is rare among many millions of jobs reads many of them, for
/// two minutes at most; [`after`](Self::after) starts nearer to it.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub(crate) kind: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) state: Option<JobState>,
    pub(crate) after: Option<JobId>,
    pub(crate) limit: Option<u32>,
    /// Only in some states, where none is named.
    pub(crate) among: Among,
}

/// What an operation need not look through, because it changes nothing there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Among {
    #[default]
    All,
    /// Jobs that wait or run.
    Unfinished,
    /// Scheduled ones and dead letters.
    Retryable,
}

impl Filter {
    /// Every job, in pages of 100.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Only in this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Only in this state.
    #[must_use]
    pub fn state(mut self, state: JobState) -> Self {
        self.state = Some(state);
        self
    }

    /// Only ids above this one: the next page.
    #[must_use]
    pub fn after(mut self, id: JobId) -> Self {
        self.after = Some(id);
        self
    }

    /// At most so many. Of a list: in a page, 1 to 1,000, 100 by default. Of an operation on all that match: changed in all,
    /// those with the lowest ids; without a limit by default.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The same, among the jobs that wait or run; None when a condition excludes them all.
    pub(crate) fn unfinished(&self) -> Option<Self> {
        let excluded = self.state.is_some_and(JobState::is_final);
        (!excluded).then(|| Self { among: Among::Unfinished, ..self.clone() })
    }

    pub(crate) fn page(&self) -> u32 {
        self.limit.unwrap_or(100).clamp(1, MAX_PAGE)
    }
}

/// The largest page, and the number of jobs that one statement of a bulk operation touches.
pub(crate) const MAX_PAGE: u32 = 1000;
