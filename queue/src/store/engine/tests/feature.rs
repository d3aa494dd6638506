//! A small feature, the ledger: it writes down each edge that its jobs take. It proves what the plug promises.

use futures_util::FutureExt;

use super::*;
use crate::store::engine::complete::complete;
use crate::store::engine::feature::{Background, Edge, Feature};
use crate::store::engine::steps::insert;
use crate::store::values::{Features, RunningRow};

/// How the ledger is written. `$rows` selects `id` and `fence` from the list in `$1`.
macro_rules! ledger {
    ($db:ty, $later:literal, $rows:literal, $admitted:literal) => {
        Feature {
            name: "ledger",
            bit: Features::bit(14),
            steps: &[
                (Edge::Enqueue, &[ledger!(@ "enqueue", $rows)]),
                (Edge::Admit, &[
                    ledger!(@ "admit", $rows),
                    concat!(
                        "UPDATE queue_jobs SET worker_id = 0, attempt = attempt - 1, run_at = ", $later, " WHERE ",
                        $admitted, " AND kind = 'late'"
                    ),
                    concat!("SELECT id FROM queue_jobs WHERE ", $admitted, " AND worker_id = 0"),
                ]),
                (Edge::Start, &[ledger!(@ "start", $rows)]),
                (Edge::Finish, &[ledger!(@ "finish", $rows)]),
                (Edge::Requeue, &[ledger!(@ "requeue", $rows)]),
                (Edge::Bury, &[ledger!(@ "bury", $rows)]),
                (Edge::Rescue, &[ledger!(@ "rescue", $rows)]),
                (Edge::Cancel, &[ledger!(@ "cancel", $rows)]),
                (Edge::SendBack, &[ledger!(@ "send_back", $rows)]),
                (Edge::Delete, &[ledger!(@ "delete", $rows)]),
                (Edge::Purge, &[ledger!(@ "purge", $rows)]),
            ],
            duty: Some(Background { every: Duration::from_millis(100), round: |conn| round::<$db>(conn).boxed() }),
        }
    };
    (@ $edge:literal, $rows:literal) => {
        concat!("INSERT INTO queue_test_ledger (edge, job_id, fence) SELECT '", $edge, "', ", $rows)
    };
}

async fn round<DB: Dialect>(conn: &mut DB::Connection) -> Result<(), sqlx::Error> {
    execute::<DB>(conn, "INSERT INTO queue_test_ledger (edge, job_id, fence) VALUES ('duty', 0, 0)", &[])
        .await
        .map(drop)
}

/// The ledger on one engine.
pub(crate) trait Ledger: Dialect {
    const LEDGER: Feature<Self>;
}

#[cfg(feature = "postgres")]
impl Ledger for sqlx::Postgres {
    const LEDGER: Feature<Self> = ledger!(
        Self,
        "now() + interval '1 hour'",
        "id, fence FROM json_to_recordset($1::json) AS d (id bigint, fence integer)",
        "id IN (SELECT id FROM json_to_recordset($1::json) AS d (id bigint))"
    );
}

#[cfg(feature = "mysql")]
impl Ledger for sqlx::MySql {
    const LEDGER: Feature<Self> = ledger!(
        Self,
        "UTC_TIMESTAMP(6) + INTERVAL 1 HOUR",
        "id, fence FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id', fence INT PATH '$.fence')) AS d",
        "id IN (SELECT id FROM JSON_TABLE($1, '$[*]' COLUMNS (id BIGINT PATH '$.id')) AS d)"
    );
}

#[cfg(feature = "sqlite")]
impl Ledger for sqlx::Sqlite {
    const LEDGER: Feature<Self> = ledger!(
        Self,
        "run_at + 3600000",
        "value ->> 'id', value ->> 'fence' FROM json_each($1)",
        "id IN (SELECT value ->> 'id' FROM json_each($1))"
    );
}

on_each! {
    steps_run_at_every_edge_of_their_jobs_alone,
    a_failed_step_undoes_its_edge,
    steps_of_an_enqueue_share_the_callers_transaction,
    steps_of_a_completion_share_the_handlers_transaction,
    a_claimed_job_may_be_put_aside,
    a_duty_of_a_feature_does_its_rounds,
    a_feature_without_a_step_at_enqueue_is_in_the_row,
}

const LEDGER_BIT: Features = Features::bit(14);

fn noted(kind: &'static str) -> NewJob {
    NewJob { features: LEDGER_BIT, ..job(kind) }
}

impl<DB: TestDb> Db<DB> {
    async fn ledger(&self) {
        self.sql(
            "CREATE TABLE queue_test_ledger (edge varchar(16) NOT NULL, job_id bigint NOT NULL, fence int NOT NULL)",
        )
        .await;
        self.sql("CREATE UNIQUE INDEX queue_test_ledger_once ON queue_test_ledger (edge, job_id, fence)").await;
    }

    /// What the ledger says since the last time.
    async fn told(&self) -> Vec<(String, i64, i64)> {
        let mut conn = self.pool.acquire().await.unwrap();
        let sql = "SELECT edge, job_id, fence FROM queue_test_ledger ORDER BY edge, job_id, fence";
        let rows = rows::<DB>(&mut conn, sql, &[]).await.unwrap();
        execute::<DB>(&mut conn, "DELETE FROM queue_test_ledger", &[]).await.unwrap();
        rows.iter().map(|row| (row.text(0).unwrap(), row.int(1).unwrap(), row.int(2).unwrap())).collect()
    }
}

fn all_at<'a>(edge: &'a str, ids: &'a [i64], fence: i64) -> Vec<(String, i64, i64)> {
    ids.iter().map(|&id| (edge.to_owned(), id, fence)).collect()
}

async fn steps_run_at_every_edge_of_their_jobs_alone<DB: TestDb>(db: Db<DB>) {
    db.ledger().await;
    let worker = db.worker().await;
    let ids = db.insert(&[noted("a"), job("a"), noted("a"), noted("a"), noted("a"), job("a"), noted("a")]).await;
    let mine: Vec<i64> = [0, 2, 3, 4, 6].map(|n: usize| ids[n]).into();
    assert_eq!(db.told().await, all_at("enqueue", &mine, 0));

    let jobs = db.take(worker, 10).await;
    assert_eq!(jobs.len(), 7);
    assert_eq!(db.told().await, all_at("admit", &mine, 1));
    db.begin(worker, &jobs).await;
    assert_eq!(db.told().await, all_at("start", &mine, 1));
    let of = |n: usize| jobs.iter().find(|job| job.id.get() == ids[n]).unwrap();

    // an end under another fence is refused, and no step sees it
    let stale = End { hold: Hold { fence: 9, ..of(3).hold() }, ..done(of(3)) };
    db.store.end(worker, &[done(of(0)), done(of(1)), stale]).await.unwrap();
    assert_eq!(db.told().await, all_at("finish", &ids[..1], 1));
    // a repeated call, after a lost answer, takes no edge again; nor does a stale end beside the right one
    let stale = End { hold: Hold { fence: 0, ..of(2).hold() }, ..done(of(2)) };
    db.store.end(worker, &[done(of(0)), done(of(1)), stale]).await.unwrap();
    assert_eq!(db.told().await, []);
    db.store.end(worker, &[End { hold: Hold { fence: 0, ..of(2).hold() }, ..back(of(2)) }, back(of(2))]).await.unwrap();
    assert_eq!(db.told().await, all_at("requeue", &ids[2..3], 1));
    db.store.end(worker, &[buried(of(3)), buried(of(5))]).await.unwrap();
    assert_eq!(db.told().await, all_at("bury", &ids[3..4], 1));
    db.lose(worker).await;
    assert_eq!(db.rescue(9).await.ready, 2);
    assert_eq!(db.told().await, all_at("rescue", &[ids[4], ids[6]], 0));

    db.store.cancel(&[ids[4]], "why").await.unwrap();
    assert_eq!(db.told().await, all_at("cancel", &ids[4..5], 0));
    db.store.send_back(&[ids[3], ids[5]]).await.unwrap();
    assert_eq!(db.told().await, all_at("send_back", &ids[3..4], 0));
    assert_eq!(db.store.delete(&[ids[2], ids[5]], None).await.unwrap().len(), 2);
    assert_eq!(db.told().await, all_at("delete", &ids[2..3], 0));
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(db.store.purge(Duration::from_millis(1), 100, false).await.unwrap(), 3, "two completed, one cancelled");
    assert_eq!(db.told().await, all_at("purge", &[ids[0], ids[4]], 0));
}

/// The ledger has a unique index: a line that is there already fails the step.
async fn a_failed_step_undoes_its_edge<DB: TestDb>(db: Db<DB>) {
    db.ledger().await;
    let worker = db.worker().await;
    let ids = db.insert(&[noted("a"), noted("a"), job("a"), noted("a")]).await;
    let jobs = db.take(worker, 10).await;
    db.begin(worker, &jobs).await;
    let in_the_way = async |edge: &str, id: i64, fence: i32| {
        db.sql(format!("INSERT INTO queue_test_ledger (edge, job_id, fence) VALUES ('{edge}', {id}, {fence})")).await;
    };
    let running = "SELECT count(*) FROM queue_jobs WHERE worker_id <> 0";
    in_the_way("finish", ids[0], 1).await;
    assert!(db.store.end(worker, &[done(&jobs[0]), done(&jobs[2])]).await.is_err());
    in_the_way("requeue", ids[0], 1).await;
    assert!(db.store.end(worker, &[back(&jobs[0])]).await.is_err());
    in_the_way("bury", ids[1], 1).await;
    assert!(db.store.end(worker, &[buried(&jobs[1])]).await.is_err());
    assert_eq!(db.int(running).await, 4, "all are as they were");
    assert_eq!(db.int("SELECT count(*) FROM queue_history").await, 0);

    // other jobs of the batch are not held up for long: the worker writes them one by one
    assert_eq!(db.store.end(worker, &[done(&jobs[2])]).await.unwrap(), [ids[2]]);
    in_the_way("rescue", ids[0], 0).await;
    db.lose(worker).await;
    let (rescued, refused) = db.store.rescue(9, &HashSet::new()).await.unwrap();
    assert_eq!((rescued.ready, refused), (2, vec![ids[0]]), "the one row that cannot be rescued holds up no other");

    in_the_way("delete", ids[1], 0).await;
    assert!(db.store.delete(&[ids[1], ids[3]], None).await.is_err());
    assert_eq!(db.int("SELECT count(*) FROM queue_jobs").await, 3);
    in_the_way("enqueue", ids[3] + 1, 0).await;
    let mut conn = db.pool.acquire().await.unwrap();
    assert!(insert::<DB>(&mut conn, &[noted("a")], Whose::Pools).await.is_err());
    drop(conn);
    assert_eq!(db.int("SELECT count(*) FROM queue_jobs").await, 3);
}

async fn steps_of_an_enqueue_share_the_callers_transaction<DB: TestDb>(db: Db<DB>) {
    db.ledger().await;
    let mut tx = db.pool.begin().await.unwrap();
    // more than one statement holds
    let many: Vec<NewJob> = (0..6_000).map(|n| if n % 2 == 0 { noted("a") } else { job("a") }).collect();
    assert_eq!(insert::<DB>(&mut tx, &many, Whose::Callers).await.unwrap().len(), 6_000);
    tx.rollback().await.unwrap();
    assert_eq!(db.told().await, []);
    assert_eq!(db.int("SELECT count(*) FROM queue_jobs").await, 0);

    let mut tx = db.pool.begin().await.unwrap();
    let ids = insert::<DB>(&mut tx, &[noted("a"), job("a")], Whose::Callers).await.unwrap();
    execute::<DB>(
        &mut tx,
        "INSERT INTO queue_test_ledger (edge, job_id, fence) SELECT 'enqueue', max(id) + 1, 0 FROM queue_jobs",
        &[],
    )
    .await
    .unwrap();
    assert!(insert::<DB>(&mut tx, &[noted("a")], Whose::Callers).await.is_err(), "that line is there");
    tx.commit().await.unwrap();
    assert_eq!(db.int("SELECT count(*) FROM queue_jobs").await, 2, "the caller's transaction stays usable");
    assert_eq!(db.int(format!("SELECT count(*) FROM queue_test_ledger WHERE job_id = {}", ids[0])).await, 1);
}

async fn steps_of_a_completion_share_the_handlers_transaction<DB: TestDb>(db: Db<DB>) {
    db.ledger().await;
    let worker = db.worker().await;
    db.insert(&[noted("a"), noted("a"), job("a")]).await;
    let jobs = db.take(worker, 3).await;
    let ids: Vec<i64> = jobs.iter().map(|job| job.id.get()).collect();
    db.told().await;
    let row = |job: &Claimed| RunningRow { hold: job.hold(), worker, enqueued_us: job.enqueued_at.timestamp_micros() };
    let end = plain(&jobs[0]);
    let mut tx = db.pool.begin().await.unwrap();
    assert_eq!(complete::<DB>(&mut tx, row(&jobs[0]), &end, false).await.unwrap(), Some(true));
    tx.rollback().await.unwrap();
    assert_eq!(db.told().await, []);
    let mut tx = db.pool.begin().await.unwrap();
    assert_eq!(complete::<DB>(&mut tx, row(&jobs[0]), &end, false).await.unwrap(), Some(true));
    let stale = RunningRow { hold: Hold { fence: 9, ..jobs[1].hold() }, ..row(&jobs[1]) };
    assert_eq!(complete::<DB>(&mut tx, stale, &end, false).await.unwrap(), Some(false));
    tx.commit().await.unwrap();
    assert_eq!(db.told().await, all_at("finish", &ids[..1], 1));
    // without a transaction, nothing
    let mut conn = db.pool.acquire().await.unwrap();
    for job in &jobs[1..] {
        assert_eq!(complete::<DB>(&mut conn, row(job), &end, false).await.unwrap(), None);
    }
    drop(conn);
    assert_eq!(db.told().await, []);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history").await, 1);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 2);
}

async fn a_claimed_job_may_be_put_aside<DB: TestDb>(db: Db<DB>) {
    db.ledger().await;
    let worker = db.worker().await;
    let ids = db.insert(&[noted("late"), job("late"), noted("a")]).await;
    let jobs = db.store.claim(worker, &[ask("late", 9)], None).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.id.get()).collect::<Vec<_>>(), [ids[1]]);
    assert_eq!(db.int("SELECT count(*) FROM queue_jobs WHERE worker_id <> 0").await, 1);
    assert_eq!(db.take(worker, 9).await.len(), 1);
    assert_eq!(db.store.claim(worker, &[ask("late", 9)], None).await.unwrap().len(), 0, "it is due in an hour");
}

async fn a_duty_of_a_feature_does_its_rounds<DB: TestDb>(db: Db<DB>) {
    db.ledger().await;
    let duties = db.store.feature_duties();
    let duty = duties.iter().find(|duty| duty.feature == "ledger").expect("its duty");
    (duty.round)(true).await.unwrap();
    assert_eq!(db.told().await, all_at("duty", &[0], 0));
}

/// No feature of this build has bit 13, so none has a step at enqueue for it.
async fn a_feature_without_a_step_at_enqueue_is_in_the_row<DB: TestDb>(db: Db<DB>) {
    db.insert(&[NewJob { features: Features::bit(13), ..job("a") }, job("a")]).await;
    assert_eq!(db.int("SELECT count(*) FROM queue_jobs WHERE features = 8192").await, 1);
    assert_eq!(db.int("SELECT count(*) FROM queue_jobs WHERE features = 0").await, 1);
}
