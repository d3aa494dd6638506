//! Unique jobs on PostgreSQL: one statement takes the free keys and inserts their jobs. A single job has a statement of
//! its own.

use std::collections::HashSet;

use sqlx::{Error, PgConnection, Postgres};

use crate::limits::micros;
use crate::store::engine::jobs::enqueue::{fitting, parts};
use crate::store::engine::statement::sql;
use crate::store::engine::unique::dialect::{Given, Holder, Key, Taken, UniqueDialect, Way};
use crate::store::engine::unique::{holders, on_each_part};
use crate::store::postgres::dialect::CHUNK_BYTES;
use crate::store::values::{NewJob, Whose};

impl UniqueDialect for Postgres {
    fn shortest(whose: Whose) -> Way {
        match whose {
            Whose::Pools => Way::Looks,
            // the key before its holder, as everybody does whose locks last
            Whose::Callers | Whose::InTransaction => Way::AtOnce,
        }
    }

    async fn take(
        conn: &mut PgConnection,
        jobs: &[&NewJob],
        _over: &HashSet<i64>,
        way: Way,
    ) -> Result<Option<Taken>, Error> {
        let mut taken = Taken::default();
        if fitting(jobs, usize::MAX, CHUNK_BYTES) < jobs.len() {
            // each part takes its keys in order, but everybody must take all keys in one order
            let mut keys: Vec<_> = jobs.iter().enumerate().map(|(place, job)| Key::of(place, job)).collect();
            keys.sort_unstable_by_key(|key| (key.kind, key.key));
            Self::lock(conn, &keys).await?;
        }
        let mut first = 0;
        for part in parts(jobs, usize::MAX, CHUNK_BYTES) {
            match part {
                [job] if matches!(way, Way::AtOnce | Way::Looks) => {
                    let id = insert_one(conn, job, way == Way::Looks).await?;
                    taken.new.extend(id.map(|id| (first, id)));
                }
                _ => taken.new.extend(insert(conn, part).await?.map(|(place, id)| (first + place, id))),
            }
            first += part.len();
        }
        if taken.new.len() < jobs.len() {
            let mut is_new = vec![false; jobs.len()];
            taken.new.iter().for_each(|(place, _)| is_new[*place] = true);
            let others = (0..jobs.len()).filter(|place| !is_new[*place]);
            let others: Vec<_> = others.map(|place| Key::of(place, jobs[place])).collect();
            taken.holders = Self::holders(conn, &others).await?;
        }
        Ok(Some(taken))
    }

    async fn lock(conn: &mut PgConnection, keys: &[Key<'_>]) -> Result<(), Error> {
        on_each_part::<Self, _>(conn, sql!("postgres", "unique", "lock"), keys).await
    }

    async fn holders(conn: &mut PgConnection, keys: &[Key<'_>]) -> Result<Vec<Holder>, Error> {
        holders::<Self>(conn, sql!("postgres", "unique", "holders"), keys).await
    }

    async fn give(conn: &mut PgConnection, keys: &[Given<'_>]) -> Result<(), Error> {
        on_each_part::<Self, _>(conn, sql!("postgres", "unique", "give"), keys).await
    }
}

/// The id of the new job. None: its key is taken. With `looks`, it may be locked or not.
async fn insert_one(conn: &mut PgConnection, job: &NewJob, looks: bool) -> Result<Option<i64>, Error> {
    let rule = job.rule();
    sqlx::query_scalar(sql!("postgres", "unique", "take_one"))
        .bind(&*job.kind)
        .bind(&rule.key)
        .bind(rule.until.word())
        .bind(rule.at_least.map(micros))
        .bind(&*job.queue)
        .bind(job.priority)
        .bind(job.max_retries)
        .bind(job.args.as_str())
        .bind(job.delay_us)
        .bind(job.run_at_us)
        .bind(job.features() as i16)
        .bind(looks)
        .bind(job.meta.as_deref())
        .fetch_optional(conn)
        .await
}

/// The places and ids of the new jobs.
async fn insert(conn: &mut PgConnection, jobs: &[&NewJob]) -> Result<impl Iterator<Item = (usize, i64)>, Error> {
    fn all<'a, T>(jobs: &[&'a NewJob], of: impl Fn(&'a NewJob) -> T) -> Vec<T> {
        jobs.iter().map(|job| of(job)).collect()
    }
    let (places, ids): (Option<Vec<i64>>, Option<Vec<i64>>) = sqlx::query_as(sql!("postgres", "unique", "take"))
        .bind(all(jobs, |job| &*job.kind))
        .bind(all(jobs, |job| job.rule().key.as_str()))
        .bind(all(jobs, |job| job.rule().until.word()))
        .bind(all(jobs, |job| job.rule().at_least.map(micros)))
        .bind(all(jobs, |job| &*job.queue))
        .bind(all(jobs, |job| job.priority))
        .bind(all(jobs, |job| job.max_retries))
        .bind(all(jobs, |job| job.args.as_str()))
        .bind(all(jobs, |job| job.delay_us))
        .bind(all(jobs, |job| job.run_at_us))
        .bind(all(jobs, |job| job.features() as i16))
        .bind(all(jobs, |job| job.meta.as_deref()))
        .fetch_one(conn)
        .await?;
    Ok(places.into_iter().flatten().map(|ordinal| ordinal as usize - 1).zip(ids.into_iter().flatten()))
}
