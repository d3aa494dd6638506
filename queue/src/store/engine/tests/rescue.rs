//! Jobs of lost workers.

use super::*;
use crate::limits::micros;

on_each!(
    lost_jobs_come_back,
    only_what_began_counts_when_its_worker_is_lost,
    a_worker_that_leaves_by_itself_raises_no_suspicion,
    an_attempt_that_did_not_decode_clears_no_suspicion,
    jobs_that_were_lost_again_wait_for_different_times,
    a_lost_job_that_cannot_be_moved_keeps_no_other,
);

async fn lost_jobs_come_back<DB: TestDb>(db: Db<DB>) {
    db.insert(&(0..5).map(|_| job("a")).collect::<Vec<_>>()).await;
    db.insert(&[NewJob { max_retries: Some(0), ..job("b") }]).await;
    let (lost, well) = (db.worker().await, db.worker().await);
    let mut held = db.store.claim(lost, &[ask("a", 3), ask("b", 1)], None).await.unwrap();
    held.sort_by_key(|j| j.id);
    let kept = db.take(well, 1).await;
    assert_eq!((held.len(), kept.len()), (4, 1));
    db.begin(lost, &held).await;
    assert_eq!(db.rescue(100).await, Rescued::default());
    let beat = db.store.heartbeat(well, LEASE, Holding::default(), &[]).await.unwrap();
    let [lease] = beat.leases[..] else { panic!("{beat:?}") };
    assert!(lease.left > micros(LEASE) / 2 && lease.left <= micros(LEASE), "{beat:?}");
    assert_eq!((lease.worker, lease.given, lease.heartbeat), (lost, micros(LEASE), db.heartbeat(lost).await));
    db.expire(lost).await;
    let [lease] = db.store.heartbeat(well, LEASE, Holding::default(), &[]).await.unwrap().leases[..] else { panic!() };
    assert!((lease.worker, lease.left < 0) == (lost, true), "{lease:?}");
    assert_eq!(db.rescue(100).await, Rescued::default(), "nobody has declared it dead");
    db.lose(lost).await;
    // bounded, and by several at once
    assert_eq!(db.rescue(1).await, Rescued { ready: 1, ..Rescued::default() });
    let stores: Vec<_> = (0..3).map(|_| SqlStore::new(db.pool.clone())).collect();
    let (mut sum, nobody) = (Rescued::default(), HashSet::new());
    for one in futures_util::future::join_all(stores.iter().map(|store| store.rescue(100, &nobody))).await {
        let (one, _) = one.unwrap();
        sum.ready += one.ready;
        sum.dead += one.dead;
    }
    // nobody waits for another, so one of them may have been skipped by all
    let rest = db.rescue(100).await;
    assert_eq!((sum.ready + rest.ready, sum.dead + rest.dead), (2, 1));
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts WHERE outcome = 'lost'").await, 4);
    assert!(
        db.text("SELECT error FROM queue_dead")
            .await
            .starts_with("the worker (here:7) running this job was lost (no heartbeat since 2")
    );
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs WHERE worker_id = 0").await, 4);
    // the dead stay dead
    assert!(!db.store.heartbeat(lost, LEASE, Holding::default(), &[]).await.unwrap().alive);
    assert!(db.take(lost, 9).await.is_empty());
    assert!(db.store.end(lost, &[done(&held[0])]).await.unwrap().is_empty());
    assert!(db.store.heartbeat(well, LEASE, Holding::default(), &[]).await.unwrap().alive);
    assert_eq!(db.store.end(well, &[done(&kept[0])]).await.unwrap().len(), 1);
    // jobs of a worker without a row
    let more = db.take(well, 9).await;
    assert_eq!(more.len(), 4);
    db.begin(well, &more).await;
    db.sql("DELETE FROM queue_workers").await;
    let rescued = db.rescue(100).await;
    assert_eq!((rescued.ready, rescued.dead, rescued.cancelled, rescued.buried.len()), (1, 3, 0, 3));
    let gone = db.worker().await;
    db.store.leave(gone, Duration::ZERO).await.unwrap();
    assert!(!db.store.heartbeat(gone, LEASE, Holding::default(), &[]).await.unwrap().alive);
}

async fn only_what_began_counts_when_its_worker_is_lost<DB: TestDb>(db: Db<DB>) {
    let job = |kind| NewJob { max_retries: Some(3), ..NewJob::example(kind) };
    db.insert(&[job("began"), job("fresh"), job("suspect"), NewJob { max_retries: Some(0), ..job("last") }]).await;
    let one = db.worker().await;
    let asks = |kinds: &[&'static str]| kinds.iter().map(|kind| ask(kind, 1)).collect::<Vec<_>>();
    let all = db.store.claim(one, &asks(&["began", "fresh", "suspect", "last"]), None).await.unwrap();
    assert!(all.iter().all(|job| (job.attempt, job.losses) == (1, 0)), "{all:?}");
    let of = |jobs: &[Claimed], kind: &str| jobs.iter().find(|job| *job.lane.kind == *kind).unwrap().clone();
    db.begin(one, &[of(&all, "began"), of(&all, "suspect")]).await;
    let lose = async |worker| {
        db.lose(worker).await;
        db.rescue(9).await
    };
    // the one without a retry would have said so before it began
    assert_eq!(lose(one).await, Rescued { ready: 4, ..Rescued::default() });
    let rows = "SELECT COUNT(*) FROM queue_attempts AS a JOIN queue_jobs AS j ON j.id = a.job_id WHERE";
    let recorded = async |kind: &str, outcome: &str| {
        db.int(&format!("{rows} j.kind = '{kind}' AND a.outcome = '{outcome}'")).await
    };
    assert_eq!((recorded("began", "lost").await, recorded("fresh", "unstarted").await), (1, 1));
    assert_eq!(db.int(&format!("{rows} j.kind = 'last'")).await, 0);
    let two = db.worker().await;
    let again = db.store.claim(two, &asks(&["began", "fresh", "suspect", "last"]), None).await.unwrap();
    let seen = |kind: &str| {
        let job = of(&again, kind);
        (job.attempt, job.losses)
    };
    assert_eq!((seen("began"), seen("fresh"), seen("suspect"), seen("last")), ((2, 1), (1, 1), (2, 1), (1, 0)));
    // `fresh` alone, where it is known to have begun: it answers for the attempt of which nobody knew
    let alone = |job: &Claimed| Start { hold: job.hold(), max_neighbours: Some(0) };
    db.store.started(two, &[alone(&of(&again, "fresh"))]).await.unwrap();
    db.begin(two, &[of(&again, "began")]).await;
    assert_eq!(lose(two).await, Rescued { ready: 4, ..Rescued::default() });
    assert_eq!((recorded("fresh", "lost").await, recorded("fresh", "unstarted").await), (2, 0));
    let error = "SELECT error FROM queue_attempts WHERE attempt = 2 AND outcome = 'lost' \
                 AND job_id = (SELECT id FROM queue_jobs WHERE kind = 'fresh')";
    assert!(db.text(error).await.ends_with("; no other job ran beside it"));
    let row = async |kind: &str| {
        let get = |column: &str| format!("SELECT {column} FROM queue_jobs WHERE kind = '{kind}'");
        (db.int(&get("attempt")).await, db.int(&get("losses")).await)
    };
    assert_eq!((row("fresh").await, row("suspect").await, row("last").await), ((2, 2), (1, 1), (0, 0)));
    // lost twice: it waits, but not long
    let later = format!("SELECT COUNT(*) FROM queue_jobs WHERE run_at > {}", DB::in_seconds(3));
    assert_eq!(db.int(&later).await, 0);
    // an attempt that ends by itself clears the job of all suspicion
    db.sql(format!("UPDATE queue_jobs SET run_at = {}", DB::in_seconds(-1))).await;
    let three = db.worker().await;
    let jobs = db.store.claim(three, &asks(&["fresh", "began"]), None).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.losses).collect::<Vec<_>>(), [2, 2]);
    let ends = |kind, outcome| End { outcome, ..back(&of(&jobs, kind)) };
    db.store
        .end(three, &[ends("fresh", AttemptOutcome::Failed), ends("began", AttemptOutcome::Released)])
        .await
        .unwrap();
    assert_eq!((row("fresh").await.1, row("began").await.1), (0, 2));
}

/// After an outage of the database, each worker gives up its number, alive and well.
async fn a_worker_that_leaves_by_itself_raises_no_suspicion<DB: TestDb>(db: Db<DB>) {
    db.insert(&[NewJob { max_retries: Some(9), ..job("a") }]).await;
    let losses = [(false, 0), (false, 0), (true, 1), (false, 1), (false, 1), (true, 2), (false, 2), (false, 3)];
    for (attempt, (lost, losses)) in (1..).zip(losses) {
        let worker = db.worker().await;
        let jobs = db.take(worker, 1).await;
        db.begin(worker, &jobs).await;
        match lost {
            true => db.lose(worker).await,
            // the other way round: a job blocked the worker, which could not even try
            false if attempt == 8 => db.store.leave(worker, LEASE).await.unwrap(),
            false => db.store.leave(worker, Duration::ZERO).await.unwrap(),
        }
        assert_eq!(db.rescue(1).await.ready, 1);
        let later = format!("SELECT COUNT(*) FROM queue_jobs WHERE run_at > {}", DB::in_seconds(0));
        let waits = db.int(&later).await == 1;
        assert!(!waits || losses > 1, "attempt {attempt}: a first loss makes nobody wait");
        let row = ["attempt", "losses"].map(|column| format!("SELECT {column} FROM queue_jobs"));
        assert_eq!((db.int(&row[0]).await, db.int(&row[1]).await), (attempt, losses), "the attempt counts");
        db.sql(format!("UPDATE queue_jobs SET run_at = {}", DB::in_seconds(-1))).await;
    }
}

/// In a mixed deploy, a build that cannot decode the job must not hide that it kills the other build.
async fn an_attempt_that_did_not_decode_clears_no_suspicion<DB: TestDb>(db: Db<DB>) {
    db.insert(&[NewJob { max_retries: Some(9), ..job("a") }]).await;
    let lost = db.worker().await;
    let jobs = db.take(lost, 1).await;
    db.begin(lost, &jobs).await;
    db.lose(lost).await;
    assert_eq!(db.rescue(1).await.ready, 1);
    let well = db.worker().await;
    for (outcome, losses) in [(AttemptOutcome::Undecodable, 1), (AttemptOutcome::Failed, 0)] {
        let job = db.take(well, 1).await.remove(0);
        assert_eq!(job.losses, 1);
        db.store.end(well, &[End { outcome, ..back_in(&job, None) }]).await.unwrap();
        assert_eq!(db.int("SELECT losses FROM queue_jobs").await, losses, "{outcome:?}");
    }
}

/// Jobs that were lost together twice do not all come back at once.
async fn jobs_that_were_lost_again_wait_for_different_times<DB: TestDb>(db: Db<DB>) {
    db.insert(&(0..12).map(|_| NewJob { max_retries: Some(9), ..job("a") }).collect::<Vec<_>>()).await;
    let due = async |later: &str| db.int(format!("SELECT COUNT(*) FROM queue_jobs WHERE run_at > {later}")).await;
    for loss in 0..2 {
        let worker = db.worker().await;
        let jobs = db.take(worker, 12).await;
        assert_eq!(jobs.len(), 12);
        assert!(jobs.iter().all(|job| job.losses == loss), "{jobs:?}");
        db.begin(worker, &jobs).await;
        db.lose(worker).await;
        assert_eq!(db.rescue(12).await, Rescued { ready: 12, ..Rescued::default() });
        let waiting = due(&DB::in_seconds(0)).await;
        // a process may die of anything: the first time they come back at once
        assert!(if loss == 0 { waiting == 0 } else { waiting > 0 }, "{waiting} wait after loss {}", loss + 1);
        assert_eq!(due(&DB::in_seconds(2)).await, 0);
    }
    assert!(db.int("SELECT COUNT(DISTINCT run_at) FROM queue_jobs").await > 6);
}

async fn a_lost_job_that_cannot_be_moved_keeps_no_other<DB: TestDb>(db: Db<DB>) {
    // somebody has written a dead letter under the number of a job
    let doomed = |kind| NewJob { max_retries: Some(0), ..job(kind) };
    let ids = db.insert(&[doomed("a"), job("a"), job("a"), doomed("a")]).await;
    db.sql(format!(
        "INSERT INTO queue_dead (id, kind, queue, args, priority, attempt, fence, worker_id, enqueued_at, run_at, \
         finished_at, error) \
         SELECT id, kind, queue, args, priority, 1, 1, 1, enqueued_at, run_at, run_at, 'x' FROM queue_jobs \
         WHERE id = {}",
        ids[0]
    ))
    .await;
    let lost = db.worker().await;
    let held = db.take(lost, 9).await;
    assert_eq!(held.len(), 4);
    db.begin(lost, &held).await;
    db.sql(format!("UPDATE queue_jobs SET cancel_requested_at = run_at WHERE id = {}", ids[1])).await;
    db.store.leave(lost, Duration::ZERO).await.unwrap();
    let buried = vec![("a".to_owned(), "default".to_owned())];
    let rescued = Rescued { ready: 1, dead: 1, cancelled: 1, buried };
    let (mut sum, mut left) = (Rescued::default(), HashSet::new());
    for _ in 0..4 {
        // one at a time, so that the one that stays comes first each time
        let (one, refused) = db.store.rescue(1, &left).await.unwrap();
        sum += one;
        left.extend(refused);
    }
    assert_eq!((sum, left), (rescued, HashSet::from([ids[0]])), "all but one");
    assert_eq!(db.rescue(100).await, Rescued::default(), "nor does it keep the rescue busy when it is alone");
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs WHERE worker_id <> 0").await, 1);
}
