//! Unique jobs: who holds a key, and what an enqueue does about it.
//!
//! A key names its holder, and nothing releases it. It is free as soon as its holder is over, which the other tables
//! tell. Only an enqueue and the return of a dead letter read or write keys. They lock the key's row first, and decide
//! by what is true then. A holder that is over stays over, unless it is sent back. Then it takes its key anew.

mod group;
pub(super) mod send_back;
pub(crate) mod statements;
pub(super) mod sweep;

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::limits::micros;
use crate::store::engine::dialect::{Cells, Dialect, execute, json, rows};
use crate::store::engine::feature::Edge;
use crate::store::engine::read::number;
use crate::store::engine::savepoint::Together;
use crate::store::engine::steps::{has_steps, run_steps};
use crate::store::engine::unique::group::{Group, grouped};
use crate::store::values::{Hold, NewJob, Unwritten, Whose};
use crate::unique::{Enqueued, UniqueJob, UniqueUntil};

/// How often an enqueue tries. A try fails if the holder of a key ends, and another one comes, between two statements.
const TRIES: usize = 20;
/// The most keys in one statement.
const CHUNK: usize = 5_000;
/// The most bytes of arguments in one statement that takes keys and inserts jobs.
const CHUNK_BYTES: usize = 32 << 20;

/// A key that somebody wants, as the statements read it.
#[derive(Debug, Serialize)]
struct Wanted<'a> {
    /// Its place in the list of those who want keys.
    place: usize,
    kind: &'a str,
    key: &'a str,
    until: &'static str,
    at_least_us: Option<i64>,
    /// Who gets it. None: a new job.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<i64>,
    fence: i32,
}

impl<'a> Wanted<'a> {
    fn new(place: usize, job: &'a NewJob, unique: &'a UniqueJob, job_id: Option<i64>) -> Self {
        Self {
            place,
            kind: &job.kind,
            key: &unique.key,
            until: word(unique.until),
            at_least_us: unique.at_least.map(micros),
            job_id,
            fence: 0,
        }
    }
}

/// What an enqueue says of its job, as the statements read it.
#[derive(Debug, Serialize)]
struct Values<'a> {
    queue: &'a str,
    priority: i16,
    max_retries: i32,
    args: &'a str,
    delay_us: Option<i64>,
    run_at_us: Option<i64>,
}

impl<'a> Values<'a> {
    fn of(job: &'a NewJob) -> Self {
        let NewJob { queue, priority, max_retries, args, delay_us, run_at_us, .. } = job;
        let (priority, max_retries, delay_us, run_at_us) = (*priority, *max_retries, *delay_us, *run_at_us);
        Self { queue, priority, max_retries, args, delay_us, run_at_us }
    }
}

fn word(until: UniqueUntil) -> &'static str {
    match until {
        UniqueUntil::Start => "start",
        UniqueUntil::End => "end",
    }
}

/// A job that has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    place: usize,
    id: i64,
    /// It has the key as long as its fence is this. None: until it is over.
    under: Option<i32>,
    state: HolderState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HolderState {
    Waits,
    /// It runs, or it is over and its time is not.
    Held,
    /// The caller's snapshot is older than the holder, so it cannot tell.
    Unknown,
}

/// Inserts jobs, of which some are unique, all or none. Returns the job that stands for each.
pub(crate) async fn enqueue<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    whose: Whose,
) -> Result<Vec<Enqueued>, Unwritten> {
    let groups = grouped(jobs)?;
    // a single statement needs no transaction of its own
    let alone = jobs.len() == 1 && DB::UNIQUE.take.is_some();
    if alone && !has_steps::<DB>(Edge::Enqueue, jobs.iter().map(|job| job.features)) {
        return place::<DB>(conn, jobs, &groups, whose).await;
    }
    if let (Whose::Pools, Some(before_begin)) = (whose, DB::BEFORE_BEGIN) {
        DB::raw(conn, before_begin).await?;
    }
    let mut together = Together::<DB>::begin(conn, whose).await?;
    let placed = place::<DB>(together.connection(), jobs, &groups, whose).await;
    together.end(placed).await
}

async fn place<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    groups: &[Group],
    whose: Whose,
) -> Result<Vec<Enqueued>, Unwritten> {
    let mut placed: Vec<Option<Enqueued>> = vec![None; jobs.len()];
    let plain: Vec<usize> = (0..jobs.len()).filter(|index| jobs[*index].unique.is_none()).collect();
    if !plain.is_empty() {
        let rows: Vec<NewJob> = plain.iter().map(|index| jobs[*index].clone()).collect();
        for (index, id) in plain.into_iter().zip(DB::insert(conn, &rows, Whose::InTransaction).await?) {
            placed[index] = Some(Enqueued::New(id.into()));
        }
    }
    let mut pending: Vec<&Group> = groups.iter().collect();
    let mut over = HashSet::new();
    for _ in 0..TRIES {
        if pending.is_empty() {
            break;
        }
        let (new, holders) = match DB::UNIQUE.take {
            Some(take) => take_at_once::<DB>(conn, take, jobs, &pending).await?,
            None => take_in_steps::<DB>(conn, jobs, &pending, &over).await?,
        };
        for &(place, id) in &new {
            pending[place].is_new(jobs, id, &mut placed);
        }
        for holder in settled::<DB>(conn, jobs, &pending, holders, whose, &mut over).await? {
            let replaced =
                pending[holder.place].meets(jobs, holder.id, holder.state == HolderState::Waits, &mut placed)?;
            if let Some(with) = replaced
                && !replace::<DB>(conn, &jobs[with], holder).await?
            {
                pending[holder.place].forget(&mut placed);
            }
        }
        pending.retain(|group| placed[group.first()].is_none());
    }
    let placed: Option<Vec<Enqueued>> = placed.into_iter().collect();
    let placed = placed.ok_or_else(|| {
        sqlx::Error::Protocol("the key of a unique job changes hands too fast: enqueue it again".into())
    })?;
    let new = placed.iter().zip(jobs).filter(|(enqueued, _)| enqueued.is_new());
    let new: Vec<_> =
        new.map(|(enqueued, job)| Hold { id: enqueued.id().get(), fence: 0, features: job.features }).collect();
    run_steps::<DB>(conn, Edge::Enqueue, &new).await?;
    Ok(placed)
}

/// New jobs by their place, and the holders of the other keys.
type Taken = (Vec<(usize, i64)>, Vec<Holder>);

/// One statement takes the keys that are free and inserts their jobs. It locks the other keys.
async fn take_at_once<DB: Dialect>(
    conn: &mut DB::Connection,
    take: &'static str,
    jobs: &[NewJob],
    groups: &[&Group],
) -> Result<Taken, sqlx::Error> {
    #[derive(Serialize)]
    struct WantedBy<'a> {
        #[serde(flatten)]
        wanted: Wanted<'a>,
        #[serde(flatten)]
        values: Values<'a>,
        features: i64,
    }
    let mut new = Vec::with_capacity(groups.len());
    let mut rest = groups;
    while !rest.is_empty() {
        let bytes = rest.iter().scan(0, |sum, group| {
            *sum = jobs[group.content()].args.len().saturating_add(*sum);
            Some(*sum)
        });
        let count = bytes.take_while(|bytes| *bytes <= CHUNK_BYTES).count().max(1);
        let first = groups.len() - rest.len();
        let (chunk, later) = rest.split_at(count);
        let list: Vec<_> = (first..)
            .zip(chunk)
            .map(|(place, group)| {
                let job = &jobs[group.content()];
                WantedBy {
                    wanted: Wanted::new(place, job, group.rule(jobs), None),
                    values: Values::of(job),
                    features: job.features.into(),
                }
            })
            .collect();
        for row in rows::<DB>(conn, take, &[json(&list).as_str().into()]).await? {
            new.push((number(row.int(0)?)?, row.int(1)?));
        }
        rest = later;
    }
    if new.len() == groups.len() {
        return Ok((new, Vec::new()));
    }
    let mut is_new = vec![false; groups.len()];
    new.iter().for_each(|(place, _)| is_new[*place] = true);
    let others = (0..groups.len()).filter(|place| !is_new[*place]);
    let others: Vec<_> = others.map(|place| wanted(jobs, groups[place], place, None)).collect();
    let holders = holders::<DB>(conn, &others).await?;
    Ok((new, holders))
}

fn wanted<'a>(jobs: &'a [NewJob], group: &Group, place: usize, job_id: Option<i64>) -> Wanted<'a> {
    Wanted::new(place, &jobs[group.content()], group.rule(jobs), job_id)
}

/// Locks the keys, inserts the jobs of those that are free, and gives them the keys.
async fn take_in_steps<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    groups: &[&Group],
    over: &HashSet<i64>,
) -> Result<Taken, sqlx::Error> {
    let mut all: Vec<_> = groups.iter().enumerate().map(|(place, group)| wanted(jobs, group, place, None)).collect();
    let mut free = vec![true; groups.len()];
    let mut holders = Vec::new();
    if !lock::<DB>(conn, &mut all).await? {
        holders = self::holders::<DB>(conn, &all).await?;
        holders.retain(|holder| !over.contains(&holder.id));
        holders.iter().for_each(|holder| free[holder.place] = false);
    }
    let free: Vec<usize> = (0..groups.len()).filter(|place| free[*place]).collect();
    if free.is_empty() {
        return Ok((Vec::new(), holders));
    }
    let rows: Vec<NewJob> = free.iter().map(|place| jobs[groups[*place].content()].clone()).collect();
    let ids = DB::insert(conn, &rows, Whose::InTransaction).await?;
    let new: Vec<_> = free.into_iter().zip(ids).collect();
    let mut taken: Vec<_> = new.iter().map(|(place, id)| wanted(jobs, groups[*place], *place, Some(*id))).collect();
    give::<DB>(conn, &mut taken).await?;
    for chunk in new_by_id(&taken).chunks(CHUNK) {
        execute::<DB>(conn, DB::UNIQUE.note, &[json(chunk).as_str().into()]).await?;
    }
    Ok((new, holders))
}

/// In the order of ids: the table of the keys of jobs grows at its end.
fn new_by_id<'a, 'b>(taken: &'b [Wanted<'a>]) -> Vec<&'b Wanted<'a>> {
    let mut by_id: Vec<_> = taken.iter().collect();
    by_id.sort_unstable_by_key(|wanted| wanted.job_id);
    by_id
}

/// Inserts the missing keys and locks all. Everybody locks in the same order. True: all of them are new.
async fn lock<DB: Dialect>(conn: &mut DB::Connection, wanted: &mut [Wanted<'_>]) -> Result<bool, sqlx::Error> {
    wanted.sort_unstable_by_key(|wanted| (wanted.kind, wanted.key));
    let mut new = true;
    for chunk in wanted.chunks(CHUNK) {
        new &= DB::lock_keys(conn, &json(chunk), chunk.len()).await?;
    }
    Ok(new)
}

/// Gives locked keys to the jobs that want them.
async fn give<DB: Dialect>(conn: &mut DB::Connection, wanted: &mut [Wanted<'_>]) -> Result<(), sqlx::Error> {
    wanted.sort_unstable_by_key(|wanted| (wanted.kind, wanted.key));
    for chunk in wanted.chunks(CHUNK) {
        execute::<DB>(conn, DB::UNIQUE.give, &[json(chunk).as_str().into()]).await?;
    }
    Ok(())
}

/// The holders of those keys that are not free.
async fn holders<DB: Dialect>(conn: &mut DB::Connection, wanted: &[Wanted<'_>]) -> Result<Vec<Holder>, sqlx::Error> {
    let mut holders = Vec::new();
    for chunk in wanted.chunks(CHUNK) {
        for row in rows::<DB>(conn, DB::UNIQUE.holders, &[json(chunk).as_str().into()]).await? {
            let (state, seen, timed) = (row.maybe_int(3)?, row.int(4)? == 1, row.int(5)? == 1);
            let state = match state {
                Some(1) => HolderState::Waits,
                Some(_) => HolderState::Held,
                None if timed => HolderState::Held,
                None if seen => continue,
                None => HolderState::Unknown,
            };
            let under = row.maybe_int(2)?.map(number).transpose()?;
            holders.push(Holder { place: number(row.int(0)?)?, id: row.int(1)?, under, state });
        }
    }
    Ok(holders)
}

/// The holders whose keys are taken for sure. Those that wait are locked, so that they start after the caller's commit.
/// Through a pool there is no such commit, and nobody need wait. Adds to `over` those that have lost their key: the
/// caller's snapshot may show them for ever.
async fn settled<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    groups: &[&Group],
    holders: Vec<Holder>,
    whose: Whose,
    over: &mut HashSet<i64>,
) -> Result<Vec<Holder>, sqlx::Error> {
    let to_lock = |holder: &Holder| match holder.state {
        HolderState::Waits => whose != Whose::Pools || groups[holder.place].replaces(jobs),
        HolderState::Held => false,
        HolderState::Unknown => true,
    };
    let mut ids: Vec<i64> = holders.iter().filter(|holder| to_lock(holder)).map(|holder| holder.id).collect();
    let Some(sql) = DB::UNIQUE.hold.filter(|_| !ids.is_empty()) else {
        return Ok(holders);
    };
    ids.sort_unstable();
    let mut locked = HashMap::new();
    for chunk in ids.chunks(CHUNK) {
        for row in rows::<DB>(conn, sql, &[chunk.into()]).await? {
            locked.insert(row.int(0)?, (row.int(1)?, number::<i32>(row.int(2)?)?));
        }
    }
    let mut settled = Vec::with_capacity(holders.len());
    for mut holder in holders {
        if to_lock(&holder) {
            match locked.get(&holder.id) {
                Some((worker, fence)) if holder.under.is_none_or(|under| under == *fence) => {
                    holder.state = if *worker == 0 { HolderState::Waits } else { HolderState::Held };
                }
                _ => {
                    over.insert(holder.id);
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
        #[serde(flatten)]
        values: Values<'a>,
        at_most_us: Option<i64>,
    }
    let replacement = Replacement {
        id: holder.id,
        fence: holder.under,
        values: Values::of(with),
        at_most_us: with.unique.as_ref().and_then(|unique| unique.at_most).map(micros),
    };
    Ok(execute::<DB>(conn, DB::UNIQUE.replace, &[json(&[replacement]).as_str().into()]).await? == 1)
}

/// The key of a job, if it was enqueued with one.
pub(super) async fn key_of<DB: Dialect>(conn: &mut DB::Connection, id: i64) -> Result<Option<String>, sqlx::Error> {
    rows::<DB>(conn, DB::UNIQUE.key_of, &[id.into()]).await?.first().map(|row| row.text(0)).transpose()
}

/// The last job that took a key.
pub(super) async fn last_of<DB: Dialect>(
    conn: &mut DB::Connection,
    kind: &str,
    key: &str,
) -> Result<Option<i64>, sqlx::Error> {
    let found = rows::<DB>(conn, DB::UNIQUE.last_of, &[kind.into(), key.into()]).await?;
    found.first().map(|row| row.int(0)).transpose()
}
