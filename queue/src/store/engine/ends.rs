//! The starts and ends of attempts: one script for a batch of jobs.

use std::collections::HashSet;

use futures_util::FutureExt;
use serde::Serialize;

use crate::error::Error;
use crate::store::engine::dialect::{Cells, Dialect, List, execute, ids, json, rows};
use crate::store::engine::feature::Edge;
use crate::store::engine::operation::{Mode, SqlStore, Via};
use crate::store::engine::read::number;
use crate::store::engine::runs::Runs;
use crate::store::engine::script::{Script, When};
use crate::store::engine::steps::{has_steps, run_steps};
use crate::store::values::{AttemptOutcome, Destination, End, Hold, Start, WorkerId};

/// A job may have any number of attempts that do not count. Its last 100 to 200 are kept: every hundredth one deletes
/// older ones.
const KEPT: i32 = 100;

/// A batch as its script reads it.
struct Batch {
    /// Begins the error message.
    doing: &'static str,
    edge: Edge,
    script: Script,
    /// By job and fence: everybody locks in the same order.
    holds: Vec<Hold>,
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
                edge: Edge::Start,
                script: DB::STARTED,
                holds: starts.iter().map(|start| start.hold).collect(),
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
        let (doing, edge, script, list) = match first.to {
            Destination::Finish { .. } => {
                ("cannot store finished jobs", Edge::Finish, DB::FINISH, DB::finish_list(&ends))
            }
            Destination::Requeue { .. } => ("cannot return jobs to the queue", Edge::Requeue, DB::REQUEUE, list(&ends)),
            Destination::Bury => ("cannot store dead letters", Edge::Bury, DB::BURY, list(&ends)),
        };
        let (recorded, forgetting) = (ends.iter().any(is_recorded), ends.iter().any(|end| forget(end).is_some()));
        let holds = ends.iter().map(|end| end.hold).collect();
        self.write(worker, Batch { doing, edge, script, holds, list, recorded, forgetting }).await
    }

    async fn write(&self, worker: WorkerId, batch: Batch) -> Result<Vec<i64>, Error> {
        let Batch { doing, edge, script, holds, list, recorded, forgetting } = batch;
        if holds.is_empty() {
            return Ok(Vec::new());
        }
        let writes = script.steps().filter(|(when, _)| match when {
            When::Recorded => recorded,
            When::Forgetting => forgetting,
            When::Refused => false,
            _ => true,
        });
        let has_steps = has_steps::<DB>(edge, holds.iter().map(|hold| hold.features));
        let mode = if writes.count() == 1 && !has_steps { Mode::Alone } else { Mode::Transaction };
        let all: Vec<i64> = holds.iter().map(|hold| hold.id).collect();
        let args = (worker, list, all, holds);
        self.run(Via::Ends, mode, doing, args, move |conn, (worker, list, all, holds)| {
            async move {
                // a repeated call may accept what an earlier one has ended, and a batch may name a job twice
                let held = if has_steps { held_keys::<DB>(conn, *worker).await? } else { HashSet::new() };
                let binds = list.behind(*worker);
                let runs = Runs::of(all);
                let (mut accepted, mut refused) = (Vec::new(), false);
                for (when, sql) in script.steps() {
                    match when {
                        When::Recorded if !recorded => {}
                        When::Forgetting if !forgetting => {}
                        When::Refused if !refused => {}
                        When::Scattered if !refused && runs.is_some() => {}
                        When::Runs => match &runs {
                            Some(runs) if !refused => execute::<DB>(conn, sql, &runs.behind(&binds)).await.map(drop)?,
                            _ => {}
                        },
                        When::Each => match execute::<DB>(conn, sql, &binds).await? {
                            count if count == all.len() as u64 => accepted.extend(all),
                            _ => refused = true,
                        },
                        _ => accepted.extend(ids::<DB>(conn, sql, &binds).await?),
                    }
                }
                if has_steps {
                    run_steps::<DB>(conn, edge, &ended(holds, &accepted, &held)).await?;
                }
                Ok(accepted)
            }
            .boxed()
        })
        .await
    }
}

/// Those of the jobs that the worker held, and whose ends were accepted.
fn ended(holds: &[Hold], accepted: &[i64], held: &HashSet<(i64, i32)>) -> Vec<Hold> {
    let accepted: HashSet<i64> = accepted.iter().copied().collect();
    holds.iter().filter(|hold| accepted.contains(&hold.id) && held.contains(&hold.key())).copied().collect()
}

/// The jobs that the worker holds, with their fences.
async fn held_keys<DB: Dialect>(
    conn: &mut DB::Connection,
    worker: WorkerId,
) -> Result<HashSet<(i64, i32)>, sqlx::Error> {
    let held = rows::<DB>(conn, DB::HOLDING, &[worker.into()]).await?;
    held.iter().map(|row| Ok((row.int(0)?, number(row.int(1)?)?))).collect()
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
