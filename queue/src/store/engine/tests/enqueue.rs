//! Writing jobs.

use super::*;

on_each!(insert_gives_ids_in_order, arguments_stay_as_they_were_written, insert_is_all_or_nothing,);

async fn insert_gives_ids_in_order<DB: TestDb>(db: Db<DB>) {
    let one = db.insert(&[job("a")]).await;
    let later = db.insert(&[NewJob { delay_us: Some(60_000_000), max_retries: Some(9), ..job("a") }]).await;
    let at = db.insert(&[NewJob { run_at_us: Some(1_700_000_000_123_456), ..job("a") }]).await;
    let many: Vec<_> = (0..12_001)
        .map(|n| NewJob { args: format!("{{\"n\":{n}}}"), delay_us: (n % 3 == 0).then_some(9_000_000), ..job("b") })
        .collect();
    let ids = db.insert(&many).await;
    assert_eq!(ids.len(), many.len());
    assert!(one[0] < later[0] && later[0] < at[0] && at[0] < ids[0]);
    for n in [0, 1, 999, 1_000, 4_999, 5_000, 12_000] {
        assert_eq!(db.text(format!("SELECT args FROM queue_jobs WHERE id = {}", ids[n])).await, many[n].args);
    }
    assert_eq!(
        db.int(format!("SELECT COUNT(*) FROM queue_jobs WHERE kind = 'b' AND run_at > {}", DB::in_seconds(0))).await,
        4_001
    );
    assert_eq!(
        db.int(format!("SELECT COUNT(*) FROM queue_jobs WHERE kind = 'a' AND run_at > {}", DB::in_seconds(50))).await,
        1
    );
    let worker = db.worker().await;
    let jobs = db.take(worker, 10).await;
    assert_eq!(jobs.iter().map(|j| j.id.get()).collect::<Vec<_>>(), [at[0], one[0]]);
    assert!((jobs[0].run_at - 1_700_000_000_123_456).abs() < 1_000, "{}", jobs[0].run_at);
    assert!(chrono::Utc::now().signed_duration_since(jobs[0].enqueued_at).abs() < chrono::TimeDelta::seconds(60));
}

async fn arguments_stay_as_they_were_written<DB: TestDb>(db: Db<DB>) {
    let args = [
        r#"{"n":1,"s":"quote \" backslash \\ tab \t slash / nul \u0000 é \u00e9 😀"}"#,
        r#"{"f":1.50,"big":123456789012345678901234567890,"e":1e300,"minus":-0.0,"none":null,"deep":[[{"a":[]}],{}]}"#,
        "[1.50,\"é\"]",
        "\"text \\u0000\"",
        "7.0",
        "null",
    ];
    let one_by_one = args.map(|args| [NewJob { args: args.into(), ..job("one") }]);
    let together = args.map(|args| NewJob { args: args.into(), ..job("many") });
    let mut singles = Vec::new();
    for job in &one_by_one {
        singles.extend(db.insert(job).await);
    }
    let many = db.insert(&together).await;
    let stored = async |id: i64| db.text(format!("SELECT args FROM queue_jobs WHERE id = {id}")).await;
    for ((text, one), many) in args.into_iter().zip(singles).zip(many) {
        let (one, many) = (stored(one).await, stored(many).await);
        assert_eq!(one, many);
        // MySQL keeps JSON in a form of its own
        assert!(one == text || DB::KIND == crate::engine::Engine::MySql, "{one}");
    }
}

async fn insert_is_all_or_nothing<DB: TestDb>(db: Db<DB>) {
    let mut jobs: Vec<_> = (0..6_000).map(|_| job("a")).collect();
    jobs[5_999].args = "not json".into();
    let mut conn = db.pool.acquire().await.unwrap();
    for whose in [Whose::Pools, Whose::Callers] {
        assert!(DB::insert(&mut conn, &jobs, whose).await.is_err(), "{whose:?}");
        assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 0, "{whose:?}");
    }
    drop(conn);
    // inside the caller's transaction, which goes on (except on PostgreSQL, whose transactions end with an error)
    let mut conn = db.pool.acquire().await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    let good: Vec<_> = (0..6_000).map(|_| job("a")).collect();
    assert_eq!(DB::insert(&mut tx, &good, Whose::Callers).await.unwrap().len(), 6_000);
    tx.rollback().await.unwrap();
    drop(conn);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 0);
}
