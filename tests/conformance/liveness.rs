//! A worker's session holds a lock, which the server drops with the session. So a killed worker is noticed long before
//! its lease runs out. Leases here last ten minutes, so that no rescue is due to a lease.

use std::time::Duration;

use queue::{Job as _, JobState, WorkerBuilder};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play};
use queue_tests::{AnyTransaction, Db, Step, What, eventually};

conformance! {
    stays_with_the_lease_where_no_session_says_more;
    servers:
    takes_back_what_a_session_that_ended_held,
    takes_back_the_jobs_of_a_dropped_run,
    takes_back_at_its_start_what_a_killed_worker_held,
    believes_a_row_of_the_same_run_of_the_server_alone,
    beats_when_there_is_work,
    spares_a_worker_whose_connections_were_ended,
    spares_a_worker_that_beats_in_time_or_without_a_lock,
    declares_once,
    gives_back_what_a_claim_took_without_an_answer,
}

const LONG: Duration = Duration::from_secs(600);
const LONG_MS: i64 = 600_000;

/// One that looks ten times a second, and beats as seldom as ten minutes allow when it is not looking.
fn watcher(db: &Db) -> WorkerBuilder {
    db.worker().lease(LONG)
}

/// The default heartbeat.
fn ordinary(worker: WorkerBuilder) -> WorkerBuilder {
    worker.heartbeat(Duration::from_millis(2_500)).lease(LONG)
}

/// SQL: this session takes the lock of a worker, as a heartbeat does.
fn hold(db: &Db, worker: i64) -> String {
    match db.engine() {
        Engine::Postgres => {
            format!("SELECT pg_try_advisory_lock('queue_workers'::regclass::oid::integer, {worker})::integer")
        }
        _ => format!("SELECT GET_LOCK({}, 0)", name(worker)),
    }
}

fn name(worker: i64) -> String {
    format!("CONCAT('queue_', LEFT(SHA2(CONCAT(DATABASE(), '.queue_workers'), 224), 32), '_', {worker})")
}

/// Waits until some session holds a worker's lock.
async fn held(db: &Db, worker: i64) {
    let sql = match db.engine() {
        Engine::Postgres => {
            format!(
                "SELECT (NOT pg_try_advisory_xact_lock_shared('queue_workers'::regclass::oid::integer, \
                 {worker}))::integer"
            )
        }
        _ => format!("SELECT 1 - IS_FREE_LOCK({})", name(worker)),
    };
    eventually("a session holds the lock", async || (db.int(&sql).await == 1).then_some(())).await;
}

/// A session of a worker that is nothing but a row, a lock and a session. Returns its number too.
async fn fake_session(db: &Db, worker: i64) -> (AnyTransaction, i64) {
    let mut session = db.open(1).await.begin().await;
    let own = if db.engine() == Engine::Postgres { "SELECT pg_backend_pid()" } else { "SELECT CONNECTION_ID()" };
    let number = session.sql(own).await.expect("its number")[0][0].clone().expect("a number");
    let taken = session.sql(&hold(db, worker)).await.expect("an answer");
    assert_eq!(taken[0][0].as_deref(), Some("1"), "the lock is free");
    (session, number.parse().expect("a number"))
}

/// Lets the server end these sessions without notice to their clients. Returns when they have ended, which is later
/// than the server's answer. Until then a pool may still hand one out.
async fn end(db: &Db, sessions: &[i64]) {
    for session in sessions {
        let sql = match db.engine() {
            Engine::Postgres => format!("SELECT pg_terminate_backend({session})"),
            _ => format!("KILL {session}"),
        };
        // one may be over by now, because another one is
        let _ = db.pool().sql(&sql).await;
    }
    eventually("the sessions are over", async || {
        let left = db.pool().sql(others(db)).await.ok()?;
        let over = |row: &Vec<_>| sessions.iter().all(|session| row[0] != Some(session.to_string()));
        left.iter().all(over).then_some(())
    })
    .await;
}

/// SQL: all sessions in this database but the one that asks.
fn others(db: &Db) -> &'static str {
    match db.engine() {
        Engine::Postgres => {
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        }
        _ => queue_test_support::sessions!("id", "db = DATABASE() AND id <> CONNECTION_ID()"),
    }
}

/// All sessions in this database but the one that asks.
async fn sessions(db: &Db) -> Vec<i64> {
    db.column(others(db)).await.iter().map(|id| id.parse().expect("a number")).collect()
}

/// The run of the server that the workers here know.
async fn run(db: &Db) -> i64 {
    let own = "SELECT server_run FROM queue_workers JOIN queue_heartbeats ON worker_id = id
               WHERE host <> 'elsewhere' AND server_run IS NOT NULL";
    let run = eventually("a worker's run of the server", async || Some(db.column(own).await.first()?.clone())).await;
    run.parse().expect("a number")
}

/// What the row of a worker says with its last heartbeat: in which run it held its lock, and when it beats again.
async fn says(db: &Db, worker: i64, run: i64, again_in_ms: i64) {
    let again = db.time(again_in_ms);
    let sql = "UPDATE queue_heartbeats SET server_run =";
    db.sql(format!("{sql} {run}, next_heartbeat_at = {again} WHERE worker_id = {worker}")).await;
}

async fn stopped(db: &Db) -> i64 {
    db.count("queue_workers WHERE stopped_at IS NOT NULL").await
}

/// Long enough for a watcher to conclude what it should not.
async fn watched_for_long(db: &Db) {
    db.beats(25).await;
}

/// P22.
async fn stays_with_the_lease_where_no_session_says_more(db: Db) {
    // a row without a session: by a program of before, or behind a proxy that shares sessions out
    let silent = db.fake_worker(LONG_MS).await;
    let id = db.enqueue(Note::new("kept")).await;
    db.hand_over(id, silent).await;
    let worker = db.start(watcher(&db));
    db.enqueue(Note::new("other")).await;
    db.probe.wait_for(What::Ended, "other", 1).await;
    watched_for_long(&db).await;
    assert_eq!((db.state(id).await, stopped(&db).await), (JobState::Running, 0));
    worker.stop().await;
}

/// P21.
async fn takes_back_what_a_session_that_ended_held(db: Db) {
    if db.is_pooled() {
        return; // no session is a worker's own
    }
    let killed = db.fake_worker(LONG_MS).await;
    let id = db.enqueue(Note::new("again")).await;
    db.hand_over(id, killed).await;
    let (session, number) = fake_session(&db, killed).await;
    let worker = db.start(watcher(&db));
    says(&db, killed, run(&db).await, -60_000).await;
    watched_for_long(&db).await;
    assert_eq!((db.state(id).await, stopped(&db).await), (JobState::Running, 0), "it lives");
    end(&db, &[number]).await;
    let detail = db.reaches(id, JobState::Completed).await;
    let outcomes: Vec<_> = detail.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect();
    assert_eq!(outcomes, ["lost", "completed"]);
    assert_eq!(detail.attempts[0].worker, killed);
    worker.stop().await;
    drop(session);
}

/// P21.
async fn takes_back_the_jobs_of_a_dropped_run(db: Db) {
    if db.is_pooled() {
        return; // no session is a worker's own
    }
    let watcher = db.start(watcher(&db).only_registered().register::<Note>());
    db.beats(1).await;
    let killed = db.start(ordinary(db.worker_apart().await).only_registered().register::<Play>());
    let id = db.enqueue(Play::new("a", [Step::hold("never"), Step::Complete])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.knows_it_began(id).await;
    let number = db.int("SELECT MAX(id) FROM queue_workers").await;
    held(&db, number).await;
    db.beats(2).await;
    killed.kill().await;
    let detail = db.reaches(id, JobState::Ready).await;
    assert_eq!(detail.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect::<Vec<_>>(), ["lost"]);
    watcher.stop().await;
}

/// P21: As a service manager does with the only worker there is.
async fn takes_back_at_its_start_what_a_killed_worker_held(db: Db) {
    if db.is_pooled() {
        return; // no session is a worker's own
    }
    let killed = db.start(ordinary(db.worker_apart().await).only_registered().register::<Play>());
    let id = db.enqueue(Play::new("a", [Step::hold("never"), Step::Complete])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.knows_it_began(id).await;
    eventually("its row says that it holds its lock", async || {
        (db.count("queue_heartbeats WHERE server_run IS NOT NULL").await == 1).then_some(())
    })
    .await;
    killed.kill().await;
    let next = db.start(watcher(&db).only_registered().register::<Note>());
    let detail = db.reaches(id, JobState::Ready).await;
    assert_eq!(detail.attempts.iter().map(|attempt| attempt.outcome.as_str()).collect::<Vec<_>>(), ["lost"]);
    assert_eq!(stopped(&db).await, 1);
    next.stop().await;
}

/// P22.
async fn believes_a_row_of_the_same_run_of_the_server_alone(db: Db) {
    if db.is_pooled() {
        return; // no session is a worker's own
    }
    let silent = db.fake_worker(LONG_MS).await;
    let id = db.enqueue(Note::new("kept")).await;
    db.hand_over(id, silent).await;
    let worker = db.start(watcher(&db));
    // it lives, and has not come back yet since the server was started again, say
    let run = run(&db).await;
    says(&db, silent, run - 1, -60_000).await;
    end(&db, &sessions(&db).await).await;
    watched_for_long(&db).await;
    assert_eq!((db.state(id).await, stopped(&db).await), (JobState::Running, 0));
    says(&db, silent, run, -60_000).await;
    db.reaches(id, JobState::Completed).await;
    assert_eq!(stopped(&db).await, 1);
    worker.stop().await;
}

/// P21: Who has promised its next heartbeat for ten minutes from now would not be missed until then.
async fn beats_when_there_is_work(db: Db) {
    if db.is_pooled() {
        return; // no session is a worker's own
    }
    let worker = db.start(watcher(&db).heartbeat(Duration::from_secs(200)));
    let promised = format!("queue_heartbeats WHERE next_heartbeat_at > {}", db.time(100_000));
    eventually("an idle worker", async || (db.count(&promised).await == 1).then_some(())).await;
    db.enqueue(Play::new("a", [Step::hold("release"), Step::Complete])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    eventually("a promise for soon", async || (db.count(&promised).await == 0).then_some(())).await;
    db.probe.release("release");
    worker.stop().await;
}

/// P22.
async fn spares_a_worker_whose_connections_were_ended(db: Db) {
    if db.is_pooled() {
        return; // no session is a worker's own
    }
    let watcher = db.start(watcher(&db).only_registered().register::<Note>());
    db.enqueue(Note::new("first")).await;
    db.probe.wait_for(What::Ended, "first", 1).await;
    db.beats(2).await;
    let others = sessions(&db).await;
    // one slot, which the job takes: neither a claim nor an end is under way when its connections go
    let worker = ordinary(db.worker_apart().await).only_registered().register::<Play>().concurrency(1);
    let worker = db.start(worker);
    let id = db.enqueue(Play::new("long", [Step::hold("go")])).await;
    db.probe.wait_for(What::Started, "long", 1).await;
    let number = db.int("SELECT MAX(id) FROM queue_workers").await;
    for _ in 0..3 {
        held(&db, number).await;
        db.beats(2).await;
        let mut its_own = sessions(&db).await;
        its_own.retain(|session| !others.contains(session));
        end(&db, &its_own).await;
        db.beats(2).await;
    }
    held(&db, number).await;
    db.probe.release("go");
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!((detail.job.attempt, db.count("queue_attempts").await, stopped(&db).await), (1, 0, 0));
    worker.stop().await;
    watcher.stop().await;
}

/// P22.
async fn spares_a_worker_that_beats_in_time_or_without_a_lock(db: Db) {
    if db.is_pooled() {
        return; // no session is a worker's own
    }
    let alive = db.fake_worker(LONG_MS).await;
    let id = db.enqueue(Note::new("kept")).await;
    db.hand_over(id, alive).await;
    let (session, number) = fake_session(&db, alive).await;
    let worker = db.start(watcher(&db));
    says(&db, alive, run(&db).await, LONG_MS).await;
    end(&db, &[number]).await;
    watched_for_long(&db).await;
    assert_eq!((db.state(id).await, stopped(&db).await), (JobState::Running, 0), "it has not noticed yet");
    // it is on another node of a cluster now, where nobody here sees its lock
    db.sql(format!(
        "UPDATE queue_heartbeats SET server_run = NULL, next_heartbeat_at = {} WHERE worker_id = {alive}",
        db.time(0)
    ))
    .await;
    watched_for_long(&db).await;
    assert_eq!((db.state(id).await, stopped(&db).await), (JobState::Running, 0));
    worker.stop().await;
    drop(session);
}

/// P9, P21.
async fn declares_once(db: Db) {
    if db.is_pooled() {
        return; // no session is a worker's own
    }
    let killed = db.fake_worker(LONG_MS).await;
    let mut ids = Vec::new();
    for n in 0..20 {
        let id = db.enqueue(Play::new(n.to_string(), [])).await;
        db.hand_over(id, killed).await;
        ids.push(id);
    }
    let (session, number) = fake_session(&db, killed).await;
    let workers: Vec<_> = (0..3).map(|_| db.start(watcher(&db))).collect();
    says(&db, killed, run(&db).await, -60_000).await;
    db.beats(5).await;
    end(&db, &[number]).await;
    for id in ids {
        assert_eq!(db.reaches(id, JobState::Completed).await.job.attempt, 2, "lost once");
    }
    assert_eq!((stopped(&db).await, db.count("queue_attempts WHERE outcome = 'lost'").await), (1, 20));
    for worker in workers {
        worker.stop().await;
    }
    drop(session);
}

/// P1.
async fn gives_back_what_a_claim_took_without_an_answer(db: Db) {
    if db.is_pooled() {
        return; // the pooler makes another session, and no claim fails
    }
    let worker = db.start(watcher(&db));
    db.enqueue(Note::new("first")).await;
    db.probe.wait_for(What::Ended, "first", 1).await;
    let number = db.int("SELECT MAX(id) FROM queue_workers").await;
    // as by a claim whose connection was lost after its commit: the next one fails, and that is what gives it to think
    let id = db.enqueue(Note::new("stray").at(chrono::Utc::now() + chrono::TimeDelta::hours(1))).await;
    db.hand_over(id, number).await;
    // another statement may be the one that meets the end of the session: again, until a claim does
    let mut again = 0;
    let given_back = async || {
        end(&db, &sessions(&db).await).await;
        again += 1;
        let label = format!("again {again}");
        db.enqueue(Note::new(label.as_str())).await;
        db.probe.wait_for(What::Ended, &label, 1).await;
        // the worker looks after 0.1, 0.3 and 1 s, if its sessions live that long
        for _ in 0..15 {
            let detail = db.job(id).await;
            if detail.job.state == JobState::Scheduled {
                return Some(detail);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        None
    };
    let detail = eventually("the stray job is given back", given_back).await;
    assert_eq!((detail.job.attempt, db.count("queue_attempts").await, stopped(&db).await), (0, 0, 0));
    worker.stop().await;
}
