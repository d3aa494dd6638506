//! What slots do while the lease is lost, or queues want more than the worker may run.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;

use tokio::time::Instant;

use super::*;
use crate::store::values::Destination;
use crate::worker::fake::{Answer, Asked, MadeUp, StartFn, job};
use crate::worker::run::attempt::Timing;

/// A job's start and the loss of the lease run beside each other. The start has seen that the number is its own and is
/// held up right before it puts the job in hand; then the number is gone, and all that is in hand is told to stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_job_that_starts_while_the_lease_is_lost_does_not_run() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let store = MadeUp::new(|_| Answer::Yes);
    let (shared, mut ends) = store.shared(BTreeMap::new(), Timing::default(), |_, _| {
        STARTED.fetch_add(1, Ordering::Relaxed);
        Ok(Box::pin(async { Ok(None) }))
    });
    let starts = || {
        let held = shared.work.held();
        shared.work.slots.admit(1, [(0, job("q", 1), false)]);
        shared.start_slots();
        while !shared.work.slots.keys().is_empty() {
            std::thread::yield_now();
        }
        // there is no event between what it sees and what it waits for
        std::thread::sleep(Duration::from_millis(50));
        assert!(held.is_empty(), "nothing is there that could be told to stop");
        shared.lease.set_id(0);
    };
    starts();
    let (worker, ended) = ends.recv().await.expect("it is recorded");
    assert!(matches!(ended, Ended::Known(ref end) if matches!(end.to, Destination::Requeue { .. })));
    assert_eq!((worker, ended.hold().key(), STARTED.load(Ordering::Relaxed)), (1, (1, 1), 0));
    assert!(shared.work.held().is_empty());
}

/// A worker that serves some of these queues, which have this limit each, and all together no more. `a` has jobs
/// without end, and `b` gets one. Returns how long it takes until that one has ended.
async fn beside_a_queue_without_end(queues: usize, limit: u32, start: StartFn) -> Duration {
    let store = MadeUp::new(|_| Answer::Yes);
    store.tables().endless = Some("a");
    let queues = ["a", "b", "c", "d"].iter().take(queues).map(|queue| ((*queue).to_owned(), limit));
    let (shared, ends) = store.shared(queues.collect(), Timing::default(), start);
    let _over = shared.over.clone().drop_guard();
    tokio::spawn(crate::worker::record::run(shared.clone(), ends));
    let claiming = tokio::spawn(crate::worker::claim::run(shared.clone()));
    // not in step with anything
    tokio::time::sleep(Duration::from_millis(10_007)).await;
    store.enqueue("b", 7);
    shared.notices.enqueued.notify_one();
    let began = Instant::now();
    let ended = store.was_asked(|asked| matches!(asked, Asked::Finish(ids) if ids.contains(&7))).await;
    claiming.abort();
    ended - began
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_fast_jobs_without_end_leaves_its_share_to_another() {
    let took = beside_a_queue_without_end(2, 4, |_, _| {
        Ok(Box::pin(async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok(None)
        }))
    });
    let took = took.await;
    // the next look finds it, and a few job lengths later it has ended
    assert!(took < Duration::from_millis(250 + 100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_slow_jobs_without_end_leaves_its_share_to_another() {
    for (queues, limit) in [(2, 1), (2, 4), (3, 1), (3, 4), (4, 1), (4, 4)] {
        let took = beside_a_queue_without_end(queues, limit, |_, _| {
            Ok(Box::pin(async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(None)
            }))
        });
        let took = took.await;
        assert!(took < Duration::from_secs(4), "{took:?} with {queues} queues, {limit}");
    }
}
