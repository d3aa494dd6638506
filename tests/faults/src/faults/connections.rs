//! Connections are terminated, or used up by other clients.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use queue_test_servers::{Durability, Settings};
use queue_test_support::Db;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, PgConnection};
use tokio::time::sleep;

use super::Ground;
use crate::crew::Mortal;
use crate::load::Mix;
use crate::scene::Scene;

/// P1, P23.
pub(super) async fn terminated(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker())?;
    crew.ready().await?;
    let load = scene.load(None, &Mix::usual())?;
    crew.work(Duration::from_secs(1)).await?;
    let (rounds, mut ended) = (scene.rounds(12, 300), 0);
    for _ in 0..rounds {
        ended += terminate_all(&scene).await?;
        let pause = scene.between(Duration::from_millis(100), Duration::from_millis(500));
        crew.work(pause).await?;
    }
    if ended == 0 {
        bail!("there was no connection to terminate: this shows nothing");
    }
    scene.judge(Some(load), crew).await?;
    scene.note(format!("{ended} connections terminated in {rounds} rounds"));
    Ok(scene.notes)
}

/// Ends every connection to the database except its own.
async fn terminate_all(scene: &Scene) -> Result<usize> {
    match &scene.db {
        Db::Postgres(pool) => {
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
            Ok(sqlx::query_scalar::<_, bool>(sql).fetch_all(pool).await?.len())
        }
        Db::MySql(pool) => {
            let mut connection = pool.acquire().await?;
            let sql = queue_test_support::sessions!("CAST(id AS SIGNED)", "db = DATABASE() AND id <> CONNECTION_ID()");
            let ids: Vec<i64> = sqlx::query_scalar(sql).fetch_all(&mut *connection).await?;
            for id in &ids {
                // it may have ended meanwhile
                let _ = sqlx::raw_sql(AssertSqlSafe(format!("KILL {id}"))).execute(&mut *connection).await;
            }
            Ok(ids.len())
        }
        Db::Sqlite(_) => bail!("SQLite has no connections to end"),
    }
}

/// Time limit to use up all connections, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Few, so that they are used up quickly.
const CONNECTIONS: u32 = 40;

/// P23.
pub(super) async fn limit_reached(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.own(Settings::new(Durability::Process).max_connections(CONNECTIONS)).await?;
    let mut crew = scene.crew();
    // whoever takes its place may find no connection, and ends; the other one goes on
    let unlucky = crew.hire(scene.worker().mortal(Mortal::AtStart))?;
    crew.hire(scene.worker())?;
    crew.ready().await?;
    let load = scene.load(None, &Mix::usual())?;
    crew.work(Duration::from_secs(1)).await?;
    let mut most = 0;
    for _ in 0..scene.rounds(1, 20) {
        let mut hoard = Hoard::default();
        hoard.fill(scene.url()).await?;
        // whoever takes its place finds its connections taken
        crew.kill(unlucky)?;
        hoard.fill(scene.url()).await?;
        most = most.max(hoard.len());
        let time = scene.span(Duration::from_secs(3), Duration::from_secs(20));
        crew.work(time).await?;
        drop(hoard);
        crew.work(Duration::from_secs(1)).await?;
    }
    let ended = crew.ended();
    scene.judge(Some(load), crew).await?;
    scene.note(format!("others held {most} of {CONNECTIONS} connections; {ended} workers found none at their start"));
    Ok(scene.notes)
}

/// Connections of another client.
#[derive(Default)]
struct Hoard {
    postgres: Vec<PgConnection>,
    mysql: Vec<MySqlConnection>,
}

impl Hoard {
    /// Opens connections until the server refuses one, and for a while those that become free.
    ///
    /// # Errors
    /// When the server refuses none, or for another reason.
    async fn fill(&mut self, url: &str) -> Result<()> {
        let begin = Instant::now();
        let mut refused = false;
        while !refused || begin.elapsed() < Duration::from_millis(400) {
            let taken = if url.starts_with("postgres") {
                PgConnection::connect(url).await.map(|it| self.postgres.push(it))
            } else {
                MySqlConnection::connect(url).await.map(|it| self.mysql.push(it))
            };
            match taken {
                Ok(()) => ensure!(begin.elapsed() < PATIENCE, "{} connections, and none was refused", self.len()),
                Err(error) if too_many(&error) => {
                    refused = true;
                    sleep(Duration::from_millis(10)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.postgres.len() + self.mysql.len()
    }
}

/// Whether the server has no connection left.
fn too_many(error: &sqlx::Error) -> bool {
    let Some(error) = error.as_database_error() else { return false };
    let number = error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number);
    number == Some(1040) || error.code().as_deref() == Some("53300")
}
