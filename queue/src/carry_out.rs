//! Carries out operations on many jobs, step by step.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use crate::edit::edited;
use crate::error::Error;
use crate::operations::{Action, Operation, Progress, Spread, Task};
use crate::state::{JobId, JobState};
use crate::store::AdminStore;
use crate::store::operations::{Change, LOCKED, NewArgs, Record, Refused, Saved};

/// How long a change tries again to reach a job that is locked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two of these tries.
pub(crate) const AGAIN: Duration = Duration::from_millis(50);
/// So often at least: on a slow machine one try may outlast the patience.
pub(crate) const TRIES: u32 = 5;

/// The least time for each job of a step, with the rest after it: 8,000 jobs a second at most. Without a rest, workers
/// beside an operation keep half of their rate.
const PACE: Duration = Duration::from_micros(125);
/// The longest rest. Workers take an operation over that makes no step for several leases.
const LONGEST_REST: Duration = Duration::from_secs(1);

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

pub(crate) async fn saved(store: &dyn AdminStore, id: i64) -> Result<Saved, Error> {
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
            let began = Instant::now();
            let walked = self.store.walk(&self.task.filter, *at, self.task.upto).await?;
            let left = self.task.left(*changed);
            let wanted = walked.jobs.iter().filter(|job| self.task.wants(job)).map(|job| job.id.get());
            let ids: Vec<i64> = wanted.take(left).collect();
            let end = walked.next.unwrap_or(self.task.upto);
            let to = if ids.len() == left { ids.last().copied().unwrap_or(end) } else { end };
            let jobs = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            match self.step(ids, *at, to).await? {
                Some(jobs) => *changed += jobs,
                None => return Ok(false),
            }
            *at = to;
            if jobs > 0 && to < self.task.upto {
                let took = began.elapsed();
                sleep(PACE.saturating_mul(jobs).saturating_sub(took).max(took / 2).min(LONGEST_REST)).await;
            }
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
    Ok(Fate::of(store.job(id).await?.map(|detail| detail.job.state), action))
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

impl Fate {
    /// `None`: there is no such job.
    pub(crate) fn of(state: Option<JobState>, action: &Action) -> Self {
        match state {
            None => Self::Gone,
            Some(state) if action.is_done(state) => Self::Done,
            Some(state) if action.applies_to(state) => Self::Missed(state),
            Some(state) => Self::Unfit(state),
        }
    }

    /// What a change of this one job returns. `None`: it may succeed later.
    pub(crate) fn result(self, id: JobId, action: &Action) -> Option<Result<(), Error>> {
        Some(match self {
            Self::Gone => Err(Error::NotFound(id)),
            Self::Done => Ok(()),
            Self::Missed(_) => return None,
            Self::Unfit(state) => {
                Err(Error::Conflict { id, operation: action.name(), state, cure: action.cure(state) })
            }
        })
    }
}
