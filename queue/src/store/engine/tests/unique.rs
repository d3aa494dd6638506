//! Keys of unique jobs: the sweep, what a key costs, and callers with an old snapshot.

use super::*;
use crate::store::engine::jobs::enqueue::enqueue;
use crate::store::engine::unique::keys::{over, sweep};
use crate::store::values::Unwritten;
use crate::unique::{Enqueued, OnConflict, UniqueJob, UniqueUntil};

on_each! {
    keys_go_with_their_jobs,
    a_round_of_the_sweep_looks_at_all,
    an_old_snapshot_is_seen_through,
    a_sweep_waits_for_nobody,
    an_enqueue_gives_up_on_a_key_that_stays_locked,
    a_refused_enqueue_leaves_nothing_behind,
    a_key_without_a_job_hides_no_other,
    a_kept_key_is_not_written,
    callers_who_take_keys_in_one_order_do_not_deadlock,
    old_jobs_that_stay_do_not_stop_the_sweep,
    keys_go_with_the_jobs_that_retention_removes,
    keys_with_a_time_go_when_it_is_over,
}

fn keyed(key: &str) -> NewJob {
    let (until, on_conflict) = (UniqueUntil::End, OnConflict::Keep);
    let unique = UniqueJob { key: key.into(), until, at_least: None, on_conflict, at_most: None };
    NewJob { unique: Some(Box::new(unique)), ..job("a") }
}

impl<DB: TestDb> Db<DB> {
    async fn enqueue(&self, jobs: &[NewJob]) -> Vec<Enqueued> {
        let mut conn = self.pool.acquire().await.unwrap();
        enqueue::<DB>(&mut conn, jobs, Whose::Pools, None).await.unwrap()
    }

    async fn complete(&self, worker: WorkerId, job: &Claimed) {
        assert_eq!(self.store.end(worker, &[plain(job)]).await.unwrap(), [job.id.get()]);
    }

    async fn sweep(&self) {
        self.store.sweep_keys(&mut None, true).await.unwrap();
    }

    async fn keys(&self) -> (i64, i64) {
        let count = async |table: &str| self.int(format!("SELECT count(*) FROM {table}")).await;
        (count("queue_unique_keys").await, count("queue_unique_jobs").await)
    }
}

async fn keys_go_with_their_jobs<DB: TestDb>(db: Db<DB>) {
    let later = |seconds: i64| DB::in_seconds(seconds);
    let worker = db.worker().await;
    let [done, waits, timed] = db.enqueue(&["done", "waits", "timed"].map(keyed)).await[..] else { panic!("three") };
    let timed = timed.id().get();
    db.sql(format!("UPDATE queue_unique_keys SET free_at = {} WHERE job_id = {timed}", later(3600))).await;
    for job in db.take(worker, 9).await.iter().filter(|job| job.id.get() != waits.id().get()) {
        db.complete(worker, job).await;
    }
    db.sweep().await;
    assert_eq!(db.keys().await, (3, 3), "what is in the history has its key on record");
    assert_eq!(db.enqueue(&[keyed("done"), keyed("timed")]).await[1], Enqueued::Kept(timed.into()));
    db.sql("DELETE FROM queue_history").await;
    db.sweep().await;
    // the key of `done` is another job's by now, and the time of `timed` is not over
    assert_eq!(db.keys().await, (3, 3));
    assert_eq!(db.int(format!("SELECT count(*) FROM queue_unique_jobs WHERE job_id = {}", done.id())).await, 0);
    db.sql(format!("UPDATE queue_unique_keys SET free_at = {} WHERE job_id = {timed}", later(-1))).await;
    db.sql("DELETE FROM queue_jobs").await;
    db.sweep().await;
    assert_eq!(db.keys().await, (0, 0));
}

async fn a_round_of_the_sweep_looks_at_all<DB: TestDb>(db: Db<DB>) {
    let all: Vec<_> = (0..2_500).map(|number| keyed(&number.to_string())).collect();
    db.enqueue(&all).await;
    db.sql("DELETE FROM queue_jobs WHERE id > 1200").await;
    db.sweep().await;
    assert_eq!(db.keys().await, (1_200, 1_200));
    // a key that is taken again between the look and the removal stays
    let mut conn = db.pool.acquire().await.unwrap();
    db.sql("DELETE FROM queue_jobs").await;
    let (gone, last) = over::<DB>(&mut conn, 0, 1_000).await.unwrap();
    assert_eq!((gone.len(), last), (1_000, Some(1_000)));
    let again = db.enqueue(&[keyed("7")]).await[0];
    assert!(again.is_new());
    sweep::<DB>(&mut conn, &gone).await.unwrap();
    assert_eq!(db.keys().await, (201, 201));
    assert_eq!(db.enqueue(&[keyed("7")]).await, [Enqueued::Kept(again.id())]);
}

/// The caller's transaction began before the holder did, or before it ended.
async fn an_old_snapshot_is_seen_through<DB: TestDb>(db: Db<DB>) {
    if DB::ONE_WRITER {
        return; // such a transaction cannot write at all
    }
    let postgres = DB::KIND == crate::engine::Engine::Postgres;
    let level = if postgres { "READ COMMITTED" } else { "REPEATABLE READ" };
    let worker = db.worker().await;
    let old = db.enqueue(&[keyed("ended"), keyed("ended and taken")]).await;
    let mut conn = db.pool.acquire().await.unwrap();
    let begin =
        format!("SET SESSION {}TRANSACTION ISOLATION LEVEL {level}", if postgres { "CHARACTERISTICS AS " } else { "" });
    DB::raw(&mut conn, begin.leak()).await.unwrap();
    let mut caller = conn.begin().await.unwrap();
    ids::<DB>(&mut caller, "SELECT count(*) FROM queue_jobs", &[]).await.unwrap();
    for job in &db.take(worker, 9).await {
        db.complete(worker, job).await;
    }
    let new = db.enqueue(&[keyed("begun"), keyed("ended and taken")]).await;
    let jobs = ["ended", "begun", "ended and taken"].map(keyed);
    let placed = enqueue::<DB>(&mut caller, &jobs, Whose::Callers, None).await.unwrap();
    caller.commit().await.unwrap();
    assert!(placed[0].is_new() && old.iter().all(|job| job.id() != placed[0].id()), "{placed:?}");
    assert_eq!(placed[1..], [Enqueued::Kept(new[0].id()), Enqueued::Kept(new[1].id())]);
}

const LOCK: &str = "UPDATE queue_unique_keys SET fence = fence + 1 WHERE kind = 'a' AND unique_key = $1";

/// Locks a key until the end of the transaction.
async fn lock_key<DB: TestDb>(conn: &mut DB::Connection, key: &str) {
    execute::<DB>(conn, LOCK, &[key.into()]).await.unwrap();
}

async fn a_sweep_waits_for_nobody<DB: TestDb>(db: Db<DB>) {
    if DB::ONE_WRITER {
        return; // there are no locks of rows
    }
    db.enqueue(&["a", "b", "c"].map(keyed)).await;
    db.sql("DELETE FROM queue_jobs").await;
    let mut conn = db.pool.acquire().await.unwrap();
    let mut other = conn.begin().await.unwrap();
    lock_key::<DB>(&mut other, "b").await;
    tokio::time::timeout(HANG, db.sweep()).await.expect("it does not wait");
    assert_eq!(db.keys().await, (1, 1), "what is locked stays, and is known");
    other.rollback().await.unwrap();
    db.sweep().await;
    assert_eq!(db.keys().await, (0, 0));
}

async fn an_enqueue_gives_up_on_a_key_that_stays_locked<DB: TestDb>(db: Db<DB>) {
    if DB::ONE_WRITER {
        return; // the file is locked as a whole, and that has a time limit of its own
    }
    db.enqueue(&[keyed("a")]).await;
    db.sql("DELETE FROM queue_jobs").await;
    let mut conn = db.pool.acquire().await.unwrap();
    let mut other = conn.begin().await.unwrap();
    lock_key::<DB>(&mut other, "a").await;
    let waits = crate::enqueue::group::write_all(db.pool.clone(), vec![keyed("a")]);
    let error = tokio::time::timeout(HANG, waits).await.expect("it gives up").unwrap_err();
    assert!(
        matches!(&error, Unwritten::Sql(sqlx::Error::Io(error)) if error.to_string().contains("no answer")),
        "{error:?}"
    );
    other.rollback().await.unwrap();
    // a job of its own, or the one of the request without an answer, which the server has committed since
    let placed = crate::enqueue::group::write_all(db.pool.clone(), vec![keyed("a")]).await;
    assert_eq!(placed.expect("the pool goes on").len(), 1);
}

/// Arguments that are no JSON: the database refuses the job when its key is already written.
async fn a_refused_enqueue_leaves_nothing_behind<DB: TestDb>(db: Db<DB>) {
    let refused = NewJob { args: "nonsense".into(), ..keyed("a") };
    let mut conn = db.pool.acquire().await.unwrap();
    for _ in 0..2 {
        let enqueued = enqueue::<DB>(&mut conn, std::slice::from_ref(&refused), Whose::Pools, None);
        assert!(matches!(enqueued.await, Err(Unwritten::Sql(sqlx::Error::Database(_)))));
        assert_eq!(db.keys().await, (0, 0));
    }
    let enqueued = enqueue::<DB>(&mut conn, &[keyed("a")], Whose::Pools, None).await.unwrap();
    assert!(enqueued[0].is_new());
    drop(conn);
    assert_eq!(db.keys().await, (1, 1), "it is committed");
}

/// Somebody took it with the statements of docs/sql.md, and committed although the last of them failed.
async fn a_key_without_a_job_hides_no_other<DB: TestDb>(db: Db<DB>) {
    let holder = db.enqueue(&[keyed("k1")]).await[0].id();
    db.sql("INSERT INTO queue_unique_keys (kind, unique_key, job_id) VALUES ('a', 'k0', 0), ('a', 'k2', 0)").await;
    let [zero, one, two] = db.enqueue(&["k0", "k1", "k2"].map(keyed)).await[..] else { panic!("three") };
    assert_eq!(one, Enqueued::Kept(holder));
    assert!(zero.is_new() && two.is_new());
    db.sql("UPDATE queue_unique_keys SET job_id = 0 WHERE unique_key = 'k2'").await;
    db.sql(format!("DELETE FROM queue_jobs WHERE id = {}", two.id())).await;
    assert!(db.enqueue(&[keyed("k2")]).await[0].is_new());
}

/// PostgreSQL writes a row that it locks, and a write waits for the disk. Elsewhere a lock leaves no trace to look at.
async fn a_kept_key_is_not_written<DB: TestDb>(db: Db<DB>) {
    let holder = db.enqueue(&[keyed("a")]).await[0].id();
    assert_eq!(db.enqueue(&[keyed("a")]).await, [Enqueued::Kept(holder)]);
    if DB::KIND == crate::engine::Engine::Postgres {
        assert_eq!(db.int("SELECT count(*) FROM queue_unique_keys WHERE xmax::text <> '0'").await, 0);
    }
}

/// The second one must not lock a holder before the first one's next key.
async fn callers_who_take_keys_in_one_order_do_not_deadlock<DB: TestDb>(db: Db<DB>) {
    if DB::ONE_WRITER {
        return; // there are no locks of rows
    }
    // the holders' ids are in the other order
    let two = db.enqueue(&[keyed("k2")]).await[0];
    let one = db.enqueue(&[keyed("k1")]).await[0];
    let take = async |conn: &mut DB::Connection, keys: &[&str]| {
        let jobs: Vec<NewJob> = keys.iter().map(|key| keyed(key)).collect();
        enqueue::<DB>(conn, &jobs, Whose::Callers, None).await.unwrap()
    };
    let kept = |of: &[Enqueued]| of.iter().map(|it| Enqueued::Kept(it.id())).collect::<Vec<_>>();
    let mut first = db.pool.begin_with(DB::BEGIN_ANEW).await.unwrap();
    assert_eq!(take(&mut first, &["k1"]).await, kept(&[one]));
    let pool = db.pool.clone();
    let second = tokio::spawn(async move {
        let mut second = pool.begin_with(DB::BEGIN_ANEW).await.unwrap();
        let jobs = ["k1", "k2"].map(keyed);
        let placed = enqueue::<DB>(&mut second, &jobs, Whose::Callers, None).await;
        second.commit().await.unwrap();
        placed.unwrap()
    });
    let waiting = match DB::KIND {
        crate::engine::Engine::Postgres => {
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        }
        _ => {
            "SELECT count(*)
             FROM /*!80022 performance_schema.processlist */ /*M! information_schema.processlist */
             WHERE db = DATABASE() AND command <> 'Sleep' AND id <> CONNECTION_ID()"
        }
    };
    let waits = async {
        while db.int(waiting).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HANG, waits).await.expect("the second one waits for the first");
    let placed = tokio::time::timeout(HANG, take(&mut first, &["k2"]));
    assert_eq!(placed.await.expect("nobody has that key"), kept(&[two]));
    first.commit().await.unwrap();
    assert_eq!(second.await.unwrap(), kept(&[one, two]));
}

/// The rows of old dead letters, for example, lie before those that can be removed.
async fn old_jobs_that_stay_do_not_stop_the_sweep<DB: TestDb>(db: Db<DB>) {
    let jobs: Vec<NewJob> = (0..5_000).map(|n| keyed(&n.to_string())).collect();
    let ids: Vec<i64> = db.enqueue(&jobs).await.iter().map(|it| it.id().get()).collect();
    // most of the first part stay
    db.sql(format!("DELETE FROM queue_jobs WHERE id > {}", ids[899])).await;
    db.sweep().await;
    assert_eq!(db.keys().await, (900, 900));
    // behind as many parts as the hand moves on in a round
    let gone = db.enqueue(&(0..9_500).map(|n| keyed(&format!("new {n}"))).collect::<Vec<_>>()).await;
    let last = db.enqueue(&(0..5_000).map(|n| keyed(&format!("last {n}"))).collect::<Vec<_>>()).await;
    let ends = last.last().expect("many").id();
    db.sql(format!("DELETE FROM queue_jobs WHERE id BETWEEN {} AND {ends}", gone[0].id())).await;
    db.sweep().await;
    assert_eq!(db.keys().await, (900, 900), "in one round");
}

impl<DB: TestDb> Db<DB> {
    /// Enqueues a thousand unique jobs and runs them. Then their retention is over.
    async fn a_second(&self, name: &str) {
        let worker = self.worker().await;
        let jobs: Vec<_> = (0..1_000).map(|n| keyed(&format!("{name} {n}"))).collect();
        self.enqueue(&jobs).await;
        let taken = self.take(worker, 1_000).await;
        let ends: Vec<_> = taken.iter().map(cancelled).collect();
        assert_eq!(self.store.end(worker, &ends).await.unwrap().len(), 1_000);
        self.sql(format!("UPDATE queue_history SET finished_at = {}", DB::in_seconds(-7_200))).await;
    }

    /// Moves all jobs that wait to the dead letters.
    async fn bury_all(&self) {
        loop {
            let worker = self.worker().await; // with a lease of its own, however slow the machine is
            let jobs = self.take(worker, 1_000).await;
            if jobs.is_empty() {
                return;
            }
            let ends: Vec<_> = jobs.iter().map(buried).collect();
            assert_eq!(self.store.end(worker, &ends).await.unwrap().len(), jobs.len());
        }
    }
}

/// With a thousand unique jobs a second behind many dead letters, and without a single round of the sweep.
async fn keys_go_with_the_jobs_that_retention_removes<DB: TestDb>(db: Db<DB>) {
    const DEAD: i64 = 20_000;
    db.enqueue(&(0..DEAD).map(|n| keyed(&format!("dead {n}"))).collect::<Vec<_>>()).await;
    db.bury_all().await;
    db.sweep().await; // it has seen keys
    assert_eq!(db.keys().await, (DEAD, DEAD));
    let hour = Duration::from_secs(3_600);
    for second in 0..10 {
        db.a_second(&second.to_string()).await;
        while db.store.purge(hour, 1_000, false).await.unwrap() > 0 {}
        assert_eq!(db.keys().await, (DEAD, DEAD), "second {second}");
    }
}

/// What retention leaves, and what was deleted by other means, goes in a few rounds of one worker.
async fn keys_with_a_time_go_when_it_is_over<DB: TestDb>(db: Db<DB>) {
    const DEAD: i64 = 12_000;
    db.enqueue(&(0..DEAD).map(|n| keyed(&format!("dead {n}"))).collect::<Vec<_>>()).await;
    db.bury_all().await;
    let mut hand = None;
    db.store.sweep_keys(&mut hand, true).await.unwrap();
    for second in 0..10 {
        db.a_second(&second.to_string()).await;
        db.sql(format!(
            "UPDATE queue_unique_keys SET free_at = {} WHERE job_id > {DEAD} AND free_at IS NULL",
            DB::in_seconds(3_600)
        ))
        .await;
        while db.store.purge(Duration::from_secs(3_600), 1_000, false).await.unwrap() > 0 {}
    }
    db.store.sweep_keys(&mut hand, true).await.unwrap();
    assert_eq!(db.keys().await, (DEAD + 10_000, DEAD + 10_000), "their time is not over");
    db.sql(format!("UPDATE queue_unique_keys SET free_at = {} WHERE free_at IS NOT NULL", DB::in_seconds(-1))).await;
    for _ in 0..3 {
        db.store.sweep_keys(&mut hand, true).await.unwrap();
    }
    assert_eq!(db.keys().await, (DEAD, DEAD));
}
