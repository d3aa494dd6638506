//! Unique jobs: who has a key, and what becomes of an enqueue that meets its holder.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use queue::admin::Filter;
use queue::testing::TestQueue;
use queue::unique::Enqueued::{Kept, New, Replaced};
use queue::unique::{Enqueued, OnConflict, UniqueUntil};
use queue::{Enqueue, Error, Job, JobId, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play, Remark};
use queue_tests::{AnyTransaction, Db, Step, What, each, eventually, within};

conformance! {
    keep_the_job_that_is_there,
    keep_out_others_until_their_end,
    let_others_in_when_they_start,
    keep_out_others_for_a_time,
    may_replace_what_waits,
    begin_their_attempts_anew_when_replaced,
    may_be_put_off_but_not_for_ever,
    may_refuse_a_second_one,
    are_free_again_after_a_rollback,
    meet_each_other_in_a_batch,
    start_after_those_who_kept_them,
    have_one_holder_whatever_happens,
    come_back_only_if_their_key_is_free,
    are_free_when_rows_are_removed_by_hand,
    refuse_unusable_keys,
    show_their_keys,
    can_be_released_by_hand,
    lose_their_keys_as_a_test_lets_time_pass;
    servers:
    wait_for_each_other,
    lock_no_gaps,
}

fn note(label: &str, key: &str) -> Enqueue<Note> {
    Note::new(label).unique_key(key)
}

/// P15, P34.
async fn keep_the_job_that_is_there(db: Db) {
    let first = db.enqueue_unique(note("a", "k")).await;
    assert!(first.is_new());
    assert_eq!(db.enqueue_unique(note("b", "k")).await, Kept(first.id()));
    assert_eq!(db.enqueue(note("c", "k")).await, first.id());
    assert!(db.enqueue_unique(note("a", "other")).await.is_new());
    assert!(db.enqueue_unique(Remark::new("a").unique_key("k")).await.is_new(), "a key belongs to a kind");
    assert!(db.enqueue_unique(Note::new("a")).await.is_new(), "no key");
    let mut tx = db.begin().await;
    assert_eq!(tx.enqueue_unique(note("d", "k")).await.unwrap(), Kept(first.id()));
    let second = tx.enqueue_unique(note("e", "in a transaction")).await.unwrap();
    assert_eq!(tx.enqueue_unique(note("f", "in a transaction")).await.unwrap(), Kept(second.id()));
    tx.commit().await;
    assert_eq!(db.job(first.id()).await.args, "{\"label\":\"a\"}");
    assert_eq!(db.counts().await, (5, 0, 0));
    // options go with the job as ever
    let job = db.enqueue(note("late", "late").after(Duration::from_secs(600)).queue("mail").priority(3)).await;
    let detail = db.job(job).await.job;
    assert_eq!((detail.state, detail.queue.as_str(), detail.priority), (JobState::Scheduled, "mail", 3));
}

fn play(label: &str, steps: impl Into<Vec<Step>>) -> Enqueue<Play> {
    Play::new(label, steps).unique_key("k")
}

/// P15.
async fn keep_out_others_until_their_end(db: Db) {
    let worker = db.start(db.worker());
    let fail = Step::Hold("one".into(), Box::new(Step::Fail("no".into())));
    let first = db.enqueue(play("retried", [fail, Step::hold("two")])).await;
    db.probe.wait_for(What::Started, "retried", 1).await;
    assert_eq!(db.enqueue_unique(play("no", [])).await, Kept(first), "it runs");
    db.probe.release("one");
    db.probe.wait_for(What::Started, "retried", 2).await;
    assert_eq!(db.enqueue_unique(play("no", [])).await, Kept(first), "its retry runs");
    db.probe.release("two");
    db.reaches(first, JobState::Completed).await;

    let dead = db.enqueue_unique(play("dead", [Step::Die("x".into())])).await;
    assert!(dead.is_new(), "completed");
    db.reaches(dead.id(), JobState::Dead).await;
    let snoozed = db.enqueue_unique(play("snoozed", [Step::Snooze(600_000)])).await;
    assert!(snoozed.is_new(), "dead");
    db.reaches(snoozed.id(), JobState::Scheduled).await;
    assert_eq!(db.enqueue_unique(play("no", [])).await, Kept(snoozed.id()), "snoozed");
    db.admin().cancel(snoozed.id()).await.unwrap();
    let deleted = db.enqueue_unique(play("deleted", []).after(Duration::from_secs(600))).await;
    assert!(deleted.is_new(), "cancelled");
    db.admin().delete(deleted.id()).await.unwrap();
    assert!(db.enqueue_unique(play("last", [])).await.is_new(), "deleted");
    worker.stop().await;
}

/// P15, P34.
async fn let_others_in_when_they_start(db: Db) {
    let start = |label: &str, steps: Vec<Step>| play(label, steps).unique_until(UniqueUntil::Start);
    let worker = db.start(db.worker());
    let fail = Step::Hold("go".into(), Box::new(Step::Fail("no".into())));
    let first = db.enqueue(start("first", vec![fail, Step::Complete])).await;
    db.probe.wait_for(What::Started, "first", 1).await;
    let second = db.enqueue_unique(start("second", vec![Step::hold("go")]).after(Duration::from_secs(600))).await;
    assert!(second.is_new(), "the first has started");
    assert_eq!(db.enqueue_unique(start("third", vec![])).await, Kept(second.id()));
    db.probe.release("go");
    db.reaches(first, JobState::Completed).await;
    assert_eq!(db.enqueue_unique(start("fourth", vec![])).await, Kept(second.id()), "the end of the first is no news");
    // what a worker gives back has been started: it waits beside another one
    db.admin().reschedule(second.id(), chrono::Utc::now()).await.unwrap();
    db.reaches(second.id(), JobState::Completed).await;
    let back = db.enqueue(start("back", vec![Step::Snooze(600_000)])).await;
    db.reaches(back, JobState::Scheduled).await;
    assert!(db.enqueue_unique(start("beside", vec![])).await.is_new());
    worker.stop().await;
}

/// P34.
async fn keep_out_others_for_a_time(db: Db) {
    let hour = |label: &str| note(label, "k").unique_for(Duration::from_secs(3600));
    let first = db.enqueue(hour("first")).await;
    let worker = db.start(db.worker());
    db.reaches(first, JobState::Completed).await;
    assert_eq!(db.enqueue_unique(hour("second")).await, Kept(first), "it is over, and its hour is not");
    assert_eq!(db.enqueue_unique(note("third", "k")).await, Kept(first));
    let refused = db.pool().enqueue(hour("fourth").on_conflict(OnConflict::Reject)).await;
    assert!(matches!(refused, Err(Error::Duplicate { existing: Some(id), .. }) if id == first));
    let replace = hour("fifth").unique_until(UniqueUntil::Start).on_conflict(OnConflict::Replace);
    assert_eq!(db.enqueue_unique(replace).await, Kept(first), "what is over cannot be replaced");
    let past = match db.engine() {
        Engine::Postgres => "free_at - interval '1 hour'",
        Engine::MariaDb | Engine::MySql => "free_at - INTERVAL 1 HOUR",
        Engine::Sqlite => "free_at - 3600000",
    };
    db.sql(format!("UPDATE queue_unique_keys SET free_at = {past}")).await;
    eventually("the hour is over", async || db.enqueue_unique(hour("sixth")).await.is_new().then_some(())).await;
    worker.stop().await;
}

/// P34.
async fn may_replace_what_waits(db: Db) {
    let replace = |label: &str| note(label, "k").unique_until(UniqueUntil::Start).on_conflict(OnConflict::Replace);
    let first = db.enqueue(replace("first").after(Duration::from_secs(600))).await;
    let enqueued = db.job(first).await.job.enqueued_at;
    assert_eq!(db.enqueue_unique(replace("second").queue("mail").priority(5).max_retries(1)).await, Replaced(first));
    let detail = db.job(first).await;
    assert_eq!(detail.args, "{\"label\":\"second\"}");
    assert_eq!((detail.job.queue.as_str(), detail.job.priority, detail.job.max_retries), ("mail", 5, Some(1)));
    assert_eq!((detail.job.state, detail.job.enqueued_at), (JobState::Ready, enqueued), "due at once");
    let due = detail.job.run_at;
    assert_eq!(db.enqueue_unique(replace("third")).await, Replaced(first));
    assert_eq!(db.job(first).await.job.run_at, due, "it keeps its place");
    let mut tx = db.begin().await;
    assert_eq!(tx.enqueue_unique(replace("lost")).await.unwrap(), Replaced(first));
    tx.rollback().await;
    assert_eq!(db.job(first).await.args, "{\"label\":\"third\"}");
    let far = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    assert_eq!(db.enqueue_unique(replace("fourth").at(far)).await, Replaced(first));
    assert_eq!(db.job(first).await.job.state, JobState::Scheduled);
    assert_eq!(db.enqueue_unique(replace("fifth")).await, Replaced(first));
    let worker = db.start(db.worker());
    db.reaches(first, JobState::Completed).await;
    assert_eq!(db.probe.labels(What::Started), ["fifth"]);
    worker.stop().await;
}

/// P9, P34: The attempts of what was replaced are not those of what takes its place.
async fn begin_their_attempts_anew_when_replaced(db: Db) {
    let first = db.enqueue(play("first", [Step::RetryAfter(3_600_000, "closed".into())]).max_retries(5)).await;
    let worker = db.start(db.worker());
    eventually("its failure", async || db.job(first).await.job.error).await;
    worker.stop().await;
    assert_eq!(db.job(first).await.job.attempt, 1);
    let second = play("second", []).unique_until(UniqueUntil::Start).on_conflict(OnConflict::Replace).max_retries(0);
    assert_eq!(db.enqueue_unique(second).await, Replaced(first));
    assert_eq!(db.job(first).await.job.attempt, 0);
    let worker = db.start(db.worker());
    db.reaches(first, JobState::Completed).await;
    worker.stop().await;
    let event = db.probe.log().into_iter().find(|event| event.label == "second").expect("its attempt");
    assert_eq!((event.attempt, event.max_attempts), (1, 1));
}

/// P34.
async fn may_be_put_off_but_not_for_ever(db: Db) {
    let (minute, most) = (Duration::from_secs(60), Duration::from_secs(90));
    let ahead = async |id: JobId| {
        let job = db.job(id).await.job;
        (job.run_at - job.enqueued_at).num_seconds()
    };
    let first = db.enqueue(note("first", "k").debounce(minute).at_most(most)).await;
    assert_eq!(ahead(first).await, 60);
    let back = |seconds: i64| match db.engine() {
        Engine::Postgres => format!("enqueued_at - {seconds} * interval '1 second'"),
        Engine::MariaDb | Engine::MySql => format!("enqueued_at - INTERVAL {seconds} SECOND"),
        Engine::Sqlite => format!("enqueued_at - {}", seconds * 1000),
    };
    db.sql(format!("UPDATE queue_jobs SET enqueued_at = {}", back(20))).await;
    let asked = db.now().await;
    assert_eq!(db.enqueue_unique(note("second", "k").debounce(minute).at_most(most)).await, Replaced(first));
    let from = db.job(first).await.job.run_at - chrono::TimeDelta::seconds(60);
    let rounded = chrono::TimeDelta::milliseconds(5);
    assert!(asked - rounded <= from && from <= db.now().await + rounded, "a minute from then: {from}, {asked}");
    db.sql(format!("UPDATE queue_jobs SET enqueued_at = {}", back(60))).await;
    assert_eq!(db.enqueue_unique(note("third", "k").debounce(minute).at_most(most)).await, Replaced(first));
    assert_eq!(ahead(first).await, 90, "no longer than that");
    assert_eq!(db.enqueue_unique(note("fourth", "k").debounce(minute)).await, Replaced(first));
    assert!(ahead(first).await > 130, "without a limit");
    let shorter = db.enqueue(note("fifth", "l").debounce(minute).at_most(Duration::from_secs(5))).await;
    assert_eq!(ahead(shorter).await, 5);
}

/// P34.
async fn may_refuse_a_second_one(db: Db) {
    let reject = |label: &str| note(label, "k").on_conflict(OnConflict::Reject);
    let first = db.enqueue(reject("first")).await;
    let error = db.pool().enqueue(reject("second")).await.expect_err("a duplicate");
    let text = error.to_string();
    let Error::Duplicate { kind, key, existing } = error else { panic!("{error}") };
    assert_eq!((kind, key.as_str(), existing), ("note", "k", Some(first)));
    assert_eq!(
        text,
        format!(
            "cannot enqueue `note`: job {first} has the key `k` already; let that one do, or enqueue again when it is over"
        )
    );
    let mut tx = db.begin().await;
    let before = tx.enqueue(Note::new("before")).await.unwrap();
    let error = tx.enqueue(reject("third")).await.expect_err("a duplicate");
    assert!(matches!(error, Error::Duplicate { .. }));
    let error = tx.enqueue_all([note("a", "a"), reject("b"), note("c", "c")]).await.expect_err("a duplicate");
    assert!(matches!(error, Error::Duplicate { existing: Some(id), .. } if id == first));
    let after = tx.enqueue(Note::new("after")).await.unwrap();
    tx.commit().await;
    assert_eq!((db.state(before).await, db.state(after).await), (JobState::Ready, JobState::Ready));
    assert_eq!(db.counts().await, (3, 0, 0), "of the batch, nothing is there");
    assert!(db.enqueue_unique(note("a", "a")).await.is_new());
    let twice = db.pool().enqueue_all([reject("x").unique_key("x"), reject("y").unique_key("x")]).await;
    assert!(matches!(twice, Err(Error::Duplicate { existing: None, .. })));
}

/// P2, P15.
async fn are_free_again_after_a_rollback(db: Db) {
    let mut tx = db.begin().await;
    assert!(tx.enqueue_unique(note("lost", "k")).await.unwrap().is_new());
    tx.rollback().await;
    let mut tx = db.begin().await;
    tx.sql("SAVEPOINT mine").await.unwrap();
    assert!(tx.enqueue_unique(note("lost", "k")).await.unwrap().is_new());
    assert_eq!(tx.enqueue_all_unique([note("lost", "k"), note("lost", "l")]).await.unwrap().len(), 2);
    tx.sql("ROLLBACK TO SAVEPOINT mine").await.unwrap();
    let kept = tx.enqueue_unique(note("kept", "k")).await.unwrap();
    assert!(kept.is_new(), "the savepoint took the other one with it");
    tx.commit().await;
    assert_eq!(db.enqueue_unique(note("late", "k")).await, Kept(kept.id()));
    assert!(db.enqueue_unique(note("l", "l")).await.is_new());
    assert_eq!(db.counts().await, (2, 0, 0));
}

/// P15, P34.
async fn meet_each_other_in_a_batch(db: Db) {
    let there = db.enqueue(note("there", "there")).await;
    let replace =
        |label: &str, key: &str| note(label, key).unique_until(UniqueUntil::Start).on_conflict(OnConflict::Replace);
    let batch = [
        note("z", "z"),
        note("a", "a"),
        note("again", "z"),
        note("kept", "there"),
        Note::new("plain").into(),
        replace("last", "a"),
    ];
    let enqueued = db.pool().enqueue_all_unique(batch).await.unwrap();
    let [z, a, again, kept, plain, last] = enqueued[..] else { panic!("{enqueued:?}") };
    assert!(z.is_new() && a.is_new() && plain.is_new());
    assert_eq!((again, kept, last), (Kept(z.id()), Kept(there), Replaced(a.id())));
    assert!(z.id() < a.id(), "in the order of the batch, not of the keys");
    assert_eq!(db.job(a.id()).await.args, "{\"label\":\"last\"}");
    assert_eq!(db.counts().await, (4, 0, 0));
    // many, of which half are there
    let many = |range: std::ops::Range<u32>| range.map(|n| note("many", &format!("many-{n}")));
    let mut tx = db.begin().await;
    let first = tx.enqueue_all_unique(many(0..3_000)).await.unwrap();
    tx.commit().await;
    assert!(first.iter().all(|it| it.is_new()) && first.is_sorted_by_key(|it| it.id()));
    let second = db.pool().enqueue_all_unique(many(1_500..4_500)).await.unwrap();
    for (n, it) in second.iter().enumerate() {
        match n {
            0..1_500 => assert_eq!(*it, Kept(first[n + 1_500].id())),
            _ => assert!(it.is_new()),
        }
    }
    assert_eq!(db.counts().await, (4 + 4_500, 0, 0));
    assert_eq!(db.count("queue_unique_keys").await, 3 + 4_500);
}

/// P17: A kept job starts after the transaction of the one who kept it, and sees what that one wrote.
async fn start_after_those_who_kept_them(db: Db) {
    let start = |label: &str| note(label, "k").unique_until(UniqueUntil::Start);
    let job = db.enqueue(start("it")).await;
    let mut tx = db.begin().await;
    assert_eq!(tx.enqueue_unique(start("no")).await.unwrap(), Kept(job));
    let worker = db.start(db.worker());
    let other = match db.engine() {
        // nobody else writes meanwhile
        Engine::Sqlite => None,
        _ => Some(db.enqueue(Note::new("other")).await),
    };
    if other.is_some() {
        db.probe.wait_for(What::Ended, "other", 1).await;
        db.beats(2).await;
    } else {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(db.probe.count(What::Started, "it"), 0, "the caller's data is not there yet");
    tx.commit().await;
    db.reaches(job, JobState::Completed).await;
    worker.stop().await;
}

/// P15, P16: The second of two transactions waits for the first, and does what is right then.
async fn wait_for_each_other(db: Db) {
    for commit in [true, false] {
        let key = format!("commit {commit}");
        let mut first = db.begin().await;
        let held = first.enqueue_unique(note("first", &key)).await.unwrap();
        let (pool, other) = (db.pool().clone(), key.clone());
        let second = tokio::spawn(async move { pool.enqueue_unique(note("second", &other)).await.unwrap() });
        // (not in a transaction: if two wait for one that is rolled back, InnoDB may end one of them as a deadlock)
        let (pool, other) = (db.pool().clone(), key.clone());
        let third = tokio::spawn(async move { pool.enqueue_unique(note("third", &other)).await.unwrap() });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!second.is_finished() && !third.is_finished(), "they wait");
        match commit {
            true => first.commit().await,
            false => first.rollback().await,
        }
        let both = within("both", async { [second.await.unwrap(), third.await.unwrap()] }).await;
        match commit {
            true => assert_eq!(both, [Kept(held.id()), Kept(held.id())]),
            false => assert!(both[0].is_new() != both[1].is_new() && both[0].id() == both[1].id(), "{both:?}"),
        }
    }
}

fn is_a_deadlock(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.code().is_some_and(|code| code == "40001"))
}

/// P15, P16: Many enqueue a few keys at once, by transactions that commit or not, while workers run the jobs.
async fn have_one_holder_whatever_happens(db: Db) {
    let (tasks, rounds, keys) = if db.engine() == Engine::Sqlite { (4, 25, 5) } else { (8, 40, 5) };
    let workers = [db.start(db.worker()), db.start(db.worker())];
    // what documentation says of transactions with unique jobs
    let pool = match db.engine() {
        Engine::MariaDb | Engine::MySql => {
            db.open_with(16, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await
        }
        _ => db.pool().clone(),
    };
    let mut tasks_at_work = Vec::new();
    for task in 0..tasks {
        let pool = pool.clone();
        tasks_at_work.push(tokio::spawn(async move {
            let mut stood = Vec::new();
            for round in 0..rounds {
                let key = format!("{}", (task * 7 + round) % keys);
                let job = note(&key, &key);
                match round % 4 {
                    0 => stood.push(pool.enqueue(job).await.expect("enqueued")),
                    1 => {
                        let other = note("b", "batch");
                        stood.extend(pool.enqueue_all([job, other]).await.expect("enqueued"));
                    }
                    how => {
                        let mut tx = pool.begin().await;
                        let enqueued = tx.enqueue(job).await;
                        match (enqueued, how) {
                            (Ok(id), 2) => {
                                tx.commit().await;
                                stood.push(id);
                            }
                            (Ok(_), _) => tx.rollback().await,
                            // somebody else wrote to the file since this transaction began
                            (Err(Error::Database { .. }), _) if matches!(tx, AnyTransaction::Sqlite(_)) => {}
                            // two waited for the first enqueue of a key, which was rolled back
                            (Err(Error::Database { source, .. }), _)
                                if matches!(tx, AnyTransaction::MySql(_)) && is_a_deadlock(&source) =>
                            {
                                tx.rollback().await;
                            }
                            (Err(error), _) => panic!("{error}"),
                        }
                    }
                }
            }
            stood
        }));
    }
    let mut stood: HashSet<JobId> = HashSet::new();
    for task in tasks_at_work {
        stood.extend(task.await.unwrap());
    }
    eventually("all are done", async || (db.count("queue_jobs").await == 0).then_some(())).await;
    let micros = match db.engine() {
        Engine::Postgres => |time: &str| format!("(extract(epoch FROM {time}) * 1000000)::bigint"),
        Engine::MariaDb | Engine::MySql => |time: &str| format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time})"),
        Engine::Sqlite => |time: &str| time.to_owned(),
    };
    let lives = format!(
        "SELECT h.id, n.unique_key, {}, {} FROM queue_history AS h JOIN queue_unique_jobs AS n ON n.job_id = h.id",
        micros("h.enqueued_at"),
        micros("h.finished_at")
    );
    let mut by_key: HashMap<String, Vec<(i64, i64, i64)>> = HashMap::new();
    for row in db.sql(lives).await {
        let number = |column: usize| row[column].as_ref().unwrap().parse::<i64>().unwrap();
        stood.remove(&JobId::from(number(0)));
        by_key.entry(row[1].clone().unwrap()).or_default().push((number(0), number(2), number(3)));
    }
    assert!(stood.is_empty(), "these stand for a request and were never there: {stood:?}");
    assert_eq!(by_key.len(), keys as usize + 1);
    for (key, mut lives) in by_key {
        lives.sort_unstable();
        for two in lives.windows(2) {
            // the time of an enqueue is that of its transaction: it may have waited for the one before
            assert!(two[0].2 <= two[1].2, "{key}: {two:?}");
        }
    }
    assert_eq!(db.count("queue_unique_keys WHERE job_id = 0").await, 0);
    for worker in workers {
        worker.stop().await;
    }
}

/// P15, P36.
async fn come_back_only_if_their_key_is_free(db: Db) {
    let die = |label: &str| Play::new(label, [Step::Die("x".into()), Step::Complete]);
    let worker = db.start(db.worker());
    let plain = db.enqueue(die("plain")).await;
    let taken = db.enqueue(die("taken").unique_key("taken")).await;
    let free = db.enqueue(die("free").unique_key("free")).await;
    let older = db.enqueue(die("older").unique_key("both")).await;
    for id in [plain, taken, free, older] {
        db.reaches(id, JobState::Dead).await;
    }
    let newer = db.enqueue(die("newer").unique_key("both")).await;
    db.reaches(newer, JobState::Dead).await;
    worker.stop().await;
    let holder = db.enqueue(Play::new("holder", []).unique_key("taken")).await;
    let error = db.admin().send_back(taken).await.expect_err("its key is taken");
    assert!(
        matches!(&error, Error::KeyTaken { id, key, holder: by } if (*id, key.as_str(), *by) == (taken, "taken", holder))
    );
    assert!(error.to_string().contains(&format!("job {holder} has its key `taken`")), "{error}");
    assert!(matches!(db.admin().retry(taken).await, Err(Error::KeyTaken { .. })));
    assert_eq!(db.admin().send_back_all(&Filter::new().kind("play")).await.unwrap(), 3, "the others go on");
    let states = [db.state(plain).await, db.state(free).await, db.state(newer).await];
    assert_eq!(states, [JobState::Ready; 3]);
    assert_eq!([db.state(taken).await, db.state(older).await], [JobState::Dead; 2]);
    // those that are back have their keys
    assert_eq!(db.enqueue_unique(Play::new("no", []).unique_key("free")).await, Kept(free));
    assert_eq!(db.enqueue_unique(Play::new("no", []).unique_key("both")).await, Kept(newer));
    db.admin().cancel(holder).await.unwrap();
    db.admin().send_back(taken).await.expect("its key is free");
    assert_eq!(db.enqueue_unique(Play::new("no", []).unique_key("taken")).await, Kept(taken));
    // until its start: it has the key again until then
    let worker = db.start(db.worker());
    for id in [plain, taken, free, newer] {
        db.reaches(id, JobState::Completed).await;
    }
    let again = db.enqueue(die("again").unique_key("again").unique_until(UniqueUntil::Start)).await;
    db.reaches(again, JobState::Dead).await;
    worker.stop().await;
    db.admin().send_back(again).await.unwrap();
    let beside = die("beside").unique_key("again").unique_until(UniqueUntil::Start);
    assert_eq!(db.enqueue_unique(beside).await, Kept(again));
}

/// P16.
async fn are_free_when_rows_are_removed_by_hand(db: Db) {
    let gone = db.enqueue(note("a", "k")).await;
    db.sql(format!("DELETE FROM queue_jobs WHERE id = {gone}")).await;
    let ended = db.enqueue_unique(note("b", "k")).await;
    assert!(ended.is_new());
    // as a worker of another version, or in another language, would end it
    let columns = "id, kind, queue, args, priority, max_retries, attempt, fence, worker_id, enqueued_at, run_at";
    let moved = format!(
        "INSERT INTO queue_history ({columns}, finished_at, state)
         SELECT {columns}, enqueued_at, 'completed' FROM queue_jobs WHERE id = {}",
        ended.id()
    );
    db.sql(moved).await;
    db.sql(format!("DELETE FROM queue_jobs WHERE id = {}", ended.id())).await;
    assert!(db.enqueue_unique(note("c", "k")).await.is_new());
    db.sql("DELETE FROM queue_jobs").await;
    let all = [note("d", "k"), note("e", "l")];
    assert!(db.pool().enqueue_all_unique(all).await.unwrap().iter().all(|it| it.is_new()));
}

/// P39.
async fn refuse_unusable_keys(db: Db) {
    let long = "k".repeat(256);
    for (key, why) in
        [("", "the unique key is empty"), (&long, "256 bytes"), ("k ", "white space"), ("a\nb", "control")]
    {
        let error = db.pool().enqueue(note("a", key)).await.expect_err("unusable");
        assert!(matches!(&error, Error::Config(text) if text.contains(why)), "{error}");
    }
    let error = db.pool().enqueue(note("a", "k").on_conflict(OnConflict::Replace)).await.expect_err("unusable");
    assert!(error.to_string().contains("a job that runs cannot be replaced"), "{error}");
    let error = db.pool().enqueue(note("a", "k").at_most(Duration::from_secs(1))).await.expect_err("unusable");
    assert!(error.to_string().contains("`.debounce(…)`"), "{error}");
    let both = note("a", "k").debounce(Duration::from_secs(1)).after(Duration::from_secs(1));
    let error = db.pool().enqueue(both).await.expect_err("unusable");
    assert!(error.to_string().contains("debounced"), "{error}");
    // keys that differ in what some databases ignore
    for key in ["e", "E", "é", "ß", "ss", "\u{1f600}", &"ü".repeat(127)] {
        assert!(db.enqueue_unique(note("a", key)).await.is_new(), "{key}");
        assert!(!db.enqueue_unique(note("a", key)).await.is_new(), "{key}");
    }
    assert_eq!(db.count("queue_jobs").await, 7);
    assert_eq!(db.count("queue_unique_keys").await, 7);
}

/// P36.
async fn show_their_keys(db: Db) {
    let by_args = db.enqueue(Note::new("a").on_conflict(OnConflict::Reject)).await;
    let plain = db.enqueue(Note::new("a")).await;
    assert_eq!(db.job(by_args).await.unique_key.as_deref(), Some("{\"label\":\"a\"}"));
    assert_eq!(db.job(plain).await.unique_key, None);
    let error = db.pool().enqueue(Note::new("a").on_conflict(OnConflict::Reject)).await.expect_err("a duplicate");
    let Error::Duplicate { kind, key, .. } = error else { panic!("{error}") };
    let holder = db.admin().job_with_key(kind, &key).await.unwrap().expect("it is there");
    assert_eq!(holder.job.id, by_args);
    assert_eq!(db.admin().job_with_key("note", "nobody's").await.unwrap(), None);
    let worker = db.start(db.worker());
    db.reaches(by_args, JobState::Completed).await;
    assert_eq!(db.job(by_args).await.unique_key.as_deref(), Some("{\"label\":\"a\"}"));
    worker.stop().await;
}

/// P36.
async fn can_be_released_by_hand(db: Db) {
    let hour = |key: &str| note("a", key).unique_for(Duration::from_secs(3600));
    let admin = db.admin();
    let waits = db.enqueue(hour("waits").after(Duration::from_secs(600))).await;
    let error = admin.release_key("note", "waits").await.expect_err("a job has it");
    assert!(matches!(error, Error::Conflict { id, state: JobState::Scheduled, .. } if id == waits), "{error}");
    assert!(error.to_string().starts_with(&format!("cannot release the key of job {waits}: it is scheduled; cancel")));
    admin.cancel(waits).await.unwrap();
    assert_eq!(db.enqueue_unique(note("b", "waits")).await, Kept(waits), "what was refused changed nothing");
    assert!(admin.release_key("note", "waits").await.unwrap());
    assert!(db.enqueue_unique(hour("waits")).await.is_new());
    let gone = db.enqueue(hour("gone")).await;
    admin.delete(gone).await.unwrap();
    assert_eq!(db.enqueue_unique(hour("gone")).await, Kept(gone));
    assert!(admin.release_key("note", "gone").await.unwrap());
    assert!(admin.release_key("note", "gone").await.unwrap(), "again");
    assert!(db.enqueue_unique(hour("gone")).await.is_new());
    for (kind, key) in [("note", "nobody's"), ("remark", "gone"), ("note", "")] {
        assert!(!admin.release_key(kind, key).await.unwrap());
    }
    // a job that runs has its key until its end, or until its start
    let runs = |until| play("runs", [Step::hold("go")]).unique_until(until).unique_for(Duration::from_secs(3600));
    let worker = db.start(db.worker());
    for (started, until) in [(1, UniqueUntil::End), (2, UniqueUntil::Start)] {
        let job = db.enqueue(runs(until).unique_key(until_key(until))).await;
        db.probe.wait_for(What::Started, "runs", started).await;
        let released = admin.release_key("play", until_key(until)).await;
        match until {
            UniqueUntil::Start => assert!(released.unwrap()),
            UniqueUntil::End => assert!(matches!(released, Err(Error::Conflict { id, .. }) if id == job)),
        }
        db.probe.release("go");
        db.reaches(job, JobState::Completed).await;
    }
    assert!(admin.release_key("play", until_key(UniqueUntil::End)).await.unwrap());
    worker.stop().await;
}

fn until_key(until: UniqueUntil) -> &'static str {
    if until == UniqueUntil::Start { "start" } else { "end" }
}

/// P34, P44.
async fn lose_their_keys_as_a_test_lets_time_pass(db: Db) {
    let hour = |label: &str| note(label, "k").unique_for(Duration::from_secs(3600));
    let first = db.enqueue(hour("first")).await;
    each!(AnyPool, db.pool(), pool => {
        let mut queue = TestQueue::new(pool).state(db.pool().clone()).state(db.probe.clone());
        assert_eq!(queue.drain().await.unwrap().expect_ok().completed, 1);
        assert_eq!(db.enqueue_unique(hour("second")).await, Kept(first));
        assert_eq!(queue.advance("59m").await.unwrap().runs(), 0);
        assert_eq!(db.enqueue_unique(hour("third")).await, Kept(first));
        assert_eq!(queue.advance("1m").await.unwrap().runs(), 0);
        assert!(db.enqueue_unique(hour("fourth")).await.is_new());
    });
}

/// P32: A lock on a gap would keep out enqueues of others. The caller's own transaction has the default isolation
/// level.
async fn lock_no_gaps(db: Db) {
    if db.engine() == Engine::Postgres {
        return;
    }
    let worker = db.start(db.worker());
    let over = db.enqueue(note("over", "over")).await;
    db.reaches(over, JobState::Completed).await;
    worker.stop().await;
    let waits = db.enqueue(note("waits", "waits")).await;
    let mut tx = db.begin().await;
    let first = tx.enqueue_unique(note("new", "new")).await.unwrap();
    assert!(matches!(first, New(_)));
    assert_eq!(tx.enqueue_unique(note("no", "waits")).await.unwrap(), Kept(waits));
    assert!(tx.enqueue_unique(note("again", "over")).await.unwrap().is_new());
    let replace = note("r", "new").unique_until(UniqueUntil::Start).on_conflict(OnConflict::Replace);
    assert_eq!(tx.enqueue_unique(replace).await.unwrap(), Replaced(first.id()));
    let batch = ["m", "new", "waits", "z"].map(|key| note("batch", key));
    let batch = tx.enqueue_all_unique(batch).await.unwrap();
    assert_eq!(batch.iter().filter(|it: &&Enqueued| it.is_new()).count(), 2);
    if db.engine() == Engine::MySql {
        let locks = db
            .column(
                "SELECT CONCAT(object_name, ' ', index_name, ' ', lock_mode, ' ', COALESCE(lock_data, ''))
                 FROM performance_schema.data_locks
                 WHERE object_schema = DATABASE() AND lock_type = 'RECORD' AND lock_mode NOT LIKE '%REC_NOT_GAP%'",
            )
            .await;
        assert!(locks.is_empty(), "{locks:#?}");
    }
    // nobody waits for this transaction
    let others = async {
        db.enqueue(Note::new("plain")).await;
        for key in ["a", "l", "n", "x", "zz"] {
            assert!(db.enqueue_unique(note("other", key)).await.is_new());
        }
    };
    within("the others", others).await;
    tx.rollback().await;
}
