//! The worker:
//!
//! ```text
//! cargo run -p queue-example-web --bin shop-worker
//! ```
//!
//! Start as many as you like. Ctrl-C (or TERM) lets it finish what it runs; a second Ctrl-C ends it at once, and what
//! it ran is given to another worker.

use queue_example_web::{db::Db, shutdown_signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    queue_example_web::log_to_stderr();
    let db = Db::open().await?;
    let (first, second) = two_signals();
    db.worker().queue("orders", 4).state(db.clone()).build()?.run_until(first, second).await?;
    Ok(())
}

/// The first signal and the second.
fn two_signals() -> (impl Future<Output = ()>, impl Future<Output = ()>) {
    let (told, was_told) = tokio::sync::oneshot::channel::<()>();
    let first = async {
        shutdown_signal().await;
        let _ = told.send(());
    };
    let second = async {
        let _ = was_told.await;
        shutdown_signal().await;
    };
    (first, second)
}
