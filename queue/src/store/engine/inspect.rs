//! What the administration reads: a single statement, or several whose order makes them agree.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::FutureExt;

use crate::error::{Doing as _, Error};
use crate::failures::{CHARS, Counted, Failures};
use crate::gauges::{Count, Gauges};
use crate::limits::{END_OF_9999, YEAR_1};
use crate::state::{JobId, JobState};
use crate::store::AdminReads;
use crate::store::engine::connection::{COUNT_LIMIT, Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Bind, Cells, read, rows};
use crate::store::engine::{gauges, tallies};
use crate::store::view::{Among, Attempt, Filter, JobDetail, JobRow, Page, Stat, WorkerInfo};
use crate::throughput::Throughput;
use crate::why::Facts;

#[async_trait]
impl<DB: Dialect> AdminReads for SqlStore<DB> {
    async fn stats(&self) -> Result<Vec<Stat>, Error> {
        let doing = "cannot count the jobs";
        let mut stats = self.read_within(COUNT_LIMIT, Via::Pool, doing, DB::ADMIN.stats, &[], read_stat).await?;
        // not in SQL: each engine has its own collation
        stats.sort_by(|a, b| (&a.kind, &a.queue, a.state).cmp(&(&b.kind, &b.queue, b.state)));
        Ok(stats)
    }

    async fn gauges(&self) -> Result<Gauges, Error> {
        self.run(Via::Pool, Mode::Read, "cannot read the gauges", (), |conn, ()| gauges::read::<DB>(conn).boxed()).await
    }

    async fn jobs(&self, filter: &Filter) -> Result<Page<JobRow>, Error> {
        // a page of rare jobs may read many rows
        self.run_within(COUNT_LIMIT, Via::Pool, Mode::Read, "cannot list jobs", filter.clone(), |conn, filter| {
            page::<DB>(conn, filter).boxed()
        })
        .await
    }

    async fn job(&self, id: JobId) -> Result<Option<JobDetail>, Error> {
        const DOING: &str = "cannot read a job";
        let found = self.run(Via::Pool, Mode::Read, DOING, id, |conn, id| detail::<DB>(conn, *id).boxed()).await?;
        let Some(mut job) = found else { return Ok(None) };
        let key = self.read(Via::Pool, DOING, DB::UNIQUE.key_of, &[id.get().into()], |row| row.text(0)).await;
        job.unique_key = match key {
            // an account from before there were keys
            Err(error) if error.is_a_missing_right() => None,
            key => key?.pop(),
        };
        Ok(Some(job))
    }

    async fn failures(&self) -> Result<Failures, Error> {
        /// How many dead letters are looked at, and how many attempts.
        const MOST: i64 = 10_000;
        let doing = "cannot group the failures";
        let (mut counted, mut is_complete) = (Vec::new(), [true; 2]);
        for (is_dead, sql) in [(true, DB::ADMIN.failures_dead), (false, DB::ADMIN.failures_retrying)] {
            let binds = [MOST.into(), (CHARS as i64).into()];
            let rows = self.read(Via::Pool, doing, sql, &binds, |row| {
                let jobs = row.int(2)?;
                let Some(kind) = row.maybe_text(0)? else { return Ok(Err(jobs)) };
                let (error, first, last) = (row.maybe_text(1)?.unwrap_or_default(), at(row, 3)?, at(row, 4)?);
                Ok(Ok(Counted { is_dead, kind, error, jobs, first, last, sample: row.int(5)? }))
            });
            for row in rows.await? {
                match row {
                    Ok(some) => counted.push(some),
                    Err(looked_at) => is_complete[usize::from(is_dead)] = looked_at < MOST,
                }
            }
        }
        Ok(Failures::of(counted, is_complete))
    }

    async fn facts(&self, job: &JobRow) -> Result<Facts, Error> {
        const MOST: i64 = 10_000;
        let binds = [
            job.kind.as_str().into(),
            job.queue.as_str().into(),
            i64::from(job.priority).into(),
            job.run_at.timestamp_micros().into(),
            job.id.get().into(),
            MOST.into(),
        ];
        let doing = "cannot find out why a job waits";
        let place = self.read(Via::Pool, doing, DB::ADMIN.place, &binds, |row| {
            let ahead = row.int(2)?;
            let ahead = if ahead == MOST { Count::at_least(ahead) } else { Count::exactly(ahead) };
            Ok((at(row, 0)?, row.maybe_int(1)?.map(time), ahead))
        });
        let (now, paused_at, ahead) = place.await?.pop().ok_or(sqlx::Error::RowNotFound).doing(doing)?;
        Ok(Facts { now, paused_at, ahead, workers: self.workers().await? })
    }

    async fn last_of_key(&self, kind: &str, key: &str) -> Result<Option<i64>, Error> {
        let (doing, binds) = ("cannot find a job by its key", [kind.into(), key.into()]);
        Ok(self.read(Via::Pool, doing, DB::UNIQUE.last_of, &binds, |row| row.int(0)).await?.pop())
    }

    async fn throughput(&self, since: Duration) -> Result<Throughput, Error> {
        tallies::read(self, since).await
    }

    async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        self.read(Via::Pool, "cannot list the workers", DB::ADMIN.workers, &[], read_worker).await
    }
}

/// Each table returns its first rows by id. The first of all these form the page.
///
/// The tables are read in the order of a job's life, so that a job that ends meanwhile is seen. If it is seen twice,
/// the later row counts. Only a dead letter that is sent back between two of the statements is missed.
async fn page<DB: Dialect>(conn: &mut DB::Connection, filter: &Filter) -> Result<Page<JobRow>, sqlx::Error> {
    use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
    let size = filter.page() as usize;
    let after = filter.after.map_or(i64::MIN, JobId::get);
    let limit = size as i64 + 1; // the extra row tells whether there is another page
    let micros =
        |time: Option<DateTime<Utc>>| Bind::Int(time.map(|time| time.timestamp_micros().clamp(YEAR_1, END_OF_9999)));
    let in_state = |state: Option<JobState>| -> [Bind<'_>; 12] {
        [
            after.into(),
            filter.kind.as_deref().into(),
            filter.queue.as_deref().into(),
            state.map(JobState::as_str).into(),
            limit.into(),
            Bind::Int(filter.min_attempt.map(i64::from)),
            filter.error.as_deref().into(),
            micros(filter.enqueued_since),
            micros(filter.enqueued_before),
            micros(filter.failed_since),
            micros(filter.failed_before),
            i64::from(filter.retrying).into(),
        ]
    };
    let (any, scheduled) = (in_state(filter.state), in_state(Some(Scheduled)));
    let statements: &[(&'static str, &[Bind<'_>])] = match filter.state {
        Some(Scheduled | Ready) => &[(DB::ADMIN.jobs_hot, &any)],
        Some(Running) => &[(DB::ADMIN.jobs_running, &any)],
        Some(Completed | Cancelled) => &[(DB::ADMIN.jobs_over, &any)],
        Some(Dead) => &[(DB::ADMIN.jobs_dead, &any)],
        None if filter.among == Among::Unfinished => &[(DB::ADMIN.jobs_hot, &any)],
        None if filter.among == Among::Retryable => &[(DB::ADMIN.jobs_hot, &scheduled), (DB::ADMIN.jobs_dead, &any)],
        None => &[(DB::ADMIN.jobs_hot, &any), (DB::ADMIN.jobs_over, &any), (DB::ADMIN.jobs_dead, &any)],
    };
    let mut jobs = std::collections::BTreeMap::new();
    for (sql, binds) in statements {
        for row in rows::<DB>(conn, sql, binds).await? {
            let job = read_job(&row)?;
            jobs.insert(job.id, job);
        }
    }
    let more = jobs.len() > size;
    let items: Vec<JobRow> = jobs.into_values().take(size).collect();
    let next = items.last().filter(|_| more).map(|job| job.id);
    Ok(Page { items, next })
}

async fn detail<DB: Dialect>(conn: &mut DB::Connection, id: JobId) -> Result<Option<JobDetail>, sqlx::Error> {
    let found = rows::<DB>(conn, DB::ADMIN.job, &[id.get().into()]).await?;
    let Some(row) = found.first() else { return Ok(None) };
    let job = read_job(row)?;
    let fence = row.int(14)?;
    // the attempt under this fence, if it is not (or not yet) recorded
    let current = match job.state {
        JobState::Running => Some("running"),
        JobState::Completed => Some("completed"),
        _ => None,
    };
    let recorded = if current.is_some() { fence.saturating_sub(1) } else { fence };
    let binds = [id.get().into(), recorded.into()];
    let attempts = read::<DB, _>(conn, DB::ADMIN.attempts, &binds, |row| {
        Ok(Attempt {
            attempt: unsigned(row.int(0)?),
            worker: row.int(1)?,
            worker_name: row.maybe_text(2)?,
            started_at: at(row, 3)?,
            ended_at: Some(at(row, 4)?),
            outcome: row.text(5)?,
            error: row.maybe_text(6)?,
        })
    });
    let mut attempts = attempts.await?;
    attempts.reverse();
    if let Some(outcome) = current {
        attempts.push(Attempt {
            attempt: job.attempt,
            worker: job.worker.unwrap_or_default(),
            worker_name: row.maybe_text(17)?,
            started_at: job.claimed_at.unwrap_or(job.run_at),
            ended_at: job.finished_at,
            outcome: outcome.to_owned(),
            error: None,
        });
    }
    Ok(Some(JobDetail {
        job,
        args: row.text(15)?,
        result: row.maybe_text(16)?,
        meta: row.maybe_text(18)?,
        unique_key: None,
        attempts,
    }))
}

fn read_worker(row: &impl Cells) -> Result<WorkerInfo, sqlx::Error> {
    Ok(WorkerInfo {
        id: row.int(0)?,
        host: row.text(1)?,
        pid: unsigned(row.int(2)?),
        concurrency: unsigned(row.int(3)?),
        queues: names(&row.text(4)?),
        kinds: names(&row.text(5)?),
        started_at: at(row, 6)?,
        heartbeat_at: at(row, 7)?,
        stopped_at: row.maybe_int(8)?.map(time),
        alive: row.int(9)? != 0,
        running: row.int(10)?.max(0).cast_unsigned(),
    })
}

fn read_stat(row: &impl Cells) -> Result<Stat, sqlx::Error> {
    Ok(Stat {
        kind: row.text(0)?,
        queue: row.text(1)?,
        state: state(&row.text(2)?)?,
        jobs: row.int(3)?.max(0).cast_unsigned(),
        oldest: at(row, 4)?,
        retrying: row.int(5)?.max(0).cast_unsigned(),
    })
}

/// Reads the columns that every list of jobs begins with.
fn read_job(row: &impl Cells) -> Result<JobRow, sqlx::Error> {
    let (state, error) = (state(&row.text(3)?)?, row.maybe_text(13)?);
    Ok(JobRow {
        id: row.int(0)?.into(),
        kind: row.text(1)?,
        queue: row.text(2)?,
        state,
        priority: row.int(4)?.clamp(i16::MIN.into(), i16::MAX.into()) as i16,
        attempt: unsigned(row.int(5)?),
        max_retries: row.maybe_int(6)?.map(unsigned),
        enqueued_at: at(row, 7)?,
        run_at: at(row, 8)?,
        claimed_at: row.maybe_int(9)?.map(time),
        finished_at: row.maybe_int(10)?.map(time),
        worker: row.maybe_int(11)?,
        cancel_requested: row.int(12)? != 0,
        retrying: matches!(state, JobState::Scheduled | JobState::Ready) && error.is_some(),
        error,
    })
}

/// Reads a time that each row has. A time that the engine itself cannot read, as MySQL's zero date, is 1970.
pub(super) fn at(row: &impl Cells, column: usize) -> Result<DateTime<Utc>, sqlx::Error> {
    crate::store::engine::statement::read::time(row, column).map(time)
}

pub(super) fn time(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros.clamp(YEAR_1, END_OF_9999)).unwrap_or(DateTime::UNIX_EPOCH)
}

fn unsigned(number: i64) -> u32 {
    number.clamp(0, u32::MAX.into()) as u32
}

fn state(word: &str) -> Result<JobState, sqlx::Error> {
    word.parse().map_err(|error: crate::state::UnknownState| sqlx::Error::Decode(error.into()))
}

/// A JSON list of names. Anything else that somebody wrote there counts as an empty list.
fn names(json: &str) -> Vec<String> {
    serde_json::from_str(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_do_not_fit_are_cut() {
        assert_eq!(unsigned(-1), 0);
        assert_eq!(unsigned(i64::MAX), u32::MAX);
        assert_eq!(time(i64::MIN).to_rfc3339(), "0001-01-01T00:00:00+00:00");
        assert_eq!(time(i64::MAX).to_rfc3339(), "9999-12-31T23:59:59+00:00");
        assert_eq!(names("[\"a\",\"b\"]"), ["a", "b"]);
        assert_eq!(names("7"), [""; 0]);
    }
}
