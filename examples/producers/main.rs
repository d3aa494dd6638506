//! Jobs that other programs enqueue with plain SQL. See the whole of it with
//!
//! ```text
//! examples/producers/run.sh
//! ```
//!
//! or do it step by step, here with SQLite:
//!
//! ```text
//! cargo run --example producers -- schema sqlite | sqlite3 jobs.sqlite
//! sqlite3 jobs.sqlite < examples/producers/enqueue.sqlite.sql
//! sqlite3 jobs.sqlite < examples/producers/unique.sqlite.sql
//! python3 examples/producers/enqueue.py jobs.sqlite
//! DATABASE_URL=sqlite://jobs.sqlite cargo run --example producers -- work
//! ```
//!
//! This program is the other side: it prints the tables' SQL, and runs a worker until nothing is left to do. For the
//! servers build it with `--features postgres` or `--features mysql`.

use std::time::Duration;

use queue::admin::Admin;
use queue::migration::Engine;
use queue::{JobContext, WorkerBuilder, job};

/// What the producers ask for.
#[job]
async fn greet(ctx: JobContext, name: String) {
    println!("   job {:>2}: Hello, {name}! (queue {}, at most {} attempts)", ctx.id(), ctx.queue(), ctx.max_attempts());
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["schema", "sqlite"] => print!("{}", queue::migration::sql(Engine::Sqlite)),
        ["schema", "postgres"] => print!("{}", queue::migration::sql(Engine::Postgres)),
        ["schema", "mysql"] => print!("{}", queue::migration::sql(Engine::MySql)),
        ["work"] => work(&std::env::var("DATABASE_URL")?).await?,
        _ => anyhow::bail!("usage: producers schema sqlite|postgres|mysql, or DATABASE_URL=… producers work"),
    }
    Ok(())
}

/// Runs what waits, and ends when nothing does.
async fn work(url: &str) -> anyhow::Result<()> {
    let (worker, admin) = open(url).await?;
    let idle = async {
        loop {
            match admin.stats().await {
                Ok(stats) if stats.iter().all(|stat| stat.state.is_final()) => break,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    // no deploy is under way, so arguments that do not decode are a mistake of the producer
    worker.decode_grace(Duration::ZERO).build()?.run(idle).await?;
    for stat in admin.stats().await? {
        println!("   queue {}: {} {} {}", stat.queue, stat.jobs, stat.kind, stat.state);
    }
    Ok(())
}

async fn open(url: &str) -> anyhow::Result<(WorkerBuilder, Admin)> {
    macro_rules! with {
        ($pool:ty) => {{
            let pool = <$pool>::connect(url).await?;
            Ok((queue::Worker::builder(&pool), Admin::new(&pool)))
        }};
    }
    match url.split(':').next() {
        Some("sqlite") => with!(sqlx::SqlitePool),
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => with!(sqlx::PgPool),
        #[cfg(feature = "mysql")]
        Some("mysql" | "mariadb") => with!(sqlx::MySqlPool),
        _ => anyhow::bail!(
            "DATABASE_URL names an engine for which this program was not built (--features postgres, mysql)"
        ),
    }
}
