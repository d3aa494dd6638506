//! Enqueueing: into what, with which options, and what of it is there afterwards.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use queue::limits::MAX_ARGS_BYTES;
use queue::{Error, Job, JobId, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Placed, Play};
use queue_tests::{AnyPool, Db, What, each, eventually, within};
use sqlx::Connection as _;

conformance! {
    takes_every_target,
    never_runs_when_it_was_rolled_back,
    runs_only_once_it_is_committed,
    goes_with_a_savepoint,
    writes_declared_defaults,
    writes_options,
    keeps_any_text,
    writes_many_in_order,
    writes_many_with_options,
    writes_none_of_none,
    writes_all_or_none,
    goes_with_the_transaction_in_bulk,
    refuses_oversized_arguments,
    refuses_unusable_queue_names,
    names_the_kind_when_the_database_refuses,
    survives_being_dropped,
    is_written_once_begun,
    keeps_nobody_waiting_when_it_is_not_polled,
    survives_being_dropped_in_bulk,
    survives_being_dropped_in_bulk_on_a_connection,
    leaves_a_transaction_whole_when_it_is_dropped_in_bulk,
    goes_with_a_transaction_begun_by_sql,
    is_written_when_the_queue_of_signals_is_full,
}

/// P32.
async fn takes_every_target(db: Db) {
    db.enqueue(Note::new("pool")).await;
    match db.pool() {
        AnyPool::Pg(pool) => {
            let mut conn = pool.acquire().await.expect("a connection");
            Note::new("pool connection").enqueue(&mut conn).await.expect("enqueued");
            Note::new("connection").enqueue(&mut *conn).await.expect("enqueued");
            let mut tx = conn.begin().await.expect("a transaction");
            Note::new("transaction").enqueue(&mut tx).await.expect("enqueued");
            Note::new("transaction's connection").enqueue(&mut *tx).await.expect("enqueued");
            tx.commit().await.expect("committed");
        }
        AnyPool::MySql(pool) => {
            let mut conn = pool.acquire().await.expect("a connection");
            Note::new("pool connection").enqueue(&mut conn).await.expect("enqueued");
            Note::new("connection").enqueue(&mut *conn).await.expect("enqueued");
            let mut tx = conn.begin().await.expect("a transaction");
            Note::new("transaction").enqueue(&mut tx).await.expect("enqueued");
            Note::new("transaction's connection").enqueue(&mut *tx).await.expect("enqueued");
            tx.commit().await.expect("committed");
        }
        AnyPool::Sqlite(pool) => {
            let mut conn = pool.acquire().await.expect("a connection");
            Note::new("pool connection").enqueue(&mut conn).await.expect("enqueued");
            Note::new("connection").enqueue(&mut *conn).await.expect("enqueued");
            let mut tx = conn.begin().await.expect("a transaction");
            Note::new("transaction").enqueue(&mut tx).await.expect("enqueued");
            Note::new("transaction's connection").enqueue(&mut *tx).await.expect("enqueued");
            tx.commit().await.expect("committed");
        }
    }
    let worker = db.start(db.worker());
    db.probe.wait_for_all(What::Ended, 5).await;
    let mut ran = db.probe.labels(What::Started);
    ran.sort();
    assert_eq!(ran, ["connection", "pool", "pool connection", "transaction", "transaction's connection"]);
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 5, 0));
}

/// P2.
async fn never_runs_when_it_was_rolled_back(db: Db) {
    let worker = db.start(db.worker());
    let mut tx = db.begin().await;
    let lost = tx.enqueue(Note::new("lost")).await.expect("enqueued");
    tx.rollback().await;
    let mut tx = db.begin().await;
    tx.enqueue(Note::new("lost with the transaction")).await.expect("enqueued");
    drop(tx);
    let kept = db.enqueue(Note::new("kept")).await;
    db.probe.wait_for(What::Ended, "kept", 1).await;
    db.beats(2).await;
    assert_eq!(db.probe.labels(What::Started), ["kept"]);
    if lost != kept {
        assert_eq!(db.admin().job(lost).await.expect("an answer"), None);
    }
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 1, 0));
}

/// P10.
async fn runs_only_once_it_is_committed(db: Db) {
    let worker = db.start(db.worker());
    db.enqueue(Note::new("before")).await;
    db.probe.wait_for(What::Ended, "before", 1).await;
    let mut tx = db.begin().await;
    let id = tx.enqueue(Note::new("inside")).await.expect("enqueued");
    assert_eq!(
        tx.sql("SELECT COUNT(*) FROM queue_jobs WHERE worker_id = 0").await.expect("a count")[0][0].as_deref(),
        Some("1")
    );
    assert_eq!(db.admin().job(id).await.expect("an answer"), None, "it is seen before the commit");
    assert_eq!(db.probe.count(What::Started, "inside"), 0);
    tx.commit().await;
    let event = db.probe.wait_for(What::Ended, "inside", 1).await;
    assert_eq!(event.id, id);
    worker.stop().await;
}

/// P2.
async fn goes_with_a_savepoint(db: Db) {
    let mut tx = db.begin().await;
    tx.enqueue(Note::new("outer")).await.expect("enqueued");
    each!(AnyTransaction, &mut tx, outer => {
        let mut inner = outer.begin().await.expect("a savepoint");
        Note::new("inner").enqueue(&mut inner).await.expect("enqueued");
        queue::enqueue_all(&mut inner, (0..3).map(|n| Note::new(format!("inner {n}")))).await.expect("enqueued");
        inner.rollback().await.expect("rolled back");
    });
    tx.enqueue(Note::new("outer again")).await.expect("enqueued");
    tx.commit().await;
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for(What::Ended, "outer again", 1).await;
    worker.stop().await;
    assert_eq!(db.probe.labels(What::Started), ["outer", "outer again"]);
}

/// P32.
async fn writes_declared_defaults(db: Db) {
    let plain = db.enqueue(Note::new("plain")).await;
    let placed = db.enqueue(Placed::new("placed")).await;
    let plain = db.job(plain).await;
    assert_eq!((plain.job.kind.as_str(), plain.job.queue.as_str(), plain.job.priority), ("note", "default", 0));
    assert_eq!((plain.job.state, plain.job.attempt), (JobState::Ready, 0));
    assert_eq!(plain.job.run_at, plain.job.enqueued_at);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&plain.args).expect("JSON"),
        serde_json::json!({"label": "plain"})
    );
    assert_eq!((plain.result, plain.attempts.len(), plain.job.worker), (None, 0, None));
    let age = db.now().await - plain.job.enqueued_at;
    assert!(age.num_seconds().abs() < 20, "enqueued {age} ago");
    let placed = db.job(placed).await.job;
    assert_eq!((placed.queue.as_str(), placed.priority, placed.max_retries), ("mail", 7, Some(4)));
    let worker = db.start(db.worker());
    let event = db.probe.wait_for(What::Started, "placed", 1).await;
    assert_eq!(event.max_attempts, 5, "max_retries = 4 is five attempts");
    worker.stop().await;
}

/// P32.
async fn writes_options(db: Db) {
    let now = db.now().await;
    let time = now + Duration::from_secs(3600);
    let job = db.enqueue(Placed::new("a").priority(-32768).queue("other").max_retries(0).at(time)).await;
    let job = db.job(job).await.job;
    assert_eq!((job.queue.as_str(), job.priority, job.max_retries), ("other", i16::MIN, Some(0)));
    assert_eq!(job.state, JobState::Scheduled);
    assert!((job.run_at - time).abs() < chrono::TimeDelta::milliseconds(1), "{} is not {time}", job.run_at);
    let minute = Duration::from_secs(60);
    let before = db.now().await;
    let job = db.enqueue(Note::new("b").priority(32767).max_retries(u32::MAX).after(minute)).await;
    let after = db.now().await;
    let job = db.job(job).await.job;
    assert_eq!((job.priority, job.state), (i16::MAX, JobState::Scheduled));
    assert!(job.max_retries.is_some_and(|n| n >= 1_000_000), "{:?}", job.max_retries);
    // never shorter; on SQLite longer by what its clock of whole milliseconds leaves out
    let left_out = chrono::TimeDelta::milliseconds(if db.engine() == Engine::Sqlite { 2 } else { 0 });
    let from = job.run_at - minute;
    assert!((before..=after + left_out).contains(&from), "{from} is not between {before} and {after}");
    assert!(job.run_at - job.enqueued_at >= chrono::TimeDelta::seconds(60), "{job:?}");
    // the last of `after` and `at` counts
    let job = db.enqueue(Note::new("c").after(Duration::from_secs(60)).at(now)).await;
    assert_eq!(db.state(job).await, JobState::Ready);
    // a century is as long as for ever
    let job = db.enqueue(Note::new("d").after(Duration::MAX)).await;
    assert_eq!(db.state(job).await, JobState::Scheduled);
    let (first, again) = (db.enqueue(Note::new("e").at(now)).await, db.enqueue(Note::new("e").at(now)).await);
    assert!(again > first, "ids grow");
}

/// P32, P43: Whatever a `String` can hold comes back as it was, whatever the server's character set.
async fn keeps_any_text(db: Db) {
    let texts = [
        "",
        "'; DROP TABLE queue_jobs; --",
        "Größe 中文 🦀",
        "\\ \" \u{1} \t\r\n",
        "%s $1 ? :x",
        "line\u{2028}end",
        "nul \0 inside",
    ];
    for text in texts {
        db.enqueue(Note::new(text).queue(format!("über {}", text.len()))).await;
    }
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for_all(What::Ended, texts.len()).await;
    assert_eq!(db.probe.labels(What::Started), texts);
    assert_eq!(db.probe.log()[2].queue, format!("über {}", texts[1].len()));
    worker.stop().await;
}

/// P32.
async fn writes_many_in_order(db: Db) {
    let ids = db.enqueue_all((0..5000).map(|n| Note::new(format!("{n}")))).await;
    assert_eq!(ids.len(), 5000);
    assert!(ids.is_sorted_by(|a, b| a < b), "the order given is the order of the ids");
    assert_eq!(db.counts().await, (5000, 0, 0));
    for n in [0, 1, 999, 1000, 1001, 2500, 4998, 4999] {
        assert!(db.job(ids[n]).await.args.contains(&format!("\"{n}\"")), "job {n}");
    }
    let written: Vec<JobId> =
        db.column("SELECT id FROM queue_jobs ORDER BY id").await.iter().map(|id| id.parse().expect("an id")).collect();
    assert_eq!(written, ids);
}

/// P32.
async fn writes_many_with_options(db: Db) {
    let hour = Duration::from_secs(3600);
    let jobs = [
        Note::new("0").priority(3),
        Note::new("1").queue("mail"),
        Note::new("2").max_retries(0),
        Note::new("3").after(hour),
        Note::new("4").at(db.now().await + 2 * hour),
        Note::new("5").into(),
    ];
    let ids = db.enqueue_all(jobs).await;
    let mut rows = Vec::new();
    for id in ids {
        let job = db.job(id).await.job;
        rows.push((job.priority, job.queue, job.max_retries, (job.run_at - job.enqueued_at).num_minutes()));
    }
    let default = || "default".to_owned();
    assert_eq!(rows[0], (3, default(), Some(20), 0));
    assert_eq!(rows[1], (0, "mail".to_owned(), Some(20), 0));
    assert_eq!(rows[2], (0, default(), Some(0), 0));
    assert_eq!((rows[3].0, rows[3].3), (0, 60));
    assert!((119..=120).contains(&rows[4].3));
    assert_eq!(rows[5], (0, default(), Some(20), 0));
}

/// P32.
async fn writes_none_of_none(db: Db) {
    let ids = db.enqueue_all(Vec::<Note>::new()).await;
    assert_eq!((ids.len(), db.counts().await), (0, (0, 0, 0)));
}

/// P32.
async fn writes_all_or_none(db: Db) {
    let jobs = (0..100).map(|n| Note::new(if n == 70 { "x".repeat(MAX_ARGS_BYTES) } else { n.to_string() }));
    let error = db.pool().enqueue_all(jobs).await.expect_err("one is too large");
    assert!(matches!(error, Error::TooLarge { kind: "note", .. }), "{error}");
    assert_eq!(db.counts().await, (0, 0, 0));
    // one that the database refuses, far behind others
    db.sql("CREATE UNIQUE INDEX queue_test ON queue_jobs (priority, max_retries)").await;
    let jobs = (0..4000).map(|n| Note::new(n.to_string()).max_retries(if n == 3900 { 77 } else { n }));
    let error = db.pool().enqueue_all(jobs).await.expect_err("one is refused");
    assert!(error.to_string().contains("`note`"), "{error}");
    assert_eq!(db.count("queue_jobs").await, 0);
}

/// P2, P10.
async fn goes_with_the_transaction_in_bulk(db: Db) {
    let jobs = || (0..2500).map(|n| Note::new(n.to_string()));
    let mut tx = db.begin().await;
    let ids = tx.enqueue_all(jobs()).await.expect("enqueued");
    assert_eq!(ids.len(), 2500);
    assert_eq!(db.count("queue_jobs").await, 0);
    tx.rollback().await;
    assert_eq!(db.count("queue_jobs").await, 0);

    let mut tx = db.begin().await;
    tx.enqueue(Note::new("single")).await.expect("enqueued");
    let ids = tx.enqueue_all(jobs()).await.expect("enqueued");
    assert_eq!(tx.sql("SELECT COUNT(*) FROM queue_jobs").await.expect("a count")[0][0].as_deref(), Some("2501"));
    assert_eq!(db.count("queue_jobs").await, 0, "it is seen before the commit");
    tx.commit().await;
    assert_eq!(db.count("queue_jobs").await, 2501);
    assert!(ids.is_sorted_by(|a, b| a < b));
}

/// P39.
async fn refuses_oversized_arguments(db: Db) {
    let around = serde_json::to_string(&Note::new("")).expect("JSON").len();
    let fits = "x".repeat(MAX_ARGS_BYTES - around);
    let id = db.enqueue(Note::new(fits.clone())).await;
    assert!(db.job(id).await.args.len() >= MAX_ARGS_BYTES);
    let error = db.pool().enqueue(Note::new(fits + "x")).await.expect_err("too large");
    let text = error.to_string();
    for part in ["`note`", &(MAX_ARGS_BYTES + 1).to_string(), &MAX_ARGS_BYTES.to_string()] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert!(
        matches!(error, Error::TooLarge { kind: "note", size, limit } if size == limit + 1 && limit == MAX_ARGS_BYTES)
    );
    assert_eq!(db.count("queue_jobs").await, 1);
    let worker = db.start(db.worker());
    db.finished(1).await;
    worker.stop().await;
}

/// P39.
async fn refuses_unusable_queue_names(db: Db) {
    for (name, why) in [("", "empty"), ("a\nb", "control"), ("mail ", "white space"), (&"ä".repeat(65), "130 bytes")] {
        let error = db.pool().enqueue(Note::new("a").queue(name)).await.expect_err(why);
        let text = error.to_string();
        assert!(matches!(error, Error::Config(_)) && text.contains(why) && text.contains("`note`"), "{text}");
    }
    let longest = "ä".repeat(64);
    let id = db.enqueue(Note::new("a").queue(&longest)).await;
    assert_eq!(db.job(id).await.job.queue, longest);
    assert_eq!(db.count("queue_jobs").await, 1);
}

/// P39.
async fn names_the_kind_when_the_database_refuses(db: Db) {
    let empty = db.another().await;
    let error = empty.pool().enqueue(Note::new("a")).await.expect_err("there is no table");
    assert!(matches!(error, Error::Database { .. }) && error.to_string().contains("`note`"), "{error}");
    let mut tx = empty.begin().await;
    let error = tx.enqueue_all([Note::new("a")]).await.expect_err("there is no table");
    assert!(error.to_string().contains("`note`"), "{error}");
}

/// P2, P32: The caller may drop an enqueue at any moment; what it holds of the pool is whole afterwards.
async fn survives_being_dropped(db: Db) {
    let pool = db.open(2).await;
    for n in 0..240 {
        let label = format!("{n}");
        let patience = Duration::from_micros(fastrand::u64(0..1500));
        match n % 4 {
            0 | 1 => drop(tokio::time::timeout(patience, pool.enqueue(Note::new(label))).await),
            2 => {
                let mut tx = within("a transaction", pool.begin()).await;
                // sqlx loses its place in a connection to MySQL whose statement is dropped while it is prepared
                tx.enqueue(Note::new(format!("never {n}"))).await.expect("enqueued, and the statement is prepared");
                drop(tokio::time::timeout(patience, tx.enqueue(Note::new(format!("never {n}")))).await);
            }
            _ => each!(AnyPool, &pool, pool => {
                let mut conn = within("a connection", pool.acquire()).await.expect("a connection");
                drop(tokio::time::timeout(patience, Note::new(label).enqueue(&mut conn)).await);
            }),
        }
    }
    for n in 0..4 {
        within("an enqueue", pool.enqueue(Note::new(format!("after {n}")))).await.expect("the pool is healthy");
    }
    let worker = db.start(db.worker());
    for n in 0..4 {
        db.probe.wait_for(What::Ended, &format!("after {n}"), 1).await;
    }
    eventually("an empty table", async || (db.count("queue_jobs").await == 0).then_some(())).await;
    worker.stop().await;
    let ran = db.probe.labels(What::Started);
    assert!(ran.iter().all(|label| !label.starts_with("never")), "a job of a transaction that was dropped ran");
    let mut once = ran.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), ran.len(), "one was written twice");
    assert_eq!(db.counts().await, (0, ran.len() as i64, 0));
}

/// P32: Whoever drops an enqueue does not wait for it; it is finished without him.
async fn is_written_once_begun(db: Db) {
    const ENQUEUES: i64 = 60;
    let pool = db.open(3).await;
    for n in 0..ENQUEUES {
        // polled once in any case
        let patience = Duration::from_micros(fastrand::u64(0..400));
        drop(tokio::time::timeout(patience, pool.enqueue(Note::new(format!("{n}")))).await);
    }
    eventually("all of them", async || (db.count("queue_jobs").await == ENQUEUES).then_some(())).await;
}

/// P32: Wherever an enqueue stands, others go on without it.
async fn keeps_nobody_waiting_when_it_is_not_polled(db: Db) {
    let pool = db.open(3).await;
    for polls in 1..6 {
        // with a connection at hand, the first poll begins to write
        pool.enqueue(Note::new("before")).await.expect("enqueued");
        let mut forgotten = std::pin::pin!(pool.enqueue(Note::new("forgotten")));
        let mut written = false;
        for _ in 0..polls {
            // once, whatever comes of it
            written = poll_fn(|context| Poll::Ready(forgotten.as_mut().poll(context).is_ready())).await;
            if written {
                break;
            }
            // what it waits for may come meanwhile
            tokio::task::yield_now().await;
        }
        // many, one after the other: each would wait for a while
        let others = async {
            for n in 0..30 {
                pool.enqueue(Note::new(format!("{n}"))).await.expect("enqueued");
            }
        };
        within("the others", others).await;
        if !written {
            within("the first", forgotten).await.expect("enqueued");
        }
    }
    assert_eq!(db.count("queue_jobs").await, 5 * 32);
}

/// P32: Bulk enqueues through a pool of two, each dropped somewhere on its way.
async fn survives_being_dropped_in_bulk(db: Db) {
    let pool = db.open(2).await;
    for n in 0..16 {
        let patience = Duration::from_micros(fastrand::u64(0..60_000));
        drop(tokio::time::timeout(patience, pool.enqueue_all(batch(n))).await);
    }
    is_healthy(&db, &pool).await;
}

/// P32: The same into connections that the caller has taken from the pool.
async fn survives_being_dropped_in_bulk_on_a_connection(db: Db) {
    let pool = db.open(2).await;
    for n in 0..24 {
        let patience = Duration::from_micros(fastrand::u64(0..60_000));
        each!(AnyPool, &pool, pool => {
            let mut conn = within("a connection", pool.acquire()).await.expect("a connection");
            drop(tokio::time::timeout(patience, queue::enqueue_all(&mut conn, batch(n))).await);
        });
    }
    is_healthy(&db, &pool).await;
}

/// P10: Whatever becomes of a batch in the caller's transaction, what he wrote before it is there when the commit says
/// so.
async fn leaves_a_transaction_whole_when_it_is_dropped_in_bulk(db: Db) {
    let mut kept = Vec::new();
    for n in 0..60 {
        let pool = db.open(1).await;
        let patience = Duration::from_micros(fastrand::u64(0..if n % 2 == 0 { 2_000 } else { 30_000 }));
        let plays = |count| (0..count).map(|_| Play::new("a", Vec::new()));
        // sqlx loses its place in a connection to MySQL whose statement is dropped while it is prepared, and no answer
        // comes then: the statements are prepared before
        let mut tx = within("a transaction", pool.begin()).await;
        tx.enqueue(Note::new("rolled back")).await.expect("enqueued");
        tx.enqueue_all(plays(if n % 2 == 0 { 40 } else { 1_001 })).await.expect("enqueued");
        tx.rollback().await;
        let mut tx = within("a transaction", pool.begin()).await;
        let id = tx.enqueue(Note::new(format!("{n}"))).await.expect("enqueued");
        // so many that each engine but PostgreSQL takes several statements
        let many = plays(if n % 2 == 0 { 40 } else { 5_001 });
        drop(tokio::time::timeout(patience, tx.enqueue_all(many)).await);
        let commit = async { each!(AnyTransaction, tx, tx => tx.commit().await.is_ok()) };
        if tokio::time::timeout(Duration::from_secs(1), commit).await == Ok(true) {
            kept.push(id.to_string());
        }
    }
    assert!(kept.len() > 30, "{} commits were answered: this shows nothing", kept.len());
    let there = db.column("SELECT id FROM queue_jobs WHERE kind = 'note'").await;
    let lost: Vec<_> = kept.iter().filter(|id| !there.contains(id)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// P2, P10: sqlx knows nothing of a transaction that was begun by SQL; a batch is part of it all the same.
async fn goes_with_a_transaction_begun_by_sql(db: Db) {
    // on SQLite of one statement: sqlx's own transaction is refused within another
    let sizes: &[usize] = if db.engine() == Engine::Sqlite { &[40] } else { &[40, 1_001] };
    for size in sizes {
        each!(AnyPool, db.pool(), pool => {
            let mut conn = pool.acquire().await.expect("a connection");
            for end in ["ROLLBACK", "COMMIT"] {
                sqlx::raw_sql("BEGIN").execute(&mut *conn).await.expect("begun");
                Note::new("before").enqueue(&mut *conn).await.expect("enqueued");
                let many = (0..*size).map(|_| Play::new("a", Vec::new()));
                queue::enqueue_all(&mut *conn, many).await.expect("enqueued");
                sqlx::raw_sql(end).execute(&mut *conn).await.expect("ended");
            }
        });
        let (notes, plays) = ("queue_jobs WHERE kind = 'note'", "queue_jobs WHERE kind = 'play'");
        assert_eq!((db.count(notes).await, db.count(plays).await), (1, *size as i64));
        db.sql("DELETE FROM queue_jobs").await;
    }
}

const BATCH: i64 = 1500;

fn batch(n: u32) -> impl Iterator<Item = Play> {
    (0..BATCH).map(move |_| Play::new(n.to_string(), Vec::new()))
}

async fn is_healthy(db: &Db, pool: &AnyPool) {
    let after = within("an enqueue", pool.enqueue(Note::new("after"))).await.expect("the pool is healthy");
    // seen through other connections: what was dropped left no open transaction behind that would swallow it
    assert_eq!(db.state(after).await, JobState::Ready);
    eventually("the last batch to be decided", async || {
        (db.count("queue_jobs WHERE kind = 'play'").await % BATCH == 0).then_some(())
    })
    .await;
    let batches =
        db.column("SELECT COUNT(*) FROM queue_jobs WHERE kind = 'play' GROUP BY CAST(args AS char(100))").await;
    assert!(batches.iter().all(|rows| rows.parse() == Ok(BATCH)), "not all or none: {batches:?}");
}

/// P32: PostgreSQL refuses a NOTIFY while some session that listens has not ended its transaction for very long.
async fn is_written_when_the_queue_of_signals_is_full(db: Db) {
    if db.engine() != Engine::Postgres {
        return;
    }
    db.sql(
        "CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
             RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000'; END $$",
    )
    .await;
    let pool = db.open_with(4, "SET search_path = public, pg_catalog").await;
    let first = pool.enqueue(Note::new("a")).await.expect("a hint is worth no job");
    pool.enqueue_all([Note::new("b"), Note::new("c")]).await.expect("enqueued");
    assert_eq!((db.state(first).await, db.count("queue_jobs").await), (JobState::Ready, 3));
}
