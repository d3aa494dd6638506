//! Discovery on MySQL and MariaDB: a walk from lane to lane, in a few steps.

use std::collections::HashMap;

use sqlx::{Error, MySql, MySqlConnection};

use crate::store::engine::dialect::Seen;
use crate::store::engine::driver::{Bind, Cells, add_binds, assembled, json, question_marks};
use crate::store::engine::statement::read::lane_head;
use crate::store::engine::statement::sql;
use crate::store::engine::statement::{LANES, lane_binds, united};
use crate::store::values::{Ask, Lane, LaneHead};

use crate::store::mysql::statement::{PARTS, fetch, with_places};

/// Rows that one step reads of the kinds not seen yet.
const FIRST_ROWS: i64 = 32;

/// Rows that one step reads at least behind each lane at which it was cut off …
const MORE_ROWS: i64 = 16;

/// … and at most, if most rows are lanes of their own.
const MOST_ROWS: i64 = 2_048;

/// The number of the part that reads the kinds not seen yet.
const REST: i64 = -1;

/// One step continues behind this many lanes at most …
const AT_ONCE: usize = 32;

/// … and a discovery has this many steps at most, whatever producers make of queues and priorities.
const STEPS: usize = 32;

/// A discovery in progress.
struct Look<'a> {
    /// Kinds without any lane found yet.
    unseen: Vec<&'a str>,
    /// The last lanes of the parts that were cut off. More lanes of their kind may come behind them.
    cut: Vec<Ask>,
    /// How many rows to read behind each.
    more_rows: i64,
    lanes: Vec<LaneHead>,
    round_trips: u32,
    /// The database's time at the first step, if that found something.
    now: Option<i64>,
}

impl Look<'_> {
    /// Reads the next rows behind the lanes in `cut`, and of the unseen kinds. Returns whether there is more.
    async fn step(&mut self, conn: &mut MySqlConnection, kinds: usize, most: usize) -> Result<bool, Error> {
        let (rest, _limit) = question_marks(sql!("mysql", "claims", "discover_rest"));
        let rest = with_places(&rest, kinds);
        // padded with the empty name, which no kind has, so that the statement is the same every time
        let names = self.unseen.iter().copied().chain(std::iter::repeat("")).take(kinds);
        let mut binds: Vec<Bind<'_>> = names.map(Bind::from).collect();
        binds.push(FIRST_ROWS.into());
        let step = self.cut.split_off(self.cut.len().saturating_sub(AT_ONCE));
        let more_rows = self.more_rows.min((most / step.len().max(1)) as i64).max(MORE_ROWS);
        let union = united(LANES, &[], PARTS, &step, |ask, wanted| {
            let [kind, queue, priority] = lane_binds(ask);
            let limit = if wanted { more_rows } else { 0 };
            (sql!("mysql", "claims", "discover_behind"), vec![kind, queue, priority, limit.into()])
        });
        binds.extend(&union.binds);
        let glue = if step.is_empty() { "" } else { " UNION ALL " };
        let (around, _none) = question_marks(sql!("mysql", "claims", "discover"));
        let sql = around.replace(LANES, &["(", rest.trim_end(), ")", glue, &union.sql].concat());
        let rows = fetch(conn, sql, &binds).await?;
        self.round_trips += 1;
        self.now = match (self.now, rows.first()) {
            (None, Some(row)) if self.round_trips == 1 => Some(row.int(4)?),
            (known, _) => known,
        };

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

    /// Reads the lanes behind these, up to `most` for each.
    async fn many_behind(&mut self, conn: &mut MySqlConnection, cut: &[Ask], most: i64) -> Result<(), Error> {
        let (head, _none) = question_marks(sql!("mysql", "claims", "discover_all"));
        let union = united(LANES, &[], PARTS, cut, |ask, wanted| {
            let [kind, queue, priority] = lane_binds(ask);
            let limit = if wanted { most } else { 0 };
            (sql!("mysql", "claims", "discover_all_behind"), vec![kind, queue, priority, limit.into()])
        });
        let sql = head.replace(LANES, &union.sql);
        // Not kept prepared: MariaDB would not choose the skip scan the second time.
        let all = sqlx::query_with(assembled(sql), add_binds!(MySql, &union.binds, json)).persistent(false);
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

/// Where discovery continues.
fn behind(lane: Lane) -> Ask {
    Ask { lane, take: 0, behind: None, first: None, newest_first: false, max_retries: 0 }
}

/// The lanes that have rows of these kinds.
pub(super) async fn discover(
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
        now: None,
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
    Ok(Seen { heads: look.lanes, stopped, round_trips: look.round_trips, now: look.now })
}
