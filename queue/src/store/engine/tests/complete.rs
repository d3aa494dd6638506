//! The fence of a completion in the handler's own transaction.

use super::*;
use crate::store::engine::complete::{complete, guard};
use crate::store::values::Completion;

on_each! {
    only_the_current_attempt_completes,
}

/// Each part of the fence, one at a time: the same worker has claimed the job again, another worker asks, and the same
/// numbers stand in another database.
async fn only_the_current_attempt_completes<DB: TestDb>(db: Db<DB>) {
    let (worker, other) = (db.worker().await, db.worker().await);
    db.insert(&[job("a")]).await;
    let earlier = db.take(worker, 1).await.remove(0);
    let released = Requeue {
        hold: earlier.hold(),
        ran_us: 1,
        outcome: AttemptOutcome::Released,
        delay_us: None,
        uncount: 1,
        record: true,
        error: None,
    };
    db.store.requeue(worker, &[released]).await.unwrap();
    let current = db.take(worker, 1).await.remove(0);
    assert!(current.id == earlier.id && current.fence == earlier.fence + 1);
    let end = |job: &Claimed, worker: WorkerId| Completion {
        hold: job.hold(),
        worker,
        enqueued_us: job.enqueued_at.timestamp_micros(),
        ran_us: 1,
        result: None,
    };
    let right = end(&current, worker);
    let elsewhere = Completion { enqueued_us: right.enqueued_us + 1_000, ..right.clone() };
    let mut conn = db.pool.acquire().await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    for (wrong, why) in [(end(&earlier, worker), "fence"), (end(&current, other), "worker"), (elsewhere, "database")] {
        assert_eq!(complete::<DB>(&mut tx, &wrong, false).await.unwrap(), Some(false), "{why}");
        assert_eq!(guard::<DB>(&mut tx, &wrong).await.unwrap(), Some(false), "{why}");
    }
    assert_eq!(guard::<DB>(&mut tx, &right).await.unwrap(), Some(true));
    assert_eq!(complete::<DB>(&mut tx, &right, false).await.unwrap(), Some(true));
    tx.commit().await.unwrap();
    assert_eq!(db.int("SELECT count(*) FROM queue_jobs").await, 0);
    assert_eq!(db.int(format!("SELECT count(*) FROM queue_history WHERE fence = {}", current.fence)).await, 1);
    let holds = [earlier.hold(), current.hold()];
    assert_eq!(db.store.still_held(worker, &holds).await.unwrap(), Vec::<i64>::new());
}
