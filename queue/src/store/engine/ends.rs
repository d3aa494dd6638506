//! The starts and ends of attempts: one script for a batch of jobs.

use std::collections::HashSet;

use futures_util::FutureExt;

use crate::error::Error;
use crate::store::engine::dialect::{Cells, Dialect, List, execute, ids, json, rows};
use crate::store::engine::feature::Edge;
use crate::store::engine::operation::{Mode, SqlStore, Via};
use crate::store::engine::read::number;
use crate::store::engine::runs::Runs;
use crate::store::engine::script::{Script, When};
use crate::store::engine::steps::{has_steps, run_steps};
use crate::store::values::{AttemptOutcome, Bury, Finish, Hold, Requeue, Start, WorkerId};

/// A job may have any number of attempts that do not count. Its last 100 to 200 are kept: every hundredth one deletes
/// older ones.
const KEPT: i32 = 100;

impl<DB: Dialect> SqlStore<DB> {
    pub(crate) async fn ending<E: Ending>(
        &self,
        doing: &'static str,
        script: Script,
        worker: WorkerId,
        batch: &[E],
    ) -> Result<Vec<i64>, Error> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let recorded = batch.iter().any(Ending::recorded);
        let forgetting = batch.iter().any(|ending| ending.forget().is_some());
        let writes = script.steps().filter(|(when, _)| match when {
            When::Recorded => recorded,
            When::Forgetting => forgetting,
            When::Refused => false,
            _ => true,
        });
        let has_steps = has_steps::<DB>(E::EDGE, batch.iter().map(|ending| ending.hold().features));
        let mode = if writes.count() == 1 && !has_steps { Mode::Alone } else { Mode::Transaction };
        let mut batch: Vec<_> = batch.iter().map(Ending::clean).collect();
        batch.sort_unstable_by_key(|ending| ending.hold().key()); // everybody locks in the same order
        let all: Vec<i64> = batch.iter().map(|ending| ending.hold().id).collect();
        let holds: Vec<Hold> = batch.iter().map(Ending::hold).filter(|_| has_steps).collect();
        let args = (worker, E::list::<DB>(&batch), all, holds);
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
                    run_steps::<DB>(conn, E::EDGE, &ended(holds, &accepted, &held)).await?;
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

/// The start or the end of one attempt, in a batch.
pub(crate) trait Ending: serde::Serialize + Clone + Sync {
    /// At which features may act.
    const EDGE: Edge;
    fn hold(&self) -> Hold;
    /// Whether the attempt goes into `queue_attempts`.
    fn recorded(&self) -> bool {
        false
    }
    fn error(&mut self) -> Option<&mut String> {
        None
    }
    /// The fence up to which to delete the job's attempts that do not count, if that is to be done now.
    fn forget(&self) -> Option<i32> {
        None
    }

    /// A batch, sorted by job and fence, as its statements read it.
    fn list<DB: Dialect>(batch: &[Self]) -> List
    where
        Self: Sized,
    {
        json(batch).into()
    }

    /// Replaces what some engine cannot store.
    fn clean(&self) -> Self {
        let mut clean = self.clone();
        if let Some(error) = clean.error()
            && let Some(text) = without_nul(error)
        {
            *error = text;
        }
        clean
    }
}

impl Ending for Start {
    const EDGE: Edge = Edge::Start;

    fn hold(&self) -> Hold {
        self.hold
    }
}

impl Ending for Finish {
    const EDGE: Edge = Edge::Finish;

    fn hold(&self) -> Hold {
        self.hold
    }
    fn recorded(&self) -> bool {
        self.state != AttemptOutcome::Completed
    }
    fn error(&mut self) -> Option<&mut String> {
        self.error.as_mut()
    }
    fn list<DB: Dialect>(batch: &[Self]) -> List {
        DB::finish_list(batch)
    }
}

impl Ending for Requeue {
    const EDGE: Edge = Edge::Requeue;

    fn hold(&self) -> Hold {
        self.hold
    }
    fn recorded(&self) -> bool {
        self.record
    }
    fn error(&mut self) -> Option<&mut String> {
        self.error.as_mut()
    }
    fn forget(&self) -> Option<i32> {
        (self.uncount > 0 && self.hold.fence % KEPT == 0).then_some(self.hold.fence - KEPT)
    }
    fn list<DB: Dialect>(batch: &[Self]) -> List {
        #[derive(serde::Serialize)]
        struct EndJson<'a> {
            #[serde(flatten)]
            end: &'a Requeue,
            forget: Option<i32>,
        }
        json(&batch.iter().map(|end| EndJson { end, forget: end.forget() }).collect::<Vec<_>>()).into()
    }
}

impl Ending for Bury {
    const EDGE: Edge = Edge::Bury;

    fn hold(&self) -> Hold {
        self.hold
    }
    fn recorded(&self) -> bool {
        true
    }
    fn error(&mut self) -> Option<&mut String> {
        Some(&mut self.error)
    }
}

fn without_nul(text: &str) -> Option<String> {
    text.contains('\0').then(|| text.replace('\0', "\u{fffd}"))
}
