//! Reads the gauges. Every read is bounded, however many jobs there are.
//!
//! A first look at all lanes counts those with few jobs. Then the lanes with more are counted one by one, those with
//! the oldest job first, until enough was read. What is left has "at least" so many jobs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::gauges::{Count, Depth, Gauges, Paused};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, json, rows};
use crate::store::engine::statement::read::at;

/// The most lanes that are looked at, as the statements say, too.
const MOST_LANES: usize = 2_000;
/// A count goes no further than this.
const MOST_JOBS: i64 = 10_000;

/// A lane as the statements name it.
#[derive(Debug, Clone, Serialize)]
struct LaneName {
    kind: String,
    queue: String,
    priority: i64,
    /// The due time of its first job, where the index has held jobs, too.
    first: Option<i64>,
    /// Whether jobs of its kind and queue run.
    busy: i64,
}

/// How far the first look counts in each of so many lanes.
fn first_look(lanes: usize) -> i64 {
    (5_000 / lanes.max(1) as i64).clamp(3, 1_000)
}

/// How many jobs the looks at single lanes may count in all. With 100 lanes or more, the whole reading stays below
/// 20,000 entries of an index.
fn budget(lanes: usize) -> i64 {
    if lanes < 100 { 10 * MOST_JOBS } else { 6_000 }
}

pub(crate) async fn read<DB: Dialect>(conn: &mut DB::Connection) -> Result<Gauges, sqlx::Error> {
    let mut depths = Depths::default();
    let mut held = 0;
    for row in rows::<DB>(conn, DB::GAUGES.running, &[MOST_JOBS.into()]).await? {
        held += row.int(2)?;
        depths.of(&row.text(0)?, &row.text(1)?).running += Count::exactly(row.int(2)?);
    }
    let mut waiting = lanes::<DB>(conn, DB::GAUGES.lanes).await?;
    let mut complete = held < MOST_JOBS && waiting.len() < MOST_LANES;
    for lane in &mut waiting {
        lane.busy = depths.0.contains_key(&(lane.kind.clone(), lane.queue.clone())).into();
    }
    for (lane, ready, scheduled, oldest) in count_waiting::<DB>(conn, &waiting).await? {
        let depth = depths.of(&lane.kind, &lane.queue);
        depth.ready += ready;
        depth.scheduled += scheduled;
        depth.oldest_due = depth.oldest_due.max(oldest);
    }
    let dead = lanes::<DB>(conn, DB::GAUGES.dead_lanes).await?;
    complete &= dead.len() < MOST_LANES;
    for (lane, count) in count_dead::<DB>(conn, &dead).await? {
        depths.of(&lane.kind, &lane.queue).dead += count;
    }
    let mut paused = Vec::new();
    for row in rows::<DB>(conn, DB::GAUGES.paused, &[]).await? {
        let (queue, since) = (row.text(0)?, at(&row, 1)?);
        depths.0.iter_mut().filter(|((_, of), _)| *of == queue).for_each(|(_, depth)| depth.paused = true);
        paused.push(Paused { queue, since });
    }
    let alive = rows::<DB>(conn, DB::GAUGES.alive, &[]).await?;
    let workers = alive.first().map_or(Ok(0), |row| row.int(0))?.max(0).cast_unsigned();
    Ok(Gauges { depths: depths.0.into_values().collect(), paused, workers, complete })
}

/// By kind and queue.
#[derive(Default)]
struct Depths(BTreeMap<(String, String), Depth>);

impl Depths {
    fn of(&mut self, kind: &str, queue: &str) -> &mut Depth {
        self.0.entry((kind.to_owned(), queue.to_owned())).or_insert_with(|| Depth::new(kind, queue))
    }
}

async fn lanes<DB: Dialect>(conn: &mut DB::Connection, sql: &'static str) -> Result<Vec<LaneName>, sqlx::Error> {
    let found = DB::fetch_anew(conn, sql).await?;
    found
        .iter()
        .map(|row| {
            let (kind, queue, priority) = (row.text(0)?, row.text(1)?, row.int(2)?);
            Ok(LaneName { kind, queue, priority, first: row.maybe_int(3)?, busy: 0 })
        })
        .collect()
}

/// The lanes, each with its due jobs, its later ones, and how long ago the oldest was due.
async fn count_waiting<DB: Dialect>(
    conn: &mut DB::Connection,
    lanes: &[LaneName],
) -> Result<Vec<(LaneName, Count, Count, Option<std::time::Duration>)>, sqlx::Error> {
    let (mut counted, mut deep) = (Vec::new(), Vec::new());
    let cap = first_look(lanes.len());
    for row in rows::<DB>(conn, DB::GAUGES.waiting, &[json(lanes).as_str().into(), cap.into()]).await? {
        let Some(lane) = usize::try_from(row.int(0)?).ok().and_then(|place| lanes.get(place)) else { continue };
        let (first, later) = (row.maybe_int(1)?, row.int(4)?);
        let waits = first.map(|first| row.int(2).map(|now| now.saturating_sub(first))).transpose()?;
        let oldest = waits.and_then(|waits| u64::try_from(waits).ok()).map(std::time::Duration::from_micros);
        match row.maybe_int(3)? {
            Some(jobs) => {
                counted.push((lane.clone(), Count::exactly(jobs - later), Count::exactly(later), oldest));
            }
            None => deep.push((lane, oldest, later)),
        }
    }
    deep.sort_by_key(|(_, oldest, _)| std::cmp::Reverse(*oldest));
    let mut left = budget(lanes.len());
    for (lane, oldest, later) in deep {
        let (ready, scheduled) = if left > 0 {
            let binds = [lane.kind.as_str().into(), lane.queue.as_str().into(), lane.priority.into(), MOST_JOBS.into()];
            let found = rows::<DB>(conn, DB::GAUGES.waiting_in, &binds).await?;
            let count = |column| match found.first().map_or(Ok(None), |row| row.maybe_int(column))? {
                Some(jobs) => Ok::<_, sqlx::Error>(Count::exactly(jobs)),
                None => Ok(Count::at_least(MOST_JOBS)),
            };
            let (due, later) = (count(0)?, count(1)?);
            left = left.saturating_sub_unsigned(due.jobs + later.jobs);
            (due, later)
        } else {
            match oldest {
                None => (Count::exactly(0), Count::at_least(cap)),
                // where jobs run, some of those counted may be held
                Some(_) if later == 0 && lane.busy == 0 => (Count::at_least(cap), Count::at_least(0)),
                Some(_) => (Count::at_least(1), Count::at_least(0)),
            }
        };
        counted.push((lane.clone(), ready, scheduled, oldest));
    }
    Ok(counted)
}

/// A second look goes further where the first was too short.
async fn count_dead<DB: Dialect>(
    conn: &mut DB::Connection,
    lanes: &[LaneName],
) -> Result<Vec<(LaneName, Count)>, sqlx::Error> {
    let cap = first_look(lanes.len());
    let (mut counted, mut deep) = dead_up_to::<DB>(conn, lanes, cap).await?;
    let rest = deep.split_off(deep.len().min((budget(lanes.len()) / MOST_JOBS).max(1) as usize));
    let (more, most) = dead_up_to::<DB>(conn, &deep, MOST_JOBS).await?;
    counted.extend(more);
    counted.extend(most.into_iter().map(|lane| (lane, Count::at_least(MOST_JOBS))));
    counted.extend(rest.into_iter().map(|lane| (lane, Count::at_least(cap))));
    Ok(counted)
}

/// Counts the dead letters of each of these. Also returns those that have more than `cap`.
async fn dead_up_to<DB: Dialect>(
    conn: &mut DB::Connection,
    lanes: &[LaneName],
    cap: i64,
) -> Result<(Vec<(LaneName, Count)>, Vec<LaneName>), sqlx::Error> {
    let (mut counted, mut deep) = (Vec::new(), Vec::new());
    if lanes.is_empty() {
        return Ok((counted, deep));
    }
    for row in rows::<DB>(conn, DB::GAUGES.dead, &[json(lanes).as_str().into(), cap.into()]).await? {
        let Some(lane) = usize::try_from(row.int(0)?).ok().and_then(|place| lanes.get(place)).cloned() else {
            continue;
        };
        match row.maybe_int(1)? {
            Some(jobs) => counted.push((lane, Count::exactly(jobs))),
            None => deep.push(lane),
        }
    }
    Ok((counted, deep))
}
