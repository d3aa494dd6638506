//! Unique jobs on SQLite: one call takes the free keys and inserts their jobs, for jobs that have most in common.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use sqlx::{Error, Sqlite, SqliteConnection};

use crate::limits::micros;
use crate::store::engine::driver::Driver;
use crate::store::engine::driver::{Bind, Cells, json, rows};
use crate::store::engine::jobs::enqueue::{args_list, parts};
use crate::store::engine::statement::sql;
use crate::store::engine::unique::dialect::{Given, Holder, Key, Taken, UniqueDialect, Way};
use crate::store::engine::unique::{holders, on_each_part};
use crate::store::sqlite::dialect::{CHUNK, CHUNK_BYTES};
use crate::store::values::{NewJob, Whose};
use crate::unique::UniqueUntil;

const TAKE: &str = sql!("sqlite", "unique", "take");
/// Through a pool, the whole transaction is one call.
static AT_ONCE: LazyLock<String> = LazyLock::new(|| format!("BEGIN IMMEDIATE;\n{TAKE};\nCOMMIT"));

impl UniqueDialect for Sqlite {
    fn shortest(whose: Whose) -> Way {
        match whose {
            Whose::Pools => Way::AtOnce,
            Whose::Callers | Whose::InTransaction => Way::Locks,
        }
    }

    async fn take(
        conn: &mut SqliteConnection,
        jobs: &[&NewJob],
        _over: &HashSet<i64>,
        way: Way,
    ) -> Result<Option<Taken>, Error> {
        let mut taken = Taken::default();
        for places in alike(jobs) {
            let alike: Vec<&NewJob> = places.iter().map(|place| jobs[*place]).collect();
            let mut places = places.into_iter();
            for part in parts(&alike, CHUNK, CHUNK_BYTES) {
                let (first, written) = take_alike(conn, part, way).await?;
                let is_written = |id: i64| written.as_ref().is_none_or(|written| written.contains(&id));
                let mut others = Vec::new();
                for (place, id) in places.by_ref().take(part.len()).zip(first..) {
                    match is_written(id) {
                        true => taken.new.push((place, id)),
                        false => others.push(Key::of(place, jobs[place])),
                    }
                }
                // a holder may be over by now: then nobody is named, and the key is wanted again
                if !others.is_empty() {
                    taken.holders.extend(Self::holders(conn, &others).await?);
                }
            }
        }
        Ok(Some(taken))
    }

    async fn lock(conn: &mut SqliteConnection, keys: &[Key<'_>]) -> Result<(), Error> {
        on_each_part::<Self, _>(conn, sql!("sqlite", "unique", "lock"), keys).await
    }

    async fn holders(conn: &mut SqliteConnection, keys: &[Key<'_>]) -> Result<Vec<Holder>, Error> {
        holders::<Self>(conn, sql!("sqlite", "unique", "holders"), keys).await
    }

    async fn give(conn: &mut SqliteConnection, keys: &[Given<'_>]) -> Result<(), Error> {
        on_each_part::<Self, _>(conn, sql!("sqlite", "unique", "give"), keys).await
    }
}

/// What jobs of one call have in common: kind, queue, priority, retries, features, how long they have their keys, and
/// whether they have delays or times.
type Common<'a> = (&'a str, &'a str, i16, Option<i32>, i64, UniqueUntil, Option<i64>, bool, bool);

fn common(job: &NewJob) -> Common<'_> {
    let rule = job.rule();
    let (delayed, timed) = (job.delay_us.is_some(), job.run_at_us.is_some());
    let features = job.features();
    let at_least = rule.at_least.map(micros);
    (&job.kind, &job.queue, job.priority, job.max_retries, features, rule.until, at_least, delayed, timed)
}

/// The places of jobs with the same [`Common`].
fn alike(jobs: &[&NewJob]) -> Vec<Vec<usize>> {
    let mut lists: Vec<Vec<usize>> = Vec::new();
    let mut by_common: HashMap<Common<'_>, usize> = HashMap::new();
    for (place, job) in jobs.iter().enumerate() {
        let list = *by_common.entry(common(job)).or_insert(lists.len());
        if list == lists.len() {
            lists.push(Vec::new());
        }
        lists[list].push(place);
    }
    lists
}

/// Returns the id that the first of these jobs gets, and the ids of those that are written (none: all are). The others
/// leave gaps.
async fn take_alike(
    conn: &mut SqliteConnection,
    jobs: &[&NewJob],
    way: Way,
) -> Result<(i64, Option<HashSet<i64>>), Error> {
    let [first, ..] = jobs else { return Ok((0, None)) };
    let rule = first.rule();
    let list =
        |of: fn(&NewJob) -> Option<i64>| of(first).map(|_| json(&jobs.iter().map(|job| of(job)).collect::<Vec<_>>()));
    let keys = json(&jobs.iter().map(|job| job.rule().key.as_str()).collect::<Vec<_>>());
    let (args, delays, times) = (args_list(jobs), list(|job| job.delay_us), list(|job| job.run_at_us));
    let metas = jobs.iter().any(|job| job.meta.is_some());
    let metas = metas.then(|| json(&jobs.iter().map(|job| job.meta.as_deref()).collect::<Vec<_>>()));
    let binds: [Bind<'_>; 12] = [
        (&*first.kind).into(),
        (&*first.queue).into(),
        i64::from(first.priority).into(),
        first.max_retries.map(i64::from).into(),
        first.features().into(),
        rule.until.word().into(),
        rule.at_least.map(micros).into(),
        keys.as_str().into(),
        args.as_str().into(),
        delays.as_deref().into(),
        times.as_deref().into(),
        metas.as_deref().into(),
    ];
    let rows = match way {
        Way::AtOnce => {
            let rows = rows::<Sqlite>(conn, &AT_ONCE, &binds).await;
            if rows.is_err() {
                // it may have stopped midway; if it has not begun, this fails, and nothing is to be undone
                let _ = Sqlite::raw(conn, "ROLLBACK").await;
            }
            rows?
        }
        Way::Looks | Way::Bets | Way::Locks => rows::<Sqlite>(conn, TAKE, &binds).await?,
    };
    let row = rows.first().ok_or(Error::RowNotFound)?;
    let written = row.maybe_text(1)?.map(|list| serde_json::from_str(&list)).transpose();
    Ok((row.int(0)?, written.map_err(|error| Error::Decode(error.into()))?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use sqlx::sqlite::SqlitePoolOptions;

    use super::*;
    use crate::store::engine::unique::enqueue;
    use crate::unique::{OnConflict, UniqueJob};

    /// Far longer than a busy machine needs.
    const HANG: Duration = Duration::from_secs(120);

    /// A holder may go between the transaction that misses its key and the look at who has it.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_called_new_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("queue.sqlite").display());
        let options = url.parse::<sqlx::sqlite::SqliteConnectOptions>().unwrap().busy_timeout(HANG);
        let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
        crate::migrate(&pool).await.unwrap();
        let log = "CREATE TABLE written (id INTEGER);
                   CREATE TRIGGER log AFTER INSERT ON queue_jobs BEGIN INSERT INTO written VALUES (new.id); END";
        sqlx::raw_sql(log).execute(&pool).await.unwrap();

        let ends = Arc::new(AtomicBool::new(false));
        let (other, ended) = (pool.clone(), ends.clone());
        let remover = tokio::spawn(async move {
            while !ended.load(Ordering::Relaxed) {
                sqlx::raw_sql("DELETE FROM queue_jobs").execute(&other).await.unwrap();
            }
        });
        let (until, on_conflict) = (UniqueUntil::End, OnConflict::Keep);
        let unique = UniqueJob { key: "a".into(), until, at_least: None, on_conflict, at_most: None };
        let job = NewJob { unique: Some(Box::new(unique)), ..NewJob::example("k") };
        let mut conn = pool.acquire().await.unwrap();
        let (mut new, mut kept) = (Vec::new(), 0);
        // until both were met often, however the two share the machine
        let (began, mut rounds) = (Instant::now(), 0);
        while rounds < 4_000 || kept == 0 || new.len() <= 100 {
            assert!(began.elapsed() < HANG, "{kept} kept, {} new", new.len());
            rounds += 1;
            let placed = enqueue::<Sqlite>(&mut conn, std::slice::from_ref(&job), Whose::Pools).await.unwrap();
            match placed[0].is_new() {
                true => new.push(placed[0].id().get()),
                false => kept += 1,
            }
        }
        ends.store(true, Ordering::Relaxed);
        remover.await.unwrap();
        let written: Vec<i64> =
            sqlx::query_scalar("SELECT id FROM written ORDER BY id").fetch_all(&pool).await.unwrap();
        assert_eq!(new, written);
    }

    /// A key may become free in the middle of the call: here between the statement that decides which keys are free and
    /// all that come behind it.
    #[tokio::test]
    async fn what_becomes_free_meanwhile_is_not_called_new() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("queue.sqlite").display());
        let pool = SqlitePoolOptions::new().max_connections(1).connect(&url).await.unwrap();
        crate::migrate(&pool).await.unwrap();
        let keyed = |key: String| {
            let (until, on_conflict) = (UniqueUntil::End, OnConflict::Keep);
            let unique = UniqueJob { key, until, at_least: None, on_conflict, at_most: None };
            NewJob { unique: Some(Box::new(unique)), ..NewJob::example("k") }
        };
        let mut conn = pool.acquire().await.unwrap();
        let over: Vec<NewJob> = (0..50).map(|n| keyed(format!("over {n}"))).collect();
        enqueue::<Sqlite>(&mut conn, &over, Whose::Pools).await.unwrap();
        // the holders are over, and their time is not; it is over as soon as a call has taken the one key that is free
        let later = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 3600000";
        let meanwhile = format!(
            "DELETE FROM queue_jobs; DELETE FROM queue_unique_jobs; UPDATE queue_unique_keys SET free_at = {later};
             CREATE TABLE moments (job_id INTEGER);
             CREATE TRIGGER meanwhile BEFORE INSERT ON queue_unique_jobs WHEN new.unique_key = 'new' BEGIN
                 INSERT INTO moments SELECT new.job_id WHERE EXISTS (SELECT 1 FROM queue_unique_keys WHERE free_at > 0);
                 UPDATE queue_unique_keys SET free_at = 0 WHERE free_at > 0;
             END"
        );
        sqlx::raw_sql(crate::store::engine::driver::assembled(meanwhile)).execute(&mut *conn).await.unwrap();
        let jobs: Vec<NewJob> = over.iter().cloned().chain([keyed("new".into())]).collect();
        let placed = enqueue::<Sqlite>(&mut conn, &jobs, Whose::Pools).await.unwrap();
        let moments: i64 = sqlx::query_scalar("SELECT count(*) FROM moments").fetch_one(&mut *conn).await.unwrap();
        assert_eq!(moments, 1, "the moment was in the middle of the call");
        let mut new: Vec<i64> = placed.iter().filter(|it| it.is_new()).map(|it| it.id().get()).collect();
        new.sort_unstable();
        let written: Vec<i64> =
            sqlx::query_scalar("SELECT id FROM queue_jobs ORDER BY id").fetch_all(&mut *conn).await.unwrap();
        assert_eq!(new, written);
        assert_eq!(new.len(), jobs.len(), "all of them were free in the end");
    }
}
