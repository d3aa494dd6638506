//! Metrics: events as counters and histograms, and readings as gauges.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use opentelemetry::metrics::{AsyncInstrument, Meter};
use opentelemetry::{KeyValue, StringValue};
use queue::admin::Gauges;
use queue::telemetry::{AttemptOutcome, Event, FewLabels};

use crate::traces::is_error;

/// Bounds in seconds. Up to 10 they are those that OpenTelemetry proposes. Jobs may run for hours.
const BOUNDS: [f64; 19] = [
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0,
];
/// An older reading is not shown: nobody reads any more, or the database is away.
const STALE: Duration = Duration::from_secs(5 * 60);

/// Turns events into counters and histograms. Give one to
/// [`WorkerBuilder::observe`](queue::WorkerBuilder::observe), and one to
/// [`observe_enqueues`](queue::telemetry::observe_enqueues) in each process that enqueues.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
/// let meter = opentelemetry::global::meter("queue");
/// let worker = queue::Worker::builder(&pool).observe(queue_otel::observer(&meter)).build()?;
/// # drop(worker); Ok(()) }
/// ```
pub fn observer(meter: &Meter) -> impl Fn(&Event<'_>) + Send + Sync + 'static {
    let counter = |name, unit, about| meter.u64_counter(name).with_unit(unit).with_description(about).build();
    let seconds = |name, about| {
        let histogram = meter.f64_histogram(name).with_unit("s").with_description(about);
        histogram.with_boundaries(BOUNDS.to_vec()).build()
    };
    let sent = counter("messaging.client.sent.messages", "{message}", "Jobs that this process wrote.");
    let claimed = counter("messaging.client.consumed.messages", "{message}", "Jobs that the worker claimed.");
    let wait = seconds("queue.wait.duration", "From due to the start of an attempt.");
    let run = seconds("messaging.process.duration", "Run time of attempts.");
    let promises = counter("queue.promise", "{attempt}", "Starts of jobs with `start_within`.");
    let dead = counter("queue.dead", "{job}", "Jobs that became dead letters.");
    let rescued = counter("queue.rescued", "{job}", "Jobs of lost workers.");
    let refused = counter("queue.refused", "{attempt}", "Ends of attempts that were refused.");
    let lease_lost = counter("queue.lease_lost", "{lease}", "How often the worker lost its lease.");
    let rescued_to = ["ready", "dead", "cancelled"].map(|to| [KeyValue::new("queue.rescued.to", to)]);
    // rates need what a counter begins with
    rescued_to.iter().for_each(|to| rescued.add(0, to));
    refused.add(0, &[]);
    lease_lost.add(0, &[]);
    let begun = (dead.clone(), promises.clone());
    let lanes = FewLabels::new(move |kind, queue| {
        let (lane, (dead, promises)) = (Lane::new(kind, queue), &begun);
        dead.add(0, &lane.own);
        lane.promise.iter().for_each(|labels| promises.add(0, labels));
        lane
    });
    let ended = move |lane: &Lane, outcome: AttemptOutcome, ran: Duration| {
        let mut labels = lane.process.to_vec();
        labels.push(KeyValue::new("queue.job.outcome", outcome.as_str()));
        labels.extend(is_error(outcome).then(|| KeyValue::new("error.type", outcome.as_str())));
        run.record(ran.as_secs_f64(), &labels);
    };
    move |event| match event {
        Event::JobsEnqueued { kind, queue, jobs, .. } => sent.add(*jobs as u64, &lanes.of(kind, queue).send),
        Event::JobsClaimed { jobs, .. } => {
            for alike in jobs.chunk_by(|a, b| a.kind() == b.kind() && a.queue() == b.queue()) {
                claimed.add(alike.len() as u64, &lanes.of(alike[0].kind(), alike[0].queue()).claim);
            }
        }
        Event::JobStarted { job, waited: Some(waited), promise, .. } => {
            let lane = lanes.of(job.kind(), job.queue());
            wait.record(waited.as_secs_f64(), &lane.own);
            if let Some(promise) = promise {
                promises.add(1, &lane.promise[usize::from(waited <= promise)]);
            }
        }
        Event::JobCompleted { job, ran, .. } | Event::JobFailedAfterCommit { job, ran, .. } => {
            ended(&lanes.of(job.kind(), job.queue()), AttemptOutcome::Completed, *ran);
        }
        Event::JobFailed { job, ran, outcome, .. } => ended(&lanes.of(job.kind(), job.queue()), *outcome, *ran),
        Event::JobDead { job, ran, outcome, .. } => {
            let lane = lanes.of(job.kind(), job.queue());
            ended(&lane, *outcome, *ran);
            dead.add(1, &lane.own);
        }
        Event::JobCancelled { job, ran, .. } => {
            ended(&lanes.of(job.kind(), job.queue()), AttemptOutcome::Cancelled, *ran);
        }
        Event::JobSnoozed { job, ran, .. } => ended(&lanes.of(job.kind(), job.queue()), AttemptOutcome::Snoozed, *ran),
        Event::JobReleased { job, .. } | Event::JobUnbegun { job, .. } => {
            ended(&lanes.of(job.kind(), job.queue()), AttemptOutcome::Released, Duration::ZERO);
        }
        Event::JobsRescued { ready, dead: buried_jobs, cancelled, buried, .. } => {
            for (kind, queue) in *buried {
                dead.add(1, &lanes.of(kind, queue).own);
            }
            for (to, jobs) in rescued_to.iter().zip([ready, buried_jobs, cancelled]) {
                rescued.add(*jobs, to);
            }
        }
        Event::JobRefused { .. } => refused.add(1, &[]),
        Event::WorkerLeaseLost { .. } => lease_lost.add(1, &[]),
        _ => {}
    }
}

/// The attributes of one pair of kind and queue.
struct Lane {
    own: [KeyValue; 3],
    send: [KeyValue; 4],
    claim: [KeyValue; 4],
    process: [KeyValue; 4],
    /// Broken, kept.
    promise: [[KeyValue; 4]; 2],
}

impl Lane {
    fn new(kind: &str, queue: &str) -> Self {
        let own = lane(kind, queue);
        let with = |more: KeyValue| {
            let [system, destination, kind] = own.clone();
            [system, destination, kind, more]
        };
        let doing = |operation| with(KeyValue::new("messaging.operation.name", operation));
        Self {
            send: doing("send"),
            claim: doing("claim"),
            process: doing("process"),
            promise: [false, true].map(|kept| with(KeyValue::new("queue.promise.kept", kept))),
            own,
        }
    }
}

fn lane(kind: &str, queue: &str) -> [KeyValue; 3] {
    // shared, because each measurement clones them
    let text = |text: &str| StringValue::from(Arc::<str>::from(text));
    [
        KeyValue::new("messaging.system", "queue"),
        KeyValue::new("messaging.destination.name", text(queue)),
        KeyValue::new("queue.job.kind", text(kind)),
    ]
}

/// Makes gauges of what was read. Give each reading to the function that this returns, for example every 15 seconds.
/// Each export shows the last one, unless it is older than 5 minutes. Call `gauges` once in a process.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool) {
/// let show = queue_otel::gauges(&opentelemetry::global::meter("queue"));
/// let admin = queue::admin::Admin::new(&pool);
/// let mut every = tokio::time::interval(std::time::Duration::from_secs(15));
/// loop {
///     every.tick().await;
///     if let Ok(read) = admin.gauges().await {
///         show(&read);
///     }
/// }
/// # }
/// ```
pub fn gauges(meter: &Meter) -> impl Fn(&Gauges) + Send + Sync + 'static {
    let last = Arc::new(RwLock::new(None));
    let gauge = |name, unit, about, show: fn(&Gauges, &dyn AsyncInstrument<f64>)| {
        let last: Arc<RwLock<Option<(Instant, Gauges)>>> = last.clone();
        let gauge = meter.f64_observable_gauge(name).with_unit(unit).with_description(about);
        // the provider keeps the callback
        let _ = gauge
            .with_callback(move |gauge| {
                let last = last.read().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, read)) = last.as_ref().filter(|(at, _)| at.elapsed() < STALE) {
                    show(read, gauge);
                }
            })
            .build();
    };
    gauge("queue.jobs", "{job}", "Jobs by state. Where queue.jobs_capped is 1 there are more.", |read, gauge| {
        by_state(read, |count, labels| gauge.observe(count.jobs as f64, labels));
    });
    gauge("queue.jobs_capped", "", "1 if there may be more jobs than queue.jobs says.", |read, gauge| {
        by_state(read, |count, labels| gauge.observe(flag(count.or_more), labels));
    });
    gauge("queue.oldest_due", "s", "Age of the oldest job that is due.", |read, gauge| {
        for depth in read.with_few_labels() {
            gauge.observe(depth.oldest_due.unwrap_or_default().as_secs_f64(), &lane(&depth.kind, &depth.queue));
        }
    });
    gauge("queue.paused", "", "1 if the queue is paused.", |read, gauge| {
        for depth in read.with_few_labels() {
            gauge.observe(flag(depth.paused), &lane(&depth.kind, &depth.queue));
        }
    });
    gauge("queue.workers", "{worker}", "Live workers.", |read, gauge| gauge.observe(read.workers as f64, &[]));
    let about = "0 if there are more kinds and queues than were looked at.";
    gauge("queue.gauges_complete", "", about, |read, gauge| gauge.observe(flag(read.complete), &[]));
    move |read| *last.write().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), read.clone()))
}

fn by_state(read: &Gauges, mut show: impl FnMut(queue::admin::Count, &[KeyValue])) {
    for depth in read.with_few_labels() {
        let [system, destination, kind] = lane(&depth.kind, &depth.queue);
        let mut labels = [system, destination, kind, KeyValue::new("queue.job.state", "")];
        for (state, count) in
            [("ready", depth.ready), ("scheduled", depth.scheduled), ("running", depth.running), ("dead", depth.dead)]
        {
            labels[3] = KeyValue::new("queue.job.state", state);
            show(count, &labels);
        }
    }
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}
