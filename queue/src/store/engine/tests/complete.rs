//! The fence of a completion in the handler's own transaction.

use super::*;
use crate::store::engine::jobs::ends::{complete, guard};
use crate::store::values::RunningRow;

on_each! {
    only_the_current_attempt_completes,
}

/// Each part of the fence, one at a time: the same worker has claimed the job again, another worker asks, and the same
/// numbers stand in another database.
async fn only_the_current_attempt_completes<DB: TestDb>(db: Db<DB>) {
    let (worker, other) = (db.worker().await, db.worker().await);
    db.insert(&[job("a")]).await;
    let earlier = db.take(worker, 1).await.remove(0);
    db.store.end(worker, &[End::released(earlier.hold(), 1)]).await.unwrap();
    let current = db.take(worker, 1).await.remove(0);
    assert!(current.id == earlier.id && current.fence == earlier.fence + 1);
    let row = |job: &Claimed, worker: WorkerId| RunningRow {
        hold: job.hold(),
        worker,
        enqueued_us: job.enqueued_at.timestamp_micros(),
    };
    let right = row(&current, worker);
    let elsewhere = RunningRow { enqueued_us: right.enqueued_us + 1_000, ..right };
    let end = plain(&current);
    let mut conn = db.pool.acquire().await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    for (wrong, why) in [(row(&earlier, worker), "fence"), (row(&current, other), "worker"), (elsewhere, "database")] {
        assert_eq!(complete::<DB>(&mut tx, wrong, &end, false).await.unwrap(), Some(false), "{why}");
        assert_eq!(guard::<DB>(&mut tx, wrong).await.unwrap(), Some(false), "{why}");
    }
    assert_eq!(guard::<DB>(&mut tx, right).await.unwrap(), Some(true));
    assert_eq!(complete::<DB>(&mut tx, right, &end, false).await.unwrap(), Some(true));
    tx.commit().await.unwrap();
    assert_eq!(db.int("SELECT count(*) FROM queue_jobs").await, 0);
    assert_eq!(db.int(format!("SELECT count(*) FROM queue_history WHERE fence = {}", current.fence)).await, 1);
    let holds = [earlier.hold(), current.hold()];
    assert_eq!(db.store.still_held(worker, &holds).await.unwrap(), Vec::<i64>::new());
}
