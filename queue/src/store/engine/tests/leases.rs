//! Heartbeats and leases.

use super::*;
use crate::limits::micros;
use crate::store::engine::statement::When;
use crate::store::values::Sight;

on_each!(
    a_beat_sees_jobs_that_wait,
    a_declaration_is_fenced,
    a_lease_that_ran_out_is_fenced,
    beats_cost_no_more_beside_an_old_snapshot,
    #[ignore = "some five minutes"]
    beats_for_hours_cost_no_more_beside_an_old_snapshot,
);

async fn a_beat_sees_jobs_that_wait<DB: TestDb>(db: Db<DB>) {
    let worker = db.worker().await;
    let kinds = ["a".to_owned(), "b".to_owned()];
    db.insert(&[job("c")]).await;
    assert!(
        !db.store.heartbeat(worker, LEASE, Holding::default(), &kinds).await.unwrap().work,
        "nothing of these kinds waits"
    );
    db.insert(&[job("b")]).await;
    assert_eq!(
        db.store.heartbeat(worker, LEASE, Holding::default(), &kinds).await.unwrap().work,
        DB::HEARTBEAT_DISCOVERS
    );
    assert!(!db.store.heartbeat(worker, LEASE, Holding::default(), &[]).await.unwrap().work, "it was not told to look");
}

async fn a_declaration_is_fenced<DB: TestDb>(db: Db<DB>) {
    let (worker, rescuer) = (db.worker().await, SqlStore::new(db.pool.clone()));
    db.store.heartbeat(worker, LEASE, Holding::default(), &[]).await.unwrap();
    let look = async || -> Option<Sight> {
        let beat = rescuer.heartbeat(0, LEASE, Holding::default(), &[]).await.unwrap();
        beat.others.into_iter().find(|other| other.id == worker)
    };
    let Some(seen) = look().await else {
        assert!(DB::SESSIONS.is_none() && !rescuer.declare_lost(worker, 0, false).await.unwrap());
        return;
    };
    assert!(
        seen.held && !rescuer.declare_lost(worker, seen.heartbeat, false).await.unwrap(),
        "its session holds the lock"
    );
    db.store.release().await;
    // the server sees the end of a session a little later
    while look().await.is_some_and(|seen| seen.held) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!rescuer.declare_lost(worker, seen.heartbeat + 1, false).await.unwrap(), "it has beaten since");
    db.sql("UPDATE queue_heartbeats SET server_run = server_run - 1000000").await;
    assert!(
        !rescuer.declare_lost(worker, seen.heartbeat, false).await.unwrap(),
        "in another run of the server all locks are free"
    );
    db.sql("UPDATE queue_heartbeats SET server_run = server_run + 1000000").await;
    assert!(rescuer.declare_lost(worker, seen.heartbeat, false).await.unwrap());
    assert!(!rescuer.declare_lost(worker, seen.heartbeat, false).await.unwrap(), "only once");
}

async fn a_lease_that_ran_out_is_fenced<DB: TestDb>(db: Db<DB>) {
    let worker = db.worker().await;
    let seen = db.heartbeat(worker).await;
    let declare = async |heartbeat| db.store.declare_lost(worker, heartbeat, true).await.unwrap();
    assert!(!declare(seen).await, "it runs");
    db.expire(worker).await;
    let unit = if DB::KIND == crate::engine::Engine::Sqlite { 1_000 } else { 1 };
    assert!(!declare(seen - unit).await, "it has beaten since");
    assert!(declare(seen).await);
    assert!(!declare(seen).await, "only once");
    assert!(!db.store.heartbeat(worker, LEASE, Holding::default(), &[]).await.unwrap().alive);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_heartbeats").await, 0);
    assert_eq!(db.int(format!("SELECT {} FROM queue_workers", DB::micros("heartbeat_at"))).await, seen);
    // a worker that is stopped by hand sends no more heartbeats
    let stopped = db.worker().await;
    db.sql(format!("UPDATE queue_workers SET stopped_at = {} WHERE id = {stopped}", DB::in_seconds(0))).await;
    assert!(!db.store.heartbeat(stopped, LEASE, Holding::default(), &[]).await.unwrap().alive);
}

/// Heartbeats of 33 busy workers beside an old snapshot, which keeps what they leave behind. The last ones take at most
/// twice as long as the first, and read no more pages than these (PostgreSQL tells).
async fn beats_beside_an_old_snapshot<DB: TestDb>(db: &Db<DB>, beats: usize) {
    const WORKERS: usize = 33;
    const ROUNDS: usize = 10;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(db.worker().await);
    }
    let mut conn = db.pool.acquire().await.unwrap();
    conn.close_on_drop();
    for sql in DB::OPEN_LINE {
        DB::raw(&mut conn, sql).await.unwrap();
    }
    let mut snapshot = db.pool.acquire().await.unwrap();
    snapshot.close_on_drop();
    let begin = match DB::KIND {
        crate::engine::Engine::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queue_workers",
        crate::engine::Engine::MySql => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        crate::engine::Engine::Sqlite => return, // its pages have one version
    };
    DB::raw(&mut snapshot, begin).await.unwrap();
    let beat = async |conn: &mut DB::Connection, number: usize| {
        let worker = workers[number % WORKERS].into();
        let binds = [
            worker,
            micros(LEASE).into(),
            "[]".into(),
            "[1,2,3]".into(),
            "[]".into(),
            0.into(),
            0.into(),
            1.into(),
            micros(LEASE).into(),
        ];
        let begin = Instant::now();
        for (_, sql) in DB::LEASES.heartbeat.steps().filter(|(when, _)| *when == When::All) {
            rows::<DB>(conn, sql, &binds).await.unwrap();
        }
        begin.elapsed()
    };
    let time = async |conn: &mut DB::Connection| {
        let mut times = Vec::new();
        for number in 0..ROUNDS * WORKERS {
            times.push(beat(conn, number).await);
        }
        times.sort_unstable();
        times[times.len() / 2]
    };
    let pages = async |conn: &mut DB::Connection| {
        if DB::KIND != crate::engine::Engine::Postgres {
            return 0;
        }
        let values = format!("({}, 9000000, '[]', '[1,2,3]', '[]', 0, 0, 1, 9000000)", workers[WORKERS / 2]);
        let explain: &'static str = format!("EXPLAIN (ANALYZE, BUFFERS) EXECUTE counted {values}").leak();
        let plan = rows::<DB>(conn, explain, &[]).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.text(0).unwrap()).collect();
        let hits = plan.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared hit=")).expect("a count");
        hits.split(' ').next().and_then(|hits| hits.parse().ok()).expect("a number")
    };
    if DB::KIND == crate::engine::Engine::Postgres {
        let types = "(bigint, bigint, text, text, text, bigint, bigint, bigint, bigint)";
        DB::raw(&mut conn, format!("PREPARE counted {types} AS {}", DB::LEASES.heartbeat.first()).leak())
            .await
            .unwrap();
        pages(&mut conn).await; // reads the catalogue
    }
    let first_pages: u64 = pages(&mut conn).await;
    let mut first = time(&mut conn).await;
    // of a machine that has other work the quicker ones tell
    for _ in 0..3 {
        first = first.min(time(&mut conn).await);
    }
    for number in 0..beats {
        beat(&mut conn, number).await;
    }
    let last_pages = pages(&mut conn).await;
    let mut last = time(&mut conn).await;
    for _ in 0..100 {
        if last <= 2 * first {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        last = last.min(time(&mut conn).await);
    }
    println!("{beats} heartbeats: {first:?} at first, {last:?} at last; {first_pages} and {last_pages} pages");
    // pages say it exactly; where there is no such count, the time must do
    assert!(first_pages > 0 || last <= 2 * first, "{first:?} at first, {last:?} at last");
    assert!(last_pages <= 2 * first_pages, "{first_pages} pages at first, {last_pages} at last");
}

async fn beats_cost_no_more_beside_an_old_snapshot<DB: TestDb>(db: Db<DB>) {
    beats_beside_an_old_snapshot(&db, 5_000).await;
}

async fn beats_for_hours_cost_no_more_beside_an_old_snapshot<DB: TestDb>(db: Db<DB>) {
    beats_beside_an_old_snapshot(&db, 300_000).await;
}
