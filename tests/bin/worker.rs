//! The worker process of the tests in `processes`: what a user's worker binary looks like, told by its environment what
//! database to serve.
//!
//! | variable | meaning, or what it sets |
//! |---|---|
//! | `QUEUE_WORKER_URL` | the database |
//! | `QUEUE_WORKER_RECORDS` | the file that the jobs write to |
//! | `QUEUE_WORKER_LOG` | the file for the log; `QUEUE_WORKER_FILTER` says what of it (`info`) |
//! | `QUEUE_WORKER_CONCURRENCY` | `concurrency` |
//! | `QUEUE_WORKER_HEARTBEAT_MS`, `QUEUE_WORKER_LEASE_MS` | the durations |
//! | `QUEUE_WORKER_PROBES` | `alive_file`; it also prints where it answers probes, and has a runtime of one thread |
//! | `QUEUE_WORKER_METRICS` | `1`: a page of metrics, and a line on standard output that has its address |
//!
//! With `QUEUE_WORKER_ENQUEUE`, it enqueues a job in a transaction on PostgreSQL instead, and ends.
//!
//! What is not set keeps the library's default. SIGTERM ends it gracefully, a second one at once.

mod jobs;
mod page;

use std::env;
use std::error::Error;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::exit;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use queue::admin::Admin;
use queue::health::Health;
use queue::{Job as _, Worker, WorkerBuilder};
use queue_test_support::{Db, each};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Connection as _, PgConnection};
use tokio::runtime::Builder;
use tracing_subscriber::EnvFilter;

use crate::jobs::Recorder;

/// A worker's own connections, and one to spare.
const CONNECTIONS: u32 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    end_with_the_test();
    write_log()?;
    let probed = variable::<String>("QUEUE_WORKER_PROBES").is_some();
    let mut runtime = if probed { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    runtime.enable_all().build()?.block_on(work(probed))
}

async fn work(probed: bool) -> Result<(), Box<dyn Error>> {
    if variable::<String>("QUEUE_WORKER_ENQUEUE").is_some() {
        return enqueue().await;
    }
    let shutdown = queue::shutdown_signal();
    let worker = builder().await?.build()?;
    if probed {
        answer_probes(worker.health());
    }
    if let Err(error) = worker.run(shutdown).await {
        eprintln!("{error}");
        exit(1);
    }
    // Not by returning: a job that blocks its thread would keep the process.
    exit(0)
}

/// On a runtime of its own, to answer also while the one of the worker stands still.
fn answer_probes(health: Health) {
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            println!("probes: {}", listener.local_addr().expect("an address"));
            axum::serve(listener, health.router()).await.expect("served");
        });
    });
}

/// On a connection of its own: this process never has a pool.
async fn enqueue() -> Result<(), Box<dyn Error>> {
    let url: String = variable("QUEUE_WORKER_URL").ok_or("QUEUE_WORKER_URL is not set")?;
    let mut connection = PgConnection::connect(&url).await?;
    let mut transaction = connection.begin().await?;
    jobs::Note {}.enqueue(&mut transaction).await?;
    transaction.commit().await?;
    Ok(())
}

async fn builder() -> Result<WorkerBuilder, Box<dyn Error>> {
    let url: String = variable("QUEUE_WORKER_URL").ok_or("QUEUE_WORKER_URL is not set")?;
    let db = match url.split(':').next() {
        Some("sqlite") => {
            let options = SqliteConnectOptions::from_str(&url)?
                .journal_mode(SqliteJournalMode::Wal)
                .busy_timeout(Duration::from_secs(10));
            Db::Sqlite(SqlitePoolOptions::new().max_connections(CONNECTIONS).connect_with(options).await?)
        }
        Some("postgres") => Db::Postgres(PgPoolOptions::new().max_connections(CONNECTIONS).connect(&url).await?),
        _ => Db::MySql(MySqlPoolOptions::new().max_connections(CONNECTIONS).connect(&url).await?),
    };
    let mut builder = each!(&db, pool => Worker::builder(pool));
    if variable::<u8>("QUEUE_WORKER_METRICS").is_some() {
        // the exporter comes first: observers use the recorder of their moment
        println!("metrics at {}", page::serve(each!(&db, pool => Admin::new(pool))).await?);
        queue::telemetry::observe_enqueues(queue_metrics::observer());
        builder = builder.observe(queue_metrics::observer());
    }
    let records: String = variable("QUEUE_WORKER_RECORDS").ok_or("QUEUE_WORKER_RECORDS is not set")?;
    builder = builder.state(Recorder::open(Path::new(&records))?).state(db);
    if let Some(jobs) = variable("QUEUE_WORKER_CONCURRENCY") {
        builder = builder.concurrency(jobs);
    }
    if let Some(file) = variable::<String>("QUEUE_WORKER_PROBES") {
        builder = builder.alive_file(file);
    }
    if let Some(every) = duration("QUEUE_WORKER_HEARTBEAT_MS") {
        builder = builder.heartbeat(every);
    }
    if let Some(lease) = duration("QUEUE_WORKER_LEASE_MS") {
        builder = builder.lease(lease);
    }
    Ok(builder)
}

fn write_log() -> Result<(), Box<dyn Error>> {
    let path: String = variable("QUEUE_WORKER_LOG").ok_or("QUEUE_WORKER_LOG is not set")?;
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    let filter = variable("QUEUE_WORKER_FILTER").unwrap_or_else(|| "info".to_owned());
    tracing_subscriber::fmt()
        .with_writer(Mutex::new(file))
        .with_ansi(false)
        .with_env_filter(EnvFilter::new(filter))
        .init();
    Ok(())
}

/// A test that was killed cannot end its workers.
fn end_with_the_test() {
    let test = std::os::unix::process::parent_id();
    std::thread::spawn(move || {
        while std::os::unix::process::parent_id() == test {
            std::thread::sleep(Duration::from_millis(500));
        }
        exit(1);
    });
}

fn variable<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

fn duration(name: &str) -> Option<Duration> {
    variable(name).map(Duration::from_millis)
}
