//! INSERTs on MySQL and MariaDB, where no statement returns the generated ids.

use std::borrow::Borrow;

use sqlx::error::{BoxDynError, DatabaseError};
use sqlx::mysql::{MySqlArguments, MySqlDatabaseError};
use sqlx::{Arguments, Error, MySql, MySqlConnection};

use crate::store::engine::connection::savepoint::Together;
use crate::store::engine::driver::{Cells, Driver, assembled, rows};
use crate::store::engine::jobs::enqueue::fitting;
use crate::store::engine::statement::sql;
use crate::store::mysql::settings;
use crate::store::values::{NewJob, Whose};

/// The most jobs in one INSERT.
pub(super) const CHUNK: usize = 1_000;

/// The most bytes of arguments in one INSERT.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// When a job is due, by its time or its delay.
const RUN_AT: &str = "COALESCE(TIMESTAMP('1970-01-01') + INTERVAL ? MICROSECOND, \
     UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, UTC_TIMESTAMP(6))";

/// Why jobs were not written.
pub(super) enum Refused {
    /// The session would not commit them.
    NotCommitted,
    Error(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Refused {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Error(error) => error,
            Self::NotCommitted => Error::Protocol("the session does not commit".into()),
        }
    }
}

/// Writes nothing in a session that would change or lose the jobs.
pub(super) async fn insert(conn: &mut MySqlConnection, jobs: &[NewJob], whose: Whose) -> Result<Vec<i64>, Refused> {
    if let [job @ NewJob { meta: None, .. }] = jobs {
        let binds = job.binds();
        let sql = match (job.is_due_now(), whose) {
            (true, Whose::Pools) => sql!("mysql", "enqueue", "insert_one"),
            (true, Whose::Callers | Whose::InTransaction) => sql!("mysql", "enqueue", "insert_one_part"),
            (false, Whose::Pools) => sql!("mysql", "enqueue", "insert_one_later"),
            (false, Whose::Callers | Whose::InTransaction) => sql!("mysql", "enqueue", "insert_one_later_part"),
        };
        let (sql, arguments) = MySql::prepare(sql, &binds)?;
        return match MySql::insert_row(conn, sql, arguments).await {
            Ok(id) => Ok(vec![id]),
            Err(Error::Database(error)) if is_null_refused(&*error) => {
                step(conn, whose).await?;
                Err(Refused::Error(Error::Database(error)))
            }
            Err(error) => Err(error.into()),
        };
    }
    let step = step(conn, whose).await?;
    if fitting(jobs, chunk_of(jobs.len()), CHUNK_BYTES) == jobs.len() {
        let first = insert_chunk(conn, jobs).await?;
        return Ok((0..jobs.len() as i64).map(|n| first + n * step).collect());
    }
    let mut together = Together::<MySql>::begin(conn, whose).await?;
    let ids = insert_chunks(together.connection(), jobs, step).await;
    Ok(together.end(ids).await?)
}

/// "The column cannot be NULL": our own statements raise this in a session in which jobs must not be written.
pub(super) fn is_null_refused(error: &dyn DatabaseError) -> bool {
    error.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|error| error.number() == 1048)
}

/// The step between the ids of one statement: more than 1 in clusters. Fails in a session in which jobs must not be
/// written.
pub(super) async fn step(conn: &mut MySqlConnection, whose: Whose) -> Result<i64, Refused> {
    let rows = rows::<MySql>(conn, settings::SESSION, &[]).await?;
    // there is no row if `sql_select_limit = 0`
    let Some(row) = rows.first() else { return Err(Error::Configuration(settings::NOT_TO_READ.into()).into()) };
    if row.int(1)? == 0 {
        return Err(Error::Configuration(settings::NOT_TO_WRITE.into()).into());
    }
    if whose == Whose::Pools && row.int(2)? == 0 {
        return Err(Refused::NotCommitted);
    }
    Ok(row.int(0)?)
}

/// Inserts any number of jobs, in a transaction that was found fit for it. Returns their ids, in their order.
pub(super) async fn insert_in_order(conn: &mut MySqlConnection, jobs: &[&NewJob]) -> Result<Vec<i64>, Error> {
    let step = match jobs {
        [] | [_] => 1,
        _ => step(conn, Whose::InTransaction).await.map_err(Refused::into_error)?,
    };
    insert_chunks(conn, jobs, step).await
}

pub(super) async fn insert_chunks<J: Borrow<NewJob>>(
    conn: &mut MySqlConnection,
    jobs: &[J],
    step: i64,
) -> Result<Vec<i64>, Error> {
    let mut all = Vec::with_capacity(jobs.len());
    let mut rest = jobs;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(fitting(rest, chunk_of(rest.len()), CHUNK_BYTES));
        let first = insert_chunk(conn, chunk).await?;
        all.extend((0..chunk.len() as i64).map(|n| first + n * step));
        rest = later;
    }
    Ok(all)
}

/// How many of `jobs` rows go into one statement: one of a few sizes.
pub(super) fn chunk_of(jobs: usize) -> usize {
    [CHUNK, 512, 256, 128, 64, 32].into_iter().find(|size| *size <= jobs).unwrap_or(jobs)
}

pub(super) async fn insert_chunk<J: Borrow<NewJob>>(conn: &mut MySqlConnection, jobs: &[J]) -> Result<i64, Error> {
    let all = || jobs.iter().map(Borrow::borrow);
    // defaults of the columns need not be sent with every row
    let plain = all().all(|job| job.queue == "default" && job.priority == 0 && job.is_due_now());
    let later = all().any(|job| !job.is_due_now());
    let marked = all().any(|job| job.unique.is_some());
    let has_meta = all().any(|job| job.meta.is_some());
    let mut columns = vec![("kind", "?"), ("max_retries", "?"), ("args", "?")];
    if !plain {
        columns.extend([("queue", "?"), ("priority", "?")]);
    }
    if !plain && (marked || later) {
        columns.push(("run_at", RUN_AT));
    }
    if marked {
        columns.push(("features", "?"));
    }
    if has_meta {
        columns.push(("meta", "?"));
    }
    let (names, places): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let head = format!("INSERT INTO queue_jobs ({}) VALUES ", names.join(", "));
    let rows = Rows { head: &head, row: &format!("({})", places.join(", ")), tail: "" };
    rows.write_part(conn, jobs, |arguments, job| {
        let job = job.borrow();
        arguments.add(&*job.kind)?;
        arguments.add(job.max_retries)?;
        arguments.add(job.args.as_str())?;
        if !plain {
            arguments.add(&*job.queue)?;
            arguments.add(job.priority)?;
        }
        if !plain && (marked || later) {
            arguments.add(job.run_at_us)?;
            arguments.add(job.delay_us)?;
        }
        if marked {
            arguments.add(job.features())?;
        }
        if has_meta {
            arguments.add(job.meta.as_deref())?;
        }
        Ok(())
    })
    .await
}

/// A statement with a row of values for each element of a list.
pub(super) struct Rows<'a> {
    pub(super) head: &'a str,
    pub(super) row: &'a str,
    pub(super) tail: &'a str,
}

impl Rows<'_> {
    /// Returns the last insert id of each part of the list.
    pub(super) async fn write<T>(
        &self,
        conn: &mut MySqlConnection,
        mut list: &[T],
        add: impl Fn(&mut MySqlArguments, &T) -> Result<(), BoxDynError>,
    ) -> Result<Vec<i64>, Error> {
        let mut last = Vec::new();
        while !list.is_empty() {
            let (part, later) = list.split_at(chunk_of(list.len()));
            last.push(self.write_part(conn, part, &add).await?);
            list = later;
        }
        Ok(last)
    }

    async fn write_part<T>(
        &self,
        conn: &mut MySqlConnection,
        list: &[T],
        add: impl Fn(&mut MySqlArguments, &T) -> Result<(), BoxDynError>,
    ) -> Result<i64, Error> {
        let Self { head, row, tail } = self;
        let mut sql = String::with_capacity(head.len() + (row.len() + 2) * list.len() + tail.len());
        sql.push_str(head);
        let mut arguments = MySqlArguments::default();
        for (number, it) in list.iter().enumerate() {
            sql.push_str(if number == 0 { "" } else { ", " });
            sql.push_str(row);
            add(&mut arguments, it).map_err(Error::Encode)?;
        }
        sql.push_str(tail);
        // Kept prepared, because there are few sizes. The server does not answer when a statement is closed: the next
        // one may then wait 40 ms for the network's delayed acknowledgement.
        let kept = list.len() == chunk_of(list.len());
        let query = sqlx::query_with(assembled(sql), arguments).persistent(kept);
        Ok(query.execute(conn).await?.last_insert_id().cast_signed())
    }
}
