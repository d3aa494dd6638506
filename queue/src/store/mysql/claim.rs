//! Claims on MySQL and MariaDB: rows are found, locked, marked and written into a claim record.

use std::collections::{HashMap, HashSet};

use futures_util::TryStreamExt;
use sqlx::mysql::MySqlRow;
use sqlx::{Error, MySql, MySqlConnection};

use crate::limits::ARGS_AT_CLAIM_BYTES;

use crate::store::engine::driver::{Bind, Cells, Driver, MOST_ARGS, execute, json, question_marks, rows};
use crate::store::engine::statement::read::{claimed, lane_of, shares};
use crate::store::engine::statement::sql;
use crate::store::engine::statement::{LANES, LanePart, ask_of, lane_binds, united};
use crate::store::mysql::settings;
use crate::store::values::{Ask, Claimed, NEVER, Place, Reach, Share, Whose, WorkerId};

use crate::store::mysql::statement::{FIRST, PARTS, Runs, fetch, one_text, with_places};

/// Up to this many rows are locked by id, in the round trip that begins the transaction. More rows are locked in order,
/// which is less work for the server.
const FEW: usize = 32;

/// The due rows of an ask.
enum DueRows {
    /// The ids of these few rows: all that is due, or the one that is wanted.
    Numbers(Vec<i64>),
    /// No more than this ask says, starting at its first due row.
    Behind(Ask),
}

/// Locked rows, in a transaction.
struct Locked {
    jobs: Vec<Claimed>,
    /// The rest of the transaction may travel as one text.
    together: bool,
}

/// The placeholder for the text of claim_others.sql in another one.
const OTHERS: &str = "/* others */";

/// The statement for the next rows of an ask, `oldest` or `newest` by its order. Its values: those `before`, the lane,
/// the place behind which it starts (if it has one), and those `after`.
fn next<'a>(
    ask: &'a Ask,
    [oldest, newest]: [&'static str; 2],
    before: &[Bind<'a>],
    after: &[Bind<'a>],
) -> LanePart<'a> {
    let (run_at, id) = ask.behind.unwrap_or(FIRST);
    let place = [run_at.into(), id.into()];
    let (sql, place) = if ask.newest_first { (newest, &[][..]) } else { (oldest, &place[..]) };
    (sql, [before, &lane_binds(ask), place, after].concat())
}

fn preview_one(ask: &Ask, limit: i64, end: Place) -> LanePart<'_> {
    let sql = [sql!("mysql", "claims", "preview"), sql!("mysql", "claims", "preview_newest")];
    next(ask, sql, &[], &[limit.into(), end.0.into(), end.1.into()])
}

/// The asks that the worker may claim: none if its lease has run out, and none of paused queues.
async fn allowed(conn: &mut MySqlConnection, worker: WorkerId, asks: &[Ask]) -> Result<Vec<Ask>, Error> {
    let rows = rows::<MySql>(conn, sql!("mysql", "claims", "claim_allowed"), &[worker.into()]).await?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let paused: HashSet<_> = rows.iter().filter_map(|row| row.maybe_text(0).transpose()).collect::<Result<_, _>>()?;
    Ok(asks.iter().filter(|ask| !paused.contains(&*ask.lane.queue)).cloned().collect())
}

/// The ask, starting at its first row, if that is known.
fn known_start(ask: &Ask) -> Option<Ask> {
    ask.first.map(|(time, id)| Ask { behind: Some((time, id.saturating_sub(1))), ..ask.clone() })
}

/// The due rows of an ask. None: there are none, or rows of the `served` kinds wait in another lane.
///
/// This query comes first, because a read that locks must begin and end at rows that exist. For each dead index entry,
/// such a read checks whether somebody holds a lock on it, which costs twenty times a plain read. If it finds fewer
/// rows than its limit, it continues to the next row of any lane or worker.
async fn due(conn: &mut MySqlConnection, ask: &Ask, served: Option<&[String]>) -> Result<Option<DueRows>, Error> {
    if let Some(known) = known_start(ask) {
        let free = match served {
            Some(kinds) => !others_wait(conn, ask, kinds).await?,
            None => true,
        };
        return Ok(free.then_some(DueRows::Behind(known)));
    }
    let (sql, binds) = preview_one(ask, ask.take.into(), NEVER);
    let due = match served {
        None => rows::<MySql>(conn, sql, &binds).await?,
        Some(kinds) => {
            let ((others, mut all), (lane, places)) = (others(ask, kinds), question_marks(sql));
            all.extend(places.iter().map(|place| binds[*place]));
            let (around, _none) = question_marks(sql!("mysql", "claims", "claim_due"));
            let sql = around.replace(OTHERS, &others).replace(LANES, &lane);
            fetch(conn, sql, &all).await?
        }
    };
    let Some(first) = due.first() else { return Ok(None) };
    if served.is_some() && first.int(3)? != 0 {
        return Ok(None);
    }
    if due.len() <= FEW && (ask.take == 1 || due.len() < ask.take as usize) {
        let number = |row: &MySqlRow| row.int(2).map(|id| if ask.newest_first { -1 - id } else { id });
        return Ok(Some(DueRows::Numbers(due.iter().map(number).collect::<Result<_, _>>()?)));
    }
    // invalid times, written with the checks off, come first
    let place = if ask.newest_first { None } else { first.maybe_int(1)?.zip(first.maybe_int(2)?) };
    let behind = place.map(|(time, id)| (time, id.saturating_sub(1))).or(ask.behind);
    Ok(Some(DueRows::Behind(Ask { take: u32::try_from(due.len()).unwrap_or(ask.take), behind, ..ask.clone() })))
}

/// A query whether rows of the served kinds wait in another lane than this one.
fn others<'a>(ask: &'a Ask, kinds: &'a [String]) -> (String, Vec<Bind<'a>>) {
    let (sql, places) = question_marks(sql!("mysql", "claims", "claim_others"));
    let lane = lane_binds(ask);
    // no kind has an empty name
    let others = kinds.iter().map(|kind| if **kind == *ask.lane.kind { "" } else { kind.as_str() });
    let binds = places.iter().map(|place| lane[*place]).chain(others.map(Bind::from)).collect();
    (with_places(sql.trim_end(), kinds.len()), binds)
}

async fn others_wait(conn: &mut MySqlConnection, ask: &Ask, kinds: &[String]) -> Result<bool, Error> {
    let (sql, binds) = others(ask, kinds);
    let rows = fetch(conn, sql, &binds).await?;
    rows.first().map_or(Ok(true), |row| Ok(row.int(0)? != 0))
}

/// The same for several asks. A preview has counted what is due of each, and has found the first row of most of them.
async fn starts(conn: &mut MySqlConnection, asks: &[Ask]) -> Result<Vec<Ask>, Error> {
    if let Some(asks) = asks.iter().map(known_start).collect() {
        return Ok(asks);
    }
    let union = united(LANES, &[], PARTS, asks, |ask, wanted| preview_one(ask, wanted.into(), NEVER));
    let rows = fetch(conn, union.sql, &union.binds).await?;
    let start = |row: &MySqlRow| {
        let ask = &asks[ask_of(&union.asks, row.int(3)?)?];
        let (time, id) = (row.maybe_int(1)?, row.int(2)?);
        let first = time.filter(|_| !ask.newest_first).map(|time| (time, id.saturating_sub(1)));
        Ok(Ask { behind: first.or(ask.behind), ..ask.clone() })
    };
    rows.iter().map(start).collect()
}

/// What begins or ends a claim's own transaction. None: the claim is part of another one, which its caller ends.
fn around(whose: Whose, sql: &'static str) -> Option<&'static str> {
    (whose != Whose::InTransaction).then_some(sql)
}

/// Locks the next rows of the asks and no others, in a transaction.
async fn lock(conn: &mut MySqlConnection, worker: WorkerId, asks: &[Ask], whose: Whose) -> Result<Locked, Error> {
    if let Some(begin) = around(whose, settings::BEGIN) {
        MySql::raw(conn, begin).await?;
    }
    let together = false;
    if let [ask] = asks {
        let sql = [sql!("mysql", "claims", "claim"), sql!("mysql", "claims", "claim_newest")];
        let (sql, binds) =
            next(ask, sql, &[worker.into()], &[i64::from(ask.take).into(), ask.retries().into(), MOST_ARGS]);
        let rows = rows::<MySql>(conn, sql, &binds).await?;
        let jobs = rows.iter().map(|row| claimed(row, ask.lane.clone())).collect::<Result<_, _>>()?;
        return Ok(Locked { jobs, together });
    }
    let union = united(LANES, &[], PARTS, asks, |ask, wanted| {
        let take = if wanted { ask.take.into() } else { 0_i64 };
        let sql = [sql!("mysql", "claims", "next"), sql!("mysql", "claims", "next_newest")];
        next(ask, sql, &[], &[take.into(), ask.retries().into(), MOST_ARGS])
    });
    let rows = fetch(conn, union.sql, &union.binds).await?;
    let job = |row: &MySqlRow| claimed(row, asks[ask_of(&union.asks, row.int(10)?)?].lane.clone());
    Ok(Locked { jobs: rows.iter().map(job).collect::<Result<_, _>>()?, together })
}

/// The same for the rows of a lane with these ids, in this order.
async fn lock_numbers(
    conn: &mut MySqlConnection,
    worker: WorkerId,
    ask: &Ask,
    numbers: &[i64],
    whose: Whose,
) -> Result<Locked, Error> {
    let values = [numbers.into(), worker.into(), ask.retries().into(), (ARGS_AT_CLAIM_BYTES as i64).into()];
    let begin = around(whose, settings::BEGIN).map(|begin| (begin, &[][..]));
    let parts: Vec<_> = begin.into_iter().chain([(sql!("mysql", "claims", "claim_numbers"), &values[..])]).collect();
    let text = one_text(&parts);
    let (mut jobs, mut together) = (HashMap::new(), true);
    for row in sqlx::raw_sql(text).fetch_all(conn).await? {
        let job = claimed(&row, lane_of(&row, std::slice::from_ref(ask))?)?;
        together &= row.int(13)? == 0;
        if job.lane == ask.lane {
            jobs.insert(job.id.get(), job);
        }
    }
    Ok(Locked { jobs: numbers.iter().filter_map(|number| jobs.remove(number)).collect(), together })
}

/// Marks the locked rows, writes the claim record, and commits.
async fn mark(
    conn: &mut MySqlConnection,
    worker: WorkerId,
    asks: &[Ask],
    locked: Locked,
    whose: Whose,
) -> Result<Vec<Claimed>, Error> {
    let Locked { mut jobs, together } = locked;
    let mut taken: Vec<[i64; 2]> = jobs.iter().map(|job| [job.id.get(), i64::from(job.max_retries)]).collect();
    taken.sort_unstable();
    let ids: Vec<i64> = taken.iter().map(|[id, _]| *id).collect();
    let claim = if together {
        let marked = [worker.into(), taken.as_slice().into()];
        let note = [worker.into(), ids.as_slice().into()];
        let commit = around(whose, settings::COMMIT).map(|commit| (commit, &[][..]));
        let mut parts = vec![
            (sql!("mysql", "claims", "claim_mark"), &marked[..]),
            (sql!("mysql", "claims", "claim_note"), &note[..]),
        ];
        parts.extend(commit);
        let text = one_text(&parts);
        let mut answers = sqlx::raw_sql(text).fetch_many(conn);
        let mut claim = 0;
        while let Some(answer) = answers.try_next().await? {
            // of the three, only the claim record returns an id
            claim = answer.left().map_or(0, |done| done.last_insert_id().cast_signed()).max(claim);
        }
        claim
    } else {
        let one = Some(&asks[0]).filter(|first| asks.iter().all(|ask| ask.max_retries == first.max_retries));
        match one.zip(Runs::of(&ids)) {
            Some((ask, runs)) => {
                let binds = runs.behind(&[worker.into(), ask.retries().into()]);
                execute::<MySql>(conn, sql!("mysql", "claims", "claim_mark_runs"), &binds).await?;
            }
            None => {
                let list = json(&taken);
                let binds = [worker.into(), list.as_str().into()];
                execute::<MySql>(conn, sql!("mysql", "claims", "claim_mark"), &binds).await?;
            }
        }
        let note = [worker.into(), ids.as_slice().into()];
        let (sql, arguments) = MySql::prepare(sql!("mysql", "claims", "claim_note"), &note)?;
        let claim = MySql::insert_row(conn, sql, arguments).await?;
        if let Some(commit) = around(whose, settings::COMMIT) {
            MySql::raw(conn, commit).await?;
        }
        claim
    };
    jobs.iter_mut().for_each(|job| job.claim = Some(claim));
    Ok(jobs)
}

/// Marks the locked rows, if any, and ends the transaction.
async fn take(
    conn: &mut MySqlConnection,
    worker: WorkerId,
    asks: &[Ask],
    locked: Result<Locked, Error>,
    whose: Whose,
) -> Result<Vec<Claimed>, Error> {
    let taken = match locked {
        Ok(locked) if locked.jobs.is_empty() => Ok(Vec::new()),
        Ok(locked) => mark(conn, worker, asks, locked, whose).await,
        Err(error) => Err(error),
    };
    if taken.as_ref().map_or(true, Vec::is_empty)
        && let Some(rollback) = around(whose, settings::ROLLBACK)
    {
        MySql::raw(conn, rollback).await?;
    }
    taken
}

/// The next jobs of one lane. With `served`, only if no rows of these kinds wait in another one.
pub(super) async fn claim_lane(
    conn: &mut MySqlConnection,
    worker: WorkerId,
    ask: &Ask,
    served: Option<&[String]>,
    whose: Whose,
) -> Result<Vec<Claimed>, Error> {
    let locked = match due(conn, ask, served).await? {
        None => return Ok(Vec::new()),
        Some(DueRows::Numbers(numbers)) => lock_numbers(conn, worker, ask, &numbers, whose).await,
        Some(DueRows::Behind(ask)) => lock(conn, worker, std::slice::from_ref(&ask), whose).await,
    };
    take(conn, worker, std::slice::from_ref(ask), locked, whose).await
}

/// The next jobs of these lanes.
pub(super) async fn claim(
    conn: &mut MySqlConnection,
    worker: WorkerId,
    asks: &[Ask],
    whose: Whose,
) -> Result<Vec<Claimed>, Error> {
    if let [ask] = asks {
        return claim_lane(conn, worker, ask, None, whose).await;
    }
    let asks = starts(conn, asks).await?;
    let asks = allowed(conn, worker, &asks).await?;
    if asks.is_empty() {
        return Ok(Vec::new());
    }
    let locked = lock(conn, worker, &asks, whose).await;
    take(conn, worker, &asks, locked, whose).await
}

/// Each lane's share of the next jobs.
pub(super) async fn preview(conn: &mut MySqlConnection, asks: &[Ask], reach: Reach) -> Result<Vec<Share>, Error> {
    let outer = reach.numbers().map(Bind::from);
    let union = united(sql!("mysql", "claims", "preview_many"), &outer, PARTS, asks, |ask, wanted| {
        preview_one(ask, if wanted { reach.most.into() } else { 0 }, reach.end_in(&ask.lane))
    });
    let rows = fetch(conn, union.sql, &union.binds).await?;
    shares(asks, &rows, |part| ask_of(&union.asks, part))
}
