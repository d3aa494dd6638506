//! What [`Admin`](crate::admin::Admin) returns about jobs, queues and workers, and how its callers select jobs.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::failures::group_of;
use crate::state::{JobId, JobState};

/// The number of jobs of one kind, queue and state. See [`Admin::stats`](crate::admin::Admin::stats).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stat {
    /// The jobs' kind.
    pub kind: String,
    /// The jobs' queue.
    pub queue: String,
    /// The jobs' state.
    pub state: JobState,
    /// The number of jobs.
    pub jobs: u64,
    /// How many of them wait, and their last attempt failed. See [`JobRow::retrying`].
    pub retrying: u64,
    /// The time of the oldest job: the due time of waiting jobs, the start of running ones, the end of finished ones.
    pub oldest: DateTime<Utc>,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobRow {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Its state when it was read, by the database's clock.
    pub state: JobState,
    /// Smaller runs first.
    pub priority: i16,
    /// Attempts counted so far.
    pub attempt: u32,
    /// Retries allowed. `None` until the first claim if the row sets none: the default of its kind applies then.
    pub max_retries: Option<u32>,
    /// The time of the enqueue.
    pub enqueued_at: DateTime<Utc>,
    /// The due time.
    pub run_at: DateTime<Utc>,
    /// When the current or last attempt was claimed. `None` while the job waits.
    pub claimed_at: Option<DateTime<Utc>>,
    /// When the job ended. `None` until then.
    pub finished_at: Option<DateTime<Utc>>,
    /// The worker that holds the job, or held it when it ended. `None` while the job waits.
    pub worker: Option<i64>,
    /// Whether the job runs and somebody has asked to cancel it.
    pub cancel_requested: bool,
    /// Whether the job waits, and its last attempt failed or was lost: the next one is at `run_at`. Attempts that a
    /// shutdown released do not matter. A dead letter that was sent back counts, until its next attempt.
    pub retrying: bool,
    /// Of an unfinished job: the error of its last attempt, if that failed. Of a dead letter: its last error. Of a
    /// cancelled job: the reason. Of a completed job: why its result was not kept. With the chain of causes, cut to
    /// 8 KiB.
    pub error: Option<String>,
}

/// A job with its arguments, result and attempts. See [`Admin::job`](crate::admin::Admin::job).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct JobDetail {
    /// What lists show.
    #[serde(flatten)]
    pub job: JobRow,
    /// The arguments, as JSON text.
    pub args: String,
    /// The result of a completed job, as JSON text. `None` for `()`.
    pub result: Option<String>,
    /// The [metadata](crate::Job::meta), as JSON text. `None` if the job has none.
    pub meta: Option<String>,
    /// The key of a unique job, whether or not it still keeps others out. `None` for any other job.
    pub unique_key: Option<String>,
    /// The last 1,000 attempts, oldest first. Only the last hundred or two that do not count (snoozes, releases at a
    /// shutdown) are kept.
    pub attempts: Vec<Attempt>,
}

/// One attempt of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Attempt {
    /// Its number; 1 is the first. An attempt that does not count (snoozed, released) shares its number with the next.
    pub attempt: u32,
    /// The worker that ran it.
    pub worker: i64,
    /// The worker's host and process as `host:pid`, while its row is kept.
    pub worker_name: Option<String>,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it ended. `None` while it runs.
    pub ended_at: Option<DateTime<Utc>>,
    /// `running`, `completed`, `failed`, `panicked`, `timed_out`, `undecodable`, `cancelled`, `snoozed`, `released`,
    /// `lost`, `unstarted`.
    pub outcome: String,
    /// The error with its chain of causes, or the reason of a snooze, cut to 8 KiB.
    pub error: Option<String>,
}

/// A worker process. See [`Admin::workers`](crate::admin::Admin::workers).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// Its id.
    pub id: i64,
    /// The host that it runs on.
    pub host: String,
    /// Its process id on that host.
    pub pid: u32,
    /// How many jobs it may run at a time.
    pub concurrency: u32,
    /// The queues that it serves. Empty means all.
    pub queues: Vec<String>,
    /// The kinds that it serves.
    pub kinds: Vec<String>,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// The time of its last heartbeat.
    pub heartbeat_at: DateTime<Utc>,
    /// When it ended or was declared lost. `None` until then.
    pub stopped_at: Option<DateTime<Utc>>,
    /// Whether its lease still runs.
    pub alive: bool,
    /// How many jobs it holds.
    pub running: u64,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// The items in ascending order of their ids.
    pub items: Vec<T>,
    /// The argument of [`Filter::after`] for the next page. `None` on the last page.
    pub next: Option<JobId>,
}

/// Selects the jobs to list or change: those that match all conditions set.
///
/// A list is read in order of the ids. A page of a kind or queue that is rare among many millions of jobs reads many
/// rows, for two minutes at most. Call [`after`](Self::after) to start closer to its jobs. Conditions on errors and
/// failures look up the attempts of each job that they meet.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use queue::admin::{Admin, Filter};
///
/// let deploy = chrono::Utc::now() - chrono::TimeDelta::minutes(20);
/// let broken = Filter::new().failed_since(deploy).error("no such column");
/// let sent_back = Admin::new(&pool).send_back_all(&broken).await?;
/// # assert_eq!(sent_back, 0);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub(crate) kind: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) state: Option<JobState>,
    pub(crate) retrying: bool,
    pub(crate) min_attempt: Option<u32>,
    pub(crate) error: Option<String>,
    pub(crate) enqueued_since: Option<DateTime<Utc>>,
    pub(crate) enqueued_before: Option<DateTime<Utc>>,
    pub(crate) failed_since: Option<DateTime<Utc>>,
    pub(crate) failed_before: Option<DateTime<Utc>>,
    pub(crate) group: Option<String>,
    pub(crate) after: Option<JobId>,
    pub(crate) limit: Option<u32>,
    /// Limits the states if `state` is not set.
    pub(crate) among: Among,
}

/// The states that an operation can change. It skips the tables of all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Among {
    #[default]
    All,
    /// Jobs that wait or run.
    Unfinished,
    /// Scheduled jobs and dead letters.
    Retryable,
}

impl Filter {
    /// Selects every job, in pages of 100.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects only jobs of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Selects only jobs in this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Selects only jobs in this state.
    #[must_use]
    pub fn state(mut self, state: JobState) -> Self {
        self.state = Some(state);
        self
    }

    /// Selects only jobs that wait, and whose last attempt failed. See [`JobRow::retrying`].
    #[must_use]
    pub fn retrying(mut self) -> Self {
        self.retrying = true;
        self
    }

    /// Selects only jobs with at least this many counted attempts.
    #[must_use]
    pub fn min_attempt(mut self, attempt: u32) -> Self {
        self.min_attempt = Some(attempt);
        self
    }

    /// Selects only jobs whose [`error`](JobRow::error) contains this text. Case matters.
    #[must_use]
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.error = Some(text.into());
        self
    }

    /// Selects only jobs that were enqueued at this time or later.
    #[must_use]
    pub fn enqueued_since(mut self, time: DateTime<Utc>) -> Self {
        self.enqueued_since = Some(time);
        self
    }

    /// Selects only jobs that were enqueued before this time.
    #[must_use]
    pub fn enqueued_before(mut self, time: DateTime<Utc>) -> Self {
        self.enqueued_before = Some(time);
        self
    }

    /// Selects only dead letters, and unfinished jobs whose last attempt failed, if that was at this time or later.
    /// After a deploy that made jobs fail, this finds those, and leaves older failures alone.
    #[must_use]
    pub fn failed_since(mut self, time: DateTime<Utc>) -> Self {
        self.failed_since = Some(time);
        self
    }

    /// Selects only dead letters, and unfinished jobs whose last attempt failed, if that was before this time.
    #[must_use]
    pub fn failed_before(mut self, time: DateTime<Utc>) -> Self {
        self.failed_before = Some(time);
        self
    }

    /// Selects only jobs that fail in this way: see [`FailureGroup::group`](crate::admin::FailureGroup::group), whose first
    /// digits are enough. Each job
    /// that matches the other conditions is read, so add its kind and state. A page of a list has fewer jobs, or none.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Selects only ids above this one, for the next page.
    #[must_use]
    pub fn after(mut self, id: JobId) -> Self {
        self.after = Some(id);
        self
    }

    /// Sets the largest number of jobs. For a list it is the page size, from 1 to 1,000 (default 100). A bulk operation
    /// changes at most this many jobs, those with the lowest ids (default: no limit).
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The same filter for jobs that wait or run only. `None` if its state excludes them all.
    pub(crate) fn unfinished(&self) -> Option<Self> {
        let excluded = self.state.is_some_and(JobState::is_final);
        (!excluded).then(|| Self { among: Among::Unfinished, ..self.clone() })
    }

    /// Whether a job that the database found is in the group.
    pub(crate) fn has(&self, job: &JobRow) -> bool {
        let of = |job: &JobRow| group_of(&job.kind, job.error.as_deref().unwrap_or_default());
        self.group.as_ref().is_none_or(|group| job.error.is_some() && of(job).starts_with(&**group))
    }

    pub(crate) fn page(&self) -> u32 {
        self.limit.unwrap_or(100).clamp(1, MAX_PAGE)
    }
}

/// The largest page, and the most jobs that one statement of a bulk operation changes.
pub(crate) const MAX_PAGE: u32 = 1000;
