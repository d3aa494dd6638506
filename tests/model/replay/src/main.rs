//! A worker process whose changes are traced: `queue-model-worker <database> <record file> <lease in ms>`. SIGTERM ends
//! it gracefully.

mod jobs;
mod leaving;

use std::env;
use std::error::Error;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use queue::Worker;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::jobs::Effects;

/// A worker's own connections, one of each job that may run, and one to spare.
const CONNECTIONS: u32 = 10;
/// How long a process waits for SQLite's lock: longer than the tests stop one that may hold it.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let [url, records, lease] = env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "three arguments")?;
    let lease = Duration::from_millis(lease.parse()?);
    let (builder, effects) = match url.split(':').next() {
        Some("sqlite") => {
            let options = SqliteConnectOptions::from_str(&url)?.journal_mode(SqliteJournalMode::Wal);
            let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS);
            let pool = pool.connect_with(options.busy_timeout(PATIENCE)).await?;
            (Worker::builder(pool.clone()), Effects::Sqlite(pool))
        }
        Some("postgres") => {
            let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&url).await?;
            (Worker::builder(pool.clone()), Effects::Postgres(pool))
        }
        _ => {
            let pool = MySqlPoolOptions::new().max_connections(CONNECTIONS).connect(&url).await?;
            (Worker::builder(pool.clone()), Effects::MySql(pool))
        }
    };
    let recorder = jobs::Recorder::open(Path::new(&records))?;
    tracing_subscriber::registry().with(leaving::Watcher(recorder.clone())).init();
    let worker = builder
        .state(recorder)
        .state(effects)
        .concurrency(4)
        .heartbeat(lease / 4)
        .lease(lease)
        .shutdown_grace(Duration::from_millis(50))
        .cancel_grace(Duration::from_millis(50))
        .build()?;
    let mut terminate = signal(SignalKind::terminate())?;
    let shutdown = async move {
        terminate.recv().await;
    };
    worker.run(shutdown).await?;
    Ok(())
}
