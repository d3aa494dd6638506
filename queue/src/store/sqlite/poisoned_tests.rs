use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use sqlx::{Connection, SqliteConnection};

use crate::store::Leases;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::values::NewWorker;

async fn number(conn: &mut SqliteConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(conn).await.expect("a number")
}

/// One connection, whose user has had a full disk in a transaction of their own.
async fn entangled(options: &SqliteConnectOptions) -> SqlitePool {
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await.expect("a pool");
    crate::migrate(&pool).await.expect("a schema");
    sqlx::raw_sql("CREATE TABLE mine (a BLOB)").execute(&pool).await.expect("a table");
    fill(&pool).await;
    let mut conn = pool.acquire().await.expect("the connection");
    conn.ping().await.expect("the rollback has come and gone");
    assert!(conn.is_in_transaction(), "sqlx counts right now: this module is not needed any more");
    drop(conn);
    pool
}

/// The database takes no page more, and then as many as ever.
async fn fill(pool: &SqlitePool) {
    let mut tx = pool.begin().await.expect("a transaction");
    let full = sqlx::raw_sql("PRAGMA max_page_count = 1; INSERT INTO mine VALUES (zeroblob(1000000))");
    full.execute(&mut *tx).await.expect_err("the disk is full");
    drop(tx);
    sqlx::raw_sql("PRAGMA max_page_count = 1000000").execute(pool).await.expect("room again");
}

fn options(folder: &tempfile::TempDir) -> SqliteConnectOptions {
    SqliteConnectOptions::new().filename(folder.path().join("queue.sqlite")).create_if_missing(true)
}

#[tokio::test]
async fn a_full_disk_does_not_leave_the_pool_unusable() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = entangled(&options(&folder)).await;
    let store = SqlStore::new(pool.clone());
    let card = NewWorker {
        host: "here".into(),
        pid: 7,
        concurrency: 4,
        queues: vec![],
        kinds: vec!["a".into()],
        secrets: Default::default(),
        limits: Default::default(),
    };
    store.join(&card, Duration::from_secs(30)).await.expect("one write");
    // several in a transaction
    let many = store.run(Via::Pool, Mode::Transaction, "count", (), |conn, ()| {
        Box::pin(async { Ok(number(conn, "SELECT COUNT(*) FROM queue_workers").await) })
    });
    assert_eq!(many.await.expect("a transaction"), 1);
    // nothing is kept back in a transaction that nobody ends
    let mut other = SqliteConnection::connect_with(&options(&folder)).await.expect("another connection");
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM queue_workers").await, 1);
}

#[tokio::test]
async fn a_full_disk_in_an_operation_is_told_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = entangled(&options(&folder)).await;
    let store = SqlStore::new(pool.clone());
    let full = store.run(Via::Pool, Mode::Transaction, "fill", (), |conn, ()| {
        Box::pin(async {
            let full = sqlx::raw_sql("PRAGMA max_page_count = 1; INSERT INTO mine VALUES (zeroblob(1000000))");
            full.execute(conn).await.map(drop)
        })
    });
    let error = full.await.expect_err("the disk is full");
    assert!(format!("{error:?}").contains("full"), "{error:?}");
}

/// sqlx knows nothing of a transaction that was begun by SQL.
#[tokio::test]
async fn ends_are_not_written_into_what_somebody_has_left_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let pause = async |options: SqliteConnectOptions| {
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.expect("a pool");
        crate::migrate(&pool).await.expect("a schema");
        sqlx::raw_sql("BEGIN").execute(&pool).await.expect("begun");
        let store = SqlStore::new(pool.clone());
        let write = store.run(Via::Ends, Mode::Alone, "write", (), |conn, ()| {
            let one = sqlx::raw_sql("INSERT INTO queue_paused (queue, paused_at) VALUES ('q', 0)");
            Box::pin(async { one.execute(conn).await.map(drop) })
        });
        write.await
    };
    pause(options(&folder)).await.expect("by a connection of its own");
    let mut other = SqliteConnection::connect_with(&options(&folder)).await.expect("another connection");
    assert_eq!(number(&mut other, "SELECT COUNT(*) FROM queue_paused").await, 1);
    let error = pause(SqliteConnectOptions::new()).await.expect_err("there is no other connection");
    assert!(format!("{error:?}").contains("within a transaction"), "{error:?}");
}
