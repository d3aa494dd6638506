//! Rows of schedules and of their ticks.

use serde::Serialize;

use crate::schedule::definition::Definition;
use crate::schedule::plan::ScheduleRow;
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{self, Cells};
use crate::store::engine::statement::read::{number, time};

/// A row of `queue_ticks`.
#[derive(Serialize)]
pub(super) struct Tick<'a> {
    pub(super) id: i64,
    pub(super) tick_us: i64,
    pub(super) job_id: Option<i64>,
    pub(super) outcome: &'static str,
    pub(super) skipped: i32,
    pub(super) note: Option<&'a str>,
}

/// The change of a schedule.
#[derive(Serialize)]
pub(super) struct Moved<'a> {
    pub(super) id: i64,
    pub(super) next_us: Option<i64>,
    pub(super) last_us: Option<i64>,
    pub(super) job_id: Option<i64>,
    pub(super) error: Option<&'a str>,
}

/// Reads schedules by id, each with whether a live worker knows its kind.
pub(super) async fn read<DB: Dialect>(
    conn: &mut DB::Connection,
    ids: &[i64],
    ahead: i64,
) -> Result<Vec<(ScheduleRow, bool)>, sqlx::Error> {
    let binds = [ids.into(), ahead.into()];
    driver::read::<DB, _>(conn, DB::SCHEDULES.rows, &binds, |found| Ok((row(found)?, found.int(25)? != 0))).await
}

pub(super) fn row(row: &impl Cells) -> Result<ScheduleRow, sqlx::Error> {
    Ok(ScheduleRow {
        id: row.int(0)?,
        app: row.text(2)?,
        definition: Definition {
            name: row.text(1)?,
            kind: row.text(3)?,
            queue: row.text(4)?,
            args: row.text(5)?,
            priority: number(row.int(6)?)?,
            max_retries: row.maybe_int(7)?.map(number).transpose()?,
            expression: row.text(8)?,
            zone: row.text(9)?,
            gap: row.maybe_text(10)?,
            fold: row.maybe_text(11)?,
            missed: row.text(12)?,
            window_s: row.maybe_int(13)?,
            overlap: row.text(14)?,
            jitter_ms: row.int(15)?,
        },
        changed_at: time(row, 16)?,
        paused_at: row.maybe_int(17)?,
        retired_at: row.maybe_int(18)?,
        next_at: row.maybe_int(19)?,
        last_at: row.maybe_int(20)?,
        last_job_id: row.maybe_int(21)?,
        error: row.maybe_text(22)?,
        now: row.int(23)?,
        busy: row.maybe_int(24)?,
    })
}
