//! What slots do while the lease is lost, or queues want more than the worker may run.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use super::config::Timing;
use super::made_up::{Answer, MadeUp, job};
use super::*;

/// A job's start and the loss of the lease run beside each other. The start has seen that the number is its own and is held
/// up right before it puts the job in hand; then the number is gone, and all that is in hand is told to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_starts_while_the_lease_is_lost_does_not_run() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let store = MadeUp::new(|_| Answer::Yes);
    let (shared, mut ends) = store.shared(BTreeMap::new(), Timing::default(), |_, _| {
        STARTED.fetch_add(1, Ordering::Relaxed);
        Ok(Box::pin(async { Ok(None) }))
    });
    let starts = || {
        let held = shared.held();
        shared.slots[0].admit(1, [(job("q", 1), false)]);
        shared.start_slots();
        while !shared.slots[0].keys().is_empty() {
            std::thread::yield_now();
        }
        // there is no event between what it sees and what it waits for
        std::thread::sleep(Duration::from_millis(50));
        assert!(held.is_empty(), "nothing is there that could be told to stop");
        shared.set_id(0);
    };
    starts();
    let (worker, ended) = ends.recv().await.expect("it is recorded");
    assert!(matches!(ended, Ended::PutBack(_)), "{ended:?}");
    assert_eq!((worker, ended.key(), STARTED.load(Ordering::Relaxed)), (1, (1, 1), 0));
    assert!(shared.held().is_empty());
}
