//! Operations on all jobs that match: planned, carried out step by step, and on record.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::admin::Admin;
use crate::carry_out::{carry_out, saved};
use crate::error::Error;
use crate::gauges::Count;
use crate::limits::micros;
use crate::operations::{Action, Operation, Progress, RefusedJob, Task};
use crate::state::JobId;
use crate::store::view::{Filter, JobRow};

/// A plan counts to here, and no longer than this.
const COUNTED: usize = 10_000;
const COUNTED_FOR: Duration = Duration::from_millis(200);
/// How many jobs a plan shows.
const SHOWN: usize = 20;

/// What an [`Action`] would do to all jobs that match a filter. Nothing has changed yet. The plan leaves out jobs that
/// are enqueued, or become dead letters, after it was made.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use std::time::Duration;
/// use queue::admin::{Action, Actor, Admin, Filter};
///
/// let admin = Admin::new(&pool).acting(Actor::new("ada").reason("INC-421"));
/// let plan = admin.plan(Action::SendBack, &Filter::new().kind("send_email")).await?;
/// println!("{} would be sent back, such as {:?}", plan.count(), plan.samples().first());
/// let one = plan.clone().first(1).run().await?;
/// assert_eq!(one.changed, 0, "there are no dead letters here");
/// let all = plan.over(Duration::from_secs(600)).run().await?;
/// println!("{} sent back, {} refused", all.changed, all.refused);
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "it does nothing until it is run"]
pub struct Plan {
    admin: Admin,
    task: Task,
    count: Count,
    samples: Vec<JobRow>,
}

impl Plan {
    /// How many jobs match now: exact up to 10,000.
    pub fn count(&self) -> Count {
        self.count
    }

    /// The first 20 of them, as they are now.
    pub fn samples(&self) -> &[JobRow] {
        &self.samples
    }

    /// Changes at most this number of jobs, those with the lowest ids.
    pub fn first(mut self, jobs: u64) -> Self {
        self.task.first = Some(self.task.first.map_or(jobs, |first| first.min(jobs)));
        self
    }

    /// Spreads their due times evenly over this time from now. So a service that just recovered is not overloaded again.
    /// This is for [`Action::SendBack`] and [`Action::Retry`]; no other action makes jobs due, and is refused.
    pub fn over(mut self, time: Duration) -> Self {
        self.task.over_us = Some(micros(time));
        self
    }

    /// Carries it out, and returns when it is over. It works in steps of up to 1,000 jobs. If this future is dropped,
    /// or the program ends, a worker goes on with it within a minute: [`Admin::stop`] ends it.
    ///
    /// # Errors
    /// [`Error::Config`] for an action that cannot be spread [over](Self::over) a time. [`Error::Database`]: the steps
    /// before remain, and a worker goes on with the rest.
    pub async fn run(self) -> Result<Operation, Error> {
        self.admin.run(&self.task).await
    }

    /// Puts it on record, to be carried out by [`Admin::go_on`], for example beside something that shows its progress.
    /// If nobody does, a worker goes on with it within a minute.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn begin(self) -> Result<Operation, Error> {
        let id = self.admin.begin(&self.task).await?;
        self.admin.operation(id).await
    }
}

impl Admin {
    /// What an action would do to all jobs that match. It takes some milliseconds.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn plan(&self, action: Action, filter: &Filter) -> Result<Plan, Error> {
        let task = self.task(action, filter).await?;
        let (began, mut found, mut samples, mut after) = (Instant::now(), 0, Vec::new(), i64::MIN);
        let count = loop {
            let walked = self.store.walk(&task.filter, after, task.upto).await?;
            let wanted: Vec<JobRow> = walked.jobs.into_iter().filter(|job| task.wants(job)).collect();
            found += wanted.len();
            samples.extend(wanted.into_iter().take(SHOWN - samples.len()));
            let left = task.left(0);
            match walked.next {
                _ if found >= left => break Count::exactly(left as i64),
                None => break Count::exactly(found as i64),
                Some(_) if found >= COUNTED || began.elapsed() > COUNTED_FOR => break Count::at_least(found as i64),
                Some(next) => after = next,
            }
        };
        Ok(Plan { admin: self.clone(), task, count, samples })
    }

    /// What was done through the administration: the last 100 operations before this one, the latest first.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn operations(&self, before: Option<i64>) -> Result<Vec<Operation>, Error> {
        self.records(before.unwrap_or(i64::MAX), None).await
    }

    /// What was done to one job by itself, the latest first.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn operations_on(&self, job: JobId) -> Result<Vec<Operation>, Error> {
        self.records(i64::MAX, Some(job.get())).await
    }

    async fn records(&self, before: i64, job: Option<i64>) -> Result<Vec<Operation>, Error> {
        Ok(self.store.operations(before, 100, job).await?.into_iter().map(|saved| saved.operation).collect())
    }

    /// One operation, and how far it has come.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none with this number. [`Error::Database`].
    pub async fn operation(&self, id: i64) -> Result<Operation, Error> {
        Ok(saved(&*self.store, id).await?.operation)
    }

    /// Up to 1,000 jobs that an operation could not change, by id, those after `after`.
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn refusals(&self, operation: i64, after: Option<JobId>) -> Result<Vec<RefusedJob>, Error> {
        let found = self.store.refusals(operation, after.map_or(i64::MIN, JobId::get), None).await?;
        Ok(found.into_iter().map(|(job, reason)| RefusedJob { job: job.into(), reason }).collect())
    }

    /// Carries out an operation from where it is. Returns when it is over or was stopped, or when another process goes on
    /// with it.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::{Action, Admin, Filter, Progress};
    ///
    /// let admin = Admin::new(&pool);
    /// let begun = admin.plan(Action::Cancel, &Filter::new().queue("reports")).await?.begin().await?;
    /// let done = admin.go_on(begun.id).await?;
    /// assert_eq!(done.progress, Progress::Done);
    /// for refused in admin.refusals(done.id, None).await? {
    ///     println!("{}: {}", refused.job, refused.reason);
    /// }
    /// assert!(!admin.stop(done.id).await?, "it is over");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Plan::run`], and [`Error::Config`] if there is no such operation.
    pub async fn go_on(&self, operation: i64) -> Result<Operation, Error> {
        carry_out(&*self.store, operation).await
    }

    /// Ends an operation that is running. What it has changed stays. False: it is over already.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no such operation. [`Error::Database`].
    pub async fn stop(&self, operation: i64) -> Result<bool, Error> {
        self.operation(operation).await?;
        let note = self.note("stop", &json!({"operation": operation}), None);
        self.store.end_operation(operation, Progress::Stopped, Some(note)).await
    }

    pub(crate) async fn task(&self, action: Action, filter: &Filter) -> Result<Task, Error> {
        self.refuse_secrets(filter, Some(&action)).await?;
        let (planned_at, bound) = self.store.bounds().await?;
        let (mut filter, upto) = match action.narrowed(filter) {
            Some(filter) => (filter, bound),
            // it changes no job in this state
            None => (filter.clone(), i64::MIN),
        };
        let first = filter.limit.take().map(u64::from);
        if matches!(action, Action::Retry | Action::SendBack) && filter.is_about_failures() {
            filter.failed_before = Some(filter.failed_before.map_or(planned_at, |before| before.min(planned_at)));
        }
        Ok(Task { action, filter, first, over_us: None, upto, planned_at })
    }

    async fn begin(&self, task: &Task) -> Result<i64, Error> {
        if task.over_us.is_some() && !matches!(task.action, Action::SendBack | Action::Retry) {
            let name = task.action.name();
            return Err(Error::config(format!(
                "cannot {name} jobs over a time: only `retry` and `send back` make jobs due"
            )));
        }
        let details = serde_json::to_value(task).map_err(|error| Error::config(error.to_string()))?;
        self.store.begin(self.note(task.action.word(), &details, None)).await
    }

    pub(crate) async fn run(&self, task: &Task) -> Result<Operation, Error> {
        let id = self.begin(task).await?;
        carry_out(&*self.store, id).await
    }
}
