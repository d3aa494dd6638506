//! The changes of the administration. A change is a [`Script`]. Each `find` returns the jobs of a list that are in the
//! right place, and locks or changes them at once. The steps behind it work on those alone. A script visits the tables
//! in the reverse order of a job's life, so that a job that moves meanwhile is found at most once. A change never takes
//! a job from the worker that holds it.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use serde::Serialize;

use crate::enqueue::write_through_pool;
use crate::error::{Doing as _, Error};
use crate::limits::{END_OF_9999, YEAR_1};
use crate::operations::{Action, Note, Progress, Spread};
use crate::state::JobId;
use crate::state::JobState;
use crate::store::AdminStore;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, execute, rows};
use crate::store::engine::migrate;
use crate::store::engine::operations::{self, note_down, refuse};
use crate::store::engine::statement::read::at;
use crate::store::engine::statement::{Script, When};
use crate::store::engine::unique::dialect::Key;
use crate::store::engine::unique::keys::take_again;
use crate::store::operations::{Change, LOCKED, NewArgs, Record, Refused, Saved};
use crate::store::values::{NewJob, Refusal, Unwritten};
use crate::store::view::MAX_PAGE;
use crate::unique::Enqueued;

/// A script of a change, and the jobs that it is for.
#[derive(Clone, Copy)]
struct Part {
    script: Script,
    /// Only this `find`, with the steps behind it.
    find: Option<usize>,
    of: Of,
    /// The jobs that it finds take their keys again. Its `find` returns their features, too.
    takes_keys: bool,
}

/// Which jobs of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    All,
    /// Those that no part before has changed.
    Rest,
    /// Those that a part before has changed.
    Changed,
}

impl Part {
    const fn new(script: Script) -> Self {
        Self { script, find: None, of: Of::All, takes_keys: false }
    }

    /// What a change of jobs in this state consists of.
    fn all<DB: Dialect>(action: &Action, listed: Option<JobState>, is_spread: bool) -> Vec<Self> {
        use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
        let run_now = Self::new(DB::ADMIN.run_now);
        let send_back = Self { takes_keys: true, ..Self::new(DB::ADMIN.send_back) };
        let mut parts = match (action, listed) {
            (Action::Retry, Some(Scheduled)) => vec![run_now],
            (Action::SendBack, _) | (Action::Retry, Some(Dead)) => vec![send_back],
            // a job that was just made ready may be a dead letter by now, and must not be sent back as well
            (Action::Retry, _) => vec![run_now, Self { of: Of::Rest, ..send_back }],
            (Action::Cancel, _) => vec![Self::new(DB::ADMIN.cancel)],
            (Action::Reschedule(_), _) => vec![Self::new(DB::ADMIN.reschedule)],
            (Action::Edit(_), _) => vec![Self::new(DB::ADMIN.edit)],
            (Action::Delete, listed) => {
                let find = listed.map(|state| match state {
                    Dead => 0,
                    Completed | Cancelled => 1,
                    Scheduled | Ready | Running => 2,
                });
                vec![Self { find, ..Self::new(DB::ADMIN.delete) }]
            }
        };
        if is_spread {
            parts.push(Self { of: Of::Changed, ..Self::new(DB::ADMIN.reschedule) });
        }
        parts
    }
}

/// A job to change, with the value that the statements of a change need.
#[derive(Serialize)]
struct ChangedJob<'a> {
    id: i64,
    #[serde(flatten)]
    with: Option<With<'a>>,
}

#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum With<'a> {
    /// Microseconds since 1970.
    RunAt {
        run_at: i64,
    },
    Reason {
        reason: &'a str,
    },
    /// JSON, as text.
    Args {
        args: &'a str,
        was: Option<&'a str>,
    },
}

/// Where these values come from.
#[derive(Debug, Clone)]
enum Values {
    Of(Action, Option<Spread>),
    Args(BTreeMap<i64, NewArgs>),
    Nothing,
}

impl Values {
    fn of(&self, id: i64) -> Option<With<'_>> {
        Some(match self {
            Self::Of(_, Some(spread)) => With::RunAt { run_at: spread.due(id).clamp(YEAR_1, END_OF_9999) },
            Self::Of(Action::Reschedule(at), _) => {
                With::RunAt { run_at: at.timestamp_micros().clamp(YEAR_1, END_OF_9999) }
            }
            Self::Of(Action::Cancel, _) => With::Reason { reason: "cancelled by an administrator" },
            Self::Of(..) | Self::Nothing => return None,
            Self::Args(all) => {
                let new = all.get(&id)?;
                With::Args { args: &new.args, was: new.was.as_deref() }
            }
        })
    }

    fn list(&self, ids: &[i64]) -> Result<String, sqlx::Error> {
        let jobs: Vec<_> = ids.iter().map(|&id| ChangedJob { id, with: self.of(id) }).collect();
        serde_json::to_string(&jobs).map_err(|error| sqlx::Error::Encode(error.into()))
    }
}

#[async_trait]
impl<DB: Dialect> AdminStore for SqlStore<DB> {
    fn engine(&self) -> &'static str {
        DB::ENGINE
    }

    async fn migrate(&self) -> Result<(), Error> {
        migrate::run(self.pool().clone()).await
    }

    async fn check_schema(&self) -> Result<(), Error> {
        migrate::check(self).await
    }

    async fn release_key(&self, kind: &str, key: &str, note: Note) -> Result<Result<bool, JobId>, Error> {
        // the new time and the look at the holder are one transaction: it is undone if the job has the key
        let args = (kind.to_owned(), key.to_owned(), note);
        let released =
            self.run(Via::Pool, Mode::Transaction, "cannot release a key", args, |conn, (kind, key, note)| {
                async move {
                    let found =
                        execute::<DB>(conn, DB::UNIQUE.release, &[kind.as_str().into(), key.as_str().into()]).await?;
                    if found == 0 {
                        return Ok(false);
                    }
                    match DB::holders(conn, &[Key { place: 0, kind, key }]).await?.first() {
                        Some(holder) => {
                            let refusal = Refusal { id: 0, key: key.clone(), holder: holder.id };
                            Err(Undone::KeysTaken(vec![refusal]).into())
                        }
                        None => {
                            note_down::<DB>(conn, note, "done", 1).await?;
                            Ok(true)
                        }
                    }
                }
                .boxed()
            });
        match released.await {
            Ok(found) => Ok(Ok(found)),
            Err(error) => Ok(Err(Undone::keys_taken(error)?[0].holder.into())),
        }
    }

    async fn record(&self, note: Note) -> Result<(), Error> {
        self.run(Via::Pool, Mode::Transaction, "cannot record an operation", note, |conn, note| {
            async move { note_down::<DB>(conn, note, "done", 1).await.map(drop) }.boxed()
        })
        .await
    }

    async fn enqueue(&self, job: NewJob) -> Result<Vec<Enqueued>, Unwritten> {
        write_through_pool(self.pool(), vec![job]).await
    }

    async fn set_paused(&self, queue: &str, paused: bool, note: Note) -> Result<(), Error> {
        let (doing, sql) = if paused {
            ("cannot pause a queue", DB::ADMIN.pause)
        } else {
            ("cannot resume a queue", DB::ADMIN.resume)
        };
        let args = (queue.to_owned(), note);
        self.run(Via::Pool, Mode::Transaction, doing, args, move |conn, (queue, note)| {
            async move {
                if execute::<DB>(conn, sql, &[queue.as_str().into()]).await? > 0 {
                    note_down::<DB>(conn, note, "done", 1).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await?;
        self.wake(!paused).await;
        Ok(())
    }

    async fn bounds(&self) -> Result<(DateTime<Utc>, i64), Error> {
        let doing = "cannot plan an operation";
        let read = |row: &DB::Row| Ok((at(row, 0)?, row.int(1)?));
        let found = self.read(Via::Pool, doing, DB::OPERATIONS.bounds, &[], read).await?.pop();
        found.ok_or(sqlx::Error::RowNotFound).doing(doing)
    }

    async fn begin(&self, note: Note) -> Result<i64, Error> {
        self.run(Via::Pool, Mode::Transaction, "cannot begin an operation", note, |conn, note| {
            note_down::<DB>(conn, note, "running", 0).boxed()
        })
        .await
    }

    async fn end_operation(&self, id: i64, as_: Progress, by: Option<Note>) -> Result<bool, Error> {
        self.run(Via::Pool, Mode::Transaction, "cannot end an operation", (id, as_, by), |conn, (id, as_, by)| {
            async move {
                let ended = execute::<DB>(conn, DB::OPERATIONS.end, &[(*id).into(), as_.as_str().into()]).await? > 0;
                if let Some(note) = by
                    && ended
                {
                    note_down::<DB>(conn, note, "done", 1).await?;
                }
                Ok(ended)
            }
            .boxed()
        })
        .await
    }

    async fn explain(&self, operation: i64, refused: Vec<Refused>, forgiven: Vec<i64>) -> Result<(), Error> {
        let args = (operation, refused, forgiven);
        let doing = "cannot keep what an operation did not change";
        self.run(Via::Pool, Mode::Transaction, doing, args, |conn, (operation, refused, forgiven)| {
            async move {
                refuse::<DB>(conn, *operation, refused).await?;
                let list = Values::Nothing.list(forgiven)?;
                execute::<DB>(conn, DB::OPERATIONS.forgive, &[(*operation).into(), list.as_str().into()]).await?;
                Ok(())
            }
            .boxed()
        })
        .await
    }

    async fn operations(&self, before: i64, limit: u32, job: Option<i64>) -> Result<Vec<Saved>, Error> {
        operations::list(self, before, limit, job).await
    }

    async fn refusals(&self, operation: i64, after: i64, reason: Option<&str>) -> Result<Vec<(i64, String)>, Error> {
        let doing = "cannot read what an operation did not change";
        let binds = [operation.into(), after.into(), reason.into(), i64::from(MAX_PAGE).into()];
        self.read(Via::Pool, doing, DB::OPERATIONS.refusals, &binds, |row| Ok((row.int(0)?, row.text(1)?))).await
    }

    async fn change_jobs(&self, change: Change) -> Result<Option<(Vec<i64>, Vec<Refusal>)>, Error> {
        let Change { action, mut ids, listed, spread, args, record } = change;
        let doing = match action {
            Action::Retry => "cannot retry jobs",
            Action::SendBack => "cannot send dead letters back",
            Action::Cancel => "cannot cancel jobs",
            Action::Delete => "cannot delete jobs",
            Action::Reschedule(_) => "cannot reschedule jobs",
            Action::Edit(_) => "cannot edit the arguments of jobs",
        };
        let wakes = matches!(action, Action::Retry | Action::SendBack | Action::Reschedule(_));
        let parts = Part::all::<DB>(&action, listed, spread.is_some());
        let values = if let Action::Edit(_) = action { Values::Args(args) } else { Values::Of(action, spread) };
        let mut refused: Vec<Refusal> = Vec::new();
        loop {
            let changed =
                self.run_parts(doing, parts.clone(), ids.clone(), values.clone(), record.clone(), refused.clone());
            match changed.await {
                Ok(changed) => {
                    self.wake(wakes && !changed.is_empty()).await;
                    return Ok(Some((changed, refused)));
                }
                Err(error) if Undone::is_superseded(&error) => return Ok(None),
                // nothing was changed: the others go on without these
                Err(error) => {
                    let refusals = Undone::keys_taken(error)?;
                    ids.retain(|id| refusals.iter().all(|refusal| refusal.id != *id));
                    refused.extend(refusals);
                }
            }
        }
    }
}

impl<DB: Dialect> SqlStore<DB> {
    /// See [`Upkeep::delete`](crate::store::Upkeep::delete).
    pub(crate) async fn delete_jobs(&self, ids: &[i64], state: Option<JobState>) -> Result<Vec<i64>, Error> {
        let parts = Part::all::<DB>(&Action::Delete, state, false);
        let (ids, doing) = (ids.to_vec(), "cannot delete jobs");
        self.run_parts(doing, parts, ids, Values::Nothing, Record::Nothing, Vec::new()).await
    }

    /// Runs a change, with its record, in one transaction. Returns the ids that it found.
    async fn run_parts(
        &self,
        doing: &'static str,
        parts: Vec<Part>,
        mut jobs: Vec<i64>,
        values: Values,
        record: Record,
        refused: Vec<Refusal>,
    ) -> Result<Vec<i64>, Error> {
        jobs.sort_unstable(); // everybody locks in the same order
        jobs.dedup();
        let args = (parts, jobs, values, record, refused);
        self.run(Via::Pool, Mode::Transaction, doing, args, |conn, (parts, jobs, values, record, refused)| {
            change::<DB>(conn, parts, jobs, values, record, refused).boxed()
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

/// Cancels a job in the caller's transaction. False: it is over, gone or locked.
pub(crate) async fn cancel<DB: Dialect>(
    conn: &mut DB::Connection,
    id: JobId,
    record: &Record,
) -> Result<bool, sqlx::Error> {
    let (parts, values) = (Part::all::<DB>(&Action::Cancel, None, false), Values::Of(Action::Cancel, None));
    Ok(!change::<DB>(conn, &parts, &[id.get()], &values, record, &[]).await?.is_empty())
}

/// Makes a change of jobs in the order of their ids, with its record, in an open transaction. Returns those that it
/// found.
async fn change<DB: Dialect>(
    conn: &mut DB::Connection,
    parts: &[Part],
    jobs: &[i64],
    values: &Values,
    record: &Record,
    refused: &[Refusal],
) -> Result<Vec<i64>, sqlx::Error> {
    let mut changed = Vec::new();
    for part in parts {
        let of: Vec<i64> = match part.of {
            Of::All => jobs.to_vec(),
            Of::Rest => jobs.iter().copied().filter(|id| !changed.contains(id)).collect(),
            Of::Changed => changed.clone(),
        };
        let found = run_part::<DB>(conn, part, &of, values).await?;
        if part.of != Of::Changed {
            changed.extend(found);
        }
    }
    record_it::<DB>(conn, record, jobs, &changed, refused).await?;
    Ok(changed)
}

async fn run_part<DB: Dialect>(
    conn: &mut DB::Connection,
    part: &Part,
    jobs: &[i64],
    values: &Values,
) -> Result<Vec<i64>, sqlx::Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let (mut changed, mut found) = (Vec::new(), Vec::new());
    let (mut numbers, mut number) = (0.., None);
    for (when, sql) in part.script.steps() {
        if when != When::Found {
            number = numbers.next();
        }
        if part.find.is_some() && part.find != number {
            continue;
        }
        if when == When::Found {
            if !found.is_empty() {
                execute::<DB>(conn, sql, &[values.list(&found)?.as_str().into()]).await?;
            }
            continue;
        }
        let rows = rows::<DB>(conn, sql, &[values.list(jobs)?.as_str().into()]).await?;
        found = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<i64>, _>>()?;
        if part.takes_keys {
            // before their rows come back: whoever has a key may wait for such a row
            let mut unique = Vec::new();
            for row in &rows {
                if row.int(1)? & NewJob::IS_UNIQUE != 0 {
                    unique.push(row.int(0)?);
                }
            }
            let refused = take_again::<DB>(conn, &unique).await?;
            if !refused.is_empty() {
                return Err(Undone::KeysTaken(refused).into());
            }
        }
        changed.extend(&found);
    }
    Ok(changed)
}

/// Writes the record of a change into its transaction.
async fn record_it<DB: Dialect>(
    conn: &mut DB::Connection,
    record: &Record,
    jobs: &[i64],
    changed: &[i64],
    refused: &[Refusal],
) -> Result<(), sqlx::Error> {
    let (operation, from, to) = match record {
        Record::Nothing => return Ok(()),
        Record::Note(_) if changed.is_empty() => return Ok(()),
        Record::Note(note) => return note_down::<DB>(conn, note, "done", changed.len() as i64).await.map(drop),
        Record::Step { operation, from, to } => (*operation, *from, *to),
    };
    let advance = [operation.into(), from.into(), to.into(), (changed.len() as i64).into()];
    if execute::<DB>(conn, DB::OPERATIONS.advance, &advance).await? == 0 {
        return Err(Undone::Superseded.into());
    }
    let is_changed: HashSet<i64> = changed.iter().copied().collect();
    let missed = jobs.iter().filter(|id| !is_changed.contains(id));
    let missed = missed.map(|&id| Refused { id, reason: LOCKED.to_owned() });
    let taken = refused.iter().map(|it| Refused { id: it.id, reason: format!("job {} has its key", it.holder) });
    refuse::<DB>(conn, operation, &missed.chain(taken).collect::<Vec<_>>()).await?;
    if from == to && !changed.is_empty() {
        let list = Values::Nothing.list(changed)?;
        let forgiven = execute::<DB>(conn, DB::OPERATIONS.forgive, &[operation.into(), list.as_str().into()]).await?;
        // else another process has changed some of them before, which is to be done once
        if forgiven < changed.len() as u64 {
            return Err(Undone::Superseded.into());
        }
    }
    Ok(())
}

/// Undoes a change.
#[derive(Debug, thiserror::Error)]
enum Undone {
    #[error("other jobs have these keys")]
    KeysTaken(Vec<Refusal>),
    #[error("the operation was stopped, or another process has taken it over")]
    Superseded,
}

impl From<Undone> for sqlx::Error {
    fn from(undone: Undone) -> Self {
        Self::Configuration(Box::new(undone))
    }
}

impl Undone {
    fn is_superseded(error: &Error) -> bool {
        let Error::Database { source: sqlx::Error::Configuration(source), .. } = error else { return false };
        matches!(source.downcast_ref(), Some(Self::Superseded))
    }

    /// Any other error comes back.
    fn keys_taken(error: Error) -> Result<Vec<Refusal>, Error> {
        match error {
            Error::Database { source: sqlx::Error::Configuration(source), doing } => match source.downcast::<Self>() {
                Ok(undone) => match *undone {
                    Self::KeysTaken(refusals) => Ok(refusals),
                    Self::Superseded => Err(Error::Database { source: (*undone).into(), doing }),
                },
                Err(source) => Err(Error::Database { source: sqlx::Error::Configuration(source), doing }),
            },
            error => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_a_list_of_flat_objects() {
        let values = Values::Of(Action::Reschedule(DateTime::from_timestamp_micros(7).unwrap()), None);
        assert_eq!(values.list(&[1, 2]).unwrap(), r#"[{"id":1,"run_at":7},{"id":2,"run_at":7}]"#);
        assert_eq!(Values::Nothing.list(&[1]).unwrap(), r#"[{"id":1}]"#);
    }
}
