//! Writes, removes and reads tallies.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::error::Error;
use crate::failures::Hour;
use crate::limits::micros;
use crate::store::engine::connection::{SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Bind, Cells, json};
use crate::store::engine::statement::read::{at, date};
use crate::store::values::{FailureRow, TallyRow};
use crate::throughput::{Tally, TallyOutcome, Throughput};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
/// How many seconds the rows of each span are kept.
const KEPT: [(i64, i64); 2] = [(MINUTE, 3 * HOUR), (HOUR, 35 * 24 * HOUR)];
/// How many seconds the rows of failures are kept.
const FAILURES_KEPT: i64 = 14 * 24 * HOUR;
const SECOND_US: i64 = 1_000_000;

/// How many rows one statement removes, how many such statements one round has, and how many rows are read.
const BATCH: i64 = 1_000;
const BATCHES: usize = 20;
const MOST: i64 = 50_000;

pub(crate) async fn add<DB: Dialect>(
    store: &SqlStore<DB>,
    rows: &[TallyRow],
    failures: &[FailureRow],
) -> Result<(), Error> {
    let (doing, list) = ("cannot write tallies", json(rows));
    if !failures.is_empty() {
        let list = json(failures);
        store.write(Via::Duties, doing, DB::TALLIES.add_failures, &[list.as_str().into()]).await?;
    }
    store.write(Via::Duties, doing, DB::TALLIES.add, &[list.as_str().into()]).await.map(drop)
}

pub(crate) async fn purge<DB: Dialect>(store: &SqlStore<DB>) -> Result<(), Error> {
    for (span, keep) in KEPT {
        purge_by(store, DB::TALLIES.purge, &[span.into(), (keep * SECOND_US).into(), BATCH.into()]).await?;
    }
    purge_by(store, DB::TALLIES.purge_failures, &[(FAILURES_KEPT * SECOND_US).into(), BATCH.into()]).await
}

async fn purge_by<DB: Dialect>(store: &SqlStore<DB>, sql: &'static str, binds: &[Bind<'_>]) -> Result<(), Error> {
    for _ in 0..BATCHES {
        let removed = store.write(Via::Duties, "cannot remove old tallies", sql, binds).await?;
        if removed < BATCH.cast_unsigned() {
            break;
        }
    }
    Ok(())
}

/// In which hours failures of these groups occurred, by group and time, and the time now.
pub(crate) async fn failures<DB: Dialect>(
    store: &SqlStore<DB>,
    groups: &[&str],
) -> Result<Vec<(String, DateTime<Utc>, Hour)>, Error> {
    let list = json(groups);
    let read = |row: &DB::Row| {
        let attempts = row.int(4)?.max(0).cast_unsigned();
        Ok((row.text(0)?, at(row, 1)?, Hour { first: at(row, 2)?, last: at(row, 3)?, attempts }))
    };
    let doing = "cannot read when failures occurred";
    store.read(Via::Pool, doing, DB::TALLIES.failures, &[list.as_str().into()], read).await
}

/// Minutes if they are kept for this time, else hours.
pub(crate) async fn read<DB: Dialect>(store: &SqlStore<DB>, since: Duration) -> Result<Throughput, Error> {
    let [(minute, kept), (hour, _)] = KEPT;
    let span = if micros(since) <= kept * SECOND_US { minute } else { hour };
    // the first one may have begun before
    let binds = [span.into(), micros(since).saturating_add(span * SECOND_US).into(), (MOST + 1).into()];
    let (mut open_since, mut tallies) = (0, Vec::new());
    let rows = store.read(Via::Pool, "cannot read tallies", DB::TALLIES.read, &binds, |row| {
        let Some(began) = row.maybe_int(1)? else { return Ok((row.int(0)?, None)) };
        let outcome = row.text(4)?;
        // a later version may count more
        let Some(outcome) = TallyOutcome::ALL.into_iter().find(|known| known.as_str() == outcome) else {
            return Ok((row.int(0)?, None));
        };
        let number = |column| row.int(column).map(|number| number.max(0).cast_unsigned());
        let tally = Tally {
            began_at: date(began),
            queue: row.text(2)?,
            kind: row.text(3)?,
            outcome,
            attempts: number(5)?,
            total: Duration::from_micros(number(6)?),
            longest: Duration::from_micros(number(7)?),
        };
        Ok((row.int(0)?, Some(tally)))
    });
    let rows = rows.await?;
    let complete = rows.len() as i64 <= MOST;
    for (now, tally) in rows.into_iter().take(MOST as usize) {
        open_since = now - now.rem_euclid(span * SECOND_US);
        tallies.extend(tally);
    }
    // not in SQL: each engine has its own collation
    tallies.sort_by(|a: &Tally, b: &Tally| {
        (a.began_at, &a.queue, &a.kind, a.outcome).cmp(&(b.began_at, &b.queue, &b.kind, b.outcome))
    });
    Ok(Throughput { span: Duration::from_secs(span.cast_unsigned()), open_since: date(open_since), tallies, complete })
}
