//! Schedules: looking, and their administration. Firing and what applications declare have files of their own.

mod converge;
mod fire;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;

use crate::error::{Doing as _, Error};
use crate::limits::micros;
use crate::operations::Note;
use crate::schedule::definition::Definition;
use crate::schedule::plan::{ScheduleRow, TickOutcome};
use crate::store::ScheduleStore;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, assembled, execute, ids, json};
use crate::store::engine::operations::note_down;
use crate::store::engine::schedules::fire::{announce, insert, job};
use crate::store::engine::schedules::rows::{Moved, Tick, read, row};
use crate::store::engine::statement::When;
use crate::store::engine::statement::read::{list, time};
use crate::store::schedules::{Change, Converged, Fired, Kinds, Named, NotThere, Noted, Scheduler, Seen};

/// The most schedules that one look finds.
const MOST_DUE: i64 = 1_000;

/// Locks the schedule with this name, if it exists and was not removed.
async fn locked<DB: Dialect>(conn: &mut DB::Connection, name: &str) -> Result<Option<ScheduleRow>, sqlx::Error> {
    let found = ids::<DB>(conn, DB::SCHEDULES.named, &[name.into()]).await?;
    let (sql, arguments) = DB::prepare(DB::SCHEDULES.rows, &[found.as_slice().into(), 0.into()])?;
    let found = DB::fetch(conn, assembled(format!("{}{}", sql.as_str(), DB::AS_OF_NOW)), arguments).await?;
    Ok(found.first().map(row).transpose()?.filter(|row| row.retired_at.is_none()))
}

/// Creates or changes a schedule in an open transaction.
pub(crate) async fn define<DB: Dialect>(
    conn: &mut DB::Connection,
    definition: &Definition,
    note: &Note,
) -> Result<Named<()>, sqlx::Error> {
    match locked::<DB>(conn, &definition.name).await? {
        Some(row) if !row.app.is_empty() => return Ok(Err(NotThere::Declared(row.app))),
        Some(row) if row.definition.is_same_as(definition) => return Ok(Ok(())),
        _ => {}
    }
    let list = json(std::slice::from_ref(definition));
    execute::<DB>(conn, DB::SCHEDULES.define, &[list.as_str().into(), "".into()]).await?;
    note_down::<DB>(conn, note, "done", 1).await?;
    Ok(Ok(()))
}

/// Pauses, resumes or removes a schedule in an open transaction.
pub(crate) async fn change<DB: Dialect>(
    conn: &mut DB::Connection,
    name: &str,
    change: Change,
    note: &Note,
) -> Result<Named<()>, sqlx::Error> {
    let Some(row) = locked::<DB>(conn, name).await? else { return Ok(Err(NotThere::Unknown)) };
    let sql = match change {
        Change::Remove if !row.app.is_empty() => return Ok(Err(NotThere::Declared(row.app))),
        Change::Remove => DB::SCHEDULES.retire,
        Change::Pause => DB::SCHEDULES.pause,
        Change::Resume => DB::SCHEDULES.resume,
    };
    execute::<DB>(conn, sql, &[[row.id].as_slice().into()]).await?;
    note_down::<DB>(conn, note, "done", 1).await?;
    Ok(Ok(()))
}

fn seen(row: &impl Cells) -> Result<Seen, sqlx::Error> {
    let next = row.maybe_int(1)?.map(|next| Duration::from_micros(u64::try_from(next).unwrap_or(0)));
    Ok(Seen {
        due: list(row, 0)?,
        next,
        since: row.maybe_int(2)?,
        decides: row.int(3)? != 0,
        digest: row.maybe_text(4)?,
        orphans: list(row, 5)?,
    })
}

fn noted(row: &impl Cells) -> Result<Noted, sqlx::Error> {
    Ok(Noted {
        tick: row.int(0)?,
        job_id: row.maybe_int(1)?,
        outcome: row.text(2)?,
        skipped: row.int(3)?,
        note: row.maybe_text(4)?,
        at: time(row, 5)?,
    })
}

#[async_trait]
impl<DB: Dialect> ScheduleStore for SqlStore<DB> {
    async fn look(&self, by: &Scheduler, kinds: &[String], ahead: i64) -> Result<Seen, Error> {
        const DOING: &str = "cannot look for schedules";
        let kinds = json(kinds);
        let binds = [(&*by.app).into(), kinds.as_str().into(), by.worker.into(), MOST_DUE.into(), ahead.into()];
        let found = self.read(Via::Schedules, DOING, DB::SCHEDULES.look, &binds, seen).await?.pop();
        found.ok_or(sqlx::Error::RowNotFound).doing(DOING)
    }

    async fn register(&self, by: &Scheduler, since: Option<i64>) -> Result<(), Error> {
        let args = (by.clone(), since);
        self.run(Via::Schedules, Mode::Transaction, "cannot register for schedules", args, |conn, (by, since)| {
            async move {
                for (_, sql) in DB::SCHEDULES.register.steps() {
                    execute::<DB>(conn, sql, &[by.worker.into(), (&*by.app).into(), (*since).into()]).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await
    }

    async fn fire(&self, ids: &[i64], kinds: &Kinds, ahead: i64) -> Result<Fired, Error> {
        fire::fire(self, ids, kinds, ahead).await
    }

    #[cfg(feature = "testing")]
    async fn adopt(&self, ahead: i64) -> Result<(), Error> {
        let binds = [ahead.into()];
        self.write(Via::Schedules, "cannot move schedules in time", DB::TESTING.adopt, &binds).await.map(drop)
    }

    #[cfg(feature = "testing")]
    async fn fire_on_time(&self, id: i64, kinds: &Kinds, ahead: i64) -> Result<usize, Error> {
        fire::fire_on_time(self, id, kinds, ahead).await
    }

    async fn mark_orphans(&self, ids: &[i64], ahead: i64) -> Result<Vec<(String, String)>, Error> {
        fire::mark_orphans(self, ids, ahead).await
    }

    async fn converge(&self, by: &Scheduler, declared: &Arc<[Definition]>, digest: &str) -> Result<Converged, Error> {
        converge::converge(self, by, declared, digest).await
    }

    async fn silent(&self) -> Result<Vec<String>, Error> {
        let doing = "cannot look for silent schedules";
        self.read(Via::Schedules, doing, DB::SCHEDULES.silent, &[], |row| row.text(0)).await
    }

    async fn purge_ticks(&self, keep: Duration, limit: u32) -> Result<u64, Error> {
        let args = (micros(keep), i64::from(limit));
        self.run(Via::Schedules, Mode::Transaction, "cannot remove old ticks", args, |conn, (keep, limit)| {
            async move {
                let mut removed = 0;
                for (when, sql) in DB::SCHEDULES.purge.steps() {
                    let binds = [(*keep).into(), (*limit).into()];
                    let touched = execute::<DB>(conn, sql, &binds).await?;
                    removed += if when == When::Each { touched } else { 0 };
                }
                Ok(removed)
            }
            .boxed()
        })
        .await
    }

    async fn define(&self, definition: &Definition, note: Note) -> Result<Named<()>, Error> {
        let args = (definition.clone(), note);
        self.run(Via::Pool, Mode::Transaction, "cannot write a schedule", args, |conn, (definition, note)| {
            define::<DB>(conn, definition, note).boxed()
        })
        .await
    }

    async fn change(&self, name: &str, change: Change, note: Note) -> Result<Named<()>, Error> {
        let args = (name.to_owned(), change, note);
        self.run(Via::Pool, Mode::Transaction, "cannot change a schedule", args, |conn, (name, change, note)| {
            self::change::<DB>(conn, name, *change, note).boxed()
        })
        .await
    }

    async fn fire_by_hand(
        &self,
        name: &str,
        max_retries: for<'k> fn(&'k str) -> u32,
        note: Note,
    ) -> Result<Named<i64>, Error> {
        let args = (name.to_owned(), max_retries, note);
        let fired = self
            .run(Via::Pool, Mode::Transaction, "cannot fire a schedule", args, |conn, (name, max_retries, note)| {
                async move {
                    let Some(row) = locked::<DB>(conn, name).await? else { return Ok(Err(NotThere::Unknown)) };
                    let new = job(&row, max_retries(&row.definition.kind), None);
                    let inserted = insert::<DB>(conn, &[new]).await?;
                    let job_id = *inserted.first().ok_or(sqlx::Error::RowNotFound)?;
                    let (id, outcome, next_us) = (row.id, TickOutcome::Hand.as_str(), row.next_at);
                    let tick = Tick { id, tick_us: row.now, job_id: Some(job_id), outcome, skipped: 0, note: None };
                    execute::<DB>(conn, DB::SCHEDULES.ticks, &[json(&[tick]).as_str().into()]).await?;
                    let error = row.error.as_deref();
                    // with `overlap = skip`, ticks wait for all jobs from the oldest one on
                    let oldest = row.busy.or(Some(job_id));
                    let moved = Moved { id, next_us, last_us: None, job_id: oldest, error };
                    execute::<DB>(conn, DB::SCHEDULES.moved, &[json(&[moved]).as_str().into()]).await?;
                    note_down::<DB>(conn, note, "done", 1).await?;
                    Ok(Ok(job_id))
                }
                .boxed()
            })
            .await?;
        if fired.is_ok() {
            announce(self);
        }
        Ok(fired)
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<(ScheduleRow, bool)>, Error> {
        let args = (after.to_owned(), i64::from(limit));
        self.run(Via::Pool, Mode::Read, "cannot list schedules", args, |conn, (after, limit)| {
            async move {
                let found = ids::<DB>(conn, DB::SCHEDULES.list, &[after.as_str().into(), (*limit).into()]).await?;
                read::<DB>(conn, &found, 0).await
            }
            .boxed()
        })
        .await
    }

    async fn history(&self, name: &str, before: i64, limit: u32) -> Result<Named<Vec<Noted>>, Error> {
        let binds = [name.into(), before.into(), i64::from(limit).into()];
        let found = self.read(Via::Pool, "cannot list ticks", DB::SCHEDULES.history, &binds, |row| {
            // without a tick: the schedule is there, and has none
            Ok(if matches!(row.maybe_int(0), Ok(None)) { None } else { Some(noted(row)?) })
        });
        let found = found.await?;
        Ok(if found.is_empty() { Err(NotThere::Unknown) } else { Ok(found.into_iter().flatten().collect()) })
    }

    async fn tick_of(&self, job: i64) -> Result<Option<(String, i64, String)>, Error> {
        // a handler may hold the pool's last connection
        let tick = |row: &DB::Row| Ok((row.text(0)?, row.int(1)?, row.text(2)?));
        let doing = "cannot read the job's tick";
        Ok(self.read(Via::Schedules, doing, DB::SCHEDULES.tick_of, &[job.into()], tick).await?.pop())
    }
}
