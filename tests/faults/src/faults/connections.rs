//! Connections are taken away, by somebody or by others who want them too.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use queue_test_servers::{Durability, Settings};
use queue_test_support::Db;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, PgConnection};
use tokio::time::sleep;

use super::Ground;
use crate::crew::Mortal;
use crate::load::Mix;
use crate::scene::Scene;

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

/// Ends every connection to the database but the one that does it.
async fn terminate_all(scene: &Scene) -> Result<usize> {
    match &scene.db {
        Db::Postgres(pool) => {
            let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
            Ok(sqlx::query_scalar::<_, bool>(sql).fetch_all(pool).await?.len())
        }
        Db::MySql(pool) => {
            let mut connection = pool.acquire().await?;
            let sql = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
                       WHERE db = DATABASE() AND id <> CONNECTION_ID()";
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

/// Few, so that taking them all is soon done.
const CONNECTIONS: u32 = 40;

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
        hoard.fill(scene.url()).await;
        // whoever takes its place finds its connections taken
        crew.kill(unlucky)?;
        hoard.fill(scene.url()).await;
        most = most.max(hoard.len());
        let time = scene.span(Duration::from_secs(3), Duration::from_secs(20));
        crew.work(time).await?;
        drop(hoard);
        crew.work(Duration::from_secs(1)).await?;
    }
    if most == 0 {
        bail!("others took no connection: this shows nothing");
    }
    scene.judge(Some(load), crew).await?;
    scene.note(format!("others held {most} of {CONNECTIONS} connections"));
    Ok(scene.notes)
}

/// Connections that somebody else holds.
#[derive(Default)]
struct Hoard {
    postgres: Vec<PgConnection>,
    mysql: Vec<MySqlConnection>,
}

impl Hoard {
    /// Takes what there is, and what becomes free for a while.
    async fn fill(&mut self, url: &str) {
        let end = Instant::now() + Duration::from_millis(400);
        while Instant::now() < end {
            let taken = if url.starts_with("postgres") {
                PgConnection::connect(url).await.map(|it| self.postgres.push(it)).is_ok()
            } else {
                MySqlConnection::connect(url).await.map(|it| self.mysql.push(it)).is_ok()
            };
            if !taken {
                sleep(Duration::from_millis(10)).await;
            }
        }
    }

    fn len(&self) -> usize {
        self.postgres.len() + self.mysql.len()
    }
}
