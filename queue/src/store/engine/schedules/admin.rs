//! Schedules in the administration.

use futures_util::FutureExt;

use crate::error::Error;
use crate::schedule::definition::Definition;
use crate::schedule::plan::{ScheduleRow, TickOutcome};
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, execute, ids, json, rows};
use crate::store::engine::schedules::fire::{Moved, Tick, announce, insert, job};
use crate::store::engine::schedules::read;
use crate::store::engine::statement::read::time;
use crate::store::schedules::{Change, Named, NotThere, Noted};

/// Locks the schedule with this name, if it exists and was not removed.
async fn locked<DB: Dialect>(conn: &mut DB::Connection, name: &str) -> Result<Option<ScheduleRow>, sqlx::Error> {
    let found = ids::<DB>(conn, DB::SCHEDULES.named, &[name.into()]).await?;
    let rows = read::<DB>(conn, &found, 0).await?;
    Ok(rows.into_iter().map(|(row, _)| row).find(|row| row.retired_at.is_none()))
}

pub(super) async fn define<DB: Dialect>(store: &SqlStore<DB>, definition: &Definition) -> Result<Named<()>, Error> {
    store
        .run(Via::Pool, Mode::Transaction, "cannot write a schedule", definition.clone(), |conn, definition| {
            async move {
                match locked::<DB>(conn, &definition.name).await? {
                    Some(row) if !row.app.is_empty() => return Ok(Err(NotThere::Declared(row.app))),
                    Some(row) if row.definition.is_same_as(definition) => return Ok(Ok(())),
                    _ => {}
                }
                let list = json(std::slice::from_ref(definition));
                execute::<DB>(conn, DB::SCHEDULES.define, &[list.as_str().into(), "".into()]).await?;
                Ok(Ok(()))
            }
            .boxed()
        })
        .await
}

pub(super) async fn change<DB: Dialect>(store: &SqlStore<DB>, name: &str, change: Change) -> Result<Named<()>, Error> {
    let args = (name.to_owned(), change);
    store
        .run(Via::Pool, Mode::Transaction, "cannot change a schedule", args, |conn, (name, change)| {
            async move {
                let Some(row) = locked::<DB>(conn, name).await? else { return Ok(Err(NotThere::Unknown)) };
                let sql = match change {
                    Change::Remove if !row.app.is_empty() => return Ok(Err(NotThere::Declared(row.app))),
                    Change::Remove => DB::SCHEDULES.retire,
                    Change::Pause => DB::SCHEDULES.pause,
                    Change::Resume => DB::SCHEDULES.resume,
                };
                execute::<DB>(conn, sql, &[[row.id].as_slice().into()]).await?;
                Ok(Ok(()))
            }
            .boxed()
        })
        .await
}

pub(super) async fn fire_by_hand<DB: Dialect>(
    store: &SqlStore<DB>,
    name: &str,
    max_retries: fn(&str) -> u32,
) -> Result<Named<i64>, Error> {
    let args = (name.to_owned(), max_retries);
    let fired = store
        .run(Via::Pool, Mode::Transaction, "cannot fire a schedule", args, |conn, (name, max_retries)| {
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
                Ok(Ok(job_id))
            }
            .boxed()
        })
        .await?;
    if fired.is_ok() {
        announce(store);
    }
    Ok(fired)
}

pub(super) async fn list<DB: Dialect>(
    store: &SqlStore<DB>,
    after: &str,
    limit: u32,
) -> Result<Vec<(ScheduleRow, bool)>, Error> {
    let args = (after.to_owned(), i64::from(limit));
    store
        .run(Via::Pool, Mode::Read, "cannot list schedules", args, |conn, (after, limit)| {
            async move {
                let found = ids::<DB>(conn, DB::SCHEDULES.list, &[after.as_str().into(), (*limit).into()]).await?;
                read::<DB>(conn, &found, 0).await
            }
            .boxed()
        })
        .await
}

pub(super) async fn history<DB: Dialect>(
    store: &SqlStore<DB>,
    name: &str,
    before: i64,
    limit: u32,
) -> Result<Named<Vec<Noted>>, Error> {
    let args = (name.to_owned(), before, i64::from(limit));
    store
        .run(Via::Pool, Mode::Read, "cannot list ticks", args, |conn, (name, before, limit)| {
            async move {
                let binds = [name.as_str().into(), (*before).into(), (*limit).into()];
                let found = rows::<DB>(conn, DB::SCHEDULES.history, &binds).await?;
                if found.is_empty() {
                    return Ok(Err(NotThere::Unknown));
                }
                let ticks = found.iter().filter(|row| !matches!(row.maybe_int(0), Ok(None)));
                ticks.map(noted).collect::<Result<Vec<_>, _>>().map(Ok)
            }
            .boxed()
        })
        .await
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
