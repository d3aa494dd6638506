use std::time::Duration;

use futures_util::FutureExt;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use tokio::runtime;
use tokio::time::{Instant, sleep};

use super::desk::DESKS;
use super::*;

/// Far longer than a busy machine needs.
const SOON: Duration = Duration::from_secs(60);

async fn pool(folder: &tempfile::TempDir) -> SqlitePool {
    let url = format!("sqlite:{}?mode=rwc", folder.path().join("queue.sqlite").display());
    let pool = SqlitePoolOptions::new().max_connections(3).connect(&url).await.expect("a pool");
    crate::migrate(&pool).await.expect("a schema");
    pool
}

async fn until(what: &str, reached: impl AsyncFn() -> bool) {
    let all = async {
        while !reached().await {
            sleep(LINGER).await;
        }
    };
    timeout(SOON, all).await.expect(what);
}

/// Whether anybody or anything is at the pool's desk.
fn in_use(pool: &SqlitePool) -> bool {
    let place = DeskOf::of(pool);
    DESKS.lock().expect("no panic").contains_key(&place.key)
}

#[tokio::test]
async fn a_batch_leaves_its_connection_at_hand_only_after_an_insert_that_went_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = pool(&folder).await;
    let refused = vec![NewJob { queue: "".into(), ..NewJob::example("k") }; 2];
    write_all(pool.clone(), refused).await.expect_err("a queue has a name");
    assert!(!in_use(&pool), "an error may say that the session has ended");
    write_all(pool.clone(), vec![NewJob::example("k"); 2]).await.expect("written");
    assert!(in_use(&pool));
}

#[tokio::test]
async fn what_is_at_hand_is_not_used_once_its_pool_is_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = pool(&folder).await;
    write(&pool, NewJob::example("k")).await.expect("written");
    assert!(in_use(&pool));
    let closing = pool.close();
    let error = write(&pool, NewJob::example("k")).await.expect_err("it is closed");
    assert!(matches!(error, Error::PoolClosed), "{error}");
    timeout(SOON, closing).await.expect("nothing is held");
}

#[tokio::test]
async fn a_connection_stays_at_hand_only_for_a_while_and_only_if_there_is_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = pool(&folder).await;
    write(&pool, NewJob::example("k")).await.expect("written");
    assert!(in_use(&pool));
    until("given back", async || !in_use(&pool)).await;
    let _others = [pool.acquire().await.expect("one"), pool.acquire().await.expect("another")];
    write(&pool, NewJob::example("k")).await.expect("written");
    assert!(!in_use(&pool), "the last connection of the pool");
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_not_waited_for_for_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    pool(&folder).await.close().await;
    let file = folder.path().join("queue.sqlite");
    let options = SqliteConnectOptions::new().filename(&file).busy_timeout(SOON * 10);
    let patient = SqlitePoolOptions::new().max_connections(3).connect_with(options).await.expect("a pool");
    // another process, as far as the pool knows: it gives no answer while the file is locked
    let other = SqlitePool::connect(&format!("sqlite:{}", file.display())).await.expect("another pool");
    let lock = other.begin_with("BEGIN IMMEDIATE").await.expect("the lock");
    let error = timeout(SOON, write(&patient, NewJob::example("k"))).await.expect("an end").expect_err("locked");
    assert!(error.to_string().contains("whether it was written is not known"), "{error}");
    lock.rollback().await.expect("the lock is given back");
    timeout(SOON, write(&patient, NewJob::example("k"))).await.expect("in time").expect("by another connection");
}

#[tokio::test]
async fn a_pool_that_has_none_to_give_refuses_all_that_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    pool(&folder).await.close().await;
    let limit = Duration::from_millis(300);
    let url = format!("sqlite:{}", folder.path().join("queue.sqlite").display());
    let pool = SqlitePoolOptions::new().max_connections(1).acquire_timeout(limit).connect(&url).await.expect("a pool");
    let _only = pool.acquire().await.expect("the only one");
    // from here on, nothing but the patience of those that wait moves the clock
    tokio::time::pause();
    let began = Instant::now();
    let all = futures_util::future::join_all((0..MOST * 4).map(|_| write(&pool, NewJob::example("k")))).await;
    assert!(all.iter().all(|result| matches!(result, Err(Error::PoolTimedOut))), "{all:?}");
    assert!(began.elapsed() < limit * 3, "not one group after the other");
}

#[test]
fn a_runtime_that_ends_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = || runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let first = runtime();
    let pool = first.block_on(pool(&folder));
    let key = first.block_on(async {
        write(&pool, NewJob::example("k")).await.expect("written");
        DeskOf::of(&pool).key
    });
    let mut midway = Box::pin(write(&pool, NewJob::example("k")));
    first.block_on(async { assert!((&mut midway).now_or_never().is_none()) });
    drop(first);
    let second = runtime();
    second.block_on(async { drop(midway) });
    assert!(!DESKS.lock().expect("no panic").contains_key(&key));
}
