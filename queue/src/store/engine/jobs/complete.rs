//! The end of an attempt in a transaction of its handler's, and the fence alone.

use std::sync::atomic::Ordering;

use sqlx::Error;

use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Bind, execute, ids};
use crate::store::engine::statement::script::When;
use crate::store::values::{End, RunningRow};

/// Completes the job in the handler's transaction. False: no row there is this attempt's. None: there is no
/// transaction. `is_open`: there is one for sure.
pub(crate) async fn complete<DB: Dialect>(
    conn: &mut DB::Connection,
    row: RunningRow,
    end: &End,
    is_open: bool,
) -> Result<Option<bool>, Error> {
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
) -> Result<bool, Error> {
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
pub(crate) async fn guard<DB: Dialect>(conn: &mut DB::Connection, row: RunningRow) -> Result<Option<bool>, Error> {
    if !DB::is_open(conn).await? {
        return Ok(None);
    }
    Ok(Some(!ids::<DB>(conn, DB::ATTEMPTS.guard, &key(row)).await?.is_empty()))
}

fn key(row: RunningRow) -> [Bind<'static>; 4] {
    [row.hold.id.into(), row.worker.into(), i64::from(row.hold.fence).into(), row.enqueued_us.into()]
}
