//! The contract for other programs: one statement enqueues, two views tell.
//!
//! Promise: P33.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use queue::unique::Enqueued::Kept;
use queue::unique::UniqueUntil;
use queue::{Job, JobId, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play};
use queue_tests::{Db, Step, What, eventually};

conformance! {
    need_kind_and_arguments_only,
    may_set_the_optional_columns,
    may_leave_the_retries_to_the_job,
    are_heard_without_a_signal,
    may_use_their_own_transaction,
    are_refused_what_no_worker_could_read,
    see_every_job_in_one_view,
    see_counts_in_another_view,
    may_enqueue_unique_jobs,
    may_take_a_key_until_the_start_or_for_a_time,
    share_keys_with_the_library,
}

/// The statements for unique jobs of docs/sql.md.
pub(crate) mod documented {
    use queue::JobId;
    use queue_test_support::Engine;
    use queue_tests::AnyPool;

    const PAGE: &str = include_str!("../../docs/sql.md");

    /// The block of the page with this headline, for a note with this key.
    pub(crate) fn block(headline: &str, key: &str) -> String {
        let head = format!("```sql\n-- {headline}\n");
        let (_, block) = PAGE.split_once(&head).unwrap_or_else(|| panic!("no such block: {head}"));
        let (block, _) = block.split_once("```").expect("the end of a block");
        let block = block.replace("'refresh'", "'note'").replace("{\"shop\": 7}", &format!("{{\"label\": \"{key}\"}}"));
        block.replace("'shop-7'", &format!("'{key}'"))
    }

    /// Enqueues a note as the page says. Returns the job that stands for it, and whether it is new.
    pub(crate) async fn enqueue(pool: &AnyPool, engine: Engine, key: &str) -> (JobId, bool) {
        enqueue_with(pool, engine, key, str::to_owned).await
    }

    /// With other values for `held_until` and `free_at`.
    pub(crate) async fn enqueue_with(
        pool: &AnyPool,
        engine: Engine,
        key: &str,
        change: impl Fn(&str) -> String,
    ) -> (JobId, bool) {
        let id = |rows: Vec<Vec<Option<String>>>| -> Option<JobId> {
            let id: i64 = rows.first()?[0].as_ref()?.parse().expect("an id");
            Some(id.into())
        };
        if engine == Engine::Postgres {
            let (take, who) = ("PostgreSQL: a unique job", "PostgreSQL: the job that has the key");
            let (take, who) = (change(&block(take, key)), block(who, key));
            loop {
                let mut tx = pool.begin().await;
                let new = id(tx.sql(&take).await.expect("the statement of the page"));
                let other = id(tx.sql(&who).await.expect("the statement of the page"));
                tx.commit().await;
                match (new, other) {
                    (Some(new), other) => {
                        assert_eq!(other, Some(new));
                        return (new, true);
                    }
                    (None, Some(other)) => return (other, false),
                    (None, None) => {}
                }
            }
        }
        let headline = if engine == Engine::Sqlite { "SQLite" } else { "MySQL and MariaDB" };
        let all = change(&block(&format!("{headline}: a unique job"), key));
        // it is new if its number is: nobody else takes keys in the tests that ask
        let before = id(pool.sql("SELECT MAX(job_id) FROM queue_unique_keys").await.expect("a number"));
        let job = id(pool.sql(&all).await.unwrap_or_else(|error| panic!("{error}: {all}"))).expect("a job");
        (job, before.is_none_or(|before| job > before))
    }
}

async fn need_kind_and_arguments_only(db: Db) {
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"label\":\"hi\"}')").await;
    db.sql("INSERT INTO queue_jobs (kind) VALUES ('bare')").await;
    let ids = db.column("SELECT id FROM queue_jobs ORDER BY id").await;
    let job = db.job(ids[0].parse().expect("an id")).await;
    assert_eq!((job.job.queue.as_str(), job.job.priority, job.job.state), ("default", 0, JobState::Ready));
    assert_eq!((job.job.max_retries, job.job.attempt, job.args.as_str()), (None, 0, "{\"label\":\"hi\"}"));
    let age = db.now().await - job.job.run_at;
    assert!(age.num_seconds().abs() < 20 && job.job.run_at == job.job.enqueued_at, "due {age} ago");
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Ended, "hi", 1).await;
    db.probe.wait_for(What::Ended, "bare", 1).await;
    db.finished(2).await;
    worker.stop().await;
}

async fn may_set_the_optional_columns(db: Db) {
    let insert = "INSERT INTO queue_jobs (kind, args, queue, priority, run_at, max_retries)";
    db.sql(format!(
        "{insert} VALUES ('note', '{{\"label\":\"second\"}}', 'mail', 5, {}, 0),
                         ('note', '{{\"label\":\"first\"}}', 'mail', -5, {}, NULL),
                         ('note', '{{\"label\":\"tomorrow\"}}', 'mail', -9, {}, 7)",
        db.time(-10_000),
        db.time(-5_000),
        db.time(86_400_000)
    ))
    .await;
    let worker = db.start(db.worker().queue("mail", 1));
    db.probe.wait_for_all(What::Ended, 2).await;
    db.finished(2).await;
    assert_eq!(db.probe.labels(What::Started), ["first", "second"]);
    let most: Vec<_> = db.probe.log().into_iter().filter(|e| e.what == What::Started).map(|e| e.max_attempts).collect();
    assert_eq!(most, [21, 1]);
    assert_eq!(db.column("SELECT state FROM queue_all WHERE priority = -9").await, ["scheduled"]);
    worker.stop().await;
}

/// P9.
async fn may_leave_the_retries_to_the_job(db: Db) {
    let fail = serde_json::to_string(&Play::new("a", [Step::Fail("no".into())])).expect("JSON");
    db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('play', '{fail}')")).await;
    db.sql(format!("INSERT INTO queue_jobs (kind, args, max_retries) VALUES ('play', '{fail}', NULL)")).await;
    db.sql(format!("INSERT INTO queue_jobs (kind, args, max_retries) VALUES ('play', '{fail}', 0)")).await;
    let worker = db.start(db.worker());
    queue_tests::eventually("dead letters", async || (db.counts().await == (0, 0, 3)).then_some(())).await;
    worker.stop().await;
    assert_eq!(db.column("SELECT attempt FROM queue_dead ORDER BY id").await, ["3", "3", "1"]);
    assert_eq!(db.column("SELECT max_retries FROM queue_dead ORDER BY id").await, ["2", "2", "0"]);
}

/// P24: Nothing tells a worker of a plain insert; it looks by itself, also after a while without work.
async fn are_heard_without_a_signal(db: Db) {
    let worker = db.start(db.worker());
    for n in 0..3 {
        db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{{\"label\":\"{n}\"}}')")).await;
        db.probe.wait_for(What::Ended, &n.to_string(), 1).await;
        db.beats(3).await;
    }
    worker.stop().await;
}

/// P2.
async fn may_use_their_own_transaction(db: Db) {
    let worker = db.start(db.worker());
    let mut tx = db.begin().await;
    tx.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"label\":\"lost\"}')").await.expect("inserted");
    tx.rollback().await;
    let mut tx = db.begin().await;
    tx.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"label\":\"kept\"}')").await.expect("inserted");
    tx.commit().await;
    db.probe.wait_for(What::Ended, "kept", 1).await;
    assert_eq!(db.probe.labels(What::Started), ["kept"]);
    worker.stop().await;
}

/// P38.
async fn are_refused_what_no_worker_could_read(db: Db) {
    for (columns, values, why) in [
        ("kind, args", "'note', '{\"label\":'", "broken JSON"),
        ("kind, args", "'', '{}'", "an empty kind"),
        ("kind, args, queue", "'note', '{}', ''", "an empty queue"),
        (
            "kind, args",
            "'note ', '{}'",
            "a kind with a space at its end, which not every engine tells from one without",
        ),
        ("kind, args, queue", "'note', '{}', 'mail '", "such a queue"),
        ("kind, args", "NULL, '{}'", "no kind"),
        ("kind, args", "'note', NULL", "no arguments"),
        ("kind, args, max_retries", "'note', '{}', -1", "a negative number of retries"),
    ] {
        let result = db.pool().sql(&format!("INSERT INTO queue_jobs ({columns}) VALUES ({values})")).await;
        assert!(result.is_err(), "{why} is accepted");
    }
    assert_eq!(db.count("queue_jobs").await, 0);
}

/// One job in each state, and a worker that holds the running one.
async fn one_of_each(db: &Db) -> queue_tests::Running {
    db.enqueue(Note::new("scheduled").after(std::time::Duration::from_secs(3600)).queue("mail")).await;
    db.enqueue(Play::new("running", [Step::hold("go")])).await;
    let over = [
        db.enqueue(Play::new("completed", [Step::Fail("once".into()), Step::Return(serde_json::json!({"n": 1}))]))
            .await,
        db.enqueue(Play::new("cancelled", [Step::Cancel("because".into())])).await,
        db.enqueue(Play::new("dead", [Step::Die("too bad".into())])).await,
    ];
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Started, "running", 1).await;
    for (id, state) in over.into_iter().zip([JobState::Completed, JobState::Cancelled, JobState::Dead]) {
        db.reaches(id, state).await;
    }
    db.admin().pause("paused").await.expect("paused");
    db.enqueue(Note::new("ready").queue("paused")).await;
    worker
}

async fn see_every_job_in_one_view(db: Db) {
    let worker = one_of_each(&db).await;
    let rows = db
        .sql(
            "SELECT id, kind, queue, state, priority, attempt, max_retries, enqueued_at, run_at, started_at, \
             finished_at,
                    worker_id, args, result, error
             FROM queue_all ORDER BY id",
        )
        .await;
    let states: Vec<_> = rows.iter().map(|row| row[3].clone().expect("a state")).collect();
    assert_eq!(states, ["scheduled", "running", "completed", "cancelled", "dead", "ready"]);
    let number = db.value("SELECT MAX(id) FROM queue_workers").await;
    for row in &rows {
        let [.., enqueued, run_at, started, finished, worker, args, result, error] = row.as_slice() else { panic!() };
        let state = row[3].as_deref().expect("a state");
        assert!(enqueued.is_some() && run_at.is_some() && args.as_deref().is_some_and(|args| args.contains(state)));
        // people read these: a year, not a count of milliseconds
        assert!(run_at.as_deref().is_some_and(|time| time.starts_with("20") && time.contains(':')), "{run_at:?}");
        assert_eq!(started.is_some(), !["scheduled", "ready"].contains(&state), "{state}");
        assert_eq!(finished.is_some(), ["completed", "cancelled", "dead"].contains(&state), "{state}");
        assert_eq!(*worker, number.clone().filter(|_| started.is_some()), "{state}");
        assert_eq!(result.is_some(), state == "completed");
        let expected = match state {
            "cancelled" => Some("because"),
            "dead" => Some("too bad"),
            _ => None,
        };
        assert_eq!(error.as_deref(), expected);
    }
    db.probe.release("go");
    worker.stop().await;
}

async fn see_counts_in_another_view(db: Db) {
    let worker = one_of_each(&db).await;
    db.enqueue_all((0..3).map(|_| Note::new("ready").queue("paused"))).await;
    let rows = db.sql("SELECT kind, queue, state, jobs, oldest FROM queue_stats ORDER BY kind, queue, state").await;
    let counts: Vec<_> = rows
        .iter()
        .map(|row| row[..4].iter().map(|cell| cell.as_deref().expect("not NULL")).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        counts,
        [
            "note mail scheduled 1",
            "note paused ready 4",
            "play default cancelled 1",
            "play default completed 1",
            "play default dead 1",
            "play default running 1",
        ]
    );
    assert!(rows.iter().all(|row| row[4].is_some()), "each has an age");
    // the library counts the same
    let stats = db.admin().stats().await.expect("an answer");
    let mut same: Vec<_> = stats.iter().map(|s| format!("{} {} {} {}", s.kind, s.queue, s.state, s.jobs)).collect();
    same.sort();
    assert_eq!(same, counts);
    db.probe.release("go");
    worker.stop().await;
}

/// P15.
async fn may_enqueue_unique_jobs(db: Db) {
    let enqueue = async |key: &str| documented::enqueue(db.pool(), db.engine(), key).await;
    let (first, new) = enqueue("k").await;
    assert!(new);
    assert_eq!(enqueue("k").await, (first, false));
    assert_eq!(db.enqueue_unique(Note::new("no").unique_key("k")).await, Kept(first));
    let (other, new) = enqueue("other").await;
    assert!(new && other != first);
    let library = db.enqueue(Note::new("l").unique_key("l")).await;
    assert_eq!(enqueue("l").await, (library, false));
    assert_eq!(db.counts().await, (3, 0, 0));
    // as the library writes it
    let rows = db
        .sql(
            "SELECT k.kind, k.held_until, k.fence, k.free_at, n.held_until, j.features, j.attempt, j.worker_id
             FROM queue_unique_keys AS k
             JOIN queue_unique_jobs AS n ON n.job_id = k.job_id AND n.kind = k.kind AND n.unique_key = k.unique_key
             JOIN queue_jobs AS j ON j.id = k.job_id",
        )
        .await;
    assert!(rows.len() == 3 && rows.iter().all(|row| *row == rows[0]), "{rows:?}");
    assert_eq!(db.job(first).await.unique_key.as_deref(), Some("k"));
    let worker = db.start(db.worker());
    for label in ["k", "other", "l"] {
        db.probe.wait_for(What::Ended, label, 1).await;
    }
    db.finished(3).await;
    worker.stop().await;
    let (second, new) = enqueue("k").await;
    assert!(new && second != first, "the first is over");
    // a plain insert takes no key
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"label\":\"k\"}')").await;
    assert_eq!(db.count("queue_jobs").await, 2);
}

/// P34.
async fn may_take_a_key_until_the_start_or_for_a_time(db: Db) {
    const START: &str = "SET job_id = LAST_INSERT_ID(), held_until = 'start'";
    const START_OF_A_FILE: &str = "SET job_id = last_insert_rowid(), held_until = 'start'";
    let start = |block: &str| {
        block
            .replace("'end', NULL)", "'start', NULL)")
            .replace("SET job_id = LAST_INSERT_ID(), held_until = 'end'", START)
            .replace("SET job_id = last_insert_rowid(), held_until = 'end'", START_OF_A_FILE)
    };
    let (first, _) = documented::enqueue_with(db.pool(), db.engine(), "start", start).await;
    let fence = db.enqueue_unique(Note::new("no").unique_key("start").unique_until(UniqueUntil::Start)).await;
    assert_eq!(fence, Kept(first));
    db.admin().reschedule(first, db.now().await + Duration::from_secs(3600)).await.unwrap();
    // as a claim does
    db.sql(format!("UPDATE queue_jobs SET fence = fence + 1 WHERE id = {first}")).await;
    let (second, new) = documented::enqueue_with(db.pool(), db.engine(), "start", start).await;
    assert!(new && second != first);

    let hour = match db.engine() {
        Engine::Postgres => "now() + interval '1 hour'",
        Engine::MariaDb | Engine::MySql => "UTC_TIMESTAMP(6) + INTERVAL 1 HOUR",
        Engine::Sqlite => "(unixepoch() + 3600) * 1000",
    };
    let timed = |block: &str| {
        block
            .replace("'end', NULL)", &format!("'end', {hour})"))
            .replace("free_at = NULL", &format!("free_at = {hour}"))
    };
    let (first, _) = documented::enqueue_with(db.pool(), db.engine(), "timed", timed).await;
    db.sql("DELETE FROM queue_jobs").await;
    assert_eq!(db.enqueue_unique(Note::new("no").unique_key("timed")).await, Kept(first));
    assert_eq!(documented::enqueue(db.pool(), db.engine(), "timed").await, (first, false));
    db.sql(format!("UPDATE queue_unique_keys SET free_at = {}", db.time(-1000))).await;
    assert_ne!(documented::enqueue(db.pool(), db.engine(), "timed").await.0, first);
}

/// P15, P16: Both enqueue a few keys at once, while a worker runs the jobs.
async fn share_keys_with_the_library(db: Db) {
    let (tasks, rounds) = if db.engine() == Engine::Sqlite { (4, 25) } else { (8, 40) };
    let at_once = async |rounds: usize| {
        let tasks = (0..tasks).map(|task| {
            let (pool, engine) = (db.pool().clone(), db.engine());
            tokio::spawn(async move {
                let mut stood = HashSet::new();
                for round in 0..rounds {
                    let key = format!("k{}", (task + round) % 3);
                    stood.insert(match task % 2 {
                        0 => documented::enqueue(&pool, engine, &key).await.0,
                        _ => pool.enqueue(Note::new(&key).unique_key(&key)).await.expect("enqueued"),
                    });
                }
                stood
            })
        });
        let mut stood: HashSet<JobId> = HashSet::new();
        for task in tasks.collect::<Vec<_>>() {
            stood.extend(task.await.unwrap());
        }
        stood
    };
    assert_eq!(at_once(6).await.len(), 3, "exactly one for each key");
    assert_eq!((db.count("queue_jobs").await, db.count("queue_unique_jobs").await), (3, 3));

    // nobody ever sees two
    let over = Arc::new(AtomicBool::new(false));
    let (pool, stop) = (db.pool().clone(), over.clone());
    let watching = tokio::spawn(async move {
        let two = "SELECT n.unique_key, COUNT(*) FROM queue_jobs AS j JOIN queue_unique_jobs AS n ON n.job_id = j.id
                   GROUP BY n.unique_key HAVING COUNT(*) > 1";
        let mut looks = 0;
        while !stop.load(Ordering::Relaxed) {
            assert_eq!(pool.sql(two).await.expect("an answer"), Vec::<Vec<Option<String>>>::new());
            looks += 1;
        }
        looks
    });
    let worker = db.start(db.worker());
    let stood = at_once(rounds).await;
    eventually("all are done", async || (db.count("queue_jobs").await == 0).then_some(())).await;
    over.store(true, Ordering::Relaxed);
    assert!(watching.await.unwrap() > 10);
    worker.stop().await;
    let there: HashSet<JobId> =
        db.column("SELECT id FROM queue_history").await.iter().map(|id| id.parse::<i64>().unwrap().into()).collect();
    assert!(stood.is_subset(&there), "these stand for a request and were never there");
    assert_eq!(db.count("queue_unique_keys WHERE job_id = 0").await, 0);
}
