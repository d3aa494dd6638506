//! What is said of a job beside its arguments: it stays with the job, and goes on to the jobs that its handler enqueues.
//!
//! Promise: P47.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use queue::unique::{OnConflict, UniqueUntil};
use queue::{Enqueue, Error, Job, JobContext, JobError, JobId, JobState, job};
use queue_test_support::Engine;
use queue_tests::jobs::Note;
use queue_tests::{AnyPool, Db};

use crate::logs::captured;

conformance! {
    leads_from_a_request_to_the_last_job,
    stays_with_a_job_however_it_was_enqueued,
    stays_with_a_job_however_it_ends,
    of_other_programs_is_read_or_told,
    that_is_too_long_is_refused,
    is_in_the_log,
}

/// The pools of the tests that run now, by name.
static POOLS: LazyLock<Mutex<HashMap<String, AnyPool>>> = LazyLock::new(Default::default);

fn pool(scene: &str) -> AnyPool {
    POOLS.lock().unwrap()[scene].clone()
}

/// Enqueues the next relay in the first of these ways. The result is the metadata that it was given.
#[job(max_retries = 1, backoff = fixed("1ms"))]
async fn relay(ctx: JobContext, scene: String, ways: Vec<String>) -> Result<BTreeMap<String, String>, JobError> {
    let Some((way, rest)) = ways.split_first() else { return Ok(ctx.meta().clone()) };
    let (pool, next) = (pool(&scene), Relay::new(scene.clone(), rest.to_vec()));
    match &**way {
        "single" => drop(pool.enqueue(next).await?),
        "batch" => drop(pool.enqueue_all([Relay::new(scene, Vec::new()), next]).await?),
        "transaction" => {
            let mut transaction = pool.begin().await;
            transaction.enqueue(next).await?;
            transaction.commit().await;
        }
        "blocking" => drop(pool.enqueue(RelayFromThread::new(scene, rest.to_vec())).await?),
        "own" => drop(pool.enqueue(next.meta("request_id", "own").meta("step", 2)).await?),
        "without" => drop(pool.enqueue(next.meta("request_id", "")).await?),
        "spawned" => drop(tokio::spawn(async move { pool.enqueue(next).await }).await.expect("no panic")?),
        "fail" if ctx.attempt() == 1 => return Err(JobError::retry("once")),
        "fail" => {}
        other => return Err(JobError::dead(format!("no way: {other}"))),
    }
    Ok(ctx.meta().clone())
}

#[job(blocking)]
fn relay_from_thread(ctx: JobContext, scene: String, ways: Vec<String>) -> Result<BTreeMap<String, String>, JobError> {
    let next = Relay::new(scene.clone(), ways);
    tokio::runtime::Handle::current().block_on(pool(&scene).enqueue(next))?;
    Ok(ctx.meta().clone())
}

/// A name under which the handlers of this test find its pool.
fn scene(db: &Db) -> String {
    let name = format!("{:016x}", fastrand::u64(..));
    POOLS.lock().unwrap().insert(name.clone(), db.pool().clone());
    name
}

fn ways(ways: &[&str]) -> Vec<String> {
    ways.iter().map(|way| (*way).to_owned()).collect()
}

/// The metadata and the result of each finished job, in the order of their ids.
async fn finished(db: &Db) -> Vec<(Option<String>, String)> {
    let rows = db.sql("SELECT meta, result FROM queue_history ORDER BY id").await;
    rows.into_iter().map(|mut row| (row.swap_remove(0), row.swap_remove(0).expect("a result"))).collect()
}

async fn leads_from_a_request_to_the_last_job(db: Db) {
    let scene = scene(&db);
    let worker = db.start(db.worker());
    let all = ways(&["single", "fail"]);
    db.enqueue(Relay::new(scene.clone(), all).meta("request_id", "r-1")).await;
    db.finished(2).await;
    let all = ways(&["batch", "transaction", "blocking", "own", "without", "single"]);
    db.enqueue(Relay::new(scene.clone(), all).meta("request_id", "r-2")).await;
    db.finished(2 + 9).await;
    db.enqueue(Relay::new(scene, ways(&["spawned"])).meta("request_id", "r-3")).await;
    db.finished(2 + 9 + 2).await;
    worker.stop().await;
    let (first, second) = (r#"{"request_id":"r-1"}"#, r#"{"request_id":"r-2"}"#);
    let expected = [
        Some(first),
        Some(first),
        Some(second),
        Some(second), // the first of the batch
        Some(second), // its second
        Some(second), // by the transaction: it enqueues the blocking one
        Some(second), // the blocking one
        Some(second), // what that enqueued
        Some(r#"{"request_id":"own","step":"2"}"#),
        Some(r#"{"step":"2"}"#),
        Some(r#"{"step":"2"}"#),
        Some(r#"{"request_id":"r-3"}"#),
        None, // a task of its own
    ];
    let found = finished(&db).await;
    assert_eq!(found.iter().map(|(meta, _)| meta.as_deref()).collect::<Vec<_>>(), expected);
    for (meta, seen) in found {
        assert_eq!(seen, meta.unwrap_or("{}".into()), "the handler reads what is stored");
    }
}

fn example(scene: &str, request: impl ToString) -> Enqueue<Relay> {
    Relay::new(scene, Vec::new()).meta("request_id", request)
}

async fn stays_with_a_job_however_it_was_enqueued(db: Db) {
    let scene = scene(&db);
    let example = |request: &str| example(&scene, request);
    let soon = Duration::from_millis(1);
    let mut expected = Vec::new();
    let mut add = |id: JobId, request: Option<&str>| expected.push((id, request.map(str::to_owned)));
    add(db.enqueue(example("single")).await, Some("single"));
    add(db.enqueue(Relay::new(scene.clone(), Vec::new())).await, None);
    add(db.enqueue(example("later").after(soon)).await, Some("later"));
    let batch = [example("a"), Relay::new(scene.clone(), Vec::new()).into(), example("b").after(soon), example("c")];
    let ids = db.enqueue_all(batch).await;
    ids.iter().zip([Some("a"), None, Some("b"), Some("c")]).for_each(|(id, request)| add(*id, request));
    let mut transaction = db.begin().await;
    add(transaction.enqueue(example("transaction")).await.unwrap(), Some("transaction"));
    add(transaction.enqueue(example("key of it").unique_key("t")).await.unwrap(), Some("key of it"));
    transaction.commit().await;
    add(db.enqueue(example("unique").unique_key("a")).await, Some("unique"));
    add(db.enqueue(example("unique, later").unique_key("b").after(soon)).await, Some("unique, later"));
    let replaced = db.enqueue(example("replaced").unique_key("c").after(Duration::from_secs(3600))).await;
    let replacing = example("replacing").unique_key("c").unique_until(UniqueUntil::Start);
    let by = db.enqueue(replacing.on_conflict(OnConflict::Replace)).await;
    assert_eq!(by, replaced);
    add(replaced, Some("replacing"));
    let kept = example("kept").unique_key("d").after(Duration::from_millis(500));
    let kept = db.enqueue(kept).await;
    db.enqueue(example("not kept").unique_key("d")).await;
    add(kept, Some("kept"));
    let batch = ["u1", "u2"].map(|request| example(request).unique_key(request));
    let plain = Relay::new(scene.clone(), Vec::new()).unique_key("u3");
    let ids = db.enqueue_all(batch.into_iter().chain([plain])).await;
    ids.iter().zip([Some("u1"), Some("u2"), None]).for_each(|(id, request)| add(*id, request));
    let many = futures_util::future::join_all((0..20).map(|n| db.enqueue(example(&format!("at once {n}"))))).await;
    many.iter().enumerate().for_each(|(n, id)| add(*id, Some(&format!("at once {n}"))));

    let worker = db.start(db.worker());
    db.finished(expected.len() as i64).await;
    worker.stop().await;
    for (id, request) in expected {
        let meta = request.map(|request| format!(r#"{{"request_id":"{request}"}}"#));
        let job = db.job(id).await;
        assert_eq!((&job.meta, job.result), (&meta, Some(meta.clone().unwrap_or("{}".into()))), "job {id}");
    }
}

async fn stays_with_a_job_however_it_ends(db: Db) {
    let scene = scene(&db);
    let relay = |way: &str, request: &str| Relay::new(scene.clone(), ways(&[way])).meta("request_id", request);
    let dead = db.enqueue(relay("nonsense", "dead")).await;
    let sent_back = db.enqueue(relay("nonsense", "sent back")).await;
    let cancelled = db.enqueue(relay("fail", "cancelled").after(Duration::from_secs(3600))).await;
    let rescued = db.enqueue(relay("fail", "rescued")).await;
    let lost = db.enqueue(relay("fail", "lost").max_retries(0)).await;
    let asked = db.enqueue(relay("fail", "asked")).await;
    let gone = db.fake_worker(-1).await;
    for id in [rescued, lost, asked] {
        db.hand_over(id, gone).await;
        db.knows_it_began(id).await;
    }
    let admin = db.admin();
    admin.cancel(cancelled).await.expect("cancelled");
    admin.cancel(asked).await.expect("it is to be cancelled");
    let worker = db.start(db.worker());
    for (id, state) in [
        (dead, JobState::Dead),
        (sent_back, JobState::Dead),
        (cancelled, JobState::Cancelled),
        (rescued, JobState::Completed),
        (lost, JobState::Dead),
        (asked, JobState::Cancelled),
    ] {
        db.reaches(id, state).await;
    }
    admin.edit_args(sent_back, &serde_json::json!({"scene": scene, "ways": []})).await.expect("edited");
    admin.retry(sent_back).await.expect("sent back");
    db.reaches(sent_back, JobState::Completed).await;
    worker.stop().await;
    for (id, request) in [
        (dead, "dead"),
        (sent_back, "sent back"),
        (cancelled, "cancelled"),
        (rescued, "rescued"),
        (lost, "lost"),
        (asked, "asked"),
    ] {
        assert_eq!(db.job(id).await.meta, Some(format!(r#"{{"request_id":"{request}"}}"#)), "{request}");
    }
}

const MIB: usize = 1 << 20;

async fn of_other_programs_is_read_or_told(db: Db) {
    let run = async |db: Db| {
        let insert = |meta: &str| {
            format!(
                "INSERT INTO queue_jobs (kind, args, meta) VALUES ('relay', '{{\"scene\": \"\", \"ways\": []}}', '{meta}')"
            )
        };
        let long = format!(r#"{{"traceparent": "{}"}}"#, "x".repeat(MIB));
        db.pool().sql(&insert(&long)).await.expect_err("the database refuses it");
        for meta in ["nonsense", "7", "[]", "", r#"{"request_id": 7, "to": ["a"]}"#] {
            db.sql(insert(meta)).await;
        }
        let worker = db.start(db.worker());
        db.finished(5).await;
        worker.stop().await;
        let results: Vec<_> = finished(&db).await.into_iter().map(|(_, result)| result).collect();
        assert_eq!(results, ["{}", "{}", "{}", "{}", r#"{"request_id":"7","to":"[\"a\"]"}"#]);
    };
    let log = captured(db.engine(), "queue=warn", run).await;
    let told: Vec<_> = log.lines().filter(|line| line.contains("job.meta_unread")).collect();
    assert_eq!(told.len(), 4, "{log}");
    assert!(told.iter().all(|line| line.contains("job.id=") && line.contains("no JSON object")), "{told:?}");
}

async fn that_is_too_long_is_refused(db: Db) {
    let refused = |error: &Error| {
        let text = error.to_string();
        let told = text.contains("cannot enqueue `note`") && text.contains("bytes of JSON, and the limit is 4096");
        assert!(matches!(error, Error::Config(_)) && told, "{text}");
    };
    let long = |bytes| Note::new("a").meta("request_id", "x".repeat(bytes));
    refused(&db.pool().enqueue(long(MIB)).await.unwrap_err());
    refused(&db.pool().enqueue(long(4096)).await.unwrap_err());
    refused(&db.pool().enqueue_all([Enqueue::from(Note::new("b")), long(MIB)]).await.unwrap_err());
    assert_eq!(db.count("queue_jobs").await, 0);
    let longest = 4096 - r#"{"request_id":""}"#.len();
    let id = db.enqueue(long(longest)).await;
    assert_eq!(db.job(id).await.meta.map(|meta| meta.len()), Some(4096));
    // characters of several bytes
    let id = db.enqueue(Note::new("a").meta("city", "Zürich".repeat(500))).await;
    assert_eq!(db.job(id).await.meta.map(|meta| meta.contains("Zürich")), Some(true));
    if db.engine() != Engine::Sqlite {
        return;
    }
    let schedule = queue::schedule::Schedule::cron("@daily").unwrap();
    let refused = db.admin().schedule("one", schedule, Note::new("a").meta("request_id", "r")).await.unwrap_err();
    assert!(refused.to_string().contains("the job of the schedule `one` has metadata"), "{refused}");
}

async fn is_in_the_log(db: Db) {
    let run = async |db: Db| {
        let scene = scene(&db);
        let id = db.enqueue(Relay::new(scene, ways(&["nonsense"])).meta("request_id", "r-7")).await;
        let worker = db.start(db.worker());
        db.reaches(id, JobState::Dead).await;
        worker.stop().await;
    };
    let log = captured(db.engine(), "queue=warn", run).await;
    let dead: Vec<_> = log.lines().filter(|line| line.contains("\"job.dead\"")).collect();
    assert!(!dead.is_empty() && dead.iter().all(|line| line.contains(r#"job.meta={"request_id":"r-7"}"#)), "{log}");
}
