//! The starts and ends of attempts: one script for a batch of jobs.

use futures_util::FutureExt;
use serde::Serialize;

use crate::error::Error;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{List, execute, ids, json};
use crate::store::engine::statement::script::{Script, When};
use crate::store::values::{AttemptOutcome, Destination, End, Hold, Start, WorkerId};

/// A job may have any number of attempts that do not count. Its last 100 to 200 are kept: every hundredth one deletes
/// older ones.
const KEPT: i32 = 100;

/// A batch as its script reads it.
struct Batch {
    /// Begins the error message.
    doing: &'static str,
    script: Script,
    /// By id: everybody locks in the same order.
    jobs: Vec<i64>,
    list: List,
    /// Whether some attempt goes into `queue_attempts`.
    recorded: bool,
    /// Whether some job has so many attempts that do not count that old ones are deleted now.
    forgetting: bool,
}

impl<DB: Dialect> SqlStore<DB> {
    /// See [`Jobs::started`](crate::store::Jobs::started).
    pub(crate) async fn write_starts(&self, worker: WorkerId, starts: &[Start]) -> Result<Vec<i64>, Error> {
        let mut starts = starts.to_vec();
        starts.sort_unstable_by_key(|start| start.hold.key());
        self.write(
            worker,
            Batch {
                doing: "cannot note that jobs have started",
                script: DB::ATTEMPTS.started,
                jobs: starts.iter().map(|start| start.hold.id).collect(),
                list: json(&starts).into(),
                recorded: false,
                forgetting: false,
            },
        )
        .await
    }

    /// See [`Jobs::end`](crate::store::Jobs::end).
    pub(crate) async fn write_ends(&self, worker: WorkerId, ends: &[End]) -> Result<Vec<i64>, Error> {
        let Some(first) = ends.first() else { return Ok(Vec::new()) };
        let goes_with_it = |end: &End| std::mem::discriminant(&end.to) == std::mem::discriminant(&first.to);
        debug_assert!(ends.iter().all(goes_with_it), "one statement has one destination");
        let mut ends: Vec<End> = ends.iter().map(clean).collect();
        ends.sort_unstable_by_key(|end| end.hold.key());
        let (doing, script, list) = match first.to {
            Destination::Finish { .. } => ("cannot store finished jobs", DB::ATTEMPTS.finish, DB::finish_list(&ends)),
            Destination::Requeue { .. } => ("cannot return jobs to the queue", DB::ATTEMPTS.requeue, list(&ends)),
            Destination::Bury => ("cannot store dead letters", DB::ATTEMPTS.bury, list(&ends)),
        };
        let (recorded, forgetting) = (ends.iter().any(is_recorded), ends.iter().any(|end| forget(end).is_some()));
        let jobs = ends.iter().map(|end| end.hold.id).collect();
        self.write(worker, Batch { doing, script, jobs, list, recorded, forgetting }).await
    }

    async fn write(&self, worker: WorkerId, batch: Batch) -> Result<Vec<i64>, Error> {
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
fn is_recorded(end: &End) -> bool {
    match end.to {
        Destination::Finish { .. } => end.outcome != AttemptOutcome::Completed,
        Destination::Requeue { record, .. } => record,
        Destination::Bury => true,
    }
}

/// The fence up to which to delete the job's attempts that do not count, if that is to be done now.
fn forget(end: &End) -> Option<i32> {
    match end.to {
        Destination::Requeue { uncount, .. } if uncount > 0 && end.hold.fence % KEPT == 0 => {
            Some(end.hold.fence - KEPT)
        }
        _ => None,
    }
}

/// The ends of jobs that are not finished, as their statements read them.
fn list(ends: &[End]) -> List {
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
    let listed = ends.iter().map(|end| {
        let back = match end.to {
            Destination::Requeue { delay_us, uncount, record } => {
                Some(Back { delay_us, uncount, record, forget: forget(end) })
            }
            Destination::Finish { .. } | Destination::Bury => None,
        };
        let End { hold, ran_us, outcome, error, .. } = end;
        Listed { hold: *hold, ran_us: *ran_us, outcome: *outcome, error: error.as_deref(), back }
    });
    json(&listed.collect::<Vec<_>>()).into()
}

/// Replaces what some engine cannot store.
fn clean(end: &End) -> End {
    let error = end.error.as_ref().map(|text| text.replace('\0', "\u{fffd}"));
    End { error, ..end.clone() }
}
