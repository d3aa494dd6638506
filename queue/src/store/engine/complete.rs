//! The end of an attempt in a transaction of its handler's, and the fence alone.

use sqlx::Error;

use crate::store::engine::dialect::{Bind, Dialect, execute, ids};
use crate::store::engine::feature::Edge;
use crate::store::engine::steps::run_steps;
use crate::store::values::{End, RunningRow};

/// Completes the job in the handler's transaction. False: no row there is this attempt's. None: there is no
/// transaction. `is_open`: there is one for sure.
pub(crate) async fn complete<DB: Dialect>(
    conn: &mut DB::Connection,
    row: RunningRow,
    end: &End,
    is_open: bool,
) -> Result<Option<bool>, Error> {
    if DB::BEGIN_TO_WRITE.is_some() && complete_inside::<DB>(conn, row, end).await? {
        return Ok(Some(true));
    }
    if !is_open && !DB::is_open(conn).await? {
        return Ok(None);
    }
    if let Some(sql) = DB::BEGIN_TO_WRITE {
        DB::raw(conn, sql).await?;
    }
    complete_inside::<DB>(conn, row, end).await.map(Some)
}

async fn complete_inside<DB: Dialect>(conn: &mut DB::Connection, row: RunningRow, end: &End) -> Result<bool, Error> {
    let [id, worker, fence, enqueued_at] = key(row);
    let binds = [id, worker, fence, enqueued_at, end.ran_us.into(), end.result().into()];
    for (_, sql) in DB::COMPLETE.steps() {
        // each statement touches this one row; the first decides
        if execute::<DB>(conn, sql, &binds).await? == 0 {
            return Ok(false);
        }
    }
    run_steps::<DB>(conn, Edge::Finish, &[row.hold]).await?;
    Ok(true)
}

/// Locks the job's row until the end of the handler's transaction. False: no row there is this attempt's. None: there
/// is no transaction.
pub(crate) async fn guard<DB: Dialect>(conn: &mut DB::Connection, row: RunningRow) -> Result<Option<bool>, Error> {
    if !DB::is_open(conn).await? {
        return Ok(None);
    }
    Ok(Some(!ids::<DB>(conn, DB::GUARD, &key(row)).await?.is_empty()))
}

fn key(row: RunningRow) -> [Bind<'static>; 4] {
    [row.hold.id.into(), row.worker.into(), i64::from(row.hold.fence).into(), row.enqueued_us.into()]
}
