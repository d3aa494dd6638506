//! How soon a job starts after its enqueue, on idle workers.

use std::collections::HashMap;
use std::time::Duration;

use queue::{Job as _, Worker};
use queue_test_support::each;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

use crate::figures;
use crate::jobs::{Note, Recorder, now};
use crate::records::{What, percentiles};
use crate::scene::{PATIENCE, Scene};

const JOBS: usize = 100;
const EVERY: Duration = Duration::from_millis(50);
/// Jobs that waited longer than this many microseconds are listed by their position in the series.
const SLOW: i64 = 100_000;

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

/// P24: From the call of `enqueue` to the start of the handler, in the enqueuing process and in another. It only
/// measures: the machine is busy with other tests, so there is no limit.
pub(crate) async fn pick_up_latency(scene: &Scene) {
    let _there = scene.worker("there").queue("there").concurrency(8).start().await;
    let recorder = Recorder::open(&scene.records_path()).expect("the record file");
    let here =
        each!(&scene.db, pool => Worker::builder(pool)).queue("here", 8).state(recorder).build().expect("a worker");
    let (stop, stopped) = oneshot::channel::<()>();
    let here = tokio::spawn(here.run(async {
        let _ = stopped.await;
    }));

    let mut enqueued = HashMap::new();
    let mut ticks = interval(EVERY / 2);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..2 * JOBS {
        ticks.tick().await;
        let queue = if number % 2 == 0 { "here" } else { "there" };
        let called = now();
        let id = scene.db.enqueue(Note {}.queue(queue)).await;
        enqueued.insert(id.get(), (queue, number / 2, called, now() - called));
    }
    let records = scene.wait_for_records("all jobs run", PATIENCE, |records| records.len() == 4 * JOBS).await;
    let _ = stop.send(());
    here.await.expect("a worker task").expect("an end without an error");

    for queue in ["here", "there"] {
        let (mut latency, mut call, mut slow) = (Vec::new(), Vec::new(), Vec::new());
        for it in records.iter().filter(|it| it.what == What::Start) {
            let Some((_, number, called, took)) = enqueued.get(&it.job).filter(|it| it.0 == queue) else {
                continue;
            };
            latency.push(it.at - called);
            call.push(*took);
            if it.at - called > SLOW {
                slow.push(*number);
            }
        }
        let process = if queue == "here" { "the same process" } else { "another process" };
        figures(
            scene.engine(),
            &format!("pick-up in {process}"),
            &format!(
                "{} (of it the enqueue call: {}); over {} ms: {slow:?}",
                percentiles(latency),
                percentiles(call),
                SLOW / 1000
            ),
        );
    }
}
