//! Jobs that tools enqueue as a kind and JSON.
//!
//! Promises: P32, P39.

use std::time::Duration;

use queue::admin::{Admin, RawJob};
use queue::unique::Enqueued;
use queue::{Error, JobState, job};
use queue_tests::jobs::Placed;
use queue_tests::{Db, What};

conformance! {
    of_a_known_kind_are_what_its_type_makes_of_them,
    of_an_unknown_kind_are_written_as_given,
    with_keys_share_them_with_typed_enqueues,
    of_an_unknown_kind_with_keys_are_refused,
    that_no_worker_could_read_are_refused,
}

#[job(unique(by = (shop), until = "start"))]
async fn restock(shop: u64, goods: String) {
    let _ = (shop, goods);
}

async fn of_a_known_kind_are_what_its_type_makes_of_them(db: Db) {
    let admin = db.admin();
    let typed = db.enqueue(Placed::new("🙂 a")).await;
    let (spawned, job) = (admin.clone(), RawJob::new("placed", "{ \"label\" : \"🙂 a\" }"));
    let raw = tokio::spawn(async move { spawned.enqueue(job).await }).await.expect("no panic").expect("enqueued");
    let (typed, raw) = (db.job(typed).await, db.job(raw.id()).await);
    let of = |it: &queue::admin::JobDetail| {
        (it.args.clone(), it.job.queue.clone(), it.job.priority, it.job.max_retries, it.job.kind.clone())
    };
    assert_eq!(of(&typed), of(&raw));
    let job = RawJob::new("former_name", "{\"label\":\"old\"}").queue("other").priority(-3).max_retries(1);
    let id = admin.enqueue(job.meta("request", "7")).await.expect("enqueued").id();
    let job = db.job(id).await;
    assert_eq!((job.job.kind.as_str(), job.job.queue.as_str()), ("renamed", "other"));
    assert_eq!((job.job.priority, job.job.max_retries), (-3, Some(1)));
    assert_eq!(job.meta.as_deref(), Some("{\"request\":\"7\"}"));
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Ended, "🙂 a", 2).await;
    db.reaches(id, JobState::Completed).await;
    worker.stop().await;
}

async fn of_an_unknown_kind_are_written_as_given(db: Db) {
    let admin = db.admin();
    let args = "{\"n\": 340282366920938463463374607431768211455, \"🙂\":\"'\\\"\\\\\"}";
    let id = admin.enqueue(RawJob::new("発送メール🙂", args)).await.expect("enqueued").id();
    let job = db.job(id).await;
    assert_eq!((job.args.as_str(), job.job.kind.as_str(), job.job.queue.as_str()), (args, "発送メール🙂", "default"));
    assert_eq!((job.job.state, job.job.priority, job.job.max_retries), (JobState::Ready, 0, None));
    let later = RawJob::new("発送メール🙂", "{}").queue("発送").priority(7).max_retries(0).meta("a", "🙂");
    let id = admin.enqueue(later.clone().after(Duration::from_secs(60))).await.expect("enqueued").id();
    let job = db.job(id).await;
    assert_eq!((job.job.state, job.job.priority, job.job.max_retries), (JobState::Scheduled, 7, Some(0)));
    assert_eq!((job.job.queue.as_str(), job.meta.as_deref()), ("発送", Some("{\"a\":\"🙂\"}")));
    let time = db.now().await + Duration::from_secs(3600);
    let id = admin.enqueue(later.at(time)).await.expect("enqueued").id();
    let off = db.job(id).await.job.run_at - time;
    assert!(off.num_milliseconds().abs() <= 1, "{off}");
}

/// P34.
async fn with_keys_share_them_with_typed_enqueues(db: Db) {
    let admin = db.admin();
    let raw = |shop: u64| RawJob::new("restock", format!("{{\"goods\":\"b\",\"shop\":{shop}}}"));
    let first = db.enqueue(Restock::new(7u64, "a")).await;
    assert_eq!(admin.enqueue(raw(7)).await.expect("kept"), Enqueued::Kept(first));
    let second = admin.enqueue(raw(8)).await.expect("new");
    assert!(second.is_new());
    assert_eq!(db.enqueue_unique(Restock::new(8u64, "c")).await, Enqueued::Kept(second.id()));
    assert_eq!(db.job(second.id()).await.unique_key.as_deref(), Some("{\"shop\":8}"));
}

/// P34.
async fn of_an_unknown_kind_with_keys_are_refused(db: Db) {
    let admin = db.admin();
    db.sql("INSERT INTO queue_unique_keys (kind, unique_key, job_id) VALUES ('of_another_program', 'k', 1)").await;
    let refused = refused(&admin, RawJob::new("of_another_program", "{}")).await;
    assert!(refused.contains("`of_another_program`: its jobs are unique"), "{refused}");
    assert_eq!(db.count("queue_jobs").await, 0);
    admin.enqueue(RawJob::new("of_another_programme", "{}")).await.expect("enqueued");
}

async fn refused(admin: &Admin, job: RawJob) -> String {
    let error = admin.enqueue(job).await.expect_err("refused");
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    error.to_string()
}

/// P38.
async fn that_no_worker_could_read_are_refused(db: Db) {
    let admin = db.admin();
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(queue::limits::MAX_ARGS_BYTES));
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(127), "]".repeat(127));
    let other = |args: &str| RawJob::new("of_another_program", args);
    for (job, why) in [
        (other("[1]"), "`of_another_program`: its arguments are not a JSON object"),
        (other("{"), "its arguments are not a JSON object"),
        (other(&long), "the limit is 1048576"),
        (other(&deep), "levels deep"),
        (RawJob::new("", "{}"), "the kind name is empty"),
        (RawJob::new("a ", "{}"), "white space"),
        (other("{}").queue("mail "), "white space"),
        (RawJob::new("note", "{\"label\":\"a\"}").queue("mail "), "white space"),
        (other("{}").meta("a", "x".repeat(5000)), "metadata"),
        (RawJob::new("note", "{\"label\":7}"), "`note`: its arguments do not fit: `label`: invalid type: integer `7`"),
        (RawJob::new("note", "{\"lable\":\"a\"}"), "missing field `label`"),
    ] {
        let refused = refused(&admin, job).await;
        assert!(refused.starts_with("cannot enqueue `") && refused.contains(why), "{refused}");
    }
    assert_eq!(db.count("queue_jobs").await, 0);
}
