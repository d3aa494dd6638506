//! INSERTs on MySQL and MariaDB, where no statement returns the generated ids.

use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlArguments, MySqlDatabaseError};
use sqlx::{Arguments, AssertSqlSafe, Error, MySql, MySqlConnection};

use crate::store::engine::dialect::{Cells, Dialect, rows};
use crate::store::engine::insert::fitting;
use crate::store::engine::savepoint::Together;
use crate::store::mysql::settings;
use crate::store::values::NewJob;
use crate::store::values::Whose;

/// The most jobs in one INSERT.
pub(super) const CHUNK: usize = 1_000;

/// The most bytes of arguments in one INSERT.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

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
    if let [job] = jobs
        && job.features.is_none()
    {
        let binds = job.binds();
        let sql = match (job.is_due_now(), whose) {
            (true, Whose::Pools) => include_str!("sql/insert_one.sql"),
            (true, Whose::Callers | Whose::InTransaction) => include_str!("sql/insert_one_part.sql"),
            (false, Whose::Pools) => include_str!("sql/insert_one_later.sql"),
            (false, Whose::Callers | Whose::InTransaction) => include_str!("sql/insert_one_later_part.sql"),
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

pub(super) async fn insert_chunks(conn: &mut MySqlConnection, jobs: &[NewJob], step: i64) -> Result<Vec<i64>, Error> {
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

pub(super) async fn insert_chunk(conn: &mut MySqlConnection, jobs: &[NewJob]) -> Result<i64, Error> {
    // defaults of the columns need not be sent with every row
    let plain = jobs.iter().all(|job| job.queue == "default" && job.priority == 0 && job.is_due_now());
    let later = jobs.iter().any(|job| !job.is_due_now());
    let marked = jobs.iter().any(|job| !job.features.is_none());
    let (columns, row) = if marked {
        (
            "kind, max_retries, args, queue, priority, run_at, features",
            "(?, ?, ?, ?, ?, COALESCE(TIMESTAMP('1970-01-01') + INTERVAL ? MICROSECOND, \
             UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, UTC_TIMESTAMP(6)), ?)",
        )
    } else if plain {
        ("kind, max_retries, args", "(?, ?, ?)")
    } else if later {
        (
            "kind, max_retries, args, queue, priority, run_at",
            "(?, ?, ?, ?, ?, COALESCE(TIMESTAMP('1970-01-01') + INTERVAL ? MICROSECOND, \
             UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, UTC_TIMESTAMP(6)))",
        )
    } else {
        ("kind, max_retries, args, queue, priority", "(?, ?, ?, ?, ?)")
    };
    let mut sql = format!("INSERT INTO queue_jobs ({columns}) VALUES ");
    let mut arguments = MySqlArguments::default();
    for (number, job) in jobs.iter().enumerate() {
        sql.push_str(if number == 0 { "" } else { ", " });
        sql.push_str(row);
        let mut add = || {
            arguments.add(&*job.kind)?;
            arguments.add(job.max_retries)?;
            arguments.add(job.args.as_str())?;
            if marked || !plain {
                arguments.add(&*job.queue)?;
                arguments.add(job.priority)?;
            }
            if marked || later {
                arguments.add(job.run_at_us)?;
                arguments.add(job.delay_us)?;
            }
            if marked {
                arguments.add(i64::from(job.features))?;
            }
            Ok(())
        };
        add().map_err(Error::Encode)?;
    }
    // Kept prepared, because there are few sizes. The server does not answer when a statement is closed: the next one
    // may then wait 40 ms for the network's delayed acknowledgement.
    let kept = jobs.len() == chunk_of(jobs.len());
    let query = sqlx::query_with(AssertSqlSafe(sql), arguments).persistent(kept);
    Ok(query.execute(conn).await?.last_insert_id().cast_signed())
}
