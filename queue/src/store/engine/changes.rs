//! The changes of the administration. A change is a [`Script`]. Each `find` returns the jobs of a list that are in the
//! right place, and locks or changes them at once. The steps behind it work on those alone. A script visits the tables
//! in the reverse order of a job's life, so that a job that moves meanwhile is found at most once. A change never takes
//! a job from the worker that holds it.

use async_trait::async_trait;
use futures_util::FutureExt;
use serde::Serialize;

use crate::enqueue::write_through_pool;
use crate::error::Error;
use crate::limits::{END_OF_9999, YEAR_1};
use crate::state::JobId;
use crate::state::JobState;
use crate::store::AdminStore;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, execute, rows};
use crate::store::engine::migrate;
use crate::store::engine::statement::{Script, When};
use crate::store::engine::unique::dialect::Key;
use crate::store::engine::unique::keys::take_again;
use crate::store::values::{NewJob, Refusal, Unwritten};
use crate::unique::Enqueued;

/// A change: a script, and how it is run.
#[derive(Clone, Copy)]
struct Change {
    /// Begins the error message.
    doing: &'static str,
    script: Script,
    /// Only this `find`, with the steps behind it.
    part: Option<usize>,
    /// The jobs that it finds take their keys again. Its `find` returns their features, too.
    takes_keys: bool,
}

impl Change {
    const fn new(doing: &'static str, script: Script) -> Self {
        Self { doing, script, part: None, takes_keys: false }
    }
}

/// A job to change, with the value that the statements of a change need.
#[derive(Serialize)]
struct ChangedJob<'a> {
    id: i64,
    #[serde(flatten)]
    with: &'a Option<With>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum With {
    /// Microseconds since 1970.
    RunAt {
        run_at: i64,
    },
    Reason {
        reason: String,
    },
    /// JSON, as text.
    Args {
        args: String,
        was: Option<String>,
    },
}

#[async_trait]
impl<DB: Dialect> AdminStore for SqlStore<DB> {
    async fn migrate(&self) -> Result<(), Error> {
        migrate::run(self.pool().clone()).await
    }

    async fn check_schema(&self) -> Result<(), Error> {
        migrate::check(self).await
    }

    async fn run_now(&self, ids: &[i64]) -> Result<Vec<i64>, Error> {
        let changed = self.change(Change::new("cannot retry jobs", DB::ADMIN.run_now), ids, None).await?;
        self.wake(!changed.is_empty()).await;
        Ok(changed)
    }

    async fn reschedule(&self, ids: &[i64], run_at: i64) -> Result<Vec<i64>, Error> {
        let with = Some(With::RunAt { run_at: run_at.clamp(YEAR_1, END_OF_9999) });
        let changed = self.change(Change::new("cannot reschedule jobs", DB::ADMIN.reschedule), ids, with).await?;
        self.wake(!changed.is_empty()).await;
        Ok(changed)
    }

    async fn cancel(&self, ids: &[i64], reason: &str) -> Result<Vec<i64>, Error> {
        let with = Some(With::Reason { reason: reason.to_owned() });
        self.change(Change::new("cannot cancel jobs", DB::ADMIN.cancel), ids, with).await
    }

    async fn send_back(&self, ids: &[i64]) -> Result<(Vec<i64>, Vec<Refusal>), Error> {
        let (mut ids, mut refused) = (ids.to_vec(), Vec::new());
        let back = Change { takes_keys: true, ..Change::new("cannot send dead letters back", DB::ADMIN.send_back) };
        loop {
            match self.change(back, &ids, None).await {
                Ok(changed) => {
                    self.wake(!changed.is_empty()).await;
                    return Ok((changed, refused));
                }
                // nothing was changed: the others go on without these
                Err(error) => {
                    let refusals = Refusals::in_error(error)?;
                    ids.retain(|id| refusals.iter().all(|refusal| refusal.id != *id));
                    refused.extend(refusals);
                }
            }
        }
    }

    async fn release_key(&self, kind: &str, key: &str) -> Result<Result<bool, JobId>, Error> {
        // the new time and the look at the holder are one transaction: it is undone if the job has the key
        let args = (kind.to_owned(), key.to_owned());
        let released = self.run(Via::Pool, Mode::Transaction, "cannot release a key", args, |conn, (kind, key)| {
            async move {
                let found =
                    execute::<DB>(conn, DB::UNIQUE.release, &[kind.as_str().into(), key.as_str().into()]).await?;
                if found == 0 {
                    return Ok(false);
                }
                match DB::holders(conn, &[Key { place: 0, kind, key }]).await?.first() {
                    Some(holder) => {
                        let refusal = Refusal { id: 0, key: key.clone(), holder: holder.id };
                        Err(sqlx::Error::Configuration(Box::new(Refusals(vec![refusal]))))
                    }
                    None => Ok(true),
                }
            }
            .boxed()
        });
        match released.await {
            Ok(found) => Ok(Ok(found)),
            Err(error) => Ok(Err(Refusals::in_error(error)?[0].holder.into())),
        }
    }

    async fn edit(&self, id: JobId, args: &str, was: Option<&str>) -> Result<bool, Error> {
        let with = Some(With::Args { args: args.to_owned(), was: was.map(str::to_owned) });
        let changed =
            self.change(Change::new("cannot edit a job's arguments", DB::ADMIN.edit), &[id.get()], with).await?;
        Ok(!changed.is_empty())
    }

    async fn enqueue(&self, job: NewJob) -> Result<Vec<Enqueued>, Unwritten> {
        write_through_pool(self.pool(), vec![job]).await
    }

    async fn set_paused(&self, queue: &str, paused: bool) -> Result<(), Error> {
        let (doing, sql) = if paused {
            ("cannot pause a queue", DB::ADMIN.pause)
        } else {
            ("cannot resume a queue", DB::ADMIN.resume)
        };
        self.write(Via::Pool, doing, sql, &[queue.into()]).await?;
        self.wake(!paused).await;
        Ok(())
    }
}

impl<DB: Dialect> SqlStore<DB> {
    /// See [`Upkeep::delete`](crate::store::Upkeep::delete).
    pub(crate) async fn delete_jobs(&self, ids: &[i64], state: Option<JobState>) -> Result<Vec<i64>, Error> {
        use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
        let part = match state {
            None => None,
            Some(Dead) => Some(0),
            Some(Completed | Cancelled) => Some(1),
            Some(Scheduled | Ready | Running) => Some(2),
        };
        self.change(Change { part, ..Change::new("cannot delete jobs", DB::ADMIN.delete) }, ids, None).await
    }

    /// Runs a change and returns the ids that it found.
    async fn change(&self, change: Change, jobs: &[i64], with: Option<With>) -> Result<Vec<i64>, Error> {
        let Change { doing, script, part, takes_keys } = change;
        let mut jobs = jobs.to_vec();
        if jobs.is_empty() {
            return Ok(jobs);
        }
        jobs.sort_unstable(); // everybody locks in the same order
        jobs.dedup();
        let mode = if script.is_one() && !takes_keys { Mode::Write } else { Mode::Transaction };
        self.run(Via::Pool, mode, doing, (jobs, with), move |conn, (jobs, with)| {
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
                            execute::<DB>(conn, sql, &[list(&found, with)?.as_str().into()]).await?;
                        }
                        continue;
                    }
                    let rows = rows::<DB>(conn, sql, &[list(jobs, with)?.as_str().into()]).await?;
                    found = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>, _>>()?;
                    if takes_keys {
                        // before their rows come back: whoever has a key may wait for such a row
                        let mut unique = Vec::new();
                        for row in &rows {
                            if row.int(1)? & NewJob::IS_UNIQUE != 0 {
                                unique.push(row.int(0)?);
                            }
                        }
                        let refused = take_again::<DB>(conn, &unique).await?;
                        if !refused.is_empty() {
                            return Err(sqlx::Error::Configuration(Box::new(Refusals(refused))));
                        }
                    }
                    changed.extend(&found);
                }
                Ok(changed)
            }
            .boxed()
        })
        .await
    }

    /// Notifies the workers that jobs may be ready, if the engine can. This is only a hint: polling finds what it
    /// misses.
    async fn wake(&self, something: bool) {
        if something && DB::NOTIFIES {
            // no token: this process's own workers react to this signal, too
            let told = self
                .run(Via::Pool, Mode::Write, "cannot wake the workers", (), |conn, ()| DB::notify(conn, "").boxed());
            if let Err(error) = told.await {
                tracing::debug!(%error, "workers will find the change by polling");
            }
        }
    }
}

/// Undoes a change, and tells the jobs that forbid it.
#[derive(Debug, thiserror::Error)]
#[error("other jobs have these keys")]
struct Refusals(Vec<Refusal>);

impl Refusals {
    /// Any other error comes back.
    fn in_error(error: Error) -> Result<Vec<Refusal>, Error> {
        match error {
            Error::Database { source: sqlx::Error::Configuration(source), doing } => match source.downcast::<Self>() {
                Ok(refusals) => Ok(refusals.0),
                Err(source) => Err(Error::Database { source: sqlx::Error::Configuration(source), doing }),
            },
            error => Err(error),
        }
    }
}

fn list(ids: &[i64], with: &Option<With>) -> Result<String, sqlx::Error> {
    let targets: Vec<_> = ids.iter().map(|&id| ChangedJob { id, with }).collect();
    serde_json::to_string(&targets).map_err(|error| sqlx::Error::Encode(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_a_list_of_flat_objects() {
        let with = Some(With::RunAt { run_at: 7 });
        assert_eq!(list(&[1, 2], &with).unwrap(), r#"[{"id":1,"run_at":7},{"id":2,"run_at":7}]"#);
    }
}
