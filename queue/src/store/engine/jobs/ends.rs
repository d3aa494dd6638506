//! The starts and ends of attempts: one script for a batch of jobs, or in a transaction of the handler's.

use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use serde::Serialize;

use crate::error::Error;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Bind, List, execute, ids, json};
use crate::store::engine::statement::{Script, When};
use crate::store::values::{AttemptOutcome, Destination, End, Hold, RunningRow, WorkerId};

/// A job may have any number of attempts that do not count. Its last 100 to 200 are kept: every hundredth one deletes
/// older ones.
const KEPT: i32 = 100;

/// A batch as its script reads it.
pub(super) struct Batch {
    /// Begins the error message.
    pub(super) doing: &'static str,
    pub(super) script: Script,
    /// By id: everybody locks in the same order.
    pub(super) jobs: Vec<i64>,
    pub(super) list: List,
    /// Whether some attempt goes into `queue_attempts`.
    pub(super) recorded: bool,
    /// Whether some job has so many attempts that do not count that old ones are deleted now.
    pub(super) forgetting: bool,
}

impl<DB: Dialect> SqlStore<DB> {
    pub(super) async fn write_batch(&self, worker: WorkerId, batch: Batch) -> Result<Vec<i64>, Error> {
        let Batch { doing, script, jobs, list, recorded, forgetting } = batch;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let writes = script.steps().filter(|(when, _)| match when {
            When::Recorded => recorded,
            When::Forgetting => forgetting,
            When::Refused => false,
            _ => true,
        });
        let mode = if writes.count() == 1 { Mode::Alone } else { Mode::Transaction };
        self.run(Via::Ends, mode, doing, (worker, list, jobs), move |conn, (worker, list, jobs)| {
            async move {
                let binds = list.behind(*worker);
                let runs = DB::runs(jobs, &binds);
                let (mut accepted, mut refused) = (Vec::new(), false);
                for (when, sql) in script.steps() {
                    match when {
                        When::Recorded if !recorded => {}
                        When::Forgetting if !forgetting => {}
                        When::Refused if !refused => {}
                        When::Scattered if !refused && runs.is_some() => {}
                        When::Runs => match &runs {
                            Some(runs) if !refused => execute::<DB>(conn, sql, runs).await.map(drop)?,
                            _ => {}
                        },
                        When::Each => match execute::<DB>(conn, sql, &binds).await? {
                            count if count == jobs.len() as u64 => accepted.extend(&*jobs),
                            _ => refused = true,
                        },
                        _ => accepted.extend(ids::<DB>(conn, sql, &binds).await?),
                    }
                }
                Ok(accepted)
            }
            .boxed()
        })
        .await
    }
}

/// Whether the attempt goes into `queue_attempts`.
pub(super) fn is_recorded(end: &End) -> bool {
    match end.to {
        Destination::Finish { .. } => end.outcome != AttemptOutcome::Completed,
        Destination::Requeue { record, .. } => record,
        Destination::Bury => true,
    }
}

/// The fence up to which to delete the job's attempts that do not count, if that is to be done now.
pub(super) fn forget(end: &End) -> Option<i32> {
    match end.to {
        Destination::Requeue { uncount, .. } if uncount > 0 && end.hold.fence % KEPT == 0 => {
            Some(end.hold.fence - KEPT)
        }
        _ => None,
    }
}

/// The ends of jobs that are not finished, as their statements read them.
pub(super) fn listed(ends: &[End]) -> List {
    #[derive(Serialize)]
    struct Listed<'a> {
        #[serde(flatten)]
        hold: Hold,
        ran_us: i64,
        outcome: AttemptOutcome,
        error: Option<&'a str>,
        #[serde(flatten)]
        back: Option<Back>,
    }
    #[derive(Serialize)]
    struct Back {
        delay_us: Option<i64>,
        uncount: i32,
        record: bool,
        forget: Option<i32>,
    }
    let list = ends.iter().map(|end| {
        let back = match end.to {
            Destination::Requeue { delay_us, uncount, record } => {
                Some(Back { delay_us, uncount, record, forget: forget(end) })
            }
            Destination::Finish { .. } | Destination::Bury => None,
        };
        let End { hold, ran_us, outcome, error, .. } = end;
        Listed { hold: *hold, ran_us: *ran_us, outcome: *outcome, error: error.as_deref(), back }
    });
    json(&list.collect::<Vec<_>>()).into()
}

/// Replaces what some engine cannot store.
pub(super) fn clean(end: &End) -> End {
    let error = end.error.as_ref().map(|text| text.replace('\0', "\u{fffd}"));
    End { error, ..end.clone() }
}

/// Completes the job in the handler's transaction. False: no row there is this attempt's. None: there is no
/// transaction. `is_open`: there is one for sure.
pub(crate) async fn complete<DB: Dialect>(
    conn: &mut DB::Connection,
    row: RunningRow,
    end: &End,
    is_open: bool,
) -> Result<Option<bool>, sqlx::Error> {
    // outside a transaction, this finds nothing
    let tries = DB::TRIES_FIRST.filter(|tries| !is_open && tries.load(Ordering::Relaxed));
    if (DB::BEGIN_TO_WRITE.is_some() || tries.is_some())
        && complete_inside::<DB>(conn, row, end, tries.is_some()).await?
    {
        return Ok(Some(true));
    }
    if !is_open && !DB::is_open(conn).await? {
        return Ok(None);
    }
    if let Some(sql) = DB::BEGIN_TO_WRITE {
        DB::raw(conn, sql).await?;
    }
    let done = complete_inside::<DB>(conn, row, end, false).await?;
    if let Some(tries) = tries.filter(|_| done) {
        tries.store(false, Ordering::Relaxed);
    }
    Ok(Some(done))
}

async fn complete_inside<DB: Dialect>(
    conn: &mut DB::Connection,
    row: RunningRow,
    end: &End,
    is_try: bool,
) -> Result<bool, sqlx::Error> {
    let [id, worker, fence, enqueued_at] = key(row);
    let binds = [id, worker, fence, enqueued_at, end.ran_us.into(), end.result().into()];
    let mut steps = DB::ATTEMPTS.complete.steps();
    while let Some((when, sql)) = steps.next() {
        match when {
            When::Sure if !is_try => continue,
            When::Sure => drop(steps.next()),
            _ => {}
        }
        // each statement touches this one row; the first decides
        if execute::<DB>(conn, sql, &binds).await? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Locks the job's row until the end of the handler's transaction. False: no row there is this attempt's. None: there
/// is no transaction.
pub(crate) async fn guard<DB: Dialect>(
    conn: &mut DB::Connection,
    row: RunningRow,
) -> Result<Option<bool>, sqlx::Error> {
    if !DB::is_open(conn).await? {
        return Ok(None);
    }
    Ok(Some(!ids::<DB>(conn, DB::ATTEMPTS.guard, &key(row)).await?.is_empty()))
}

fn key(row: RunningRow) -> [Bind<'static>; 4] {
    [row.hold.id.into(), row.worker.into(), i64::from(row.hold.fence).into(), row.enqueued_us.into()]
}
