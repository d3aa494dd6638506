//! The administration: the statements of each engine, and the code that all engines share.
//!
//! A read is a single statement, or several whose order makes them agree. A change is a [`Script`]. Each `find` returns
//! the jobs of a list that are in the right place, and locks or changes them at once. The steps behind it work on those
//! alone. A script visits the tables in the reverse order of a job's life, so that a job that moves meanwhile is found
//! at most once. A change never takes a job from the worker that holds it.

use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use serde::Serialize;

use crate::error::Error;
use crate::id::JobId;
use crate::state::JobState;
use crate::store::engine::dialect::{Bind, Cells, Dialect, execute, rows};
use crate::store::engine::feature::Edge;
use crate::store::engine::notify::Signals;
use crate::store::engine::operation::{COUNT_LIMIT, Mode, SqlStore, Via};
use crate::store::engine::read::without_attempt;
use crate::store::engine::script::{Script, When};
use crate::store::engine::steps::{acts_at, run_steps};
use crate::store::values::{Features, Hold};
use crate::store::view::{Among, Attempt, Filter, Job, JobDetail, Page, QueueInfo, Stat, WorkerInfo};
use crate::store::{Inspect, Reply};

/// The statements of one engine for the administration. Engines that share a text share its file.
pub(crate) trait AdminDialect: Signals {
    /// Rows of kind, queue, state, count, oldest.
    const STATS: &'static str;
    /// Binds: after, kind, queue, state, limit. Rows as [`read_job`] reads them.
    const JOBS_HOT: &'static str;
    /// Binds: after, kind, queue, limit. Rows as before.
    const JOBS_RUNNING: &'static str;
    /// Binds: after, kind, queue, state, limit. Rows as before.
    const JOBS_OVER: &'static str;
    /// Binds: after, kind, queue, limit. Rows as before.
    const JOBS_DEAD: &'static str;
    /// Binds: id. A row as before; then fence, args, result, name of the worker.
    const JOB: &'static str;
    /// Binds: id, fence. Rows of attempt, worker, name of the worker, start, end, outcome, error.
    const ATTEMPTS: &'static str;
    /// Rows of queue, pause, and the numbers of scheduled, ready and running jobs.
    const QUEUES: &'static str;
    /// Rows as [`workers`] reads them.
    const WORKERS: &'static str;
    /// Binds: queue.
    const PAUSE: &'static str;
    /// Binds: queue.
    const RESUME: &'static str;

    /// See [`Store::run_now`](crate::store::Store::run_now). As in all changes, the value of each statement is a list of
    /// [`Target`]s. Each `find` returns ids and, where features may act, the features.
    const RUN_NOW: Script;
    /// See [`Store::reschedule`](crate::store::Store::reschedule).
    const RESCHEDULE: Script;
    /// See [`Store::cancel`](crate::store::Store::cancel).
    const CANCEL: Script;
    /// See [`Store::send_back`](crate::store::Store::send_back).
    const SEND_BACK: Script;
    /// See [`Store::delete`](crate::store::Store::delete). It finds dead letters, then history, then waiting jobs.
    const DELETE: Script;
    /// See [`Store::edit`](crate::store::Store::edit).
    const EDIT: Script;
}

/// Implements [`AdminDialect`] with the files in an engine's folder `sql/admin`.
macro_rules! admin_dialect {
    ($db:ty, $engine:literal) => {
        const _: () = {
            use $crate::store::engine::inspect::AdminDialect;
            use $crate::store::engine::script::{Script, script, sql};

            impl AdminDialect for $db {
                const STATS: &'static str = sql!($engine, "admin/stats");
                const JOBS_HOT: &'static str = sql!($engine, "admin/jobs_hot");
                const JOBS_RUNNING: &'static str = sql!($engine, "admin/jobs_running");
                const JOBS_OVER: &'static str = sql!($engine, "admin/jobs_over");
                const JOBS_DEAD: &'static str = sql!($engine, "admin/jobs_dead");
                const JOB: &'static str = sql!($engine, "admin/job");
                const ATTEMPTS: &'static str = sql!($engine, "admin/attempts");
                const QUEUES: &'static str = sql!($engine, "admin/queues");
                const WORKERS: &'static str = sql!($engine, "admin/workers");
                const PAUSE: &'static str = sql!($engine, "admin/pause");
                const RESUME: &'static str = sql!("engine", "admin/resume");
                const RUN_NOW: Script = script!($engine, "admin/run_now");
                const RESCHEDULE: Script = script!($engine, "admin/reschedule");
                const CANCEL: Script = script!($engine, "admin/cancel");
                const SEND_BACK: Script = script!($engine, "admin/send_back");
                const DELETE: Script = script!($engine, "admin/delete");
                const EDIT: Script = script!($engine, "admin/edit");
            }
        };
    };
}
pub(crate) use admin_dialect;

/// A job to change, with the values that the statements of a change need.
#[derive(Serialize)]
struct Target<'a> {
    id: i64,
    #[serde(flatten)]
    with: &'a With,
}

#[derive(Default, Serialize)]
struct With {
    /// Microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// JSON, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<String>,
}

/// Ordered by kind, queue and state.
pub(crate) async fn stats<DB: Dialect + AdminDialect>(store: &SqlStore<DB>) -> Result<Vec<Stat>, Error> {
    let mut stats: Vec<Stat> = store
        .run_within(COUNT_LIMIT, Via::Pool, Mode::Read, "cannot count the jobs", (), |conn, ()| {
            async move { rows::<DB>(conn, DB::STATS, &[]).await?.iter().map(read_stat).collect() }.boxed()
        })
        .await?;
    // not in SQL: each engine has its own collation
    stats.sort_by(|a, b| (&a.kind, &a.queue, a.state).cmp(&(&b.kind, &b.queue, b.state)));
    Ok(stats)
}

pub(crate) async fn jobs<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    filter: &Filter,
) -> Result<Page<Job>, Error> {
    store
        // a page of rare jobs may read many rows
        .run_within(COUNT_LIMIT, Via::Pool, Mode::Read, "cannot list jobs", filter.clone(), |conn, filter| {
            page::<DB>(conn, filter).boxed()
        })
        .await
}

/// Each table returns its first rows by id. The first of all these form the page.
///
/// The tables are read in the order of a job's life, so that a job that ends meanwhile is seen. If it is seen twice,
/// the later row counts. Only a dead letter that is sent back between two of the statements is missed.
async fn page<DB: Dialect + AdminDialect>(
    conn: &mut DB::Connection,
    filter: &Filter,
) -> Result<Page<Job>, sqlx::Error> {
    use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
    let size = filter.page() as usize;
    let after = filter.after.map_or(i64::MIN, JobId::get);
    let (kind, queue) = (filter.kind.as_deref(), filter.queue.as_deref());
    let state = filter.state.map(JobState::as_str);
    let limit = size as i64 + 1; // the extra row tells whether there is another page
    let any: [Bind<'_>; 5] = [after.into(), kind.into(), queue.into(), state.into(), limit.into()];
    let scheduled: [Bind<'_>; 5] = [after.into(), kind.into(), queue.into(), Scheduled.as_str().into(), limit.into()];
    let known: [Bind<'_>; 4] = [after.into(), kind.into(), queue.into(), limit.into()];
    let statements: &[(&'static str, &[Bind<'_>])] = match filter.state {
        Some(Scheduled | Ready) => &[(DB::JOBS_HOT, &any)],
        Some(Running) => &[(DB::JOBS_RUNNING, &known)],
        Some(Completed | Cancelled) => &[(DB::JOBS_OVER, &any)],
        Some(Dead) => &[(DB::JOBS_DEAD, &known)],
        None if filter.among == Among::Unfinished => &[(DB::JOBS_HOT, &any)],
        None if filter.among == Among::Retryable => &[(DB::JOBS_HOT, &scheduled), (DB::JOBS_DEAD, &known)],
        None => &[(DB::JOBS_HOT, &any), (DB::JOBS_OVER, &any), (DB::JOBS_DEAD, &known)],
    };
    let mut jobs = std::collections::BTreeMap::new();
    for (sql, binds) in statements {
        for row in rows::<DB>(conn, sql, binds).await? {
            let job = read_job(&row)?;
            jobs.insert(job.id, job);
        }
    }
    let more = jobs.len() > size;
    let items: Vec<Job> = jobs.into_values().take(size).collect();
    let next = items.last().filter(|_| more).map(|job| job.id);
    Ok(Page { items, next })
}

pub(crate) async fn job<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    id: JobId,
) -> Result<Option<JobDetail>, Error> {
    store.run(Via::Pool, Mode::Read, "cannot read a job", id, |conn, id| detail::<DB>(conn, *id).boxed()).await
}

async fn detail<DB: Dialect + AdminDialect>(
    conn: &mut DB::Connection,
    id: JobId,
) -> Result<Option<JobDetail>, sqlx::Error> {
    let found = rows::<DB>(conn, DB::JOB, &[id.get().into()]).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let job = read_job(row)?;
    let fence = row.int(14)?;
    // the attempt under this fence, if it is not (or not yet) recorded
    let current = match job.state {
        JobState::Running => Some("running"),
        JobState::Completed => Some("completed"),
        _ => None,
    };
    let recorded = if current.is_some() { fence.saturating_sub(1) } else { fence };
    let mut attempts: Vec<Attempt> = rows::<DB>(conn, DB::ATTEMPTS, &[id.get().into(), recorded.into()])
        .await?
        .iter()
        .map(|row| {
            Ok(Attempt {
                attempt: unsigned(row.int(0)?),
                worker: row.int(1)?,
                worker_name: row.maybe_text(2)?,
                started_at: time(row.int(3)?),
                ended_at: Some(time(row.int(4)?)),
                outcome: row.text(5)?,
                error: row.maybe_text(6)?,
            })
        })
        .collect::<Result<_, sqlx::Error>>()?;
    attempts.reverse();
    if let Some(outcome) = current {
        attempts.push(Attempt {
            attempt: job.attempt,
            worker: job.worker.unwrap_or_default(),
            worker_name: row.maybe_text(17)?,
            started_at: job.claimed_at.unwrap_or(job.run_at),
            ended_at: job.finished_at,
            outcome: outcome.to_owned(),
            error: None,
        });
    }
    Ok(Some(JobDetail { job, args: row.text(15)?, result: row.maybe_text(16)?, attempts }))
}

pub(crate) async fn run_now<DB: Dialect + AdminDialect>(store: &SqlStore<DB>, ids: &[i64]) -> Result<Vec<i64>, Error> {
    let changed = change(store, "cannot retry jobs", None, DB::RUN_NOW, ids, With::default()).await?;
    wake(store, !changed.is_empty()).await;
    Ok(changed)
}

pub(crate) async fn reschedule<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    ids: &[i64],
    run_at: i64,
) -> Result<Vec<i64>, Error> {
    let with = With { run_at: Some(run_at.clamp(YEAR_1, YEAR_9999)), ..With::default() };
    let changed = change(store, "cannot reschedule jobs", None, DB::RESCHEDULE, ids, with).await?;
    wake(store, !changed.is_empty()).await;
    Ok(changed)
}

pub(crate) async fn cancel<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    ids: &[i64],
    reason: &str,
) -> Result<Vec<i64>, Error> {
    let with = With { reason: Some(reason.to_owned()), ..With::default() };
    change(store, "cannot cancel jobs", Some(Edge::Cancel), DB::CANCEL, ids, with).await
}

pub(crate) async fn send_back<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    ids: &[i64],
) -> Result<Vec<i64>, Error> {
    let changed =
        change(store, "cannot send dead letters back", Some(Edge::SendBack), DB::SEND_BACK, ids, With::default())
            .await?;
    wake(store, !changed.is_empty()).await;
    Ok(changed)
}

pub(crate) async fn delete<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    ids: &[i64],
    state: Option<JobState>,
) -> Result<Vec<i64>, Error> {
    use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
    let part = match state {
        None => None,
        Some(Dead) => Some(0),
        Some(Completed | Cancelled) => Some(1),
        Some(Scheduled | Ready | Running) => Some(2),
    };
    change_part(store, "cannot delete jobs", Some(Edge::Delete), (DB::DELETE, part), ids, With::default()).await
}

pub(crate) async fn edit<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    id: JobId,
    args: &str,
) -> Result<bool, Error> {
    let with = With { args: Some(args.to_owned()), ..With::default() };
    let changed = change(store, "cannot edit a job's arguments", None, DB::EDIT, &[id.get()], with).await?;
    Ok(!changed.is_empty())
}

/// Runs a change and returns the ids that it found.
async fn change<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    doing: &'static str,
    edge: Option<Edge>,
    script: Script,
    jobs: &[i64],
    with: With,
) -> Result<Vec<i64>, Error> {
    change_part(store, doing, edge, (script, None), jobs, with).await
}

/// Runs a change, or only one `find` of it with the steps behind it. Returns the ids that it found.
async fn change_part<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    doing: &'static str,
    edge: Option<Edge>,
    (script, part): (Script, Option<usize>),
    jobs: &[i64],
    with: With,
) -> Result<Vec<i64>, Error> {
    let mut jobs = jobs.to_vec();
    if jobs.is_empty() {
        return Ok(jobs);
    }
    jobs.sort_unstable(); // everybody locks in the same order
    jobs.dedup();
    let has_steps = edge.is_some_and(acts_at::<DB>);
    let mode = if script.is_one() && !has_steps { Mode::Write } else { Mode::Transaction };
    store
        .run(Via::Pool, mode, doing, (jobs, with), move |conn, (jobs, with)| {
            async move {
                let (mut changed, mut found) = (Vec::new(), Vec::new());
                let (mut numbers, mut number) = (0.., None);
                for (when, sql) in script.steps() {
                    if when != When::Found {
                        number = numbers.next();
                    }
                    if part.is_some() && part != number {
                        continue;
                    }
                    if when == When::Found {
                        if !found.is_empty() {
                            execute::<DB>(conn, sql, &[list(ids_of(&found), with)?.as_str().into()]).await?;
                        }
                        continue;
                    }
                    let rows = rows::<DB>(conn, sql, &[list(jobs.iter().copied(), with)?.as_str().into()]).await?;
                    found = if has_steps { without_attempt(&rows, 0, 1)? } else { without_features(&rows)? };
                    changed.extend(&found);
                }
                if let Some(edge) = edge {
                    run_steps::<DB>(conn, edge, &changed).await?;
                }
                Ok(ids_of(&changed).collect())
            }
            .boxed()
        })
        .await
}

/// Reads the ids of found jobs, where no feature acts.
fn without_features<R: Cells>(rows: &[R]) -> Result<Vec<Hold>, sqlx::Error> {
    rows.iter().map(|row| Ok(Hold { id: row.int(0)?, fence: 0, features: Features::NONE })).collect()
}

fn ids_of(jobs: &[Hold]) -> impl Iterator<Item = i64> {
    jobs.iter().map(|job| job.id)
}

fn list(ids: impl Iterator<Item = i64>, with: &With) -> Result<String, sqlx::Error> {
    let targets: Vec<_> = ids.map(|id| Target { id, with }).collect();
    serde_json::to_string(&targets).map_err(|error| sqlx::Error::Encode(error.into()))
}

pub(crate) async fn set_paused<DB: Dialect + AdminDialect>(
    store: &SqlStore<DB>,
    queue: &str,
    paused: bool,
) -> Result<(), Error> {
    let (doing, sql) = if paused { ("cannot pause a queue", DB::PAUSE) } else { ("cannot resume a queue", DB::RESUME) };
    store
        .run(Via::Pool, Mode::Write, doing, queue.to_owned(), move |conn, queue| {
            async move { execute::<DB>(conn, sql, &[queue.as_str().into()]).await.map(drop) }.boxed()
        })
        .await?;
    wake(store, !paused).await;
    Ok(())
}

/// Notifies the workers that jobs may be ready, if the engine can. This is only a hint: polling finds what it misses.
async fn wake<DB: Dialect + AdminDialect>(store: &SqlStore<DB>, something: bool) {
    if something && DB::NOTIFIES {
        // no token: this process's own workers react to this signal, too
        let told =
            store.run(Via::Pool, Mode::Write, "cannot wake the workers", (), |conn, ()| DB::notify(conn, "").boxed());
        if let Err(error) = told.await {
            tracing::debug!(%error, "workers will find the change by polling");
        }
    }
}

/// Ordered by name.
pub(crate) async fn queues<DB: Dialect + AdminDialect>(store: &SqlStore<DB>) -> Result<Vec<QueueInfo>, Error> {
    let mut queues: Vec<QueueInfo> = store
        .run_within(COUNT_LIMIT, Via::Pool, Mode::Read, "cannot list the queues", (), |conn, ()| {
            async move {
                let rows = rows::<DB>(conn, DB::QUEUES, &[]).await?;
                rows.iter()
                    .map(|row| {
                        Ok(QueueInfo {
                            queue: row.text(0)?,
                            paused_at: row.maybe_int(1)?.map(time),
                            scheduled: row.int(2)?.max(0).cast_unsigned(),
                            ready: row.int(3)?.max(0).cast_unsigned(),
                            running: row.int(4)?.max(0).cast_unsigned(),
                        })
                    })
                    .collect()
            }
            .boxed()
        })
        .await?;
    queues.sort_by(|a, b| a.queue.cmp(&b.queue));
    Ok(queues)
}

/// Ordered by start.
pub(crate) async fn workers<DB: Dialect + AdminDialect>(store: &SqlStore<DB>) -> Result<Vec<WorkerInfo>, Error> {
    store
        .run(Via::Pool, Mode::Read, "cannot list the workers", (), |conn, ()| {
            async move {
                let rows = rows::<DB>(conn, DB::WORKERS, &[]).await?;
                rows.iter()
                    .map(|row| {
                        Ok(WorkerInfo {
                            id: row.int(0)?,
                            host: row.text(1)?,
                            pid: unsigned(row.int(2)?),
                            concurrency: unsigned(row.int(3)?),
                            queues: names(&row.text(4)?),
                            kinds: names(&row.text(5)?),
                            started_at: time(row.int(6)?),
                            heartbeat_at: time(row.int(7)?),
                            stopped_at: row.maybe_int(8)?.map(time),
                            alive: row.int(9)? != 0,
                            running: row.int(10)?.max(0).cast_unsigned(),
                        })
                    })
                    .collect()
            }
            .boxed()
        })
        .await
}

fn read_stat(row: &impl Cells) -> Result<Stat, sqlx::Error> {
    Ok(Stat {
        kind: row.text(0)?,
        queue: row.text(1)?,
        state: state(&row.text(2)?)?,
        jobs: row.int(3)?.max(0).cast_unsigned(),
        oldest: time(row.int(4)?),
    })
}

/// Reads the columns that every list of jobs begins with.
fn read_job(row: &impl Cells) -> Result<Job, sqlx::Error> {
    Ok(Job {
        id: row.int(0)?.into(),
        kind: row.text(1)?,
        queue: row.text(2)?,
        state: state(&row.text(3)?)?,
        priority: row.int(4)?.clamp(i16::MIN.into(), i16::MAX.into()) as i16,
        attempt: unsigned(row.int(5)?),
        max_retries: row.maybe_int(6)?.map(unsigned),
        enqueued_at: time(crate::store::engine::read::time(row, 7)?),
        run_at: time(crate::store::engine::read::time(row, 8)?),
        claimed_at: row.maybe_int(9)?.map(time),
        finished_at: row.maybe_int(10)?.map(time),
        worker: row.maybe_int(11)?,
        cancel_requested: row.int(12)? != 0,
        error: row.maybe_text(13)?,
    })
}

/// Microseconds since 1970 of the first and the last second that every engine can store.
const YEAR_1: i64 = -62_135_596_800_000_000;
const YEAR_9999: i64 = 253_402_300_799_000_000;

fn time(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros.clamp(YEAR_1, YEAR_9999)).unwrap_or(DateTime::UNIX_EPOCH)
}

fn unsigned(number: i64) -> u32 {
    number.clamp(0, u32::MAX.into()) as u32
}

fn state(word: &str) -> Result<JobState, sqlx::Error> {
    word.parse().map_err(|error: crate::state::UnknownState| sqlx::Error::Decode(error.into()))
}

/// A JSON list of names. Anything else that somebody wrote there counts as an empty list.
fn names(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_default()
}

impl<DB: Dialect + AdminDialect + Signals> Inspect for SqlStore<DB> {
    fn stats(&self) -> Reply<'_, Vec<Stat>> {
        stats(self).boxed()
    }

    fn jobs<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Page<Job>> {
        jobs(self, filter).boxed()
    }

    fn job(&self, id: JobId) -> Reply<'_, Option<JobDetail>> {
        job(self, id).boxed()
    }

    fn run_now<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>> {
        run_now(self, ids).boxed()
    }

    fn reschedule<'a>(&'a self, ids: &'a [i64], run_at: i64) -> Reply<'a, Vec<i64>> {
        reschedule(self, ids, run_at).boxed()
    }

    fn cancel<'a>(&'a self, ids: &'a [i64], reason: &'a str) -> Reply<'a, Vec<i64>> {
        cancel(self, ids, reason).boxed()
    }

    fn send_back<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>> {
        send_back(self, ids).boxed()
    }

    fn delete<'a>(&'a self, ids: &'a [i64], state: Option<JobState>) -> Reply<'a, Vec<i64>> {
        delete(self, ids, state).boxed()
    }

    fn edit<'a>(&'a self, id: JobId, args: &'a str) -> Reply<'a, bool> {
        edit(self, id, args).boxed()
    }

    fn set_paused<'a>(&'a self, queue: &'a str, paused: bool) -> Reply<'a, ()> {
        set_paused(self, queue, paused).boxed()
    }

    fn queues(&self) -> Reply<'_, Vec<QueueInfo>> {
        queues(self).boxed()
    }

    fn workers(&self) -> Reply<'_, Vec<WorkerInfo>> {
        workers(self).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_cut() {
        assert_eq!(unsigned(-1), 0);
        assert_eq!(unsigned(i64::MAX), u32::MAX);
        assert_eq!(time(i64::MIN).to_rfc3339(), "0001-01-01T00:00:00+00:00");
        assert_eq!(time(i64::MAX).to_rfc3339(), "9999-12-31T23:59:59+00:00");
        assert_eq!(names("[\"a\",\"b\"]"), ["a", "b"]);
        assert_eq!(names("7"), [""; 0]);
    }

    #[test]
    fn targets_are_a_list_of_flat_objects() {
        let with = With { run_at: Some(7), ..With::default() };
        assert_eq!(list([1, 2].into_iter(), &with).unwrap(), r#"[{"id":1,"run_at":7},{"id":2,"run_at":7}]"#);
    }
}
