//! Keys outside enqueues: dead letters that are sent back take theirs again, and those of jobs that are nowhere any
//! more are removed.
//!
//! Retention removes the keys of the jobs that it removes, unless their time is not over. The sweep finds all others:
//! keys with a time, and those of jobs that somebody deleted. It walks through the unique jobs by their ids, over and
//! over. Where it finds much to remove, it continues without a pause, so that it keeps up with what is written.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::time::sleep;

use crate::error::Error;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, rows};
use crate::store::engine::statement::find_then;
use crate::store::engine::statement::read::number;
use crate::store::engine::unique::CHUNK;
use crate::store::engine::unique::dialect::{Given, Key};
use crate::store::values::Refusal;

/// How many unique jobs one statement looks at.
const PART: usize = 1_000;
/// With fewer jobs to remove than this, a part was in vain.
const MUCH: usize = PART / 10;
/// A round looks at this many parts in vain at least, so that a small table is soon through.
const FEW_PARTS: u32 = 10;
/// The most parts in vain of a round, so that a large table costs no more than a few seconds a minute.
const MOST_PARTS: u32 = 500;
/// Within these bounds it walks through the whole table in this many rounds: a day.
const ROUNDS: i64 = 1_440;
/// After a removal it pauses as long as that took, but no longer than this. Other duties use the same connection.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
const DOING: &str = "cannot remove the keys of old unique jobs";

/// Removes the keys of these jobs, which retention has just removed. If that fails, or the process dies, the sweep
/// does it.
pub(crate) async fn purged<DB: Dialect>(store: &SqlStore<DB>, jobs: &[i64]) -> Result<(), Error> {
    for part in jobs.chunks(PART) {
        if !store.has_keys().load(Ordering::Relaxed) {
            break;
        }
        match remove(store, part.to_vec()).await {
            // the duty tells of it
            Err(error) if error.is_a_missing_right() => store.has_keys().store(false, Ordering::Relaxed),
            removed => removed?,
        }
    }
    Ok(())
}

/// See [`Upkeep::sweep_keys`](crate::store::Upkeep::sweep_keys).
pub(crate) async fn round<DB: Dialect>(
    store: &SqlStore<DB>,
    hand: &mut Option<i64>,
    is_its_turn: bool,
) -> Result<(), Error> {
    let span = store.run(Via::Duties, Mode::Read, DOING, (), |conn, ()| span::<DB>(conn).boxed()).await;
    store.has_keys().store(matches!(span, Ok(Some(_))), Ordering::Relaxed);
    let Some((first, last)) = span?.filter(|_| is_its_turn) else { return Ok(()) };
    let begin = hand.unwrap_or_else(|| fastrand::i64(first..=last));
    let until = begin.saturating_add((last - first) / ROUNDS);
    let (mut behind, mut in_vain, mut from_the_front) = (begin, 0, false);
    loop {
        let (gone, took, end) = sweep_part(store, behind).await?;
        let is_last = end.is_none();
        behind = end.unwrap_or(0);
        *hand = Some(behind);
        let has_seen_all = if is_last { from_the_front || begin < first } else { from_the_front && behind >= begin };
        if has_seen_all {
            return Ok(());
        }
        from_the_front |= is_last;
        if gone < MUCH {
            in_vain += 1;
            if in_vain >= MOST_PARTS || (in_vain >= FEW_PARTS && (from_the_front || behind >= until)) {
                return Ok(());
            }
        } else {
            sleep(took.min(LONGEST_PAUSE)).await;
        }
    }
}

/// The first and the last job that the sweep would look at.
async fn span<DB: Dialect>(conn: &mut DB::Connection) -> Result<Option<(i64, i64)>, sqlx::Error> {
    let span = rows::<DB>(conn, DB::UNIQUE.span, &[]).await?;
    let Some(row) = span.first() else { return Ok(None) };
    Ok(row.maybe_int(0)?.zip(row.maybe_int(1)?))
}

/// Returns how many jobs were gone, how long that took, and the last one looked at, if there are more behind it.
async fn sweep_part<DB: Dialect>(store: &SqlStore<DB>, behind: i64) -> Result<(usize, Duration, Option<i64>), Error> {
    let began = Instant::now();
    let (gone, last) = store
        .run(Via::Duties, Mode::Read, DOING, behind, |conn, behind| over::<DB>(conn, *behind, PART as i64).boxed())
        .await?;
    let count = gone.len();
    if count > 0 {
        remove(store, gone).await?;
    }
    Ok((count, began.elapsed(), last))
}

async fn remove<DB: Dialect>(store: &SqlStore<DB>, jobs: Vec<i64>) -> Result<(), Error> {
    store.run(Via::Duties, Mode::Transaction, DOING, jobs, |conn, jobs| sweep::<DB>(conn, jobs).boxed()).await
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

/// Removes the keys of jobs that are nowhere any more. A key whose time is not over stays, and one that somebody locks.
pub(crate) async fn sweep<DB: Dialect>(conn: &mut DB::Connection, jobs: &[i64]) -> Result<(), sqlx::Error> {
    find_then::<DB>(conn, DB::UNIQUE.sweep, &[jobs.into()]).await.map(drop)
}

/// Gives sent-back jobs their keys again. Returns those whose key is taken. They must not stay sent back.
pub(crate) async fn take_again<DB: Dialect>(
    conn: &mut DB::Connection,
    sent_back: &[i64],
) -> Result<Vec<Refusal>, sqlx::Error> {
    let mut found = Vec::new();
    for chunk in sent_back.chunks(CHUNK) {
        for row in rows::<DB>(conn, DB::UNIQUE.noted, &[chunk.into()]).await? {
            let until = if row.text(3)? == "start" { "start" } else { "end" };
            found.push((row.int(0)?, row.text(1)?, row.text(2)?, until, number(row.int(4)?)?));
        }
    }
    // of several dead letters with one key, the newest goes back
    found.sort_unstable_by(|a, b| (&a.1, &a.2, b.0).cmp(&(&b.1, &b.2, a.0)));
    let mut refusals = Vec::new();
    found.dedup_by(|it, kept| {
        let same = (&it.1, &it.2) == (&kept.1, &kept.2);
        if same {
            refusals.push(Refusal { id: it.0, key: it.2.clone(), holder: kept.0 });
        }
        same
    });
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let keys = found.iter().enumerate().map(|(place, (_, kind, key, ..))| Key { place, kind, key });
    let keys: Vec<Key<'_>> = keys.collect();
    DB::lock(conn, &keys).await?;
    for holder in DB::holders(conn, &keys).await? {
        let (id, _, key, ..) = &found[holder.place];
        if holder.id != *id {
            refusals.push(Refusal { id: *id, key: key.clone(), holder: holder.id });
        }
    }
    if refusals.is_empty() {
        let given = found.iter().map(|(id, kind, key, until, fence)| Given {
            kind,
            key,
            job_id: *id,
            until,
            fence: *fence,
            at_least_us: None,
        });
        DB::give(conn, &given.collect::<Vec<_>>()).await?;
    }
    // of two dead letters, the newest may be refused as well: then its holder is that of both
    let holders: HashMap<i64, i64> = refusals.iter().map(|refusal| (refusal.id, refusal.holder)).collect();
    for refusal in &mut refusals {
        refusal.holder = holders.get(&refusal.holder).copied().unwrap_or(refusal.holder);
    }
    Ok(refusals)
}
