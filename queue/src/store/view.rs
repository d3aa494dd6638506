//! What [`Admin`](crate::admin::Admin) returns about jobs, queues and workers, and how its callers select jobs.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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
    /// The arguments, as JSON text. Those that are [`hidden`](Self::hidden) have the mark for a value.
    pub args: String,
    /// The secret arguments of the kind. `None`: all are hidden, because neither this program nor a worker has declared
    /// the kind. See [`Admin::reveal_secrets`](crate::admin::Admin::reveal_secrets).
    pub hidden: Option<Vec<String>>,
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

impl JobDetail {
    /// Whether the value of an argument is hidden.
    pub fn hides(&self, argument: &str) -> bool {
        self.hidden.as_ref().is_none_or(|hidden| hidden.iter().any(|name| name == argument))
    }
}

/// One attempt of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// An attempt that ended. See [`Admin::ended`](crate::admin::Admin::ended).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Ended {
    /// Its job.
    pub id: JobId,
    /// The job's kind. Empty, as the queue: the job was deleted.
    pub kind: String,
    /// The job's queue.
    pub queue: String,
    /// It left a dead letter, which is still one.
    pub is_dead: bool,
    /// How it ended. The error is cut to 2,000 characters.
    #[serde(flatten)]
    pub attempt: Attempt,
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
    /// How many jobs it may run at a time of each queue that has a limit of its own. Empty also for workers that started
    /// before schema version 8.
    pub limits: BTreeMap<String, u32>,
    /// How many jobs it holds of each queue.
    pub held: BTreeMap<String, u64>,
}

/// One page of a list, and how far the search for it went.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Page<T> {
    /// The items, newest first: in descending order of their ids.
    pub items: Vec<T>,
    /// The argument of [`Filter::before`] for the next page, also if this one has no items. `None` if it is
    /// [`complete`](Self::complete).
    pub next: Option<JobId>,
    /// How many rows the search looked at.
    pub searched: u64,
    /// How far back it looked: when the job [`next`](Self::next) was enqueued, or the oldest job if there is no next.
    /// `None`: there was no row.
    pub back_to: Option<DateTime<Utc>>,
    /// Whether the search has looked at everything that could match. If not, there may be more.
    pub complete: bool,
}

/// A part of a walk over all matching jobs.
#[derive(Debug)]
pub(crate) struct Walked {
    /// In ascending order of their ids, [`MAX_PAGE`] at most.
    pub(crate) jobs: Vec<JobRow>,
    /// Where to go on. `None`: nothing is above.
    pub(crate) next: Option<i64>,
}

/// Selects the jobs to list or change: those that match all conditions set.
///
/// A list begins with the newest job. See [`Admin::jobs`](crate::admin::Admin::jobs) for how far it looks. As JSON, a
/// filter has one field for each condition that is set.
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
// one that another version wrote must not match more than it says
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<JobState>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) retrying: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) enqueued_since: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) enqueued_before: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed_since: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed_before: Option<DateTime<Utc>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) worker: Option<i64>,
    /// Values by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) args: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u32>,
    /// Limits the states if `state` is not set. It belongs to an operation.
    #[serde(skip)]
    pub(crate) among: Among,
}

/// The states that an operation can change. It skips the tables of all others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

    /// Selects only jobs that this worker holds, or held when they ended.
    #[must_use]
    pub fn worker(mut self, id: i64) -> Self {
        self.worker = Some(id);
        self
    }

    /// Selects only jobs with this argument. A path leads into objects by name and into lists by number, such as
    /// `order.items.0`. A string is compared by its content, and a number, `true`, `false` or `null` as it is written.
    /// Objects and lists match no value. Several arguments must all match.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::{Admin, Filter};
    /// use queue::{Job, job};
    ///
    /// #[job]
    /// async fn send_email(to: String, order: u64) {}
    ///
    /// let id = SendEmail::new("ada@example.org", 42).enqueue(&pool).await?;
    /// let found = Admin::new(&pool).jobs(&Filter::new().arg("to", "ada@example.org").arg("order", "42")).await?;
    /// assert_eq!(found.items[0].id, id);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn arg(mut self, path: impl Into<String>, value: impl Into<String>) -> Self {
        self.args.insert(path.into(), value.into());
        self
    }

    /// Selects only jobs that fail in this way: see [`FailureGroup::group`](crate::admin::FailureGroup::group), whose
    /// first digits are enough.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Selects only ids below this one: [`Page::next`], for the next page.
    #[must_use]
    pub fn before(mut self, id: JobId) -> Self {
        self.before = Some(id);
        self
    }

    /// Sets the largest number of jobs. For a list it is the page size, from 1 to 1,000 (default 100). A bulk operation
    /// changes at most this many jobs, those with the lowest ids (default: no limit).
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Whether it selects jobs because they failed.
    pub(crate) fn is_about_failures(&self) -> bool {
        self.retrying || self.error.is_some() || self.group.is_some() || self.failed_since.is_some()
    }

    /// Whether a job that the database found is in the group.
    pub(crate) fn has(&self, job: &JobRow) -> bool {
        let of = |job: &JobRow| group_of(&job.kind, job.error.as_deref().unwrap_or_default());
        self.group.as_ref().is_none_or(|group| job.error.is_some() && of(job).starts_with(&**group))
    }

    /// The longest text that fitting arguments contain, unless some of their text is written as `\u…`. `None`: any
    /// arguments fit.
    pub(crate) fn needle(&self) -> Option<&str> {
        let may_be_escaped = |char: char| matches!(char, '"' | '\\' | '/') || char.is_control();
        self.args.values().flat_map(|value| value.split(may_be_escaped)).max_by_key(|part| part.len())
    }

    /// Whether arguments have all the values.
    pub(crate) fn fits(&self, args: &str) -> bool {
        self.args.iter().all(|(path, value)| text_at(args, path).is_some_and(|text| text == *value))
    }

    /// The highest id.
    pub(crate) fn top(&self) -> i64 {
        self.before.map_or(i64::MAX, |id| id.get().saturating_sub(1))
    }

    pub(crate) fn page(&self) -> u32 {
        self.limit.unwrap_or(100).clamp(1, MAX_PAGE)
    }
}

/// The largest page, and the most jobs that one statement of a bulk operation changes.
pub(crate) const MAX_PAGE: u32 = 1000;

/// The value at a path of names and numbers: the content of a string, or anything else but a list or object as it is
/// written. `None`: there is none, or this is not JSON.
fn text_at(json: &str, path: &str) -> Option<String> {
    let mut at: &RawValue = serde_json::from_str(json).ok()?;
    for name in path.split('.') {
        at = match at.get().as_bytes().first() {
            Some(b'{') => serde_json::from_str::<HashMap<String, &RawValue>>(at.get()).ok()?.remove(name)?,
            Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(at.get()).ok()?.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    match at.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(at.get()).ok(),
        Some(b'{' | b'[') => None,
        _ => Some(at.get().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_a_text() {
        let json = r#" {"a": "x\u00e9\ud83d\ude00", "b": {"c": [1, 2.50, {"d": true}], "": null},
            "e": -1e400, "f": "\ud800"} "#;
        for (path, text) in [
            ("a", Some("xé😀")),
            ("b.c.1", Some("2.50")),
            ("b.c.2.d", Some("true")),
            ("b.", Some("null")),
            ("e", Some("-1e400")),
            ("f", None),
            ("b", None),
            ("b.c", None),
            ("b.c.3", None),
            ("b.c.x", None),
            ("a.b", None),
            ("g", None),
        ] {
            assert_eq!(text_at(json, path).as_deref(), text, "{path}");
        }
        assert_eq!(["", "{", "{a: 1}", "7", "[1]"].map(|json| text_at(json, "a")), [const { None }; 5]);
        assert_eq!(text_at(r#"{"a": 1, "a": 2}"#, "a").as_deref(), Some("2"), "as handlers read it");
    }

    #[test]
    fn the_needle_is_in_all_arguments_that_fit() {
        let needle = |value| Filter::new().arg("a", "b").arg("c", value).needle().map(str::to_owned);
        assert_eq!(needle("x\"yy/zé").as_deref(), Some("zé"));
        assert_eq!((Filter::new().needle(), Filter::new().arg("a", "").needle()), (None, Some("")));
    }

    #[test]
    fn a_filter_is_kept_as_json() {
        let filter = Filter::new().state(JobState::Dead).kind("a").worker(7).arg("order.id", "42").before(9.into());
        let json = r#"{"kind":"a","state":"dead","worker":7,"args":{"order.id":"42"},"before":9}"#;
        assert_eq!(serde_json::to_string(&filter).expect("JSON"), json);
        assert_eq!(serde_json::from_str::<Filter>(json).expect("a filter"), filter);
        assert_eq!(serde_json::to_string(&Filter::new()).expect("JSON"), "{}");
        let all = Filter::new().queue("q").retrying().min_attempt(2).error("e").group("f").limit(3);
        let all = all.enqueued_since(DateTime::UNIX_EPOCH).enqueued_before(DateTime::UNIX_EPOCH);
        let all = all.failed_since(DateTime::UNIX_EPOCH).failed_before(DateTime::UNIX_EPOCH);
        let json = serde_json::to_string(&all).expect("JSON");
        assert_eq!(serde_json::from_str::<Filter>(&json).expect("a filter"), all);
        assert!(serde_json::from_str::<Filter>(r#"{"kind":"a","colour":"red"}"#).is_err(), "it would match more");
    }
}
