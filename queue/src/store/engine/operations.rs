//! Writes and reads the record of the administration.

use chrono::DateTime;
use futures_util::FutureExt as _;

use crate::error::Error;
use crate::gauges::Count;
use crate::operations::{Note, Operation, Progress};
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, execute, json};
use crate::store::engine::statement::read::at;
use crate::store::operations::{Refused, Saved};

/// The most refusals that are counted.
const MOST: i64 = 10_000;

/// Writes the record of an operation, and returns its number.
pub(crate) async fn note_down<DB: Dialect>(
    conn: &mut DB::Connection,
    note: &Note,
    state: &str,
    changed: i64,
) -> Result<i64, sqlx::Error> {
    let binds = [
        note.by.name.as_str().into(),
        note.by.reason.as_deref().into(),
        note.action.into(),
        note.details.as_str().into(),
        note.job.into(),
        state.into(),
        changed.into(),
    ];
    let (sql, arguments) = DB::prepare(DB::OPERATIONS.begin, &binds)?;
    DB::insert_row(conn, sql, arguments).await
}

pub(crate) async fn refuse<DB: Dialect>(
    conn: &mut DB::Connection,
    operation: i64,
    jobs: &[Refused],
) -> Result<(), sqlx::Error> {
    if !jobs.is_empty() {
        execute::<DB>(conn, DB::OPERATIONS.refuse, &[operation.into(), json(jobs).as_str().into()]).await?;
    }
    Ok(())
}

pub(crate) async fn list<DB: Dialect>(
    store: &SqlStore<DB>,
    before: i64,
    limit: u32,
    job: Option<i64>,
) -> Result<Vec<Saved>, Error> {
    let sql = if job.is_some() { DB::OPERATIONS.list_of_job } else { DB::OPERATIONS.list };
    let binds = [before.into(), i64::from(limit).into(), job.into()];
    let binds = &binds[..if job.is_some() { 3 } else { 2 }];
    store
        .read(Via::Pool, "cannot read what the administration did", sql, binds, |row| {
            let refused = row.int(11)?;
            let task = row.text(5)?;
            let operation = Operation {
                id: row.int(0)?,
                at: at(row, 1)?,
                actor: row.text(2)?,
                reason: row.maybe_text(3)?,
                action: row.text(4)?,
                details: serde_json::from_str(&task).unwrap_or_default(),
                job: row.maybe_int(6)?.map(Into::into),
                progress: Progress::of(&row.text(7)?),
                changed: row.int(8)?.max(0).cast_unsigned(),
                refused: if refused < MOST { Count::exactly(refused) } else { Count::at_least(refused) },
                ended_at: row.maybe_int(10)?.and_then(DateTime::from_timestamp_micros),
            };
            Ok(Saved { operation, task, last_id: row.int(9)? })
        })
        .await
}

/// One that nobody carries out any more.
pub(crate) async fn unattended<DB: Dialect>(store: &SqlStore<DB>, silent_us: i64) -> Result<Option<i64>, Error> {
    let doing = "cannot look for operations";
    let binds = [silent_us.into()];
    Ok(store.read(Via::Duties, doing, DB::OPERATIONS.unattended, &binds, |row| row.int(0)).await?.pop())
}

/// Removes the records of operations that ended longer ago than this.
pub(crate) async fn purge<DB: Dialect>(store: &SqlStore<DB>, keep_us: i64) -> Result<(), Error> {
    store
        .run(Via::Duties, Mode::Transaction, "cannot remove old operations", keep_us, |conn, keep_us| {
            async move {
                for (_, sql) in DB::OPERATIONS.purge.steps() {
                    execute::<DB>(conn, sql, &[(*keep_us).into()]).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await
}
