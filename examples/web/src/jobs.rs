//! The shop's jobs. A binary that links this module can enqueue them, and a worker in it can run them.

use std::time::Duration;

use queue::{JobContext, JobError, State, job};

use crate::db::Db;

/// Confirms one order, some time after it was placed.
#[job(queue = "orders", max_retries = 10, timeout = "30s", backoff = exponential("1s", max = "1m"), start_within = "10s")]
pub async fn confirm_order(ctx: JobContext, State(db): State<Db>, order: String) -> Result<(), JobError> {
    println!("confirming {order}, attempt {}", ctx.attempt());
    // stands for slow work, such as a call to the supplier
    tokio::time::sleep(Duration::from_millis(400)).await;

    // A job may run again after it has done its work, if its worker is killed before it records that. So a job must be
    // idempotent. This update is: the second time, the order is already confirmed.
    if db.confirm(&order).await? {
        println!("confirmed {order}");
    }
    Ok(())
}
