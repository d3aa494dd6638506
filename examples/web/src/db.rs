//! The shop's own table, on the database that `DATABASE_URL` names.

use std::str::FromStr;

use queue::admin::Admin;
use queue::{Job, JobId};
use sqlx::mysql::MySqlPool;
use sqlx::postgres::PgPool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

use crate::jobs::ConfirmOrder;

/// A pool of one of the engines. (A real service knows its engine and has only one type of pool.)
#[derive(Clone)]
pub enum Db {
    /// A file.
    Sqlite(SqlitePool),
    /// PostgreSQL.
    Postgres(PgPool),
    /// MySQL or MariaDB.
    MySql(MySqlPool),
}

/// Runs the same code with the pool of any engine.
macro_rules! with_pool {
    ($db:expr, $pool:ident => $body:expr) => {
        match $db {
            Db::Sqlite($pool) => $body,
            Db::Postgres($pool) => $body,
            Db::MySql($pool) => $body,
        }
    };
}

/// Counts of orders.
#[derive(Debug, PartialEq, serde::Serialize)]
pub struct Orders {
    /// All of them.
    pub placed: i64,
    /// Those that were confirmed.
    pub confirmed: i64,
    /// None, or the job is not idempotent.
    pub confirmed_twice: i64,
}

impl Db {
    /// Connects to the database in `DATABASE_URL` (default: `shop.sqlite`).
    pub async fn open() -> anyhow::Result<Self> {
        Self::connect(&std::env::var("DATABASE_URL").unwrap_or_else(|_| "sqlite://shop.sqlite".to_owned())).await
    }

    /// Connects to a database, and creates or updates the library's tables and the shop's. Any number of processes may
    /// do so at once.
    pub async fn connect(url: &str) -> anyhow::Result<Self> {
        let db = match url.split(':').next() {
            Some("postgres" | "postgresql") => Self::Postgres(PgPool::connect(url).await?),
            Some("mysql" | "mariadb") => Self::MySql(MySqlPool::connect(url).await?),
            Some("sqlite") => {
                let file = SqliteConnectOptions::from_str(url)?.create_if_missing(true);
                Self::Sqlite(SqlitePool::connect_with(file).await?)
            }
            _ => anyhow::bail!("DATABASE_URL must start with sqlite:, postgres: or mysql:"),
        };
        with_pool!(&db, pool => {
            queue::migrate(pool).await?;
            let table = "CREATE TABLE IF NOT EXISTS shop_orders (
                id varchar(32) NOT NULL PRIMARY KEY,
                item varchar(200) NOT NULL,
                confirmations integer NOT NULL DEFAULT 0
            )";
            // on PostgreSQL, one of two concurrent processes may fail here, and succeeds on its second try
            if sqlx::query(table).execute(pool).await.is_err() {
                sqlx::query(table).execute(pool).await?;
            }
        });
        Ok(db)
    }

    /// Writes an order and the job that confirms it, in one transaction: both or neither. The id of the request goes with
    /// the job.
    pub async fn place(&self, item: &str, request_id: &str) -> Result<(String, JobId), queue::Error> {
        let order = format!("order-{:016x}", fastrand::u64(..));
        let sql = self.sql(
            "INSERT INTO shop_orders (id, item) VALUES ($1, $2)",
            "INSERT INTO shop_orders (id, item) VALUES (?, ?)",
        );
        let job = with_pool!(self, pool => {
            let mut tx = pool.begin().await.map_err(failed)?;
            sqlx::query(sql).bind(&order).bind(item).execute(&mut *tx).await.map_err(failed)?;
            let job = ConfirmOrder::new(&order).meta("request_id", request_id).enqueue(&mut tx).await?;
            tx.commit().await.map_err(failed)?;
            job
        });
        Ok((order, job))
    }

    /// Confirms an order. False if it was confirmed before, or does not exist.
    pub async fn confirm(&self, order: &str) -> Result<bool, sqlx::Error> {
        let sql = self.sql(
            "UPDATE shop_orders SET confirmations = confirmations + 1 WHERE id = $1 AND confirmations = 0",
            "UPDATE shop_orders SET confirmations = confirmations + 1 WHERE id = ? AND confirmations = 0",
        );
        let rows = with_pool!(self, pool => sqlx::query(sql).bind(order).execute(pool).await?.rows_affected());
        Ok(rows == 1)
    }

    /// Counts the orders.
    pub async fn orders(&self) -> Result<Orders, sqlx::Error> {
        let sql = "SELECT COUNT(*), COUNT(CASE WHEN confirmations > 0 THEN 1 END), \
                   COUNT(CASE WHEN confirmations > 1 THEN 1 END) FROM shop_orders";
        let (placed, confirmed, confirmed_twice) = with_pool!(self, pool => sqlx::query_as(sql).fetch_one(pool).await?);
        Ok(Orders { placed, confirmed, confirmed_twice })
    }

    /// Administration of the jobs.
    pub fn admin(&self) -> Admin {
        with_pool!(self, pool => Admin::new(pool))
    }

    /// A worker on this database.
    pub fn worker(&self) -> queue::WorkerBuilder {
        with_pool!(self, pool => queue::Worker::builder(pool))
    }

    /// Placeholders are `$1` on PostgreSQL and SQLite, and `?` on MySQL.
    fn sql(&self, numbered: &'static str, question_marks: &'static str) -> &'static str {
        match self {
            Self::MySql(_) => question_marks,
            Self::Postgres(_) | Self::Sqlite(_) => numbered,
        }
    }
}

/// Reports an error of our own statements as one of the library.
fn failed(source: sqlx::Error) -> queue::Error {
    queue::Error::Database { doing: "cannot write the order".to_owned(), source }
}
