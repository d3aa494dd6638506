//! Each verb on each engine: SQLite in a file always, the servers when `QUEUE_TEST_*_URL` name them.
//! `QUEUE_TEST_ENGINES` leaves engines out.

#![allow(clippy::disallowed_methods, reason = "tests put statements together")]

macro_rules! on_each {
    ($($(#[$attribute:meta])* $test:ident),* $(,)?) => {
        on_each!(@ sqlite "sqlite", $($(#[$attribute])* $test),*; |test| crate::store::engine::tests::on_sqlite(test));
        on_each!(@ postgres "postgres", $($(#[$attribute])* $test),*;
            |test| crate::store::engine::tests::on_server::<sqlx::Postgres, _>(
                "QUEUE_TEST_POSTGRES_URL", |o, name| o.database(name), test));
        on_each!(@ mariadb "mysql", $($(#[$attribute])* $test),*;
            |test| crate::store::engine::tests::on_server::<sqlx::MySql, _>(
                "QUEUE_TEST_MARIADB_URL", |o, name| o.database(name), test));
        on_each!(@ mysql "mysql", $($(#[$attribute])* $test),*;
            |test| crate::store::engine::tests::on_server::<sqlx::MySql, _>(
                "QUEUE_TEST_MYSQL_URL", |o, name| o.database(name), test));
    };
    (@ $engine:ident $feature:literal, $($(#[$attribute:meta])* $test:ident),*; |$t:ident| $run:expr) => {
        #[cfg(feature = $feature)]
        mod $engine {
            $($(#[$attribute])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if crate::store::engine::tests::is_selected(stringify!($engine)) {
                    let $t = super::$test;
                    $run.await;
                }
            })*
        }
    };
}

mod access;
mod claim;
mod complete;
mod discovery;
mod ends;
mod enqueue;
mod leases;
mod operations;
mod plans;
mod preview;
mod rescue;
mod retention;
#[cfg(feature = "schedules")]
mod schedules;
mod statements;
mod unique;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use sqlx::pool::PoolOptions;
use sqlx::{Connection, Pool};

use super::connection::{COUNT_LIMIT, Mode, SqlStore, Via};
use super::dialect::Dialect;
use super::driver::{Bind, Cells, execute, ids, rows};
use super::migrate;
use crate::error::Error;
use crate::operations::{Action, Actor, Note};
use crate::state::JobState;
use crate::store::operations::{Change, NewArgs, Record, Refused};
use crate::store::values::Destination::{Bury, Requeue};
use crate::store::values::{
    Ask, AttemptOutcome, Claimed, End, Hold, Holding, Lane, NewJob, NewWorker, Reach, Rescued, Scope, Share, Start,
    Whose, WorkerId,
};
use crate::store::{Access, AdminStore, Jobs, Leases, Upkeep};

/// What a test needs of an engine.
trait TestDb: Dialect {
    /// The engine's current time plus so many seconds, as an expression of a time column's type.
    fn in_seconds(seconds: i64) -> String;
    /// A time as microseconds since 1970.
    fn micros(time: &str) -> String;
}

#[cfg(feature = "postgres")]
impl TestDb for sqlx::Postgres {
    fn in_seconds(seconds: i64) -> String {
        format!("now() + {seconds} * interval '1 second'")
    }

    fn micros(time: &str) -> String {
        format!("(extract(epoch FROM {time}) * 1000000)::bigint")
    }
}

#[cfg(feature = "mysql")]
impl TestDb for sqlx::MySql {
    fn in_seconds(seconds: i64) -> String {
        format!("UTC_TIMESTAMP(6) + INTERVAL {seconds} SECOND")
    }

    fn micros(time: &str) -> String {
        format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time})")
    }
}

#[cfg(feature = "sqlite")]
impl TestDb for sqlx::Sqlite {
    fn in_seconds(seconds: i64) -> String {
        format!("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + {}", seconds * 1000)
    }

    fn micros(time: &str) -> String {
        format!("{time} * 1000")
    }
}

struct Db<DB: TestDb> {
    store: SqlStore<DB>,
    pool: Pool<DB>,
}

const LEASE: Duration = Duration::from_secs(30);
/// How long a test waits for what comes soon: far longer than a busy machine needs.
const HANG: Duration = Duration::from_secs(60);

impl<DB: TestDb> Db<DB> {
    async fn sql(&self, sql: impl Into<String>) -> u64 {
        let sql: &'static str = Box::leak(sql.into().into_boxed_str());
        let mut conn = self.pool.acquire().await.unwrap();
        execute::<DB>(&mut conn, sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    async fn int(&self, sql: impl Into<String>) -> i64 {
        let sql: &'static str = Box::leak(sql.into().into_boxed_str());
        let mut conn = self.pool.acquire().await.unwrap();
        rows::<DB>(&mut conn, sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e}"))[0].int(0).unwrap()
    }

    async fn text(&self, sql: impl Into<String>) -> String {
        let sql: &'static str = Box::leak(sql.into().into_boxed_str());
        let mut conn = self.pool.acquire().await.unwrap();
        rows::<DB>(&mut conn, sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e}"))[0].text(0).unwrap()
    }

    async fn insert(&self, jobs: &[NewJob]) -> Vec<i64> {
        let mut conn = self.pool.acquire().await.unwrap();
        DB::insert(&mut conn, jobs, Whose::Pools).await.unwrap()
    }

    async fn worker(&self) -> WorkerId {
        let worker = NewWorker {
            host: "here".into(),
            pid: 7,
            concurrency: 4,
            queues: vec![],
            kinds: vec!["a".into()],
            secrets: Default::default(),
            limits: Default::default(),
        };
        self.store.join(&worker, LEASE).await.unwrap()
    }

    /// As a worker does that starts these.
    async fn begin(&self, worker: WorkerId, jobs: &[Claimed]) {
        let start = |job: &Claimed| Start { hold: job.hold(), max_neighbours: None };
        let begun = self.store.started(worker, &jobs.iter().map(start).collect::<Vec<_>>()).await.unwrap();
        assert_eq!(begun.len(), jobs.len());
    }

    /// As the administration does.
    async fn change(&self, action: Action, ids: &[i64]) -> Vec<i64> {
        self.change_listed(action, ids, None).await
    }

    async fn change_listed(&self, action: Action, ids: &[i64], listed: Option<JobState>) -> Vec<i64> {
        let new = NewArgs { args: "{}".to_owned(), was: None };
        let args = ids.iter().map(|id| (*id, new.clone())).collect();
        let record = Record::Note(note());
        let change = Change { action, ids: ids.to_vec(), listed, spread: None, args, record };
        self.store.change_jobs(change).await.unwrap().unwrap().0
    }

    async fn rescue(&self, limit: u32) -> Rescued {
        self.store.rescue(limit, &HashSet::new()).await.unwrap().0
    }

    /// Lets a worker's lease run out.
    async fn expire(&self, worker: WorkerId) {
        let past = DB::in_seconds(-1);
        self.sql(format!("UPDATE queue_heartbeats SET expires_at = {past} WHERE worker_id = {worker}")).await;
    }

    /// The last heartbeat of a worker, as others see it.
    async fn heartbeat(&self, worker: WorkerId) -> i64 {
        let at = DB::micros("heartbeat_at");
        self.int(format!("SELECT {at} FROM queue_heartbeats WHERE worker_id = {worker}")).await
    }

    /// Lets a worker's lease run out, and declares it dead.
    async fn lose(&self, worker: WorkerId) {
        self.expire(worker).await;
        assert!(self.store.declare_lost(worker, self.heartbeat(worker).await, true).await.unwrap());
    }

    async fn take(&self, worker: WorkerId, take: u32) -> Vec<Claimed> {
        let mut jobs = self.store.claim(worker, &[ask("a", take)], None).await.unwrap();
        jobs.sort_by_key(|job| (job.run_at, job.id));
        jobs
    }
}

fn job(kind: &'static str) -> NewJob {
    NewJob { max_retries: Some(1), ..NewJob::example(kind) }
}

fn ask(kind: &str, take: u32) -> Ask {
    Ask {
        lane: Lane { kind: kind.into(), queue: "default".into(), priority: 0 },
        take,
        behind: None,
        first: None,
        newest_first: false,
        max_retries: 1,
    }
}

fn done(job: &Claimed) -> End {
    End::completed(job.hold(), 2_000_000, Some("{\"a\":\"\\u0000é\"}".into()))
}

/// Ends as completed, without a result.
fn plain(job: &Claimed) -> End {
    End::completed(job.hold(), 2_000_000, None)
}

fn cancelled(job: &Claimed) -> End {
    End { outcome: AttemptOutcome::Cancelled, error: Some("why".into()), ..plain(job) }
}

fn back(job: &Claimed) -> End {
    back_in(job, Some(3_600_000_000))
}

fn back_in(job: &Claimed, delay_us: Option<i64>) -> End {
    let (outcome, error) = (AttemptOutcome::Failed, Some("no \0 luck".into()));
    End { hold: job.hold(), ran_us: 5, outcome, error, to: Requeue { delay_us, uncount: 0, record: true } }
}

fn buried(job: &Claimed) -> End {
    End { hold: job.hold(), ran_us: 5, outcome: AttemptOutcome::Failed, error: Some("gone \0".into()), to: Bury }
}

#[cfg(feature = "sqlite")]
async fn on_sqlite<F: Future<Output = ()>>(test: impl FnOnce(Db<sqlx::Sqlite>) -> F) {
    let dir = tempfile::tempdir().unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(dir.path().join("queue.db"))
        .create_if_missing(true)
        .busy_timeout(HANG);
    let pool = PoolOptions::new().max_connections(12).connect_with(options).await.unwrap();
    migrate::run(pool.clone()).await.unwrap();
    test(Db { store: SqlStore::new(pool.clone()), pool }).await;
}

/// Whether `QUEUE_TEST_ENGINES` leaves an engine in.
fn is_selected(engine: &str) -> bool {
    let engines = std::env::var("QUEUE_TEST_ENGINES").unwrap_or_default();
    let selected = engines.is_empty() || engines.split(',').any(|name| name.trim() == engine);
    if !selected {
        println!("skipped: QUEUE_TEST_ENGINES leaves {engine} out");
    }
    selected
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
async fn on_server<DB: TestDb, F: Future<Output = ()>>(
    variable: &str,
    named: impl FnOnce(<DB::Connection as Connection>::Options, &str) -> <DB::Connection as Connection>::Options,
    test: impl FnOnce(Db<DB>) -> F,
) {
    let Ok(url) = std::env::var(variable) else { return };
    let options: <DB::Connection as Connection>::Options = url.parse().unwrap();
    let name = format!("queue_unit_{}_{}", std::process::id(), fastrand::u32(..));
    let mut admin = DB::Connection::connect_with(&options).await.unwrap();
    let leak = |sql: String| -> &'static str { Box::leak(sql.into_boxed_str()) };
    DB::raw(&mut admin, leak(format!("CREATE DATABASE {name}"))).await.unwrap();
    let pool = PoolOptions::<DB>::new().max_connections(24).connect_with(named(options, &name)).await.unwrap();
    migrate::run(pool.clone()).await.unwrap();
    test(Db { store: SqlStore::new(pool.clone()), pool: pool.clone() }).await;
    let _ = tokio::time::timeout(Duration::from_secs(5), pool.close()).await;
    // the server may not have seen the end of every session yet, nor will it behind a proxy that forgets connections
    let force = if DB::KIND == crate::engine::Engine::Postgres { " WITH (FORCE)" } else { "" };
    let drop = leak(format!("DROP DATABASE {name}{force}"));
    let end = Instant::now() + HANG;
    while let Err(error) = DB::raw(&mut admin, drop).await {
        assert!(Instant::now() < end, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn note() -> Note {
    Note { by: Actor::new("test"), action: "test", details: "{}".to_owned(), job: None }
}
