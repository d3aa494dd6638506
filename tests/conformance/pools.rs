//! A worker keeps its connections beside the pool that it is given: whatever handlers do with that, leases are kept and
//! ends are recorded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use queue::{Job, JobContext, JobError, StateType, WorkerBuilder};
use queue_test_support::{Engine, sessions};
use queue_tests::jobs::Note;
use queue_tests::{AnyPool, DEADLINE, Db, Running, What, each, eventually, within};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::SqlitePoolOptions;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::logs;

conformance! {
    ends_are_recorded_while_handlers_hold_the_pool,
    a_pool_of_one_is_enough,
    a_pool_that_is_small_for_its_handlers_is_told;
    servers:
    connections_are_made_like_those_of_the_pool,
    a_server_that_gives_too_few_connections_is_told_at_the_start,
    connections_without_work_are_kept,
    connections_have_a_name,
    no_connection_outlives_a_pool_that_was_closed,
    a_part_of_another_pool_is_enough,
}

// SQLite in memory has one connection, which is all there is.
/// P1, P25.
#[tokio::test]
async fn in_memory_ends_wait_for_handlers_that_hold_the_only_connection() {
    let options = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = AnyPool::Sqlite(options.connect("sqlite::memory:").await.expect("a database"));
    pool.migrate().await.expect("the schema");
    let stage = Stage::of(&pool);
    stage.1.gate.add_permits(20);
    pool.enqueue_all((0..20).map(|_| Holder { stage: stage.name(), ms: 100 })).await.expect("enqueued");
    let worker = start(pool.worker().concurrency(4));
    let finished = async || {
        let rows = pool.sql("SELECT count(*) FROM queue_history").await.expect("a count");
        (rows[0][0].as_deref() == Some("20")).then_some(())
    };
    // in turn with them, so that they take time, and nothing is lost
    eventually("all ends", finished).await;
    assert_eq!(stage.returned(), 20, "each ran once");
    worker.stop().await;
}

/// P25: As at the end of a test that drops its database. Again if the machine stood still meanwhile: a signal that
/// keeps its connection until it is repeated does so each time.
async fn no_connection_outlives_a_pool_that_was_closed(db: Db) {
    if db.is_pooled() {
        return; // the pooler keeps its sessions
    }
    let mut took = Vec::new();
    while !took.iter().any(|took| *took < Duration::from_secs(1)) {
        assert!(took.len() < 10, "each time for so long: {took:?}");
        took.push(connections_outlive_a_pool_by(db.another().await).await);
    }
}

async fn connections_outlive_a_pool_by(db: Db) -> Duration {
    db.migrate().await.expect("the schema");
    let others = match db.engine() {
        Engine::Postgres => {
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        }
        _ => sessions!("count(*)", "db = DATABASE() AND id <> CONNECTION_ID()"),
    };
    let (watcher, pool) = (db.open(1).await, db.pool());
    pool.admin().stats().await.expect("counted");
    let mut tx = pool.begin().await;
    each!(AnyTransaction, &mut tx, tx => Note::new("a").enqueue(&mut **tx).await.expect("enqueued"));
    tx.commit().await;
    // until a signal for the transaction is repeated after a pause of 2 s; another enqueue looks at the pool meanwhile
    sleep(Duration::from_secs(4)).await;
    pool.enqueue(Note::new("b")).await.expect("enqueued");
    each!(AnyPool, pool, pool => pool.close().await);
    let began = Instant::now();
    let none = async || (watcher.sql(others).await.expect("a count")[0][0].as_deref() == Some("0")).then_some(());
    eventually("no connection is left", none).await;
    began.elapsed()
}

/// How often a test looks for what has no event.
const LOOK: Duration = Duration::from_millis(15);

/// What the handlers of a test hold.
static STAGES: LazyLock<Mutex<HashMap<String, Arc<Held>>>> = LazyLock::new(Mutex::default);

/// A pool, and what is known of the handlers that hold a connection of it.
struct Held {
    pool: AnyPool,
    /// A permit lets one of them go on.
    gate: Semaphore,
    /// How many have had a connection, and how many have returned.
    held: AtomicUsize,
    returned: AtomicUsize,
}

/// A test's place among them.
struct Stage(String, Arc<Held>);

impl Stage {
    fn of(pool: &AnyPool) -> Self {
        let name = format!("{:016x}", fastrand::u64(..));
        let (held, returned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let held = Arc::new(Held { pool: pool.clone(), gate: Semaphore::new(0), held, returned });
        STAGES.lock().expect("no panic").insert(name.clone(), held.clone());
        Self(name, held)
    }

    fn name(&self) -> String {
        self.0.clone()
    }

    fn returned(&self) -> usize {
        self.1.returned.load(Ordering::SeqCst)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        STAGES.lock().expect("no panic").remove(&self.0);
    }
}

/// Holds a connection of the pool for so long, and until it is let go.
#[derive(Serialize, Deserialize)]
struct Holder {
    stage: String,
    ms: u64,
}

impl Job for Holder {
    const KIND: &'static str = "holder";
    type Output = ();

    async fn run(self, _: JobContext) -> Result<(), JobError> {
        let stage = STAGES.lock().expect("no panic")[&self.stage].clone();
        each!(AnyPool, &stage.pool, pool => {
            let held = loop {
                match pool.acquire().await {
                    Err(sqlx::Error::PoolTimedOut) => {}
                    held => break held.map_err(|error| JobError::retry(error.to_string()))?,
                }
            };
            stage.held.fetch_add(1, Ordering::SeqCst);
            sleep(Duration::from_millis(self.ms)).await;
            stage.gate.acquire().await.expect("an open gate").forget();
            drop(held);
        });
        stage.returned.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn requires() -> Vec<StateType> {
        Vec::new()
    }
}

/// Ends every connection to the database but those of the test's own pool.
async fn cut(db: &Db) {
    match db.engine() {
        Engine::Postgres => {
            // waits until they have ended, so that a pooler does not give one that is about to end to the next statement
            let others = "datname = current_database() AND pid <> pg_backend_pid()";
            db.sql(format!("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE {others}")).await;
        }
        Engine::MariaDb | Engine::MySql => {
            for id in db.column(sessions!("id", "db = DATABASE() AND id <> CONNECTION_ID()")).await {
                let _ = db.pool().sql(&format!("KILL {id}")).await; // it may have ended meanwhile
            }
        }
        Engine::Sqlite => {}
    }
}

/// P22, P31: A pool of 10, 32 slots, and handlers that hold a connection each until the ends of all before them are
/// recorded. In the middle the server ends all connections.
async fn ends_are_recorded_while_handlers_hold_the_pool(db: Db) {
    hold(db, 40, Duration::from_millis(100)).await;
}

/// The same for handlers that take longer, on all engines at once:
/// `cargo test -p queue-tests --test conformance -- --ignored --nocapture hold_for`.
async fn hold_on_each(jobs: usize, time: Duration) {
    let tests = Engine::all().into_iter().map(async |engine| {
        let Some(db) = Db::empty(engine).await else { return };
        db.migrate().await.expect("the schema");
        hold(db, jobs, time).await;
    });
    futures_util::future::join_all(tests).await;
}

/// P22, P31.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "two minutes"]
async fn ends_are_recorded_while_handlers_hold_for_6_s() {
    hold_on_each(150, Duration::from_secs(6)).await;
}

/// P22, P31.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "five minutes"]
async fn ends_are_recorded_while_handlers_hold_for_90_s() {
    hold_on_each(30, Duration::from_secs(90)).await;
}

async fn hold(db: Db, jobs: usize, time: Duration) {
    const POOL: usize = 10;
    let pool = db.open(POOL as u32).await;
    let stage = Stage::of(&pool);
    let ms = time.as_millis() as u64;
    db.enqueue_all((0..jobs).map(|_| Holder { stage: stage.name(), ms })).await;
    let worker = start(pool.worker().concurrency(32));
    for first in (0..jobs).step_by(POOL) {
        let next = jobs.min(first + POOL);
        let waiting = async {
            while stage.1.held.load(Ordering::SeqCst) < next {
                sleep(LOOK).await;
            }
        };
        tokio::time::timeout(time + DEADLINE, waiting).await.expect("as many handlers as connections hold one");
        if (first + 1..=next).contains(&(jobs / 2)) {
            cut(&db).await;
        }
        // they hold the whole pool, and do not let go
        let recorded = async || (db.count("queue_history").await as usize == first).then_some(());
        eventually("the ends of all that have returned", recorded).await;
        stage.1.gate.add_permits(next - first);
    }
    db.finished(jobs as i64).await;
    assert_eq!(stage.returned(), jobs, "each ran once");
    assert_eq!(db.count("queue_workers").await, 1, "the lease was lost");
    assert_eq!(db.count("queue_attempts WHERE outcome = 'lost'").await, 0);
    worker.stop().await;
}

fn start(worker: WorkerBuilder) -> Running {
    let worker = worker.only_registered().register::<Holder>();
    Running::start(worker.build().expect("a good configuration"))
}

/// P25.
async fn a_pool_of_one_is_enough(db: Db) {
    let one = db.open(1).await;
    let worker = db.start(db.worker_on(&one).concurrency(50));
    db.enqueue_all((0..200).map(|n| Note::new(n.to_string()))).await;
    db.finished(200).await;
    worker.stop().await;
}

/// P40.
async fn a_pool_that_is_small_for_its_handlers_is_told(db: Db) {
    let log = logs::captured(db.engine(), "queue=warn", async |db| {
        let ten = db.open(10).await;
        drop(db.worker_on(&ten).concurrency(32).build().expect("a good configuration"));
    });
    let log = log.await;
    assert!(log.contains("max_connections") && log.contains("32") && log.contains("10"), "{log}");
    let log = logs::captured(db.engine(), "queue=warn", async |db| {
        let enough = db.open(32).await;
        drop(db.worker_on(&enough).concurrency(32).build().expect("a good configuration"));
    });
    assert_eq!(log.await, "");
}

/// What the sessions of a worker are called.
const SESSIONS: &str =
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'queue'
                        ORDER BY pid";

/// P43: Hooks of the pool, and options that were changed since it was made.
async fn connections_are_made_like_those_of_the_pool(db: Db) {
    let AnyPool::Pg(pool) = db.pool() else { return };
    if db.is_pooled() {
        return; // what a session has is not its own
    }
    sqlx::raw_sql("CREATE SCHEMA apart").execute(pool).await.expect("a schema");
    let options = PgPoolOptions::new().max_connections(2).after_connect(|conn, _| {
        Box::pin(async move { sqlx::raw_sql("SET search_path = apart").execute(conn).await.map(drop) })
    });
    let apart = options.connect_with((*pool.connect_options()).clone()).await.expect("a pool");
    queue::migrate(&apart).await.expect("the schema");
    // a password that is renewed, say
    apart.set_connect_options(apart.connect_options().as_ref().clone().application_name("renewed"));
    let apart = AnyPool::Pg(apart);
    let worker = db.start(db.worker_on(&apart));
    let id = apart.enqueue(Note::new("a")).await.expect("enqueued");
    db.probe.wait_for(What::Ended, "a", 1).await;
    let ended = async || {
        let rows = apart.sql(&format!("SELECT 1 FROM apart.queue_history WHERE id = {id}")).await.expect("an answer");
        (rows.len() == 1).then_some(())
    };
    eventually("its end", ended).await;
    let renewed = SESSIONS.replace("'queue'", "'renewed'");
    // claims, endings, heartbeats, upkeep, notifications
    let all = async || (db.sql(renewed.clone()).await.len() >= 5).then_some(());
    eventually("all its sessions have the new name", all).await;
    worker.stop().await;
}

/// P39.
async fn a_server_that_gives_too_few_connections_is_told_at_the_start(db: Db) {
    let AnyPool::Pg(pool) = db.pool() else { return };
    if db.is_pooled() {
        return; // what a session has is not its own
    }
    let role = format!("queue_test_{:016x}", fastrand::u64(..));
    db.sql(format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 3; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}"))
        .await;
    db.sql(format!("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}")).await;
    let options = pool.connect_options().as_ref().clone().username(&role);
    let few = PgPoolOptions::new().max_connections(1).connect_with(options).await.expect("one connection");
    db.enqueue(Note::new("a")).await;
    let worker = db.worker_on(&AnyPool::Pg(few.clone())).build().expect("a good configuration");
    let error = within("a worker's start", worker.run(std::future::pending::<()>())).await.expect_err("too few");
    assert!(error.to_string().contains("too many connections for role"), "{error}");
    assert_eq!((db.count("queue_workers").await, db.count("queue_jobs WHERE attempt = 0").await), (0, 1));
    few.close().await;
    let gone = format!("REASSIGN OWNED BY {role} TO postgres; DROP OWNED BY {role}; DROP ROLE {role}");
    eventually("nobody uses the role", async || db.pool().sql(&gone).await.ok()).await;
}

/// P25: That for hints after an enqueue in a transaction, too, which outlives it.
async fn connections_have_a_name(db: Db) {
    if db.engine() != Engine::Postgres || db.is_pooled() {
        return; // nobody else has such names; behind a pooler a session has the name of whoever used it last
    }
    let mut tx = db.begin().await;
    tx.enqueue(Note::new("a")).await.expect("enqueued");
    tx.commit().await;
    let named = async || Some(db.column(SESSIONS).await).filter(|sessions| !sessions.is_empty());
    eventually("a session with the library's name", named).await;
}

/// P25: `#[sqlx::test]` gives each test a small pool out of one for all tests of the process, which run side by side.
async fn a_part_of_another_pool_is_enough(db: Db) {
    let AnyPool::Pg(pool) = db.pool() else { return };
    let options = || pool.connect_options().as_ref().clone();
    let all = PgPoolOptions::new().max_connections(6).connect_lazy_with(options());
    let part = AnyPool::Pg(PgPoolOptions::new().max_connections(2).parent(all.clone()).connect_lazy_with(options()));
    let worker = db.start(db.worker_on(&part));
    part.enqueue(Note::new("a")).await.expect("enqueued");
    db.finished(1).await;
    // beside the part's two and the one that listens, three are left for other tests
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(within("a connection", all.acquire()).await.expect("one for another test"));
    }
    worker.stop().await;
}

/// P43: Where servers end sessions without work, those of a worker are spared.
async fn connections_without_work_are_kept(db: Db) {
    if db.engine() != Engine::Postgres || db.is_pooled() {
        return; // MySQL and MariaDB: see `only_a_silent_transaction_ends` of the store
    }
    let set = "EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = 1000', current_database())";
    db.sql(format!("DO $$ BEGIN {set}; END $$")).await;
    let worker = db.start(db.worker_on(&db.open(2).await));
    // but for that of the echoes, which begin when another test enqueues in a transaction
    let lasting = SESSIONS.replace("ORDER BY", "AND query NOT LIKE '%pg_notify%' ORDER BY");
    let sessions = async || db.column(&lasting).await;
    // Again until all are kept: an echo's session is one of the others until its first signal, and a machine that stands
    // still for a second loses some. Without a care for them, none is ever kept.
    eventually("all its sessions are kept for three times as long", async || {
        let all = Some(sessions().await).filter(|all| all.len() == 6)?;
        sleep(Duration::from_secs(3)).await;
        (sessions().await == all).then_some(())
    })
    .await;
    db.enqueue(Note::new("a")).await;
    db.finished(1).await;
    worker.stop().await;
}

/// P25: What a pooler costs an idle worker, for `docs/clusters.md`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn what_a_pooler_costs() {
    queue_tests::on(Engine::Postgres, async |db: Db| {
        let proxy = queue_test_support::Proxy::start(Engine::Postgres, db.url()).await;
        let options: sqlx::postgres::PgConnectOptions = proxy.url(db.url()).parse().expect("an address");
        let pool = AnyPool::Pg(PgPoolOptions::new().connect_with(options).await.expect("a pool"));
        let worker = db.start(db.worker_on(&pool).transaction_pooler(true));
        let mut waits = Vec::new();
        for n in 0..40 {
            sleep(Duration::from_millis(300 + fastrand::u64(..50))).await;
            let asked = Instant::now();
            db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{{\"label\":\"{n}\"}}')")).await;
            db.probe.wait_for(What::Started, &n.to_string(), 1).await;
            waits.push(asked.elapsed());
        }
        waits.sort();
        println!("pick-up without a signal: median {:?}, longest {:?}", waits[20], waits[39]);
        for when in ["in the first minute", "after it"] {
            let before = proxy.statements();
            sleep(Duration::from_secs(10)).await;
            println!("idle, {when}: {} statements/s", (proxy.statements() - before) / 10);
            sleep(Duration::from_secs(55)).await;
        }
        worker.stop().await;
    })
    .await;
}
