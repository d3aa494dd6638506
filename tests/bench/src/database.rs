//! The database under test, in plain SQL: what the benchmark itself asks and writes.

use anyhow::{Context, Result, bail};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, MySql, MySqlPool, PgPool, Postgres, Row, Sqlite, SqlitePool};

/// What kind of database it is. MariaDB counts as MySQL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Postgres,
    MySql,
    Sqlite,
}

impl Engine {
    /// The one of three texts that is for this engine.
    pub(crate) fn pick<T>(self, postgres: T, mysql: T, sqlite: T) -> T {
        match self {
            Self::Postgres => postgres,
            Self::MySql => mysql,
            Self::Sqlite => sqlite,
        }
    }
}

pub(crate) fn url() -> Result<(Engine, String)> {
    let url = std::env::var("BENCH_URL").context("set BENCH_URL to the database to measure")?;
    let engine = match url.split(':').next() {
        Some("postgres" | "postgresql") => Engine::Postgres,
        Some("mysql") => Engine::MySql,
        Some("sqlite") => Engine::Sqlite,
        _ => bail!("BENCH_URL must start with postgres:, mysql: or sqlite:"),
    };
    Ok((engine, url))
}

/// A pool.
#[derive(Clone)]
pub(crate) enum Db {
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

/// The same for each engine, with its own types.
macro_rules! each {
    ($db:expr, $pool:ident => $body:expr) => {
        match $db {
            $crate::database::Db::Postgres($pool) => $body,
            $crate::database::Db::MySql($pool) => $body,
            $crate::database::Db::Sqlite($pool) => $body,
        }
    };
}
pub(crate) use each;

impl Db {
    /// A pool of sqlx's own default size.
    pub(crate) async fn connect() -> Result<Db> {
        Self::connect_with(&[]).await
    }

    /// A pool of that size to the same kind of database at another address.
    pub(crate) async fn connect_to(url: &str) -> Result<Db> {
        Self::open(url, &[]).await
    }

    /// A pool whose SQLite connections get these pragmas too.
    pub(crate) async fn connect_with(pragmas: &[(&'static str, &'static str)]) -> Result<Db> {
        Self::open(&url()?.1, pragmas).await
    }

    async fn open(url: &str, pragmas: &[(&'static str, &'static str)]) -> Result<Db> {
        let (engine, _) = self::url()?;
        Ok(match engine {
            Engine::Postgres => Self::Postgres(PgPoolOptions::new().connect(url).await?),
            Engine::MySql => Self::MySql(MySqlPoolOptions::new().connect(url).await?),
            Engine::Sqlite => {
                let options: SqliteConnectOptions = url.parse()?;
                let mut options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
                for (name, value) in pragmas {
                    options = options.pragma(*name, *value);
                }
                Self::Sqlite(SqlitePoolOptions::new().connect_with(options).await?)
            }
        })
    }

    pub(crate) fn engine(&self) -> Engine {
        match self {
            Self::Postgres(_) => Engine::Postgres,
            Self::MySql(_) => Engine::MySql,
            Self::Sqlite(_) => Engine::Sqlite,
        }
    }

    /// Runs statements, outside a transaction unless they begin one.
    pub(crate) async fn run(&self, sql: impl Into<String>) -> Result<()> {
        let sql = sql.into();
        each!(self, pool => sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(pool).await.map(drop))
            .with_context(|| sql)
    }

    /// One whole number.
    pub(crate) async fn number(&self, sql: impl Into<String>) -> Result<i64> {
        let sql = sql.into();
        let found: Option<i64> =
            each!(self, pool => sqlx::query_scalar(AssertSqlSafe(sql.clone())).fetch_one(pool).await)
                .with_context(|| sql)?;
        Ok(found.unwrap_or(0))
    }

    /// A counter of a MySQL or MariaDB server.
    pub(crate) async fn status(&self, name: &str) -> Result<i64> {
        let Self::MySql(pool) = self else { return Ok(0) };
        let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_optional(pool).await?;
        Ok(row.map(|row| row.try_get::<String, _>(1)).transpose()?.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// A connection of its own, to hold a transaction open.
    pub(crate) async fn session(&self) -> Result<Session> {
        Ok(match self {
            Self::Postgres(pool) => Session::Postgres(pool.acquire().await?),
            Self::MySql(pool) => Session::MySql(pool.acquire().await?),
            Self::Sqlite(pool) => Session::Sqlite(pool.acquire().await?),
        })
    }

    /// The database's clock, in microseconds since 1970.
    pub(crate) async fn now_us(&self) -> Result<i64> {
        self.number(self.engine().pick(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
            "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
            "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000",
        ))
        .await
    }

    /// Counts the jobs with a completion time between the two. It reads only the index: checking each row's state would
    /// read the whole history from disk during the measurement.
    pub(crate) async fn finished_between(&self, from_us: i64, to_us: i64) -> Result<i64> {
        let at = |us: i64| {
            self.engine().pick(
                format!("to_timestamp({us} / 1000000.0)"),
                format!("'1970-01-01' + INTERVAL {us} MICROSECOND"),
                (us / 1000).to_string(),
            )
        };
        let (from, to) = (at(from_us), at(to_us));
        self.number(format!("SELECT count(*) FROM queue_history WHERE finished_at >= {from} AND finished_at < {to}"))
            .await
    }

    /// From the start of the first job to the end of the last, by the database's clock, in microseconds.
    pub(crate) async fn span_us(&self) -> Result<i64> {
        self.number(self.engine().pick(
            "SELECT (extract(epoch FROM max(finished_at) - min(started_at)) * 1000000)::bigint FROM queue_history",
            "SELECT TIMESTAMPDIFF(MICROSECOND, MIN(started_at), MAX(finished_at)) FROM queue_history",
            "SELECT (max(finished_at) - min(started_at)) * 1000 FROM queue_history",
        ))
        .await
    }
}

/// One connection.
pub(crate) enum Session {
    Postgres(PoolConnection<Postgres>),
    MySql(PoolConnection<MySql>),
    Sqlite(PoolConnection<Sqlite>),
}

impl Session {
    pub(crate) async fn run(&mut self, sql: &'static str) -> Result<()> {
        match self {
            Self::Postgres(connection) => sqlx::raw_sql(sql).execute(&mut **connection).await.map(drop),
            Self::MySql(connection) => sqlx::raw_sql(sql).execute(&mut **connection).await.map(drop),
            Self::Sqlite(connection) => sqlx::raw_sql(sql).execute(&mut **connection).await.map(drop),
        }
        .context(sql)
    }

    /// Opens a transaction that goes on seeing the database as it is now.
    pub(crate) async fn pin(&mut self) -> Result<()> {
        match self {
            Self::Postgres(_) => {
                self.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queue_workers").await
            }
            Self::MySql(_) => {
                self.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
                self.run("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
                self.run("SELECT count(*) FROM queue_workers").await
            }
            Self::Sqlite(_) => {
                self.run("BEGIN").await?;
                self.run("SELECT count(*) FROM queue_workers").await
            }
        }
    }
}
