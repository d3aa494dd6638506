//! Rows, read as what they stand for.

use std::time::Duration;

use super::dialect::Cells;
use super::{Ask, Claimed, Lane, LaneHead, Place};
use crate::job::JobId;

/// A whole number of another width; a row that has it otherwise is not ours.
pub(crate) fn number<T: TryFrom<i64>>(value: i64) -> Result<T, sqlx::Error> {
    T::try_from(value).map_err(|_| sqlx::Error::Decode(format!("{value} is out of range").into()))
}

/// The nearest number that fits. The row is claimed by now: it has to be run or set aside, whatever somebody wrote there.
fn nearest(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

/// Reads `id, lease, attempt, max_retries, run_at, enqueued_at, size of args, args` (NULL: too large).
pub(crate) fn claimed(row: &impl Cells, lane: Lane) -> Result<Claimed, sqlx::Error> {
    Ok(Claimed {
        id: JobId::from(row.int(0)?),
        lease: number(row.int(1)?)?,
        attempt: nearest(row.int(2)?),
        max_retries: nearest(row.int(3)?),
        lane,
        run_at: row.int(4)?,
        enqueued_at: chrono::DateTime::from_timestamp_micros(row.int(5)?).unwrap_or_default(),
        args: row.maybe_text(7)?.ok_or(row.int(6)?),
    })
}

/// Reads `kind, queue, priority, run_at, now`.
pub(crate) fn lane_head(row: &impl Cells) -> Result<LaneHead, sqlx::Error> {
    // a time that the engine itself cannot read (MySQL's zero date) counts as due
    let run_at = row.maybe_int(3)?.unwrap_or(0);
    let due_in = run_at.saturating_sub(row.int(4)?).max(0).unsigned_abs();
    Ok(LaneHead {
        lane: Lane { kind: row.text(0)?.into(), queue: row.text(1)?.into(), priority: number(row.int(2)?)? },
        run_at,
        due_in: Duration::from_micros(due_in),
    })
}

/// Of the places of the next jobs of each ask, how many of the first `limit` in order (priority, due time, id) are whose.
#[cfg_attr(not(any(feature = "mysql", feature = "sqlite")), allow(dead_code, reason = "PostgreSQL counts by itself"))]
pub(crate) fn merge(asks: &[Ask], places: Vec<Vec<Place>>, limit: u32) -> Vec<u32> {
    let mut all: Vec<(i16, i64, i64, usize)> = Vec::new();
    for (number, (ask, places)) in asks.iter().zip(places).enumerate() {
        let time = |run_at: i64| if ask.newest_first { run_at.saturating_neg() } else { run_at };
        all.extend(places.into_iter().map(|(run_at, id)| (ask.lane.priority, time(run_at), id, number)));
    }
    all.sort_unstable();
    let mut counts = vec![0; asks.len()];
    for (.., number) in all.into_iter().take(limit as usize) {
        counts[number] += 1;
    }
    counts
}
