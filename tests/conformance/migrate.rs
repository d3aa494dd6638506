//! Migrations: many at the same time, again and again, by hand.
//!
//! Promise: P42.

use std::process::Command;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use queue::Job;
use queue_test_support::{Engine, Helper};
use queue_tests::jobs::Note;
use queue_tests::{AnyPool, Db, What, eventually, within};
use tokio_util::sync::CancellationToken;

conformance! {
    may_run_ten_times_at_once,
    change_nothing_the_second_time,
    may_run_by_hand,
    prefix_everything,
    may_share_the_database,
    survive_being_dropped,
    refuse_what_is_in_the_way,
    adopt_tables_that_were_restored_without_rows,
    refuse_a_restored_part,
    upgrade_a_full_database_under_load,
    wait_for_a_table_without_holding_up_others,
}

async fn may_run_ten_times_at_once(db: Db) {
    let empty = db.another().await;
    let mut starts = Vec::new();
    for _ in 0..10 {
        let pool = empty.open(2).await;
        starts.push(tokio::spawn(async move { pool.migrate().await }));
    }
    for start in starts {
        within("a migration", start).await.expect("no panic").expect("migrated");
    }
    let versions = empty.column("SELECT version FROM queue_migrations ORDER BY version").await;
    assert_eq!(versions, db.column("SELECT version FROM queue_migrations ORDER BY version").await, "each ran once");
    works(&empty).await;
}

async fn works(db: &Db) {
    let worker = db.start(db.worker());
    db.enqueue(Note::new("works")).await;
    db.probe.wait_for(What::Ended, "works", 1).await;
    worker.stop().await;
}

async fn change_nothing_the_second_time(db: Db) {
    db.enqueue(Note::new("a")).await;
    let before =
        db.sql("SELECT version, name, applied_at, compatible_since FROM queue_migrations ORDER BY version").await;
    assert!(!before.is_empty());
    for _ in 0..2 {
        db.migrate().await.expect("migrated");
    }
    let after =
        db.sql("SELECT version, name, applied_at, compatible_since FROM queue_migrations ORDER BY version").await;
    assert_eq!((before, 1), (after, db.count("queue_jobs").await));
}

async fn may_run_by_hand(db: Db) {
    let empty = db.another().await;
    empty.sql(queue::migration::sql(empty.dialect())).await;
    works(&empty).await;
    empty.migrate().await.expect("there is nothing left to do");
    assert_eq!(
        empty.sql("SELECT version, name, compatible_since FROM queue_migrations").await,
        db.sql("SELECT version, name, compatible_since FROM queue_migrations").await
    );
}

async fn prefix_everything(db: Db) {
    let names = db.objects().await;
    assert!(names.len() >= 8, "{names:?}");
    let strangers: Vec<_> = names.iter().filter(|name| !name.starts_with("queue_")).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

/// P2, P10: Beside the tables of an application, in its own transaction: the reason for all of this.
async fn may_share_the_database(db: Db) {
    db.sql("CREATE TABLE orders (id integer PRIMARY KEY, total integer NOT NULL)").await;
    let mut tx = db.begin().await;
    tx.sql("INSERT INTO orders VALUES (1, 100)").await.expect("inserted");
    tx.enqueue(Note::new("order 1")).await.expect("enqueued");
    tx.commit().await;
    let mut tx = db.begin().await;
    tx.sql("INSERT INTO orders VALUES (2, 100)").await.expect("inserted");
    tx.enqueue(Note::new("order 2")).await.expect("enqueued");
    tx.rollback().await;
    let worker = db.start(db.worker());
    db.finished(1).await;
    worker.stop().await;
    assert_eq!(
        (db.column("SELECT id FROM orders").await, db.probe.labels(What::Ended)),
        (vec!["1".into()], vec!["order 1".into()])
    );
}

async fn survive_being_dropped(db: Db) {
    let empty = db.another().await;
    for _ in 0..20 {
        let patience = Duration::from_micros(fastrand::u64(0..4000));
        drop(tokio::time::timeout(patience, empty.migrate()).await);
    }
    within("a migration", empty.migrate()).await.expect("migrated");
    let id = empty.enqueue(Note::new("a").priority(1)).await;
    assert_eq!(empty.job(id).await.job.priority, 1);
    works(&empty).await;
}

/// P39: Another program's tables and views are named, and nothing is changed.
async fn refuse_what_is_in_the_way(db: Db) {
    let in_the_way = [
        ("queue_workers", "CREATE TABLE queue_workers (a integer)"),
        ("queue_jobs", "CREATE TABLE queue_jobs (id integer PRIMARY KEY, kind integer)"),
        ("queue_claims", "CREATE VIEW queue_claims AS SELECT 1 AS a"),
        ("queue_history", "CREATE TABLE queue_history (id integer PRIMARY KEY)"),
        ("queue_dead", "CREATE VIEW queue_dead AS SELECT 1 AS id"),
        ("queue_schedules", "CREATE TABLE queue_schedules (id integer PRIMARY KEY)"),
        ("queue_apps", "CREATE VIEW queue_apps AS SELECT 1 AS app"),
        ("queue_attempts", "CREATE TABLE queue_attempts (job_id integer)"),
        ("queue_paused", "CREATE TABLE queue_paused (queue integer)"),
        ("queue_all", "CREATE TABLE queue_all (a integer)"),
        ("queue_all", "CREATE VIEW queue_all AS SELECT 1 AS a"),
        ("queue_stats", "CREATE VIEW queue_stats AS SELECT 1 AS a"),
        ("queue_migrations", "CREATE TABLE queue_migrations (a integer)"),
        ("queue_migrations", "CREATE VIEW queue_migrations AS SELECT 1 AS a"),
    ];
    for (name, sql) in in_the_way {
        if db.engine() == Engine::Sqlite && name == "queue_claims" {
            continue; // SQLite has none
        }
        let empty = db.another().await;
        empty.sql(sql).await;
        let before = empty.objects().await;
        let error = empty.migrate().await.expect_err(sql).to_string();
        assert!(error.contains(name), "{sql}: {error}");
        assert_eq!(empty.objects().await, before, "{sql}");
    }
}

/// As `pg_dump --schema-only` leaves them, of this version or an older one.
async fn adopt_tables_that_were_restored_without_rows(db: Db) {
    let (all, latest) =
        (queue::migration::sql(db.dialect()), db.int("SELECT MAX(version) FROM queue_migrations").await);
    for version in 1..=latest {
        let restored = db.another().await;
        let rest = queue::migration::sql_from(db.dialect(), version);
        restored.sql(all.strip_suffix(&rest).expect("the rest comes last")).await;
        restored.sql("DELETE FROM queue_migrations").await;
        restored.migrate().await.unwrap_or_else(|error| panic!("version {version}: {error}"));
        assert_eq!(
            restored.sql("SELECT version, name, compatible_since FROM queue_migrations ORDER BY version").await,
            db.sql("SELECT version, name, compatible_since FROM queue_migrations ORDER BY version").await
        );
        assert_eq!(restored.objects().await.len(), db.objects().await.len(), "version {version}");
        if version == latest {
            works(&restored).await;
        }
    }
}

/// P39: It says what is missing. MySQL and MariaDB make it.
async fn refuse_a_restored_part(db: Db) {
    let restored = db.another().await;
    restored.migrate().await.expect("migrated");
    restored.sql("DELETE FROM queue_migrations").await;
    restored.sql("DROP TABLE queue_unique_jobs").await;
    match db.engine() {
        Engine::MariaDb | Engine::MySql => restored.migrate().await.expect("every statement can be repeated"),
        Engine::Postgres | Engine::Sqlite => {
            let error = restored.migrate().await.expect_err("a part").to_string();
            for part in ["version 3", "`queue_unique_keys` exist, but `queue_unique_jobs` do not", "restored dump"] {
                assert!(error.contains(part), "{error}");
            }
            assert_eq!(restored.count("queue_migrations").await, 0, "nothing was changed");
        }
    }
}

/// P1: A change of a table waits for an open transaction, and all others wait behind it. So it may not wait for long.
async fn wait_for_a_table_without_holding_up_others(db: Db) {
    if db.engine() == Engine::Sqlite {
        return; // its readers hold up no change
    }
    let old = db.another().await;
    let (all, rest) = (queue::migration::sql(old.dialect()), queue::migration::sql_from(old.dialect(), 5));
    old.sql(all.strip_suffix(&rest).expect("the rest comes last")).await;
    let mut open = old.begin().await;
    open.sql("SELECT COUNT(*) FROM queue_jobs").await.expect("read");
    let pool = old.pool().clone();
    let migration = tokio::spawn(async move { pool.migrate().await });
    let looker = old.open(1).await;
    eventually("the migration waits", async || (waiting(&looker, old.engine()).await > 0).then_some(())).await;
    for _ in 0..10 {
        within("an enqueue beside it", old.sql("INSERT INTO queue_jobs (kind) VALUES ('note')")).await;
    }
    open.rollback().await;
    within("the migration", migration).await.expect("no panic").expect("migrated");
    assert_eq!(old.count("queue_jobs WHERE meta IS NULL").await, 10);
}

/// Tables of version 1, full of jobs, while others enqueue.
async fn upgrade_a_full_database_under_load(db: Db) {
    upgrade(db.another().await, 10_000).await;
}

/// The long form. `QUEUE_TEST_UPGRADE_JOBS` sets the number of jobs. `QUEUE_TEST_OLD_WORKER` names a
/// `queue-test-worker` of a build that knows version 1 only, such as that of commit b36de38: two such processes work
/// before, during and after the upgrade, and again after a worker of this build.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a million jobs: minutes, and two gigabytes of disk"]
async fn upgrade_a_million_jobs_under_load() {
    let given = std::env::var("QUEUE_TEST_UPGRADE_JOBS").ok().and_then(|jobs| jobs.parse().ok());
    for engine in [Engine::Postgres, Engine::MySql, Engine::MariaDb, Engine::Sqlite] {
        if let Some(old) = Db::empty(engine).await {
            upgrade(old, given.unwrap_or(1_000_000)).await;
        }
    }
}

async fn upgrade(old: Db, jobs: usize) {
    let (all, rest) = (queue::migration::sql(old.dialect()), queue::migration::sql_from(old.dialect(), 1));
    old.sql(all.strip_suffix(&rest).expect("the rest comes last")).await;
    assert_eq!(old.int("SELECT MAX(version) FROM queue_migrations").await, 1);
    for first in (0..jobs).step_by(1_000) {
        let later = |_| Note::new("before").after(Duration::from_secs(36_000));
        old.enqueue_all((first..jobs.min(first + 1_000)).map(later)).await;
    }
    let refused = old.worker().build().expect("built").run(std::future::ready(())).await.expect_err("old").to_string();
    assert!(refused.contains("at version 1, this program needs version 8"), "{refused}");
    let old_workers = OldWorkers::start(&old);
    let load = Load::default();
    let change = async {
        // as long without the upgrade, to compare
        tokio::time::sleep(load.calm(jobs)).await;
        load.phase.store(UPGRADES, Ordering::Relaxed);
        let began = Instant::now();
        old.migrate().await.expect("migrated");
        let took = began.elapsed();
        load.phase.store(UPGRADES + 1, Ordering::Relaxed);
        tokio::time::sleep(load.calm(jobs)).await;
        load.stop.cancel();
        took
    };
    let row = old.int("SELECT MIN(id) FROM queue_jobs").await;
    let as_worker = format!("UPDATE queue_jobs SET fence = fence WHERE id = {row} AND worker_id = 0");
    let pool = old.open(3).await;
    let enqueue = load.repeat(async || {
        pool.enqueue(Note::new("meanwhile")).await.expect("enqueued");
    });
    let write = load.repeat(async || {
        pool.sql(&as_worker).await.expect("written");
    });
    let (seen, looks, looker) = (AtomicI64::new(0), AtomicI64::new(0), old.open(1).await);
    let look = load.repeat(async || {
        if load.phase.load(Ordering::Relaxed) == UPGRADES {
            seen.fetch_add(waiting(&looker, old.engine()).await, Ordering::Relaxed);
            looks.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    });
    let ((count, enqueue), (_, write), _, took) = tokio::join!(enqueue, write, look, change);
    println!(
        "{}: {jobs} jobs upgraded in {took:.1?}; the longest of {count} enqueues took {:.1?} meanwhile and {:.1?} \
         before and after, the longest write of a waiting row {:.1?} and {:.1?}; {} waits for a table in {} looks",
        old.engine(),
        enqueue[1],
        enqueue[0],
        write[1],
        write[0],
        seen.into_inner(),
        looks.into_inner()
    );
    let mut finished = count;
    if let Some(workers) = old_workers {
        all_finished(&old, finished).await;
        workers.stop().await;
    }
    let worker = old.start(old.worker());
    finished += a_few_more(&old).await;
    all_finished(&old, finished).await;
    worker.stop().await;
    // the binaries go back, and the schema stays
    if let Some(workers) = OldWorkers::start(&old) {
        finished += a_few_more(&old).await;
        all_finished(&old, finished).await;
        workers.stop().await;
    }
    assert_eq!(old.count("queue_history WHERE state = 'completed'").await, finished);
    assert_eq!((old.count("queue_jobs").await, old.count("queue_dead").await), (jobs as i64, 0));
    assert_eq!(old.count("queue_schedules").await, 0);
}

/// Statements that wait for a lock of a table at this moment. SQLite has none but that of the file.
async fn waiting(pool: &AnyPool, engine: Engine) -> i64 {
    let sql = match engine {
        Engine::Postgres => {
            "SELECT count(*)::text FROM pg_locks WHERE NOT granted AND locktype = 'relation'
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        }
        Engine::MariaDb | Engine::MySql => {
            queue_test_support::sessions!(
                "CAST(COUNT(*) AS CHAR)",
                "db = DATABASE() AND state LIKE 'Waiting for table%'"
            )
        }
        Engine::Sqlite => return 0,
    };
    let rows = pool.sql(sql).await.expect("what waits");
    rows[0][0].as_ref().expect("a number").parse().expect("a number")
}

async fn a_few_more(db: &Db) -> i64 {
    db.enqueue_all((0..10).map(|_| Note::new("after"))).await.len() as i64
}

/// However many there are, as long as it goes on.
async fn all_finished(db: &Db, jobs: i64) {
    let mut now = db.count("queue_history").await;
    while now < jobs {
        let more = async || Some(db.count("queue_history").await).filter(|count| *count > now);
        now = eventually("another finished job", more).await;
    }
}

const UPGRADES: u8 = 1;

/// Statements that are sent again and again.
#[derive(Default)]
struct Load {
    /// 0, while it upgrades [`UPGRADES`], and more.
    phase: AtomicU8,
    stop: CancellationToken,
}

impl Load {
    /// How long to look before and after the upgrade.
    fn calm(&self, jobs: usize) -> Duration {
        Duration::from_millis(if jobs > 100_000 { 3_000 } else { 200 })
    }

    /// How often it was done; the longest time that it took before and after the upgrade, and with any part in it.
    async fn repeat(&self, mut what: impl AsyncFnMut()) -> (i64, [Duration; 2]) {
        let (mut count, mut longest) = (0, [Duration::ZERO; 2]);
        while !self.stop.is_cancelled() {
            let (began, phase) = (Instant::now(), self.phase.load(Ordering::Relaxed));
            what().await;
            let is_meanwhile = phase == UPGRADES || phase != self.phase.load(Ordering::Relaxed);
            let longest = &mut longest[usize::from(is_meanwhile)];
            *longest = began.elapsed().max(*longest);
            count += 1;
        }
        (count, longest)
    }
}

/// Processes of the build before, where there is one.
struct OldWorkers {
    helpers: Vec<Helper>,
    _records: tempfile::TempDir,
}

impl OldWorkers {
    fn start(db: &Db) -> Option<Self> {
        let program = std::env::var_os("QUEUE_TEST_OLD_WORKER")?;
        let folder = tempfile::tempdir().expect("a folder");
        let start = |number: usize| {
            let mut command = Command::new(&program);
            command
                .env("QUEUE_WORKER_URL", db.url())
                .env("QUEUE_WORKER_RECORDS", folder.path().join("records"))
                .env("QUEUE_WORKER_LOG", folder.path().join(format!("{number}.log")))
                .env("QUEUE_WORKER_CONCURRENCY", "8");
            Helper::start(&mut command)
        };
        Some(Self { helpers: (0..2).map(start).collect(), _records: folder })
    }

    async fn stop(mut self) {
        for helper in &mut self.helpers {
            helper.terminate();
            let status = helper.wait_for_exit(Duration::from_secs(20)).await;
            assert!(status.success(), "{status}");
        }
    }
}
