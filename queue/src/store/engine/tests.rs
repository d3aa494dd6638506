//! Each verb on each engine: SQLite in a file always, the servers when `QUEUE_TEST_*_URL` name them.
//! `QUEUE_TEST_ENGINES` leaves engines out.

use std::collections::HashSet;
use std::time::Instant;

use sqlx::pool::PoolOptions;
use sqlx::{Connection, Pool};

use super::*;
use crate::store::engine::dialect::Bind;
use crate::store::engine::operation::COUNT_LIMIT;
use crate::store::values::{Lane, NewJob, Outcome, Whose};

/// What a test needs of an engine.
trait TestDb: Dialect + inspect::AdminDialect + Signals {
    /// The engine's current time plus so many seconds, as an expression of a time column's type.
    fn in_seconds(seconds: i64) -> String;
    /// A time as microseconds since 1970.
    fn micros(time: &str) -> String;
}

#[cfg(feature = "postgres")]
impl TestDb for sqlx::Postgres {
    fn in_seconds(seconds: i64) -> String {
        format!("now() + {seconds} * interval '1 second'")
    }

    fn micros(time: &str) -> String {
        format!("(extract(epoch FROM {time}) * 1000000)::bigint")
    }
}

#[cfg(feature = "mysql")]
impl TestDb for sqlx::MySql {
    fn in_seconds(seconds: i64) -> String {
        format!("UTC_TIMESTAMP(6) + INTERVAL {seconds} SECOND")
    }

    fn micros(time: &str) -> String {
        format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {time})")
    }
}

#[cfg(feature = "sqlite")]
impl TestDb for sqlx::Sqlite {
    fn in_seconds(seconds: i64) -> String {
        format!("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + {}", seconds * 1000)
    }

    fn micros(time: &str) -> String {
        format!("{time} * 1000")
    }
}

struct Db<DB: TestDb> {
    store: SqlStore<DB>,
    pool: Pool<DB>,
}

const LEASE: Duration = Duration::from_secs(30);

impl<DB: TestDb> Db<DB> {
    async fn sql(&self, sql: impl Into<String>) -> u64 {
        let sql: &'static str = Box::leak(sql.into().into_boxed_str());
        let mut conn = self.pool.acquire().await.unwrap();
        execute::<DB>(&mut conn, sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e}"))
    }

    async fn int(&self, sql: impl Into<String>) -> i64 {
        let sql: &'static str = Box::leak(sql.into().into_boxed_str());
        let mut conn = self.pool.acquire().await.unwrap();
        rows::<DB>(&mut conn, sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e}"))[0].int(0).unwrap()
    }

    async fn text(&self, sql: impl Into<String>) -> String {
        let sql: &'static str = Box::leak(sql.into().into_boxed_str());
        let mut conn = self.pool.acquire().await.unwrap();
        rows::<DB>(&mut conn, sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e}"))[0].text(0).unwrap()
    }

    async fn insert(&self, jobs: &[NewJob]) -> Vec<i64> {
        let mut conn = self.pool.acquire().await.unwrap();
        DB::insert(&mut conn, jobs, Whose::Pools).await.unwrap()
    }

    async fn worker(&self) -> WorkerId {
        let worker = NewWorker { host: "here".into(), pid: 7, concurrency: 4, queues: vec![], kinds: vec!["a".into()] };
        self.store.join(&worker, LEASE).await.unwrap()
    }

    /// As a worker does that starts these.
    async fn begin(&self, worker: WorkerId, jobs: &[Claimed]) {
        let start = |job: &Claimed| Start { id: job.id.get(), fence: job.fence, max_neighbours: None };
        let begun = self.store.started(worker, &jobs.iter().map(start).collect::<Vec<_>>()).await.unwrap();
        assert_eq!(begun.len(), jobs.len());
    }

    async fn rescue(&self, limit: u32) -> Rescued {
        self.store.rescue(limit, &HashSet::new()).await.unwrap().0
    }

    /// Lets a worker's lease run out.
    async fn expire(&self, worker: WorkerId) {
        let past = DB::in_seconds(-1);
        self.sql(format!("UPDATE queue_heartbeats SET expires_at = {past} WHERE worker_id = {worker}")).await;
    }

    /// The last heartbeat of a worker, as others see it.
    async fn heartbeat(&self, worker: WorkerId) -> i64 {
        let at = DB::micros("heartbeat_at");
        self.int(format!("SELECT {at} FROM queue_heartbeats WHERE worker_id = {worker}")).await
    }

    /// Lets a worker's lease run out, and declares it dead.
    async fn lose(&self, worker: WorkerId) {
        self.expire(worker).await;
        assert!(self.store.declare_gone(worker, self.heartbeat(worker).await, true).await.unwrap());
    }

    async fn take(&self, worker: WorkerId, take: u32) -> Vec<Claimed> {
        let mut jobs = self.store.claim(worker, &[ask("a", take)]).await.unwrap();
        jobs.sort_by_key(|job| (job.run_at, job.id));
        jobs
    }
}

fn job(kind: &'static str) -> NewJob {
    NewJob { max_retries: 1, ..NewJob::example(kind) }
}

fn ask(kind: &str, take: u32) -> Ask {
    Ask {
        lane: Lane { kind: kind.into(), queue: "default".into(), priority: 0 },
        take,
        behind: None,
        first: None,
        newest_first: false,
        max_retries: 1,
    }
}

fn done(job: &Claimed) -> Finish {
    Finish {
        id: job.id.get(),
        fence: job.fence,
        ran_us: 2_000_000,
        state: Outcome::Completed,
        result: Some("{\"a\":\"\\u0000é\"}".into()),
        error: None,
    }
}

fn back(job: &Claimed) -> PutBack {
    PutBack {
        id: job.id.get(),
        fence: job.fence,
        ran_us: 5,
        outcome: Outcome::Failed,
        delay_us: Some(3_600_000_000),
        uncount: 0,
        record: true,
        error: Some("no \0 luck".into()),
    }
}

fn buried(job: &Claimed) -> Bury {
    Bury { id: job.id.get(), fence: job.fence, ran_us: 5, outcome: Outcome::Failed, error: "gone \0".into() }
}

async fn insert_gives_ids_in_order<DB: TestDb>(db: Db<DB>) {
    let one = db.insert(&[job("a")]).await;
    let later = db.insert(&[NewJob { delay_us: Some(60_000_000), max_retries: 9, ..job("a") }]).await;
    let at = db.insert(&[NewJob { run_at_us: Some(1_700_000_000_123_456), ..job("a") }]).await;
    let many: Vec<_> = (0..12_001)
        .map(|n| NewJob { args: format!("{{\"n\":{n}}}"), delay_us: (n % 3 == 0).then_some(9_000_000), ..job("b") })
        .collect();
    let ids = db.insert(&many).await;
    assert_eq!(ids.len(), many.len());
    assert!(one[0] < later[0] && later[0] < at[0] && at[0] < ids[0]);
    for n in [0, 1, 999, 1_000, 4_999, 5_000, 12_000] {
        assert_eq!(db.text(format!("SELECT args FROM queue_jobs WHERE id = {}", ids[n])).await, many[n].args);
    }
    assert_eq!(
        db.int(format!("SELECT COUNT(*) FROM queue_jobs WHERE kind = 'b' AND run_at > {}", DB::in_seconds(0))).await,
        4_001
    );
    assert_eq!(
        db.int(format!("SELECT COUNT(*) FROM queue_jobs WHERE kind = 'a' AND run_at > {}", DB::in_seconds(50))).await,
        1
    );
    let worker = db.worker().await;
    let jobs = db.take(worker, 10).await;
    assert_eq!(jobs.iter().map(|j| j.id.get()).collect::<Vec<_>>(), [at[0], one[0]]);
    assert!((jobs[0].run_at - 1_700_000_000_123_456).abs() < 1_000, "{}", jobs[0].run_at);
    assert!(chrono::Utc::now().signed_duration_since(jobs[0].enqueued_at).abs() < chrono::TimeDelta::seconds(60));
}

async fn arguments_stay_as_they_were_written<DB: TestDb>(db: Db<DB>) {
    let args = [
        r#"{"n":1,"s":"quote \" backslash \\ tab \t slash / nul \u0000 é \u00e9 😀"}"#,
        r#"{"f":1.50,"big":123456789012345678901234567890,"e":1e300,"minus":-0.0,"none":null,"deep":[[{"a":[]}],{}]}"#,
        "[1.50,\"é\"]",
        "\"text \\u0000\"",
        "7.0",
        "null",
    ];
    let one_by_one = args.map(|args| [NewJob { args: args.into(), ..job("one") }]);
    let together = args.map(|args| NewJob { args: args.into(), ..job("many") });
    let mut singles = Vec::new();
    for job in &one_by_one {
        singles.extend(db.insert(job).await);
    }
    let many = db.insert(&together).await;
    let stored = async |id: i64| db.text(format!("SELECT args FROM queue_jobs WHERE id = {id}")).await;
    for ((text, one), many) in args.into_iter().zip(singles).zip(many) {
        let (one, many) = (stored(one).await, stored(many).await);
        assert_eq!(one, many);
        // MySQL keeps JSON in a form of its own
        assert!(one == text || DB::KIND == crate::engine::Engine::MySql, "{one}");
    }
}

async fn insert_is_all_or_nothing<DB: TestDb>(db: Db<DB>) {
    let mut jobs: Vec<_> = (0..6_000).map(|_| job("a")).collect();
    jobs[5_999].args = "not json".into();
    let mut conn = db.pool.acquire().await.unwrap();
    for whose in [Whose::Pools, Whose::Callers] {
        assert!(DB::insert(&mut conn, &jobs, whose).await.is_err(), "{whose:?}");
        assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 0, "{whose:?}");
    }
    drop(conn);
    // inside the caller's transaction, which goes on (except on PostgreSQL, whose transactions end with an error)
    let mut conn = db.pool.acquire().await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    let good: Vec<_> = (0..6_000).map(|_| job("a")).collect();
    assert_eq!(DB::insert(&mut tx, &good, Whose::Callers).await.unwrap().len(), 6_000);
    tx.rollback().await.unwrap();
    drop(conn);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 0);
}

async fn claim_is_exclusive<DB: TestDb>(db: Db<DB>) {
    let jobs: Vec<_> = (0..2_000).map(|_| job("a")).collect();
    let ids: HashSet<_> = db.insert(&jobs).await.into_iter().collect();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let store = SqlStore::new(db.pool.clone());
            tokio::spawn(async move {
                let worker =
                    NewWorker { host: "h".into(), pid: 1, concurrency: 1, queues: vec![], kinds: vec!["a".into()] };
                let worker = store.join(&worker, LEASE).await.unwrap();
                let mut mine = Vec::new();
                loop {
                    let jobs = store.claim(worker, &[ask("a", 37)]).await.unwrap();
                    if jobs.is_empty() {
                        return mine;
                    }
                    let batch: Vec<_> = jobs.iter().map(done).collect();
                    let mut accepted = store.finish(worker, &batch).await.unwrap();
                    accepted.sort_unstable();
                    let mut wanted: Vec<_> = jobs.iter().map(|job| job.id.get()).collect();
                    wanted.sort_unstable();
                    assert_eq!(accepted, wanted);
                    mine.extend(accepted);
                }
            })
        })
        .collect();
    let mut seen = HashSet::new();
    for task in tasks {
        for id in task.await.unwrap() {
            assert!(seen.insert(id), "{id} twice");
        }
    }
    assert_eq!(seen, ids);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history WHERE state = 'completed'").await, 2_000);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 0);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts").await, 0);
    let past = DB::in_seconds(-1);
    assert_eq!(db.int(format!("SELECT COUNT(*) FROM queue_history WHERE started_at < {past}")).await, 2_000);
}

async fn one_has_the_turn_to_claim<DB: TestDb>(db: Db<DB>) {
    let other = SqlStore::new(db.pool.clone());
    if DB::CLAIM_TURN.is_none() {
        assert!(!db.store.take_turn().await.unwrap());
        return db.store.give_turn().await.unwrap();
    }
    assert!(db.store.take_turn().await.unwrap());
    assert!(!other.take_turn().await.unwrap(), "it waits a second and no longer");
    let worker = db.worker().await;
    db.insert(&[job("a"), job("a")]).await;
    assert_eq!(other.claim(worker, &[ask("a", 1)]).await.unwrap().len(), 1, "the turn is a hint");
    let (given, taken) = tokio::join!(db.store.give_turn(), other.take_turn());
    given.unwrap();
    assert!(taken.unwrap(), "who waits gets it");
    other.release().await; // with its connection
    assert!(db.store.take_turn().await.unwrap());
    assert_eq!(db.take(worker, 1).await.len(), 1);
    db.store.give_turn().await.unwrap();
    db.store.give_turn().await.unwrap(); // what is not there is not missed
}

async fn claim_honours_its_asks<DB: TestDb>(db: Db<DB>) {
    let ids = db
        .insert(
            &(0..6)
                .map(|n| NewJob { run_at_us: Some(1_000_000_000_000_000 + n * 1_000_000), ..job("a") })
                .collect::<Vec<_>>(),
        )
        .await;
    db.insert(&[
        NewJob { delay_us: Some(60_000_000), ..job("a") },
        NewJob { queue: "other".into(), max_retries: 0, ..job("b") },
        job("b"),
    ])
    .await;
    let worker = db.worker().await;
    // behind the second, two of them
    let behind = Some((1_000_000_000_000_000 + 1_000_000, ids[1]));
    let jobs = db.store.claim(worker, &[Ask { behind, ..ask("a", 2) }]).await.unwrap();
    let mut got: Vec<_> = jobs.iter().map(|j| j.id.get()).collect();
    got.sort_unstable();
    assert_eq!(got, ids[2..4]);
    assert!(jobs.iter().all(|j| j.attempt == 1 && j.fence == 1 && j.max_retries == 1 && &*j.lane.kind == "a"));
    // newest first, and two lanes at once
    let other = Ask { lane: Lane { kind: "b".into(), queue: "other".into(), priority: 0 }, ..ask("b", 9) };
    let jobs = db.store.claim(worker, &[Ask { newest_first: true, ..ask("a", 1) }, other]).await.unwrap();
    assert_eq!(jobs.len(), 2);
    let newest = jobs.iter().find(|j| &*j.lane.kind == "a").unwrap();
    assert_eq!(newest.id.get(), ids[5]);
    let other = jobs.iter().find(|j| &*j.lane.queue == "other").unwrap();
    assert_eq!((other.max_retries, other.args.as_deref()), (0, Ok("{}")));
    // from the row on that is said to be the first: more is asked for than there is, and what is held is passed over
    let known = Ask { behind, first: Some((1_000_000_000_000_000 + 4_000_000, ids[4])), ..ask("a", 9) };
    let jobs = db.store.claim(worker, std::slice::from_ref(&known)).await.unwrap();
    assert_eq!(jobs.iter().map(|j| j.id.get()).collect::<Vec<_>>(), ids[4..5]);
    // paused: nothing
    db.insert(&[job("a")]).await;
    db.store.set_paused("default", true).await.unwrap();
    assert!(db.take(worker, 9).await.is_empty());
    assert!(db.store.claim(worker, std::slice::from_ref(&known)).await.unwrap().is_empty());
    assert!(db.store.claim(worker, &[ask("a", 9), ask("b", 9)]).await.unwrap().is_empty());
    db.store.set_paused("default", false).await.unwrap();
    // a worker that is not alive: nothing
    assert!(db.take(worker + 1, 9).await.is_empty());
    db.expire(worker).await;
    assert!(db.take(worker, 9).await.is_empty());
    assert!(db.store.claim(worker, &[ask("a", 9), ask("b", 9)]).await.unwrap().is_empty());
}

/// Who moves a job has its row locked: an end waits for that, and does not go by what was there before.
async fn an_end_waits_for_whoever_moves_the_job<DB: TestDb>(db: Db<DB>) {
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
            let cancelled = |job| Finish { state: Outcome::Cancelled, error: Some("no".into()), ..done(job) };
            match number {
                0 => ends.finish(worker, &[done(&kept), done(&moved)]).await,
                1 => ends.finish(worker, &[cancelled(&kept), cancelled(&moved)]).await,
                2 => ends.put_back(worker, &[back(&kept), back(&moved)]).await,
                _ => ends.bury(worker, &[buried(&kept), buried(&moved)]).await,
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
    let release: Vec<_> = first
        .iter()
        .map(|j| PutBack {
            delay_us: None,
            uncount: 1,
            record: false,
            outcome: Outcome::Released,
            error: None,
            ..back(j)
        })
        .collect();
    assert_eq!(db.store.put_back(worker, &release).await.unwrap().len(), 3);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts").await, 0);
    let second = db.take(worker, 3).await;
    assert_eq!(second.len(), 3);
    for (a, b) in first.iter().zip(&second) {
        assert_eq!((a.id, a.run_at, a.attempt, a.fence + 1), (b.id, b.run_at, b.attempt, b.fence));
    }
    // same worker, older fence
    assert!(db.store.finish(worker, &[done(&first[0])]).await.unwrap().is_empty());
    assert!(db.store.put_back(worker, &[back(&first[0])]).await.unwrap().is_empty());
    assert!(db.store.bury(worker, &[buried(&first[0])]).await.unwrap().is_empty());
    // another worker
    let other = db.worker().await;
    assert!(db.store.finish(other, &[done(&second[0])]).await.unwrap().is_empty());
    assert!(db.store.put_back(other, &[back(&second[0])]).await.unwrap().is_empty());
    assert!(db.store.bury(other, &[buried(&second[0])]).await.unwrap().is_empty());
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs WHERE worker_id <> 0").await, 3);
    // a batch of good and bad, one job under both fences
    let batch = [done(&second[0]), done(&first[1]), done(&first[0])];
    let accepted = db.store.finish(worker, &batch).await.unwrap();
    assert_eq!(accepted, [second[0].id.get()]);
    let both = [PutBack { delay_us: Some(0), ..back(&first[1]) }, back(&second[1])];
    assert_eq!(db.store.put_back(worker, &both).await.unwrap(), [second[1].id.get()]);
    let both = [buried(&second[2]), Bury { error: "stale".into(), ..buried(&first[2]) }];
    assert_eq!(db.store.bury(worker, &both).await.unwrap(), [second[2].id.get()]);
    assert_eq!(db.text("SELECT result FROM queue_history").await, "{\"a\":\"\\u0000é\"}");
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts").await, 2);
    assert_eq!(db.text("SELECT error FROM queue_dead").await, "gone \u{fffd}");
    assert_eq!(db.text("SELECT outcome FROM queue_attempts ORDER BY job_id").await, "failed");
    let (soon, late) = (DB::in_seconds(3_500), DB::in_seconds(3_700));
    let waiting = format!(
        "SELECT COUNT(*) FROM queue_jobs WHERE worker_id = 0 AND attempt = 1 AND fence = 2 AND max_retries = 1 AND run_at BETWEEN {soon} AND {late}"
    );
    assert_eq!(db.int(waiting).await, 1);
}

async fn an_end_is_kept_as_it_was_told<DB: TestDb>(db: Db<DB>) {
    const DAY_US: i64 = 86_400_000_000;
    db.insert(&[job("a"), job("a"), job("a"), job("a"), job("a"), job("a")]).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 6).await;
    let plain = |job: &Claimed, ran_us| Finish { result: None, ran_us, ..done(job) };
    let batch = [
        Finish { result: Some("[0]".into()), ..plain(&jobs[0], 0) },
        plain(&jobs[1], DAY_US),
        plain(&jobs[2], 200 * DAY_US),
        Finish { ran_us: DAY_US, result: Some("3".into()), ..done(&jobs[3]) },
        Finish { state: Outcome::Cancelled, error: Some("why".into()), ..plain(&jobs[4], DAY_US) },
        Finish { fence: jobs[5].fence + 1, ..plain(&jobs[5], DAY_US) },
    ];
    let mut accepted = db.store.finish(worker, &batch).await.unwrap();
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
    assert_eq!(db.store.finish(worker, &[plain(&jobs[5], 0)]).await.unwrap(), [jobs[5].id.get()]);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 0);
}

async fn attempts_without_count_are_not_kept_without_end<DB: TestDb>(db: Db<DB>) {
    db.insert(&[job("a"), job("b")]).await;
    let worker = db.worker().await;
    let failed = db.take(worker, 1).await;
    db.store.put_back(worker, &[PutBack { delay_us: Some(0), ..back(&failed[0]) }]).await.unwrap();
    let other = db.store.claim(worker, &[ask("b", 1)]).await.unwrap();
    for fence in 2..=350 {
        let mut jobs = db.take(worker, 1).await;
        let job = jobs.pop().unwrap_or_else(|| panic!("it is there for lease {fence}"));
        assert_eq!(job.fence, fence);
        let outcome = if fence % 3 == 0 { Outcome::Released } else { Outcome::Snoozed };
        let snoozed = PutBack { delay_us: Some(0), uncount: 1, outcome, error: None, ..back(&job) };
        if fence == 300 {
            let stale = PutBack { fence: 299, ..snoozed.clone() };
            let count = "SELECT COUNT(*) FROM queue_attempts";
            let before = db.int(count).await;
            assert!(db.store.put_back(worker, &[stale]).await.unwrap().is_empty());
            assert_eq!(db.int(count).await, before);
            // one that is not accepted forgets nothing, whatever it says
            let foreign = PutBack { fence: 400, ..snoozed.clone() };
            assert!(db.store.put_back(worker, &[foreign]).await.unwrap().is_empty());
            assert_eq!(db.int(count).await, before);
        }
        // beside another that forgets nothing
        let batch = if fence == 200 { vec![back(&other[0]), snoozed] } else { vec![snoozed] };
        assert_eq!(db.store.put_back(worker, &batch).await.unwrap().len(), batch.len());
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
        "INSERT INTO queue_history (id, kind, queue, state, args, priority, attempt, fence, worker_id, enqueued_at, run_at, finished_at)
         SELECT id, kind, queue, 'completed', args, priority, attempt, 0, worker_id, enqueued_at, run_at, run_at
         FROM queue_jobs WHERE id = {}", jobs[1].id)).await;
    let batch: Vec<_> = jobs.iter().map(done).collect();
    let error = db.store.finish(worker, &batch).await.unwrap_err();
    assert!(error.blames_the_row(), "{error}");
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 3);
    // the recorder takes the batch apart
    assert_eq!(db.store.finish(worker, &batch[..1]).await.unwrap(), [jobs[0].id.get()]);
    assert_eq!(db.store.finish(worker, &batch[2..]).await.unwrap(), [jobs[2].id.get()]);
    assert!(db.store.finish(worker, &batch[1..2]).await.is_err());
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
    let unnamed = db.store.beat(worker, LEASE, Holding { any: true, ..Holding::default() }, &[]).await.unwrap();
    assert!(unnamed.cancelled.is_empty(), "it hears of the jobs that it names");
    let running: Vec<_> = asked.iter().copied().chain([last[0].id.get()]).collect();
    let beat = db
        .store
        .beat(worker, LEASE, Holding { any: true, running: &running, ..Holding::default() }, &[])
        .await
        .unwrap();
    assert!(beat.alive && beat.leases.is_empty() && !beat.work);
    let mut told: Vec<_> = beat.cancelled.iter().map(|(id, fence)| (id.get(), *fence)).collect();
    told.sort_unstable();
    assert_eq!(told, asked.iter().map(|id| (*id, 1)).collect::<Vec<_>>());
    let mut accepted = db.store.put_back(worker, &[back(&jobs[0]), back(&last[0])]).await.unwrap();
    accepted.sort_unstable();
    assert_eq!(accepted, [asked[0], last[0].id.get()]);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history WHERE state = 'cancelled'").await, 1);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs WHERE worker_id = 0").await, 1);
    // by its own will, with the attempt on record
    let cancelled = Finish { state: Outcome::Cancelled, error: Some("why".into()), result: None, ..done(&jobs[1]) };
    assert_eq!(db.store.finish(worker, &[cancelled]).await.unwrap(), [asked[1]]);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts WHERE outcome = 'cancelled' AND error = 'why'").await, 1);
    // lost meanwhile
    db.lose(worker).await;
    assert_eq!(db.rescue(10).await, Rescued { cancelled: 1, ..Rescued::default() });
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history WHERE state = 'cancelled'").await, 3);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 1);
}

async fn a_beat_sees_jobs_that_wait<DB: TestDb>(db: Db<DB>) {
    let worker = db.worker().await;
    let kinds = ["a".to_owned(), "b".to_owned()];
    db.insert(&[job("c")]).await;
    assert!(
        !db.store.beat(worker, LEASE, Holding::default(), &kinds).await.unwrap().work,
        "nothing of these kinds waits"
    );
    db.insert(&[job("b")]).await;
    assert_eq!(db.store.beat(worker, LEASE, Holding::default(), &kinds).await.unwrap().work, DB::BEAT_LOOKS);
    assert!(!db.store.beat(worker, LEASE, Holding::default(), &[]).await.unwrap().work, "it was not told to look");
}

async fn lost_jobs_come_back<DB: TestDb>(db: Db<DB>) {
    db.insert(&(0..5).map(|_| job("a")).collect::<Vec<_>>()).await;
    db.insert(&[NewJob { max_retries: 0, ..job("b") }]).await;
    let (lost, well) = (db.worker().await, db.worker().await);
    let mut held = db.store.claim(lost, &[ask("a", 3), ask("b", 1)]).await.unwrap();
    held.sort_by_key(|j| j.id);
    let kept = db.take(well, 1).await;
    assert_eq!((held.len(), kept.len()), (4, 1));
    db.begin(lost, &held).await;
    assert_eq!(db.rescue(100).await, Rescued::default());
    let beat = db.store.beat(well, LEASE, Holding::default(), &[]).await.unwrap();
    let [lease] = beat.leases[..] else { panic!("{beat:?}") };
    assert!(lease.left > micros(LEASE) / 2 && lease.left <= micros(LEASE), "{beat:?}");
    assert_eq!((lease.worker, lease.given, lease.heartbeat), (lost, micros(LEASE), db.heartbeat(lost).await));
    db.expire(lost).await;
    let [lease] = db.store.beat(well, LEASE, Holding::default(), &[]).await.unwrap().leases[..] else { panic!() };
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
    assert!(!db.store.beat(lost, LEASE, Holding::default(), &[]).await.unwrap().alive);
    assert!(db.take(lost, 9).await.is_empty());
    assert!(db.store.finish(lost, &[done(&held[0])]).await.unwrap().is_empty());
    assert!(db.store.beat(well, LEASE, Holding::default(), &[]).await.unwrap().alive);
    assert_eq!(db.store.finish(well, &[done(&kept[0])]).await.unwrap().len(), 1);
    // jobs of a worker without a row
    let more = db.take(well, 9).await;
    assert_eq!(more.len(), 4);
    db.begin(well, &more).await;
    db.sql("DELETE FROM queue_workers").await;
    assert_eq!(db.rescue(100).await, Rescued { ready: 1, dead: 3, cancelled: 0 });
    let gone = db.worker().await;
    db.store.leave(gone).await.unwrap();
    assert!(!db.store.beat(gone, LEASE, Holding::default(), &[]).await.unwrap().alive);
}

async fn only_what_began_counts_when_its_worker_is_lost<DB: TestDb>(db: Db<DB>) {
    let job = |kind| NewJob { max_retries: 3, ..NewJob::example(kind) };
    db.insert(&[job("began"), job("fresh"), job("suspect"), NewJob { max_retries: 0, ..job("last") }]).await;
    let one = db.worker().await;
    let asks = |kinds: &[&'static str]| kinds.iter().map(|kind| ask(kind, 1)).collect::<Vec<_>>();
    let all = db.store.claim(one, &asks(&["began", "fresh", "suspect", "last"])).await.unwrap();
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
    let again = db.store.claim(two, &asks(&["began", "fresh", "suspect", "last"])).await.unwrap();
    let seen = |kind: &str| {
        let job = of(&again, kind);
        (job.attempt, job.losses)
    };
    assert_eq!((seen("began"), seen("fresh"), seen("suspect"), seen("last")), ((2, 1), (1, 1), (2, 1), (1, 0)));
    // `fresh` alone, where it is known to have begun: it answers for the attempt of which nobody knew
    let alone = |job: &Claimed| Start { id: job.id.get(), fence: job.fence, max_neighbours: Some(0) };
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
    let jobs = db.store.claim(three, &asks(&["fresh", "began"])).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.losses).collect::<Vec<_>>(), [2, 2]);
    let ends = |kind, outcome| PutBack { outcome, ..back(&of(&jobs, kind)) };
    db.store.put_back(three, &[ends("fresh", Outcome::Failed), ends("began", Outcome::Released)]).await.unwrap();
    assert_eq!((row("fresh").await.1, row("began").await.1), (0, 2));
}

/// Jobs that were lost together twice do not all come back at once.
async fn jobs_that_were_lost_again_wait_for_different_times<DB: TestDb>(db: Db<DB>) {
    db.insert(&(0..12).map(|_| NewJob { max_retries: 9, ..job("a") }).collect::<Vec<_>>()).await;
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

/// What a worker says or asks of a job that is not its own any more comes to nothing.
async fn starts_and_long_arguments_are_fenced<DB: TestDb>(db: Db<DB>) {
    let args = format!("{{\"text\":\"{}\"}}", "x".repeat(crate::limits::ARGS_AT_CLAIM_BYTES));
    db.insert(&[NewJob { args: args.clone(), ..job("a") }, job("a")]).await;
    let (worker, other) = (db.worker().await, db.worker().await);
    let jobs = db.take(worker, 9).await;
    assert_eq!(jobs[0].args.as_ref().err(), Some(&(args.len() as i64)), "they stay where they are for now");
    assert!(jobs[1].args.is_ok());
    let (id, fence) = (jobs[0].id.get(), jobs[0].fence);
    let start = |fence| [Start { id, fence, max_neighbours: Some(3) }];
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

/// SQLite writes whole rows, so its claims end early where arguments are long, and skip nothing.
async fn a_claim_of_long_arguments_is_small<DB: TestDb>(db: Db<DB>) {
    let long = || NewJob { args: format!("[\"{}\"]", "x".repeat(crate::limits::ARGS_AT_CLAIM_BYTES)), ..job("a") };
    let jobs: Vec<NewJob> = (0..20).map(|n| if (3..15).contains(&n) { long() } else { job("a") }).collect();
    let ids = db.insert(&jobs).await;
    let worker = db.worker().await;
    let numbers = |jobs: Vec<Claimed>| jobs.iter().map(|job| job.id.get()).collect::<Vec<_>>();
    let newest = Ask { newest_first: true, ..ask("a", 99) };
    let by_whole_rows = DB::KIND == crate::engine::Engine::Sqlite;
    let claims: &[usize] = if by_whole_rows { &[11, 9] } else { &[20] };
    let mut rest = &ids[..];
    for count in claims {
        let (first, others) = rest.split_at(*count);
        let mut claimed = numbers(db.take(worker, 99).await);
        claimed.sort_unstable();
        assert_eq!(claimed, first);
        rest = others;
    }
    assert!(rest.is_empty() && db.take(worker, 99).await.is_empty());
    db.sql("UPDATE queue_jobs SET worker_id = 0").await;
    let claimed = numbers(db.store.claim(worker, &[newest]).await.unwrap());
    assert_eq!(claimed.len(), if by_whole_rows { 6 } else { 20 }, "five short ones and the long one before them");
    assert!(claimed.iter().all(|id| by_whole_rows <= (*id >= ids[14])), "{claimed:?}");
}

async fn a_lost_job_that_cannot_be_moved_keeps_no_other<DB: TestDb>(db: Db<DB>) {
    // somebody has written a dead letter under the number of a job
    let doomed = |kind| NewJob { max_retries: 0, ..job(kind) };
    let ids = db.insert(&[doomed("a"), job("a"), job("a"), doomed("a")]).await;
    db.sql(format!(
        "INSERT INTO queue_dead (id, kind, queue, args, priority, attempt, fence, worker_id, enqueued_at, run_at, finished_at, error) \
         SELECT id, kind, queue, args, priority, 1, 1, 1, enqueued_at, run_at, run_at, 'x' FROM queue_jobs WHERE id = {}",
        ids[0]
    ))
    .await;
    let lost = db.worker().await;
    let held = db.take(lost, 9).await;
    assert_eq!(held.len(), 4);
    db.begin(lost, &held).await;
    db.sql(format!("UPDATE queue_jobs SET cancel_requested_at = run_at WHERE id = {}", ids[1])).await;
    db.store.leave(lost).await.unwrap();
    let rescued = Rescued { ready: 1, dead: 1, cancelled: 1 };
    let (sum, mut left) = (&mut Rescued::default(), HashSet::new());
    for _ in 0..4 {
        // one at a time, so that the one that stays comes first each time
        let (one, refused) = db.store.rescue(1, &left).await.unwrap();
        *sum += one;
        left.extend(refused);
    }
    assert_eq!((*sum, left), (rescued, HashSet::from([ids[0]])), "all but one");
    assert_eq!(db.rescue(100).await, Rescued::default(), "nor does it keep the rescue busy when it is alone");
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs WHERE worker_id <> 0").await, 1);
}

/// What was listed as a dead letter may have been sent back by now.
async fn only_what_is_in_the_state_is_deleted<DB: TestDb>(db: Db<DB>) {
    let ids = db.insert(&[job("a"), job("a"), job("a")]).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 2).await;
    db.store.finish(worker, &[done(&jobs[0])]).await.unwrap();
    assert_eq!(db.store.bury(worker, &[buried(&jobs[1])]).await.unwrap(), [ids[1]]);
    assert_eq!(db.store.send_back(&[ids[1]]).await.unwrap(), [ids[1]]);
    use crate::JobState::{Cancelled, Dead, Ready};
    assert!(db.store.delete(&ids, Some(Dead)).await.unwrap().is_empty());
    assert_eq!(db.store.delete(&ids, Some(Cancelled)).await.unwrap(), [ids[0]], "it is over");
    assert_eq!(db.store.delete(&ids, Some(Ready)).await.unwrap().len(), 2);
}

async fn a_declaration_is_fenced<DB: TestDb>(db: Db<DB>) {
    let (worker, rescuer) = (db.worker().await, SqlStore::new(db.pool.clone()));
    db.store.beat(worker, LEASE, Holding::default(), &[]).await.unwrap();
    let look = async || -> Option<Sight> {
        let beat = rescuer.beat(0, LEASE, Holding::default(), &[]).await.unwrap();
        beat.others.into_iter().find(|other| other.id == worker)
    };
    let Some(seen) = look().await else {
        assert!(DB::SESSIONS.is_none() && !rescuer.declare_gone(worker, 0, false).await.unwrap());
        return;
    };
    assert!(
        seen.held && !rescuer.declare_gone(worker, seen.heartbeat, false).await.unwrap(),
        "its session holds the lock"
    );
    db.store.release().await;
    // the server sees the end of a session a little later
    while look().await.is_some_and(|seen| seen.held) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!rescuer.declare_gone(worker, seen.heartbeat + 1, false).await.unwrap(), "it has beaten since");
    db.sql("UPDATE queue_heartbeats SET server_run = server_run - 1000000").await;
    assert!(
        !rescuer.declare_gone(worker, seen.heartbeat, false).await.unwrap(),
        "in another run of the server all locks are free"
    );
    db.sql("UPDATE queue_heartbeats SET server_run = server_run + 1000000").await;
    assert!(rescuer.declare_gone(worker, seen.heartbeat, false).await.unwrap());
    assert!(!rescuer.declare_gone(worker, seen.heartbeat, false).await.unwrap(), "only once");
}

async fn a_lease_that_ran_out_is_fenced<DB: TestDb>(db: Db<DB>) {
    let worker = db.worker().await;
    let seen = db.heartbeat(worker).await;
    let declare = async |heartbeat| db.store.declare_gone(worker, heartbeat, true).await.unwrap();
    assert!(!declare(seen).await, "it runs");
    db.expire(worker).await;
    let unit = if DB::KIND == crate::engine::Engine::Sqlite { 1_000 } else { 1 };
    assert!(!declare(seen - unit).await, "it has beaten since");
    assert!(declare(seen).await);
    assert!(!declare(seen).await, "only once");
    assert!(!db.store.beat(worker, LEASE, Holding::default(), &[]).await.unwrap().alive);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_heartbeats").await, 0);
    assert_eq!(db.int(format!("SELECT {} FROM queue_workers", DB::micros("heartbeat_at"))).await, seen);
    // a worker that is stopped by hand sends no more heartbeats
    let stopped = db.worker().await;
    db.sql(format!("UPDATE queue_workers SET stopped_at = {} WHERE id = {stopped}", DB::in_seconds(0))).await;
    assert!(!db.store.beat(stopped, LEASE, Holding::default(), &[]).await.unwrap().alive);
}

/// Heartbeats of 33 busy workers beside an old snapshot, which keeps what they leave behind. The last ones take at most
/// twice as long as the first, and read no more pages than these (PostgreSQL tells).
async fn beats_beside_an_old_snapshot<DB: TestDb>(db: &Db<DB>, beats: usize) {
    const WORKERS: usize = 33;
    const ROUNDS: usize = 10;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(db.worker().await);
    }
    let mut conn = db.pool.acquire().await.unwrap();
    conn.close_on_drop();
    for sql in DB::OPEN_LINE {
        DB::raw(&mut conn, sql).await.unwrap();
    }
    let mut snapshot = db.pool.acquire().await.unwrap();
    snapshot.close_on_drop();
    let begin = match DB::KIND {
        crate::engine::Engine::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM queue_workers",
        crate::engine::Engine::MySql => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        crate::engine::Engine::Sqlite => return, // its pages have one version
    };
    DB::raw(&mut snapshot, begin).await.unwrap();
    let beat = async |conn: &mut DB::Connection, number: usize| {
        let worker = workers[number % WORKERS].into();
        let binds = [
            worker,
            micros(LEASE).into(),
            "[]".into(),
            "[1,2,3]".into(),
            "[]".into(),
            0.into(),
            0.into(),
            1.into(),
            micros(LEASE).into(),
        ];
        let begin = Instant::now();
        for sql in DB::BEAT {
            rows::<DB>(conn, sql, &binds).await.unwrap();
        }
        begin.elapsed()
    };
    let time = async |conn: &mut DB::Connection| {
        let mut times = Vec::new();
        for number in 0..ROUNDS * WORKERS {
            times.push(beat(conn, number).await);
        }
        times.sort_unstable();
        times[times.len() / 2]
    };
    let pages = async |conn: &mut DB::Connection| {
        if DB::KIND != crate::engine::Engine::Postgres {
            return 0;
        }
        let values = format!("({}, 9000000, '[]', '[1,2,3]', '[]', 0, 0, 1, 9000000)", workers[WORKERS / 2]);
        let explain: &'static str = format!("EXPLAIN (ANALYZE, BUFFERS) EXECUTE counted {values}").leak();
        let plan = rows::<DB>(conn, explain, &[]).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.text(0).unwrap()).collect();
        let hits = plan.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared hit=")).expect("a count");
        hits.split(' ').next().and_then(|hits| hits.parse().ok()).expect("a number")
    };
    if DB::KIND == crate::engine::Engine::Postgres {
        let types = "(bigint, bigint, text, text, text, bigint, bigint, bigint, bigint)";
        DB::raw(&mut conn, format!("PREPARE counted {types} AS {}", DB::BEAT[0]).leak()).await.unwrap();
        pages(&mut conn).await; // reads the catalogue
    }
    let first_pages: u64 = pages(&mut conn).await;
    let mut first = time(&mut conn).await;
    // of a machine that has other work the quicker ones tell
    for _ in 0..3 {
        first = first.min(time(&mut conn).await);
    }
    for number in 0..beats {
        beat(&mut conn, number).await;
    }
    let last_pages = pages(&mut conn).await;
    let mut last = time(&mut conn).await;
    for _ in 0..9 {
        if last <= 2 * first {
            break;
        }
        last = last.min(time(&mut conn).await);
    }
    println!("{beats} heartbeats: {first:?} at first, {last:?} at last; {first_pages} and {last_pages} pages");
    assert!(last <= 2 * first, "{first:?} at first, {last:?} at last");
    assert!(last_pages <= 2 * first_pages, "{first_pages} pages at first, {last_pages} at last");
}

async fn beats_cost_no_more_beside_an_old_snapshot<DB: TestDb>(db: Db<DB>) {
    beats_beside_an_old_snapshot(&db, 5_000).await;
}

async fn beats_for_hours_cost_no_more_beside_an_old_snapshot<DB: TestDb>(db: Db<DB>) {
    beats_beside_an_old_snapshot(&db, 300_000).await;
}

async fn lanes_leave_out_what_is_not_served<DB: TestDb>(db: Db<DB>) {
    let lane = |kind, queue: &'static str, priority, delay| NewJob {
        queue: queue.into(),
        priority,
        delay_us: delay,
        ..job(kind)
    };
    db.insert(&[
        lane("a", "default", 0, None),
        lane("a", "default", 0, Some(60_000_000)),
        lane("a", "default", -5, None),
        lane("a", "mail", 7, Some(100_000_000)),
        lane("a", "held", 0, None),
        lane("b", "default", 0, None),
        lane("foreign", "default", 0, None),
    ])
    .await;
    db.store.set_paused("held", true).await.unwrap();
    let scope = |kinds: &[&str], queues: &[&str]| Scope {
        kinds: kinds.iter().map(|k| (*k).to_owned()).collect(),
        queues: queues.iter().map(|q| (*q).to_owned()).collect(),
    };
    let heads = async |scope: Scope| {
        let mut lanes = db.store.lanes(&scope, &[], 1_000).await.unwrap().heads;
        lanes.sort_by_key(|h| (h.lane.kind.clone(), h.lane.queue.clone(), h.lane.priority));
        lanes
    };
    let all = heads(scope(&["a", "b", "nothing"], &[])).await;
    let names: Vec<_> = all.iter().map(|h| (&*h.lane.kind, &*h.lane.queue, h.lane.priority)).collect();
    assert_eq!(names, [("a", "default", -5), ("a", "default", 0), ("a", "mail", 7), ("b", "default", 0)]);
    assert_eq!(all[0].due_in, Duration::ZERO);
    assert_eq!(all[1].due_in, Duration::ZERO);
    assert!(
        all[2].due_in > Duration::from_secs(90) && all[2].due_in <= Duration::from_secs(101),
        "{:?}",
        all[2].due_in
    );
    assert_eq!(heads(scope(&["a"], &["mail"])).await.len(), 1);
    assert!(heads(scope(&["nothing"], &[])).await.is_empty());
}

/// A look finds no more lanes than it is told, and the next one goes on behind them: all are found in the end.
async fn looks_go_on_behind_the_last_lane<DB: TestDb>(db: Db<DB>) {
    let lane = |kind, queue: String, priority| NewJob { queue: queue.into(), priority, ..job(kind) };
    let mut jobs = vec![lane("c", "default".into(), 0)];
    jobs.extend((0..700).map(|n| lane("a", format!("q{:03}", n / 7), n % 7 - 3)));
    jobs.extend((0..90).map(|n| lane("b", format!("p{n}"), 0)));
    jobs.extend((0..300).map(|_| lane("b", "deep".into(), 0)));
    db.insert(&jobs).await;
    db.store.set_paused("q050", true).await.unwrap();
    let kinds = ["a", "b", "c", "none"].map(str::to_owned).to_vec();
    let scope = Scope { kinds, queues: vec![] };
    for most in [1, 2, 40, 333, 5_000] {
        let (mut behind, mut lanes, mut looks) = (Vec::<Lane>::new(), HashSet::new(), 0);
        let mut pending: Option<Vec<Lane>> = None;
        loop {
            let found = db.store.lanes(&scope, &behind, most).await.unwrap();
            assert!(found.heads.len() <= most.max(600), "{} of {most}", found.heads.len());
            for head in found.heads {
                lanes.insert(head.lane);
            }
            behind = found.stopped;
            looks += 1;
            // a kind that is gone through begins anew
            let mut last = pending.take().unwrap_or_else(|| behind.clone());
            last.retain(|lane| behind.iter().any(|stopped| stopped.kind == lane.kind));
            if last.is_empty() {
                break;
            }
            pending = Some(last);
            assert!(looks < 2_000, "it comes to no end");
        }
        assert_eq!(lanes.len(), 700 - 7 + 91 + 1, "{most} at a time, {looks} looks");
    }
}

async fn peek_counts_in_order<DB: TestDb>(db: Db<DB>) {
    let peek = async |asks: &[Ask], reach| db.store.peek(asks, reach).await.unwrap();
    let counts =
        async |asks: &[Ask], reach| peek(asks, reach).await.iter().map(|share| share.count).collect::<Vec<_>>();
    let at = |kind, priority, second: i64| NewJob {
        priority,
        run_at_us: Some(1_000_000_000_000_000 + second * 1_000_000),
        ..job(kind)
    };
    let ids = db
        .insert(&[
            at("a", 0, 1),
            at("b", 0, 2),
            at("a", 0, 3),
            at("b", 0, 4),
            at("a", 0, 5),
            at("c", -1, 9),
            at("a", 5, 0),
        ])
        .await;
    let urgent = Ask { lane: Lane { priority: -1, ..ask("c", 0).lane }, ..ask("c", 0) };
    let asks = [ask("a", 0), ask("b", 0), urgent];
    let all = |most| Reach { most, least: 0, before: None, until: None };
    for (most, expected) in [(1, [0, 0, 1]), (2, [1, 0, 1]), (3, [1, 1, 1]), (4, [2, 1, 1]), (99, [3, 2, 1])] {
        assert_eq!(counts(&asks, all(most)).await, expected, "{most}");
    }
    let behind = Ask { behind: Some((1_000_000_001_000_000, ids[0])), ..ask("a", 0) };
    assert_eq!(counts(&[behind, ask("b", 0)], all(2)).await, [1, 1]);
    let newest = Ask { newest_first: true, ..ask("a", 0) };
    assert_eq!(counts(std::slice::from_ref(&newest), all(2)).await, [2]);
    // what comes before another lane, and so many in any case
    let second = |n: i64| 1_000_000_000_000_000 + n * 1_000_000;
    for ((priority, time, id), least, expected) in [
        ((-1, second(9), 0), 0, [0, 0, 0]),
        ((0, i64::MIN, 0), 0, [0, 0, 1]),
        ((0, second(2), ids[1]), 0, [1, 0, 1]),
        ((0, second(2), ids[1] + 1), 0, [1, 1, 1]),
        ((0, second(2) + 1, 0), 0, [1, 1, 1]),
        ((0, second(2), 0), 4, [2, 1, 1]),
        ((1, i64::MIN, 0), 0, [3, 2, 1]),
    ] {
        let reach = Reach { most: 9, least, before: Some((priority, (time, id))), until: None };
        assert_eq!(counts(&asks, reach).await, expected, "{reach:?}");
    }
    let reach = Reach { most: 9, least: 0, before: Some((0, (-second(3), -ids[2]))), until: None };
    assert_eq!(counts(&[ask("b", 0), newest.clone()], reach).await, [0, 2]);
    // what is sure, and from where to where it goes, within reach or not
    let reach = Reach { most: 4, least: 3, before: Some((0, (second(2), 0))), until: None };
    let share = |[count, sure, all]: [u32; 3], ends| Share { count, sure, all, ends: Some(ends) };
    // of one time the ids are known; else the least of them all, and nothing of the last one's
    let a = ((second(1), ids[0]), (second(3), i64::MIN));
    let [b, urgent] = [(2, ids[1]), (9, ids[5])].map(|(n, id)| ((second(n), id), (second(n), id)));
    let expected = [share([1, 1, 2], a), share([1, 0, 1], b), share([1, 1, 1], urgent)];
    assert_eq!(peek(&asks, reach).await, expected);
    let reach = Reach { most: 1, least: 0, before: Some((-1, (second(0), 0))), until: None };
    assert_eq!(peek(&asks, reach).await, [Share::default(), Share::default(), share([0, 0, 1], urgent)]);
    let reach = Reach { most: 2, least: 0, before: None, until: None };
    let ends = ((-second(5), -1 - ids[4]), (-second(3), i64::MIN));
    assert_eq!(peek(std::slice::from_ref(&newest), reach).await, [share([2, 2, 2], ends)]);
    // what is not read
    for ((priority, time, id), expected) in [
        ((-1, second(9), 0), [0, 0, 0]),
        ((-1, second(9) + 1_000, i64::MIN), [0, 0, 1]),
        ((0, second(2), ids[1]), [1, 0, 1]),
        ((0, second(2), ids[1] + 1), [1, 1, 1]),
        ((0, second(2) + 1_000, i64::MIN), [1, 1, 1]),
        ((1, 0, 0), [3, 2, 1]),
    ] {
        let reach = Reach { most: 9, least: 9, before: None, until: Some((priority, (time, id))) };
        assert_eq!(counts(&asks, reach).await, expected, "{reach:?}");
    }
    let reach = Reach { most: 9, least: 0, before: None, until: Some((0, (second(2), 0))) };
    assert_eq!(counts(&[ask("b", 0), newest.clone()], reach).await, [0, 3]);
    // what is due later is not read, however far it goes
    let reach = Reach { most: 9, least: 9, before: None, until: Some((1, (0, 0))) };
    db.insert(&[NewJob { delay_us: Some(60_000_000), ..job("b") }]).await;
    assert_eq!(counts(&[ask("b", 0)], reach).await, [2]);
    // what is paused would be in the way of the others: no claim takes it
    db.sql(format!("INSERT INTO queue_paused (queue, paused_at) VALUES ('default', {})", DB::in_seconds(0))).await;
    assert_eq!(counts(&[ask("b", 0), newest], all(9)).await, [0, 0]);
}

/// Of jobs that are all due at one and the same time, no more are read than come before an id.
async fn peek_ends_at_an_id<DB: TestDb>(db: Db<DB>) {
    let at = NewJob { run_at_us: Some(1_000_000_000_000_000), ..job("a") };
    let ids = db.insert(&vec![at; 2_000]).await;
    let mut conn = db.pool.acquire().await.unwrap();
    for (behind, end) in [(None, 30), (Some(10), 30), (Some(1_500), 1_520)] {
        let place = |n: usize| (1_000_000_000_000_000, ids[n]);
        let ask = Ask { behind: behind.map(place), ..ask("a", 0) };
        let reach = Reach { most: 500, least: 500, before: None, until: Some((0, place(end))) };
        let before = counted::<DB>(&mut conn, WALKED).await;
        let share = DB::peek(&mut conn, std::slice::from_ref(&ask), reach).await.unwrap()[0];
        let read = counted::<DB>(&mut conn, WALKED).await - before;
        let first = behind.map_or(0, |n| n + 1);
        assert_eq!(share.count as usize, end - first);
        assert_eq!(share.ends, Some((place(first), place(end - 1))));
        assert!(read < 200, "{read} rows");
    }
}

async fn purge_is_bounded<DB: TestDb>(db: Db<DB>) {
    db.insert(&(0..10).map(|_| job("a")).collect::<Vec<_>>()).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 10).await;
    let ends: Vec<_> = jobs.iter().map(|j| Finish { state: Outcome::Cancelled, result: None, ..done(j) }).collect();
    assert_eq!(db.store.finish(worker, &ends).await.unwrap().len(), 10);
    let week = Duration::from_secs(7 * 86_400);
    assert_eq!(db.store.purge(week, 100).await.unwrap(), 0);
    db.sql(format!("UPDATE queue_history SET finished_at = {} WHERE id < {}", DB::in_seconds(-8 * 86_400), jobs[7].id))
        .await;
    assert_eq!(db.store.purge(week, 5).await.unwrap(), 5);
    assert_eq!(db.store.purge(week, 5).await.unwrap(), 2);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_history").await, 3);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_attempts").await, 3);
    let gone = db.worker().await;
    db.store.leave(gone).await.unwrap();
    db.sql(format!("UPDATE queue_workers SET stopped_at = {} WHERE id = {gone}", DB::in_seconds(-8 * 86_400))).await;
    db.store.purge_workers(week).await.unwrap();
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_workers").await, 1);
    assert_eq!(db.int("SELECT worker_id FROM queue_heartbeats").await, worker);
}

/// Many old jobs are removed by runs of consecutive ids: nothing between these goes with them. By two workers at once.
async fn purge_leaves_what_is_younger<DB: TestDb>(db: Db<DB>) {
    db.insert(&vec![job("a"); 200]).await;
    let worker = db.worker().await;
    let ends: Vec<_> =
        db.take(worker, 200).await.iter().map(|j| Finish { state: Outcome::Cancelled, ..done(j) }).collect();
    assert_eq!(db.store.finish(worker, &ends).await.unwrap().len(), 200);
    let hour = Duration::from_secs(3_600);
    let first = db.int("SELECT MIN(id) FROM queue_history").await;
    let other = SqlStore::<DB>::new(db.pool.clone());
    let mut left: Vec<i64> = (0..200).collect();
    // in three runs, then in too many
    for is_old in [|n: i64| n < 90 && n != 5 && n != 50, |n| n % 3 == 0] {
        let (old, young): (Vec<i64>, Vec<i64>) = left.iter().partition(|n| is_old(**n));
        assert!(old.len() >= 32);
        let count = old.len() as u64;
        let old = old.iter().map(|n| (first + n).to_string()).collect::<Vec<_>>().join(", ");
        let two_hours_ago = DB::in_seconds(-7_200);
        db.sql(format!("UPDATE queue_history SET finished_at = {two_hours_ago} WHERE id IN ({old})")).await;
        let (one, two) = tokio::join!(db.store.purge(hour, 1_000), other.purge(hour, 1_000));
        assert_eq!(one.unwrap() + two.unwrap(), count, "each is counted once");
        for column in ["id FROM queue_history", "job_id FROM queue_attempts"] {
            let sql: &str = format!("SELECT {column} ORDER BY 1").leak();
            let mut conn = db.pool.acquire().await.unwrap();
            let found: Vec<_> = ids::<DB>(&mut conn, sql, &[]).await.unwrap().iter().map(|id| id - first).collect();
            assert_eq!(found, young, "{column}");
        }
        left = young;
    }
}

async fn a_dropped_operation_leaves_the_store_usable<DB: TestDb>(db: Db<DB>) {
    db.insert(&(0..200).map(|_| job("a")).collect::<Vec<_>>()).await;
    let worker = db.worker().await;
    for after in 0..40 {
        let _ = tokio::time::timeout(Duration::from_micros(after * 50), db.store.claim(worker, &[ask("a", 1)])).await;
        let _ = tokio::time::timeout(
            Duration::from_micros(after * 50),
            db.store.beat(worker, LEASE, Holding::default(), &[]),
        )
        .await;
    }
    assert!(db.store.beat(worker, LEASE, Holding::default(), &[]).await.unwrap().alive);
    assert!(!db.take(worker, 500).await.is_empty());
    db.store.leave(worker).await.unwrap();
    db.sql("DELETE FROM queue_jobs").await;
}

/// A look beside the claims that does not come to an end keeps nobody: here it waits for a lock on the whole table.
async fn a_look_is_given_up<DB: TestDb>(db: Db<DB>) {
    let lock = match DB::KIND {
        crate::engine::Engine::Postgres => "LOCK TABLE queue_jobs IN ACCESS EXCLUSIVE MODE",
        crate::engine::Engine::MySql => "LOCK TABLES queue_jobs WRITE",
        // readers wait for nobody
        _ => return,
    };
    let mut tx = db.pool.begin().await.unwrap();
    DB::raw(&mut tx, lock).await.unwrap();
    let scope = Scope { kinds: vec!["a".into()], queues: vec![] };
    let store = db.store.clone();
    let mut look = tokio::spawn(async move { store.lanes_beside(&scope, &[], 1_000).await.map(drop) });
    let began = Instant::now();
    let ended = loop {
        db.store.abandon();
        if let Ok(ended) = tokio::time::timeout(Duration::from_millis(20), &mut look).await {
            break ended.unwrap();
        }
        assert!(began.elapsed() < LOOK_LIMIT / 2, "it is still under way");
    };
    assert!(ended.is_err(), "it cannot have seen the table");
    drop(tx);
}

/// A transaction of a worker that is cut off midway ends, though its connection stays open. A line on which nothing is to be
/// said does not.
async fn only_a_silent_transaction_ends<DB: TestDb>(db: Db<DB>) {
    let session = match DB::KIND {
        crate::engine::Engine::Postgres => "SELECT pg_backend_pid()::bigint",
        crate::engine::Engine::MySql => "SELECT CAST(CONNECTION_ID() AS SIGNED)",
        // no network is between
        _ => return,
    };
    let sessions = async || {
        let mut found = Vec::new();
        for from in [From::Claims, From::Endings, From::Duties] {
            let id = db.store.run(from, Mode::Read, "ask", session, |conn, sql| {
                async move { rows::<DB>(conn, sql, &[]).await?[0].int(0) }.boxed()
            });
            found.push(id.await.unwrap());
        }
        found
    };
    let before = sessions().await;
    let id = db.insert(&[job("a")]).await[0];
    let lock = Box::leak(format!("SELECT id FROM queue_jobs WHERE id = {id} FOR UPDATE").into_boxed_str());
    let locked = Arc::new(tokio::sync::Notify::new());
    let (store, held) = (db.store.clone(), (&*lock, locked.clone()));
    let cut_off = tokio::spawn(async move {
        let silent =
            store.run_within(COUNT_LIMIT, From::Upkeep, Mode::Transaction, "hold", held, |conn, (lock, locked)| {
                async move {
                    rows::<DB>(conn, lock, &[]).await?;
                    locked.notify_one();
                    std::future::pending::<Result<(), sqlx::Error>>().await
                }
                .boxed()
            });
        silent.await.map(drop)
    });
    locked.notified().await;
    let began = Instant::now();
    let mut other = db.pool.begin().await.unwrap();
    assert_eq!(rows::<DB>(&mut other, lock, &[]).await.unwrap().len(), 1);
    assert!((6..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert!(!cut_off.is_finished(), "its own limit ended it");
    assert_eq!(sessions().await, before);
    db.store.abandon();
    assert!(cut_off.await.unwrap().is_err());
    db.store.release().await;
}

/// A network that forgets, on the word, all connections that lead through it, and tells nobody. New ones work.
#[cfg(feature = "postgres")]
async fn forgetful(server: std::net::SocketAddr) -> (std::net::SocketAddr, Arc<tokio::sync::watch::Sender<u32>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let word = Arc::new(tokio::sync::watch::Sender::new(0));
    let sender = word.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut forget = sender.subscribe();
            tokio::spawn(async move {
                let mut server = tokio::net::TcpStream::connect(server).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    _ = forget.changed() => {
                        // both ends stay open, until another word
                        let _ = forget.changed().await;
                    }
                }
            });
        }
    });
    (address, word)
}

/// A line that was cut without a word is missed before the end of a job needs it.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_was_forgotten_is_missed_before_it_is_needed() {
    let test = async |db: Db<sqlx::Postgres>| {
        let options = db.pool.connect_options();
        let server = tokio::net::lookup_host((options.get_host(), options.get_port())).await.unwrap().next().unwrap();
        let (address, word) = forgetful(server).await;
        let options = options.as_ref().clone().host(&address.ip().to_string()).port(address.port());
        let through = PoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
        let store = SqlStore::<sqlx::Postgres>::new(through);
        store.open().await.unwrap();
        let end = || store.run(From::Endings, Mode::Write, "end", (), |_, ()| async { Ok(()) }.boxed());
        end().await.unwrap();
        word.send_replace(1);
        let missed = async {
            while store.keeps_endings().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LIMIT * 2, missed).await.expect("it is pinged");
        end().await.unwrap();
        store.release().await;
        word.send_replace(2);
    };
    on_server::<sqlx::Postgres, _>("QUEUE_TEST_POSTGRES_URL", |o, name| o.database(name), test).await;
}

async fn watchers_hear_of_others<DB: TestDb>(db: Db<DB>) {
    if DB::KIND == crate::engine::Engine::MySql {
        return;
    }
    let heard = Arc::new(tokio::sync::Notify::new());
    let store = db.store.clone();
    let watcher = {
        let heard = heard.clone();
        tokio::spawn(async move { store.watch(&move || heard.notify_one()).await })
    };
    let worker = db.worker().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    while tokio::time::timeout(Duration::from_millis(50), heard.notified()).await.is_ok() {}
    // a heartbeat wakes nobody
    db.store.beat(worker, LEASE, Holding::default(), &[]).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), heard.notified()).await.is_err());
    for _ in 0..3 {
        db.insert(&[job("a")]).await;
        if DB::KIND == crate::engine::Engine::Postgres {
            db.sql("SELECT 1 FROM pg_notify('queue_jobs', '')").await;
        }
        tokio::time::timeout(Duration::from_secs(1), heard.notified()).await.expect("heard in time");
    }
    if DB::KIND == crate::engine::Engine::Postgres {
        // what this process says itself it has told its own workers already
        let told = Arc::new(tokio::sync::Notify::new());
        let subscription = db.store.subscribe(told.clone());
        let soon = |told: Arc<tokio::sync::Notify>| async move {
            tokio::time::timeout(Duration::from_secs(1), told.notified()).await.expect("told in time");
        };
        crate::enqueue::group::write(&db.pool, job("a")).await.unwrap();
        soon(told.clone()).await;
        crate::enqueue::group::write_all(db.pool.clone(), vec![job("a"), job("a")]).await.unwrap();
        soon(told.clone()).await;
        assert!(tokio::time::timeout(Duration::from_millis(100), heard.notified()).await.is_err());
        db.sql("SELECT 1 FROM pg_notify('queue_jobs', 'another')").await;
        soon(heard.clone()).await;
        // unless there are none that it tells
        drop(subscription);
        crate::enqueue::group::write(&db.pool, job("a")).await.unwrap();
        soon(heard.clone()).await;
        crate::enqueue::group::write_all(db.pool.clone(), vec![job("a"), job("a")]).await.unwrap();
        soon(heard).await;
    }
    watcher.abort();
}

/// Where the claim can see to that, a lane is claimed only while no other one of the worker's kinds has rows that wait.
async fn claims_of_the_only_lane<DB: TestDb>(db: Db<DB>) {
    assert_eq!(db.store.claims_alone(), DB::KIND != crate::engine::Engine::Sqlite);
    let worker = db.worker().await;
    let kinds = ["a".to_owned(), "b".to_owned()];
    let lane = |queue: &str, priority| Lane { kind: "a".into(), queue: queue.into(), priority };
    let of = |queue: &str, priority, take| Ask { lane: lane(queue, priority), ..ask("a", take) };
    let row = |kind, queue: &'static str, priority| NewJob { queue: queue.into(), priority, ..job(kind) };
    let middle = of("m", 0, 2);
    for (kind, queue, priority) in [
        ("a", "l", 0),
        ("a", "l", 9),
        ("a", "m", -1),
        ("a", "m", 1),
        ("a", "n", -9),
        ("a", "n", 0),
        ("b", "l", 0),
        ("b", "m", 0),
        ("b", "n", 0),
    ] {
        let ids = db.insert(&[row("a", "m", 0), row("a", "m", 0), row("a", "m", 0), row("c", "m", -1)]).await;
        let other = db.insert(&[NewJob { delay_us: Some(60_000_000), ..row(kind, queue, priority) }]).await;
        let claimed = db.store.claim_alone(worker, &middle, &kinds).await.unwrap();
        assert_eq!(claimed.len(), 0, "a row of {kind}, {queue}, {priority} waits");
        db.sql(format!("UPDATE queue_jobs SET worker_id = {worker} WHERE id = {}", other[0])).await;
        let claimed = db.store.claim_alone(worker, &middle, &kinds).await.unwrap();
        if !db.store.claims_alone() {
            assert_eq!(claimed.len(), 0, "it has no such claims");
            return;
        }
        let mut claimed: Vec<_> = claimed.into_iter().map(|job| (job.id.get(), job.attempt, job.lane)).collect();
        claimed.sort_by_key(|(id, ..)| *id);
        assert_eq!(claimed, [(ids[0], 1, lane("m", 0)), (ids[1], 1, lane("m", 0))]);
        db.sql("DELETE FROM queue_jobs").await;
    }
}

/// A plan of PostgreSQL's is made once for a connection, when the table is empty, full, or was full before the last vacuum,
/// which then takes every way to a row for as good as another. Jobs are looked up by their key, or by their lane, all the same.
async fn plans_do_not_follow_the_statistics<DB: TestDb>(db: Db<DB>) {
    if DB::KIND != crate::engine::Engine::Postgres {
        return;
    }
    let ended = r#"[{"id":1,"fence":1,"ran_us":1,"state":"completed","outcome":"failed","error":"e"}]"#;
    let cancelled = Finish { id: 1, fence: 1, ran_us: 1, state: Outcome::Cancelled, result: None, error: None };
    let finished = DB::finish_list(&[cancelled]);
    let beat =
        [1.into(), 1.into(), r#"["a"]"#.into(), "[1]".into(), "[1]".into(), 1.into(), 0.into(), 1.into(), 1.into()];
    let claim = |kinds: Option<&'static str>| {
        let binds =
            [1.into(), "a".into(), "default".into(), 0.into(), 0.into(), 0.into(), 99.into(), 1.into(), 1.into()];
        binds.into_iter().chain([kinds.into()]).collect::<Vec<Bind<'_>>>()
    };
    let ask =
        r#"[{"ask":0,"kind":"a","queue":"default","priority":0,"take":9,"after_us":0,"after_id":0,"newest":false}]"#;
    let held = r#"[{"id":1,"fence":1,"worker_id":1,"fate":"ready","doubts":0,"losses":1,"error":"x"}]"#;
    let statements: [(&str, &[Bind<'_>]); 15] = [
        (DB::STARTED[0].1, &[1.into(), held.into()]),
        (include_str!("../postgres/sql/claim.sql"), &claim(None)),
        (include_str!("../postgres/sql/claim.sql"), &claim(Some(r#"["a","b"]"#))),
        (include_str!("../postgres/sql/claim_many.sql"), &[1.into(), ask.into(), 1.into()]),
        (
            include_str!("../postgres/sql/peek.sql"),
            &[ask.into(), 9.into(), 9.into(), 0.into(), 0.into(), 0.into(), 0.into(), 9.into(), 0.into()],
        ),
        (include_str!("../postgres/sql/lanes.sql"), &[r#"[{"kind":"a","queue":"","priority":0}]"#.into(), 99.into()]),
        (DB::FINISH[0].1, &finished.behind(1)),
        (DB::PUT_BACK[0].1, &[1.into(), ended.into()]),
        (DB::BURY[0].1, &[1.into(), ended.into()]),
        (DB::BEAT[0], &beat),
        (DB::HOLDING, &[1.into()]),
        (DB::FORGET_CLAIMS[0], &[]),
        (DB::LOST, &[100.into()]),
        (DB::LOCK_LOST, &[held.into()]),
        (DB::RESCUE[0], &[held.into()]),
    ];
    let claims = "INSERT INTO queue_claims (worker_id, job_ids)
                  SELECT 1, ARRAY(SELECT generate_series(n, n + 100)) FROM generate_series(1, 200) AS n";
    let vacuumed = "UPDATE pg_class SET reltuples = 0, relpages = pg_relation_size(oid) / 8192
                    WHERE relname LIKE 'queue%' AND relkind IN ('r', 'i')
                      AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'queue_jobs'::regclass)";
    let situations: [&[&'static str]; 4] = [
        &[],
        &["INSERT INTO queue_jobs (kind) SELECT 'a' FROM generate_series(1, 20000)", claims],
        &["ANALYZE"],
        &["DELETE FROM queue_jobs", vacuumed],
    ];
    for situation in situations {
        for sql in situation {
            db.sql(*sql).await;
        }
        let mut conn = db.pool.acquire().await.unwrap();
        conn.close_on_drop();
        for sql in DB::OPEN_LINE {
            DB::raw(&mut conn, sql).await.unwrap();
        }
        for (number, (sql, binds)) in statements.iter().enumerate() {
            let of = |each: fn(&Bind<'_>) -> String| binds.iter().map(each).collect::<Vec<_>>().join(", ");
            let types = of(|bind| match bind {
                Bind::Int(_) => "bigint".into(),
                Bind::Ints(_) => "bigint[]".into(),
                Bind::Text(_) => "text".into(),
            });
            let values = of(|bind| match bind {
                Bind::Int(value) => value.unwrap().to_string(),
                Bind::Ints(list) => format!("ARRAY{list:?}"),
                Bind::Text(value) => value.map_or("NULL".into(), |value| format!("'{value}'")),
            });
            let (types, values) = match binds.len() {
                0 => Default::default(),
                _ => (format!("({types})"), format!("({values})")),
            };
            let prepare = format!("PREPARE plan_{number} {types} AS\n{sql}").leak();
            DB::raw(&mut conn, prepare).await.unwrap_or_else(|error| panic!("{prepare}: {error}"));
            let explain = format!("EXPLAIN EXECUTE plan_{number} {values}").leak();
            let rows = rows::<DB>(&mut conn, explain, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let plan: Vec<String> = rows.iter().map(|row| row.text(0).unwrap()).collect();
            let scans =
                plan.windows(2).filter(|lines| lines[0].contains("Scan") && lines[0].contains(" on queue_jobs"));
            let sound = scans.clone().all(|lines| {
                let by = |index: &str, condition: &str| lines[0].contains(index) && lines[1].contains(condition);
                by("queue_jobs_pkey", "Cond: (id = ")
                    || by("queue_jobs_cancelling", "Cond: (id = ")
                    || by("queue_jobs_order", "Cond: (kind = ")
                    || by("queue_jobs_order", "Cond: ((kind = ")
            });
            assert!(sound && scans.count() > 0, "{situation:?}\n{}", plan.join("\n"));
            // a pair that must be less ends no scan: it would read all of a lane
            assert!(!plan.iter().any(|line| line.contains("ROW(queue, priority) <")), "{}", plan.join("\n"));
        }
    }
}

/// Where jobs are named by their keys, MySQL and MariaDB look each up. With a handful of rows (or none, by statistics of
/// before they came) they would read the whole table instead, and lock jobs of others on the way.
async fn keys_are_looked_up<DB: TestDb>(db: Db<DB>) {
    if DB::KIND != crate::engine::Engine::MySql {
        return;
    }
    // so many that there are runs of them
    db.insert(&vec![job("a"); 32]).await;
    db.sql(
        "INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome)
         SELECT id, 1, 1, 1, run_at, run_at, 'failed' FROM queue_jobs",
    )
    .await;
    db.sql(
        "INSERT INTO queue_history (id, kind, queue, state, args, priority, attempt, fence, worker_id, enqueued_at, run_at)
         SELECT id, kind, queue, 'completed', args, priority, 1, 1, 1, enqueued_at, run_at FROM queue_jobs",
    )
    .await;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/mysql/sql");
    let mut conn = db.pool.acquire().await.unwrap();
    let mut checked = 0;
    for folder in [folder.clone(), folder.join("admin")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_string_lossy();
            if !name.ends_with(".sql") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let in_runs = name.ends_with("_runs.sql");
            if !in_runs && !text.contains("JSON_TABLE(") {
                continue;
            }
            let statement: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
            let explain = format!("EXPLAIN FORMAT=TRADITIONAL {}", statement.join("\n")).leak();
            let bind = |place| match place {
                place if explain.contains(&format!("JSON_TABLE(${place}")) => "[]".into(),
                place if in_runs && explain.contains(&format!("AND ${place}")) => 32.into(),
                _ => 1.into(),
            };
            let binds: Vec<Bind<'_>> = (1..=18).map(bind).collect();
            let rows = rows::<DB>(&mut conn, explain, &binds).await.unwrap_or_else(|error| panic!("{name}: {error}"));
            // the way to the rows follows the table's name (on MySQL after its partitions)
            let cells = |row: &DB::Row| (2..=4).map(|cell| row.maybe_text(cell).ok().flatten()).collect::<Vec<_>>();
            for row in rows.iter().map(cells) {
                let is_ours = row[0].as_deref().is_some_and(|alias| matches!(alias, "j" | "h" | "a" | "w" | "free"));
                // none: MySQL knows by itself that there is no such row
                let ways: Vec<_> = row[1..].iter().flatten().filter(|way| *way != "PRIMARY").collect();
                let looks_up = ways.iter().all(|way| match way.as_str() {
                    "eq_ref" | "ref" | "const" => true,
                    way => in_runs && way == "range",
                });
                assert!(!is_ours || looks_up, "{name}: {row:?}");
                checked += usize::from(is_ours);
            }
        }
    }
    assert!(checked > 30, "{checked} lookups");
}

/// The rows of a run are read from its first to its last, and the one behind it, which may be locked by anybody, is not.
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
        let ended = tokio::time::timeout(Duration::from_secs(1), db.store.finish(worker, &batch));
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

/// Nor does a claim, when it marks what it has locked around others' rows.
async fn a_claim_waits_for_no_neighbour<DB: TestDb>(db: Db<DB>) {
    if DB::KIND == crate::engine::Engine::Sqlite {
        return; // one writer at a time
    }
    const JOBS: u32 = 200;
    let worker = db.worker().await;
    let numbers = db.insert(&vec![job("a"); JOBS as usize]).await;
    let claim = async |locked: &[usize], least: usize| {
        let mut other = db.pool.begin().await.unwrap();
        for n in locked {
            // one by one: of many MariaDB would read, and lock, the whole table
            let lock: &str = format!("SELECT id FROM queue_jobs WHERE id = {} FOR UPDATE", numbers[*n]).leak();
            assert_eq!(ids::<DB>(&mut other, lock, &[]).await.unwrap(), [numbers[*n]]);
        }
        let claimed = tokio::time::timeout(Duration::from_secs(1), db.take(worker, 80));
        let claimed = claimed.await.expect("no lock is waited for").len();
        assert!(claimed >= least, "{claimed} of {least}");
    };
    db.sql("UPDATE queue_jobs SET max_retries = NULL").await; // as a plain INSERT leaves it
    // in a few runs, one of them alone; in many; the rest
    claim(&[3, 68, 70], 80).await;
    claim(&(83..200).step_by(2).collect::<Vec<_>>(), 61).await;
    claim(&[199], 58).await;
    // and the few that are left: on MySQL and MariaDB they are locked by their numbers
    db.insert(&vec![job("a"); 10]).await;
    claim(&[199], 10).await;
    let marked = format!(
        "SELECT COUNT(*) FROM queue_jobs WHERE worker_id = {worker} AND fence = 1 AND attempt = 1 AND max_retries = 1"
    );
    assert_eq!(db.int(marked).await, i64::from(JOBS) + 10 - 1);
}

/// How many rows were read one after the other.
const WALKED: &str = "SHOW SESSION STATUS LIKE 'Handler_read_next'";

/// A counter of the session; 0 where the engine does not tell.
async fn counted<DB: TestDb>(conn: &mut DB::Connection, what: &'static str) -> u64 {
    if DB::KIND != crate::engine::Engine::MySql {
        return 0;
    }
    let rows = rows::<DB>(conn, what, &[]).await.unwrap();
    rows[0].text(1).unwrap().parse().unwrap()
}

/// A look does not walk over the rows of a lane (asked where the engine tells what it has read), and misses none behind a
/// long one.
async fn looks_walk_over_no_lane<DB: TestDb>(db: Db<DB>) {
    const STATEMENTS: &str = "SHOW SESSION STATUS LIKE 'Com_stmt_execute'";
    const ODD: &str = "it's \\ \"é";
    let lane = |kind, queue: &'static str, priority| NewJob { queue: queue.into(), priority, ..job(kind) };
    let mut jobs = vec![lane(ODD, "default", 0); 3_000];
    jobs.extend(vec![lane("b", "default", -1); 64]);
    jobs.extend((0..130).map(|priority| lane("b", "mail", priority)));
    jobs.extend([lane(ODD, "default", 1), lane(ODD, "default", -1), lane(ODD, "after", 0), lane(ODD, "é", 0)]);
    jobs.extend(vec![lane("c", "default", 0); 300]);
    let others = (0..60).map(|n| &*format!("k{n}").leak());
    jobs.extend(others.clone().flat_map(|kind| (0..80).map(move |n| lane(kind, "default", n % 4))));
    db.insert(&jobs).await;
    let mut expected: Vec<_> = jobs.iter().map(|job| (job.kind, &*job.queue, job.priority)).collect();
    expected.retain(|(kind, ..)| *kind != "c");
    expected.sort_unstable();
    expected.dedup();
    let mut conn = db.pool.acquire().await.unwrap();
    let kinds: Vec<_> = ["b", ODD].into_iter().chain(others).map(str::to_owned).collect();
    // all of them are too many for a look in steps, which reads no more than it says
    for kinds in [&kinds, &kinds[..20], &kinds[..20], &kinds[..20]] {
        let expected: Vec<_> =
            expected.iter().filter(|(kind, ..)| kinds.iter().any(|it| it == kind)).copied().collect();
        let before = [counted::<DB>(&mut conn, WALKED).await, counted::<DB>(&mut conn, STATEMENTS).await];
        let lanes = DB::lanes(&mut conn, kinds, &[], 1_000_000).await.unwrap().heads;
        let statements = counted::<DB>(&mut conn, STATEMENTS).await - before[1];
        assert!(statements < 40, "{statements} statements");
        let steps = counted::<DB>(&mut conn, WALKED).await - before[0];
        assert!(steps < 2_500 || kinds.len() > 20, "{steps} rows were walked over");
        let mut lanes: Vec<_> = lanes.iter().map(|it| (&*it.lane.kind, &*it.lane.queue, it.lane.priority)).collect();
        lanes.sort_unstable();
        assert_eq!(lanes, expected);
        rows::<DB>(&mut conn, "SELECT args FROM queue_jobs WHERE id = 1", &[]).await.unwrap();
    }
}

/// Only where claims leave notes: a note lives as long as one job of its claim is held, by a live worker or a lost one.
async fn claims_are_forgotten<DB: TestDb>(db: Db<DB>) {
    if DB::KIND == crate::engine::Engine::Sqlite {
        return;
    }
    let notes = async || db.int("SELECT COUNT(*) FROM queue_claims").await;
    db.insert(&[job("a"), job("a"), job("a")]).await;
    let worker = db.worker().await;
    let jobs = db.take(worker, 2).await;
    let last = db.take(worker, 2).await;
    assert!(last.len() == 1 && db.take(worker, 2).await.is_empty());
    assert_eq!(notes().await, 2, "a claim that took nothing leaves none");
    assert_eq!(db.store.finish(worker, &[done(&jobs[0])]).await.unwrap().len(), 1);
    db.store.beat(worker, LEASE, Holding::default(), &[]).await.unwrap();
    assert_eq!(notes().await, 2);
    assert_eq!(db.store.finish(worker, &[done(&jobs[1])]).await.unwrap().len(), 1);
    let other = db.worker().await;
    let settled = [jobs[0].claim.unwrap()];
    let settled = Holding { settled: &settled, ..Holding::default() };
    db.store.beat(other, LEASE, settled, &[]).await.unwrap();
    assert_eq!(notes().await, 2, "it is another's");
    db.store.beat(worker, LEASE, settled, &[]).await.unwrap();
    assert_eq!(db.int("SELECT id FROM queue_claims").await, last[0].claim.unwrap());
    let check = Holding { check: true, ..Holding::default() };
    db.store.beat(worker, LEASE, check, &[]).await.unwrap();
    assert_eq!(notes().await, 1, "its job is held");
    assert_eq!(db.store.finish(worker, &[done(&last[0])]).await.unwrap().len(), 1);
    db.store.beat(worker, LEASE, Holding::default(), &[]).await.unwrap();
    assert_eq!(notes().await, 1, "nobody has said that it is settled");
    db.store.beat(worker, LEASE, check, &[]).await.unwrap();
    assert_eq!(notes().await, 0);
    db.insert(&[job("a")]).await;
    assert_eq!(db.take(worker, 1).await.len(), 1);
    db.store.leave(worker).await.unwrap();
    assert_eq!(db.rescue(10).await.ready, 1);
    assert_eq!(db.rescue(10).await, Rescued::default());
    assert_eq!(notes().await, 0);
}

/// A server that fails may lose what it has acknowledged, with its sessions: a new one believes nothing that was learnt before.
async fn claims_are_not_forgotten_for_an_end_that_was_lost<DB: TestDb>(db: Db<DB>) {
    let (put_back, others, end) = match DB::KIND {
        crate::engine::Engine::Postgres => (
            "INSERT INTO queue_jobs OVERRIDING SYSTEM VALUE SELECT * FROM as_before",
            "SELECT pid::bigint FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
            "SELECT pg_terminate_backend($)",
        ),
        crate::engine::Engine::MySql => (
            "INSERT INTO queue_jobs SELECT * FROM as_before",
            "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
            "KILL $",
        ),
        crate::engine::Engine::Sqlite => return,
    };
    db.insert(&[job("a")]).await;
    let worker = db.worker().await;
    let first = db.store.beat(worker, LEASE, Holding::default(), &[]).await.unwrap().session;
    let jobs = db.take(worker, 1).await;
    db.sql("CREATE TABLE as_before AS SELECT * FROM queue_jobs").await;
    assert_eq!(db.store.finish(worker, &[done(&jobs[0])]).await.unwrap().len(), 1);
    db.sql("DELETE FROM queue_history").await;
    db.sql(put_back).await;
    let mut conn = db.pool.acquire().await.unwrap();
    for session in ids::<DB>(&mut conn, others, &[]).await.unwrap() {
        // it may have ended by itself
        let _ = DB::raw(&mut conn, end.replace('$', &session.to_string()).leak()).await;
    }
    drop(conn);
    let settled = [jobs[0].claim.unwrap()];
    let settled = Holding { settled: &settled, ..Holding::default() };
    let second = loop {
        if let Ok(beat) = db.store.beat(worker, LEASE, settled, &[]).await {
            break beat.session;
        }
    };
    assert_ne!(first, second);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_claims").await, 1);
    db.store.leave(worker).await.unwrap();
    assert_eq!(db.rescue(10).await.ready, 1);
    db.sql("DROP TABLE as_before").await;
}

async fn migrations_agree<DB: TestDb>(db: Db<DB>) {
    db.store.check_schema().await.unwrap();
    migrate::run(db.pool.clone()).await.unwrap();
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_migrations").await, 1);
    for view in ["queue_all", "queue_stats"] {
        db.sql(format!("DROP VIEW {}", if view == "queue_all" { "queue_stats" } else { "queue_all" })).await;
    }
    for table in ["jobs", "history", "dead", "attempts", "workers", "heartbeats", "paused", "migrations"] {
        db.sql(format!("DROP TABLE queue_{table}")).await;
    }
    db.sql("DROP TABLE IF EXISTS queue_claims").await;
    let missing = db.store.check_schema().await.unwrap_err();
    assert!(matches!(missing, Error::Schema(_)), "{missing}");
    let ten = (0..10).map(|_| tokio::spawn(migrate::run(db.pool.clone())));
    for one in futures_util::future::join_all(ten).await {
        one.unwrap().unwrap();
    }
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_migrations").await, 1);
    if !DB::DDL_IN_TRANSACTION {
        // stopped half way
        db.sql("DELETE FROM queue_migrations").await;
        db.sql("DROP TABLE queue_paused").await;
        migrate::run(db.pool.clone()).await.unwrap();
        db.store.check_schema().await.unwrap();
    }
    db.sql("UPDATE queue_migrations SET version = 9, compatible_since = 1").await;
    db.store.check_schema().await.unwrap();
    migrate::run(db.pool.clone()).await.unwrap();
    db.sql("UPDATE queue_migrations SET version = 9, compatible_since = 8").await;
    assert!(matches!(db.store.check_schema().await, Err(Error::Schema(_))));
    assert!(matches!(migrate::run(db.pool.clone()).await, Err(Error::Schema(_))));
}

/// Claim and finish in batches of 500, one worker: `cargo test -p queue --release --all-features -- rate --ignored --nocapture`.
async fn rate<DB: TestDb>(db: Db<DB>) {
    const JOBS: usize = 50_000;
    let jobs: Vec<_> =
        (0..JOBS).map(|n| NewJob { args: format!("{{\"n\":{n},\"s\":\"{:032}\"}}", n), ..job("a") }).collect();
    let begin = Instant::now();
    db.insert(&jobs).await;
    let inserted = begin.elapsed();
    let worker = db.worker().await;
    let (mut claim, mut finish) = (Duration::ZERO, Duration::ZERO);
    let mut behind = None;
    let begin = Instant::now();
    loop {
        let start = Instant::now();
        let mut jobs = db.store.claim(worker, &[Ask { behind, ..ask("a", 500) }]).await.unwrap();
        claim += start.elapsed();
        jobs.sort_by_key(|j| (j.run_at, j.id));
        let Some(last) = jobs.last() else { break };
        behind = Some((last.run_at, last.id.get()));
        let batch: Vec<_> = jobs.iter().map(|j| Finish { result: None, ..done(j) }).collect();
        let start = Instant::now();
        assert_eq!(db.store.finish(worker, &batch).await.unwrap().len(), jobs.len());
        finish += start.elapsed();
    }
    let both = begin.elapsed();
    println!(
        "{}: insert {:.0}/s, claim+finish {:.0}/s (claim {:.2} ms, finish {:.2} ms per 500)",
        DB::ENGINE,
        JOBS as f64 / inserted.as_secs_f64(),
        JOBS as f64 / both.as_secs_f64(),
        claim.as_secs_f64() * 1e3 / 100.0,
        finish.as_secs_f64() * 1e3 / 100.0,
    );
}

#[cfg(feature = "sqlite")]
async fn on_sqlite<F: Future<Output = ()>>(test: impl FnOnce(Db<sqlx::Sqlite>) -> F) {
    let dir = tempfile::tempdir().unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(dir.path().join("queue.db"))
        .create_if_missing(true)
        .busy_timeout(Duration::from_secs(5));
    let pool = PoolOptions::new().max_connections(12).connect_with(options).await.unwrap();
    migrate::run(pool.clone()).await.unwrap();
    test(Db { store: SqlStore::new(pool.clone()), pool }).await;
}

/// Whether `QUEUE_TEST_ENGINES` leaves an engine in.
fn is_selected(engine: &str) -> bool {
    let engines = std::env::var("QUEUE_TEST_ENGINES").unwrap_or_default();
    let selected = engines.is_empty() || engines.split(',').any(|name| name.trim() == engine);
    if !selected {
        println!("skipped: QUEUE_TEST_ENGINES leaves {engine} out");
    }
    selected
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
async fn on_server<DB: TestDb, F: Future<Output = ()>>(
    variable: &str,
    named: impl FnOnce(<DB::Connection as Connection>::Options, &str) -> <DB::Connection as Connection>::Options,
    test: impl FnOnce(Db<DB>) -> F,
) {
    let Ok(url) = std::env::var(variable) else { return };
    let options: <DB::Connection as Connection>::Options = url.parse().unwrap();
    let name = format!("queue_unit_{}_{}", std::process::id(), fastrand::u32(..));
    let mut admin = DB::Connection::connect_with(&options).await.unwrap();
    let leak = |sql: String| -> &'static str { Box::leak(sql.into_boxed_str()) };
    DB::raw(&mut admin, leak(format!("CREATE DATABASE {name}"))).await.unwrap();
    let pool = PoolOptions::<DB>::new().max_connections(24).connect_with(named(options, &name)).await.unwrap();
    migrate::run(pool.clone()).await.unwrap();
    test(Db { store: SqlStore::new(pool.clone()), pool: pool.clone() }).await;
    let _ = tokio::time::timeout(Duration::from_secs(5), pool.close()).await;
    // the server may not have seen the end of every session yet, nor will it behind a proxy that forgets connections
    let force = if DB::KIND == crate::engine::Engine::Postgres { " WITH (FORCE)" } else { "" };
    let drop = leak(format!("DROP DATABASE {name}{force}"));
    let end = Instant::now() + Duration::from_secs(10);
    while let Err(error) = DB::raw(&mut admin, drop).await {
        assert!(Instant::now() < end, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

macro_rules! on_each {
    ($($(#[$attribute:meta])* $test:ident),* $(,)?) => {
        on_each!(@ sqlite "sqlite", $($(#[$attribute])* $test),*; |test| super::on_sqlite(test));
        on_each!(@ postgres "postgres", $($(#[$attribute])* $test),*;
            |test| super::on_server::<sqlx::Postgres, _>("QUEUE_TEST_POSTGRES_URL", |o, name| o.database(name), test));
        on_each!(@ mariadb "mysql", $($(#[$attribute])* $test),*;
            |test| super::on_server::<sqlx::MySql, _>("QUEUE_TEST_MARIADB_URL", |o, name| o.database(name), test));
        on_each!(@ mysql "mysql", $($(#[$attribute])* $test),*;
            |test| super::on_server::<sqlx::MySql, _>("QUEUE_TEST_MYSQL_URL", |o, name| o.database(name), test));
    };
    (@ $engine:ident $feature:literal, $($(#[$attribute:meta])* $test:ident),*; |$t:ident| $run:expr) => {
        #[cfg(feature = $feature)]
        mod $engine {
            $($(#[$attribute])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if super::is_selected(stringify!($engine)) {
                    let $t = super::$test;
                    $run.await;
                }
            })*
        }
    };
}

on_each!(
    insert_gives_ids_in_order,
    arguments_stay_as_they_were_written,
    insert_is_all_or_nothing,
    claim_is_exclusive,
    one_has_the_turn_to_claim,
    claim_honours_its_asks,
    an_end_waits_for_whoever_moves_the_job,
    late_writes_are_refused,
    an_end_is_kept_as_it_was_told,
    attempts_without_count_are_not_kept_without_end,
    a_refused_batch_is_not_half_recorded,
    a_cancelled_job_does_not_go_back,
    a_beat_sees_jobs_that_wait,
    lost_jobs_come_back,
    only_what_began_counts_when_its_worker_is_lost,
    jobs_that_were_lost_again_wait_for_different_times,
    starts_and_long_arguments_are_fenced,
    a_claim_of_long_arguments_is_small,
    a_lost_job_that_cannot_be_moved_keeps_no_other,
    only_what_is_in_the_state_is_deleted,
    a_declaration_is_fenced,
    a_lease_that_ran_out_is_fenced,
    beats_cost_no_more_beside_an_old_snapshot,
    #[ignore = "some five minutes"]
    beats_for_hours_cost_no_more_beside_an_old_snapshot,
    lanes_leave_out_what_is_not_served,
    looks_go_on_behind_the_last_lane,
    peek_counts_in_order,
    peek_ends_at_an_id,
    purge_is_bounded,
    purge_leaves_what_is_younger,
    a_dropped_operation_leaves_the_store_usable,
    a_look_is_given_up,
    only_a_silent_transaction_ends,
    claims_of_the_only_lane,
    watchers_hear_of_others,
    migrations_agree,
    claims_are_forgotten,
    claims_are_not_forgotten_for_an_end_that_was_lost,
    plans_do_not_follow_the_statistics,
    keys_are_looked_up,
    an_end_waits_for_no_neighbour,
    a_claim_waits_for_no_neighbour,
    looks_walk_over_no_lane,
    #[ignore = "a measurement"]
    rate,
);
