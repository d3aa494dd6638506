//! How soon a job starts after its enqueue, on idle workers.

use std::time::Duration;

use crate::scene::{PATIENCE, Scene};

/// P24: A process that knows no pool has no connection of its own for a signal. An idle worker hears of its job all the
/// same.
pub(crate) async fn a_producer_without_a_pool_is_heard(scene: &Scene) {
    // without a signal, it looks at its next heartbeat
    let lease = Duration::from_secs(240);
    let _worker = scene.worker("idle").concurrency(2).lease(lease).start().await;
    scene.worker("first").enqueue().await;
    scene.wait_for_records("the first job", PATIENCE, |records| records.len() == 2).await;
    scene.worker("second").enqueue().await;
    scene.wait_for_records("the second job", lease / 8, |records| records.len() == 4).await;
}
