//! Steps of operations on many jobs: each counts once, whoever carries the operation out.

use super::*;
use crate::operations::Progress;
use crate::store::operations::LOCKED;

on_each!(
    a_step_from_elsewhere_changes_nothing,
    what_was_refused_is_changed_once,
    what_is_silent_is_taken_over,
    records_go_when_they_are_old,
);

/// An operation that deletes, and where it is.
async fn begun<DB: TestDb>(db: &Db<DB>) -> (i64, i64) {
    let id = db.store.begin(note()).await.unwrap();
    (id, db.store.operations(i64::MAX, 1, None).await.unwrap()[0].last_id)
}

async fn step<DB: TestDb>(db: &Db<DB>, operation: i64, from: i64, to: i64, ids: &[i64]) -> Option<Vec<i64>> {
    let record = Record::Step { operation, from, to };
    let (action, ids, args) = (Action::Delete, ids.to_vec(), Default::default());
    let change = Change { action, ids, listed: None, spread: None, args, record };
    db.store.change_jobs(change).await.unwrap().map(|(changed, _)| changed)
}

async fn a_step_from_elsewhere_changes_nothing<DB: TestDb>(db: Db<DB>) {
    let ids = db.insert(&[job("a"), job("a"), job("a")]).await;
    let (operation, start) = begun(&db).await;
    assert_eq!(step(&db, operation, start, ids[0], &ids[..1]).await.unwrap(), [ids[0]]);
    assert_eq!(step(&db, operation, start, ids[1], &ids[1..2]).await, None, "another process was faster");
    assert_eq!(step(&db, operation, ids[0], ids[1], &ids[1..2]).await.unwrap(), [ids[1]]);
    assert!(db.store.end_operation(operation, Progress::Stopped, None).await.unwrap());
    assert_eq!(step(&db, operation, ids[1], ids[2], &ids[2..]).await, None, "it was stopped");
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 1);
    assert_eq!(db.store.operations(i64::MAX, 1, None).await.unwrap()[0].operation.changed, 2);
}

async fn what_was_refused_is_changed_once<DB: TestDb>(db: Db<DB>) {
    let ids = db.insert(&[job("a"), job("a")]).await;
    let (operation, start) = begun(&db).await;
    let missing = ids[1] + 1;
    assert_eq!(step(&db, operation, start, missing, &[ids[0], missing]).await.unwrap(), [ids[0]]);
    let refused = db.store.refusals(operation, i64::MIN, Some(LOCKED)).await.unwrap();
    assert_eq!(refused, [(missing, LOCKED.to_owned())], "kept in the transaction of the step");
    // a job that is not among the refused ones, as if another process had changed it before
    assert_eq!(step(&db, operation, missing, missing, &ids[1..]).await, None);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 1);
    let again = Refused { id: ids[1], reason: LOCKED.to_owned() };
    db.store.explain(operation, vec![again], vec![missing]).await.unwrap();
    assert_eq!(step(&db, operation, missing, missing, &ids[1..]).await.unwrap(), [ids[1]]);
    assert!(db.store.refusals(operation, i64::MIN, None).await.unwrap().is_empty());
}

async fn what_is_silent_is_taken_over<DB: TestDb>(db: Db<DB>) {
    let (operation, _) = begun(&db).await;
    let minute = Duration::from_secs(60);
    assert_eq!(db.store.unattended(minute).await.unwrap(), None);
    db.sql(format!("UPDATE queue_operations SET beat_at = {}", DB::in_seconds(-61))).await;
    assert_eq!(db.store.unattended(minute).await.unwrap(), Some(operation));
    assert!(db.store.end_operation(operation, Progress::Done, None).await.unwrap());
    assert_eq!(db.store.unattended(minute).await.unwrap(), None);
    assert!(!db.store.end_operation(operation, Progress::Stopped, None).await.unwrap());
}

async fn records_go_when_they_are_old<DB: TestDb>(db: Db<DB>) {
    let ((old, _), (running, _)) = (begun(&db).await, begun(&db).await);
    let refused = || vec![Refused { id: 7, reason: LOCKED.to_owned() }];
    db.store.explain(old, refused(), Vec::new()).await.unwrap();
    db.store.explain(running, refused(), Vec::new()).await.unwrap();
    assert!(db.store.end_operation(old, Progress::Done, None).await.unwrap());
    db.sql(format!("UPDATE queue_operations SET ended_at = {} WHERE id = {old}", DB::in_seconds(-61))).await;
    db.store.purge_operations(Duration::from_secs(120)).await.unwrap();
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_operations").await, 2);
    db.store.purge_operations(Duration::from_secs(60)).await.unwrap();
    assert_eq!(db.int("SELECT id FROM queue_operations").await, running);
    assert_eq!(db.int("SELECT operation_id FROM queue_refusals").await, running);
}
