//! The library, with its defaults.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use queue::{Job, Pool, State, Worker, job};
use serde_json::Value;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tokio::sync::Notify;
use tokio::time::{interval, sleep};

use crate::{Engine, MANY, PAUSE, PICKUPS, S32, SPELL, quantiles, rate, url, wall_us};

/// What the handlers count.
#[derive(Clone, Default)]
struct Seen {
    left: Arc<AtomicI64>,
    last: Arc<Notify>,
    pickups: Arc<Mutex<Vec<f64>>>,
}

#[job]
async fn noop(State(seen): State<Seen>, n: i64, s: String) {
    let _ = (n, s);
    if seen.left.fetch_sub(1, Ordering::AcqRel) == 1 {
        seen.last.notify_one();
    }
}

#[job]
async fn timed(State(seen): State<Seen>, n: i64, s: String) {
    let _ = s;
    let ms = (wall_us() - n) as f64 / 1e3;
    seen.pickups.lock().map(|mut all| all.push(ms)).ok();
    seen.last.notify_one();
}

pub(crate) async fn run(workload: &str) -> Result<Value> {
    let (engine, url) = url()?;
    match engine {
        Engine::Postgres => {
            let pool = PgPoolOptions::new().max_connections(20).connect(&url).await?;
            let count = Counter::Postgres(pool.clone());
            with(pool, count, workload).await
        }
        Engine::MySql => {
            let pool = MySqlPoolOptions::new().max_connections(20).connect(&url).await?;
            let count = Counter::MySql(pool.clone());
            with(pool, count, workload).await
        }
        Engine::Sqlite => {
            let options: SqliteConnectOptions = url.parse()?;
            let options = options.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
            let pool = SqlitePoolOptions::new().max_connections(20).connect_with(options).await?;
            let count = Counter::Sqlite(pool.clone());
            with(pool, count, workload).await
        }
    }
}

/// Asks the database itself how many jobs are done.
#[derive(Clone)]
enum Counter {
    Postgres(sqlx::PgPool),
    MySql(sqlx::MySqlPool),
    Sqlite(sqlx::SqlitePool),
}

impl Counter {
    async fn completed(&self) -> Result<i64> {
        const SQL: &str = "SELECT count(*) FROM queue_history WHERE state = 'completed'";
        Ok(match self {
            Self::Postgres(pool) => sqlx::query_scalar(SQL).fetch_one(pool).await?,
            Self::MySql(pool) => sqlx::query_scalar(SQL).fetch_one(pool).await?,
            Self::Sqlite(pool) => sqlx::query_scalar(SQL).fetch_one(pool).await?,
        })
    }
}

async fn with<P>(pool: P, count: Counter, workload: &str) -> Result<Value>
where
    P: Pool + Clone + 'static,
    for<'a> &'a P: queue::Target,
{
    queue::migrate(&pool).await?;
    let payload = |n| Noop { n, s: S32.to_owned() };
    match workload {
        "enqueue-1" | "enqueue-16" => {
            let tasks = if workload == "enqueue-1" { 1 } else { 16 };
            let start = Instant::now();
            let tasks: Vec<_> = (0..tasks)
                .map(|_| {
                    let pool = pool.clone();
                    tokio::spawn(async move {
                        let mut n = 0;
                        while start.elapsed() < SPELL {
                            payload(n).enqueue(&pool).await?;
                            n += 1;
                        }
                        anyhow::Ok(n)
                    })
                })
                .collect();
            let mut total = 0;
            for task in tasks {
                total += task.await??;
            }
            Ok(rate(total, start))
        }
        "bulk" => {
            let jobs: Vec<_> = (0..MANY).map(payload).collect();
            let start = Instant::now();
            queue::enqueue_all(&pool, jobs).await?;
            Ok(rate(MANY, start))
        }
        "drain" => {
            let before = count.completed().await?;
            queue::enqueue_all(&pool, (0..MANY).map(payload)).await?;
            let seen = Seen::default();
            seen.left.store(MANY, Ordering::Release);
            let worker = Worker::builder(&pool).state(seen.clone()).build()?;
            let start = Instant::now();
            let done = async {
                seen.last.notified().await;
                // done is what the database has recorded
                while count.completed().await? < before + MANY {
                    sleep(std::time::Duration::from_millis(1)).await;
                }
                anyhow::Ok(rate(MANY, start))
            };
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let run = worker.run(async { drop(stopped.await) });
            let (figures, ended) = tokio::join!(
                async {
                    let figures = done.await;
                    drop(stop);
                    figures
                },
                run
            );
            ended?;
            figures
        }
        "pickup" | "pickup-other" => {
            let seen = Seen::default();
            let worker = Worker::builder(&pool).state(seen.clone()).build()?;
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let produce = async {
                sleep(std::time::Duration::from_secs(1)).await;
                if workload == "pickup" {
                    produce(&pool).await?;
                } else {
                    let me = std::env::current_exe()?;
                    let status = tokio::process::Command::new(me).args(["ours", "produce"]).status().await?;
                    if !status.success() {
                        bail!("the producer failed: {status}");
                    }
                }
                while seen.pickups.lock().map_or(0, |all| all.len()) < PICKUPS {
                    seen.last.notified().await;
                }
                drop(stop);
                anyhow::Ok(())
            };
            let (ended, produced) = tokio::join!(worker.run(async { drop(stopped.await) }), produce);
            ended?;
            produced?;
            let pickups = seen.pickups.lock().map(|all| all.clone()).unwrap_or_default();
            Ok(quantiles(pickups))
        }
        "produce" => {
            produce(&pool).await?;
            Ok(Value::Null)
        }
        other => bail!("unknown workload `{other}`"),
    }
}

/// One job every 50 ms, with the time at which its enqueue began.
async fn produce<P>(pool: &P) -> Result<()>
where
    for<'a> &'a P: queue::Target,
    P: Sync,
{
    let mut ticks = interval(PAUSE);
    for _ in 0..PICKUPS {
        ticks.tick().await;
        Timed { n: wall_us(), s: S32.to_owned() }.enqueue(pool).await.context("enqueue")?;
    }
    Ok(())
}
