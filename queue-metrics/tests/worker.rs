//! The metrics of a real worker, compared with what the database says.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use queue::admin::{Admin, Filter};
use queue::{Job, JobError, JobState, job};

#[job(max_retries = 1, backoff = fixed("1ms"), start_within = "1h")]
async fn deliver(ok: bool) -> Result<(), JobError> {
    if ok { Ok(()) } else { Err(JobError::retry("no answer")) }
}

#[job(queue = "slow")]
async fn rest() {}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_what_the_records_say() {
    let recorder = DebuggingRecorder::new();
    let shown = recorder.snapshotter();
    recorder.install().expect("the only recorder of this process");
    queue_metrics::describe();
    queue::telemetry::observe_enqueues(queue_metrics::observer());

    let options = sqlx::sqlite::SqliteConnectOptions::new().in_memory(true);
    let pool = sqlx::sqlite::SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options)
        .await
        .expect("a database");
    queue::migrate(&pool).await.expect("migrated");
    queue::enqueue_all(&pool, (0..30).map(|n| Deliver::new(n % 3 > 0))).await.expect("enqueued");
    Rest::new().enqueue(&pool).await.expect("enqueued");
    Rest::new().after(Duration::from_secs(3600)).enqueue(&pool).await.expect("enqueued");

    let worker = queue::Worker::builder(&pool).observe(queue_metrics::observer()).build().expect("built");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run(async move { drop(stopped.await) }));
    let admin = Admin::new(&pool);
    let all_ended = async {
        loop {
            let stats = admin.stats().await.expect("stats");
            let ended: u64 = stats.iter().filter(|stat| stat.state.is_final()).map(|stat| stat.jobs).sum();
            if ended == 31 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(240), all_ended).await.expect("all jobs end");
    queue_metrics::set_gauges(&admin.gauges().await.expect("gauges"));
    drop(stop);
    running.await.expect("no panic").expect("stopped");

    let mut seen = BTreeMap::new();
    for (key, _, _, value) in shown.snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        seen.insert(format!("{} {}", key.key().name(), labels.join(",")), value);
    }
    let dead = admin.jobs(&Filter::new().state(JobState::Dead)).await.expect("jobs").items.len();
    assert_eq!(dead, 10);
    for (name, value) in [
        ("queue_enqueued_total kind=deliver,queue=default", 30.0),
        ("queue_enqueued_total kind=rest,queue=slow", 2.0),
        ("queue_claimed_total kind=deliver,queue=default", 40.0),
        ("queue_claimed_total kind=rest,queue=slow", 1.0),
        ("queue_wait_seconds kind=deliver,queue=default", 40.0),
        ("queue_promise_total kind=deliver,queue=default,kept=true", 40.0),
        ("queue_promise_total kind=deliver,queue=default,kept=false", 0.0),
        ("queue_promise_total kind=rest,queue=slow,kept=true", 0.0),
        ("queue_run_seconds kind=deliver,queue=default,outcome=completed", 20.0),
        ("queue_run_seconds kind=deliver,queue=default,outcome=failed", 20.0),
        ("queue_run_seconds kind=rest,queue=slow,outcome=completed", 1.0),
        ("queue_dead_total kind=deliver,queue=default", 10.0),
        ("queue_rescued_total to=ready", 0.0),
        ("queue_refused_total ", 0.0),
        ("queue_lease_lost_total ", 0.0),
        ("queue_jobs kind=deliver,queue=default,state=dead", 10.0),
        ("queue_jobs kind=rest,queue=slow,state=scheduled", 1.0),
        ("queue_jobs kind=rest,queue=slow,state=ready", 0.0),
        ("queue_oldest_due_seconds kind=rest,queue=slow", 0.0),
        ("queue_workers ", 1.0),
        ("queue_gauges_complete ", 1.0),
    ] {
        assert_eq!(seen.get(name), Some(&value), "{name} in {seen:#?}");
    }
}
