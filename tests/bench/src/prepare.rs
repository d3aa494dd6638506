//! An empty database for every run, so that none is measured beside what another left.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection};

use crate::database::{Db, Engine, each, url};

/// What `queue-bench prepare` can do.
pub(crate) async fn run(what: &str) -> Result<Value> {
    match what {
        "database" => anew().await,
        "version" => version().await,
        other => bail!("`prepare` does `database` and `version`, not `{other}`"),
    }
}

/// What the database says of itself.
async fn version() -> Result<Value> {
    let db = Db::connect().await?;
    let sql = db.engine().pick("SELECT version()", "SELECT version()", "SELECT 'SQLite ' || sqlite_version()");
    let version: String = each!(&db, pool => sqlx::query_scalar(sql).fetch_one(pool).await)?;
    Ok(Value::String(version))
}

/// Drops and creates the database in `BENCH_URL`. Its name must begin with `queue_bench`, so that no other database is
/// lost.
async fn anew() -> Result<Value> {
    let (engine, url) = url()?;
    let (server, name) = url.rsplit_once('/').context("BENCH_URL names no database")?;
    let harmless =
        name.starts_with("queue_bench") && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b));
    anyhow::ensure!(harmless, "the name of the database to be dropped must begin with queue_bench, not be `{name}`");
    match engine {
        Engine::Postgres => {
            let mut admin = PgConnection::connect(&format!("{server}/postgres")).await?;
            admin.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))).await?;
            admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
            admin.execute("CHECKPOINT").await?;
        }
        Engine::MySql => {
            let mut admin = MySqlConnection::connect(&format!("{server}/mysql")).await?;
            admin.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).await?;
            admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        }
        Engine::Sqlite => {
            let file = url.trim_start_matches("sqlite:");
            let file = file.strip_prefix("//").unwrap_or(file);
            for suffix in ["", "-wal", "-shm"] {
                match std::fs::remove_file(format!("{file}{suffix}")) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                    _ => {}
                }
            }
        }
    }
    Ok(Value::Null)
}
