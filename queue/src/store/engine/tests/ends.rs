//! How attempts end, and what is refused.

use super::*;

on_each!(
    an_end_waits_for_a_transaction_that_moves_the_job,
    late_writes_are_refused,
    an_end_is_kept_as_it_was_told,
    attempts_without_count_are_not_kept_without_end,
    a_refused_batch_is_not_half_recorded,
    a_cancelled_job_does_not_go_back,
    starts_and_long_arguments_are_fenced,
    an_end_waits_for_no_neighbour,
);

/// Who moves a job has its row locked: an end waits for that, and does not go by what was there before.
async fn an_end_waits_for_a_transaction_that_moves_the_job<DB: TestDb>(db: Db<DB>) {
    db.insert(&vec![job("a"); 8]).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 8).await;
    let store = Arc::new(SqlStore::<DB>::new(db.pool.clone()));
    for (number, pair) in jobs.chunks(2).enumerate() {
        let (kept, moved) = (pair[0].clone(), pair[1].clone());
        let mut mover = db.pool.acquire().await.unwrap();
        DB::raw(&mut mover, DB::BEGIN).await.unwrap();
        let took = format!("UPDATE queue_jobs SET worker_id = 0 WHERE id = {}", moved.id);
        DB::raw(&mut mover, took.leak()).await.unwrap();
        let ends = store.clone();
        let ids = (kept.id.get(), moved.id.get());
        let mut end = tokio::spawn(async move {
            let cancelled = |job| End { outcome: AttemptOutcome::Cancelled, error: Some("no".into()), ..done(job) };
            match number {
                0 => ends.end(worker, &[done(&kept), done(&moved)]).await,
                1 => ends.end(worker, &[cancelled(&kept), cancelled(&moved)]).await,
                2 => ends.end(worker, &[back(&kept), back(&moved)]).await,
                _ => ends.end(worker, &[buried(&kept), buried(&moved)]).await,
            }
        });
        let early = tokio::time::timeout(Duration::from_millis(100), &mut end).await;
        assert!(early.is_err(), "it did not wait: {early:?}");
        DB::raw(&mut mover, "COMMIT").await.unwrap();
        assert_eq!(end.await.unwrap().unwrap(), [ids.0], "{number}");
        for table in ["queue_history WHERE id =", "queue_attempts WHERE job_id =", "queue_dead WHERE id ="] {
            assert_eq!(db.int(format!("SELECT COUNT(*) FROM {table} {}", ids.1)).await, 0, "{table} {number}");
        }
    }
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 5);
}

async fn late_writes_are_refused<DB: TestDb>(db: Db<DB>) {
    db.insert(&[job("a"), job("a"), job("a")]).await;
    let worker = db.worker().await;
    let first = db.take(worker, 3).await;
    // given back unstarted: keeps its place, nothing counted, nothing recorded
    let release: Vec<_> = first.iter().map(|j| End::unstarted(j.hold())).collect();
    assert_eq!(db.store.end(worker, &release).await.unwrap().len(), 3);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts").await, 0);
    let second = db.take(worker, 3).await;
    assert_eq!(second.len(), 3);
    for (a, b) in first.iter().zip(&second) {
        assert_eq!((a.id, a.run_at, a.attempt, a.fence + 1), (b.id, b.run_at, b.attempt, b.fence));
    }
    // same worker, older fence
    assert!(db.store.end(worker, &[done(&first[0])]).await.unwrap().is_empty());
    assert!(db.store.end(worker, &[back(&first[0])]).await.unwrap().is_empty());
    assert!(db.store.end(worker, &[buried(&first[0])]).await.unwrap().is_empty());
    // another worker
    let other = db.worker().await;
    assert!(db.store.end(other, &[done(&second[0])]).await.unwrap().is_empty());
    assert!(db.store.end(other, &[back(&second[0])]).await.unwrap().is_empty());
    assert!(db.store.end(other, &[buried(&second[0])]).await.unwrap().is_empty());
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs WHERE worker_id <> 0").await, 3);
    // a batch of good and bad, one job under both fences
    let batch = [done(&second[0]), done(&first[1]), done(&first[0])];
    let accepted = db.store.end(worker, &batch).await.unwrap();
    assert_eq!(accepted, [second[0].id.get()]);
    let both = [back_in(&first[1], Some(0)), back(&second[1])];
    assert_eq!(db.store.end(worker, &both).await.unwrap(), [second[1].id.get()]);
    let both = [buried(&second[2]), End { error: Some("stale".into()), ..buried(&first[2]) }];
    assert_eq!(db.store.end(worker, &both).await.unwrap(), [second[2].id.get()]);
    assert_eq!(db.text("SELECT result FROM queue_history").await, "{\"a\":\"\\u0000é\"}");
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts").await, 2);
    assert_eq!(db.text("SELECT error FROM queue_dead").await, "gone \u{fffd}");
    assert_eq!(db.text("SELECT outcome FROM queue_attempts ORDER BY job_id").await, "failed");
    let (soon, late) = (DB::in_seconds(3_500), DB::in_seconds(3_700));
    let waiting = format!(
        "SELECT COUNT(*) FROM queue_jobs WHERE worker_id = 0 AND attempt = 1 AND fence = 2 \
         AND max_retries = 1 AND run_at BETWEEN {soon} AND {late}"
    );
    assert_eq!(db.int(waiting).await, 1);
}

async fn an_end_is_kept_as_it_was_told<DB: TestDb>(db: Db<DB>) {
    const DAY_US: i64 = 86_400_000_000;
    db.insert(&[job("a"), job("a"), job("a"), job("a"), job("a"), job("a")]).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 6).await;
    let ran =
        |job: &Claimed, ran_us, result: Option<&str>| End::completed(job.hold(), ran_us, result.map(str::to_owned));
    let batch = [
        ran(&jobs[0], 0, Some("[0]")),
        ran(&jobs[1], DAY_US, None),
        ran(&jobs[2], 200 * DAY_US, None),
        ran(&jobs[3], DAY_US, Some("3")),
        End { ran_us: DAY_US, ..cancelled(&jobs[4]) },
        End { hold: Hold { fence: jobs[5].fence + 1, ..jobs[5].hold() }, ..ran(&jobs[5], DAY_US, None) },
    ];
    let mut accepted = db.store.end(worker, &batch).await.unwrap();
    accepted.sort_unstable();
    assert_eq!(accepted, jobs[..5].iter().map(|job| job.id.get()).collect::<Vec<_>>());
    let began = |table: &str, days: i64| {
        let (from, to) = (DB::in_seconds(-days * 86_400 - 60), DB::in_seconds(-days * 86_400));
        format!("SELECT COUNT(*) FROM {table} WHERE fence = 1 AND started_at BETWEEN {from} AND {to}")
    };
    assert_eq!(db.int(began("queue_history", 0)).await, 1);
    assert_eq!(db.int(began("queue_history", 1)).await, 3);
    assert_eq!(db.int(began("queue_history", 200)).await, 1);
    assert_eq!(db.int(began("queue_attempts", 1)).await, 1);
    let states = "SELECT COUNT(*) FROM queue_history WHERE state = 'completed' AND error IS NULL";
    assert_eq!(db.int(states).await, 4);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history WHERE state = 'cancelled' AND error = 'why'").await, 1);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history WHERE result IS NOT NULL").await, 2);
    for (job, result) in [(&jobs[0], "[0]"), (&jobs[3], "3")] {
        assert_eq!(db.text(format!("SELECT result FROM queue_history WHERE id = {}", job.id)).await, result);
    }
    let cancelled = "SELECT id FROM queue_history WHERE state = 'cancelled'";
    assert_eq!(db.int(cancelled).await, jobs[4].id.get());
    assert_eq!(db.store.end(worker, &[ran(&jobs[5], 0, None)]).await.unwrap(), [jobs[5].id.get()]);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 0);
}

async fn attempts_without_count_are_not_kept_without_end<DB: TestDb>(db: Db<DB>) {
    db.insert(&[job("a"), job("b")]).await;
    let worker = db.worker().await;
    let failed = db.take(worker, 1).await;
    db.store.end(worker, &[back_in(&failed[0], Some(0))]).await.unwrap();
    let other = db.store.claim(worker, &[ask("b", 1)], None).await.unwrap();
    for fence in 2..=350 {
        let mut jobs = db.take(worker, 1).await;
        let job = jobs.pop().unwrap_or_else(|| panic!("it is there for lease {fence}"));
        assert_eq!(job.fence, fence);
        let outcome = if fence % 3 == 0 { AttemptOutcome::Released } else { AttemptOutcome::Snoozed };
        let to = Requeue { delay_us: Some(0), uncount: 1, record: true };
        let snoozed = End { outcome, error: None, to, ..back(&job) };
        if fence == 300 {
            let stale = End { hold: Hold { fence: 299, ..snoozed.hold }, ..snoozed.clone() };
            let count = "SELECT COUNT(*) FROM queue_attempts";
            let before = db.int(count).await;
            assert!(db.store.end(worker, &[stale]).await.unwrap().is_empty());
            assert_eq!(db.int(count).await, before);
            // one that is not accepted forgets nothing, whatever it says
            let foreign = End { hold: Hold { fence: 400, ..snoozed.hold }, ..snoozed.clone() };
            assert!(db.store.end(worker, &[foreign]).await.unwrap().is_empty());
            assert_eq!(db.int(count).await, before);
        }
        // beside another that forgets nothing
        let batch = if fence == 200 { vec![back(&other[0]), snoozed] } else { vec![snoozed] };
        assert_eq!(db.store.end(worker, &batch).await.unwrap().len(), batch.len());
    }
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts WHERE fence > 200 AND fence <= 350").await, 150);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts WHERE fence BETWEEN 2 AND 200").await, 0);
    let failures = "SELECT COUNT(*) FROM queue_attempts WHERE outcome = 'failed' AND fence = 1";
    assert_eq!(db.int(failures).await, 2, "of what counts everything is kept");
}

async fn a_refused_batch_is_not_half_recorded<DB: TestDb>(db: Db<DB>) {
    db.insert(&[job("a"), job("a"), job("a")]).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 3).await;
    // a row that should not be there, of another fence: SQLite's trigger would take the job
    db.sql(format!(
        "INSERT INTO queue_history (id, kind, queue, state, args, priority, attempt, fence, worker_id, enqueued_at, \
         run_at, finished_at)
         SELECT id, kind, queue, 'completed', args, priority, attempt, 0, worker_id, enqueued_at, run_at, run_at
         FROM queue_jobs WHERE id = {}",
        jobs[1].id
    ))
    .await;
    let batch: Vec<_> = jobs.iter().map(done).collect();
    let error = db.store.end(worker, &batch).await.unwrap_err();
    assert!(error.blames_the_row(), "{error}");
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 3);
    // the recorder takes the batch apart
    assert_eq!(db.store.end(worker, &batch[..1]).await.unwrap(), [jobs[0].id.get()]);
    assert_eq!(db.store.end(worker, &batch[2..]).await.unwrap(), [jobs[2].id.get()]);
    assert!(db.store.end(worker, &batch[1..2]).await.is_err());
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 1);
}

async fn a_cancelled_job_does_not_go_back<DB: TestDb>(db: Db<DB>) {
    db.insert(&[job("a"), job("a"), job("a"), job("a")]).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 3).await;
    let last = db.take(worker, 1).await;
    let asked: Vec<_> = jobs.iter().map(|j| j.id.get()).collect();
    db.sql(format!(
        "UPDATE queue_jobs SET cancel_requested_at = {} WHERE id IN ({}, {}, {})",
        DB::in_seconds(0),
        asked[0],
        asked[1],
        asked[2]
    ))
    .await;
    let unnamed = db.store.heartbeat(worker, LEASE, Holding { any: true, ..Holding::default() }, &[]).await.unwrap();
    assert!(unnamed.cancelled.is_empty(), "it hears of the jobs that it names");
    let running: Vec<_> = asked.iter().copied().chain([last[0].id.get()]).collect();
    let beat = db
        .store
        .heartbeat(worker, LEASE, Holding { any: true, running: &running, ..Holding::default() }, &[])
        .await
        .unwrap();
    assert!(beat.alive && beat.leases.is_empty() && !beat.work);
    let mut told: Vec<_> = beat.cancelled.iter().map(|(id, fence)| (id.get(), *fence)).collect();
    told.sort_unstable();
    assert_eq!(told, asked.iter().map(|id| (*id, 1)).collect::<Vec<_>>());
    let mut accepted = db.store.end(worker, &[back(&jobs[0]), back(&last[0])]).await.unwrap();
    accepted.sort_unstable();
    assert_eq!(accepted, [asked[0], last[0].id.get()]);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history WHERE state = 'cancelled'").await, 1);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs WHERE worker_id = 0").await, 1);
    // by its own will, with the attempt on record
    assert_eq!(db.store.end(worker, &[cancelled(&jobs[1])]).await.unwrap(), [asked[1]]);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts WHERE outcome = 'cancelled' AND error = 'why'").await, 1);
    // lost meanwhile
    db.lose(worker).await;
    assert_eq!(db.rescue(10).await, Rescued { cancelled: 1, ..Rescued::default() });
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history WHERE state = 'cancelled'").await, 3);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 1);
}

/// What a worker says or asks of a job that is not its own any more comes to nothing.
async fn starts_and_long_arguments_are_fenced<DB: TestDb>(db: Db<DB>) {
    let args = format!("{{\"text\":\"{}\"}}", "x".repeat(crate::limits::ARGS_AT_CLAIM_BYTES));
    db.insert(&[NewJob { args: args.clone(), ..job("a") }, job("a")]).await;
    let (worker, other) = (db.worker().await, db.worker().await);
    let jobs = db.take(worker, 9).await;
    assert_eq!(jobs[0].args.as_ref().err(), Some(&(args.len() as i64)), "they stay where they are for now");
    assert!(jobs[1].args.is_ok());
    let (id, fence) = (jobs[0].id.get(), jobs[0].fence);
    let start = |fence| [Start { hold: Hold { id, fence }, max_neighbours: Some(3) }];
    for (worker, fence) in [(other, fence), (worker, fence + 1), (worker, fence - 1)] {
        assert!(db.store.started(worker, &start(fence)).await.unwrap().is_empty());
        assert_eq!(db.store.args(worker, id, fence).await.unwrap(), None);
    }
    assert_eq!(
        db.int("SELECT COUNT(*) FROM queue_jobs WHERE started_fence <> 0 OR max_neighbours IS NOT NULL").await,
        0
    );
    assert_eq!(db.store.started(worker, &start(fence)).await.unwrap(), [id]);
    assert_eq!(db.store.args(worker, id, fence).await.unwrap(), Some(args));
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs WHERE started_fence = fence AND max_neighbours = 3").await, 1);
}

/// The rows of a run are read from its first to its last, and the one behind it, which may be locked by anybody, is
/// not.
async fn an_end_waits_for_no_neighbour<DB: TestDb>(db: Db<DB>) {
    if DB::KIND == crate::engine::Engine::Sqlite {
        return; // one writer at a time
    }
    const JOBS: usize = 120;
    let worker = db.worker().await;
    db.insert(&vec![job("a"); JOBS]).await;
    let mut jobs = db.take(worker, JOBS as u32).await;
    jobs.sort_unstable_by_key(|job| job.id);
    let id = |n: usize| i64::from(jobs[n].id);
    let mut other = db.pool.begin().await.unwrap();
    let lock: &str = format!("SELECT id FROM queue_jobs WHERE id IN ({}, {}) FOR UPDATE", id(3), id(70)).leak();
    assert_eq!(ids::<DB>(&mut other, lock, &[]).await.unwrap().len(), 2);
    let end = async |of: &dyn Fn(usize) -> bool| {
        let batch: Vec<_> = (0..JOBS).filter(|n| of(*n)).map(|n| done(&jobs[n])).collect();
        assert!(batch.len() >= 32, "{} jobs would be a list", batch.len());
        let ended = tokio::time::timeout(HANG, db.store.end(worker, &batch));
        assert_eq!(ended.await.expect("no lock is waited for").unwrap().len(), batch.len());
    };
    // in a few runs, one of them alone, and in many
    end(&|n| n < 40 && n != 3 || n == 69).await;
    end(&|n| n > 40 && n != 70 && n % 2 == 0).await;
    drop(other);
    end(&|n| matches!(n, 3 | 40 | 70) || n > 40 && n != 69 && n % 2 == 1).await;
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 0);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history").await, JOBS as i64);
}
