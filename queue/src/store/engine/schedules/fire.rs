//! Firing schedules that are due.

use futures_util::FutureExt;

use crate::error::Error;
use crate::schedule::plan::{self, Plan, ScheduleRow, TickOutcome};
use crate::store::engine::connection::notify;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{execute, ids, json};
use crate::store::engine::jobs::enqueue::enqueue;
use crate::store::engine::schedules::rows::{Moved, Tick, read};
use crate::store::schedules::{Fired, Kinds};
use crate::store::values::{NewJob, Unwritten, Whose};

/// The most jobs in one transaction. The first schedule is always fired.
const MOST_JOBS: usize = 1_000;

/// The job of a schedule.
pub(super) fn job(row: &ScheduleRow, max_retries: u32, run_at_us: Option<i64>) -> NewJob {
    let definition = &row.definition;
    NewJob {
        kind: definition.kind.clone().into(),
        queue: definition.queue.clone().into(),
        priority: definition.priority,
        max_retries: Some(definition.max_retries.unwrap_or_else(|| i32::try_from(max_retries).unwrap_or(i32::MAX))),
        delay_us: None,
        run_at_us,
        args: definition.args.clone(),
        meta: None,
        unique: None,
    }
}

/// Inserts such jobs, and returns their ids.
pub(super) async fn insert<DB: Dialect>(conn: &mut DB::Connection, jobs: &[NewJob]) -> Result<Vec<i64>, sqlx::Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let enqueued = enqueue::<DB>(conn, jobs, Whose::InTransaction, None).await.map_err(Unwritten::of_plain_jobs)?;
    Ok(enqueued.iter().map(|it| it.id().get()).collect())
}

pub(super) async fn fire<DB: Dialect>(
    store: &SqlStore<DB>,
    due: &[i64],
    kinds: &Kinds,
    ahead: i64,
) -> Result<Fired, Error> {
    let fired = match fire_together(store, due, kinds, ahead, false).await {
        Err(error) if is_refused::<DB>(&error) => one_by_one(store, due, kinds, ahead).await?,
        fired => fired?,
    };
    if fired.jobs > 0 {
        announce(store);
    }
    Ok(fired)
}

/// Whether the database is up and refuses this: a constraint, a trigger or a timeout of its own. It may accept the
/// rest.
pub(super) fn is_refused<DB: Dialect>(error: &Error) -> bool {
    let Error::Database { source, .. } = error else { return false };
    error.blames_the_row() || (DB::is_refusal(source) && !DB::is_transient(source))
}

/// Tells the workers that something was enqueued.
pub(super) fn announce<DB: Dialect>(store: &SqlStore<DB>) {
    // in somebody else's transaction, nobody can see it yet
    if store.whose() != Whose::InTransaction {
        notify::committed(store.pool(), false);
    }
}

/// `looks_back`: leaves out ticks that are in the history already.
async fn fire_together<DB: Dialect>(
    store: &SqlStore<DB>,
    due: &[i64],
    kinds: &Kinds,
    ahead: i64,
    looks_back: bool,
) -> Result<Fired, Error> {
    let args = (due.to_vec(), kinds.clone(), ahead, looks_back);
    store
        .run(Via::Schedules, Mode::Transaction, "cannot fire schedules", args, |conn, args| {
            async move {
                let (due, kinds, ahead, looks_back) = args;
                let locked = ids::<DB>(conn, DB::SCHEDULES.lock, &[due.as_slice().into(), (*ahead).into()]).await?;
                if locked.is_empty() {
                    return Ok(Fired::default());
                }
                let mut plans = Vec::with_capacity(locked.len());
                let (mut jobs, mut left) = (0, 0);
                for (row, _) in read::<DB>(conn, &locked, *ahead).await? {
                    // its kind changed since the look
                    let Some(kind) = kinds.get(&row.definition.kind) else { continue };
                    let mut plan = plan::plan(&row, *kind);
                    if let Some((first, last)) = plan.span().filter(|_| *looks_back) {
                        let binds = [row.id.into(), first.into(), last.into()];
                        plan.leave_out(&ids::<DB>(conn, DB::SCHEDULES.taken, &binds).await?);
                    }
                    if plan.is_known_to(&row) {
                        left += 1;
                        continue;
                    }
                    if jobs > 0 && jobs + plan.fire.len() > MOST_JOBS {
                        continue;
                    }
                    jobs += plan.fire.len();
                    plans.push((row, plan, kind.max_retries));
                }
                let failed = carry_out::<DB>(conn, &plans, *ahead).await?;
                Ok(Fired { locked: locked.len() - left, jobs, failed })
            }
            .boxed()
        })
        .await
}

/// Fires all ticks up to now, as if each were on time.
#[cfg(feature = "testing")]
pub(super) async fn fire_on_time<DB: Dialect>(
    store: &SqlStore<DB>,
    id: i64,
    kinds: &Kinds,
    ahead: i64,
) -> Result<usize, Error> {
    store
        .run(Via::Schedules, Mode::Transaction, "cannot fire schedules", (id, kinds.clone(), ahead), |conn, args| {
            async move {
                let (id, kinds, ahead) = args;
                let mut plans = Vec::new();
                for (mut row, _) in read::<DB>(conn, &[*id], *ahead).await? {
                    let Some(kind) = kinds.get(&row.definition.kind) else { continue };
                    (row.definition.missed, row.definition.window_s) = ("all".into(), Some(i64::from(i32::MAX)));
                    let plan = plan::plan(&row, *kind);
                    plans.push((row, plan, kind.max_retries));
                }
                carry_out::<DB>(conn, &plans, *ahead).await?;
                Ok(plans.iter().map(|(_, plan, _)| plan.fire.len()).sum())
            }
            .boxed()
        })
        .await
}

/// The database refuses a row. The others are fired all the same. A tick that was decided before, while the clock was
/// ahead, is none to refuse.
async fn one_by_one<DB: Dialect>(store: &SqlStore<DB>, due: &[i64], kinds: &Kinds, ahead: i64) -> Result<Fired, Error> {
    let mut all = Fired::default();
    for id in due {
        match fire_together(store, &[*id], kinds, ahead, true).await {
            Ok(fired) => {
                all.add(fired);
            }
            Err(error) if is_refused::<DB>(&error) => {
                let failed = give_up(store, *id, error.to_string(), ahead).await?;
                all.add(Fired { locked: failed.len(), failed, ..Fired::default() });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

async fn give_up<DB: Dialect>(
    store: &SqlStore<DB>,
    id: i64,
    error: String,
    ahead: i64,
) -> Result<Vec<(String, String)>, Error> {
    let doing = "cannot note why a schedule is not fired";
    plan_each(store, doing, vec![id], ahead, move |row, _| {
        let plan = plan::refuse(row, error.clone());
        (!plan.is_known_to(row)).then_some(plan)
    })
    .await
}

/// Locks schedules, and carries out a plan without jobs for each. `plan` gets its row, and whether a live worker knows
/// its kind.
async fn plan_each<DB: Dialect>(
    store: &SqlStore<DB>,
    doing: &'static str,
    these: Vec<i64>,
    ahead: i64,
    plan: impl Fn(&ScheduleRow, bool) -> Option<Plan> + Send + Sync + 'static,
) -> Result<Vec<(String, String)>, Error> {
    store
        .run(Via::Schedules, Mode::Transaction, doing, (these, ahead, plan), |conn, (these, ahead, plan)| {
            async move {
                let locked = ids::<DB>(conn, DB::SCHEDULES.lock, &[these.as_slice().into(), (*ahead).into()]).await?;
                let rows = read::<DB>(conn, &locked, *ahead).await?.into_iter();
                let plans = rows.filter_map(|(row, watched)| plan(&row, watched).map(|plan| (row, plan, NO_JOB)));
                carry_out::<DB>(conn, &plans.collect::<Vec<_>>(), *ahead).await
            }
            .boxed()
        })
        .await
}

/// The retries of a plan without jobs.
const NO_JOB: u32 = 0;

pub(super) async fn mark_orphans<DB: Dialect>(
    store: &SqlStore<DB>,
    due: &[i64],
    ahead: i64,
) -> Result<Vec<(String, String)>, Error> {
    plan_each(store, "cannot note why schedules wait", due.to_vec(), ahead, |row, watched| {
        let error = || format!("no live worker knows the kind `{}`", row.definition.kind);
        (!watched).then(|| Plan { next: row.next_at, error: Some(error()), ..Plan::default() })
    })
    .await
}

/// Inserts the jobs, notes the ticks and moves the schedules. Each plan comes with the retries of its kind. Returns the
/// names and errors of those that were not fired.
async fn carry_out<DB: Dialect>(
    conn: &mut DB::Connection,
    plans: &[(ScheduleRow, Plan, u32)],
    ahead: i64,
) -> Result<Vec<(String, String)>, sqlx::Error> {
    if plans.is_empty() {
        return Ok(Vec::new());
    }
    let jobs: Vec<NewJob> = plans
        .iter()
        .flat_map(|(row, plan, retries)| {
            // a job is due by the database's clock, which no test moves
            plan.fire.iter().map(|(_, due)| job(row, *retries, due.map(|due| due - ahead)))
        })
        .collect();
    let mut inserted = insert::<DB>(conn, &jobs).await?.into_iter();
    let (mut ticks, mut moved) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(plans.len()));
    for (row, plan, _) in plans {
        // the clock was set back: from now on, what is later than now is not decided
        let mut last = row.last().filter(|last| row.last_at != Some(*last));
        let tick = |tick_us, job_id, outcome: TickOutcome, skipped| {
            let (id, outcome) = (row.id, outcome.as_str());
            Tick { id, tick_us, job_id, outcome, skipped, note: None }
        };
        for passed in &plan.passed {
            ticks.push(tick(passed.tick, None, passed.outcome, passed.before));
            last = last.max(Some(passed.tick));
        }
        let mut job_id = row.busy;
        for (fired, _) in &plan.fire {
            job_id = inserted.next();
            ticks.push(tick(*fired, job_id, TickOutcome::Fired, 0));
            last = last.max(Some(*fired));
        }
        let error = plan.error.as_deref();
        moved.push(Moved { id: row.id, next_us: plan.next, last_us: last, job_id, error });
    }
    if !ticks.is_empty() {
        execute::<DB>(conn, DB::SCHEDULES.ticks, &[json(&ticks).as_str().into()]).await?;
    }
    execute::<DB>(conn, DB::SCHEDULES.moved, &[json(&moved).as_str().into()]).await?;
    let failed = plans.iter().filter_map(|(row, plan, _)| Some((row.definition.name.clone(), plan.error.clone()?)));
    Ok(failed.collect())
}
