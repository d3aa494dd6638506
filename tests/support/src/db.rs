//! A test's own connection to the database under test: the tables as any SQL client sees them.

use std::collections::HashMap;

use queue::{Enqueue, Job, JobId};
use sqlx::{AssertSqlSafe, MySqlPool, PgPool, SqlitePool};

use crate::{Engine, TestDb};

/// A pool of the engine under test.
#[derive(Clone, Debug)]
pub enum Db {
    /// SQLite.
    Sqlite(SqlitePool),
    /// PostgreSQL.
    Postgres(PgPool),
    /// MySQL or MariaDB.
    MySql(MySqlPool),
}

/// SQL: some sessions of MariaDB or MySQL. Each server reads its own part of the text.
/// MySQL's `information_schema.processlist` fails while any session of the server runs a statement with an emoji.
#[macro_export]
macro_rules! sessions {
    ($columns:literal, $condition:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM /*!80022 performance_schema.processlist */ /*M! information_schema.processlist */ WHERE ",
            $condition
        )
    };
}

/// The same code for each kind of pool.
#[macro_export]
macro_rules! each {
    ($db:expr, $pool:ident => $code:expr) => {
        match $db {
            $crate::Db::Sqlite($pool) => $code,
            $crate::Db::Postgres($pool) => $code,
            $crate::Db::MySql($pool) => $code,
        }
    };
}

/// A row of `queue_history`, `queue_dead` or `queue_jobs`.
#[derive(Clone, Debug)]
pub struct Row {
    /// `completed`, `cancelled`, `dead`, `waiting` or `running`.
    pub state: String,
    /// Attempts counted so far.
    pub attempt: i64,
    /// The number of the last claim.
    pub fence: i64,
    /// The worker that holds it or held it last; 0 for none.
    pub worker: i64,
    /// Of a dead letter, or the reason of a cancellation.
    pub error: String,
    /// JSON, as it was written.
    pub args: String,
}

/// A row of `queue_attempts`.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The number of the claim.
    pub fence: i64,
    /// The number of the attempt.
    pub attempt: i64,
    /// Whose it was.
    pub worker: i64,
    /// How it ended.
    pub outcome: String,
}

/// Everything in the tables.
#[derive(Debug, Default)]
pub struct Tables {
    /// By job: where it is, as a list, since a job in two tables is a mistake to be found.
    pub jobs: HashMap<i64, Vec<Row>>,
    /// By job, in the order of the leases.
    pub attempts: HashMap<i64, Vec<Attempt>>,
    /// Process numbers by worker number.
    pub processes: HashMap<i64, i64>,
}

impl Db {
    /// Six connections.
    ///
    /// # Panics
    /// When the database cannot be reached.
    pub async fn open(db: &TestDb) -> Self {
        match db.engine() {
            Engine::Sqlite => Self::Sqlite(db.sqlite_pool(6).await),
            Engine::Postgres => Self::Postgres(db.pg_pool(6).await),
            Engine::MariaDb | Engine::MySql => Self::MySql(db.mysql_pool(6).await),
        }
    }

    /// Brings the schema up to date.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn migrate(&self) {
        each!(self, pool => queue::migrate(pool).await).expect("an empty database takes the schema");
    }

    /// Enqueues a job, with options or without.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn enqueue<J: Job>(&self, job: impl Into<Enqueue<J>>) -> JobId {
        let job = job.into();
        each!(self, pool => job.enqueue(pool).await).expect("enqueued")
    }

    /// Enqueues jobs in one go.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn enqueue_all<J: Job>(&self, jobs: Vec<J>) -> Vec<i64> {
        let ids = each!(self, pool => queue::enqueue_all(pool, jobs).await).expect("enqueued");
        ids.into_iter().map(JobId::get).collect()
    }

    /// How many rows a table has.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn count(&self, table: &str) -> i64 {
        let sql = AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}"));
        each!(self, pool => sqlx::query_scalar(sql).fetch_one(pool).await).expect("a count")
    }

    /// The one number that a query asks for.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        each!(self, pool => sqlx::query_scalar(sql).fetch_one(pool).await).expect("a number")
    }

    /// Reads all tables.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn tables(&self) -> Tables {
        type Cells = (i64, String, i64, i64, i64, String, String);
        // The engines' integers differ in width, and their decoders insist on it.
        let (int, text) = match self {
            Self::MySql(_) => ("SIGNED", "CHAR"),
            _ => ("BIGINT", "TEXT"),
        };
        let row = |table: &str, state: &str, error: &str| {
            AssertSqlSafe(format!(
                "SELECT id, {state}, CAST(attempt AS {int}), CAST(fence AS {int}), worker_id, \
                 COALESCE({error}, ''), CAST(args AS {text}) FROM {table}"
            ))
        };
        let mut tables = Tables::default();
        for sql in [
            row("queue_history", "state", "error"),
            row("queue_dead", "'dead'", "error"),
            row("queue_jobs", "CASE WHEN worker_id = 0 THEN 'waiting' ELSE 'running' END", "NULL"),
        ] {
            let rows: Vec<Cells> = each!(self, pool => sqlx::query_as(sql).fetch_all(pool).await).expect("rows");
            for (id, state, attempt, fence, worker, error, args) in rows {
                let row = Row { state, attempt, fence, worker, error, args };
                tables.jobs.entry(id).or_default().push(row);
            }
        }
        let sql = AssertSqlSafe(format!(
            "SELECT job_id, CAST(fence AS {int}), CAST(attempt AS {int}), worker_id, outcome FROM queue_attempts \
             ORDER BY job_id, fence"
        ));
        let rows: Vec<(i64, i64, i64, i64, String)> =
            each!(self, pool => sqlx::query_as(sql).fetch_all(pool).await).expect("rows");
        for (job, fence, attempt, worker, outcome) in rows {
            let attempt = Attempt { fence, attempt, worker, outcome };
            tables.attempts.entry(job).or_default().push(attempt);
        }
        let sql = "SELECT id, pid FROM queue_workers";
        let rows: Vec<(i64, i64)> = each!(self, pool => sqlx::query_as(sql).fetch_all(pool).await).expect("rows");
        tables.processes = rows.into_iter().collect();
        tables
    }
}
