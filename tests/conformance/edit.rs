//! Edits of arguments: by their names, or as a value of their type.
//!
//! Promise: P36.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use queue::admin::{JobDetail, RawJob};
use queue::limits::{MAX_ARGS_BYTES, MAX_ARGS_DEPTH};
use queue::unique::Enqueued;
use queue::{Error, Job as _, JobId, JobState, job};
use queue_tests::jobs::{Note, Play, Renamed};
use queue_tests::{Db, Step, What};
use serde_json::json;

conformance! {
    a_merge_keeps_other_arguments_byte_for_byte,
    a_merge_of_a_dead_letter_is_what_runs_next,
    a_typed_edit_is_read_and_written_as_its_type_does,
    a_typed_edit_of_another_kind_is_refused,
    what_does_not_fit_the_type_is_refused,
    a_concurrent_change_is_not_overwritten,
    concurrent_merges_all_remain,
    what_runs_or_is_over_is_not_edited,
    limits_hold_for_edits,
    a_key_stays_whatever_the_arguments_become,
}

#[job]
async fn ship(to: String, grams: u16, tracking: u128, remarks: Vec<String>) {
    let _ = (to, grams, tracking, remarks);
}

async fn put(db: &Db, kind: &str, args: &str) -> JobId {
    let job = RawJob::new(kind, args).after(std::time::Duration::from_secs(3600));
    db.admin().enqueue(job).await.expect("enqueued").id()
}

async fn args(db: &Db, id: JobId) -> String {
    db.job(id).await.args
}

async fn a_merge_keeps_other_arguments_byte_for_byte(db: Db) {
    let before = "{ \"z\" : 340282366920938463463374607431768211455,\n\"ö🙂\":\"\\u0000\\\\ '🙂\\\"\", \
                  \"a\":{\"x\":1.10e3}, \"f\":-0.0 }";
    let id = put(&db, "of_another_program", before).await;
    assert_eq!(args(&db, id).await, before);
    let admin = db.admin().reveal_secrets();
    let merged = admin.merge_args(id, "{\"a\": {\"ü\":\t1.0}, \"new🙂\" : \"'\\\"\\\\\"}").await.expect("merged");
    let expected = before.replace("{\"x\":1.10e3}", "{\"ü\":\t1.0}");
    assert_eq!(merged, expected.replace("-0.0 }", "-0.0,\"new🙂\":\"'\\\"\\\\\" }"));
    assert_eq!(args(&db, id).await, merged);
    let again = admin.merge_args(id, "{\"f\":-0.0}").await.expect("nothing to do");
    assert_eq!((again.as_str(), args(&db, id).await), (merged.as_str(), merged.clone()));
    for (patch, why) in [("[1]", "not a JSON object"), ("{", "not a JSON object"), ("{\"a\":1,\"a\":2}", "twice")] {
        let refused = admin.merge_args(id, patch).await.expect_err(patch).to_string();
        assert!(refused.contains(why) && refused.contains(&format!("job {id}")), "{refused}");
    }
    assert_eq!(args(&db, id).await, merged);
}

/// P37.
async fn a_merge_of_a_dead_letter_is_what_runs_next(db: Db) {
    let id = db.enqueue(Play::new("before", [Step::Die("no".into())])).await;
    let worker = db.start(db.worker());
    db.reaches(id, JobState::Dead).await;
    db.admin().merge_args(id, "{\"steps\":[\"Complete\"]}").await.expect("merged");
    assert_eq!(db.state(id).await, JobState::Dead, "an edit alone changes nothing else");
    db.admin().send_back(id).await.expect("sent back");
    assert_eq!(db.reaches(id, JobState::Completed).await.args, "{\"label\":\"before\",\"steps\":[\"Complete\"]}");
    worker.stop().await;
}

async fn a_typed_edit_is_read_and_written_as_its_type_does(db: Db) {
    let admin = db.admin();
    let id = put(
        &db,
        "ship",
        "{\"tracking\":340282366920938463463374607431768211455,\"to\":\"a\",\"grams\":7,\"remarks\":[]}",
    )
    .await;
    let change = |job: &mut Ship| {
        job.grams += 1;
        job.remarks.push("🙂 \"'\\".to_owned());
    };
    let spawned = admin.clone();
    tokio::spawn(async move { spawned.edit(id, change).await }).await.expect("no panic").expect("edited");
    let expected = "{\"to\":\"a\",\"grams\":8,\"tracking\":340282366920938463463374607431768211455,\
                    \"remarks\":[\"🙂 \\\"'\\\\\"]}";
    assert_eq!(args(&db, id).await, expected);
    // a row from before the job was renamed
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('former_name', '{\"label\":\"old\"}')").await;
    let old: i64 = db.int("SELECT id FROM queue_jobs WHERE kind = 'former_name'").await;
    admin.edit(old.into(), |job: &mut Renamed| job.label = "new".into()).await.expect("edited");
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Ended, "new", 1).await;
    worker.stop().await;
}

async fn a_typed_edit_of_another_kind_is_refused(db: Db) {
    let admin = db.admin();
    let id = put(&db, "note", "{\"label\":\"a\"}").await;
    let refused = admin.edit(id, |_: &mut Ship| unreachable!("of another kind")).await.expect_err("another kind");
    assert!(matches!(refused, Error::Config(_)), "{refused:?}");
    assert_eq!(refused.to_string(), format!("cannot edit job {id} as `ship`: it is a job of kind `note`"));
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"lable\":\"a\"}')").await;
    let odd: i64 = db.int("SELECT MAX(id) FROM queue_jobs").await;
    let refused = admin.edit(odd.into(), |_: &mut Note| unreachable!("unreadable")).await.expect_err("unreadable");
    let refused = refused.to_string();
    assert!(refused.contains("missing field `label`") && refused.contains("merge_args"), "{refused}");
    let missing = admin.edit(JobId::from(9_999_999), |_: &mut Note| {}).await;
    assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
}

/// P39.
async fn what_does_not_fit_the_type_is_refused(db: Db) {
    let admin = db.admin();
    let before = "{\"to\":\"a\",\"grams\":7,\"tracking\":1,\"remarks\":[]}";
    let id = put(&db, "ship", before).await;
    for (patch, why) in [
        ("{\"to\":7}", "`ship`: `to`: invalid type: integer `7`, expected a string"),
        ("{\"grams\":70000}", "`ship`: `grams`: invalid value: integer `70000`, expected u16"),
        ("{\"remarks\":[\"a\",null]}", "`ship`: `remarks`: invalid type: null, expected a string"),
        ("{\"tracking\":-1}", "`ship`: `tracking`: "),
    ] {
        let refused = admin.merge_args(id, patch).await.expect_err(patch);
        assert!(matches!(refused, Error::Config(_)), "{refused:?}");
        let refused = refused.to_string();
        assert!(refused.contains(why) && refused.contains(&format!("job {id}")), "{refused}");
    }
    let refused = admin.edit_args(id, &json!({"to": "b"})).await.expect_err("too few").to_string();
    assert!(refused.contains("missing field `grams`"), "{refused}");
    assert_eq!(args(&db, id).await, before, "nothing was written");
    // of this kind, the program knows nothing
    let strange = put(&db, "of_another_program", before).await;
    admin.merge_args(strange, "{\"to\":7}").await.expect("who knows");
    admin.edit_args(strange, &json!({"any": "thing"})).await.expect("who knows");
    assert_eq!(args(&db, strange).await, "{\"any\":\"thing\"}");
}

async fn a_concurrent_change_is_not_overwritten(db: Db) {
    let id = put(&db, "ship", "{\"to\":\"a\",\"grams\":7,\"tracking\":1,\"remarks\":[]}").await;
    let calls = Arc::new(AtomicUsize::new(0));
    let (other, counted) = (db.admin(), calls.clone());
    let change = move |job: &mut Ship| {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            // between the read and the write
            let meanwhile = other.merge_args(id, "{\"to\":\"b\",\"grams\":20}");
            let meanwhile = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(meanwhile));
            meanwhile.expect("merged");
        }
        job.grams += 1;
    };
    db.admin().edit(id, change).await.expect("edited");
    assert_eq!(args(&db, id).await, "{\"to\":\"b\",\"grams\":21,\"tracking\":1,\"remarks\":[]}");
    assert_eq!(calls.load(Ordering::Relaxed), 2, "once for each reading");
}

async fn concurrent_merges_all_remain(db: Db) {
    let id = put(&db, "of_another_program", "{\"big\":18446744073709551616}").await;
    let admin = db.admin();
    let merge = |n: usize| {
        let admin = admin.clone();
        tokio::spawn(async move { admin.merge_args(id, &format!("{{\"{n}\":\"{n}\"}}")).await })
    };
    for merged in join_all((0..8).map(merge)).await {
        merged.expect("no panic").expect("merged");
    }
    let merged = args(&db, id).await;
    assert!(merged.starts_with("{\"big\":18446744073709551616,"), "{merged}");
    assert!((0..8).all(|n| merged.matches(&format!("\"{n}\":\"{n}\"")).count() == 1), "{merged}");
}

async fn what_runs_or_is_over_is_not_edited(db: Db) {
    let admin = db.admin();
    let running = db.enqueue(Play::new("running", [Step::hold("go")])).await;
    let over = db.enqueue(Play::new("over", [])).await;
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Started, "running", 1).await;
    db.reaches(over, JobState::Completed).await;
    for (id, is) in [(running, JobState::Running), (over, JobState::Completed)] {
        let before = args(&db, id).await;
        for refused in [
            admin.merge_args(id, "{\"label\":\"x\"}").await.map(drop),
            admin.merge_args(id, "{\"label\":7}").await.map(drop),
            admin.edit(id, |_: &mut Play| unreachable!("it is not editable")).await,
            admin.edit_args(id, &json!({"label": "x", "steps": []})).await,
        ] {
            let conflicts = matches!(&refused, Err(Error::Conflict { operation: "edit", state, .. }) if *state == is);
            assert!(conflicts, "{refused:?}");
        }
        assert_eq!(args(&db, id).await, before);
    }
    db.probe.release("go");
    db.reaches(running, JobState::Completed).await;
    worker.stop().await;
}

/// P38.
async fn limits_hold_for_edits(db: Db) {
    let admin = db.admin();
    let id = put(&db, "note", "{\"label\":\"a\"}").await;
    let fits = "\"".repeat((MAX_ARGS_BYTES - 12) / 2);
    admin.edit(id, |job: &mut Note| job.label = fits.clone()).await.expect("it fits");
    // and is compared as a whole
    admin.edit(id, |job: &mut Note| job.label.replace_range(..1, "'")).await.expect("it fits");
    let before = args(&db, id).await;
    assert!(before.starts_with("{\"label\":\"'\\\"\\\""), "{}", &before[..20]);
    let long = format!("{{\"more\":\"{}\"}}", "x".repeat(20));
    let deep = format!("{{\"more\":{}{}}}", "[".repeat(MAX_ARGS_DEPTH), "]".repeat(MAX_ARGS_DEPTH));
    let refused = admin.merge_args(id, &long).await.expect_err("too long").to_string();
    assert!(refused.contains("the limit is 1048576"), "{refused}");
    assert_eq!(args(&db, id).await, before);
    admin.merge_args(id, "{\"label\":\"a\"}").await.expect("it fits");
    let refused = admin.merge_args(id, &deep).await.expect_err("too deep").to_string();
    assert!(refused.contains("levels deep"), "{refused}");
}

/// P34.
async fn a_key_stays_whatever_the_arguments_become(db: Db) {
    let admin = db.admin();
    let id = db.enqueue(Note::new("a").unique_key("k")).await;
    admin.merge_args(id, "{\"label\":\"b\"}").await.expect("merged");
    let JobDetail { unique_key, args, .. } = db.job(id).await;
    assert_eq!((unique_key.as_deref(), args.as_str()), (Some("k"), "{\"label\":\"b\"}"));
    assert_eq!(db.enqueue_unique(Note::new("c").unique_key("k")).await, Enqueued::Kept(id));
}
