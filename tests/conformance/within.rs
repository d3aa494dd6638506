//! The administration in a transaction of the caller's: its changes and their records are there with the caller's
//! data, or not at all.
//!
//! Promise: P36.

use std::time::Duration;

use queue::admin::{Actor, Admin};
use queue::schedule::{Periodic, Schedule};
use queue::{Error, Job, JobContext, JobError, JobId, JobState, job};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play};
use queue_tests::{AnyPool, AnyTransaction, DEADLINE, Db, Step, What, each, within};
use serde::{Deserialize, Serialize};

conformance! {
    a_commit_keeps_all_and_the_records,
    a_rollback_keeps_nothing,
    what_the_transaction_has_written_is_there,
    a_running_job_is_told_after_the_commit,
    what_cannot_be_changed_is_refused_as_without_a_transaction,
    a_transaction_that_is_none_is_refused,
    a_transaction_of_another_engine_is_refused,
    one_connection_is_enough,
    a_handler_changes_others_in_its_own_transaction;
    servers:
    a_job_that_another_transaction_has_locked_is_named,
    a_job_that_is_locked_for_a_moment_is_cancelled,
    a_worker_goes_on_beside_it,
    an_old_snapshot_hides_no_change,
}

/// Declares a schedule, in a worker that knows this job.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Declares {}

impl Job for Declares {
    const KIND: &'static str = "declares";
    type Output = ();

    async fn run(self, _: JobContext) -> Result<(), JobError> {
        Ok(())
    }

    fn schedules() -> Result<Vec<Periodic<Self>>, Error> {
        Ok(vec![Periodic::new("of the code", yearly(), Self {})])
    }
}

/// Changes something else, and completes itself in the same transaction.
#[job(max_retries = 0)]
async fn calls_off(ctx: JobContext, queue::State(pool): queue::State<AnyPool>, other: i64) -> Result<(), JobError> {
    let mut tx = pool.begin().await;
    let admin = pool.admin();
    cancel(&admin, &mut tx, other.into()).await?;
    schedule(&admin, &mut tx, "new", "new").await?;
    remove(&admin, &mut tx, "new").await?;
    tx.complete(&ctx, &serde_json::Value::Null).await?;
    tx.commit().await;
    Ok(())
}

fn yearly() -> Schedule {
    Schedule::cron("@yearly").expect("a year")
}

fn later(label: &str) -> queue::Enqueue<Note> {
    Note::new(label).after(Duration::from_secs(3600))
}

fn ada(pool: &AnyPool) -> Admin {
    pool.admin().acting(Actor::new("ada").reason("closed"))
}

async fn cancel(admin: &Admin, tx: &mut AnyTransaction, id: JobId) -> Result<(), Error> {
    each!(AnyTransaction, tx, tx => admin.within(tx).cancel(id).await)
}

async fn schedule(admin: &Admin, tx: &mut AnyTransaction, name: &str, label: &str) -> Result<(), Error> {
    each!(AnyTransaction, tx, tx => admin.within(&mut **tx).schedule(name, yearly(), Note::new(label)).await)
}

async fn remove(admin: &Admin, tx: &mut AnyTransaction, name: &str) -> Result<(), Error> {
    each!(AnyTransaction, tx, tx => admin.within(tx).remove_schedule(name).await)
}

/// The names of the schedules that are not retired.
async fn schedules(db: &Db) -> Vec<String> {
    db.column("SELECT name FROM queue_schedules WHERE retired_at IS NULL ORDER BY name").await
}

/// A job, and a schedule `old`. Then all three changes, in a transaction with data of its own.
async fn all_three(db: &Db) -> (JobId, AnyTransaction) {
    db.sql("CREATE TABLE shops (id int NOT NULL)").await;
    let (id, admin) = (db.enqueue(later("a")).await, ada(db.pool()));
    db.admin().schedule("old", yearly(), Note::new("old")).await.expect("made");
    db.sql("DELETE FROM queue_operations").await;
    let mut tx = db.begin().await;
    tx.sql("INSERT INTO shops VALUES (7)").await.expect("data");
    cancel(&admin, &mut tx, id).await.expect("cancelled");
    schedule(&admin, &mut tx, "new", "new").await.expect("made");
    remove(&admin, &mut tx, "old").await.expect("removed");
    (id, tx)
}

/// P10.
async fn a_commit_keeps_all_and_the_records(db: Db) {
    let (id, tx) = all_three(&db).await;
    tx.commit().await;
    let detail = db.job(id).await;
    assert_eq!((detail.job.state, detail.attempts.len()), (JobState::Cancelled, 0));
    assert_eq!((schedules(&db).await, db.count("shops").await), (vec!["new".to_owned()], 1));
    let found = db.admin().operations(None).await.expect("a list");
    let told: Vec<_> = found.iter().rev().map(|it| (&*it.action, it.job, it.changed, it.details.to_string())).collect();
    let of = |name: &str| format!(r#"{{"schedule":"{name}"}}"#);
    let expected = [
        ("cancel", Some(id), 1, "{}".to_owned()),
        ("schedule", None, 1, of("new")),
        ("remove_schedule", None, 1, of("old")),
    ];
    assert_eq!(told, expected);
    assert!(found.iter().all(|it| it.actor == "ada" && it.reason.as_deref() == Some("closed")));
}

/// P10.
async fn a_rollback_keeps_nothing(db: Db) {
    let (id, tx) = all_three(&db).await;
    tx.rollback().await;
    assert_eq!((db.state(id).await, schedules(&db).await), (JobState::Scheduled, vec!["old".to_owned()]));
    assert_eq!((db.count("shops").await, db.count("queue_operations").await), (0, 0));
}

/// What changes nothing leaves no record.
async fn what_the_transaction_has_written_is_there(db: Db) {
    let admin = db.admin();
    let mut tx = db.begin().await;
    let id = tx.enqueue(Note::new("a").unique_key("k")).await.expect("enqueued");
    cancel(&admin, &mut tx, id).await.expect("cancelled");
    cancel(&admin, &mut tx, id).await.expect("it is cancelled already");
    let next = tx.enqueue(Note::new("b").unique_key("k")).await.expect("the key is free");
    schedule(&admin, &mut tx, "new", "new").await.expect("made");
    schedule(&admin, &mut tx, "new", "new").await.expect("it is there already");
    remove(&admin, &mut tx, "new").await.expect("removed");
    assert!(matches!(remove(&admin, &mut tx, "new").await, Err(Error::NoSchedule(_))));
    tx.commit().await;
    assert_eq!((db.state(id).await, db.state(next).await), (JobState::Cancelled, JobState::Ready));
    assert_eq!((schedules(&db).await.len(), db.count("queue_operations").await), (0, 3));
}

/// P8.
async fn a_running_job_is_told_after_the_commit(db: Db) {
    let worker = db.start(db.worker().cancel_grace(DEADLINE));
    let id = db.enqueue(Play::new("a", [Step::hold("never")])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.knows_it_began(id).await;
    let mut tx = db.begin().await;
    cancel(&db.admin(), &mut tx, id).await.expect("asked");
    if db.engine() != Engine::Sqlite {
        db.beats(3).await;
        assert_eq!(db.probe.count(What::Told, "a"), 0, "not before the commit");
    }
    tx.commit().await;
    db.probe.wait_for(What::Told, "a", 1).await;
    db.reaches(id, JobState::Cancelled).await;
    worker.stop().await;
}

/// P39.
async fn what_cannot_be_changed_is_refused_as_without_a_transaction(db: Db) {
    let worker = db.start(db.worker().register::<Declares>());
    let id = db.enqueue(Note::new("a")).await;
    db.reaches(id, JobState::Completed).await;
    queue_tests::eventually("the declared schedule", async || (schedules(&db).await.len() == 1).then_some(())).await;
    worker.stop().await;
    let admin = db.admin();
    let without = admin.cancel(id).await.expect_err("it is over");
    let mut tx = db.begin().await;
    let refused = cancel(&admin, &mut tx, id).await.expect_err("it is over");
    assert!(matches!(refused, Error::Conflict { id: of, state: JobState::Completed, .. } if of == id), "{refused:?}");
    assert_eq!(refused.to_string(), without.to_string());
    let nobody = JobId::from(9_999);
    assert!(matches!(cancel(&admin, &mut tx, nobody).await, Err(Error::NotFound(id)) if id == nobody));
    assert!(matches!(remove(&admin, &mut tx, "none").await, Err(Error::NoSchedule(name)) if name == "none"));
    for refused in [remove(&admin, &mut tx, "of the code").await, schedule(&admin, &mut tx, "of the code", "b").await] {
        assert!(matches!(&refused, Err(Error::Config(why)) if why.contains("declared by the code")), "{refused:?}");
    }
    // the transaction is as usable as before
    schedule(&admin, &mut tx, "new", "new").await.expect("made");
    tx.commit().await;
    assert_eq!(
        (schedules(&db).await, db.count("queue_operations").await),
        (vec!["new".into(), "of the code".into()], 1)
    );
}

/// P39.
async fn a_transaction_that_is_none_is_refused(db: Db) {
    let (id, admin) = (db.enqueue(later("a")).await, db.admin());
    let refused = |result: Result<(), Error>| {
        assert!(matches!(&result, Err(Error::Config(why)) if why.contains("needs an open transaction")), "{result:?}");
    };
    each!(AnyPool, db.pool(), pool => {
        let mut conn = pool.acquire().await.expect("a connection");
        let mut admin = admin.within(&mut *conn);
        refused(admin.cancel(id).await);
        refused(admin.schedule("new", yearly(), Note::new("new")).await);
        refused(admin.remove_schedule("new").await);
    });
    // one that is over, although sqlx does not know it
    let mut tx = db.begin().await;
    tx.sql("ROLLBACK").await.expect("over");
    refused(cancel(&admin, &mut tx, id).await);
    refused(schedule(&admin, &mut tx, "new", "new").await);
    drop(tx);
    if db.engine() == Engine::Sqlite {
        db.sql("CREATE TABLE taken (id int PRIMARY KEY)").await;
        db.sql("INSERT INTO taken VALUES (1)").await;
        let mut tx = db.begin().await;
        cancel(&admin, &mut tx, id).await.expect("it is open");
        tx.sql("INSERT OR ROLLBACK INTO taken VALUES (1)").await.expect_err("it is taken");
        refused(cancel(&admin, &mut tx, id).await);
    }
    assert_eq!((db.state(id).await, schedules(&db).await.len()), (JobState::Scheduled, 0));
    assert_eq!(db.count("queue_operations").await, 0);
}

/// P39.
async fn a_transaction_of_another_engine_is_refused(db: Db) {
    let engine = if db.engine() == Engine::Sqlite { Engine::Postgres } else { Engine::Sqlite };
    // another engine may be left out of the tests
    let Some(other) = Db::empty(engine).await else { return };
    let mut tx = other.begin().await;
    let refused = cancel(&db.admin(), &mut tx, 1.into()).await.expect_err("another engine").to_string();
    assert!(refused.contains("SQLite") && refused.contains("the transaction is one of"), "{refused}");
}

/// P25.
async fn one_connection_is_enough(db: Db) {
    let (id, pool) = (db.enqueue(later("a")).await, db.open(1).await);
    let admin = ada(&pool);
    let mut tx = pool.begin().await;
    within("changes on the only connection", async {
        cancel(&admin, &mut tx, id).await.expect("cancelled");
        assert!(matches!(cancel(&admin, &mut tx, 9_999.into()).await, Err(Error::NotFound(_))));
        schedule(&admin, &mut tx, "new", "new").await.expect("made");
        remove(&admin, &mut tx, "new").await.expect("removed");
    })
    .await;
    tx.commit().await;
    assert_eq!(db.state(id).await, JobState::Cancelled);
}

/// P18.
async fn a_handler_changes_others_in_its_own_transaction(db: Db) {
    let id = db.enqueue(later("a")).await;
    let worker = db.start(db.worker());
    let own = db.enqueue(CallsOff::new(id.get())).await;
    db.reaches(own, JobState::Completed).await;
    assert_eq!(db.state(id).await, JobState::Cancelled);
    worker.stop().await;
}

async fn lock(db: &Db, id: JobId) -> AnyTransaction {
    let mut tx = db.begin().await;
    tx.sql(&format!("SELECT id FROM queue_jobs WHERE id = {id} FOR UPDATE")).await.expect("locked");
    tx
}

async fn a_job_that_another_transaction_has_locked_is_named(db: Db) {
    let (locked, free) = (db.enqueue(later("locked")).await, db.enqueue(later("free")).await);
    let holder = lock(&db, locked).await;
    let mut tx = db.begin().await;
    let refused = cancel(&db.admin(), &mut tx, locked).await;
    assert!(matches!(&refused, Err(Error::Locked { jobs, changed: 0, .. }) if *jobs == [locked]), "{refused:?}");
    cancel(&db.admin(), &mut tx, free).await.expect("the transaction goes on");
    tx.commit().await;
    holder.rollback().await;
    assert_eq!((db.state(locked).await, db.state(free).await), (JobState::Scheduled, JobState::Cancelled));
    assert_eq!(db.count("queue_operations").await, 1);
}

/// As by the claim of a worker. Again where the machine stood still for longer than it tries.
async fn a_job_that_is_locked_for_a_moment_is_cancelled(db: Db) {
    let id = db.enqueue(later("a")).await;
    for tries in 1.. {
        let holder = lock(&db, id).await;
        let mut tx = db.begin().await;
        let admin = db.admin();
        let release = async {
            // behind its first try
            tokio::time::sleep(Duration::from_millis(20)).await;
            holder.rollback().await;
        };
        match tokio::join!(cancel(&admin, &mut tx, id), release).0 {
            Err(Error::Locked { .. }) => assert!(tries < 20, "each time"),
            done => {
                done.expect("cancelled");
                tx.commit().await;
                break;
            }
        }
    }
    assert_eq!(db.state(id).await, JobState::Cancelled);
}

/// P24: Its locks hold up no job but the one that it cancels.
async fn a_worker_goes_on_beside_it(db: Db) {
    let worker = db.start(db.worker().cancel_grace(DEADLINE));
    let waiting = db.enqueue(later("a")).await;
    let running = db.enqueue(Play::new("runs", [Step::hold("never")])).await;
    db.probe.wait_for(What::Started, "runs", 1).await;
    db.knows_it_began(running).await;
    let admin = db.admin();
    let mut tx = db.begin().await;
    cancel(&admin, &mut tx, waiting).await.expect("cancelled");
    cancel(&admin, &mut tx, running).await.expect("asked");
    schedule(&admin, &mut tx, "new", "new").await.expect("made");
    for n in 0..10 {
        let id = db.enqueue(Note::new(n.to_string())).await;
        db.reaches(id, JobState::Completed).await;
    }
    db.beats(2).await;
    tx.commit().await;
    db.reaches(running, JobState::Cancelled).await;
    assert_eq!(db.state(waiting).await, JobState::Cancelled);
    worker.stop().await;
}

/// At the level that is the default of MySQL and MariaDB: a change that is not seen is neither lost nor overwritten.
async fn an_old_snapshot_hides_no_change(db: Db) {
    let admin = db.admin();
    let over = db.enqueue(later("over")).await;
    for name in ["changed", "removed"] {
        admin.schedule(name, yearly(), Note::new("first")).await.expect("made");
    }
    // no more at a time than a pooler lends
    let three = async || {
        let mut old = Vec::new();
        for _ in 0..3 {
            let mut tx = db.begin().await;
            if db.engine() == Engine::Postgres {
                tx.sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.expect("a level");
            }
            tx.sql("SELECT COUNT(*) FROM queue_schedules").await.expect("a snapshot");
            old.push(tx);
        }
        old.into_iter()
    };
    let mut done = Vec::new();
    let mut old = three().await;
    admin.schedule("changed", yearly(), Note::new("second")).await.expect("changed");
    admin.schedule("of the code", yearly(), Note::new("theirs")).await.expect("made");
    db.sql("UPDATE queue_schedules SET app = 'other' WHERE name = 'of the code'").await;
    // a query of a schedule also reads these, and must not wait for them
    db.fake_worker(1000).await;
    let mut busy = db.begin().await;
    busy.sql("SELECT id FROM queue_workers FOR UPDATE").await.expect("locked");
    let mut keep = async |tx: AnyTransaction, result: Result<(), Error>| {
        match result.is_ok() {
            true => tx.commit().await,
            false => tx.rollback().await,
        }
        done.push(result);
    };
    let mut next = || old.next().expect("three");
    let mut tx = next();
    let result = schedule(&admin, &mut tx, "of the code", "mine").await;
    keep(tx, result).await;
    let mut tx = next();
    let result = remove(&admin, &mut tx, "of the code").await;
    keep(tx, result).await;
    let mut tx = next();
    let result = schedule(&admin, &mut tx, "changed", "first").await;
    keep(tx, result).await;

    let mut old = three().await;
    admin.remove_schedule("removed").await.expect("removed");
    admin.cancel(over).await.expect("cancelled");
    let new = db.enqueue(later("new")).await;
    let mut next = || old.next().expect("three");
    let mut tx = next();
    let result = remove(&admin, &mut tx, "removed").await;
    keep(tx, result).await;
    let mut tx = next();
    let result = cancel(&admin, &mut tx, over).await;
    keep(tx, result).await;
    let mut tx = next();
    let result = cancel(&admin, &mut tx, new).await;
    keep(tx, result).await;
    busy.rollback().await;
    assert!(matches!(&done[3], Err(Error::NoSchedule(_) | Error::Database { .. })), "{:?}", done[3]);
    let args = async |name: &str| db.value(format!("SELECT args FROM queue_schedules WHERE name = '{name}'")).await;
    assert_eq!(args("of the code").await.as_deref(), Some(r#"{"label":"theirs"}"#));
    let is_on = db.engine() == Engine::MariaDb
        && db
            .sql("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'")
            .await
            .iter()
            .any(|row| row[1].as_deref() == Some("ON"));
    if db.engine() == Engine::Postgres || is_on {
        // serialization failures, or what the snapshot shows
        assert!(done.iter().all(Result::is_err), "{done:?}");
        return;
    }
    assert!(matches!(&done[..2], [Err(Error::Config(_)), Err(Error::Config(_))]), "{done:?}");
    assert!(matches!(&done[2..], [Ok(()), _, Err(Error::Locked { .. }), Ok(())]), "{done:?}");
    assert_eq!(args("changed").await.as_deref(), Some(r#"{"label":"first"}"#));
    assert_eq!(db.state(new).await, JobState::Cancelled);
}
