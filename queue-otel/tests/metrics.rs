//! The metrics of a real worker, compared with what the database says.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use queue::admin::{Admin, Filter};
use queue::{Job, JobError, JobState, job};

const SENT: &str = "messaging.client.sent.messages";
const CLAIMED: &str = "messaging.client.consumed.messages";
const RAN: &str = "messaging.process.duration";
const PROCESS: &str = "messaging.operation.name=process";

#[job(max_retries = 1, backoff = fixed("1ms"), start_within = "1h")]
async fn deliver(ok: bool) -> Result<(), JobError> {
    if ok { Ok(()) } else { Err(JobError::retry("no answer")) }
}

#[job(queue = "slow")]
async fn rest() {}

/// The newest value of each instrument and set of attributes. That of a histogram is its count.
fn shown(exporter: &InMemoryMetricExporter) -> BTreeMap<String, f64> {
    let mut seen = BTreeMap::new();
    let mut see = |name: &str, labels: &mut dyn Iterator<Item = &KeyValue>, value: f64| {
        let mut labels: Vec<_> = labels.map(|it| format!("{}={}", it.key, it.value)).collect();
        labels.sort();
        seen.insert(format!("{name} {}", labels.join(",")), value);
    };
    let all = exporter.get_finished_metrics().expect("metrics");
    for metric in all.last().expect("an export").scope_metrics().flat_map(|scope| scope.metrics()) {
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points().for_each(|it| see(metric.name(), &mut it.attributes(), it.value() as f64));
            }
            AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                gauge.data_points().for_each(|it| see(metric.name(), &mut it.attributes(), it.value()));
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                histogram.data_points().for_each(|it| see(metric.name(), &mut it.attributes(), it.count() as f64));
            }
            other => panic!("{}: {other:?}", metric.name()),
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_what_the_records_say() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let meter = provider.meter("queue");
    queue::telemetry::observe_enqueues(queue_otel::observer(&meter));
    let show = queue_otel::gauges(&meter);

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

    let worker = queue::Worker::builder(&pool).observe(queue_otel::observer(&meter)).build().expect("built");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run(async move { drop(stopped.await) }));
    let admin = Admin::new(&pool);
    loop {
        let stats = admin.stats().await.expect("stats");
        let ended: u64 = stats.iter().filter(|stat| stat.state.is_final()).map(|stat| stat.jobs).sum();
        if ended == 31 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let read = admin.gauges().await.expect("gauges");
    drop(stop);
    running.await.expect("no panic").expect("stopped");

    provider.force_flush().expect("exported");
    let seen = shown(&exporter);
    assert!(!seen.contains_key("queue.workers "), "nobody has read the gauges: {seen:#?}");
    show(&read);
    provider.force_flush().expect("exported");
    let seen = shown(&exporter);
    let dead = admin.jobs(&Filter::new().state(JobState::Dead)).await.expect("jobs").items.len();
    assert_eq!(dead, 10);
    let deliver = &["messaging.system=queue", "messaging.destination.name=default", "queue.job.kind=deliver"][..];
    let rest = &["messaging.system=queue", "messaging.destination.name=slow", "queue.job.kind=rest"][..];
    for (name, lane, more, value) in [
        (SENT, deliver, &["messaging.operation.name=send"][..], 30.0),
        (SENT, rest, &["messaging.operation.name=send"], 2.0),
        (CLAIMED, deliver, &["messaging.operation.name=claim"], 40.0),
        (CLAIMED, rest, &["messaging.operation.name=claim"], 1.0),
        ("queue.wait.duration", deliver, &[], 40.0),
        ("queue.promise", deliver, &["queue.promise.kept=true"], 40.0),
        ("queue.promise", deliver, &["queue.promise.kept=false"], 0.0),
        ("queue.promise", rest, &["queue.promise.kept=true"], 0.0),
        (RAN, deliver, &[PROCESS, "queue.job.outcome=completed"], 20.0),
        (RAN, deliver, &[PROCESS, "queue.job.outcome=failed", "error.type=failed"], 20.0),
        (RAN, rest, &[PROCESS, "queue.job.outcome=completed"], 1.0),
        ("queue.dead", deliver, &[], 10.0),
        ("queue.dead", rest, &[], 0.0),
        ("queue.rescued", &[], &["queue.rescued.to=ready"], 0.0),
        ("queue.refused", &[], &[], 0.0),
        ("queue.lease_lost", &[], &[], 0.0),
        ("queue.jobs", deliver, &["queue.job.state=dead"], 10.0),
        ("queue.jobs", rest, &["queue.job.state=scheduled"], 1.0),
        ("queue.jobs", rest, &["queue.job.state=ready"], 0.0),
        ("queue.jobs_capped", rest, &["queue.job.state=ready"], 0.0),
        ("queue.oldest_due", rest, &[], 0.0),
        ("queue.paused", rest, &[], 0.0),
        ("queue.workers", &[], &[], 1.0),
        ("queue.gauges_complete", &[], &[], 1.0),
    ] {
        let mut labels = [lane, more].concat();
        labels.sort();
        let name = format!("{name} {}", labels.join(","));
        assert_eq!(seen.get(&name), Some(&value), "{name} in {seen:#?}");
    }
}
