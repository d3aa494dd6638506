//! Unique jobs on MySQL and MariaDB. The keys are locked first, and then the free ones are given to new jobs. A single
//! key that looks new is inserted behind its job: that saves an UPDATE.

use std::collections::HashSet;

use sqlx::{Arguments, Error, MySql, MySqlConnection};

use crate::limits::micros;
use crate::store::engine::driver::{Bind, Cells};
use crate::store::engine::statement::sql;
use crate::store::engine::unique::dialect::{Given, Holder, Key, Taken, UniqueDialect, Way};
use crate::store::engine::unique::holder;
use crate::store::mysql::insert::{self, Refused, Rows, is_null_refused};
use crate::store::mysql::statement::{fetch, with_places};
use crate::store::values::{NewJob, Whose};

/// Keys and the jobs that get those that are new; 0: none yet. Fails in a session that would change the text of a key:
/// see settings.rs. `LAST_INSERT_ID` stays 0 if all keys are new. A key that is there may have the job 0.
const LOCK: Rows<'static> = Rows {
    head: "INSERT INTO queue_unique_keys (kind, unique_key, job_id, held_until, free_at) VALUES ",
    row: "(IF(@@character_set_client = 'utf8mb4', ?, NULL), ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)",
    tail: " ON DUPLICATE KEY UPDATE job_id = IF(LAST_INSERT_ID(queue_unique_keys.job_id | 1), \
           queue_unique_keys.job_id, NULL)",
};
/// The rows are there, and locked. What a job holds already, it holds as long as before.
const GIVE: Rows<'static> = Rows {
    head: "INSERT INTO queue_unique_keys (kind, unique_key, job_id, held_until, fence, free_at) VALUES ",
    row: "(?, ?, ?, ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)",
    tail: " ON DUPLICATE KEY UPDATE free_at = IF(queue_unique_keys.job_id = VALUES(job_id), free_at, VALUES(free_at)), \
           job_id = VALUES(job_id), held_until = VALUES(held_until), fence = VALUES(fence)",
};
const NOTE: Rows<'static> = Rows {
    head: "INSERT INTO queue_unique_jobs (job_id, kind, unique_key, held_until) VALUES ",
    row: "(?, ?, ?, ?)",
    tail: "",
};

/// Keys in one list. MariaDB makes a table of a thousand.
const MOST_AT_ONCE: usize = 512;

impl UniqueDialect for MySql {
    /// A batch does not bet: if it lost, it would roll new keys back, and InnoDB deadlocks those who wait for one. Nor
    /// does a caller: it would lock a holder without the key, and then wait for its next key.
    fn shortest(whose: Whose) -> Way {
        match whose {
            Whose::Pools => Way::Bets,
            Whose::Callers | Whose::InTransaction => Way::Locks,
        }
    }

    async fn take(
        conn: &mut MySqlConnection,
        jobs: &[&NewJob],
        over: &HashSet<i64>,
        way: Way,
    ) -> Result<Option<Taken>, Error> {
        let mut keys: Vec<_> = jobs.iter().enumerate().map(|(place, job)| Key::of(place, job)).collect();
        keys.sort_unstable_by_key(|key| (key.kind, key.key)); // everybody locks in this order
        let mut taken = Taken::default();
        if way == Way::Bets {
            // most keys are new or taken: both can be seen without locks
            let known = known(conn, sql!("mysql", "unique", "look"), &keys).await?;
            let holders = known.iter().flatten().filter(|holder| !over.contains(&holder.id));
            let holders: Vec<Holder> = holders.copied().collect();
            if holders.len() == keys.len() {
                return Ok(Some(Taken { new: Vec::new(), holders }));
            }
            if known.is_empty() {
                return take_new(conn, jobs, &keys).await;
            }
        }
        let mut is_free = vec![true; jobs.len()];
        if !lock(conn, keys.iter().map(|key| (key, None))).await? {
            taken.holders = Self::holders(conn, &keys).await?;
            taken.holders.retain(|holder| !over.contains(&holder.id));
            taken.holders.iter().for_each(|holder| is_free[holder.place] = false);
        }
        let free: Vec<usize> = (0..jobs.len()).filter(|place| is_free[*place]).collect();
        let rows: Vec<&NewJob> = free.iter().map(|place| jobs[*place]).collect();
        let ids = insert::insert_in_order(conn, &rows).await?;
        let given = given(&rows, &ids);
        Self::give(conn, &given).await?;
        note(conn, &given).await?;
        taken.new = free.into_iter().zip(ids).collect();
        Ok(Some(taken))
    }

    async fn lock(conn: &mut MySqlConnection, keys: &[Key<'_>]) -> Result<(), Error> {
        lock(conn, keys.iter().map(|key| (key, None))).await.map(drop)
    }

    async fn holders(conn: &mut MySqlConnection, keys: &[Key<'_>]) -> Result<Vec<Holder>, Error> {
        let known = known(conn, sql!("mysql", "unique", "holders"), keys).await?;
        if known.len() != keys.len() {
            return Err(Error::Protocol(format!("{} of {} locked keys were found", known.len(), keys.len())));
        }
        Ok(known.into_iter().flatten().collect())
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

/// Those of these sorted keys that are there, with their holders. None: it is free.
async fn known(conn: &mut MySqlConnection, sql: &'static str, keys: &[Key<'_>]) -> Result<Vec<Option<Holder>>, Error> {
    let mut known = Vec::new();
    for mut rest in keys.chunk_by(|a, b| a.kind == b.kind) {
        while !rest.is_empty() {
            let (part, later) = rest.split_at(insert::chunk_of(rest.len()).min(MOST_AT_ONCE));
            let binds = std::iter::once(part[0].kind).chain(part.iter().map(|key| key.key)).map(Bind::from);
            let binds: Vec<Bind<'_>> = binds.collect();
            let sql = with_places(sql, part.len());
            for row in fetch(conn, sql, &binds).await? {
                let key = row.text(0)?;
                let place = part.binary_search_by_key(&key.as_str(), |key| key.key);
                let place = place.map_err(|_| Error::Protocol(format!("nobody asked for the key {key}")))?;
                known.push(holder(&row, part[place].place)?);
            }
            rest = later;
        }
    }
    Ok(known)
}

/// Takes keys that look new. None: not all of them are.
async fn take_new(conn: &mut MySqlConnection, jobs: &[&NewJob], keys: &[Key<'_>]) -> Result<Option<Taken>, Error> {
    let ids = insert::insert_in_order(conn, jobs).await?;
    let given = given(jobs, &ids);
    if !lock(conn, keys.iter().map(|key| (key, Some(&given[key.place])))).await? {
        return Ok(None);
    }
    note(conn, &given).await?;
    Ok(Some(Taken { new: ids.into_iter().enumerate().collect(), holders: Vec::new() }))
}

/// The keys of new jobs.
fn given<'a>(jobs: &[&'a NewJob], ids: &[i64]) -> Vec<Given<'a>> {
    let given = jobs.iter().zip(ids).map(|(job, &job_id)| {
        let rule = job.rule();
        let at_least_us = rule.at_least.map(micros);
        Given { kind: &job.kind, key: &rule.key, job_id, until: rule.until.word(), fence: 0, at_least_us }
    });
    given.collect()
}

/// Locks keys. Those that are new go to these jobs. Returns whether all of them are new.
async fn lock<'a>(
    conn: &mut MySqlConnection,
    keys: impl Iterator<Item = (&'a Key<'a>, Option<&'a Given<'a>>)>,
) -> Result<bool, Error> {
    let keys: Vec<_> = keys.collect();
    let locked = LOCK.write(conn, &keys, |arguments, (key, given)| {
        arguments.add(key.kind)?;
        arguments.add(key.key)?;
        arguments.add(given.map_or(0, |given| given.job_id))?;
        arguments.add(given.map_or("end", |given| given.until))?;
        arguments.add(given.and_then(|given| given.at_least_us))
    });
    match locked.await {
        Err(Error::Database(error)) if is_null_refused(&*error) => {
            insert::step(conn, Whose::Callers).await.map_err(Refused::into_error)?;
            Err(Error::Database(error))
        }
        last => Ok(last?.into_iter().all(|last| last == 0)),
    }
}

async fn note(conn: &mut MySqlConnection, keys: &[Given<'_>]) -> Result<(), Error> {
    let noted = NOTE.write(conn, keys, |arguments, given| {
        arguments.add(given.job_id)?;
        arguments.add(given.kind)?;
        arguments.add(given.key)?;
        arguments.add(given.until)
    });
    noted.await.map(drop)
}
