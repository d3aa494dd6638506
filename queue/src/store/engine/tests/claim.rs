//! Claims.

use super::*;

on_each!(
    claim_is_exclusive,
    one_has_the_turn_to_claim,
    claim_honours_its_asks,
    a_claim_of_long_arguments_is_small,
    claims_of_the_only_lane,
    a_claim_waits_for_no_neighbour,
    claims_are_forgotten,
    claims_are_not_forgotten_for_an_end_that_was_lost,
);

async fn claim_is_exclusive<DB: TestDb>(db: Db<DB>) {
    let jobs: Vec<_> = (0..2_000).map(|_| job("a")).collect();
    let ids: HashSet<_> = db.insert(&jobs).await.into_iter().collect();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = SqlStore::new(db.pool.clone());
            tokio::spawn(async move {
                let worker = NewWorker {
                    host: "h".into(),
                    pid: 1,
                    concurrency: 1,
                    queues: vec![],
                    kinds: vec!["a".into()],
                    secrets: Default::default(),
                    limits: Default::default(),
                };
                let worker = store.join(&worker, LEASE).await.unwrap();
                let mut mine = Vec::new();
                loop {
                    let jobs = store.claim(worker, &[ask("a", 37)], None).await.unwrap();
                    if jobs.is_empty() {
                        return mine;
                    }
                    let batch: Vec<_> = jobs.iter().map(done).collect();
                    let mut accepted = store.end(worker, &batch).await.unwrap();
                    accepted.sort_unstable();
                    let mut wanted: Vec<_> = jobs.iter().map(|job| job.id.get()).collect();
                    wanted.sort_unstable();
                    assert_eq!(accepted, wanted);
                    mine.extend(accepted);
                }
            })
        })
        .collect();
    let mut seen = HashSet::new();
    for task in tasks {
        for id in task.await.unwrap() {
            assert!(seen.insert(id), "{id} twice");
        }
    }
    assert_eq!(seen, ids);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history WHERE state = 'completed'").await, 2_000);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 0);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts").await, 0);
    let past = DB::in_seconds(-1);
    assert_eq!(db.int(format!("SELECT COUNT(*) FROM queue_history WHERE started_at < {past}")).await, 2_000);
}

async fn one_has_the_turn_to_claim<DB: TestDb>(db: Db<DB>) {
    let other = SqlStore::new(db.pool.clone());
    if DB::SESSIONS.is_none() {
        assert!(!db.store.take_claim_lock().await.unwrap());
        return db.store.release_claim_lock().await.unwrap();
    }
    assert!(db.store.take_claim_lock().await.unwrap());
    assert!(!other.take_claim_lock().await.unwrap(), "it waits a second and no longer");
    let worker = db.worker().await;
    db.insert(&[job("a"), job("a")]).await;
    assert_eq!(other.claim(worker, &[ask("a", 1)], None).await.unwrap().len(), 1, "the turn is a hint");
    let (given, taken) = tokio::join!(db.store.release_claim_lock(), other.take_claim_lock());
    given.unwrap();
    assert!(taken.unwrap(), "who waits gets it");
    other.release().await; // with its connection
    assert!(db.store.take_claim_lock().await.unwrap());
    assert_eq!(db.take(worker, 1).await.len(), 1);
    db.store.release_claim_lock().await.unwrap();
    db.store.release_claim_lock().await.unwrap(); // what is not there is not missed
}

async fn claim_honours_its_asks<DB: TestDb>(db: Db<DB>) {
    let ids = db
        .insert(
            &(0..6)
                .map(|n| NewJob { run_at_us: Some(1_000_000_000_000_000 + n * 1_000_000), ..job("a") })
                .collect::<Vec<_>>(),
        )
        .await;
    db.insert(&[
        NewJob { delay_us: Some(60_000_000), ..job("a") },
        NewJob { queue: "other".into(), max_retries: Some(0), ..job("b") },
        job("b"),
    ])
    .await;
    let worker = db.worker().await;
    // behind the second, two of them
    let behind = Some((1_000_000_000_000_000 + 1_000_000, ids[1]));
    let jobs = db.store.claim(worker, &[Ask { behind, ..ask("a", 2) }], None).await.unwrap();
    let mut got: Vec<_> = jobs.iter().map(|j| j.id.get()).collect();
    got.sort_unstable();
    assert_eq!(got, ids[2..4]);
    assert!(jobs.iter().all(|j| j.attempt == 1 && j.fence == 1 && j.max_retries == 1 && &*j.lane.kind == "a"));
    // newest first, and two lanes at once
    let other = Ask { lane: Lane { kind: "b".into(), queue: "other".into(), priority: 0 }, ..ask("b", 9) };
    let jobs = db.store.claim(worker, &[Ask { newest_first: true, ..ask("a", 1) }, other], None).await.unwrap();
    assert_eq!(jobs.len(), 2);
    let newest = jobs.iter().find(|j| &*j.lane.kind == "a").unwrap();
    assert_eq!(newest.id.get(), ids[5]);
    let other = jobs.iter().find(|j| &*j.lane.queue == "other").unwrap();
    assert_eq!((other.max_retries, other.args.as_deref()), (0, Ok("{}")));
    // from the row on that is said to be the first: more is asked for than there is, and what is held is passed over
    let known = Ask { behind, first: Some((1_000_000_000_000_000 + 4_000_000, ids[4])), ..ask("a", 9) };
    let jobs = db.store.claim(worker, std::slice::from_ref(&known), None).await.unwrap();
    assert_eq!(jobs.iter().map(|j| j.id.get()).collect::<Vec<_>>(), ids[4..5]);
    // paused: nothing
    db.insert(&[job("a")]).await;
    db.store.set_paused("default", true, note()).await.unwrap();
    assert!(db.take(worker, 9).await.is_empty());
    assert!(db.store.claim(worker, std::slice::from_ref(&known), None).await.unwrap().is_empty());
    assert!(db.store.claim(worker, &[ask("a", 9), ask("b", 9)], None).await.unwrap().is_empty());
    db.store.set_paused("default", false, note()).await.unwrap();
    // a worker that is not alive: nothing
    assert!(db.take(worker + 1, 9).await.is_empty());
    db.expire(worker).await;
    assert!(db.take(worker, 9).await.is_empty());
    assert!(db.store.claim(worker, &[ask("a", 9), ask("b", 9)], None).await.unwrap().is_empty());
}

/// SQLite writes whole rows, so its claims end early where arguments are long, and skip nothing.
async fn a_claim_of_long_arguments_is_small<DB: TestDb>(db: Db<DB>) {
    let long = || NewJob { args: format!("[\"{}\"]", "x".repeat(crate::limits::ARGS_AT_CLAIM_BYTES)), ..job("a") };
    let jobs: Vec<NewJob> = (0..20).map(|n| if (3..15).contains(&n) { long() } else { job("a") }).collect();
    let ids = db.insert(&jobs).await;
    let worker = db.worker().await;
    let numbers = |jobs: Vec<Claimed>| jobs.iter().map(|job| job.id.get()).collect::<Vec<_>>();
    let newest = Ask { newest_first: true, ..ask("a", 99) };
    let by_whole_rows = DB::KIND == crate::engine::Engine::Sqlite;
    let claims: &[usize] = if by_whole_rows { &[11, 9] } else { &[20] };
    let mut rest = &ids[..];
    for count in claims {
        let (first, others) = rest.split_at(*count);
        let mut claimed = numbers(db.take(worker, 99).await);
        claimed.sort_unstable();
        assert_eq!(claimed, first);
        rest = others;
    }
    assert!(rest.is_empty() && db.take(worker, 99).await.is_empty());
    db.sql("UPDATE queue_jobs SET worker_id = 0").await;
    let claimed = numbers(db.store.claim(worker, &[newest], None).await.unwrap());
    assert_eq!(claimed.len(), if by_whole_rows { 6 } else { 20 }, "five short ones and the long one before them");
    assert!(claimed.iter().all(|id| by_whole_rows <= (*id >= ids[14])), "{claimed:?}");
}

/// Where the claim can see to that, a lane is claimed only while no other one of the worker's kinds has rows that wait.
async fn claims_of_the_only_lane<DB: TestDb>(db: Db<DB>) {
    assert_eq!(db.store.capabilities().claims_alone, DB::KIND != crate::engine::Engine::Sqlite);
    let worker = db.worker().await;
    let kinds = ["a".to_owned(), "b".to_owned()];
    let lane = |queue: &str, priority| Lane { kind: "a".into(), queue: queue.into(), priority };
    let of = |queue: &str, priority, take| Ask { lane: lane(queue, priority), ..ask("a", take) };
    let row = |kind, queue: &'static str, priority| NewJob { queue: queue.into(), priority, ..job(kind) };
    let middle = of("m", 0, 2);
    for (kind, queue, priority) in [
        ("a", "l", 0),
        ("a", "l", 9),
        ("a", "m", -1),
        ("a", "m", 1),
        ("a", "n", -9),
        ("a", "n", 0),
        ("b", "l", 0),
        ("b", "m", 0),
        ("b", "n", 0),
    ] {
        let ids = db.insert(&[row("a", "m", 0), row("a", "m", 0), row("a", "m", 0), row("c", "m", -1)]).await;
        let other = db.insert(&[NewJob { delay_us: Some(60_000_000), ..row(kind, queue, priority) }]).await;
        let claimed = db.store.claim(worker, std::slice::from_ref(&middle), Some(&kinds)).await.unwrap();
        assert_eq!(claimed.len(), 0, "a row of {kind}, {queue}, {priority} waits");
        db.sql(format!("UPDATE queue_jobs SET worker_id = {worker} WHERE id = {}", other[0])).await;
        let claimed = db.store.claim(worker, std::slice::from_ref(&middle), Some(&kinds)).await.unwrap();
        if !db.store.capabilities().claims_alone {
            assert_eq!(claimed.len(), 0, "it has no such claims");
            return;
        }
        let mut claimed: Vec<_> = claimed.into_iter().map(|job| (job.id.get(), job.attempt, job.lane)).collect();
        claimed.sort_by_key(|(id, ..)| *id);
        assert_eq!(claimed, [(ids[0], 1, lane("m", 0)), (ids[1], 1, lane("m", 0))]);
        db.sql("DELETE FROM queue_jobs").await;
    }
}

/// Nor does a claim, when it marks what it has locked around others' rows.
async fn a_claim_waits_for_no_neighbour<DB: TestDb>(db: Db<DB>) {
    if DB::KIND == crate::engine::Engine::Sqlite {
        return; // one writer at a time
    }
    const JOBS: u32 = 200;
    let worker = db.worker().await;
    let numbers = db.insert(&vec![job("a"); JOBS as usize]).await;
    let claim = async |locked: &[usize], least: usize| {
        let mut other = db.pool.begin().await.unwrap();
        for n in locked {
            // one by one: of many MariaDB would read, and lock, the whole table
            let lock: &str = format!("SELECT id FROM queue_jobs WHERE id = {} FOR UPDATE", numbers[*n]).leak();
            assert_eq!(ids::<DB>(&mut other, lock, &[]).await.unwrap(), [numbers[*n]]);
        }
        let claimed = tokio::time::timeout(HANG, db.take(worker, 80));
        let claimed = claimed.await.expect("no lock is waited for").len();
        assert!(claimed >= least, "{claimed} of {least}");
    };
    db.sql("UPDATE queue_jobs SET max_retries = NULL").await; // as a plain INSERT leaves it
    // in a few runs, one of them alone; in many; the rest
    claim(&[3, 68, 70], 80).await;
    claim(&(83..200).step_by(2).collect::<Vec<_>>(), 61).await;
    claim(&[199], 58).await;
    // and the few that are left: on MySQL and MariaDB they are locked by their numbers
    db.insert(&vec![job("a"); 10]).await;
    claim(&[199], 10).await;
    let marked = format!(
        "SELECT COUNT(*) FROM queue_jobs WHERE worker_id = {worker} AND fence = 1 AND attempt = 1 AND max_retries = 1"
    );
    assert_eq!(db.int(marked).await, i64::from(JOBS) + 10 - 1);
}

/// Only where claims leave notes: a note lives as long as one job of its claim is held, by a live worker or a lost one.
async fn claims_are_forgotten<DB: TestDb>(db: Db<DB>) {
    if DB::KIND == crate::engine::Engine::Sqlite {
        return;
    }
    let notes = async || db.int("SELECT COUNT(*) FROM queue_claims").await;
    db.insert(&[job("a"), job("a"), job("a")]).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 2).await;
    let last = db.take(worker, 2).await;
    assert!(last.len() == 1 && db.take(worker, 2).await.is_empty());
    assert_eq!(notes().await, 2, "a claim that took nothing leaves none");
    assert_eq!(db.store.end(worker, &[done(&jobs[0])]).await.unwrap().len(), 1);
    db.store.heartbeat(worker, LEASE, Holding::default(), &[]).await.unwrap();
    assert_eq!(notes().await, 2);
    assert_eq!(db.store.end(worker, &[done(&jobs[1])]).await.unwrap().len(), 1);
    let other = db.worker().await;
    let settled = [jobs[0].claim.unwrap()];
    let settled = Holding { settled: &settled, ..Holding::default() };
    db.store.heartbeat(other, LEASE, settled, &[]).await.unwrap();
    assert_eq!(notes().await, 2, "it is another's");
    db.store.heartbeat(worker, LEASE, settled, &[]).await.unwrap();
    assert_eq!(db.int("SELECT id FROM queue_claims").await, last[0].claim.unwrap());
    let check = Holding { check: true, ..Holding::default() };
    db.store.heartbeat(worker, LEASE, check, &[]).await.unwrap();
    assert_eq!(notes().await, 1, "its job is held");
    assert_eq!(db.store.end(worker, &[done(&last[0])]).await.unwrap().len(), 1);
    db.store.heartbeat(worker, LEASE, Holding::default(), &[]).await.unwrap();
    assert_eq!(notes().await, 1, "nobody has said that it is settled");
    db.store.heartbeat(worker, LEASE, check, &[]).await.unwrap();
    assert_eq!(notes().await, 0);
    db.insert(&[job("a")]).await;
    assert_eq!(db.take(worker, 1).await.len(), 1);
    db.store.leave(worker, Duration::ZERO).await.unwrap();
    assert_eq!(db.rescue(10).await.ready, 1);
    assert_eq!(db.rescue(10).await, Rescued::default());
    assert_eq!(notes().await, 0);
}

/// A server that fails may lose what it has acknowledged, with its sessions: a new one believes nothing that was learnt
/// before.
async fn claims_are_not_forgotten_for_an_end_that_was_lost<DB: TestDb>(db: Db<DB>) {
    let (requeue, others, end) = match DB::KIND {
        crate::engine::Engine::Postgres => (
            "INSERT INTO queue_jobs OVERRIDING SYSTEM VALUE SELECT * FROM as_before",
            "SELECT pid::bigint FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
            "SELECT pg_terminate_backend($)",
        ),
        crate::engine::Engine::MySql => (
            "INSERT INTO queue_jobs SELECT * FROM as_before",
            "SELECT CAST(id AS SIGNED) \
             FROM /*!80022 performance_schema.processlist */ /*M! information_schema.processlist */ \
             WHERE db = DATABASE() AND id <> CONNECTION_ID()",
            "KILL $",
        ),
        crate::engine::Engine::Sqlite => return,
    };
    db.insert(&[job("a")]).await;
    let worker = db.worker().await;
    let first = db.store.heartbeat(worker, LEASE, Holding::default(), &[]).await.unwrap().session;
    let jobs = db.take(worker, 1).await;
    db.sql("CREATE TABLE as_before AS SELECT * FROM queue_jobs").await;
    assert_eq!(db.store.end(worker, &[done(&jobs[0])]).await.unwrap().len(), 1);
    db.sql("DELETE FROM queue_history").await;
    db.sql(requeue).await;
    let mut conn = db.pool.acquire().await.unwrap();
    for session in ids::<DB>(&mut conn, others, &[]).await.unwrap() {
        // it may have ended by itself
        let _ = DB::raw(&mut conn, end.replace('$', &session.to_string()).leak()).await;
    }
    drop(conn);
    let settled = [jobs[0].claim.unwrap()];
    let settled = Holding { settled: &settled, ..Holding::default() };
    let second = loop {
        if let Ok(beat) = db.store.heartbeat(worker, LEASE, settled, &[]).await {
            break beat.session;
        }
    };
    assert_ne!(first, second);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_claims").await, 1);
    db.store.leave(worker, Duration::ZERO).await.unwrap();
    assert_eq!(db.rescue(10).await.ready, 1);
    db.sql("DROP TABLE as_before").await;
}
