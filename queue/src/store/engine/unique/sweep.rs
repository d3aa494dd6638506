//! Keys of jobs that are nowhere any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;

use crate::error::Error;
use crate::store::FeatureDuty;
use crate::store::engine::dialect::{Cells, Dialect, execute, ids, rows};
use crate::store::engine::operation::{Mode, SqlStore, Via};
use crate::store::engine::script::When;

/// How many unique jobs one statement looks at.
const PART: i64 = 1_000;
/// A round leaves the oldest jobs after this many parts in a row with little to remove. Elsewhere it looks at this many
/// parts.
const FEW_PARTS: u32 = 10;
/// The most parts of the oldest jobs that a round looks at.
const MOST_PARTS: u32 = 500;
/// Fewer jobs than this are little.
const MUCH: usize = PART as usize / 10;
/// The pause between two rounds.
const PAUSE: Duration = Duration::from_secs(60);

/// The background work of unique jobs.
pub(crate) fn duty<DB: Dialect>(store: &SqlStore<DB>) -> FeatureDuty {
    let (store, hand) = (store.clone(), Arc::new(AtomicI64::new(0)));
    let round = Box::new(move || {
        let (store, hand) = (store.clone(), hand.clone());
        async move { round(&store, &hand).await }.boxed()
    });
    FeatureDuty { feature: "unique jobs", every: PAUSE, round }
}

/// Removes the keys of unique jobs that are nowhere any more. Retention removes the oldest jobs first, with old dead
/// letters in between. So a round begins with those, until a few parts in a row have little to remove. Then it looks
/// at a few parts behind the last job that an earlier round has looked at, for jobs that were deleted.
async fn round<DB: Dialect>(store: &SqlStore<DB>, hand: &AtomicI64) -> Result<(), Error> {
    let (mut behind, mut in_vain) = (0, 0);
    for _ in 0..MOST_PARTS {
        let (gone, last) = sweep_part(store, behind).await?;
        in_vain = if gone < MUCH { in_vain + 1 } else { 0 };
        match last {
            Some(last) if in_vain < FEW_PARTS => behind = last,
            _ => break,
        }
    }
    for _ in 0..FEW_PARTS {
        let (_, last) = sweep_part(store, hand.load(Ordering::Relaxed)).await?;
        hand.store(last.unwrap_or(0), Ordering::Relaxed);
        if last.is_none() {
            break;
        }
    }
    Ok(())
}

/// Returns how many jobs were gone, and the last one looked at, if there are more behind it.
async fn sweep_part<DB: Dialect>(store: &SqlStore<DB>, behind: i64) -> Result<(usize, Option<i64>), Error> {
    const DOING: &str = "cannot remove the keys of old unique jobs";
    let (gone, last) = store
        .run(Via::Duties, Mode::Read, DOING, behind, |conn, behind| over::<DB>(conn, *behind, PART).boxed())
        .await?;
    let count = gone.len();
    if count > 0 {
        store.run(Via::Duties, Mode::Transaction, DOING, gone, |conn, gone| sweep::<DB>(conn, gone).boxed()).await?;
    }
    Ok((count, last))
}

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
