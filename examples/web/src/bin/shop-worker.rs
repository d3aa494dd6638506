//! The worker:
//!
//! ```text
//! cargo run -p queue-example-web --bin shop-worker
//! ```
//!
//! Start as many as you like. Ctrl-C (or TERM) lets it finish what it runs; a second Ctrl-C ends it at once, and what
//! it ran is given to another worker.

use queue_example_web::db::Db;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    queue_example_web::log_to_stderr();
    let db = Db::open().await?;
    db.worker().queue("orders", 4).state(db.clone()).build()?.run(queue::shutdown_signal()).await?;
    Ok(())
}
