//! Run it with
//!
//! ```text
//! cargo run --example payment
//! ```
//!
//! It charges customers in a ledger, each exactly once, although some attempts fail after they have written. It uses a
//! temporary SQLite file and needs no server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use queue::admin::{Admin, Filter};
use queue::{Job, JobContext, JobError, JobState, Tx, Worker, job};
use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

static RECEIPTS: AtomicU32 = AtomicU32::new(0);

/// The entry in the ledger, the receipt's job and the completion of this one commit together.
#[job(backoff = fixed("50ms"))]
async fn charge(ctx: &JobContext, tx: &mut Tx<Sqlite>, customer: i64, cents: i64) -> Result<i64, JobError> {
    sqlx::query("INSERT INTO ledger (customer, cents) VALUES ($1, $2)")
        .bind(customer)
        .bind(cents)
        .execute(&mut **tx)
        .await?;
    SendReceipt::new(customer, cents).enqueue(&mut *tx).await?;
    if ctx.attempt() == 1 && customer % 2 == 0 {
        println!("   customer {customer}: charged {cents} cents, and failed: all of it is rolled back");
        return Err("the connection to the bank was lost".into());
    }
    println!("   customer {customer}: charged {cents} cents");
    Ok(cents)
}

#[job]
async fn send_receipt(customer: i64, cents: i64) {
    println!("   customer {customer}: receipt for {cents} cents");
    RECEIPTS.fetch_add(1, Ordering::Relaxed);
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = SqliteConnectOptions::new().filename(folder.path().join("shop.sqlite")).create_if_missing(true);
    let pool = SqlitePool::connect_with(file).await?;
    queue::migrate(&pool).await?;
    sqlx::query("CREATE TABLE ledger (customer INTEGER NOT NULL, cents INTEGER NOT NULL)").execute(&pool).await?;

    println!("1. Four customers are charged.");
    queue::enqueue_all(&pool, (1..=4).map(|customer| Charge::new(customer, 100 * customer))).await?;
    let done = async {
        while Admin::new(&pool).jobs(&Filter::new().state(JobState::Completed)).await.map_or(0, |it| it.items.len()) < 8
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    Worker::builder(&pool).build()?.run(done).await?;

    println!("\n2. The ledger has each charge once.");
    let ledger = sqlx::query_as::<_, (i64, i64, i64)>(
        "SELECT customer, COUNT(*), SUM(cents) FROM ledger GROUP BY customer ORDER BY customer",
    );
    for (customer, entries, cents) in ledger.fetch_all(&pool).await? {
        println!("   customer {customer}: {entries} entry, {cents} cents");
        anyhow::ensure!(entries == 1, "customer {customer} was charged {entries} times");
    }
    let receipts = RECEIPTS.load(Ordering::Relaxed);
    println!("   {receipts} receipts were sent");
    pool.close().await;
    Ok(())
}
