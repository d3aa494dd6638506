use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use tokio::task::JoinSet;

use super::*;
use crate::enqueue::group;
use crate::store::Access;
use crate::store::Leases as _;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::values::{NewJob, NewWorker};

fn turns(file: &str) -> Turns {
    Turns::of(&SqlitePool::connect_lazy(&format!("sqlite:{file}")).expect("a pool"))
}

#[tokio::test]
async fn writers_of_one_file_wait_for_each_other() {
    let [a, also_a, b] = ["a", "a", "b"].map(turns);
    let turn = a.next(Errand::Other).await;
    assert!(b.next(Errand::Other).now_or_never().is_some(), "another file");
    let mut waiting = Box::pin(also_a.next(Errand::Other));
    assert!((&mut waiting).now_or_never().is_none());
    drop(turn);
    assert!(waiting.now_or_never().is_some());
}

async fn news(line: &Turns) {
    line.next(Errand::Other).await.news();
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_news_call_for_goes_before_ends() {
    let line = turns("called");
    let listening = line.listen();
    let turn = line.next(Errand::Other).await;
    let mut ends = [line.next(Errand::Ends), line.next(Errand::Ends)].map(Box::pin);
    assert!(ends.iter_mut().all(|ends| ends.now_or_never().is_none()), "not their turn");
    turn.news();
    drop(turn);
    drop(listening); // awake
    assert!(ends.iter_mut().all(|ends| ends.now_or_never().is_none()), "they wait for the claim");
    let claim = line.next(Errand::Claim).now_or_never().expect("nobody else has the turn");
    assert!(ends.iter_mut().all(|ends| ends.now_or_never().is_none()), "behind the claim");
    drop(claim);
    for ends in ends {
        drop(ends.now_or_never().expect("their turn"));
    }
    drop(line.next(Errand::Ends).now_or_never().expect("nothing is new"));
}

#[tokio::test(start_paused = true)]
async fn ends_wait_for_a_claim_only_for_a_moment_and_only_if_somebody_listens() {
    let line = turns("not called");
    news(&line).await;
    drop(line.next(Errand::Ends).now_or_never().expect("nobody listens"));
    let _listening = line.listen();
    news(&line).await;
    drop(line.next(Errand::Claim).await);
    drop(line.next(Errand::Ends).now_or_never().expect("the claim is over"));
    news(&line).await;
    let began = Instant::now();
    drop(line.next(Errand::Ends).await);
    assert_eq!(began.elapsed(), SOON, "there is no claim");
    drop(line.next(Errand::Ends).now_or_never().expect("they have waited"));
}

#[tokio::test(start_paused = true)]
async fn ends_that_have_waited_long_make_room_for_nobody() {
    let line = turns("long");
    let _listening = line.listen();
    let turn = line.next(Errand::Other).await;
    let mut ends = pin!(line.next(Errand::Ends));
    assert!((&mut ends).now_or_never().is_none());
    tokio::time::advance(LONG).await;
    turn.news();
    drop(turn);
    drop(ends.now_or_never().expect("their turn"));
}

/// Whether an enqueue of a job that is due after this delay calls a worker that listens.
async fn calls(pool: &SqlitePool, store: &SqlStore<sqlx::Sqlite>, delay_us: Option<i64>) -> bool {
    let _listening = Access::listen(store);
    group::write(pool, NewJob { delay_us, ..NewJob::example("k") }).await.expect("written");
    let Turns(line) = Turns::of(pool);
    line.expect("one writer").called.swap(false, Relaxed)
}

#[tokio::test]
async fn an_enqueue_of_a_due_job_calls_a_claimer_on_its_own_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("queue.sqlite").display());
    for (url, listens) in [(url.as_str(), true), ("sqlite::memory:", false)] {
        // one: where claims have no other, they would wait for that of the ends
        let options = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let pool = options.connect(url).await.expect("a pool");
        crate::migrate(&pool).await.expect("a schema");
        let store = SqlStore::new(pool.clone());
        let asked = store.run(Via::Claims, Mode::Read, "", (), |_, ()| async { Ok(()) }.boxed());
        asked.await.expect("a connection for claims, where there can be one");
        assert_eq!(calls(&pool, &store, None).await, listens, "{url}");
        assert!(!calls(&pool, &store, Some(60_000_000)).await, "{url}: later");
    }
}

fn worker() -> NewWorker {
    NewWorker {
        host: "here".into(),
        pid: 1,
        concurrency: 1,
        queues: Vec::new(),
        kinds: vec!["k".into()],
        secrets: Default::default(),
        limits: Default::default(),
    }
}

#[tokio::test]
async fn whatever_the_library_writes_waits_for_its_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("queue.sqlite").display());
    let pool = SqlitePool::connect(&url).await.expect("a pool");
    crate::migrate(&pool).await.expect("a schema");
    // a turn is waited for at most so long: on a machine that stood still for as long, this shows nothing
    while !all_wait_for_their_turn(&pool).await {}
}

/// Whether they did; `false`: nobody can tell.
async fn all_wait_for_their_turn(pool: &SqlitePool) -> bool {
    let turn = Turns::of(pool).next(Errand::Other).await;
    let began = Instant::now();
    let mut writers = JoinSet::new();
    let (one, many, store) = (pool.clone(), pool.clone(), SqlStore::new(pool.clone()));
    writers.spawn(async move { group::write(&one, NewJob::example("k")).await.is_ok() });
    writers
        .spawn(async move { group::write_all(many, vec![NewJob::example("k"), NewJob::example("k")]).await.is_ok() });
    writers.spawn(async move { store.join(&worker(), PATIENCE).await.is_ok() });
    let early = timeout(PATIENCE / 10, writers.join_next()).await;
    let stood_still = began.elapsed() > PATIENCE / 2;
    assert!(early.is_err() || stood_still, "{early:?}");
    drop(turn);
    while let Some(written) = writers.join_next().await {
        assert!(written.expect("no panic"));
    }
    !stood_still
}

/// With a single connection, the writer that holds it is next.
#[tokio::test]
async fn one_connection_goes_from_hand_to_hand() {
    const JOINS: usize = 50;
    let options = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = options.connect("sqlite::memory:").await.expect("a pool");
    crate::migrate(&pool).await.expect("a schema");
    let store = SqlStore::new(pool.clone());
    let mut producers = JoinSet::new();
    let written = Arc::new(AtomicUsize::new(0));
    // more than one statement takes, so that there is always one more to write
    for _ in 0..600 {
        let (pool, written) = (pool.clone(), written.clone());
        producers.spawn(async move {
            loop {
                group::write(&pool, NewJob::example("k")).await.expect("written");
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let joins = async {
        for _ in 0..JOINS {
            store.join(&worker(), PATIENCE).await.expect("joined");
        }
    };
    timeout(PATIENCE * 600, joins).await.expect("in the end");
    // no second for each of them, in which many times as much would be written
    let written = written.load(Ordering::Relaxed);
    assert!(written <= JOINS * group::MOST * 4, "each was behind a few statements at most: {written}");
    producers.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let line = turns("stuck");
    let _listening = line.listen();
    let turn = line.next(Errand::Other).await;
    turn.news();
    let waiting = [Errand::Ends, Errand::Other].map(|errand| Box::pin(line.next(errand)));
    let began = Instant::now();
    futures_util::future::join_all(waiting).await;
    assert_eq!(began.elapsed(), PATIENCE, "all of them, side by side");
}
