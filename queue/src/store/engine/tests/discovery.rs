//! Which lanes have jobs.

use super::super::jobs::LOOK_LIMIT;
use super::*;

on_each!(
    lanes_leave_out_what_is_not_served,
    looks_go_on_behind_the_last_lane,
    a_look_is_given_up,
    looks_walk_over_no_lane,
);

/// How many rows were read one after the other.
pub(super) const WALKED: &str = "SHOW SESSION STATUS LIKE 'Handler_read_next'";

async fn lanes_leave_out_what_is_not_served<DB: TestDb>(db: Db<DB>) {
    let lane = |kind, queue: &'static str, priority, delay| NewJob {
        queue: queue.into(),
        priority,
        delay_us: delay,
        ..job(kind)
    };
    db.insert(&[
        lane("a", "default", 0, None),
        lane("a", "default", 0, Some(60_000_000)),
        lane("a", "default", -5, None),
        lane("a", "mail", 7, Some(100_000_000)),
        lane("a", "held", 0, None),
        lane("b", "default", 0, None),
        lane("foreign", "default", 0, None),
    ])
    .await;
    db.store.set_paused("held", true, note()).await.unwrap();
    let scope = |kinds: &[&str], queues: &[&str]| Scope {
        kinds: kinds.iter().map(|k| (*k).to_owned()).collect(),
        queues: queues.iter().map(|q| (*q).to_owned()).collect(),
    };
    let heads = async |scope: Scope| {
        let mut lanes = db.store.discover(&scope, &[], 1_000, false).await.unwrap().heads;
        lanes.sort_by_key(|h| (h.lane.kind.clone(), h.lane.queue.clone(), h.lane.priority));
        lanes
    };
    let all = heads(scope(&["a", "b", "nothing"], &[])).await;
    let names: Vec<_> = all.iter().map(|h| (&*h.lane.kind, &*h.lane.queue, h.lane.priority)).collect();
    assert_eq!(names, [("a", "default", -5), ("a", "default", 0), ("a", "mail", 7), ("b", "default", 0)]);
    assert_eq!(all[0].due_in, Duration::ZERO);
    assert_eq!(all[1].due_in, Duration::ZERO);
    assert!(
        all[2].due_in > Duration::from_secs(90) && all[2].due_in <= Duration::from_secs(101),
        "{:?}",
        all[2].due_in
    );
    assert_eq!(heads(scope(&["a"], &["mail"])).await.len(), 1);
    assert!(heads(scope(&["nothing"], &[])).await.is_empty());
}

/// A look finds no more lanes than it is told, and the next one goes on behind them: all are found in the end.
async fn looks_go_on_behind_the_last_lane<DB: TestDb>(db: Db<DB>) {
    let lane = |kind, queue: String, priority| NewJob { queue: queue.into(), priority, ..job(kind) };
    let mut jobs = vec![lane("c", "default".into(), 0)];
    jobs.extend((0..700).map(|n| lane("a", format!("q{:03}", n / 7), n % 7 - 3)));
    jobs.extend((0..90).map(|n| lane("b", format!("p{n}"), 0)));
    jobs.extend((0..300).map(|_| lane("b", "deep".into(), 0)));
    db.insert(&jobs).await;
    db.store.set_paused("q050", true, note()).await.unwrap();
    let kinds = ["a", "b", "c", "none"].map(str::to_owned).to_vec();
    let scope = Scope { kinds, queues: vec![] };
    for most in [1, 2, 40, 333, 5_000] {
        let (mut behind, mut lanes, mut looks) = (Vec::<Lane>::new(), HashSet::new(), 0);
        let mut pending: Option<Vec<Lane>> = None;
        loop {
            let found = db.store.discover(&scope, &behind, most, false).await.unwrap();
            assert!(found.heads.len() <= most.max(600), "{} of {most}", found.heads.len());
            for head in found.heads {
                lanes.insert(head.lane);
            }
            behind = found.stopped;
            looks += 1;
            // a kind that is gone through begins anew
            let mut last = pending.take().unwrap_or_else(|| behind.clone());
            last.retain(|lane| behind.iter().any(|stopped| stopped.kind == lane.kind));
            if last.is_empty() {
                break;
            }
            pending = Some(last);
            assert!(looks < 2_000, "it comes to no end");
        }
        assert_eq!(lanes.len(), 700 - 7 + 91 + 1, "{most} at a time, {looks} looks");
    }
}

/// A look beside the claims that does not come to an end keeps nobody: here it waits for a lock on the whole table.
async fn a_look_is_given_up<DB: TestDb>(db: Db<DB>) {
    let lock = match DB::KIND {
        crate::engine::Engine::Postgres => "LOCK TABLE queue_jobs IN ACCESS EXCLUSIVE MODE",
        crate::engine::Engine::MySql => "LOCK TABLES queue_jobs WRITE",
        // readers wait for nobody
        _ => return,
    };
    let mut tx = db.pool.begin().await.unwrap();
    DB::raw(&mut tx, lock).await.unwrap();
    let scope = Scope { kinds: vec!["a".into()], queues: vec![] };
    let store = db.store.clone();
    let mut look = tokio::spawn(async move { store.discover(&scope, &[], 1_000, true).await.map(drop) });
    let began = Instant::now();
    let ended = loop {
        db.store.abandon();
        if let Ok(ended) = tokio::time::timeout(Duration::from_millis(20), &mut look).await {
            break ended.unwrap();
        }
        assert!(began.elapsed() < LOOK_LIMIT, "its own limit ended it");
    };
    assert!(ended.is_err(), "it cannot have seen the table");
    drop(tx);
}

/// A counter of the session; 0 where the engine does not tell.
pub(super) async fn counted<DB: TestDb>(conn: &mut DB::Connection, what: &'static str) -> u64 {
    if DB::KIND != crate::engine::Engine::MySql {
        return 0;
    }
    let rows = rows::<DB>(conn, what, &[]).await.unwrap();
    rows[0].text(1).unwrap().parse().unwrap()
}

/// A look does not walk over the rows of a lane (asked where the engine tells what it has read), and misses none behind
/// a long one.
async fn looks_walk_over_no_lane<DB: TestDb>(db: Db<DB>) {
    const STATEMENTS: &str = "SHOW SESSION STATUS LIKE 'Com_stmt_execute'";
    const ODD: &str = "it's \\ \"é";
    let lane = |kind, queue: &'static str, priority| NewJob { queue: queue.into(), priority, ..job(kind) };
    let mut jobs = vec![lane(ODD, "default", 0); 3_000];
    jobs.extend(vec![lane("b", "default", -1); 64]);
    jobs.extend((0..130).map(|priority| lane("b", "mail", priority)));
    jobs.extend([lane(ODD, "default", 1), lane(ODD, "default", -1), lane(ODD, "after", 0), lane(ODD, "é", 0)]);
    jobs.extend(vec![lane("c", "default", 0); 300]);
    let others = (0..60).map(|n| &*format!("k{n}").leak());
    jobs.extend(others.clone().flat_map(|kind| (0..80).map(move |n| lane(kind, "default", n % 4))));
    db.insert(&jobs).await;
    let mut expected: Vec<_> = jobs.iter().map(|job| (&*job.kind, &*job.queue, job.priority)).collect();
    expected.retain(|(kind, ..)| *kind != "c");
    expected.sort_unstable();
    expected.dedup();
    let mut conn = db.pool.acquire().await.unwrap();
    let kinds: Vec<_> = ["b", ODD].into_iter().chain(others).map(str::to_owned).collect();
    // all of them are too many for a look in steps, which reads no more than it says
    for kinds in [&kinds, &kinds[..20], &kinds[..20], &kinds[..20]] {
        let expected: Vec<_> =
            expected.iter().filter(|(kind, ..)| kinds.iter().any(|it| it == kind)).copied().collect();
        let before = [counted::<DB>(&mut conn, WALKED).await, counted::<DB>(&mut conn, STATEMENTS).await];
        let lanes = DB::discover(&mut conn, kinds, &[], 1_000_000).await.unwrap().heads;
        let statements = counted::<DB>(&mut conn, STATEMENTS).await - before[1];
        assert!(statements < 40, "{statements} statements");
        let steps = counted::<DB>(&mut conn, WALKED).await - before[0];
        assert!(steps < 2_500 || kinds.len() > 20, "{steps} rows were walked over");
        let mut lanes: Vec<_> = lanes.iter().map(|it| (&*it.lane.kind, &*it.lane.queue, it.lane.priority)).collect();
        lanes.sort_unstable();
        assert_eq!(lanes, expected);
        rows::<DB>(&mut conn, "SELECT args FROM queue_jobs WHERE id = 1", &[]).await.unwrap();
    }
}
