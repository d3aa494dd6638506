//! Unique jobs on MySQL and MariaDB: the keys are locked first, then the free ones are given to new jobs.

use std::collections::HashSet;

use sqlx::{Arguments, Error, MySql, MySqlConnection};

use crate::limits::micros;
use crate::store::engine::unique::dialect::{Given, Key, Taken, UniqueDialect, UniqueStatements, unique_statements};
use crate::store::engine::unique::holders;
use crate::store::mysql::insert::{self, Refused, Rows, is_null_refused};
use crate::store::values::{NewJob, Whose};

/// Fails in a session that would change the text of a key: see settings.rs. `LAST_INSERT_ID` stays 0 if all are new.
const LOCK: Rows = Rows {
    head: "INSERT INTO queue_unique_keys (kind, unique_key, job_id) VALUES ",
    row: "(IF(@@character_set_client = 'utf8mb4', ?, NULL), ?, 0)",
    tail: " ON DUPLICATE KEY UPDATE job_id = LAST_INSERT_ID(queue_unique_keys.job_id)",
};
/// The rows are there, and locked. What a job holds already, it holds as long as before.
const GIVE: Rows = Rows {
    head: "INSERT INTO queue_unique_keys (kind, unique_key, job_id, held_until, fence, free_at) VALUES ",
    row: "(?, ?, ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)",
    tail: " ON DUPLICATE KEY UPDATE free_at = IF(queue_unique_keys.job_id = VALUES(job_id), free_at, VALUES(free_at)), \
           job_id = VALUES(job_id), held_until = VALUES(held_until), fence = VALUES(fence)",
};
const NOTE: Rows = Rows {
    head: "INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until) VALUES ",
    row: "(?, ?, ?, ?)",
    tail: "",
};

impl UniqueDialect for MySql {
    const UNIQUE: &'static UniqueStatements =
        unique_statements!("mysql", hold: Some(include_str!("sql/unique/hold.sql")));
    const BEGIN_IN_POOL: &'static str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN";
    const TAKES_AT_ONCE: bool = false;

    async fn take(conn: &mut MySqlConnection, jobs: &[&NewJob], over: &HashSet<i64>) -> Result<Taken, Error> {
        let mut keys: Vec<_> = jobs.iter().enumerate().map(|(place, job)| Key::of(place, job)).collect();
        keys.sort_unstable_by_key(Key::order);
        let mut taken = Taken::default();
        let mut is_free = vec![true; jobs.len()];
        if !lock(conn, &keys).await? {
            taken.holders = holders::<Self>(conn, &keys).await?;
            taken.holders.retain(|holder| !over.contains(&holder.id));
            taken.holders.iter().for_each(|holder| is_free[holder.place] = false);
        }
        let free: Vec<usize> = (0..jobs.len()).filter(|place| is_free[*place]).collect();
        let rows: Vec<&NewJob> = free.iter().map(|place| jobs[*place]).collect();
        let ids = insert::insert_in_order(conn, &rows).await?;
        let given = rows.into_iter().zip(&ids).map(|(job, &job_id)| {
            let rule = job.rule();
            let at_least_us = rule.at_least.map(micros);
            Given { kind: &job.kind, key: &rule.key, job_id, until: rule.until.word(), fence: 0, at_least_us }
        });
        let given: Vec<Given<'_>> = given.collect();
        Self::give(conn, &given).await?;
        NOTE.write(conn, &given, |arguments, given| {
            arguments.add(given.job_id)?;
            arguments.add(given.kind)?;
            arguments.add(given.key)?;
            arguments.add(given.until)
        })
        .await?;
        taken.new = free.into_iter().zip(ids).collect();
        Ok(taken)
    }

    async fn lock(conn: &mut MySqlConnection, keys: &[Key<'_>]) -> Result<(), Error> {
        lock(conn, keys).await.map(drop)
    }

    async fn give(conn: &mut MySqlConnection, keys: &[Given<'_>]) -> Result<(), Error> {
        GIVE.write(conn, keys, |arguments, given| {
            arguments.add(given.kind)?;
            arguments.add(given.key)?;
            arguments.add(given.job_id)?;
            arguments.add(given.until)?;
            arguments.add(given.fence)?;
            arguments.add(given.at_least_us)
        })
        .await
        .map(drop)
    }
}

/// Returns whether all of them are new.
async fn lock(conn: &mut MySqlConnection, keys: &[Key<'_>]) -> Result<bool, Error> {
    let locked = LOCK.write(conn, keys, |arguments, key| {
        arguments.add(key.kind)?;
        arguments.add(key.key)
    });
    match locked.await {
        Err(Error::Database(error)) if is_null_refused(&*error) => {
            insert::step(conn, Whose::Callers).await.map_err(Refused::into_error)?;
            Err(Error::Database(error))
        }
        last => Ok(last?.into_iter().all(|last| last == 0)),
    }
}
