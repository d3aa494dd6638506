//! apalis with apalis-mysql, on MySQL and on MariaDB.

use std::process::ExitCode;

use apalis::layers::WorkerBuilderExt;
use apalis::prelude::*;
use apalis_mysql::{Config, MySqlPool, MySqlStorage};
use peer_common::{MYSQL_TRAFFIC, Payload, Peer, Result, Variant, background, handle};
use sqlx::mysql::MySqlPoolOptions;

async fn bench(job: Payload) -> std::result::Result<(), BoxDynError> {
    handle(job.n).await;
    Ok(())
}

#[derive(Clone)]
struct Apalis {
    pool: MySqlPool,
    config: Config,
}

/// Installs the tables. Its own `setup` fails on MariaDB, which lacks the collation that the migrations name.
async fn migrate(pool: &MySqlPool) -> Result<()> {
    let version: String = sqlx::query_scalar("SELECT version()").fetch_one(pool).await?;
    if !version.contains("MariaDB") {
        MySqlStorage::setup(pool).await?;
        return Ok(());
    }
    for migration in MySqlStorage::migrations().iter() {
        let sql = migration.sql.replace("utf8mb4_0900_ai_ci", "utf8mb4_general_ci");
        sqlx::raw_sql(&sql).execute(pool).await?;
    }
    Ok(())
}

impl Peer for Apalis {
    async fn open(url: &str, variant: Variant) -> Result<Self> {
        let pool = MySqlPoolOptions::new().max_connections(40).min_connections(1).connect(url).await?;
        migrate(&pool).await?;
        let config = Config::new("bench");
        let config = match variant {
            Variant::Default => config,
            Variant::Best => config.set_buffer_size(500),
        };
        Ok(Self { pool, config })
    }

    async fn enqueue(&self, job: Payload) -> Result<()> {
        MySqlStorage::new_with_config(&self.pool, &self.config).push(job).await?;
        Ok(())
    }

    async fn enqueue_all(&self, jobs: Vec<Payload>) -> Result<()> {
        MySqlStorage::new_with_config(&self.pool, &self.config).push_bulk(jobs).await?;
        Ok(())
    }

    async fn work(&self, slots: usize) -> Result<()> {
        let storage = MySqlStorage::<Payload, _, _>::new_with_config(&self.pool, &self.config);
        background(WorkerBuilder::new("worker").backend(storage).concurrency(slots).build(bench).run());
        Ok(())
    }

    async fn left(&self, _: i64) -> Result<i64> {
        const SQL: &str = "SELECT count(*) FROM jobs WHERE status IN ('Pending', 'Queued', 'Running')";
        Ok(sqlx::query_scalar(SQL).fetch_one(&self.pool).await?)
    }

    async fn analyze(&self) -> Result<()> {
        sqlx::query("ANALYZE TABLE jobs").execute(&self.pool).await?;
        Ok(())
    }

    async fn traffic(&self) -> Result<i64> {
        let (_, count): (String, String) = sqlx::query_as(MYSQL_TRAFFIC).fetch_one(&self.pool).await?;
        Ok(count.parse()?)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    peer_common::run::<Apalis>().await
}
