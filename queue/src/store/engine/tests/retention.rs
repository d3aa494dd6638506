//! Removing jobs.

use super::*;

on_each!(only_what_is_in_the_state_is_deleted, purge_is_bounded, purge_leaves_what_is_younger,);

/// What was listed as a dead letter may have been sent back by now.
async fn only_what_is_in_the_state_is_deleted<DB: TestDb>(db: Db<DB>) {
    let ids = db.insert(&[job("a"), job("a"), job("a")]).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 2).await;
    db.store.end(worker, &[done(&jobs[0])]).await.unwrap();
    assert_eq!(db.store.end(worker, &[buried(&jobs[1])]).await.unwrap(), [ids[1]]);
    assert_eq!(db.change(Action::SendBack, &[ids[1]]).await, [ids[1]]);
    use crate::JobState::{Cancelled, Dead, Ready};
    assert!(db.store.delete(&ids, Some(Dead)).await.unwrap().is_empty());
    assert_eq!(db.store.delete(&ids, Some(Cancelled)).await.unwrap(), [ids[0]], "it is over");
    assert_eq!(db.store.delete(&ids, Some(Ready)).await.unwrap().len(), 2);
}

async fn purge_is_bounded<DB: TestDb>(db: Db<DB>) {
    db.insert(&(0..10).map(|_| job("a")).collect::<Vec<_>>()).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 10).await;
    let ends: Vec<_> = jobs.iter().map(cancelled).collect();
    assert_eq!(db.store.end(worker, &ends).await.unwrap().len(), 10);
    let week = Duration::from_secs(7 * 86_400);
    assert_eq!(db.store.purge(week, 100, false).await.unwrap(), 0);
    db.sql(format!("UPDATE queue_history SET finished_at = {} WHERE id < {}", DB::in_seconds(-8 * 86_400), jobs[7].id))
        .await;
    assert_eq!(db.store.purge(week, 5, false).await.unwrap(), 5);
    assert_eq!(db.store.purge(week, 5, false).await.unwrap(), 2);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history").await, 3);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts").await, 3);
    let gone = db.worker().await;
    db.store.leave(gone, Duration::ZERO).await.unwrap();
    db.sql(format!("UPDATE queue_workers SET stopped_at = {} WHERE id = {gone}", DB::in_seconds(-8 * 86_400))).await;
    db.store.purge(week, 1, true).await.unwrap();
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_workers").await, 1);
    assert_eq!(db.int("SELECT worker_id FROM queue_heartbeats").await, worker);
}

/// Many old jobs are removed by runs of consecutive ids: nothing between these goes with them. By two workers at once.
async fn purge_leaves_what_is_younger<DB: TestDb>(db: Db<DB>) {
    db.insert(&vec![job("a"); 200]).await;
    let worker = db.worker().await;
    let ends: Vec<_> = db.take(worker, 200).await.iter().map(cancelled).collect();
    assert_eq!(db.store.end(worker, &ends).await.unwrap().len(), 200);
    let hour = Duration::from_secs(3_600);
    let first = db.int("SELECT MIN(id) FROM queue_history").await;
    let other = SqlStore::<DB>::new(db.pool.clone());
    let mut left: Vec<i64> = (0..200).collect();
    // in three runs, then in too many
    for is_old in [|n: i64| n < 90 && n != 5 && n != 50, |n| n % 3 == 0] {
        let (old, young): (Vec<i64>, Vec<i64>) = left.iter().partition(|n| is_old(**n));
        assert!(old.len() >= 32);
        let count = old.len() as u64;
        let old = old.iter().map(|n| (first + n).to_string()).collect::<Vec<_>>().join(", ");
        let two_hours_ago = DB::in_seconds(-7_200);
        db.sql(format!("UPDATE queue_history SET finished_at = {two_hours_ago} WHERE id IN ({old})")).await;
        let (one, two) = tokio::join!(db.store.purge(hour, 1_000, false), other.purge(hour, 1_000, false));
        assert_eq!(one.unwrap() + two.unwrap(), count, "each is counted once");
        for column in ["id FROM queue_history", "job_id FROM queue_attempts"] {
            let sql: &str = format!("SELECT {column} ORDER BY 1").leak();
            let mut conn = db.pool.acquire().await.unwrap();
            let found: Vec<_> = ids::<DB>(&mut conn, sql, &[]).await.unwrap().iter().map(|id| id - first).collect();
            assert_eq!(found, young, "{column}");
        }
        left = young;
    }
}
