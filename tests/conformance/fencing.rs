//! Leases: the database refuses writes for an attempt that the worker no longer owns, and the jobs of lost workers are
//! rescued.

use std::time::Duration;

use queue::admin::JobDetail;
use queue::{Job, JobId, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play};
use queue_tests::{AnyPool, Db, Step, What, eventually};
use serde_json::json;

conformance! {
    refuses_a_late_end_of_any_kind,
    refuses_a_late_end_while_another_worker_holds_the_job,
    refuses_a_late_end_of_a_job_that_is_over,
    refuses_a_late_heartbeat,
    takes_back_at_once_what_it_held_when_it_is_told_that_it_is_gone,
    takes_back_at_once_what_it_held_when_it_gave_itself_up,
    takes_back_at_its_start_what_a_rescuer_left_undone,
    rescues_from_a_dead_worker,
    rescues_from_an_unknown_worker,
    rescues_from_a_worker_that_stopped,
    leaves_the_jobs_of_a_live_worker_alone,
    counts_a_lost_lease,
    rescues_after_a_dropped_run,
    rescues_each_job_once,
    loses_no_job_to_a_writer_that_holds_the_file,
}

fn outcomes(detail: &JobDetail) -> Vec<(u32, &str)> {
    detail.attempts.iter().map(|attempt| (attempt.attempt, attempt.outcome.as_str())).collect()
}

/// Takes a job from under the attempt that runs, as a rescue would.
async fn steal(db: &Db, id: JobId) {
    db.sql(format!("UPDATE queue_jobs SET worker_id = 0, fence = fence + 1 WHERE id = {id} AND worker_id <> 0")).await;
}

/// P6.
async fn refuses_a_late_end_of_any_kind(db: Db) {
    let ends = [
        Step::Return(json!("first")),
        Step::Fail("late".into()),
        Step::RetryAfter(0, "late".into()),
        Step::Die("late".into()),
        Step::Cancel("late".into()),
        Step::Snooze(3_600_000),
        Step::Panic("late".into()),
    ];
    let worker = db.start(db.worker());
    let mut ids = Vec::new();
    for (n, end) in ends.iter().enumerate() {
        let steps = [Step::hold_then("first", end.clone()), Step::hold_then("second", Step::Return(json!("second")))];
        ids.push(db.enqueue(Play::new(n.to_string(), steps)).await);
        db.probe.wait_for(What::Started, &n.to_string(), 1).await;
    }
    for id in &ids {
        steal(&db, *id).await;
    }
    // the same worker claims them again, and runs two attempts of each at the same time: only the younger is current
    db.probe.wait_for_all(What::Started, 2 * ends.len()).await;
    db.probe.release("first");
    db.probe.wait_for_all(What::Ended, ends.len()).await;
    db.beats(2).await;
    for id in &ids {
        let detail = db.job(*id).await;
        assert_eq!((detail.job.state, detail.job.attempt), (JobState::Running, 2));
        assert_eq!(outcomes(&detail), [(2, "running")], "the late end left a trace");
    }
    db.probe.release("second");
    for id in &ids {
        let detail = db.reaches(*id, JobState::Completed).await;
        assert_eq!((outcomes(&detail), detail.result.as_deref()), (vec![(2, "completed")], Some("\"second\"")));
    }
    worker.stop().await;
    assert_eq!(db.counts().await, (0, ends.len() as i64, 0));
    assert_eq!(db.count("queue_attempts").await, 0);
}

/// P6.
async fn refuses_a_late_end_while_another_worker_holds_the_job(db: Db) {
    let other = db.fake_worker(3_600_000).await;
    let worker = db.start(db.worker());
    let mut ids = Vec::new();
    for (n, end) in [Step::Complete, Step::Fail("late".into()), Step::Die("late".into())].into_iter().enumerate() {
        ids.push(db.enqueue(Play::new(n.to_string(), [Step::hold_then("go", end)])).await);
        db.probe.wait_for(What::Started, &n.to_string(), 1).await;
    }
    // taken over with a new lease number, and with the same one: worker and lease must both be right
    db.sql(format!("UPDATE queue_jobs SET worker_id = {other}, fence = fence + 1 WHERE id <> {}", ids[0])).await;
    db.sql(format!("UPDATE queue_jobs SET worker_id = {other} WHERE id = {}", ids[0])).await;
    db.probe.release("go");
    db.probe.wait_for_all(What::Ended, 3).await;
    db.beats(2).await;
    assert_eq!(db.count(&format!("queue_jobs WHERE worker_id = {other}")).await, 3);
    assert_eq!((db.counts().await, db.count("queue_attempts").await), ((3, 0, 0), 0));
    worker.stop().await;
    assert_eq!(db.counts().await, (3, 0, 0), "nor does the end of the worker give them back");
}

/// P5, P6.
async fn refuses_a_late_end_of_a_job_that_is_over(db: Db) {
    let worker = db.start(db.worker());
    let mut ids = Vec::new();
    for (n, end) in
        [Step::Fail("late".into()), Step::Die("late".into()), Step::Return(json!(1))].into_iter().enumerate()
    {
        let label = n.to_string();
        ids.push(db.enqueue(Play::new(label.clone(), [Step::hold_then("go", end), Step::Return(json!(2))])).await);
        db.probe.wait_for(What::Started, &label, 1).await;
        steal(&db, ids[n]).await;
        db.reaches(ids[n], JobState::Completed).await;
    }
    db.probe.release("go");
    db.probe.wait_for_all(What::Ended, 6).await;
    db.beats(2).await;
    for id in ids {
        let detail = db.job(id).await;
        assert_eq!((detail.job.state, detail.result.as_deref()), (JobState::Completed, Some("2")));
    }
    worker.stop().await;
    assert_eq!((db.counts().await, db.count("queue_attempts").await), ((0, 3, 0), 0));
}

/// P6, P21: A worker that was declared dead is told so by its next heartbeat: it drops what it runs and joins again.
async fn refuses_a_late_heartbeat(db: Db) {
    let worker = db.start(db.worker());
    let id = db.enqueue(Play::new("a", [Step::deaf("never"), Step::Return(json!("again"))])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.knows_it_began(id).await;
    let first = db.admin().workers().await.expect("an answer").remove(0);
    db.sql(format!("UPDATE queue_workers SET stopped_at = {}", db.time(0))).await;
    db.probe.wait_for(What::Dropped, "a", 1).await;
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "lost"), (2, "completed")]);
    assert_eq!(detail.result.as_deref(), Some("\"again\""));
    assert_eq!(detail.attempts[0].worker, first.id);
    assert_ne!(detail.attempts[1].worker, first.id, "it holds nothing under its old number");
    let workers = db.admin().workers().await.expect("an answer");
    let alive: Vec<_> = workers.iter().map(|worker| (worker.id == first.id, worker.alive)).collect();
    assert_eq!(alive.len(), 2);
    assert!(alive.contains(&(true, false)) && alive.contains(&(false, true)), "{workers:#?}");
    worker.stop().await;
}

/// A heartbeat so slow that the rescue that comes with every 48th is too late for a test.
const SLOW: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(6));

/// P21.
async fn takes_back_at_once_what_it_held_when_it_is_told_that_it_is_gone(db: Db) {
    let worker = db.start(db.worker().heartbeat(SLOW.0).lease(SLOW.1));
    let id = db.enqueue(Play::new("a", [Step::deaf("never"), Step::Return(json!("again"))])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.knows_it_began(id).await;
    // as by a rescuer that is killed before it takes the jobs
    db.sql(format!("UPDATE queue_workers SET stopped_at = {}", db.time(0))).await;
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "lost"), (2, "completed")]);
    worker.stop().await;
}

/// P21.
async fn takes_back_at_once_what_it_held_when_it_gave_itself_up(db: Db) {
    let worker = db.start(db.worker().heartbeat(SLOW.0).lease(SLOW.1));
    let id = db.enqueue(Play::new("a", [Step::deaf("never"), Step::Return(json!("again"))])).await;
    db.probe.wait_for(What::Started, "a", 1).await;
    db.knows_it_began(id).await;
    if db.engine() == Engine::Sqlite {
        // a lock would keep everybody from writing; a file that refuses this alone does not
        db.sql("CREATE TRIGGER full BEFORE UPDATE ON queue_heartbeats BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
            .await;
        db.probe.wait_for(What::Dropped, "a", 1).await;
        db.sql("DROP TRIGGER full").await;
    } else {
        // its heartbeat gets no answer for as long as this is open
        let mut transaction = db.begin().await;
        transaction.sql("UPDATE queue_heartbeats SET expires_at = expires_at").await.expect("the row is locked");
        db.probe.wait_for(What::Dropped, "a", 1).await;
        transaction.rollback().await;
    }
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "lost"), (2, "completed")]);
    worker.stop().await;
}

/// P21.
async fn takes_back_at_its_start_what_a_rescuer_left_undone(db: Db) {
    let dead = db.fake_worker(-1000).await;
    let id = db.enqueue(Play::new("a", [])).await;
    db.hand_over(id, dead).await;
    // declared gone by a rescuer that was killed before it took the job back: no lease will run out
    db.sql(format!("UPDATE queue_workers SET stopped_at = {}", db.time(0))).await;
    let worker = db.start(db.worker().heartbeat(SLOW.0).lease(SLOW.1));
    assert_eq!(outcomes(&db.reaches(id, JobState::Completed).await), [(1, "lost"), (2, "completed")]);
    worker.stop().await;
}

/// P9, P21.
async fn rescues_from_a_dead_worker(db: Db) {
    let dead = db.fake_worker(-1000).await;
    let again = db.enqueue(Play::new("again", [])).await;
    let last = db.enqueue(Play::new("last", []).max_retries(0)).await;
    for id in [again, last] {
        db.hand_over(id, dead).await;
    }
    let unknown_kind = db.enqueue(Note::new("unknown")).await;
    db.sql(format!("UPDATE queue_jobs SET kind = 'of_the_future' WHERE id = {unknown_kind}")).await;
    db.hand_over(unknown_kind, dead).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(again, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "lost"), (2, "completed")]);
    assert_eq!(detail.attempts[0].worker, dead);
    assert_eq!(detail.attempts[0].worker_name.as_deref(), Some("elsewhere:1"));
    assert!(detail.attempts[0].error.as_deref().is_some_and(|error| !error.is_empty()), "it says what happened");
    // whatever killed its worker must not go on for ever
    let detail = db.reaches(last, JobState::Dead).await;
    assert_eq!(outcomes(&detail), [(1, "lost")]);
    assert!(detail.job.error.is_some_and(|error| error.contains("lost") || error.contains("lease")));
    assert_eq!(db.probe.count(What::Started, "last"), 0);
    // jobs of kinds that this worker does not know are taken back too, for one that does
    let detail = db.reaches(unknown_kind, JobState::Ready).await;
    assert_eq!((outcomes(&detail), detail.job.worker), (vec![(1, "lost")], None));
    let workers = db.admin().workers().await.expect("an answer");
    assert!(workers.iter().any(|worker| worker.id == dead && !worker.alive && worker.stopped_at.is_some()));
    worker.stop().await;
}

/// P21.
async fn rescues_from_an_unknown_worker(db: Db) {
    let id = db.enqueue(Note::new("a")).await;
    db.hand_over(id, 123_456).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "lost"), (2, "completed")]);
    worker.stop().await;
}

/// P21.
async fn rescues_from_a_worker_that_stopped(db: Db) {
    let gone = db.fake_worker(3_600_000).await;
    db.sql(format!("UPDATE queue_workers SET stopped_at = {} WHERE id = {gone}", db.time(0))).await;
    let id = db.enqueue(Note::new("a")).await;
    db.hand_over(id, gone).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [(1, "lost"), (2, "completed")]);
    worker.stop().await;
}

/// P22.
async fn leaves_the_jobs_of_a_live_worker_alone(db: Db) {
    let live = db.fake_worker(3_600_000).await;
    let id = db.enqueue(Note::new("held")).await;
    db.hand_over(id, live).await;
    // claimed long ago: a job may run for days while its worker's heart beats
    db.sql(format!("UPDATE queue_jobs SET claimed_at = {}", db.time(-100 * 86_400_000))).await;
    let worker = db.start(db.worker());
    db.enqueue(Note::new("marker")).await;
    db.probe.wait_for(What::Ended, "marker", 1).await;
    db.beats(12).await;
    let detail = db.job(id).await;
    assert_eq!((detail.job.state, detail.job.attempt, detail.job.worker), (JobState::Running, 1, Some(live)));
    worker.stop().await;
    assert_eq!(db.probe.labels(What::Started), ["marker"]);
}

/// P9: A job that kills every worker that takes it ends as a dead letter.
async fn counts_a_lost_lease(db: Db) {
    let id = db.enqueue(Play::new("killer", []).max_retries(2)).await;
    for _ in 0..3 {
        let victim = db.fake_worker(-1000).await;
        db.hand_over(id, victim).await;
        // one that serves other jobs only
        let rescuer = db.start(db.worker().only_registered().register::<Note>());
        eventually("the rescue", async || (db.state(id).await != JobState::Running).then_some(())).await;
        rescuer.stop().await;
    }
    let detail = db.job(id).await;
    assert_eq!(detail.job.state, JobState::Dead);
    assert_eq!(outcomes(&detail), [(1, "lost"), (2, "lost"), (3, "lost")]);
    assert_eq!(db.counts().await, (0, 0, 1));
}

/// P9, P21.
async fn rescues_after_a_dropped_run(db: Db) {
    db.enqueue_all((0..40).map(|n| Play::new(n.to_string(), [Step::deaf("never"), Step::Complete]))).await;
    let victim = db.start(db.worker_apart().await.lease(Duration::from_secs(5)).concurrency(30));
    db.probe.wait_for_all(What::Started, 30).await;
    eventually("the database knows that they have started", async || {
        (db.count("queue_jobs WHERE started_fence = fence AND worker_id <> 0").await == 30).then_some(())
    })
    .await;
    victim.kill().await;
    db.probe.wait_for_all(What::Dropped, 30).await;
    let survivor = db.start(db.worker_apart().await.concurrency(30));
    // the ten that the victim did not run wait for ever in their first step
    db.finished(30).await;
    db.probe.release("never");
    db.finished(40).await;
    survivor.stop().await;
    assert_eq!(db.counts().await, (0, 40, 0));
    // what ran is lost with it and counts; what it had claimed in advance does not
    assert_eq!(db.count("queue_attempts WHERE outcome = 'lost' AND attempt = 1").await, 30);
    assert_eq!(db.count("queue_history WHERE attempt = 2").await, 30);
    assert_eq!(db.count("queue_history WHERE attempt = 1").await, 10);
}

/// P4, P21: Several workers notice the same dead one.
async fn rescues_each_job_once(db: Db) {
    let dead = db.fake_worker(-1000).await;
    db.enqueue_all((0..300).map(|n| Note::new(n.to_string()).max_retries(1))).await;
    db.hand_over_all("worker_id = 0", dead, 20).await;
    let mut workers = Vec::new();
    for _ in 0..5 {
        workers.push(db.start(db.worker_apart().await.concurrency(4)));
    }
    db.finished(300).await;
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(db.counts().await, (0, 300, 0));
    assert_eq!(db.count("queue_attempts WHERE outcome = 'lost' AND fence = 1").await, 300);
    assert_eq!((db.count("queue_attempts").await, db.probe.labels(What::Started).len()), (300, 300));
}

/// A short lease, so that a short lock outlasts it. It is long enough for a heartbeat on a busy machine. Three of them
/// are less than the five seconds that a connection to SQLite waits for the file.
const LEASE: Duration = Duration::from_millis(2_500);

/// A worker with connections of its own, as in another process.
async fn hasty(db: &Db) -> queue::WorkerBuilder {
    db.worker_apart().await.only_registered().heartbeat(LEASE / 3).lease(LEASE)
}

/// P22: The application writes for longer than a lease: it keeps every rescuer from the file as well.
async fn loses_no_job_to_a_writer_that_holds_the_file(db: Db) {
    let AnyPool::Sqlite(same) = db.pool() else { return };
    let AnyPool::Sqlite(other) = &db.open(2).await else { panic!("another engine") };
    let worker = db.start(hasty(&db).await.register::<Play>());
    let judge = db.start(hasty(&db).await.register::<Note>());
    let long = db.enqueue(Play::new("long", [Step::hold("go")])).await;
    let ends = db.enqueue(Play::new("ends", [Step::hold("now")])).await;
    db.probe.wait_for_all(What::Started, 2).await;
    let writes = [
        (same, "BEGIN IMMEDIATE", "COMMIT"),
        (other, "BEGIN IMMEDIATE; CREATE INDEX mine ON queue_history (kind)", "ROLLBACK"),
        (other, "BEGIN EXCLUSIVE", "COMMIT"),
    ];
    for (pool, begin, end) in writes {
        db.beats(1).await;
        let mut conn = pool.acquire().await.expect("a connection");
        sqlx::raw_sql(begin).execute(&mut *conn).await.expect("the file is ours");
        // more than a lease, and a beat that began before it
        tokio::time::sleep(LEASE * 3).await;
        db.probe.release("now");
        sqlx::raw_sql(end).execute(&mut *conn).await.expect("done");
    }
    db.beats(3).await;
    // whatever ended meanwhile is recorded, and what comes next is begun
    assert_eq!(db.reaches(ends, JobState::Completed).await.job.attempt, 1);
    let next = db.enqueue(Play::new("next", [Step::Complete])).await;
    db.reaches(next, JobState::Completed).await;
    db.probe.release("go");
    let detail = db.reaches(long, JobState::Completed).await;
    assert_eq!((detail.job.attempt, outcomes(&detail)), (1, vec![(1, "completed")]));
    assert_eq!(db.count("queue_workers WHERE stopped_at IS NOT NULL").await, 0, "nobody was declared gone");
    worker.stop().await;
    judge.stop().await;
}
