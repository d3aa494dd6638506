//! Effects and the end of their job in one transaction: both are there, or neither.

use std::time::Duration;

use queue::admin::{Filter, JobDetail};
use queue::{Error, Job, JobContext, JobError, JobId, JobState, State, Worker, job};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play};
use queue_tests::{AnyPool, DEADLINE, Db, Probe, Step, What, eventually};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

conformance! {
    effects_and_completion_commit_together,
    a_history_row_is_as_that_of_any_completion,
    what_is_rolled_back_is_tried_again,
    further_jobs_are_part_of_it,
    a_failure_after_the_commit_is_no_failure,
    a_failure_before_the_commit_is_one,
    a_stale_attempt_cannot_commit,
    a_job_is_completed_once,
    a_transaction_of_another_database_is_refused,
    many_are_settled_together,
    a_guard_fences_each_step,
    completions_and_guards_need_a_transaction,
    a_transaction_that_is_over_takes_nothing,
    a_transaction_that_stays_open_holds_up_no_other_end;
    servers:
    nobody_rescues_a_job_whose_row_is_locked,
    a_change_waits_in_the_server_for_no_guarded_job,
    a_transaction_of_another_engine_is_refused,
}

mod mysql_alone {
    /// P32.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn locks_no_gap() {
        queue_tests::on(queue_test_support::Engine::MySql, super::locks_no_gap).await;
    }
}

/// How the transaction of an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Close {
    Commit,
    RollBack,
}

/// What the first attempt does. Every later one writes its effect, completes and commits.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Plan {
    /// Waits for this before the transaction begins …
    before: Option<String>,
    /// … and for this while it is open.
    inside: Option<String>,
    guard: bool,
    follow_up: bool,
    twice: bool,
    result: Value,
    close: Close,
    /// After that.
    then: Step,
}

impl Default for Plan {
    fn default() -> Self {
        let (then, result) = (Step::Complete, Value::Null);
        Self {
            before: None,
            inside: None,
            guard: false,
            follow_up: false,
            twice: false,
            result,
            close: Close::Commit,
            then,
        }
    }
}

/// Writes an effect, completes itself, and follows the plan. Tells the probe why it cannot.
#[job(max_retries = 3, backoff = fixed("10ms"))]
async fn settle(
    ctx: JobContext,
    State(probe): State<Probe>,
    State(pool): State<AnyPool>,
    label: String,
    plan: Plan,
) -> Result<Value, JobError> {
    let plan = if ctx.attempt() == 1 { plan } else { Plan { result: plan.result, ..Plan::default() } };
    let wait = async |name: &Option<String>| match name {
        Some(name) => {
            let step = Step::deaf(name);
            probe.perform(&ctx, &format!("{label} waits"), &[step]).await.map(drop)
        }
        None => Ok(()),
    };
    wait(&plan.before).await?;
    let mut tx = pool.begin().await;
    let done = async {
        if plan.guard {
            tx.guard(&ctx).await?;
        }
        tx.sql(&format!("INSERT INTO effects (label) VALUES ('{label}')")).await.expect("an effect");
        if plan.follow_up {
            tx.enqueue(Note::new(format!("{label} follows"))).await?;
        }
        tx.complete(&ctx, &plan.result).await?;
        if plan.twice {
            tx.complete(&ctx, &plan.result).await?;
        }
        Ok::<_, Error>(())
    };
    if let Err(error) = done.await {
        tx.rollback().await;
        let what = match error {
            Error::LeaseLost { id } if id == ctx.id() => "is lost",
            Error::Config(_) => "is refused",
            _ => "fails",
        };
        probe.note(&ctx, &format!("{label} {what}"));
        return Err(error.into());
    }
    wait(&plan.inside).await?;
    match plan.close {
        Close::Commit => tx.commit().await,
        Close::RollBack => tx.rollback().await,
    }
    probe.perform(&ctx, &format!("{label} ends"), &[plan.then]).await?;
    Ok(json!("the returned one"))
}

/// Two guarded steps, and an ordinary end.
#[job(max_retries = 3, backoff = fixed("10ms"))]
async fn guarded(
    ctx: JobContext,
    State(probe): State<Probe>,
    State(pool): State<AnyPool>,
    label: String,
) -> Result<(), JobError> {
    for step in 1..=2 {
        probe.perform(&ctx, &format!("{label} {step}"), &[Step::deaf(&format!("{label} {step}"))]).await?;
        let mut tx = pool.begin().await;
        if let Err(error) = tx.guard(&ctx).await {
            assert!(matches!(error, Error::LeaseLost { .. }), "{error}");
            probe.note(&ctx, &format!("{label} is lost"));
            return Err(error.into());
        }
        tx.sql(&format!("INSERT INTO effects (label) VALUES ('{label}')")).await.expect("an effect");
        tx.commit().await;
    }
    Ok(())
}

/// Completes itself, and has no effects.
#[job(max_retries = 0)]
pub(crate) async fn completes(ctx: JobContext, State(pool): State<AnyPool>, guard: bool) -> Result<(), JobError> {
    let mut tx = pool.begin().await;
    if guard {
        tx.guard(&ctx).await?;
    }
    tx.complete(&ctx, &json!(1)).await?;
    tx.commit().await;
    Ok(())
}

/// Guards or completes itself on a connection without a transaction.
#[job(max_retries = 0)]
async fn unguarded(ctx: JobContext, State(pool): State<AnyPool>, completes: bool) -> Result<(), JobError> {
    queue_tests::each!(AnyPool, &pool, pool => {
        let mut conn = pool.acquire().await?;
        match completes {
            true => ctx.complete_in(&mut *conn, &()).await,
            false => ctx.guard(&mut *conn).await,
        }
    })?;
    Ok(())
}

/// Takes an error of the database for none: its transaction is over when it goes on.
#[job(max_retries = 0)]
async fn blind(ctx: JobContext, State(pool): State<AnyPool>, by: String, then: String) -> Result<(), JobError> {
    let mut tx = pool.begin().await;
    tx.sql("INSERT INTO effects (label) VALUES ('x')").await?;
    let _ = tx.sql(&by).await;
    let done = match &*then {
        "complete" => tx.complete(&ctx, &Value::Null).await,
        "guard" => tx.guard(&ctx).await,
        "enqueue" => tx.enqueue(Note::new("a")).await.map(drop),
        _ => tx.enqueue_all((0..3).map(|n| Note::new(n.to_string()))).await.map(drop),
    };
    assert!(then == "enqueue all" || matches!(done, Err(Error::Config(_))), "{by}, {then}: {done:?}");
    Ok(done?)
}

async fn with_effects(db: &Db) {
    db.sql("CREATE TABLE effects (label varchar(64) NOT NULL)").await;
}

async fn effects(db: &Db, label: &str) -> i64 {
    db.count(&format!("effects WHERE label = '{label}'")).await
}

fn outcomes(detail: &JobDetail) -> Vec<(u32, &str)> {
    detail.attempts.iter().map(|attempt| (attempt.attempt, attempt.outcome.as_str())).collect()
}

fn error(detail: &JobDetail, attempt: usize) -> &str {
    detail.attempts[attempt].error.as_deref().unwrap_or_default()
}

/// On servers, claims leave records. They go when all their jobs have ended.
async fn no_claim_record_stays(db: &Db) {
    if db.engine() != Engine::Sqlite {
        eventually("no claim record", async || (db.count("queue_claims").await == 0).then_some(())).await;
    }
}

/// P18.
async fn effects_and_completion_commit_together(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    let plan = Plan { inside: Some("go".into()), result: json!({"sum": 7}), ..Plan::default() };
    let id = db.enqueue(Settle::new("a", plan)).await;
    db.probe.wait_for(What::Started, "a waits", 1).await;
    assert_eq!((effects(&db, "a").await, db.count("queue_history").await), (0, 0), "it is not committed");
    db.probe.release("go");
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!((outcomes(&detail), detail.result.as_deref()), (vec![(1, "completed")], Some(r#"{"sum":7}"#)));
    assert_eq!(effects(&db, "a").await, 1);
    db.beats(2).await;
    no_claim_record_stays(&db).await;
    worker.stop().await;
    assert_eq!((db.counts().await, db.count("queue_attempts").await), ((0, 1, 0), 0));
}

/// P31.
async fn a_history_row_is_as_that_of_any_completion(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    let plan = Plan { result: json!([1, "\u{e4}"]), ..Plan::default() };
    let own = db.enqueue(Settle::new("a", plan)).await;
    let usual = db.enqueue(Play::new("b", [Step::Return(json!([1, "\u{e4}"]))])).await;
    for id in [own, usual] {
        db.reaches(id, JobState::Completed).await;
    }
    worker.stop().await;
    let row = async |id: JobId| {
        let columns = "queue, state, priority, features, attempt, fence, worker_id, result, error";
        db.sql(format!("SELECT {columns} FROM queue_history WHERE id = {id}")).await
    };
    assert_eq!(row(own).await, row(usual).await);
    let times = "enqueued_at <= started_at AND run_at <= started_at AND started_at <= finished_at";
    // a delay of the clock's resolution
    assert_eq!(db.count(&format!("queue_history WHERE {times}")).await, 2);
    let age = format!("({}) - ({})", db.micros(&db.time(0)), db.micros("finished_at"));
    let age = db.int(format!("SELECT {age} FROM queue_history WHERE id = {own}")).await;
    assert!((-10_000..60_000_000).contains(&age), "{age}");
}

/// P18.
async fn what_is_rolled_back_is_tried_again(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    let id = db.enqueue(Settle::new("a", Plan { close: Close::RollBack, ..Plan::default() })).await;
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "failed"), (2, "completed")]);
    assert_eq!(error(&detail, 0), "completed in a transaction that was not committed");
    assert_eq!(effects(&db, "a").await, 1);
    no_claim_record_stays(&db).await;
    let last = db.enqueue(Settle::new("b", Plan { close: Close::RollBack, ..Plan::default() }).max_retries(0)).await;
    let detail = db.reaches(last, JobState::Dead).await;
    assert_eq!((outcomes(&detail), effects(&db, "b").await), (vec![(1, "failed")], 0));
    worker.stop().await;
}

/// P19.
async fn further_jobs_are_part_of_it(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    let kept = db.enqueue(Settle::new("a", Plan { follow_up: true, ..Plan::default() })).await;
    let plan = Plan { follow_up: true, close: Close::RollBack, ..Plan::default() };
    let lost = db.enqueue(Settle::new("b", plan)).await;
    db.reaches(kept, JobState::Completed).await;
    db.reaches(lost, JobState::Completed).await;
    db.probe.wait_for(What::Ended, "a follows", 1).await;
    db.finished(3).await;
    worker.stop().await;
    assert_eq!((db.counts().await, db.probe.count(What::Started, "b follows")), ((0, 3, 0), 0));
}

/// P5, P18.
async fn a_failure_after_the_commit_is_no_failure(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    let ends =
        [Step::Fail("late".into()), Step::Panic("late".into()), Step::Die("late".into()), Step::Snooze(3_600_000)];
    for (n, then) in ends.into_iter().enumerate() {
        let id = db.enqueue(Settle::new(n.to_string(), Plan { then, result: json!(n), ..Plan::default() })).await;
        let detail = db.reaches(id, JobState::Completed).await;
        assert_eq!((outcomes(&detail), detail.result.as_deref()), (vec![(1, "completed")], Some(&*n.to_string())));
        assert_eq!(effects(&db, &n.to_string()).await, 1);
    }
    db.beats(2).await;
    no_claim_record_stays(&db).await;
    worker.stop().await;
    assert_eq!((db.counts().await, db.count("queue_attempts").await), ((0, 4, 0), 0));
}

/// P18.
async fn a_failure_before_the_commit_is_one(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    let plan = Plan { close: Close::RollBack, then: Step::Fail("early".into()), ..Plan::default() };
    let id = db.enqueue(Settle::new("a", plan)).await;
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!((outcomes(&detail), error(&detail, 0)), (vec![(1, "failed"), (2, "completed")], "early"));
    let plan = Plan { close: Close::RollBack, then: Step::Panic("early".into()), ..Plan::default() };
    let id = db.enqueue(Settle::new("b", plan)).await;
    assert_eq!(outcomes(&db.reaches(id, JobState::Completed).await), [(1, "panicked"), (2, "completed")]);
    worker.stop().await;
    assert_eq!((effects(&db, "a").await, effects(&db, "b").await), (1, 1));
}

/// P6, P18.
async fn a_stale_attempt_cannot_commit(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    for guard in [false, true] {
        let label = if guard { "guarded" } else { "plain" };
        let plan = Plan { before: Some(label.into()), guard, ..Plan::default() };
        let id = db.enqueue(Settle::new(label, plan)).await;
        db.probe.wait_for(What::Started, &format!("{label} waits"), 1).await;
        // as a rescue would; the same worker runs the second attempt at the same time
        db.sql(format!("UPDATE queue_jobs SET worker_id = 0, fence = fence + 1 WHERE id = {id} AND worker_id <> 0"))
            .await;
        let detail = db.reaches(id, JobState::Completed).await;
        assert_eq!((outcomes(&detail), effects(&db, label).await), (vec![(2, "completed")], 1));
        db.probe.release(label);
        db.probe.wait_for(What::Started, &format!("{label} is lost"), 1).await;
        db.beats(2).await;
        assert_eq!((effects(&db, label).await, db.state(id).await), (1, JobState::Completed), "its effects are gone");
    }
    worker.stop().await;
    assert_eq!((db.counts().await, db.count("queue_attempts").await), ((0, 2, 0), 0));
}

/// P24: The worker notes the starts of several jobs in one statement, which must not wait for the row of a handler.
async fn a_transaction_that_stays_open_holds_up_no_other_end(db: Db) {
    if db.engine() == Engine::Sqlite {
        return; // nobody else writes while a transaction is open
    }
    with_effects(&db).await;
    let worker = db.start(db.worker());
    for round in 0..5 {
        let label = |n: usize| format!("round {round}, job {n}");
        let go = format!("go {round}");
        for n in 0..3 {
            let plan = Plan { guard: true, inside: Some(go.clone()), ..Plan::default() };
            db.enqueue(Settle::new(label(n), plan)).await;
        }
        for n in 0..3 {
            db.probe.wait_for(What::Started, &format!("{} waits", label(n)), 1).await;
        }
        for _ in 0..3 {
            let id = db.enqueue(Note::new("beside")).await;
            db.reaches(id, JobState::Completed).await;
        }
        db.probe.release(&go);
        db.finished(6 * (round + 1)).await;
    }
    worker.stop().await;
}

/// P36: The emergency brake for a queue, while a handler of it holds its row.
async fn a_change_waits_in_the_server_for_no_guarded_job(db: Db) {
    with_effects(&db).await;
    // a worker that loses its lease on a busy machine gives the row up
    let worker = db.start(db.worker().lease(DEADLINE));
    let plan = Plan { guard: true, inside: Some("go".into()), ..Plan::default() };
    let guarded = db.enqueue(Settle::new("guarded", plan)).await;
    db.probe.wait_for(What::Started, "guarded waits", 1).await;
    db.enqueue_all((0..300).map(|n| Note::new(n.to_string()).after(Duration::from_secs(3600)))).await;
    let (admin, every) = (db.admin(), Filter::new());
    let (all, one) = tokio::join!(admin.cancel_all(&every), admin.cancel(guarded));
    assert!(matches!(&all, Err(Error::Locked { jobs, changed: 300, .. }) if *jobs == [guarded]), "{all:?}");
    assert!(matches!(&one, Err(Error::Locked { jobs, changed: 0, .. }) if *jobs == [guarded]), "{one:?}");
    assert_eq!(db.count("queue_history WHERE state = 'cancelled'").await, 300);
    db.probe.release("go");
    db.reaches(guarded, JobState::Completed).await;
    worker.stop().await;
}

/// P18.
async fn a_job_is_completed_once(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    let id = db.enqueue(Settle::new("a", Plan { twice: true, ..Plan::default() })).await;
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!((outcomes(&detail), effects(&db, "a").await), (vec![(1, "failed"), (2, "completed")], 1));
    assert!(error(&detail, 0).contains("called already in this attempt"), "{}", error(&detail, 0));
    worker.stop().await;
}

/// P18, P39.
async fn a_transaction_of_another_database_is_refused(db: Db) {
    let other = db.another().await;
    other.migrate().await.expect("an empty database");
    with_effects(&other).await;
    // the same job number, worker and fence
    let same = other.enqueue(Note::new("same")).await;
    other.sql(format!("UPDATE queue_jobs SET worker_id = 1, fence = 1, attempt = 1 WHERE id = {same}")).await;
    let worker = db.start(queue_tests::jobs::with_states(db.pool().worker(), &db.probe, other.pool()));
    for guard in [false, true] {
        let id = db.enqueue(Settle::new("a", Plan { guard, ..Plan::default() }).max_retries(0)).await;
        assert!(guard || id == same, "both databases are new");
        let detail = db.reaches(id, JobState::Dead).await;
        assert!(error(&detail, 0).contains("does not see the job"), "{}", error(&detail, 0));
    }
    worker.stop().await;
    assert_eq!((other.counts().await, effects(&other, "a").await), ((1, 0, 0), 0));
}

/// P39.
async fn a_transaction_of_another_engine_is_refused(db: Db) {
    // another engine may be left out of the tests
    let Some(other) = Db::empty(Engine::Sqlite).await else { return };
    with_effects(&other).await;
    let worker = db.start(queue_tests::jobs::with_states(db.pool().worker(), &db.probe, other.pool()));
    let id = db.enqueue(Settle::new("a", Plan::default()).max_retries(0)).await;
    let detail = db.reaches(id, JobState::Dead).await;
    assert!(error(&detail, 0).contains("this transaction is one of SQLite"), "{}", error(&detail, 0));
    worker.stop().await;
    assert_eq!(effects(&other, "a").await, 0);
}

/// P18.
async fn many_are_settled_together(db: Db) {
    with_effects(&db).await;
    let plan = |n: usize| match n % 3 {
        0 => Plan::default(),
        1 => Plan { then: Step::Fail("late".into()), ..Plan::default() },
        _ => Plan { close: Close::RollBack, ..Plan::default() },
    };
    db.enqueue_all((0..60).map(|n| Settle::new(n.to_string(), plan(n)))).await;
    db.enqueue_all((0..60).map(|n| Note::new(n.to_string()))).await;
    let worker = db.start(db.worker().concurrency(8));
    db.finished(120).await;
    no_claim_record_stays(&db).await;
    worker.stop().await;
    assert_eq!((db.counts().await, db.count("effects").await), ((0, 120, 0), 60));
    assert_eq!(db.count("queue_attempts WHERE outcome = 'failed'").await, 20);
}

/// P20.
async fn a_guard_fences_each_step(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    let id = db.enqueue(Guarded::new("a")).await;
    db.probe.wait_for(What::Started, "a 1", 1).await;
    db.probe.release("a 1");
    db.probe.wait_for(What::Started, "a 2", 1).await;
    assert_eq!(effects(&db, "a").await, 1);
    db.sql(format!("UPDATE queue_jobs SET worker_id = 0, fence = fence + 1 WHERE id = {id} AND worker_id <> 0")).await;
    db.probe.wait_for(What::Started, "a 2", 2).await;
    assert_eq!(effects(&db, "a").await, 2, "the second attempt has done its first step");
    db.probe.release("a 2");
    db.probe.wait_for(What::Started, "a is lost", 1).await;
    assert_eq!(outcomes(&db.reaches(id, JobState::Completed).await), [(2, "completed")]);
    assert_eq!(effects(&db, "a").await, 3);
    worker.stop().await;
}

/// P39.
async fn completions_and_guards_need_a_transaction(db: Db) {
    let worker = db.start(db.worker());
    for completes in [false, true] {
        let id = db.enqueue(Unguarded::new(completes)).await;
        let detail = db.reaches(id, JobState::Dead).await;
        assert!(error(&detail, 0).contains("needs an open transaction"), "{}", error(&detail, 0));
    }
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 0, 2));
}

/// P18, P20.
async fn a_transaction_that_is_over_takes_nothing(db: Db) {
    with_effects(&db).await;
    db.sql("CREATE TABLE taken (id int PRIMARY KEY)").await;
    db.sql("INSERT INTO taken VALUES (1)").await;
    let worker = db.start(db.worker());
    let (ends, then): (&[_], &[_]) = match db.engine() {
        Engine::Sqlite => (
            &["INSERT OR ROLLBACK INTO taken VALUES (1)", "ROLLBACK"],
            &["complete", "guard", "enqueue", "enqueue all"],
        ),
        // the server never ends one by itself
        Engine::Postgres => (&["ROLLBACK"], &["complete", "guard"]),
        _ => (
            &["ROLLBACK", "CREATE TABLE IF NOT EXISTS another (id int)"],
            &["complete", "guard", "enqueue", "enqueue all"],
        ),
    };
    let mut dead = 0;
    for by in ends {
        for then in then {
            let id = db.enqueue(Blind::new(*by, *then)).await;
            db.reaches(id, JobState::Dead).await;
            dead += 1;
        }
    }
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 0, dead));
    assert!(db.engine() != Engine::Sqlite || effects(&db, "x").await == 0);
}

/// P20, P21.
async fn nobody_rescues_a_job_whose_row_is_locked(db: Db) {
    let dead = db.fake_worker(-1000).await;
    let [locked, free] = [db.enqueue(Note::new("locked")).await, db.enqueue(Note::new("free")).await];
    for id in [locked, free] {
        db.hand_over(id, dead).await;
    }
    // what `guard` sends
    let mut tx = db.begin().await;
    tx.sql(&format!("SELECT id FROM queue_jobs WHERE id = {locked} FOR UPDATE")).await.expect("locked");
    let worker = db.start(db.worker());
    db.reaches(free, JobState::Completed).await;
    db.beats(3).await;
    assert_eq!(db.count(&format!("queue_jobs WHERE id = {locked} AND worker_id = {dead}")).await, 1);
    tx.rollback().await;
    assert_eq!(outcomes(&db.reaches(locked, JobState::Completed).await), [(1, "lost"), (2, "completed")]);
    worker.stop().await;
}

/// In a session with the default level, REPEATABLE READ: a lock on a gap would hold up enqueues.
async fn locks_no_gap(db: Db) {
    with_effects(&db).await;
    let worker = db.start(db.worker());
    let plan = Plan { guard: true, inside: Some("go".into()), ..Plan::default() };
    let id = db.enqueue(Settle::new("a", plan)).await;
    db.probe.wait_for(What::Started, "a waits", 1).await;
    let locks = "performance_schema.data_locks WHERE object_schema = DATABASE() AND object_name LIKE 'queue%'";
    assert!(db.count(&format!("{locks} AND lock_type = 'RECORD'")).await > 0, "the row is locked");
    let gaps = format!("{locks} AND lock_type = 'RECORD' AND lock_mode NOT LIKE '%REC_NOT_GAP%'");
    let gaps = db.sql(format!("SELECT object_name, index_name, lock_mode, lock_data FROM {gaps}")).await;
    assert!(gaps.is_empty(), "{gaps:?}");
    // nor does it keep an enqueue waiting
    db.enqueue(Note::new("meanwhile")).await;
    db.probe.release("go");
    db.reaches(id, JobState::Completed).await;
    worker.stop().await;
}

/// P44.
#[test]
fn a_context_without_a_row_completes_once_and_writes_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let pool = sqlx::SqlitePool::connect("sqlite::memory:").await.expect("a database");
        let mut tx = pool.begin().await.expect("a transaction");
        let ctx = JobContext::for_test();
        ctx.guard(&mut tx).await.expect("nothing to lock");
        ctx.complete_in(&mut tx, &7).await.expect("nothing to write");
        assert!(ctx.complete_in(&mut tx, &7).await.is_err());
        drop(Worker::builder(&pool));
    });
}
