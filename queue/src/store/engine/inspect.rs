//! What the administration reads: a single statement, or several whose order makes them agree.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use tokio::time::Instant;

use crate::error::{Doing as _, Error};
use crate::failures::{CHARS, Counted, Failures, Hour};
use crate::gauges::{Count, Gauges};
use crate::limits::{END_OF_9999, YEAR_1};
use crate::secrets::{Secrets, kinds_of};
use crate::state::{JobId, JobState};
use crate::store::AdminReads;
use crate::store::engine::connection::{COUNT_LIMIT, Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Bind, Cells, MOST_ARGS, read, rows};
use crate::store::engine::statement::read::{at, date, number};
use crate::store::engine::{gauges, tallies};
use crate::store::view::{Among, Attempt, Ended, Filter, JobDetail, JobRow, MAX_PAGE, Page, Stat, Walked, WorkerInfo};
use crate::throughput::Throughput;
use crate::why::{Facts, Reason, Why};

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
        let doing = "cannot list jobs";
        // a slice may be slow, as when it is read from a cold disk
        let page = self.run_within(COUNT_LIMIT, Via::Pool, Mode::Read, doing, filter.clone(), |conn, filter| {
            page::<DB>(conn, filter).boxed()
        });
        page.await
    }

    async fn walk(&self, filter: &Filter, after: i64, upto: i64) -> Result<Walked, Error> {
        let (doing, args) = ("cannot find the jobs", (filter.clone(), after, upto));
        let walked = self.run_within(COUNT_LIMIT, Via::Pool, Mode::Read, doing, args, |conn, (filter, after, upto)| {
            walk::<DB>(conn, filter, *after, *upto).boxed()
        });
        walked.await
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
        const MOST: i64 = 4_000;
        /// Of how many groups the hours are read.
        const REMEMBERED: usize = 100;
        let doing = "cannot group the failures";
        let (mut counted, mut looked_at) = (Vec::new(), [0; 2]);
        for (is_dead, sql) in [(true, DB::ADMIN.failures_dead), (false, DB::ADMIN.failures_retrying)] {
            let binds = [MOST.into(), (CHARS as i64).into()];
            let rows = self.read(Via::Pool, doing, sql, &binds, |row| {
                let jobs = row.int(2)?;
                // not a failure, or not the last one
                let Some(kind) = row.maybe_text(0)? else { return Ok((jobs, None)) };
                let (error, first, last) = (row.maybe_text(1)?.unwrap_or_default(), at(row, 3)?, at(row, 4)?);
                Ok((jobs, Some(Counted { is_dead, kind, error, jobs, first, last, sample: row.int(5)? })))
            });
            for (jobs, failure) in rows.await? {
                looked_at[usize::from(is_dead)] += jobs;
                counted.extend(failure);
            }
        }
        let is_complete = looked_at.map(|rows| rows < MOST);
        let mut failures = Failures::of(counted, is_complete);
        let names: Vec<&str> = failures.groups.iter().take(REMEMBERED).map(|it| &*it.group).collect();
        let mut hours: HashMap<String, Vec<Hour>> = HashMap::new();
        let mut now = DateTime::UNIX_EPOCH;
        let found = match tallies::failures(self, &names).await {
            // an account from before they were counted
            Err(error) if error.is_a_missing_right() => Vec::new(),
            found => found?,
        };
        for (group, at, hour) in found {
            now = at;
            hours.entry(group).or_default().push(hour);
        }
        for group in &mut failures.groups {
            group.remember(hours.get(&group.group).map_or(&[], Vec::as_slice), now);
        }
        Ok(failures)
    }

    async fn ended(&self, limit: u32) -> Result<Vec<Ended>, Error> {
        let limit = limit.min(MAX_PAGE);
        let binds = [i64::from(limit).into(), (CHARS as i64).into()];
        let doing = "cannot read what ended last";
        let ended = self.read(Via::Pool, doing, DB::ADMIN.ended, &binds, |row| {
            let attempt = Attempt {
                attempt: number(row.int(4)?)?,
                worker: row.int(5)?,
                worker_name: row.maybe_text(6)?,
                started_at: row.maybe_int(7)?.map_or_else(|| at(row, 8), |started| Ok(date(started)))?,
                ended_at: Some(at(row, 8)?),
                outcome: row.text(3)?,
                error: row.maybe_text(10)?,
            };
            let (kind, queue) = (row.maybe_text(1)?.unwrap_or_default(), row.maybe_text(2)?.unwrap_or_default());
            Ok(Ended { id: row.int(0)?.into(), kind, queue, is_dead: row.int(9)? != 0, attempt })
        });
        let mut ended = ended.await?;
        ended.sort_by_key(|it| std::cmp::Reverse((it.attempt.ended_at, it.id, it.attempt.attempt)));
        ended.truncate(limit as usize);
        Ok(ended)
    }

    async fn row(&self, id: JobId) -> Result<Option<JobRow>, Error> {
        self.read(Via::Pool, "cannot read a job", DB::ADMIN.job, &[id.get().into()], read_job)
            .await
            .map(|mut it| it.pop())
    }

    async fn facts(&self, job: &JobRow) -> Result<Facts, Error> {
        const MOST: i64 = 5_000;
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
            Ok((at(row, 0)?, row.maybe_int(1)?.map(date), ahead))
        });
        let (now, paused_at, ahead) = place.await?.pop().ok_or(sqlx::Error::RowNotFound).doing(doing)?;
        let mut facts = Facts { now, paused_at, ahead, workers: self.workers().await?, locked: false };
        if let Reason::Unexplained { .. } = Why::of(job, &facts).reason {
            let free = self.read(Via::Pool, doing, DB::ADMIN.lock_free, &[job.id.get().into()], |row| row.int(0)).await;
            facts.locked = match free {
                // an account that only reads cannot tell
                Err(error) if error.is_a_missing_right() => false,
                free => free?.is_empty(),
            };
        }
        Ok(facts)
    }

    async fn last_of_key(&self, kind: &str, key: &str) -> Result<Option<i64>, Error> {
        let (doing, binds) = ("cannot find a job by its key", [kind.into(), key.into()]);
        Ok(self.read(Via::Pool, doing, DB::UNIQUE.last_of, &binds, |row| row.int(0)).await?.pop())
    }

    async fn has_keys(&self, kind: &str) -> Result<bool, Error> {
        let (doing, binds) = ("cannot look for the keys of a kind", [kind.into()]);
        Ok(!self.read(Via::Pool, doing, DB::UNIQUE.has_keys, &binds, |row| row.int(0)).await?.is_empty())
    }

    async fn secrets(&self) -> Result<Secrets, Error> {
        let rows = self.read(Via::Pool, "cannot read the kinds", DB::ADMIN.kinds, &[], |row| row.text(0)).await;
        let mut secrets = Secrets::default();
        match rows {
            // an account that reads less: what is not known is hidden
            Err(error) if error.is_a_missing_right() => {}
            rows => rows?.iter().for_each(|kinds| secrets.add_row(kinds)),
        }
        Ok(secrets)
    }

    async fn throughput(&self, since: Duration) -> Result<Throughput, Error> {
        tallies::read(self, since).await
    }

    async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        let doing = "cannot list the workers";
        let mut workers = self.read(Via::Pool, doing, DB::ADMIN.workers, &[], read_worker).await?;
        let read = |row: &DB::Row| Ok((row.int(0)?, row.text(1)?, row.int(2)?.max(0).cast_unsigned()));
        for (id, queue, jobs) in self.read(Via::Pool, doing, DB::ADMIN.held, &[], read).await? {
            if let Ok(at) = workers.binary_search_by_key(&id, |worker| worker.id) {
                workers[at].running += jobs;
                workers[at].held.insert(queue, jobs);
            }
        }
        Ok(workers)
    }
}

/// A search looks at slices of rows: a first one, and then larger ones as long as they are quick.
const SLICE: i64 = 10_000;
/// A search ends after this number of rows, or this time, whether or not it has found anything.
const MOST: i64 = 50_000;
const BUDGET: Duration = Duration::from_millis(200);

/// The newest matching jobs, from the filter's highest id back.
async fn page<DB: Dialect>(conn: &mut DB::Connection, filter: &Filter) -> Result<Page<JobRow>, sqlx::Error> {
    /// A slice is quick if it takes no longer than this more than the first, which is small.
    const QUICK: Duration = Duration::from_millis(10);
    let (size, began, mut first) = (filter.page() as usize, Instant::now(), None);
    // the extra row tells whether there is another page
    let (mut from, mut rows) = (filter.top(), size as i64 + 1);
    let mut page = Page { items: Vec::new(), next: None, searched: 0, back_to: None, complete: false };
    loop {
        let begin = Instant::now();
        let slice = slice::<DB>(conn, filter, Way::Back, from, rows).await?;
        let took = begin.elapsed();
        page.searched += slice.rows.unsigned_abs();
        page.back_to = slice.back_to.or(page.back_to);
        page.next = slice.edge.map(JobId::from);
        page.items.extend(slice.jobs.into_iter().rev());
        if page.items.len() > size {
            page.items.truncate(size);
            (page.next, page.back_to) = page.items.last().map(|last| (last.id, last.enqueued_at)).unzip();
        }
        let left = MOST - page.searched.cast_signed();
        match slice.edge {
            Some(edge) if page.items.len() < size && left > 0 && began.elapsed() < BUDGET => {
                from = edge.saturating_sub(1)
            }
            _ => break,
        }
        if took < *first.get_or_insert(took) + QUICK {
            rows = (rows * 8).min(SLICE);
        }
        rows = rows.min(left);
    }
    page.complete = page.next.is_none();
    Ok(page)
}

/// The oldest matching jobs above an id. It goes on until it finds some, within a budget.
async fn walk<DB: Dialect>(
    conn: &mut DB::Connection,
    filter: &Filter,
    after: i64,
    upto: i64,
) -> Result<Walked, sqlx::Error> {
    const MOST: usize = MAX_PAGE as usize;
    let (began, upto) = (Instant::now(), upto.min(filter.top()));
    let (mut from, mut rows) = (after, MAX_PAGE.into());
    loop {
        let Slice { mut jobs, edge, .. } = slice::<DB>(conn, filter, Way::On { upto }, from, rows).await?;
        let mut next = edge;
        if jobs.len() > MOST {
            jobs.truncate(MOST);
            next = jobs.last().map(|job| job.id.get());
        }
        match next {
            Some(edge) if jobs.is_empty() && began.elapsed() < BUDGET => (from, rows) = (edge, SLICE),
            _ => return Ok(Walked { jobs, next }),
        }
    }
}

/// Where a search goes.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// To lower ids, from one of them.
    Back,
    /// To higher ids, behind one of them.
    On { upto: i64 },
}

/// The next rows of a search.
struct Slice {
    /// Those that match, in ascending order of their ids.
    jobs: Vec<JobRow>,
    /// The number of all.
    rows: i64,
    /// The last id on the way. `None`: there is nothing beyond.
    edge: Option<i64>,
    /// When the job with the lowest id was enqueued.
    back_to: Option<DateTime<Utc>>,
}

/// Reads the next rows, of all tables that matter, and picks those that match.
///
/// The tables are read in the order of a job's life, so that a job that ends meanwhile is seen. If it is seen twice,
/// the later row counts. Only a dead letter that is sent back between two of the statements is missed.
async fn slice<DB: Dialect>(
    conn: &mut DB::Connection,
    filter: &Filter,
    way: Way,
    from: i64,
    rows: i64,
) -> Result<Slice, sqlx::Error> {
    use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
    let admin = &DB::ADMIN;
    let [hot, running, over, dead] = [admin.jobs_hot, admin.jobs_running, admin.jobs_over, admin.jobs_dead];
    let state = filter.state;
    // each with its state, or all of them
    let tables: &[(&'static str, Option<JobState>)] = match state {
        Some(Scheduled | Ready) => &[(hot, state)],
        Some(Running) => &[(running, state)],
        Some(Completed | Cancelled) => &[(over, state)],
        Some(Dead) => &[(dead, state)],
        None if filter.among == Among::Unfinished => &[(hot, None)],
        None if filter.among == Among::Retryable => &[(hot, Some(Scheduled)), (dead, None)],
        None => &[(hot, None), (over, None), (dead, None)],
    };
    let of = |table| Bind::from(if tables.iter().any(|(sql, _)| *sql == table) { rows } else { 0 });
    let binds = [from.into(), of(hot), of(running), of(over), of(dead), rows.into()];
    let sql = if let Way::Back = way { admin.slice_back } else { admin.slice_on };
    let found = read::<DB, _>(conn, sql, &binds, |row| {
        let back_to = if let Way::Back = way { row.maybe_int(2)?.map(date) } else { None };
        Ok((row.maybe_int(0)?, row.int(1)?, back_to))
    });
    let (edge, number, back_to) = found.await?.pop().ok_or(sqlx::Error::RowNotFound)?;
    let more = edge.filter(|_| number >= rows);
    let (low, high, edge) = match way {
        Way::Back => (more.map_or(i64::MIN, |edge| edge.saturating_sub(1)), from, more),
        Way::On { upto } => (from, more.map_or(upto, |edge| edge.min(upto)), more.filter(|edge| *edge < upto)),
    };
    let mut slice = Slice { jobs: Vec::new(), rows: number, edge, back_to };
    if number == 0 {
        return Ok(slice);
    }
    let micros =
        |time: Option<DateTime<Utc>>| Bind::Int(time.map(|time| time.timestamp_micros().clamp(YEAR_1, END_OF_9999)));
    let mut jobs = BTreeMap::new();
    for (sql, state) in tables {
        let binds = [
            low.into(),
            filter.kind.as_deref().into(),
            filter.queue.as_deref().into(),
            state.map(JobState::as_str).into(),
            high.into(),
            Bind::Int(filter.min_attempt.map(i64::from)),
            filter.error.as_deref().into(),
            micros(filter.enqueued_since),
            micros(filter.enqueued_before),
            micros(filter.failed_since),
            micros(filter.failed_before),
            i64::from(filter.retrying).into(),
            filter.worker.into(),
            filter.needle().into(),
            "\\u".into(),
            MOST_ARGS,
        ];
        let found = read::<DB, _>(conn, sql, &binds, |row| Ok((read_job(row)?, row.maybe_text(14)?)));
        for (job, args) in found.await? {
            let mut fits = filter.has(&job);
            if fits && !filter.args.is_empty() {
                // one by one, if they are long
                let args = if args.is_some() { args } else { args_of::<DB>(conn, job.id).await? };
                fits = args.is_some_and(|args| filter.fits(&args));
            }
            if fits {
                jobs.insert(job.id, job);
            } else {
                jobs.remove(&job.id);
            }
        }
    }
    slice.jobs = jobs.into_values().collect();
    Ok(slice)
}

async fn args_of<DB: Dialect>(conn: &mut DB::Connection, id: JobId) -> Result<Option<String>, sqlx::Error> {
    Ok(read::<DB, _>(conn, DB::ADMIN.job, &[id.get().into()], |row| row.text(15)).await?.pop())
}

pub(crate) async fn detail<DB: Dialect>(
    conn: &mut DB::Connection,
    id: JobId,
) -> Result<Option<JobDetail>, sqlx::Error> {
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
        hidden: Some(Vec::new()),
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
        kinds: kinds_of(&row.text(5)?).into_keys().collect(),
        started_at: at(row, 6)?,
        heartbeat_at: at(row, 7)?,
        stopped_at: row.maybe_int(8)?.map(date),
        alive: row.int(9)? != 0,
        limits: row.maybe_text(10)?.and_then(|limits| serde_json::from_str(&limits).ok()).unwrap_or_default(),
        running: 0,
        held: BTreeMap::new(),
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
        claimed_at: row.maybe_int(9)?.map(date),
        finished_at: row.maybe_int(10)?.map(date),
        worker: row.maybe_int(11)?,
        cancel_requested: row.int(12)? != 0,
        retrying: matches!(state, JobState::Scheduled | JobState::Ready) && error.is_some(),
        error,
    })
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
        assert_eq!(date(i64::MIN).to_rfc3339(), "0001-01-01T00:00:00+00:00");
        assert_eq!(date(i64::MAX).to_rfc3339(), "9999-12-31T23:59:59+00:00");
        assert_eq!(names("[\"a\",\"b\"]"), ["a", "b"]);
        assert_eq!(names("7"), [""; 0]);
    }
}
