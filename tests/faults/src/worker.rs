//! The worker process: a binary like a user's, configured by its arguments.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::exit;
use std::str::FromStr as _;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use nix::sys::resource::{Resource, setrlimit};
use queue::{Job as _, Worker, WorkerBuilder};
use queue_test_support::{Db, each};
use sqlx::Connection as _;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::MakeWriterExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::effects;
use crate::faults::hostile::{Note, Play, Spreads};
use crate::jobs::{Limited, Tick, Work, new, old};
use crate::point::{Moment, Watcher};
use crate::producers;
use crate::record::{Journal, What, time_of_day};

/// Runs jobs until SIGTERM.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub struct Args {
    /// The database
    #[arg(long)]
    url: String,
    /// The folder for the record
    #[arg(long)]
    records: PathBuf,
    /// The file for the log
    #[arg(long)]
    log: PathBuf,
    /// Jobs at a time
    #[arg(long, default_value_t = 16)]
    concurrency: u32,
    /// The only queue to serve
    #[arg(long)]
    queue: Option<String>,
    /// The lease in milliseconds, with a heartbeat of a third; the library's defaults if omitted
    #[arg(long)]
    lease_ms: Option<u64>,
    /// How long a job may continue after it was cancelled, in milliseconds
    #[arg(long)]
    cancel_grace_ms: Option<u64>,
    /// How long SQLite waits for a lock, in milliseconds
    #[arg(long, default_value_t = 5000)]
    busy_timeout_ms: u64,
    /// Where to kill itself, such as claimed:3
    #[arg(long)]
    die: Option<Moment>,
    /// Where to suspend itself, such as effects:3
    #[arg(long)]
    stop: Option<Moment>,
    /// Connections of the worker and its handlers
    #[arg(long, default_value_t = CONNECTIONS)]
    connections: u32,
    /// Memory limit in megabytes
    #[arg(long)]
    memory_mb: Option<u64>,
    /// Which jobs it knows
    #[arg(long, value_enum, default_value_t = Generation::Load)]
    generation: Generation,
    #[command(flatten)]
    produces: producers::Order,
}

/// The jobs that a binary knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generation {
    /// Those of the load.
    Load,
    /// Those of the load, and the old ones of the deploy.
    Old,
    /// Those of the load, and the new ones of the deploy.
    New,
}

/// A worker's own connections, and a spare one.
const CONNECTIONS: u32 = 6;

/// Runs the worker until it ends. After a good end it exits the process, which a blocked handler would otherwise keep.
///
/// # Errors
/// When the worker cannot start, or ends with an error.
pub async fn run(args: Args) -> Result<()> {
    end_with_the_suite();
    if let Some(megabytes) = args.memory_mb {
        setrlimit(Resource::RLIMIT_AS, megabytes << 20, megabytes << 20).context("limiting the memory")?;
    }
    let journal = Journal::open(&args.records)?;
    journal.write(What::Clock { micros: time_of_day() });
    let deployed = match args.generation {
        Generation::Load => None,
        Generation::Old => Some(old::Deployed::MAX_RETRIES),
        Generation::New => Some(new::Deployed::MAX_RETRIES),
    };
    if let Some(retries) = deployed {
        journal.write(What::Retries { by_default: retries.into() });
    }
    write_log(&args, &journal)?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let shutdown = async move {
        terminate.recv().await;
    };
    producers::start(&args.produces, &args.url, &args.records, &journal)?;
    builder(&args, journal)?.build()?.run(shutdown).await?;
    exit(0)
}

fn builder(args: &Args, journal: Journal) -> Result<WorkerBuilder> {
    let db = pool(&args.url, args.connections, Duration::from_millis(args.busy_timeout_ms))?;
    let mut builder = each!(&db, pool => Worker::builder(pool)).state(journal).only_registered();
    builder = builder.register::<Work>().register::<Limited>().register::<Tick>();
    builder = builder.register::<Note>().register::<Spreads>().register::<Play>();
    builder = effects::register(builder, db);
    builder = match args.generation {
        Generation::Load => builder,
        Generation::Old => builder.register::<old::Deployed>().register::<old::Retired>().register::<old::Reshaped>(),
        Generation::New => {
            builder.register::<new::Deployed>().register::<new::Introduced>().register::<new::Reshaped>()
        }
    };
    if args.generation == Generation::Load {
        // bad rows become dead letters at once
        builder = builder.decode_grace(Duration::ZERO);
    }
    builder = match &args.queue {
        Some(queue) => builder.queue(queue, args.concurrency),
        None => builder.concurrency(args.concurrency),
    };
    if let Some(lease) = args.lease_ms {
        builder = builder.heartbeat(Duration::from_millis(lease / 3)).lease(Duration::from_millis(lease));
    }
    if let Some(grace) = args.cancel_grace_ms {
        builder = builder.cancel_grace(Duration::from_millis(grace));
    }
    Ok(builder)
}

/// A lazy pool with common settings.
///
/// # Errors
/// When the address is not one.
pub fn pool(url: &str, connections: u32, busy_timeout: Duration) -> Result<Db> {
    let wait = Duration::from_secs(3);
    Ok(match url.split(':').next() {
        Some("sqlite") => {
            let options = SqliteConnectOptions::from_str(url)?
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Normal)
                .busy_timeout(busy_timeout);
            let pool = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(wait);
            // what docs/databases.md advises for transactions of the application: see "SQLite"
            let pool = pool.before_acquire(|conn, _| Box::pin(async { Ok(!conn.is_in_transaction()) }));
            Db::Sqlite(pool.connect_lazy_with(options))
        }
        Some("postgres") => {
            let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(wait);
            Db::Postgres(pool.connect_lazy_with(PgConnectOptions::from_str(url)?))
        }
        _ => {
            let pool = MySqlPoolOptions::new().max_connections(connections).acquire_timeout(wait);
            Db::MySql(pool.connect_lazy_with(MySqlConnectOptions::from_str(url)?))
        }
    })
}

fn write_log(args: &Args, journal: &Journal) -> Result<()> {
    let file = OpenOptions::new().append(true).create(true).open(&args.log).context("opening the log")?;
    // every statement is an event: only who waits for one has them made
    let statements = if args.die.is_some() || args.stop.is_some() { "debug" } else { "warn" };
    let all = EnvFilter::new(format!("info,queue=debug,queue_faults=debug,sqlx=warn,sqlx::query={statements}"));
    let log = tracing_subscriber::fmt::layer().with_writer(Mutex::new(file).with_max_level(Level::INFO));
    // One filter for all: with one for each layer, sqlx's question whether a statement is to be logged leaves its
    // answer behind, and the next event of the thread is lost (a lease that was, or a rescue).
    let watcher = Watcher::new(journal.clone(), args.die, args.stop);
    tracing_subscriber::registry().with(all).with(log.with_ansi(false)).with(watcher).init();
    Ok(())
}

/// Ends the worker with the suite: a suite that is killed cannot end its workers.
fn end_with_the_suite() {
    let suite = std::os::unix::process::parent_id();
    std::thread::spawn(move || {
        while std::os::unix::process::parent_id() == suite {
            std::thread::sleep(Duration::from_millis(500));
        }
        exit(1);
    });
}
