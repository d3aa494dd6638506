//! Migrations: many at the same time, again and again, by hand.

use queue::Job;
use queue_test_support::Engine;
use queue_tests::jobs::Note;
use queue_tests::{Db, What, within};

conformance! {
    may_run_ten_times_at_once,
    change_nothing_the_second_time,
    may_run_by_hand,
    prefix_everything,
    may_share_the_database,
    survive_being_dropped,
    refuse_what_is_in_the_way,
    upgrade_a_full_database_under_load,
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
    empty.sql(queue::migration_sql(empty.dialect())).await;
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

/// Beside the tables of an application, in its own transaction: the reason for all of this.
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
        let patience = std::time::Duration::from_micros(fastrand::u64(0..4000));
        drop(tokio::time::timeout(patience, empty.migrate()).await);
    }
    within("a migration", empty.migrate()).await.expect("migrated");
    let id = empty.enqueue(Note::new("a").priority(1)).await;
    assert_eq!(empty.job(id).await.job.priority, 1);
    works(&empty).await;
}

/// Another program's tables and views are named, and nothing is changed.
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

/// Tables of version 1, full of jobs, while others enqueue.
async fn upgrade_a_full_database_under_load(db: Db) {
    let old = db.another().await;
    let (all, rest) = (queue::migration_sql(old.dialect()), queue::migration_sql_from(old.dialect(), 1));
    old.sql(all.strip_suffix(&rest).expect("the rest comes last")).await;
    assert_eq!(old.int("SELECT MAX(version) FROM queue_migrations").await, 1);
    for _ in 0..10 {
        old.enqueue_all((0..1_000).map(|_| Note::new("before").after(std::time::Duration::from_secs(3_600)))).await;
    }
    let refused = old.worker().build().expect("built").run(std::future::ready(())).await.expect_err("old").to_string();
    assert!(refused.contains("at version 1, this program needs version 3"), "{refused}");
    let stop = tokio_util::sync::CancellationToken::new();
    let load = async {
        let (pool, mut count, mut longest) = (old.open(2).await, 0, std::time::Duration::ZERO);
        while !stop.is_cancelled() {
            let began = std::time::Instant::now();
            pool.enqueue(Note::new("meanwhile")).await.expect("enqueued");
            longest = longest.max(began.elapsed());
            count += 1;
        }
        (count, longest)
    };
    let upgrade = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        old.migrate().await.expect("migrated");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        stop.cancel();
    };
    let ((count, longest), ()) = tokio::join!(load, upgrade);
    println!("{}: {count} jobs enqueued meanwhile, one in {longest:?} at most", old.engine());
    let worker = old.start(old.worker());
    old.finished(count).await;
    worker.stop().await;
    assert_eq!(old.count("queue_jobs").await, 10_000);
    assert_eq!(old.count("queue_schedules").await, 0);
}
