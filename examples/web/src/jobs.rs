//! The shop's jobs. A binary that links this module can enqueue them, and a worker in it can run them.

use std::time::Duration;

use queue::{JobContext, JobError, State, job};

use crate::db::Db;

/// Confirms one order, some time after it was placed.
#[job(queue = "orders", max_retries = 10, timeout = "30s", backoff = exponential("1s", max = "1m"))]
pub async fn confirm_order(ctx: JobContext, State(db): State<Db>, order: String) -> Result<(), JobError> {
    println!("confirming {order}, attempt {}", ctx.attempt());
    // stands for work that takes its time: a call to the supplier, say
    tokio::time::sleep(Duration::from_millis(400)).await;

    // A job may be run again after it did its work (its worker is killed before it could say so), so what it does has to
    // bear repeating. This update does: the second time there is no new order to confirm.
    if db.confirm(&order).await? {
        println!("confirmed {order}");
    }
    Ok(())
}
