//! Reads rows into values.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::limits::{END_OF_9999, YEAR_1};
use crate::metadata::Metadata;
use crate::state::JobId;
use crate::store::engine::dialect::Seen;
use crate::store::engine::driver::{Cells, Driver, json, rows};
use crate::store::values::{Ask, Claimed, Lane, LaneHead, Share};

/// A whole number of another width. Anything else was not written by us.
pub(crate) fn number<T: TryFrom<i64>>(value: i64) -> Result<T, sqlx::Error> {
    T::try_from(value).map_err(|_| sqlx::Error::Decode(format!("{value} is out of range").into()))
}

/// Reads a list from one JSON text. NULL is an empty list.
pub(crate) fn list<T: serde::de::DeserializeOwned>(row: &impl Cells, column: usize) -> Result<Vec<T>, sqlx::Error> {
    let Some(text) = row.maybe_text(column)? else { return Ok(Vec::new()) };
    serde_json::from_str(&text).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// The nearest number that fits. The row is already claimed, so it must be run or buried, whatever somebody wrote
/// there.
fn nearest(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

/// A time, in microseconds since 1970. 0: the engine itself cannot read it (MySQL's zero date).
pub(crate) fn time(row: &impl Cells, column: usize) -> Result<i64, sqlx::Error> {
    Ok(row.maybe_int(column)?.unwrap_or(0))
}

/// The same as a date. A time that cannot be read is 1970.
pub(crate) fn at(row: &impl Cells, column: usize) -> Result<DateTime<Utc>, sqlx::Error> {
    time(row, column).map(date)
}

/// A time of the database, within the years 1 to 9999.
pub(crate) fn date(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros.clamp(YEAR_1, END_OF_9999)).unwrap_or(DateTime::UNIX_EPOCH)
}

/// Reads `id, fence, attempt, max_retries, run_at, enqueued_at, size of args, args, losses, metadata`. `args` is NULL if it is
/// too large; otherwise the size may be NULL.
pub(crate) fn claimed(row: &impl Cells, lane: Lane) -> Result<Claimed, sqlx::Error> {
    Ok(Claimed {
        id: JobId::from(row.int(0)?),
        fence: number(row.int(1)?)?,
        attempt: nearest(row.int(2)?),
        max_retries: nearest(row.int(3)?),
        lane,
        run_at: time(row, 4)?,
        enqueued_at: chrono::DateTime::from_timestamp_micros(time(row, 5)?).unwrap_or_default(),
        args: match row.maybe_text(7)? {
            Some(args) => Ok(args),
            None => Err(row.int(6)?),
        },
        losses: nearest(row.int(8)?),
        meta: row.maybe_text(9)?.map_or(Ok(Metadata::default()), |text| Metadata::read(&text)),
        claim: None,
    })
}

/// Reads `kind, queue, priority, run_at, now, id`.
pub(crate) fn lane_head(row: &impl Cells) -> Result<LaneHead, sqlx::Error> {
    let run_at = time(row, 3)?;
    let due_in = run_at.saturating_sub(row.int(4)?).max(0).unsigned_abs();
    Ok(LaneHead {
        lane: Lane { kind: row.text(0)?.into(), queue: row.text(1)?.into(), priority: number(row.int(2)?)? },
        first: (run_at, row.int(5)?),
        due_in: Duration::from_micros(due_in),
    })
}

/// Where discovery starts, for a statement that advances one lane at a time in each kind.
#[derive(serde::Serialize)]
struct Begin<'a> {
    kind: &'a str,
    queue: &'a str,
    priority: i16,
}

/// Discovers lanes by such a statement. Its rows: the columns of [`lane_head`], and whether the lane is left out (its
/// queue is paused).
pub(crate) async fn discover<DB: Driver>(
    conn: &mut DB::Connection,
    sql: &'static str,
    kinds: &[String],
    behind: &[Lane],
    most: usize,
) -> Result<Seen, sqlx::Error> {
    let begins = kinds.iter().map(|kind| {
        let lane = behind.iter().find(|lane| *lane.kind == **kind);
        // no queue has the empty name, which stands for the beginning
        let (queue, priority) = lane.map_or(("", 0), |lane| (&*lane.queue, lane.priority));
        Begin { kind, queue, priority }
    });
    let begins = json(&begins.collect::<Vec<_>>());
    let rows = rows::<DB>(conn, sql, &[begins.as_str().into(), (most as i64).into()]).await?;
    let mut seen = Seen { round_trips: 1, ..Seen::default() };
    seen.now = rows.first().map(|row| row.int(4)).transpose()?;
    let mut last: HashMap<Arc<str>, (usize, Lane)> = HashMap::new();
    for row in &rows {
        let head = lane_head(row)?;
        let (count, lane) = last.entry(head.lane.kind.clone()).or_insert_with(|| (0, head.lane.clone()));
        (*count, *lane) = (*count + 1, head.lane.clone());
        if row.int(6)? == 0 {
            seen.heads.push(head);
        }
    }
    // the end of a kind may count as a lane
    if rows.len() + kinds.len() > most {
        // a kind with at least two lanes fewer than the deepest one has no more
        let deepest = last.values().map(|(count, _)| *count).max().unwrap_or(0);
        seen.stopped = last.into_values().filter(|(count, _)| count + 1 >= deepest).map(|(_, lane)| lane).collect();
    }
    Ok(seen)
}

/// Reads rows of `ask, count, sure, all, first and last time, lowest and highest id` into one share for each ask. `ask`
/// maps the number in a row to its ask.
pub(crate) fn shares<R: Cells>(
    asks: &[Ask],
    rows: &[R],
    ask: impl Fn(i64) -> Result<usize, sqlx::Error>,
) -> Result<Vec<Share>, sqlx::Error> {
    let mut shares = vec![Share::default(); asks.len()];
    for row in rows {
        let (first, last) = (time(row, 4)?, time(row, 5)?);
        // if both times are equal, the last one has the highest id; otherwise its id is not known
        let last = (last, if first == last { row.int(7)? } else { i64::MIN });
        let ends = Some(((first, row.int(6)?), last));
        let [count, sure, all] = [row.int(1)?, row.int(2)?, row.int(3)?];
        let share = Share { count: number(count)?, sure: number(sure)?, all: number(all)?, ends };
        shares[ask(row.int(0)?)?] = share;
    }
    Ok(shares)
}

/// The lane of a claimed row, from its columns 11 to 13. It shares the names of the asks, so that a batch of jobs does
/// not copy them.
pub(crate) fn lane_of(row: &impl Cells, asks: &[Ask]) -> Result<Lane, sqlx::Error> {
    let (kind, queue, priority) = (row.text(10)?, row.text(11)?, number(row.int(12)?)?);
    let mut known = asks.iter().map(|ask| &ask.lane);
    match known.find(|lane| lane.priority == priority && *lane.kind == *kind && *lane.queue == *queue) {
        Some(lane) => Ok(lane.clone()),
        None => Ok(Lane { kind: kind.into(), queue: queue.into(), priority }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sqlx::Error;

    use super::*;

    /// A cell of any type that somebody may have written.
    #[derive(Debug, Clone)]
    enum Cell {
        Null,
        Int(i64),
        Text(String),
    }

    struct Row(Vec<Cell>);

    impl Cells for Row {
        fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error> {
            match self.0.get(column) {
                Some(Cell::Null) => Ok(None),
                Some(Cell::Int(value)) => Ok(Some(*value)),
                _ => Err(Error::Decode("no number".into())),
            }
        }

        fn maybe_text(&self, column: usize) -> Result<Option<String>, Error> {
            match self.0.get(column) {
                Some(Cell::Null) => Ok(None),
                Some(Cell::Text(value)) => Ok(Some(value.clone())),
                _ => Err(Error::Decode("no text".into())),
            }
        }
    }

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0), -5..5i64, any::<i64>(), any::<i32>().prop_map(i64::from)]
    }

    fn cell() -> impl Strategy<Value = Cell> {
        prop_oneof![Just(Cell::Null), number().prop_map(Cell::Int), any::<String>().prop_map(Cell::Text)]
    }

    fn lane(priority: i16) -> Lane {
        Lane { kind: "k".into(), queue: "q".into(), priority }
    }

    proptest! {
        #[test]
        fn any_row_is_read_or_refused(cells in prop::collection::vec(cell(), 0..12)) {
            let row = Row(cells);
            let _ = claimed(&row, lane(0));
            let _ = lane_head(&row);
        }

        /// A row of the right types is always read, whatever its numbers: it is already claimed.
        #[test]
        fn any_claimed_row_is_read(
            numbers in prop::array::uniform7(number()),
            fence in any::<i32>(),
            args in any::<Option<String>>(),
            meta in any::<Option<String>>(),
        ) {
            let [id, attempt, max_retries, run_at, enqueued_at, size, losses] = numbers;
            let mut cells: Vec<_> = [id, fence.into(), attempt, max_retries, run_at, enqueued_at, size]
                .into_iter()
                .map(Cell::Int)
                .collect();
            cells.push(args.clone().map_or(Cell::Null, Cell::Text));
            cells.push(Cell::Int(losses));
            cells.push(meta.map_or(Cell::Null, Cell::Text));
            let job = claimed(&Row(cells), lane(0)).unwrap();
            prop_assert_eq!((job.id.get(), job.fence, job.run_at, job.args), (id, fence, run_at, args.ok_or(size)));
        }

        #[test]
        fn any_lane_is_read(
            run_at in prop::option::of(number()),
            now in number(),
            priority in any::<i16>(),
            id in number(),
        ) {
            let text = |text: &str| Cell::Text(text.to_owned());
            let time = run_at.map_or(Cell::Null, Cell::Int);
            let row = Row(vec![text("k"), text("q"), Cell::Int(priority.into()), time, Cell::Int(now), Cell::Int(id)]);
            let head = lane_head(&row).unwrap();
            prop_assert_eq!((head.lane, head.first), (lane(priority), (run_at.unwrap_or(0), id)));
            prop_assert_eq!(head.due_in.is_zero(), run_at.unwrap_or(0) <= now);
        }
    }
}
