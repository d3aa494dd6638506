//! The same failure of many jobs is one line, and they can be changed together.
//!
//! Promise: P36.

use queue::admin::{FailureGroup, Filter};
use queue::{Enqueue, Job as _, JobState};
use queue_tests::jobs::Play;
use queue_tests::{Db, Step, eventually};

conformance! {
    jobs_that_fail_alike_are_one_group,
    a_group_is_sent_back_one_first_and_then_all,
    groups_of_many_failures_are_of_the_newest,
    a_group_is_new_or_has_come_back,
    the_last_ends_are_read_newest_first,
}

fn fails(label: &str, error: &str) -> Enqueue<Play> {
    Play::new(label, vec![Step::Fail(error.into())]).max_retries(0)
}

async fn groups(db: &Db) -> Vec<FailureGroup> {
    let failures = db.admin().failures().await.expect("groups");
    assert!(failures.complete);
    failures.groups
}

async fn jobs_that_fail_alike_are_one_group(db: Db) {
    assert_eq!(groups(&db).await, []);
    let began = db.now().await;
    db.enqueue_all((0..5).map(|n| fails("a", &format!("no user {n} at db-{n}.example.org:5432: \"gone {n}\"")))).await;
    db.enqueue_all([fails("b", "refused"), fails("b", "ümläut 漢字")]).await;
    let retried = Step::RetryAfter(3_600_000, "no user 77 at db-77.example.org:5432: \"gone 77\"".into());
    let retried = db.enqueue(Play::new("r", vec![retried])).await;
    // neither a job that succeeds in the end nor one that is over counts
    db.enqueue(Play::new("c", vec![Step::RetryAfter(1, "no user 9".into()), Step::Complete])).await;
    let worker = db.start(db.worker());
    db.finished(1).await;
    db.reaches(retried, JobState::Scheduled).await;
    eventually("all are dead", async || (db.count("queue_dead").await == 7).then_some(())).await;
    worker.stop().await;
    let found = groups(&db).await;
    let lines: Vec<_> = found.iter().map(|it| (&*it.title, it.dead.jobs, it.retrying.jobs)).collect();
    assert_eq!(lines[0], ("no user # at <address>: \"…\"", 5, 1));
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.contains(&("refused", 1, 0)) && lines.contains(&("ümläut 漢字", 1, 0)), "{lines:?}");
    let worst = &found[0];
    assert_eq!((&*worst.kind, worst.sample), ("play", retried), "the newest of them");
    assert!(worst.error.contains("db-77") && worst.first >= began && worst.last >= worst.first, "{worst:?}");
    // a later claim that a shutdown gave back does not matter
    db.sql(format!("UPDATE queue_jobs SET fence = fence + 1 WHERE id = {retried}")).await;
    db.sql(format!(
        "INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome) \
         SELECT id, fence, attempt, 1, {now}, {now}, 'unstarted' FROM queue_jobs WHERE id = {retried}",
        now = db.time(0)
    ))
    .await;
    assert_eq!(groups(&db).await[0].retrying.jobs, 1);
    let of_group = Filter::new().group(&*worst.group);
    assert_eq!(db.admin().jobs(&of_group).await.unwrap().items.len(), 6);
    assert_eq!(db.admin().jobs(&of_group.state(JobState::Dead)).await.unwrap().items.len(), 5);
    assert_eq!(db.admin().jobs(&Filter::new().group("0000000000000000")).await.unwrap().items.len(), 0);
}

async fn a_group_is_sent_back_one_first_and_then_all(db: Db) {
    let others = (0..1_500).map(|n| fails("other", &format!("refused {n}")));
    let them = (0..1_200).map(|n| fails("it", &format!("no user {n}")));
    let mixed: Vec<_> = others.zip(them.map(Some).chain(std::iter::repeat_n(None, 300))).collect();
    db.enqueue_all(mixed.into_iter().flat_map(|(a, b)| std::iter::once(a).chain(b))).await;
    let worker = db.start(db.worker());
    eventually("all are dead", async || (db.count("queue_dead").await == 2_700).then_some(())).await;
    worker.stop().await;
    let found = groups(&db).await;
    assert_eq!(
        found.iter().map(|it| (&*it.title, it.dead.jobs)).collect::<Vec<_>>(),
        [("refused #", 1_500), ("no user #", 1_200)]
    );
    let admin = db.admin();
    let them = Filter::new().state(JobState::Dead).group(&*found[1].group);
    assert_eq!(admin.send_back_all(&them.clone().limit(1)).await.unwrap(), 1);
    let first = db.column("SELECT id FROM queue_jobs").await;
    let lowest = db.value("SELECT MIN(id) FROM queue_dead WHERE error LIKE 'refused%'").await;
    assert_eq!(first, ["2"], "the lowest id of the group, beside {lowest:?}");
    assert_eq!(admin.send_back_all(&them.clone().limit(1_100)).await.unwrap(), 1_100);
    assert_eq!(admin.delete_all(&them).await.unwrap(), 99);
    assert_eq!(db.count("queue_dead WHERE error LIKE 'no user%'").await, 0);
    assert_eq!(db.count("queue_dead").await, 1_500, "no other was touched");
}

async fn groups_of_many_failures_are_of_the_newest(db: Db) {
    let now = db.time(0);
    let row = |from: i64, to: i64, error: &str| {
        let numbers: Vec<_> = (from..to)
            .map(|id| format!("({id}, 'k', 'q', '{{}}', 0, 1, 1, 1, {now}, {now}, {now}, '{error} {id}')"))
            .collect();
        format!(
            "INSERT INTO queue_dead (id, kind, queue, args, priority, attempt, fence, worker_id, enqueued_at, run_at, \
             finished_at, error) VALUES {}",
            numbers.join(", ")
        )
    };
    db.sql(row(1, 501, "old")).await;
    for from in (1_000..11_000).step_by(2_500) {
        db.sql(row(from, from + 2_500, "new")).await;
    }
    let failures = db.admin().failures().await.expect("groups");
    assert!(!failures.complete);
    let [group] = &failures.groups[..] else { panic!("{failures:?}") };
    assert_eq!((&*group.title, group.dead.jobs, group.dead.or_more), ("new #", 4_000, true));
}

async fn a_group_is_new_or_has_come_back(db: Db) {
    let errors = ["no user 1", "no user 2", "refused"];
    db.enqueue_all(errors.map(|error| fails("a", error))).await;
    let again = Step::RetryAfter(1, "no user 3".into());
    db.enqueue(Play::new("r", vec![again.clone(), again, Step::Complete])).await;
    let worker = db.start(db.worker());
    eventually("all are over", async || (db.counts().await == (0, 1, 3)).then_some(())).await;
    worker.stop().await;
    let told = async || -> Vec<_> {
        let found = groups(&db).await.into_iter();
        found.map(|it| (it.title, it.is_new, it.back_since.is_some(), it.by_hour.iter().sum::<u64>())).collect()
    };
    let expected = |title: &str, is_new, back, failed| (title.to_owned(), is_new, back, failed);
    // those that were tried again count, too
    assert_eq!(told().await, [expected("no user #", true, false, 4), expected("refused", true, false, 1)]);
    let worst = groups(&db).await[0].group.clone();
    let hours = |hours: i64| db.time(-hours * 3_600_000);
    // it was first seen four days ago, and has been quiet since
    db.sql(format!(
        "INSERT INTO queue_failures (failure, began_at, attempts, first_at, last_at) VALUES ('{worst}', {0}, 7, {0}, {0})",
        hours(96)
    ))
    .await;
    assert_eq!(told().await[0], expected("no user #", false, true, 4));
    let group = groups(&db).await.remove(0);
    assert!(group.first < db.now().await - chrono::TimeDelta::days(3), "{group:?}");
    // it was not quiet for a day
    db.sql(format!(
        "INSERT INTO queue_failures (failure, began_at, attempts, first_at, last_at) VALUES ('{worst}', {0}, 7, {0}, {1})",
        hours(95),
        hours(20)
    ))
    .await;
    assert_eq!(told().await[0], expected("no user #", false, false, 4));
    // without the counts of workers, no group is called new
    db.sql("DELETE FROM queue_failures").await;
    assert_eq!(told().await[0], expected("no user #", false, false, 0));
}

async fn the_last_ends_are_read_newest_first(db: Db) {
    assert_eq!(db.admin().ended(10).await.expect("ends"), []);
    let worker = db.start(db.worker().concurrency(1));
    let step = async |steps: Vec<Step>, state| {
        let id = db.enqueue(Play::new("a", steps).max_retries(0)).await;
        db.reaches(id, state).await;
        id
    };
    let completed = step(vec![Step::Complete], JobState::Completed).await;
    let dead = step(vec![Step::Fail("no user".into())], JobState::Dead).await;
    let snoozed = step(vec![Step::Snooze(3_600_000)], JobState::Scheduled).await;
    let cancelled = step(vec![Step::Cancel("no need".into())], JobState::Cancelled).await;
    db.admin().cancel(snoozed).await.expect("cancelled");
    let gone = step(vec![Step::Die("x".into())], JobState::Dead).await;
    db.sql(format!("DELETE FROM queue_dead WHERE id = {gone}")).await;
    worker.stop().await;
    let ended = db.admin().ended(10).await.expect("ends");
    let told: Vec<_> = ended.iter().map(|it| (it.id, &*it.kind, &*it.attempt.outcome, it.is_dead)).collect();
    let expected = [
        (gone, "", "failed", false),
        (snoozed, "play", "cancelled", false),
        (cancelled, "play", "cancelled", false),
        (snoozed, "play", "snoozed", false),
        (dead, "play", "failed", true),
        (completed, "play", "completed", false),
    ];
    assert_eq!(told, expected);
    assert_eq!(ended[4].attempt.error.as_deref(), Some("no user"));
    assert!(ended[4].attempt.worker_name.is_some() && ended[4].attempt.ended_at >= Some(ended[4].attempt.started_at));
    assert_eq!(db.admin().ended(2).await.expect("ends"), ended[..2]);
    // a dead letter that was sent back is none
    db.admin().send_back(dead).await.expect("sent back");
    assert!(!db.admin().ended(10).await.expect("ends")[4].is_dead);
}
