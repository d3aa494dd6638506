//! What the administration does to many jobs, and the record of all that it does.
//!
//! Promise: P49.

use std::time::Duration;

use chrono::TimeDelta;
use queue::admin::{Action, Actor, Admin, Filter, Operation, Progress};
use queue::schedule::Schedule;
use queue::{Error, Job, JobState};
use queue_tests::jobs::Note;
use queue_tests::{Db, eventually};

conformance! {
    each_change_leaves_a_record,
    a_plan_writes_nothing_and_leaves_out_what_comes_later,
    one_comes_first_and_then_all,
    due_times_are_spread_over_a_time,
    what_cannot_be_changed_is_kept_with_the_reason,
    a_worker_goes_on_when_a_program_ends,
    an_operation_can_be_stopped,
    odd_actors_are_kept_as_well_as_they_can_be,
}

/// Dead letters with these ids.
async fn dead(db: &Db, ids: impl IntoIterator<Item = i64>) {
    let (past, rows): (_, Vec<String>) = (db.time(-60_000), ids.into_iter().map(|id| id.to_string()).collect());
    for ids in rows.chunks(500) {
        let rows: Vec<_> = ids
            .iter()
            .map(|id| {
                format!(
                    "({id}, 'note', 'default', '{{\"label\": \"{id}\"}}', 0, 3, 3, 1, {past}, {past}, {past}, 1, \
                     'boom')"
                )
            })
            .collect();
        db.sql(format!(
            "INSERT INTO queue_dead (id, kind, queue, args, priority, max_retries, attempt, fence, enqueued_at, run_at, \
             finished_at, worker_id, error) VALUES {}",
            rows.join(", ")
        ))
        .await;
    }
}

fn ada(db: &Db) -> Admin {
    db.admin().acting(Actor::new("ada").reason("INC-421"))
}

async fn ids(db: &Db, table: &str) -> Vec<i64> {
    db.column(format!("SELECT id FROM {table} ORDER BY id")).await.iter().map(|id| id.parse().unwrap()).collect()
}

async fn last(db: &Db) -> Operation {
    db.admin().operations(None).await.expect("a list").remove(0)
}

async fn each_change_leaves_a_record(db: Db) {
    dead(&db, [101, 102]).await;
    let admin = ada(&db);
    let job = db.enqueue(Note::new("a").after(Duration::from_secs(3600)).unique_key("k")).await;
    let before = db.now().await;
    let mut expected = Vec::new();
    admin.send_back(101.into()).await.unwrap();
    expected.push(("send_back", Some(101.into()), "{}".to_owned()));
    admin.retry(102.into()).await.unwrap();
    expected.push(("retry", Some(102.into()), "{}".to_owned()));
    let at = db.now().await + TimeDelta::hours(2);
    admin.reschedule(job, at).await.unwrap();
    expected.push(("reschedule", Some(job), format!(r#"{{"run_at":{}}}"#, serde_json::to_string(&at).unwrap())));
    admin.edit_args(job, &serde_json::json!({"label": "secret"})).await.unwrap();
    expected.push(("edit", Some(job), r#"{"fields":["label"]}"#.to_owned()));
    admin.cancel(job).await.unwrap();
    expected.push(("cancel", Some(job), "{}".to_owned()));
    admin.delete(job).await.unwrap();
    expected.push(("delete", Some(job), "{}".to_owned()));
    admin.pause("mail").await.unwrap();
    expected.push(("pause", None, r#"{"queue":"mail"}"#.to_owned()));
    admin.resume("mail").await.unwrap();
    expected.push(("resume", None, r#"{"queue":"mail"}"#.to_owned()));
    let daily = || Schedule::cron("@daily").unwrap();
    admin.schedule("nightly", daily(), Note::new("n")).await.unwrap();
    expected.push(("schedule", None, r#"{"schedule":"nightly"}"#.to_owned()));
    admin.fire_schedule("nightly").await.unwrap();
    expected.push(("fire_schedule", None, r#"{"schedule":"nightly"}"#.to_owned()));
    admin.pause_schedule("nightly").await.unwrap();
    expected.push(("pause_schedule", None, r#"{"schedule":"nightly"}"#.to_owned()));
    admin.resume_schedule("nightly").await.unwrap();
    expected.push(("resume_schedule", None, r#"{"schedule":"nightly"}"#.to_owned()));
    admin.remove_schedule("nightly").await.unwrap();
    expected.push(("remove_schedule", None, r#"{"schedule":"nightly"}"#.to_owned()));
    // what changes nothing leaves none
    assert!(matches!(admin.send_back(job).await, Err(Error::NotFound(_))));
    assert!(matches!(admin.send_back(101.into()).await, Err(Error::Conflict { .. })));
    admin.retry(101.into()).await.unwrap();
    admin.resume("mail").await.unwrap();
    assert!(admin.remove_schedule("nightly").await.is_err());

    let mut found = admin.operations(None).await.unwrap();
    found.reverse();
    let told: Vec<_> = found.iter().map(|it| (&*it.action, it.job, it.details.to_string())).collect();
    assert_eq!(told, expected);
    for operation in &found {
        assert_eq!((&*operation.actor, operation.reason.as_deref()), ("ada", Some("INC-421")), "{operation:?}");
        assert_eq!((operation.changed, operation.refused.jobs, operation.progress), (1, 0, Progress::Done));
        assert!(
            operation.at >= before - TimeDelta::seconds(1) && operation.ended_at.is_some_and(|at| at >= operation.at)
        );
    }
    let of_job: Vec<_> = admin.operations_on(job).await.unwrap().into_iter().map(|it| it.action).collect();
    assert_eq!(of_job, ["delete", "cancel", "edit", "reschedule"]);
    let pages = admin.operations(Some(found[3].id)).await.unwrap();
    assert_eq!(pages.iter().map(|it| it.id).collect::<Vec<_>>(), [found[2].id, found[1].id, found[0].id]);
    assert!(admin.operation(i64::MAX).await.unwrap_err().to_string().contains("there is no operation"));
    // without an actor: the program
    db.admin().pause("mail").await.unwrap();
    assert!(last(&db).await.actor.ends_with(&format!(":{}", std::process::id())));
}

async fn a_plan_writes_nothing_and_leaves_out_what_comes_later(db: Db) {
    dead(&db, 101..=105).await;
    let later = db.enqueue(Note::new("later")).await;
    dead(&db, [later.get() + 200]).await;
    let plan = ada(&db).plan(Action::SendBack, &Filter::new().kind("note").error("boom")).await.unwrap();
    assert_eq!((plan.count().jobs, plan.count().or_more), (6, false));
    assert_eq!(plan.samples().iter().map(|job| job.id.get()).take(5).collect::<Vec<_>>(), [101, 102, 103, 104, 105]);
    assert_eq!((db.count("queue_operations").await, db.count("queue_dead").await), (0, 6));
    // these fail after the click: one with a higher id, one with a lower id
    let now = db.time(1_000);
    dead(&db, [later.get() + 201]).await;
    db.sql(format!("UPDATE queue_dead SET finished_at = {now} WHERE id = 103")).await;
    let done = plan.run().await.unwrap();
    assert_eq!((done.changed, done.refused.jobs, done.progress), (5, 0, Progress::Done));
    assert_eq!(done.details["filter"]["error"], "boom", "{done:?}");
    assert_eq!(ids(&db, "queue_dead").await, [103, later.get() + 201]);
    // a filter for what the action does not change matches nothing
    let none = db.admin().plan(Action::SendBack, &Filter::new().state(JobState::Ready)).await.unwrap();
    assert_eq!((none.count().jobs, none.samples().len()), (0, 0));
    assert_eq!(none.run().await.unwrap().changed, 0);
}

async fn one_comes_first_and_then_all(db: Db) {
    dead(&db, 1..=2_500).await;
    let plan = ada(&db).plan(Action::SendBack, &Filter::new()).await.unwrap();
    assert_eq!((plan.count().jobs, plan.samples().len()), (2_500, 20));
    let one = plan.clone().first(1).run().await.unwrap();
    assert_eq!((one.changed, ids(&db, "queue_jobs").await), (1, vec![1]));
    let some = plan.clone().first(1_500).run().await.unwrap();
    assert_eq!((some.changed, db.int("SELECT MAX(id) FROM queue_jobs").await), (1_500, 1_501));
    let all = plan.begin().await.unwrap();
    assert_eq!((all.progress, all.changed), (Progress::Running, 0));
    // two at once: each job goes to one of them
    let admins = (db.admin(), db.admin());
    let (one, two) = tokio::join!(admins.0.go_on(all.id), admins.1.go_on(all.id));
    assert!(one.unwrap().changed.max(two.unwrap().changed) == 999);
    assert_eq!(all.action, "send_back");
    let admin = db.admin();
    eventually("it is over", async || {
        (admin.operation(all.id).await.unwrap().progress == Progress::Done).then_some(())
    })
    .await;
    assert_eq!(admin.operation(all.id).await.unwrap().changed, 999);
    assert_eq!((db.count("queue_dead").await, db.count("queue_jobs").await), (0, 2_500));
}

async fn due_times_are_spread_over_a_time(db: Db) {
    dead(&db, 1_001..=1_300).await;
    let waits = db.enqueue(Note::new("waits").after(Duration::from_secs(36_000))).await;
    let plan = ada(&db).plan(Action::Retry, &Filter::new()).await.unwrap();
    let done = plan.over(Duration::from_secs(600)).run().await.unwrap();
    assert_eq!(done.changed, 301);
    let jobs = db.admin().jobs(&Filter::new().limit(1_000)).await.unwrap().items;
    assert!(jobs.iter().any(|job| job.id == waits));
    let cancel = ada(&db).plan(Action::Cancel, &Filter::new()).await.unwrap().over(Duration::from_secs(1)).run().await;
    assert!(matches!(cancel, Err(Error::Config(why)) if why.contains("cannot cancel jobs over a time")));
    let places: Vec<i64> = jobs.iter().map(|job| (job.run_at - done.at).num_milliseconds()).collect();
    for minute in 0..10 {
        let within = places.iter().filter(|place| (**place).div_euclid(60_000) == minute).count();
        assert!((28..=32).contains(&within), "{within} in minute {minute}: {places:?}");
    }
}

async fn what_cannot_be_changed_is_kept_with_the_reason(db: Db) {
    let first = db.enqueue(Note::new("a").unique_key("k")).await;
    let bury = "INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, \
                enqueued_at, run_at, finished_at, worker_id, error) SELECT id, kind, queue, args, priority, features, 0, 1, 1, \
                enqueued_at, run_at, run_at, 1, 'boom' FROM queue_jobs";
    db.sql(bury).await;
    db.sql("DELETE FROM queue_jobs").await;
    let holder = db.enqueue(Note::new("b").unique_key("k")).await;
    assert_ne!(holder, first);
    dead(&db, [1_000, 1_001]).await;
    let done = ada(&db).plan(Action::SendBack, &Filter::new()).await.unwrap().run().await.unwrap();
    assert_eq!((done.changed, done.refused.jobs, done.progress), (2, 1, Progress::Done));
    let refused = db.admin().refusals(done.id, None).await.unwrap();
    assert_eq!((refused[0].job, refused[0].reason.as_str()), (first, &*format!("job {holder} has its key")));
    assert!(db.admin().refusals(done.id, Some(first)).await.unwrap().is_empty());
    // it can be tried again
    db.admin().cancel(holder).await.unwrap();
    let again = ada(&db).plan(Action::SendBack, &Filter::new()).await.unwrap().run().await.unwrap();
    assert_eq!((again.changed, again.refused.jobs), (1, 0));
}

/// A program that began an operation, changed some jobs, and was killed.
async fn killed_half_way(db: &Db, jobs: i64) -> Operation {
    dead(db, 1..=jobs).await;
    let plan = ada(db).plan(Action::SendBack, &Filter::new()).await.unwrap();
    let half = plan.first(jobs.cast_unsigned() / 2).run().await.unwrap();
    let mut details = half.details.clone();
    details.as_object_mut().unwrap().remove("first");
    let past = db.time(-3_600_000);
    db.sql(format!(
        "UPDATE queue_operations SET state = 'running', ended_at = NULL, beat_at = {past}, details = '{details}' WHERE id = {}",
        half.id
    ))
    .await;
    half
}

async fn a_worker_goes_on_when_a_program_ends(db: Db) {
    let begun = killed_half_way(&db, 40).await;
    // of what was sent back, one is dead again: it is not sent back twice
    db.sql("DELETE FROM queue_jobs WHERE id = 7").await;
    dead(&db, [7]).await;
    let admin = db.admin();
    let worker = db.start(db.worker().heartbeat(Duration::from_millis(200)).lease(Duration::from_millis(800)));
    eventually("it is over", async || {
        (admin.operation(begun.id).await.unwrap().progress == Progress::Done).then_some(())
    })
    .await;
    worker.stop().await;
    assert_eq!(admin.operation(begun.id).await.unwrap().changed, 40);
    assert_eq!(ids(&db, "queue_dead").await, [7]);
}

async fn an_operation_can_be_stopped(db: Db) {
    let begun = killed_half_way(&db, 10).await;
    let admin = ada(&db);
    assert!(admin.stop(begun.id).await.unwrap());
    assert!(!admin.stop(begun.id).await.unwrap(), "it is over");
    assert!(admin.stop(i64::MAX).await.is_err());
    let stopped = admin.operation(begun.id).await.unwrap();
    assert_eq!((stopped.progress, stopped.changed), (Progress::Stopped, 5));
    assert!(stopped.ended_at.is_some());
    let stop = last(&db).await;
    assert_eq!((&*stop.action, stop.details.to_string()), ("stop", format!(r#"{{"operation":{}}}"#, begun.id)));
    assert_eq!(db.count("queue_dead").await, 5);
}

async fn odd_actors_are_kept_as_well_as_they_can_be(db: Db) {
    let name = "ädä \u{1F980} \u{202E}".repeat(60);
    let reason = "\u{1F980}'\"\\".repeat(600);
    db.admin().acting(Actor::new(&name).reason(&reason)).pause("q\u{1F980}").await.unwrap();
    let kept = last(&db).await;
    assert_eq!(kept.actor, name.chars().take(255).collect::<String>());
    assert_eq!(kept.reason.unwrap(), reason.chars().take(1_000).collect::<String>());
    assert_eq!(kept.details["queue"], "q\u{1F980}");
}
