//! Keys of jobs that are nowhere any more.

use crate::store::engine::dialect::{Cells, Dialect, execute, ids, rows};
use crate::store::engine::script::When;

/// The jobs behind this one that are nowhere any more, and the last one looked at (none: there are no more behind it).
pub(crate) async fn over<DB: Dialect>(
    conn: &mut DB::Connection,
    behind: i64,
    most: i64,
) -> Result<(Vec<i64>, Option<i64>), sqlx::Error> {
    let seen = rows::<DB>(conn, DB::UNIQUE.over, &[behind.into(), most.into()]).await?;
    let last = seen.last().filter(|_| seen.len() as i64 == most).map(|row| row.int(0)).transpose()?;
    let mut gone = Vec::new();
    for row in seen {
        if row.int(1)? == 1 {
            gone.push(row.int(0)?);
        }
    }
    Ok((gone, last))
}

/// Removes the keys of jobs. A key that somebody locks stays for the next round.
pub(crate) async fn sweep<DB: Dialect>(conn: &mut DB::Connection, jobs: &[i64]) -> Result<(), sqlx::Error> {
    let mut found = Vec::new();
    for (when, sql) in DB::UNIQUE.sweep.steps() {
        match when {
            When::Find => found = ids::<DB>(conn, sql, &[jobs.into()]).await?,
            When::Found if found.is_empty() => {}
            When::Found => drop(execute::<DB>(conn, sql, &[found.as_slice().into()]).await?),
            _ => drop(execute::<DB>(conn, sql, &[jobs.into()]).await?),
        }
    }
    Ok(())
}
