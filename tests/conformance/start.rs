//! What a worker refuses before it claims anything, and with which words.
//!
//! Promise: P39.

use std::time::Duration;

use queue::{Error, Job, JobContext, JobError, StateType, WorkerBuilder};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Renamed};
use queue_tests::{Db, What, within};

conformance! {
    refuses_a_missing_schema,
    refuses_an_older_schema,
    refuses_an_incompatible_newer_schema,
    accepts_a_compatible_newer_schema,
    refuses_to_know_no_job,
    refuses_a_missing_state,
    refuses_two_jobs_of_one_kind,
    refuses_an_alias_that_is_a_kind,
    refuses_unusable_kinds,
    refuses_zero_limits,
    refuses_unusable_queues,
    refuses_durations_that_contradict_each_other,
    refuses_a_retention_out_of_range,
    says_what_it_serves,
    refuses_a_pooler_of_which_it_was_not_told,
    accepts_to_be_told_of_a_pooler_that_is_not_there,
}

/// Says why a configuration is refused.
fn refused(builder: WorkerBuilder) -> String {
    match builder.build() {
        Err(Error::Config(why)) => why,
        other => panic!("not refused as a configuration: {other:?}"),
    }
}

fn accepted(builder: WorkerBuilder) {
    drop(builder.build().expect("a good configuration"));
}

async fn refused_at_start(db: &Db) -> String {
    let worker = db.worker().build().expect("a good configuration: no I/O so far");
    match within("a worker's start", worker.run(std::future::pending())).await {
        Err(Error::Schema(why)) => why,
        other => panic!("not refused for its schema: {other:?}"),
    }
}

async fn refuses_a_missing_schema(db: Db) {
    let why = refused_at_start(&db.another().await).await;
    assert!(why.contains("missing") && why.contains("queue::migrate"), "{why}");
}

async fn refuses_an_older_schema(db: Db) {
    db.enqueue(Note::new("a")).await;
    db.sql("UPDATE queue_migrations SET version = version - 1, compatible_since = compatible_since - 1").await;
    let why = refused_at_start(&db).await;
    assert!(why.contains("version") && why.contains("queue::migrate"), "{why}");
    assert_eq!(db.count("queue_jobs WHERE attempt = 0").await, 1);
    assert_eq!(db.count("queue_workers").await, 0);
}

/// P42.
async fn refuses_an_incompatible_newer_schema(db: Db) {
    db.enqueue(Note::new("a")).await;
    db.sql("INSERT INTO queue_migrations (version, name, compatible_since) VALUES (900, 'future', 900)").await;
    let why = refused_at_start(&db).await;
    assert!(why.contains("version 900") && why.contains("newer"), "{why}");
    assert_eq!((db.count("queue_jobs WHERE attempt = 0").await, db.count("queue_workers").await), (1, 0));
    let error = db.migrate().await.expect_err("nor does it migrate");
    assert!(matches!(&error, Error::Schema(why) if why.contains("version 900")), "{error}");
}

/// P42.
async fn accepts_a_compatible_newer_schema(db: Db) {
    db.sql("INSERT INTO queue_migrations (version, name, compatible_since) VALUES (900, 'future', 1)").await;
    db.migrate().await.expect("nothing to do");
    let worker = db.start(db.worker());
    db.enqueue(Note::new("a")).await;
    db.probe.wait_for(What::Ended, "a", 1).await;
    worker.stop().await;
}

async fn refuses_to_know_no_job(db: Db) {
    let why = refused(db.worker().only_registered());
    assert!(why.contains("no job") && why.contains("register"), "{why}");
}

async fn refuses_a_missing_state(db: Db) {
    let why = refused(db.pool().worker());
    assert!(why.contains("State<") && why.contains(".state("), "{why}");
    let why = refused(db.pool().worker().only_registered().register::<Note>());
    assert!(why.contains("`note`") && why.contains("Probe"), "{why}");
    accepted(db.pool().worker().only_registered().register::<Note>().state(db.probe.clone()));
}

macro_rules! by_hand {
    ($name:ident, $kind:expr, $aliases:expr) => {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct $name;

        impl Job for $name {
            const KIND: &'static str = $kind;
            const ALIASES: &'static [&'static str] = $aliases;
            type Output = ();
            async fn run(self, _: JobContext) -> Result<(), JobError> {
                Ok(())
            }
            fn requires() -> Vec<StateType> {
                Vec::new()
            }
        }
    };
}

by_hand!(Twin, "note", &[]);
by_hand!(Usurper, "former_name", &[]);
by_hand!(Greedy, "greedy", &["greedier", "note"]);
by_hand!(Nameless, "", &[]);
by_hand!(Spoken, "a\tb", &[]);

async fn refuses_two_jobs_of_one_kind(db: Db) {
    let why = refused(db.worker().register::<Twin>());
    for part in ["`note`", "Twin", "jobs::Note"] {
        assert!(why.contains(part), "{part} is not in: {why}");
    }
    accepted(db.worker().register::<Note>().register::<Note>());
    accepted(db.worker().only_registered().register::<Twin>());
}

async fn refuses_an_alias_that_is_a_kind(db: Db) {
    let why = refused(db.worker().register::<Greedy>());
    assert!(why.contains("`note`") && why.contains("Greedy"), "{why}");
    let why = refused(db.worker().only_registered().register::<Renamed>().register::<Usurper>());
    assert!(why.contains("`former_name`") && why.contains("Usurper"), "{why}");
}

async fn refuses_unusable_kinds(db: Db) {
    assert!(refused(db.worker().register::<Nameless>()).contains("empty"));
    assert!(refused(db.worker().register::<Spoken>()).contains("control"));
}

async fn refuses_zero_limits(db: Db) {
    let why = refused(db.worker().concurrency(0));
    assert!(why.contains("concurrency(0)") && why.contains("at least 1"), "{why}");
    let why = refused(db.worker().queue("mail", 0));
    assert!(why.contains("`mail`") && why.contains("at least 1"), "{why}");
    refused(db.worker().queue("mail", 1).concurrency(0));
}

async fn refuses_unusable_queues(db: Db) {
    let why = refused(db.worker().queue("mail", 1).queue("other", 1).queue("mail", 2));
    assert!(why.contains("`mail`") && why.contains("twice"), "{why}");
    let why = refused(db.worker().queue("mail", 1).lifo("other"));
    assert!(why.contains("other") && why.contains(".queue("), "{why}");
    let why = refused(db.worker().queue("mail", 1).start_within("other", Duration::from_secs(1)));
    assert!(why.contains("start_within(\"other\"") && why.contains(".queue("), "{why}");
    assert!(refused(db.worker().queue("", 1)).contains("empty"));
    accepted(db.worker().lifo("any"));
}

async fn refuses_durations_that_contradict_each_other(db: Db) {
    let second = Duration::from_secs(1);
    let why = refused(db.worker().heartbeat(second).lease(3 * second - Duration::from_millis(1)));
    assert!(why.contains("heartbeat 1s") && why.contains("lease 2.999s"), "{why}");
    let why = refused(db.worker().heartbeat(Duration::from_millis(99)).lease(second));
    assert!(why.contains("99ms") && why.contains("100 ms"), "{why}");
    refused(db.worker().heartbeat(Duration::ZERO).lease(Duration::ZERO));
    accepted(db.worker().heartbeat(second).lease(3 * second));
    refused(db.worker().heartbeat(Duration::MAX));
}

async fn refuses_a_retention_out_of_range(db: Db) {
    let century = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    // in microseconds the third is more than 64 bits hold
    for keep in
        [Duration::ZERO, Duration::from_millis(99), Duration::from_secs(u64::MAX / 1_000_000 + 1), Duration::MAX]
    {
        let why = refused(db.worker().retention(keep));
        for part in ["`retention`", &format!("{keep:?}"), "100 ms", "100 years"] {
            assert!(why.contains(part), "{part} is not in: {why}");
        }
    }
    refused(db.worker().retention(century + Duration::from_nanos(1)));
    // the longest is one that the database can count back
    let worker = db.start(db.worker().retention(century));
    let id = db.enqueue(Note::new("kept")).await;
    db.finished(1).await;
    worker.stop().await;
    let keep = century.as_micros();
    let before = match db.engine() {
        Engine::Postgres => format!("now() - {keep} * interval '1 microsecond'"),
        Engine::MariaDb | Engine::MySql => format!("UTC_TIMESTAMP(6) - INTERVAL {keep} MICROSECOND"),
        Engine::Sqlite => db.time(-i64::try_from(century.as_millis()).expect("a number")),
    };
    assert_eq!(db.count(&format!("queue_history WHERE id = {id} AND finished_at > {before}")).await, 1);
    accepted(db.worker().retention(Duration::from_millis(100)));
}

/// P36: The row of a worker says who it is and what it serves; it is written before the first claim.
async fn says_what_it_serves(db: Db) {
    let worker = db.worker_apart().await.queue("mail", 3).queue("default", 4);
    let worker = db.start(worker.only_registered().register::<Note>().register::<Renamed>());
    db.enqueue(Note::new("a")).await;
    db.probe.wait_for(What::Ended, "a", 1).await;
    let info = db.admin().workers().await.expect("an answer").remove(0);
    assert_eq!(info.kinds, ["first_name", "former_name", "note", "renamed"]);
    assert_eq!((info.queues, info.concurrency), (vec!["default".to_owned(), "mail".to_owned()], 7));
    assert_eq!(info.pid, std::process::id());
    assert!(!info.host.is_empty() && info.alive && info.started_at <= info.heartbeat_at);
    worker.stop().await;
    let debug = format!("{:?}", db.worker().build().expect("a good configuration"));
    assert!(debug.starts_with("Worker") && debug.contains("concurrency"), "{debug}");
}

/// Its settings, locks and notifications would be those of others.
async fn refuses_a_pooler_of_which_it_was_not_told(db: Db) {
    let worker = db.worker().transaction_pooler(false).build().expect("a good configuration: no I/O so far");
    if !db.is_pooled() {
        return;
    }
    db.enqueue(Note::new("a")).await;
    match within("a worker's start", worker.run(std::future::pending())).await {
        Err(Error::Config(why)) => assert!(why.contains(".transaction_pooler(true)"), "{why}"),
        other => panic!("not refused as a configuration: {other:?}"),
    }
    assert_eq!((db.count("queue_workers").await, db.count("queue_jobs WHERE attempt = 0").await), (0, 1));
    let left = "SELECT current_setting('enable_seqscan') || current_setting('idle_in_transaction_session_timeout')";
    for _ in 0..20 {
        assert_eq!(db.value(left).await.as_deref(), Some("on0"), "it has left something in a session");
    }
}

/// P43.
async fn accepts_to_be_told_of_a_pooler_that_is_not_there(db: Db) {
    let told = db.worker().transaction_pooler(true);
    if db.engine() != Engine::Postgres {
        assert!(refused(told).contains("PostgreSQL"));
        return;
    }
    let worker = db.start(told);
    db.enqueue_all((0..100).map(|n| Note::new(n.to_string()))).await;
    db.finished(100).await;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database =
                 (SELECT oid FROM pg_database WHERE datname = current_database())";
    db.beats(2).await;
    assert_eq!(db.int(locks).await, 0, "it holds a lock of a session");
    let hears = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN%'";
    assert_eq!(db.int(hears).await, 0, "it listens");
    worker.stop().await;
}
