//! Metrics of `queue` through the [`metrics`] facade.
//!
//! [`observer`] turns events into counters and histograms. It asks no database. [`set_gauges`] shows what
//! [`Admin::gauges`](queue::admin::Admin::gauges) has read. [`describe`] tells the exporter what the names mean.
//!
//! | Name | Labels | Meaning |
//! |---|---|---|
//! | `queue_enqueued_total` | `kind`, `queue` | jobs that this process wrote |
//! | `queue_claimed_total` | `kind`, `queue` | jobs that the worker claimed |
//! | `queue_wait_seconds` | `kind`, `queue` | from due to the start of an attempt |
//! | `queue_run_seconds` | `kind`, `queue`, `outcome` | run time of attempts that ended here; its count is their number |
//! | `queue_dead_total` | `kind`, `queue` | jobs that became dead letters |
//! | `queue_promise_total` | `kind`, `queue`, `kept` | starts of jobs with `start_within`: `true` or `false` |
//! | `queue_rescued_total` | `to` | jobs of lost workers: `ready`, `dead` or `cancelled` |
//! | `queue_refused_total` | | ends of attempts that were refused, because another attempt was current |
//! | `queue_lease_lost_total` | | how often the worker lost its lease |
//! | `queue_jobs` | `kind`, `queue`, `state` | gauge: jobs that are `ready`, `scheduled`, `running` or `dead` |
//! | `queue_jobs_capped` | `kind`, `queue`, `state` | gauge: 1 if there are more than `queue_jobs` says |
//! | `queue_oldest_due_seconds` | `kind`, `queue` | gauge: age of the oldest job that is due |
//! | `queue_paused` | `kind`, `queue` | gauge: 1 if the queue is paused |
//! | `queue_workers` | | gauge: live workers |
//! | `queue_gauges_complete` | | gauge: 0 if there are more kinds and queues than were looked at |
//!
//! The first 100 pairs of kind and queue have labels of their own. All others share the label `other`.
#![doc = include_str!("../README.md")]

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use metrics::{
    Counter, Histogram, Label, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use queue::admin::Gauges;
use queue::telemetry::{AttemptOutcome, Event, FewLabels};

/// Bounds in seconds that suit both histograms: for exporters that want them, and for quantiles over several workers.
///
/// `metrics_exporter_prometheus::PrometheusBuilder::new().set_buckets(queue_metrics::BUCKETS)?`
pub const BUCKETS: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0];

/// Turns events into counters and histograms. Give it to [`WorkerBuilder::observe`](queue::WorkerBuilder::observe), and
/// to [`observe_enqueues`](queue::telemetry::observe_enqueues) in each process that enqueues. Install the exporter
/// first: the recorder of that moment is used.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
/// let worker = queue::Worker::builder(&pool).observe(queue_metrics::observer()).build()?;
/// # drop(worker); Ok(()) }
/// ```
pub fn observer() -> impl Fn(&Event<'_>) + Send + Sync + 'static {
    let lanes = FewLabels::new(Lane::new);
    let rescued = ["ready", "dead", "cancelled"].map(|to| counter!("queue_rescued_total", "to" => to));
    let (refused, lease_lost) = (counter!("queue_refused_total"), counter!("queue_lease_lost_total"));
    move |event| match event {
        Event::JobsEnqueued { kind, queue, jobs, .. } => lanes.of(kind, queue).enqueued.increment(*jobs as u64),
        Event::JobsClaimed { jobs, .. } => {
            for alike in jobs.chunk_by(|a, b| a.kind() == b.kind() && a.queue() == b.queue()) {
                lanes.of(alike[0].kind(), alike[0].queue()).claimed.increment(alike.len() as u64);
            }
        }
        Event::JobStarted { job, waited, promise, .. } => {
            let lane = lanes.of(job.kind(), job.queue());
            if let Some(waited) = waited {
                lane.wait.record(*waited);
                if let Some(promise) = promise {
                    lane.promise[usize::from(waited <= promise)].increment(1);
                }
            }
        }
        Event::JobCompleted { job, ran, .. } | Event::JobFailedAfterCommit { job, ran, .. } => {
            lanes.of(job.kind(), job.queue()).ended(AttemptOutcome::Completed, *ran);
        }
        Event::JobFailed { job, ran, outcome, .. } => lanes.of(job.kind(), job.queue()).ended(*outcome, *ran),
        Event::JobDead { job, ran, outcome, .. } => {
            let lane = lanes.of(job.kind(), job.queue());
            lane.ended(*outcome, *ran);
            lane.dead.increment(1);
        }
        Event::JobCancelled { job, ran, .. } => {
            lanes.of(job.kind(), job.queue()).ended(AttemptOutcome::Cancelled, *ran);
        }
        Event::JobSnoozed { job, ran, .. } => lanes.of(job.kind(), job.queue()).ended(AttemptOutcome::Snoozed, *ran),
        Event::JobReleased { job, .. } | Event::JobUnbegun { job, .. } => {
            lanes.of(job.kind(), job.queue()).ended(AttemptOutcome::Released, Duration::ZERO);
        }
        Event::JobsRescued { ready, dead, cancelled, buried, .. } => {
            for (kind, queue) in *buried {
                lanes.of(kind, queue).dead.increment(1);
            }
            for (counter, jobs) in rescued.iter().zip([ready, dead, cancelled]) {
                counter.increment(*jobs);
            }
        }
        Event::JobRefused { .. } => refused.increment(1),
        Event::WorkerLeaseLost { .. } => lease_lost.increment(1),
        _ => {}
    }
}

/// Shows what was read as gauges. Call it when your exporter is scraped, or every 15 seconds. Labels that are not in
/// `gauges` any more become 0.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
/// let admin = queue::admin::Admin::new(&pool);
/// queue_metrics::set_gauges(&admin.gauges().await?);
/// # Ok(()) }
/// ```
pub fn set_gauges(gauges: &Gauges) {
    static SHOWN: RwLock<Vec<(String, String)>> = RwLock::new(Vec::new());
    let depths = gauges.with_few_labels();
    let now: Vec<_> = depths.iter().map(|depth| (depth.kind.clone(), depth.queue.clone())).collect();
    let before = std::mem::replace(&mut *SHOWN.write().unwrap_or_else(PoisonError::into_inner), now.clone());
    for (kind, queue) in before.into_iter().filter(|it| !now.contains(it)) {
        let lane = [Label::new("kind", kind), Label::new("queue", queue)];
        for state in ["ready", "scheduled", "running", "dead"] {
            let labels = [&lane[..], &[Label::new("state", state)]].concat();
            gauge!("queue_jobs", labels.clone()).set(0.0);
            gauge!("queue_jobs_capped", labels).set(0.0);
        }
        gauge!("queue_oldest_due_seconds", lane.to_vec()).set(0.0);
        gauge!("queue_paused", lane.to_vec()).set(0.0);
    }
    for depth in &depths {
        let lane = [Label::new("kind", depth.kind.clone()), Label::new("queue", depth.queue.clone())];
        for (state, count) in
            [("ready", depth.ready), ("scheduled", depth.scheduled), ("running", depth.running), ("dead", depth.dead)]
        {
            let labels = [&lane[..], &[Label::new("state", state)]].concat();
            gauge!("queue_jobs", labels.clone()).set(count.jobs as f64);
            gauge!("queue_jobs_capped", labels).set(f64::from(u8::from(count.or_more)));
        }
        gauge!("queue_oldest_due_seconds", lane.to_vec()).set(depth.oldest_due.unwrap_or_default());
        gauge!("queue_paused", lane.to_vec()).set(f64::from(u8::from(depth.paused)));
    }
    gauge!("queue_workers").set(gauges.workers as f64);
    gauge!("queue_gauges_complete").set(f64::from(u8::from(gauges.complete)));
}

/// Tells the exporter the meaning and unit of each name.
pub fn describe() {
    describe_counter!("queue_enqueued_total", "Jobs that this process wrote.");
    describe_counter!("queue_claimed_total", "Jobs that the worker claimed.");
    describe_histogram!("queue_wait_seconds", Unit::Seconds, "From due to the start of an attempt.");
    describe_histogram!("queue_run_seconds", Unit::Seconds, "Run time of attempts.");
    describe_counter!("queue_dead_total", "Jobs that became dead letters.");
    describe_counter!("queue_promise_total", "Starts of jobs with `start_within`.");
    describe_counter!("queue_rescued_total", "Jobs of lost workers.");
    describe_counter!("queue_refused_total", "Ends of attempts that were refused.");
    describe_counter!("queue_lease_lost_total", "How often the worker lost its lease.");
    describe_gauge!("queue_jobs", "Jobs by state. Where queue_jobs_capped is 1 there are more.");
    describe_gauge!("queue_jobs_capped", "1 if there may be more jobs than queue_jobs says.");
    describe_gauge!("queue_oldest_due_seconds", Unit::Seconds, "Age of the oldest job that is due.");
    describe_gauge!("queue_paused", "1 if the queue is paused.");
    describe_gauge!("queue_workers", "Live workers.");
    describe_gauge!("queue_gauges_complete", "0 if there are more kinds and queues than were looked at.");
}

/// The metrics of one pair of kind and queue.
struct Lane {
    labels: [Label; 2],
    enqueued: Counter,
    claimed: Counter,
    dead: Counter,
    wait: Histogram,
    /// Broken, kept.
    promise: [Counter; 2],
    completed: Histogram,
}

impl Lane {
    fn new(kind: &str, queue: &str) -> Self {
        let labels = [Label::new("kind", kind.to_owned()), Label::new("queue", queue.to_owned())];
        let with = |name, value| [&labels[..], &[Label::new(name, value)]].concat();
        Self {
            enqueued: counter!("queue_enqueued_total", labels.to_vec()),
            claimed: counter!("queue_claimed_total", labels.to_vec()),
            dead: counter!("queue_dead_total", labels.to_vec()),
            wait: histogram!("queue_wait_seconds", labels.to_vec()),
            promise: ["false", "true"].map(|kept| counter!("queue_promise_total", with("kept", kept))),
            completed: histogram!("queue_run_seconds", with("outcome", AttemptOutcome::Completed.as_str())),
            labels,
        }
    }

    fn ended(&self, outcome: AttemptOutcome, ran: Duration) {
        if outcome == AttemptOutcome::Completed {
            return self.completed.record(ran);
        }
        let labels = [&self.labels[..], &[Label::new("outcome", outcome.as_str())]].concat();
        histogram!("queue_run_seconds", labels).record(ran);
    }
}
