//! The worker:
//!
//! ```text
//! cargo run -p queue-example-web --bin shop-worker
//! ```
//!
//! Start as many as you like. Ctrl-C (or TERM) lets it finish what it runs; a second Ctrl-C ends it at once, and what
//! it ran is given to another worker. It touches `ALIVE_FILE` each second, for a liveness probe.

use queue::telemetry::Event;
use queue_example_web::db::Db;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    queue_example_web::log_to_stderr();
    let db = Db::open().await?;
    let mut worker = db.worker().queue("orders", 4).state(db.clone()).observe(page_somebody);
    if let Some(file) = std::env::var_os("ALIVE_FILE") {
        worker = worker.alive_file(file);
    }
    worker.build()?.run(queue::shutdown_signal()).await?;
    Ok(())
}

fn page_somebody(event: &Event<'_>) {
    if let Event::JobDead { job, .. } = event {
        eprintln!("order not confirmed: look at /jobs/{}", job.id());
    }
}
