//! Unique jobs: who holds a key, and what an enqueue does about it.
//!
//! A key names its holder, and nothing releases it. It is free as soon as its holder is over, which the other tables
//! tell. Only an enqueue and the return of a dead letter give keys. They lock the key's row first, and decide by what
//! is true then. A sweep removes keys that nobody needs. A holder that is over stays over, unless it is sent back. Then
//! it takes its key anew.

pub(crate) mod dialect;
mod group;
pub(super) mod keys;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use crate::limits::micros;
use crate::store::engine::connection::savepoint::Together;
use crate::store::engine::connection::{LIMIT, pauses};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, execute, json, rows};
use crate::store::engine::statement::read::number;
use crate::store::engine::unique::dialect::{Holder, HolderState, Key, Way};
use crate::store::engine::unique::group::{Group, grouped};
use crate::store::values::{NewJob, Unwritten, Whose};
use crate::unique::Enqueued;

/// How often an enqueue tries. A try fails if the holder of a key ends, and another one comes, between two statements.
const TRIES: usize = 40;
/// The number of missed locks on a holder after which the enqueue waits for it. A job that is running by then cannot
/// end before this transaction does. So the enqueue first waits longer than a slow claim takes.
const MISSES: u32 = 20;
/// Before the next try.
const PAUSE: Duration = Duration::from_millis(5);
/// The most keys in one statement.
const CHUNK: usize = 5_000;

/// Inserts jobs, of which some are unique, all or none. Returns the job that stands for each.
pub(crate) async fn enqueue<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    whose: Whose,
) -> Result<Vec<Enqueued>, Unwritten> {
    let groups = grouped(jobs)?;
    let shortest = if jobs.len() == 1 { DB::shortest(whose) } else { Way::Locks };
    if [Way::AtOnce, Way::Looks].contains(&shortest)
        && let Some(placed) = place::<DB>(conn, jobs, &groups, whose, shortest).await?
    {
        return Ok(placed);
    }
    let mut way = if shortest == Way::Bets { shortest } else { Way::Locks };
    let mut pauses = pauses(LIMIT);
    loop {
        let mut together = match whose {
            Whose::Pools => Together::<DB>::begin_in_pool(conn).await?,
            Whose::Callers | Whose::InTransaction => Together::<DB>::begin(conn, whose).await?,
        };
        // nobody else's statements are in it
        let is_alone = together.is_alone();
        let placed = place::<DB>(together.connection(), jobs, &groups, whose, way).await;
        let lost = way == Way::Bets && matches!(placed, Ok(None));
        match together.end(placed.and_then(|placed| placed.ok_or_else(|| too_fast().into()))).await {
            _ if lost => way = Way::Locks,
            Err(Unwritten::Sql(error)) if is_alone && DB::is_transient(&error) => match pauses.next() {
                Some(pause) => sleep(pause).await,
                None => return Err(error.into()),
            },
            placed => return placed,
        }
    }
}

fn too_fast() -> sqlx::Error {
    sqlx::Error::Protocol("the key of a unique job changes hands too fast: enqueue it again".into())
}

/// None: this way failed, or keys changed hands at each try.
async fn place<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    groups: &[Group],
    whose: Whose,
    way: Way,
) -> Result<Option<Vec<Enqueued>>, Unwritten> {
    let mut placed: Vec<Option<Enqueued>> = vec![None; jobs.len()];
    let plain: Vec<usize> = (0..jobs.len()).filter(|index| jobs[*index].unique.is_none()).collect();
    if !plain.is_empty() {
        let rows: Vec<NewJob> = plain.iter().map(|index| jobs[*index].clone()).collect();
        for (index, id) in plain.into_iter().zip(DB::insert(conn, &rows, Whose::InTransaction).await?) {
            placed[index] = Some(Enqueued::New(id.into()));
        }
    }
    let mut pending: Vec<&Group> = groups.iter().collect();
    let mut learned = Learned::default();
    for _ in 0..TRIES {
        if pending.is_empty() {
            break;
        }
        let wanted: Vec<_> = pending.iter().map(|group| group.wanted(jobs)).collect();
        let wanting: Vec<&NewJob> = wanted.iter().map(|job| &**job).collect();
        let Some(taken) = DB::take(conn, &wanting, &learned.over, way).await? else { return Ok(None) };
        for (place, id) in taken.new {
            pending[place].is_new(jobs, id, &mut placed);
        }
        for holder in settled::<DB>(conn, jobs, &pending, taken.holders, whose, &mut learned).await? {
            let replaced =
                pending[holder.place].meets(jobs, holder.id, holder.state == HolderState::Waits, &mut placed)?;
            if let Some(with) = replaced
                && !replace::<DB>(conn, &jobs[with], holder).await?
            {
                pending[holder.place].forget(&mut placed);
            }
        }
        pending.retain(|group| placed[group.first()].is_none());
        if way != Way::Locks && !pending.is_empty() {
            return Ok(None); // no second try: the holder's row may be locked, without its key
        }
        if !pending.is_empty() {
            sleep(PAUSE).await;
        }
    }
    Ok(placed.into_iter().collect())
}

/// Runs a statement on a list, a part at a time.
pub(crate) async fn on_each_part<DB: Dialect, T: Serialize>(
    conn: &mut DB::Connection,
    sql: &'static str,
    list: &[T],
) -> Result<(), sqlx::Error> {
    for part in list.chunks(CHUNK) {
        execute::<DB>(conn, sql, &[json(part).as_str().into()]).await?;
    }
    Ok(())
}

/// The holders of those keys that are not free, by a statement on a list of [`Key`]s. Rows: the place, then as
/// [`holder`] reads them.
pub(crate) async fn holders<DB: Dialect>(
    conn: &mut DB::Connection,
    sql: &'static str,
    keys: &[Key<'_>],
) -> Result<Vec<Holder>, sqlx::Error> {
    let mut holders = Vec::new();
    for part in keys.chunks(CHUNK) {
        for row in rows::<DB>(conn, sql, &[json(part).as_str().into()]).await? {
            holders.extend(holder(&row, number(row.int(0)?)?)?);
        }
    }
    Ok(holders)
}

/// Reads who has a key, behind the first column: the holder; the fence under which it holds the key until its start,
/// else NULL; 1 if it waits, 2 if it runs, NULL if it is over or started; whether this snapshot has seen it take the
/// key; whether its time is not over. None: it is over.
pub(crate) fn holder(row: &impl Cells, place: usize) -> Result<Option<Holder>, sqlx::Error> {
    let (state, seen, timed) = (row.maybe_int(3)?, row.int(4)? == 1, row.int(5)? == 1);
    let state = match state {
        Some(1) => HolderState::Waits,
        Some(_) => HolderState::Held,
        None if timed => HolderState::Held,
        None if seen => return Ok(None),
        None => HolderState::Unknown,
    };
    let under = row.maybe_int(2)?.map(number).transpose()?;
    Ok(Some(Holder { place, id: row.int(1)?, under, state }))
}

/// What an enqueue has learned of holders in its earlier tries.
#[derive(Debug, Default)]
struct Learned {
    /// They have lost their key, although the caller's snapshot may show them for ever.
    over: HashSet<i64>,
    /// How often a lock on them was missed. They are being claimed, run, or are over.
    missed: HashMap<i64, u32>,
}

/// The holders whose keys are taken for sure. Those that wait are locked, so that they start after the caller's commit.
/// Through a pool there is no such commit, and nobody need wait.
async fn settled<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    groups: &[&Group],
    holders: Vec<Holder>,
    whose: Whose,
    learned: &mut Learned,
) -> Result<Vec<Holder>, sqlx::Error> {
    let Some(hold) = DB::UNIQUE.hold else { return Ok(holders) };
    let to_lock = |holder: &Holder| match holder.state {
        HolderState::Waits => whose != Whose::Pools || groups[holder.place].replaces(jobs),
        HolderState::Held => false,
        HolderState::Unknown => true,
    };
    let ids = holders.iter().filter(|holder| to_lock(holder)).map(|holder| holder.id);
    // a fresh snapshot tells soon what became of a job; an old one never does
    let is_lost = |id: &i64| learned.missed.get(id).is_some_and(|misses| *misses >= MISSES);
    let (lost, waiting): (Vec<i64>, Vec<i64>) = ids.partition(is_lost);
    let mut locked = HashMap::new();
    for (mut ids, sql) in [(waiting, hold), (lost, DB::UNIQUE.hold_begun.unwrap_or(hold))] {
        ids.sort_unstable();
        for chunk in ids.chunks(CHUNK) {
            for row in rows::<DB>(conn, sql, &[chunk.into()]).await? {
                locked.insert(row.int(0)?, (row.int(1)?, number::<i32>(row.int(2)?)?));
            }
        }
    }
    let mut settled = Vec::with_capacity(holders.len());
    for mut holder in holders {
        if to_lock(&holder) {
            match (locked.get(&holder.id), holder.under) {
                (Some((worker, fence)), under) if under.is_none_or(|under| under == *fence) => {
                    holder.state = if *worker == 0 { HolderState::Waits } else { HolderState::Held };
                }
                (None, _) if learned.missed.get(&holder.id).is_none_or(|misses| *misses < MISSES) => {
                    let misses = learned.missed.entry(holder.id).or_default();
                    *misses += 1;
                    continue;
                }
                _ => {
                    learned.over.insert(holder.id);
                    continue;
                }
            }
        }
        settled.push(holder);
    }
    Ok(settled)
}

/// Gives a waiting job what the new one has. False: it waits no more.
async fn replace<DB: Dialect>(conn: &mut DB::Connection, with: &NewJob, holder: Holder) -> Result<bool, sqlx::Error> {
    #[derive(Serialize)]
    struct Replacement<'a> {
        id: i64,
        fence: Option<i32>,
        queue: &'a str,
        priority: i16,
        max_retries: Option<i32>,
        args: &'a str,
        meta: Option<&'a str>,
        delay_us: Option<i64>,
        run_at_us: Option<i64>,
        at_most_us: Option<i64>,
    }
    let NewJob { queue, priority, max_retries, args, meta, delay_us, run_at_us, .. } = with;
    let (priority, max_retries, delay_us, run_at_us) = (*priority, *max_retries, *delay_us, *run_at_us);
    let at_most_us = with.rule().at_most.map(micros);
    let (id, fence, meta) = (holder.id, holder.under, meta.as_deref());
    let replacement =
        Replacement { id, fence, queue, priority, max_retries, args, meta, delay_us, run_at_us, at_most_us };
    Ok(execute::<DB>(conn, DB::UNIQUE.replace, &[json(&[replacement]).as_str().into()]).await? == 1)
}
