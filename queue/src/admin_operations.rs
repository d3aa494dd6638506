//! Operations on all jobs that match: planned, carried out step by step, and on record.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use crate::admin::Admin;
use crate::edit::edited;
use crate::error::Error;
use crate::gauges::Count;
use crate::limits::micros;
use crate::operations::{Action, Operation, Progress, RefusedJob, Spread, Task};
use crate::state::{JobId, JobState};
use crate::store::AdminStore;
use crate::store::operations::{Change, LOCKED, NewArgs, Record, Refused, Saved};
use crate::store::view::{Filter, JobRow};

/// How long a change tries again to reach a job that is locked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two of these tries.
pub(crate) const AGAIN: Duration = Duration::from_millis(50);
/// A plan counts to here, and no longer than this.
const COUNTED: usize = 10_000;
const COUNTED_FOR: Duration = Duration::from_millis(200);
/// How many jobs a plan shows.
const SHOWN: usize = 20;

/// What an [`Action`] would do to all jobs that match a filter. Nothing has changed yet. Jobs that are enqueued, or fail
/// for good, after the plan was made are not in it.
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

    /// Changes at most so many, those with the lowest ids.
    pub fn first(mut self, jobs: u64) -> Self {
        self.task.first = Some(self.task.first.map_or(jobs, |first| first.min(jobs)));
        self
    }

    /// Spreads their due times evenly over so long from now, so that what just recovered is not knocked over again.
    /// This is for [`Action::SendBack`] and [`Action::Retry`]; no other action makes jobs due.
    pub fn over(mut self, time: Duration) -> Self {
        let makes_due = matches!(self.task.action, Action::SendBack | Action::Retry);
        self.task.over_us = makes_due.then(|| micros(time));
        self
    }

    /// Carries it out, and returns when it is over. It works in steps of up to 1,000 jobs. If this future is dropped,
    /// or the program ends, a worker goes on with it within a minute: [`Admin::stop`] ends it.
    ///
    /// # Errors
    /// [`Error::Database`]. The earlier steps remain, and a worker goes on with the rest.
    pub async fn run(self) -> Result<Operation, Error> {
        self.admin.run(&self.task).await
    }

    /// Puts it on record, to be carried out by [`Admin::go_on`], for example beside something that shows its progress.
    /// If nobody does, a worker goes on with it within a minute.
    ///
    /// # Errors
    /// [`Error::Database`].
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

    /// Carries out an operation from where it is, and returns when it is over, has been stopped, or another process goes
    /// on with it.
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
        let details = serde_json::to_value(task).map_err(|error| Error::config(error.to_string()))?;
        self.store.begin(self.note(task.action.word(), &details, None)).await
    }

    pub(crate) async fn run(&self, task: &Task) -> Result<Operation, Error> {
        let id = self.begin(task).await?;
        carry_out(&*self.store, id).await
    }
}

/// Carries out an operation from where it is, unless another process does. It ends with the last job of its plan.
pub(crate) async fn carry_out(store: &dyn AdminStore, id: i64) -> Result<Operation, Error> {
    let saved = saved(store, id).await?;
    let (mut at, mut changed) = (saved.last_id, saved.operation.changed);
    if saved.operation.progress == Progress::Running {
        let mut task: Task = serde_json::from_str(&saved.task).map_err(|error| {
            Error::config(format!("operation {id} was begun by another version of this library: {error}"))
        })?;
        task.filter.among = task.action.among();
        let run = Run { store, id, spread: task.spread(saved.operation.at), task: &task };
        let is_over = run.all(&mut at, &mut changed).await? && run.again(at, &mut changed).await?;
        if is_over {
            store.end_operation(id, Progress::Done, None).await?;
        }
    }
    Ok(self::saved(store, id).await?.operation)
}

async fn saved(store: &dyn AdminStore, id: i64) -> Result<Saved, Error> {
    let found = store.operations(id.saturating_add(1), 1, None).await?.pop().filter(|it| it.operation.id == id);
    found.ok_or_else(|| Error::config(format!("there is no operation {id}; `Admin::operations` lists them")))
}

/// An operation that this process carries out.
struct Run<'a> {
    store: &'a dyn AdminStore,
    id: i64,
    task: &'a Task,
    spread: Option<Spread>,
}

impl Run<'_> {
    /// Walks all jobs by id. False: somebody has stopped it, or goes on with it.
    async fn all(&self, at: &mut i64, changed: &mut u64) -> Result<bool, Error> {
        while *at < self.task.upto && self.task.left(*changed) > 0 {
            let walked = self.store.walk(&self.task.filter, *at, self.task.upto).await?;
            let left = self.task.left(*changed);
            let wanted = walked.jobs.iter().filter(|job| self.task.wants(job)).map(|job| job.id.get());
            let ids: Vec<i64> = wanted.take(left).collect();
            let end = walked.next.unwrap_or(self.task.upto);
            let to = if ids.len() == left { ids.last().copied().unwrap_or(end) } else { end };
            match self.step(ids, *at, to).await? {
                Some(jobs) => *changed += jobs,
                None => return Ok(false),
            }
            *at = to;
        }
        Ok(true)
    }

    /// Tries again what was locked.
    async fn again(&self, at: i64, changed: &mut u64) -> Result<bool, Error> {
        let patience = Instant::now() + PATIENCE;
        loop {
            let (mut after, mut is_open) = (i64::MIN, false);
            loop {
                let locked = self.store.refusals(self.id, after, Some(LOCKED)).await?;
                let ids: Vec<i64> = locked.iter().map(|(id, _)| *id).take(self.task.left(*changed)).collect();
                let Some(last) = ids.last() else { break };
                (after, is_open) = (*last, true);
                match self.step(ids, at, at).await? {
                    Some(jobs) => *changed += jobs,
                    None => return Ok(false),
                }
            }
            if !is_open || Instant::now() >= patience {
                return Ok(true);
            }
            sleep(AGAIN).await;
        }
    }

    /// What becomes of the arguments of these jobs, and those that the edit does not fit.
    async fn edits(
        &self,
        ids: &[i64],
        patch: &Map<String, Value>,
    ) -> Result<(BTreeMap<i64, NewArgs>, Vec<Refused>), Error> {
        let patch = Value::from(patch.clone()).to_string();
        let (mut all, mut misfits) = (BTreeMap::new(), Vec::new());
        for &id in ids {
            let Some(detail) = self.store.job(id.into()).await? else { continue };
            match edited(&detail, &patch) {
                Ok(args) => drop(all.insert(id, NewArgs { args, was: Some(detail.args) })),
                Err(reason) => misfits.push(Refused { id, reason }),
            }
        }
        Ok((all, misfits))
    }

    /// Changes these jobs, and moves the operation on. Returns how many; `None` if somebody has stopped it, or goes on
    /// with it.
    async fn step(&self, ids: Vec<i64>, from: i64, to: i64) -> Result<Option<u64>, Error> {
        let (action, listed) = (self.task.action.clone(), self.task.filter.state);
        let (args, misfits) = match &action {
            Action::Edit(patch) => self.edits(&ids, patch).await?,
            _ => Default::default(),
        };
        let deletes = matches!(action, Action::Delete);
        let record = Record::Step { operation: self.id, from, to };
        let spread = self.spread;
        let change = Change { action, ids: ids.clone(), listed, spread, args, record };
        let Some((changed, refused)) = self.store.change_jobs(change).await? else { return Ok(None) };
        let known: HashSet<i64> = changed.iter().copied().chain(refused.iter().map(|it| it.id)).collect();
        let (mut reasons, mut forgiven) = (misfits, Vec::new());
        let misfits: HashSet<i64> = reasons.iter().map(|it| it.id).collect();
        for id in ids.into_iter().filter(|id| !known.contains(id) && !misfits.contains(id)) {
            match fate(self.store, id.into(), &self.task.action).await? {
                Fate::Gone | Fate::Done => forgiven.push(id),
                // it is another story by now: a dead letter that was sent back is no dead letter to delete
                Fate::Missed(state) if deletes && listed.is_some_and(|listed| listed != state) => forgiven.push(id),
                Fate::Missed(_) => {}
                Fate::Unfit(state) => {
                    let cure = self.task.action.cure(state);
                    reasons.push(Refused { id, reason: format!("it is {state} by now; {cure}") });
                }
            }
        }
        if !reasons.is_empty() || !forgiven.is_empty() {
            self.store.explain(self.id, reasons, forgiven).await?;
        }
        Ok(Some(changed.len() as u64))
    }
}

/// Why an action did not change this job.
pub(crate) async fn fate(store: &dyn AdminStore, id: JobId, action: &Action) -> Result<Fate, Error> {
    let Some(detail) = store.job(id).await? else { return Ok(Fate::Gone) };
    Ok(match detail.job.state {
        state if action.is_done(state) => Fate::Done,
        state if action.applies_to(state) => Fate::Missed(state),
        state => Fate::Unfit(state),
    })
}

/// Why an action did not change a job.
pub(crate) enum Fate {
    Gone,
    /// It is what the action would make of it.
    Done,
    /// Nothing speaks against it: the row was locked, or it moved from one table to another just then.
    Missed(JobState),
    Unfit(JobState),
}
