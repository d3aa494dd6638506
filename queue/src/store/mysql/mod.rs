//! MySQL and MariaDB: one driver, two engines. No statement returns what it changed, so rows are locked first.

mod admin;
mod text;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::{FutureExt, TryStreamExt};
use sqlx::mysql::{MySqlArguments, MySqlConnectOptions, MySqlDatabaseError, MySqlRow};
use sqlx::{Arguments, AssertSqlSafe, Connection, Error, MySql, MySqlConnection, Pool, Row};

use crate::engine::Engine;
use crate::limits::ARGS_AT_CLAIM_BYTES;
use crate::store::engine::notify::Signals;

use crate::store::engine::dialect::Sessions;
use crate::store::engine::dialect::json;
use crate::store::engine::dialect::{
    Beside, Bind, Cells, ClaimAlone, Dialect, For, Housekeeping, List, MOST_ARGS, Script, Seen, Turn, add_binds,
    driver, execute, question_marks, rows, without_signals,
};
use crate::store::engine::insert::fitting;
use crate::store::engine::many_lanes::{LANES, Part, ask_of, united};
use crate::store::engine::ranges::Runs;
use crate::store::engine::read::{claimed, lane_head, lane_of, shares};
use crate::store::engine::savepoint::{RELEASE, SAVEPOINT, Together};
use crate::store::engine::settings::mysql as settings;
use crate::store::mysql::text::one_text;
use crate::store::values::Whose;
use crate::store::values::{Ask, Claimed, Finish, Lane, LaneHead, NEVER, NewJob, Place, Reach, Share, WorkerId};

/// Jobs, and bytes of arguments, in one INSERT.
const CHUNK: usize = 1_000;
const CHUNK_BYTES: usize = 1 << 20;
/// Rows that a step of a look reads of the kinds that it has not seen yet, and behind each lane at which it was cut off.
const FIRST_ROWS: i64 = 32;
const MORE_ROWS: i64 = 16;
/// So many at most, where most rows are lanes of their own.
const MOST_ROWS: i64 = 2_048;
/// The number of the part that reads those kinds.
const REST: i64 = -1;
/// So many lanes are gone behind in one step …
const AT_ONCE: usize = 32;
/// … and no look has more steps than these, whatever producers make of queues and priorities.
const STEPS: usize = 32;

impl Cells for MySqlRow {
    fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error> {
        self.try_get_unchecked(column)
    }

    fn maybe_text(&self, column: usize) -> Result<Option<String>, Error> {
        self.try_get_unchecked(column)
    }
}

fn lane_binds(ask: &Ask) -> [Bind<'_>; 3] {
    [(&*ask.lane.kind).into(), (&*ask.lane.queue).into(), i64::from(ask.lane.priority).into()]
}

fn peek_one(ask: &Ask, limit: i64, end: Place) -> Part<'_> {
    let [kind, queue, priority] = lane_binds(ask);
    if ask.newest_first {
        return (include_str!("sql/peek_newest.sql"), vec![kind, queue, priority, limit.into()]);
    }
    let (run_at, id) = ask.behind.unwrap_or(FIRST);
    (
        include_str!("sql/peek.sql"),
        vec![kind, queue, priority, run_at.into(), id.into(), limit.into(), end.0.into(), end.1.into()],
    )
}

fn most_retries(ask: &Ask) -> i64 {
    i64::from(ask.max_retries.min(i32::MAX as u32))
}

fn retries(ask: &Ask) -> Bind<'_> {
    most_retries(ask).into()
}

fn claim_one(worker: WorkerId, ask: &Ask) -> Part<'_> {
    let ([kind, queue, priority], take, retries) = (lane_binds(ask), i64::from(ask.take).into(), retries(ask));
    if ask.newest_first {
        let binds = vec![worker.into(), kind, queue, priority, take, retries, MOST_ARGS];
        return (include_str!("sql/claim_newest.sql"), binds);
    }
    let (run_at, id) = ask.behind.unwrap_or(FIRST);
    let binds = vec![worker.into(), kind, queue, priority, run_at.into(), id.into(), take, retries, MOST_ARGS];
    (include_str!("sql/claim.sql"), binds)
}

fn one_of_many(ask: &Ask, take: u32) -> Part<'_> {
    let ([kind, queue, priority], take, retries) = (lane_binds(ask), i64::from(take).into(), retries(ask));
    if ask.newest_first {
        return (include_str!("sql/next_newest.sql"), vec![kind, queue, priority, take, retries, MOST_ARGS]);
    }
    let (run_at, id) = ask.behind.unwrap_or(FIRST);
    let binds = vec![kind, queue, priority, run_at.into(), id.into(), take, retries, MOST_ARGS];
    (include_str!("sql/next.sql"), binds)
}

/// The asks that the worker may claim: none when its lease has run out, and none of paused queues.
async fn allowed(conn: &mut MySqlConnection, worker: WorkerId, asks: &[Ask]) -> Result<Vec<Ask>, Error> {
    let rows = rows::<MySql>(conn, include_str!("sql/claim_allowed.sql"), &[worker.into()]).await?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let paused: HashSet<_> = rows.iter().filter_map(|row| row.maybe_text(0).transpose()).collect::<Result<_, _>>()?;
    Ok(asks.iter().filter(|ask| !paused.contains(&*ask.lane.queue)).cloned().collect())
}

/// The ask from its first row on, where that is known.
fn known_start(ask: &Ask) -> Option<Ask> {
    ask.first.map(|(time, id)| Ask { behind: Some((time, id.saturating_sub(1))), ..ask.clone() })
}

/// Up to this many rows are locked by their numbers, in the round trip that begins the transaction. More rows are locked
/// in order, which is less work for the server.
const FEW: usize = 32;

/// What is due of an ask.
enum Due {
    /// These few, which are all that is due, or the one that is wanted.
    Numbers(Vec<i64>),
    /// No more than the ask says now, starting at the first of it.
    Behind(Ask),
}

/// What is due of an ask. None: nothing is, or rows of the `served` kinds wait in another lane.
///
/// It is asked first, because a read that locks must begin and end at rows that exist. Such a read asks of each removed row
/// whether somebody holds a lock on it, which costs twenty times what a plain read does. If it finds fewer rows than its
/// limit, it goes on to the next row of any lane or worker.
async fn due(conn: &mut MySqlConnection, ask: &Ask, served: Option<&[String]>) -> Result<Option<Due>, Error> {
    if let Some(known) = known_start(ask) {
        let free = match served {
            Some(kinds) => !others_wait(conn, ask, kinds).await?,
            None => true,
        };
        return Ok(free.then_some(Due::Behind(known)));
    }
    let (sql, binds) = peek_one(ask, ask.take.into(), NEVER);
    let due = match served {
        None => rows::<MySql>(conn, sql, &binds).await?,
        Some(kinds) => {
            let ((others, mut all), (lane, places)) = (others(ask, kinds), question_marks(sql));
            all.extend(places.iter().map(|place| binds[*place]));
            let (around, _none) = question_marks(include_str!("sql/claim_due.sql"));
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
        return Ok(Some(Due::Numbers(due.iter().map(number).collect::<Result<_, _>>()?)));
    }
    // times that no calendar has, written with the checks off, come first
    let place = if ask.newest_first { None } else { first.maybe_int(1)?.zip(first.maybe_int(2)?) };
    let behind = place.map(|(time, id)| (time, id.saturating_sub(1))).or(ask.behind);
    Ok(Some(Due::Behind(Ask { take: u32::try_from(due.len()).unwrap_or(ask.take), behind, ..ask.clone() })))
}

/// Stands for the text of claim_others.mysql.sql in another one.
const OTHERS: &str = "/* others */";

/// Asks whether rows of the served kinds wait in another lane than this one.
fn others<'a>(ask: &'a Ask, kinds: &'a [String]) -> (String, Vec<Bind<'a>>) {
    let (sql, places) = question_marks(include_str!("sql/claim_others.sql"));
    let lane = lane_binds(ask);
    // no kind has an empty name
    let others = kinds.iter().map(|kind| if **kind == *ask.lane.kind { "" } else { kind.as_str() });
    let binds = places.iter().map(|place| lane[*place]).chain(others.map(Bind::from)).collect();
    (of_kinds(sql.trim_end(), kinds.len()), binds)
}

async fn others_wait(conn: &mut MySqlConnection, ask: &Ask, kinds: &[String]) -> Result<bool, Error> {
    let (sql, binds) = others(ask, kinds);
    let rows = fetch(conn, sql, &binds).await?;
    rows.first().map_or(Ok(true), |row| Ok(row.int(0)? != 0))
}

/// The same for several asks, which a comparison has told how much is due of each, and for most of them where it begins.
async fn starts(conn: &mut MySqlConnection, asks: &[Ask]) -> Result<Vec<Ask>, Error> {
    if let Some(asks) = asks.iter().map(known_start).collect() {
        return Ok(asks);
    }
    let union = united(LANES, &[], PARTS, asks, |ask, wanted| peek_one(ask, wanted.into(), NEVER));
    let rows = fetch(conn, union.sql, &union.binds).await?;
    let start = |row: &MySqlRow| {
        let ask = &asks[ask_of(&union.asks, row.int(3)?)?];
        let (time, id) = (row.maybe_int(1)?, row.int(2)?);
        let first = time.filter(|_| !ask.newest_first).map(|time| (time, id.saturating_sub(1)));
        Ok(Ask { behind: first.or(ask.behind), ..ask.clone() })
    };
    rows.iter().map(start).collect()
}

/// Locks the next rows of the asks and nothing beside them: in a transaction.
async fn lock(conn: &mut MySqlConnection, worker: WorkerId, asks: &[Ask]) -> Result<Locked, Error> {
    MySql::raw(conn, settings::BEGIN).await?;
    let together = false;
    if let [ask] = asks {
        let (sql, binds) = claim_one(worker, ask);
        let rows = rows::<MySql>(conn, sql, &binds).await?;
        let jobs = rows.iter().map(|row| claimed(row, ask.lane.clone())).collect::<Result<_, _>>()?;
        return Ok(Locked { jobs, together });
    }
    let union = united(LANES, &[], PARTS, asks, |ask, wanted| one_of_many(ask, if wanted { ask.take } else { 0 }));
    let rows = fetch(conn, union.sql, &union.binds).await?;
    let job = |row: &MySqlRow| claimed(row, asks[ask_of(&union.asks, row.int(9)?)?].lane.clone());
    Ok(Locked { jobs: rows.iter().map(job).collect::<Result<_, _>>()?, together })
}

/// The same for those of a lane that have these numbers, in their order.
async fn lock_numbers(
    conn: &mut MySqlConnection,
    worker: WorkerId,
    ask: &Ask,
    numbers: &[i64],
) -> Result<Locked, Error> {
    let values = [numbers.into(), worker.into(), most_retries(ask).into(), (ARGS_AT_CLAIM_BYTES as i64).into()];
    let text = one_text(&[(settings::BEGIN, &[]), (include_str!("sql/claim_numbers.sql"), &values)]);
    let (mut jobs, mut together) = (HashMap::new(), true);
    for row in sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(conn).await? {
        let job = claimed(&row, lane_of(&row, std::slice::from_ref(ask))?)?;
        together &= row.int(12)? == 0;
        if job.lane == ask.lane {
            jobs.insert(job.id.get(), job);
        }
    }
    Ok(Locked { jobs: numbers.iter().filter_map(|number| jobs.remove(number)).collect(), together })
}

/// Rows that are locked, in a transaction.
struct Locked {
    jobs: Vec<Claimed>,
    /// The rest of the transaction may travel as one text.
    together: bool,
}

/// Marks the locked rows, makes a note of whose they are, and commits.
async fn mark(
    conn: &mut MySqlConnection,
    worker: WorkerId,
    asks: &[Ask],
    locked: Locked,
) -> Result<Vec<Claimed>, Error> {
    let Locked { mut jobs, together } = locked;
    let mut taken: Vec<[i64; 2]> = jobs.iter().map(|job| [job.id.get(), i64::from(job.max_retries)]).collect();
    taken.sort_unstable();
    let ids: Vec<i64> = taken.iter().map(|[id, _]| *id).collect();
    let claim = if together {
        let marked = [worker.into(), taken.as_slice().into()];
        let note = [worker.into(), ids.as_slice().into()];
        let text = one_text(&[
            (include_str!("sql/claim_mark.sql"), &marked),
            (include_str!("sql/claim_note.sql"), &note),
            (settings::COMMIT, &[]),
        ]);
        let mut answers = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(conn);
        let mut claim = 0;
        while let Some(answer) = answers.try_next().await? {
            // of the three only the note has a number
            claim = answer.left().map_or(0, |done| done.last_insert_id().cast_signed()).max(claim);
        }
        claim
    } else {
        let one = Some(&asks[0]).filter(|first| asks.iter().all(|ask| ask.max_retries == first.max_retries));
        match one.zip(Runs::of(&ids)) {
            Some((ask, runs)) => {
                let binds = runs.behind(&[worker.into(), retries(ask)]);
                execute::<MySql>(conn, include_str!("sql/claim_mark_runs.sql"), &binds).await?;
            }
            None => {
                let list = json(&taken);
                let binds = [worker.into(), list.as_str().into()];
                execute::<MySql>(conn, include_str!("sql/claim_mark.sql"), &binds).await?;
            }
        }
        let note = [worker.into(), ids.as_slice().into()];
        let (sql, arguments) = MySql::prepare(include_str!("sql/claim_note.sql"), &note)?;
        let claim = MySql::insert_row(conn, sql, arguments).await?;
        MySql::raw(conn, settings::COMMIT).await?;
        claim
    };
    jobs.iter_mut().for_each(|job| job.claim = Some(claim));
    Ok(jobs)
}

/// Marks what was locked, if anything was, and ends the transaction.
async fn take(
    conn: &mut MySqlConnection,
    worker: WorkerId,
    asks: &[Ask],
    locked: Result<Locked, Error>,
) -> Result<Vec<Claimed>, Error> {
    let taken = match locked {
        Ok(locked) if !locked.jobs.is_empty() => mark(conn, worker, asks, locked).await,
        none => {
            MySql::raw(conn, settings::ROLLBACK).await?;
            return none.map(|locked| locked.jobs);
        }
    };
    if taken.is_err() {
        MySql::raw(conn, settings::ROLLBACK).await?;
    }
    taken
}

/// The next jobs of one lane; with `served`, only if no rows of these kinds wait in another one.
async fn claim_lane(
    conn: &mut MySqlConnection,
    worker: WorkerId,
    ask: &Ask,
    served: Option<&[String]>,
) -> Result<Vec<Claimed>, Error> {
    let locked = match due(conn, ask, served).await? {
        None => return Ok(Vec::new()),
        Some(Due::Numbers(numbers)) => lock_numbers(conn, worker, ask, &numbers).await,
        Some(Due::Behind(ask)) => lock(conn, worker, std::slice::from_ref(&ask)).await,
    };
    take(conn, worker, std::slice::from_ref(ask), locked).await
}

/// A look under way.
struct Look<'a> {
    /// Kinds of which nothing was found yet.
    unseen: Vec<&'a str>,
    /// The last lanes of what was cut off: more of their kind may come behind them.
    cut: Vec<Ask>,
    /// So many rows are read behind each.
    more_rows: i64,
    lanes: Vec<LaneHead>,
    round_trips: u32,
}

impl Look<'_> {
    /// Reads the next rows behind what was cut off, and of what has not been seen yet. Answers whether there is more.
    async fn step(&mut self, conn: &mut MySqlConnection, kinds: usize, most: usize) -> Result<bool, Error> {
        let (rest, _limit) = question_marks(include_str!("sql/lanes_rest.sql"));
        let rest = of_kinds(&rest, kinds);
        // no kind has an empty name: as many as there are in all, so that it is the same statement every time
        let names = self.unseen.iter().copied().chain(std::iter::repeat("")).take(kinds);
        let mut binds: Vec<Bind<'_>> = names.map(Bind::from).collect();
        binds.push(FIRST_ROWS.into());
        let step = self.cut.split_off(self.cut.len().saturating_sub(AT_ONCE));
        let more_rows = self.more_rows.min((most / step.len().max(1)) as i64).max(MORE_ROWS);
        let union = united(LANES, &[], PARTS, &step, |ask, wanted| {
            let [kind, queue, priority] = lane_binds(ask);
            let limit = if wanted { more_rows } else { 0 };
            (include_str!("sql/lanes_behind.sql"), vec![kind, queue, priority, limit.into()])
        });
        binds.extend(&union.binds);
        let glue = if step.is_empty() { "" } else { " UNION ALL " };
        let (around, _none) = question_marks(include_str!("sql/lanes.sql"));
        let sql = around.replace(LANES, &["(", rest.trim_end(), ")", glue, &union.sql].concat());
        let rows = fetch(conn, sql, &binds).await?;
        self.round_trips += 1;

        let mut parts: HashMap<i64, (i64, Vec<Lane>)> = HashMap::new();
        for row in &rows {
            let head = lane_head(row)?;
            let (count, lanes) = parts.entry(row.int(8)?).or_default();
            *count += row.int(6)?;
            lanes.push(head.lane.clone());
            if row.int(7)? == 0 {
                self.lanes.push(head);
            }
        }
        match parts.get(&REST) {
            Some((FIRST_ROWS, seen)) => self.unseen.retain(|kind| seen.iter().all(|lane| *lane.kind != **kind)),
            _ => self.unseen.clear(),
        }
        for (part, (count, lanes)) in parts {
            let is_cut = count == if part == REST { FIRST_ROWS } else { more_rows };
            if is_cut && lanes.len() as i64 * 2 > count {
                self.more_rows = (more_rows * 2).min(MOST_ROWS);
            }
            let last = lanes.into_iter().next_back().filter(|_| is_cut);
            self.cut.extend(last.map(behind));
        }
        Ok(!self.cut.is_empty())
    }

    /// Reads the lanes behind these, up to `most` in each kind.
    async fn many_behind(&mut self, conn: &mut MySqlConnection, cut: &[Ask], most: i64) -> Result<(), Error> {
        let (head, _none) = question_marks(include_str!("sql/lanes_all.sql"));
        let union = united(LANES, &[], PARTS, cut, |ask, wanted| {
            let [kind, queue, priority] = lane_binds(ask);
            let limit = if wanted { most } else { 0 };
            (include_str!("sql/lanes_all_behind.sql"), vec![kind, queue, priority, limit.into()])
        });
        let sql = head.replace(LANES, &union.sql);
        // Prepared anew each time: MariaDB would not choose the skip scan the second time.
        let all = sqlx::query_with(AssertSqlSafe(sql), add_binds!(MySql, &union.binds, json)).persistent(false);
        let rows = all.fetch_all(conn).await?;
        self.round_trips += 2;
        let mut counts: HashMap<i64, i64> = HashMap::new();
        for row in &rows {
            let head = lane_head(row)?;
            let count = counts.entry(row.int(7)?).or_default();
            *count += 1;
            if *count == most {
                self.cut.push(behind(head.lane.clone()));
            }
            if row.int(6)? == 0 {
                self.lanes.push(head);
            }
        }
        Ok(())
    }
}

/// Where a look goes on.
fn behind(lane: Lane) -> Ask {
    Ask { lane, take: 0, behind: None, first: None, newest_first: false, max_retries: 0 }
}

/// Around each part of a union: it has an order and a limit, and locks, of its own.
const PARTS: [&str; 2] = ["(", ")"];

/// Before every time that can be stored.
const FIRST: Place = (-62_135_596_800_000_000, -1); // the year 1, the first that can be computed with

impl Signals for MySql {
    const NOTIFIES: bool = false;

    fn address(pool: &sqlx::Pool<Self>) -> String {
        let options = pool.connect_options();
        format!("{}:{}/{}", options.get_host(), options.get_port(), options.get_database().unwrap_or_default())
    }

    async fn notify(_: &mut MySqlConnection, _: &str) -> Result<(), sqlx::Error> {
        Ok(())
    }
}

impl Dialect for MySql {
    const KIND: Engine = Engine::MySql;
    const ENGINE: &'static str = "MySQL or MariaDB";
    const CONNECTIONS: u32 = 4;
    const ONE_WRITER: bool = false;
    const BEGIN: &'static str = "BEGIN";
    const BEFORE_BEGIN: Option<&'static str> = Some("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    const OPEN_LINE: &'static [&'static str] = settings::LINE;
    const END_SILENT: Option<&'static str> =
        Some("SET SESSION wait_timeout = 8, SESSION net_read_timeout = 8, SESSION net_write_timeout = 8");
    // Galera: the connections of a worker may lead to different nodes, or to another one after an outage. Reads, updates
    // and inserts (1, 2, 4) first wait for what was committed elsewhere; else a worker is told that it has no row, or that
    // its jobs are not its own.
    // with two of these, and the answer's time, less than the server's limit
    const SILENCE: Option<Duration> = Some(Duration::from_millis(1_500));
    const BEGIN_LENT: Option<&'static str> = None;
    const SESSION: Option<&'static str> = None;
    const OPEN_LINE_IN_CLUSTER: Option<(&'static str, &'static str)> = Some((
        "SHOW VARIABLES WHERE variable_name = 'wsrep_on' AND value = 'ON'",
        "SET SESSION wsrep_sync_wait = 7, @queue_in_cluster = 1",
    ));
    const PLAIN_SESSION: Option<&'static str> = Some(settings::PLAIN);
    const BEFORE_MIGRATION: &'static [&'static str] = settings::LINE;
    const LOCK_MIGRATION: Option<&'static str> =
        Some("SELECT GET_LOCK(CONCAT('queue_', SHA2(COALESCE(DATABASE(), ''), 224)), 60)");
    const UNLOCK_MIGRATION: Option<&'static str> =
        Some("SELECT RELEASE_LOCK(CONCAT('queue_', SHA2(COALESCE(DATABASE(), ''), 224)))");
    const DDL_IN_TRANSACTION: bool = false;
    const CLAIM_TURN: Option<Turn> =
        Some(Turn { take: include_str!("sql/turn_take.sql"), give: include_str!("sql/turn_give.sql") });
    const INSERT_AND_NOTIFY: Option<&'static str> = None;
    // it polls often, for want of a signal
    const BEAT_LOOKS: bool = false;
    const CLAIM_ALONE: Option<ClaimAlone<Self>> =
        Some(|conn, worker, ask, kinds| claim_lane(conn, worker, ask, Some(kinds)).boxed());

    const IN_THE_WAY: Option<&'static str> = Some(include_str!("sql/in_the_way.sql"));
    const NUMBERS: &'static str = include_str!("sql/numbers.sql");
    const SCHEMA: &'static str = include_str!("../engine/sql/schema.sql");
    const JOIN: &'static str = include_str!("sql/join.sql");
    const JOIN_BEAT: Option<&'static str> = Some(include_str!("sql/join_beat.sql"));
    const SETTLED: &'static [&'static str] =
        &[include_str!("sql/settled.sql"), include_str!("sql/settled_unknown.sql")];
    const BEAT: &'static [&'static str] = &[include_str!("sql/beat.sql"), include_str!("sql/news.sql")];
    const SESSIONS: Option<Sessions> = Some(Sessions {
        hold: include_str!("sql/session_hold.sql"),
        busy: include_str!("sql/session_busy.sql"),
        idle: include_str!("sql/session_idle.sql"),
        run: include_str!("sql/session_run.sql"),
    });
    const HOLDING: &'static str = include_str!("sql/holding.sql");
    const LEAVE: &'static str = include_str!("sql/leave.sql");
    const STARTED: Script =
        &[(For::All, include_str!("sql/ending_lock.sql")), (For::All, include_str!("sql/started.sql"))];
    const FINISH: Script = &[
        (For::Each, include_str!("sql/finish_history.sql")),
        (For::Refused, include_str!("sql/finish_lock.sql")),
        (For::Recorded, include_str!("sql/finish_attempts.sql")),
        (For::Runs, include_str!("sql/finish_delete_runs.sql")),
        (For::Scattered, include_str!("sql/finish_delete.sql")),
    ];
    const PUT_BACK: Script = &[
        (For::All, include_str!("sql/ending_lock.sql")),
        (For::Recorded, include_str!("sql/put_back_attempts.sql")),
        (For::Forgetting, include_str!("sql/put_back_forget.sql")),
        (For::All, include_str!("sql/put_back_history.sql")),
        (For::All, include_str!("sql/put_back_delete.sql")),
        (For::All, include_str!("sql/put_back.sql")),
    ];
    const BURY: Script = &[
        (For::All, include_str!("sql/ending_lock.sql")),
        (For::Recorded, include_str!("sql/bury_attempts.sql")),
        (For::All, include_str!("sql/bury_dead.sql")),
        (For::All, include_str!("sql/ending_delete.sql")),
    ];
    const DECLARE_GONE: &'static [&'static str] = &[
        include_str!("sql/declare_gone.sql"),
        include_str!("sql/stop_workers.sql"),
        include_str!("sql/stop_heartbeats.sql"),
    ];
    const FORGET_CLAIMS: &'static [&'static str] =
        &[include_str!("sql/claims_left.sql"), include_str!("sql/claims_forget.sql")];
    const LOST: &'static str = include_str!("sql/lost.sql");
    const LOCK_LOST: &'static str = include_str!("sql/lock_lost.sql");
    const RESCUE: &'static [&'static str] = &[
        include_str!("sql/rescue_blame.sql"),
        include_str!("sql/rescue_attempts.sql"),
        include_str!("sql/rescue_history.sql"),
        include_str!("sql/rescue_dead.sql"),
        include_str!("sql/rescue_delete.sql"),
        include_str!("sql/rescue_ready.sql"),
    ];
    const OVER: &'static str = include_str!("sql/over.sql");
    const PURGE: Script = &[
        (For::Runs, include_str!("sql/purge_history_runs.sql")),
        (For::Scattered, include_str!("sql/purge_history.sql")),
        (For::Runs, include_str!("sql/purge_attempts_runs.sql")),
        (For::Scattered, include_str!("sql/purge_attempts.sql")),
    ];
    const PURGE_WORKERS: &'static str = include_str!("sql/purge_workers.sql");

    fn named(options: &MySqlConnectOptions) -> MySqlConnectOptions {
        options.clone()
    }

    fn finish_list(batch: &[Finish]) -> List {
        let row = |it: &'_ Finish| (it.id, it.fence, it.ran_us, it.state, it.result.clone(), it.error.clone());
        json(&batch.iter().map(row).collect::<Vec<_>>()).into()
    }

    fn prepare(sql: &'static str, binds: &[Bind<'_>]) -> Result<(Cow<'static, str>, Self::Arguments), Error> {
        let (sql, places) = question_marks(sql);
        Ok((Cow::Owned(sql), add_binds!(Self, places.iter().map(|place| &binds[*place]), json)))
    }

    driver!();

    async fn insert_row(
        conn: &mut MySqlConnection,
        sql: Cow<'static, str>,
        arguments: Self::Arguments,
    ) -> Result<i64, Error> {
        let done = sqlx::query_with(AssertSqlSafe(sql), arguments).execute(conn).await?;
        Ok(done.last_insert_id().cast_signed())
    }

    async fn savepoint(conn: &mut MySqlConnection) -> Result<bool, Error> {
        Self::raw(conn, SAVEPOINT).await?;
        if conn.is_in_transaction() {
            return Ok(true);
        }
        // without a transaction there is none now; one may have been begun by SQL, or by `autocommit = 0`
        match Self::raw(conn, RELEASE).await {
            Ok(()) => Self::raw(conn, SAVEPOINT).await.map(|()| true),
            Err(Error::Database(error))
                if error.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|e| e.number() == 1305) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn is_transient(error: &Error) -> bool {
        let Error::Database(error) = error else { return false };
        // deadlock, lock wait timeout, MariaDB: the record has changed since the last read
        error.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|e| matches!(e.number(), 1213 | 1205 | 1020))
    }

    fn is_missing_table(error: &Error) -> bool {
        let Error::Database(error) = error else { return false };
        error.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|e| e.number() == 1146)
    }

    fn warn_of_options(_pool: &Pool<Self>) {}

    fn poll_interval(idle: Duration) -> Duration {
        without_signals(idle)
    }

    async fn lanes(
        conn: &mut MySqlConnection,
        kinds: &[String],
        behind_these: &[Lane],
        most: usize,
    ) -> Result<Seen, Error> {
        let begins = |kind: &&str| behind_these.iter().all(|lane| *lane.kind != **kind);
        let mut look = Look {
            unseen: kinds.iter().map(String::as_str).filter(begins).collect(),
            cut: behind_these.iter().cloned().map(behind).collect(),
            more_rows: MORE_ROWS,
            lanes: Vec::new(),
            round_trips: 0,
        };
        for _ in 0..STEPS {
            if !look.step(conn, kinds.len(), most).await? || look.lanes.len() >= most {
                break;
            }
        }
        // For this many lanes, the optimizer's own skip scan is cheaper than more steps.
        let mut rest = std::mem::take(&mut look.cut);
        let begin = |kind: &&str| behind(Lane { kind: (*kind).into(), queue: "".into(), priority: 0 });
        rest.extend(look.unseen.iter().map(begin));
        for some in rest.chunks(AT_ONCE) {
            match most.saturating_sub(look.lanes.len()) {
                0 => look.cut.extend_from_slice(some),
                more => look.many_behind(conn, some, more.div_ceil(some.len()) as i64).await?,
            }
        }
        let stopped = look.cut.into_iter().map(|ask| ask.lane).collect();
        Ok(Seen { heads: look.lanes, stopped, round_trips: look.round_trips })
    }

    async fn peek(conn: &mut MySqlConnection, asks: &[Ask], reach: Reach) -> Result<Vec<Share>, Error> {
        let outer = reach.numbers().map(Bind::from);
        let union = united(include_str!("sql/peek_many.sql"), &outer, PARTS, asks, |ask, wanted| {
            peek_one(ask, if wanted { reach.most.into() } else { 0 }, reach.end_in(&ask.lane))
        });
        let rows = fetch(conn, union.sql, &union.binds).await?;
        shares(asks, &rows, |part| ask_of(&union.asks, part))
    }

    async fn claim(conn: &mut MySqlConnection, worker: WorkerId, asks: &[Ask]) -> Result<Vec<Claimed>, Error> {
        if let [ask] = asks {
            return claim_lane(conn, worker, ask, None).await;
        }
        let asks = starts(conn, asks).await?;
        let asks = allowed(conn, worker, &asks).await?;
        if asks.is_empty() {
            return Ok(Vec::new());
        }
        let locked = lock(conn, worker, &asks).await;
        take(conn, worker, &asks, locked).await
    }

    async fn insert(conn: &mut MySqlConnection, jobs: &[NewJob], whose: Whose) -> Result<Vec<i64>, Error> {
        match insert(conn, jobs, whose).await {
            Err(Refused::NotCommitted) => {
                // a session whose statements do not commit by themselves
                Self::raw(conn, settings::BEGIN).await?;
                let written = insert(conn, jobs, Whose::Callers).await;
                let end = if written.is_ok() { settings::COMMIT } else { settings::ROLLBACK };
                Self::raw(conn, end).await?;
                written.map_err(Refused::into_error)
            }
            result => result.map_err(Refused::into_error),
        }
    }

    async fn unusable(_pool: &Pool<Self>, conn: &mut MySqlConnection) -> Result<Option<String>, Error> {
        let refuses = !rows::<Self>(conn, settings::REFUSED_BY_LOG, &[]).await?.is_empty();
        Ok(refuses.then(|| settings::LOG_CURE.to_owned()))
    }

    async fn open_beside(_pool: &Pool<Self>) -> Result<Option<Beside<Self>>, Error> {
        Ok(None)
    }

    async fn watch(
        _pool: &Pool<Self>,
        _housekeeping: &Housekeeping,
        _wake: &(dyn Fn() + Send + Sync),
    ) -> Result<(), Error> {
        std::future::pending().await
    }
}

async fn fetch(conn: &mut MySqlConnection, sql: String, binds: &[Bind<'_>]) -> Result<Vec<MySqlRow>, Error> {
    MySql::fetch(conn, sql.into(), add_binds!(MySql, binds, json)).await
}

/// A statement with `?, ?, ?`, for so many kinds.
fn of_kinds(sql: &str, count: usize) -> String {
    sql.replace("/* kinds */", &vec!["?"; count].join(", "))
}

/// Why jobs were not written.
enum Refused {
    /// Nothing would commit them.
    NotCommitted,
    Error(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Refused {
    fn into_error(self) -> Error {
        match self {
            Self::Error(error) => error,
            Self::NotCommitted => Error::Protocol("the session does not commit".into()),
        }
    }
}

/// Writes nothing in a session that would change or lose it.
async fn insert(conn: &mut MySqlConnection, jobs: &[NewJob], whose: Whose) -> Result<Vec<i64>, Refused> {
    if let [job] = jobs {
        let binds = job.binds();
        let sql = match (job.is_due_now(), whose) {
            (true, Whose::Pools) => include_str!("sql/insert_one.sql"),
            (true, Whose::Callers) => include_str!("sql/insert_one_part.sql"),
            (false, Whose::Pools) => include_str!("sql/insert_one_later.sql"),
            (false, Whose::Callers) => include_str!("sql/insert_one_later_part.sql"),
        };
        let (sql, arguments) = MySql::prepare(sql, &binds)?;
        return match MySql::insert_row(conn, sql, arguments).await {
            Ok(id) => Ok(vec![id]),
            // "the column cannot be NULL": the statement says so of such a session
            Err(Error::Database(error))
                if error.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|e| e.number() == 1048) =>
            {
                step(conn, whose).await?;
                Err(Refused::Error(Error::Database(error)))
            }
            Err(error) => Err(error.into()),
        };
    }
    let step = step(conn, whose).await?;
    if fitting(jobs, chunk_of(jobs.len()), CHUNK_BYTES) == jobs.len() {
        let first = insert_chunk(conn, jobs).await?;
        return Ok((0..jobs.len() as i64).map(|n| first + n * step).collect());
    }
    let mut together = Together::<MySql>::begin(conn, whose).await?;
    let ids = insert_chunks(together.connection(), jobs, step).await;
    Ok(together.end(ids).await?)
}

/// Numbers of one statement are consecutive; clusters give every n-th. Refuses a session in which jobs are not to be
/// written.
async fn step(conn: &mut MySqlConnection, whose: Whose) -> Result<i64, Refused> {
    let rows = rows::<MySql>(conn, settings::SESSION, &[]).await?;
    // with `sql_select_limit = 0` there is none
    let Some(row) = rows.first() else { return Err(Error::Configuration(settings::NOT_TO_READ.into()).into()) };
    if row.int(1)? == 0 {
        return Err(Error::Configuration(settings::NOT_TO_WRITE.into()).into());
    }
    if whose == Whose::Pools && row.int(2)? == 0 {
        return Err(Refused::NotCommitted);
    }
    Ok(row.int(0)?)
}

async fn insert_chunks(conn: &mut MySqlConnection, jobs: &[NewJob], step: i64) -> Result<Vec<i64>, Error> {
    let mut all = Vec::with_capacity(jobs.len());
    let mut rest = jobs;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(fitting(rest, chunk_of(rest.len()), CHUNK_BYTES));
        let first = insert_chunk(conn, chunk).await?;
        all.extend((0..chunk.len() as i64).map(|n| first + n * step));
        rest = later;
    }
    Ok(all)
}

/// How many of `jobs` rows go into one statement: one of few sizes.
fn chunk_of(jobs: usize) -> usize {
    [CHUNK, 512, 256, 128, 64, 32].into_iter().find(|size| *size <= jobs).unwrap_or(jobs)
}

async fn insert_chunk(conn: &mut MySqlConnection, jobs: &[NewJob]) -> Result<i64, Error> {
    // a value that is the column's default need not be sent once a row
    let plain = jobs.iter().all(|job| job.queue == "default" && job.priority == 0 && job.is_due_now());
    let later = jobs.iter().any(|job| !job.is_due_now());
    let (columns, row) = if plain {
        ("kind, max_retries, args", "(?, ?, ?)")
    } else if later {
        (
            "kind, max_retries, args, queue, priority, run_at",
            "(?, ?, ?, ?, ?, COALESCE(TIMESTAMP('1970-01-01') + INTERVAL ? MICROSECOND, \
             UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, UTC_TIMESTAMP(6)))",
        )
    } else {
        ("kind, max_retries, args, queue, priority", "(?, ?, ?, ?, ?)")
    };
    let mut sql = format!("INSERT INTO queue_jobs ({columns}) VALUES ");
    let mut arguments = MySqlArguments::default();
    for (number, job) in jobs.iter().enumerate() {
        sql.push_str(if number == 0 { "" } else { ", " });
        sql.push_str(row);
        let mut add = || {
            arguments.add(job.kind)?;
            arguments.add(job.max_retries)?;
            arguments.add(job.args.as_str())?;
            if !plain {
                arguments.add(&*job.queue)?;
                arguments.add(job.priority)?;
            }
            if later {
                arguments.add(job.run_at_us)?;
                arguments.add(job.delay_us)?;
            }
            Ok(())
        };
        add().map_err(Error::Encode)?;
    }
    // Worth keeping prepared: the sizes are few. And a statement that is not kept is closed without an answer, after which
    // the next one may wait 40 ms for the network's delayed acknowledgement.
    let kept = jobs.len() == chunk_of(jobs.len());
    let query = sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(kept);
    Ok(query.execute(conn).await?.last_insert_id().cast_signed())
}
