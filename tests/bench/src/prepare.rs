//! An empty database for every run, so that none is measured beside what another left.

use anyhow::{Context, Result};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection};

use crate::{Engine, url};

/// Drops and creates the database that `BENCH_URL` names; its name must be `queue_bench`, so that nothing of worth is lost.
pub(crate) async fn run() -> Result<Value> {
    let (engine, url) = url()?;
    let (server, name) = url.rsplit_once('/').context("BENCH_URL names no database")?;
    anyhow::ensure!(
        engine == Engine::Sqlite || name == "queue_bench",
        "the database to be dropped must be called queue_bench"
    );
    let drop = "DROP DATABASE IF EXISTS queue_bench";
    match engine {
        Engine::Postgres => {
            let mut admin = PgConnection::connect(&format!("{server}/postgres")).await?;
            admin.execute(AssertSqlSafe(format!("{drop} WITH (FORCE)"))).await?;
            admin.execute("CREATE DATABASE queue_bench").await?;
            admin.execute("CHECKPOINT").await?;
        }
        Engine::MySql => {
            let mut admin = MySqlConnection::connect(&format!("{server}/mysql")).await?;
            admin.execute(drop).await?;
            admin.execute("CREATE DATABASE queue_bench").await?;
        }
        Engine::Sqlite => {
            let file = url.trim_start_matches("sqlite://");
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
