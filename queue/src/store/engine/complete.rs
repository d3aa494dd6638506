//! The end of an attempt in a transaction of its handler's, and the fence alone.

use std::iter::once;

use sqlx::{Connection as _, Error};

use crate::store::engine::dialect::{Bind, Dialect, execute, ids};
use crate::store::engine::feature::Edge;
use crate::store::engine::savepoint::{RELEASE, Together};
use crate::store::engine::steps::{has_steps, run_steps};
use crate::store::values::{Completion, Whose};

/// Completes the job on a connection of the handler's. False: no row there is this attempt's.
pub(crate) async fn complete<DB: Dialect>(conn: &mut DB::Connection, end: &Completion) -> Result<bool, Error> {
    let is_one = DB::COMPLETE.is_one() && !has_steps::<DB>(Edge::Finish, once(end.hold.features));
    // sqlx knows of the transaction without asking the server; one that was begun by SQL costs a savepoint
    if is_one || conn.is_in_transaction() {
        return complete_inside::<DB>(conn, end).await;
    }
    let mut together = Together::<DB>::begin(conn, Whose::Callers).await?;
    let done = complete_inside::<DB>(together.connection(), end).await;
    together.end(done).await
}

async fn complete_inside<DB: Dialect>(conn: &mut DB::Connection, end: &Completion) -> Result<bool, Error> {
    let [id, worker, fence, enqueued_at] = key(end);
    let binds = [id, worker, fence, enqueued_at, end.ran_us.into(), end.result.as_deref().into()];
    for (_, sql) in DB::COMPLETE.steps() {
        // each statement touches this one row; the first decides
        if execute::<DB>(conn, sql, &binds).await? == 0 {
            return Ok(false);
        }
    }
    run_steps::<DB>(conn, Edge::Finish, &[end.hold]).await?;
    Ok(true)
}

/// Locks the job's row until the end of the handler's transaction. False: no row there is this attempt's. None: there
/// is no transaction.
pub(crate) async fn guard<DB: Dialect>(conn: &mut DB::Connection, end: &Completion) -> Result<Option<bool>, Error> {
    if !conn.is_in_transaction() {
        if !DB::savepoint(conn).await? {
            return Ok(None);
        }
        DB::raw(conn, RELEASE).await?;
    }
    Ok(Some(!ids::<DB>(conn, DB::GUARD, &key(end)).await?.is_empty()))
}

fn key(end: &Completion) -> [Bind<'static>; 4] {
    [end.hold.id.into(), end.worker.into(), i64::from(end.hold.fence).into(), end.enqueued_us.into()]
}
