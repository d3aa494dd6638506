//! The spans that an exporter gets, from a request to the last attempt that it caused.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, TracerProvider,
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use queue::admin::Admin;
use queue::schedule::Schedule;
use queue::{Job, JobContext, JobError, JobId, State, job};
use sqlx::SqlitePool;
use tracing::Instrument;
use tracing::field::{Field, Visit};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

#[job(max_retries = 1, backoff = fixed("1ms"))]
async fn step(ctx: JobContext, State(pool): State<SqlitePool>, way: String) -> Result<(), JobError> {
    match &*way {
        "fail once" if ctx.attempt() == 1 => return Err(JobError::retry("once")),
        "follow" => drop(Step::new("second").enqueue(&pool).await?),
        _ => {}
    }
    Ok(())
}

#[job(schedule = "every 1s")]
async fn tick() {}

/// The names of the events that were logged.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Name(Option<String>);
        impl Visit for Name {
            fn record_str(&mut self, field: &Field, value: &str) {
                if field.name() == "event" {
                    self.0 = Some(value.to_owned());
                }
            }
            fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
        }
        let mut name = Name(None);
        event.record(&mut name);
        self.0.lock().expect("no panic").extend(name.0);
    }
}

impl Events {
    fn count(&self, name: &str) -> usize {
        self.0.lock().expect("no panic").iter().filter(|event| *event == name).count()
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    span.attributes.iter().find(|it| it.key.as_str() == name).map(|it| it.value.to_string())
}

/// The spans of a scene.
struct Spans(Vec<SpanData>);

impl Spans {
    fn named(&self, name: &str) -> &SpanData {
        let mut found = self.0.iter().filter(|span| span.name == name);
        let span = found.next().unwrap_or_else(|| panic!("no span {name}"));
        assert!(found.next().is_none(), "two spans {name}");
        span
    }

    fn attempt(&self, id: JobId, attempt: u32) -> &SpanData {
        let (id, attempt) = (Some(id.to_string()), Some(attempt.to_string()));
        let is_it = |span: &&SpanData| {
            span.span_kind == SpanKind::Consumer
                && attribute(span, "job.id") == id
                && attribute(span, "job.attempt") == attempt
        };
        self.0.iter().find(is_it).unwrap_or_else(|| panic!("no attempt {attempt:?} of job {id:?}"))
    }

    fn send(&self, id: JobId) -> &SpanData {
        let id = Some(id.to_string());
        let is_it = |span: &&SpanData| span.span_kind == SpanKind::Producer && attribute(span, "job.id") == id;
        self.0.iter().find(is_it).unwrap_or_else(|| panic!("no enqueue of job {id:?}"))
    }

    /// The enqueue of a batch, which names no single job.
    fn send_batch(&self, request: &SpanContext) -> &SpanData {
        let is_it = |span: &&SpanData| {
            span.span_context.trace_id() == request.trace_id()
                && attribute(span, "messaging.batch.message_count").is_some()
        };
        let send = self.0.iter().find(is_it).expect("an enqueue of a batch");
        assert_eq!((&send.span_kind, attribute(send, "job.id")), (&SpanKind::Producer, None));
        send
    }

    fn is_root(&self, id: JobId) {
        let span = self.attempt(id, 1);
        assert_eq!((span.parent_span_id, span.links.len()), (SpanId::INVALID, 0), "{span:?}");
    }
}

fn is_child(span: &SpanData, parent: &SpanContext) {
    assert_eq!(span.parent_span_id, parent.span_id(), "{span:?}");
    assert_eq!(span.span_context.trace_id(), parent.trace_id(), "{span:?}");
}

fn links_to(span: &SpanData, enqueue: &SpanContext) {
    let links: Vec<_> =
        span.links.iter().map(|link| (link.span_context.trace_id(), link.span_context.span_id())).collect();
    assert_eq!(links, [(enqueue.trace_id(), enqueue.span_id())], "{span:?}");
}

fn only_links_to(span: &SpanData, enqueue: &SpanContext) {
    links_to(span, enqueue);
    assert_eq!(span.parent_span_id, SpanId::INVALID, "{span:?}");
    assert_ne!(span.span_context.trace_id(), enqueue.trace_id(), "{span:?}");
}

async fn by_sql(pool: &SqlitePool, meta: Option<&str>) -> JobId {
    let insert = "INSERT INTO queue_jobs (kind, args, meta) VALUES ('step', '{\"way\": \"\"}', ?)";
    sqlx::query(insert).bind(meta).execute(pool).await.expect("inserted").last_insert_rowid().into()
}

/// The job that its handler enqueued.
async fn next(pool: &SqlitePool, id: JobId) -> JobId {
    let next = "SELECT min(id) FROM queue_history WHERE id > ? AND args LIKE '%second%'";
    sqlx::query_scalar::<_, i64>(next).bind(id.get()).fetch_one(pool).await.expect("a job").into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_leads_from_a_request_to_its_last_job() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let events = Events::default();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("queue"));
    tracing_subscriber::registry().with(layer).with(events.clone()).init();
    assert!(queue_otel::traces(queue_otel::Traces::Auto) && !queue_otel::traces(queue_otel::Traces::Link));

    let options = sqlx::sqlite::SqliteConnectOptions::new().in_memory(true);
    let pool = sqlx::sqlite::SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(options)
        .await
        .expect("a database");
    queue::migrate(&pool).await.expect("migrated");
    let admin = Admin::new(&pool);

    let request = tracing::info_span!("request");
    let request_is = request.context().span().span_context().clone();
    let (single, failing, following, late, batch, refused) = async {
        let single = Step::new("").enqueue(&pool).await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        let failing = Step::new("fail once").enqueue(&mut tx).await.unwrap();
        tx.commit().await.unwrap();
        let following = Step::new("follow").enqueue(&pool).await.unwrap();
        let late = Step::new("").queue("late").enqueue(&pool).await.unwrap();
        let batch = queue::enqueue_all(&pool, ["", ""].map(Step::new)).await.unwrap();
        let long = "x".repeat(1 << 20);
        let refused = Step::new("").queue("refused").meta("traceparent", long).enqueue(&pool).await;
        (single, failing, following, late, batch, refused.unwrap_err())
    }
    .instrument(request)
    .await;
    assert!(refused.to_string().contains("metadata"), "{refused}");
    let enqueued = "UPDATE queue_jobs SET enqueued_at = enqueued_at - 301000 WHERE id = ?";
    sqlx::query(enqueued).bind(late.get()).execute(&pool).await.unwrap();

    let plain = by_sql(&pool, None).await;
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = by_sql(&pool, Some(&format!(r#"{{"traceparent": "{traceparent}", "tracestate": "a=b"}}"#))).await;
    let foreign = SpanContext::new(
        TraceId::from(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736),
        SpanId::from(0x00f0_67aa_0ba9_02b7),
        TraceFlags::SAMPLED,
        true,
        TraceState::default(),
    );
    assert_eq!(events.count("trace.unreadable"), 0);
    let garbage = by_sql(&pool, Some(r#"{"traceparent": "00-nonsense\u001b[2J", "tracestate": "=,=,"}"#)).await;
    admin.schedule("often", Schedule::cron("0 0 1 1 *").unwrap(), Step::new("")).await.unwrap();
    let by_hand = admin.fire_schedule("often").await.unwrap();

    assert_eq!(events.count("trace.dropped"), 0);
    // as long as the library lets it be, which is more than a job may carry
    let state = TraceState::from_key_value((0..32).map(|n| (format!("k{n}"), "x".repeat(256)))).unwrap();
    let parent = SpanContext::new(TraceId::from(7), SpanId::from(7), TraceFlags::SAMPLED, true, state);
    let span = tracing::info_span!("request of much");
    span.set_parent(opentelemetry::Context::new().with_remote_span_context(parent)).unwrap();
    let heavy = async { queue::enqueue_all(&pool, ["", ""].map(Step::new)).await.unwrap() }.instrument(span).await;
    assert_eq!(events.count("trace.dropped"), 1);

    let worker = queue::Worker::builder(&pool).state(pool.clone()).build().expect("built");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run(async move { drop(stopped.await) }));
    let all =
        [single, failing, following, late, plain, traced, garbage, by_hand, heavy[0], heavy[1], batch[0], batch[1]];
    let began = Instant::now();
    let done = "SELECT (SELECT count(*) FROM queue_history WHERE kind = 'step') >= ? \
                AND EXISTS (SELECT 1 FROM queue_history WHERE kind = 'tick')";
    while !sqlx::query_scalar::<_, bool>(done).bind(all.len() as i64 + 1).fetch_one(&pool).await.unwrap() {
        assert!(began.elapsed() < Duration::from_secs(60), "the jobs do not end: {:?}", events.0.lock().unwrap());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stop);
    running.await.expect("no panic").expect("stopped");
    provider.force_flush().expect("flushed");
    let spans = Spans(exporter.get_finished_spans().expect("spans"));

    for span in &spans.0 {
        let known = ["request", "send ", "process "].iter().any(|name| span.name.starts_with(name));
        assert!(known, "polling and the rest make no spans: {span:?}");
    }
    // enqueues
    is_child(spans.send(single), &request_is);
    let send = spans.send_batch(&request_is);
    is_child(send, &request_is);
    assert_eq!((&*send.name, attribute(send, "messaging.batch.message_count")), ("send default", Some("2".to_owned())));
    assert_eq!(attribute(send, "messaging.operation.type").as_deref(), Some("send"));
    assert!(matches!(spans.named("send refused").status, Status::Error { .. }));
    // first attempts
    let of_batch = batch.iter().map(|id| (*id, send));
    for (id, enqueue) in [single, failing, following].map(|id| (id, spans.send(id))).into_iter().chain(of_batch) {
        let (enqueue, attempt) = (&enqueue.span_context, spans.attempt(id, 1));
        is_child(attempt, enqueue);
        links_to(attempt, enqueue);
        assert!(attempt.parent_span_is_remote);
    }
    let attempt = spans.attempt(single, 1);
    assert_eq!((&*attempt.name, &attempt.status), ("process default", &Status::Unset));
    for (name, value) in [
        ("messaging.system", "queue"),
        ("messaging.operation.name", "process"),
        ("messaging.operation.type", "process"),
        ("messaging.destination.name", "default"),
        ("job.kind", "step"),
    ] {
        assert_eq!(attribute(attempt, name).as_deref(), Some(value), "{name}");
    }
    only_links_to(spans.attempt(late, 1), &spans.send(late).span_context);
    // a retry
    let failed = spans.attempt(failing, 1);
    assert_eq!(attribute(failed, "error.type").as_deref(), Some("failed"));
    assert_eq!(failed.status, Status::error("once"));
    only_links_to(spans.attempt(failing, 2), &spans.send(failing).span_context);
    // a job that a handler enqueues
    let second = next(&pool, following).await;
    is_child(spans.send(second), &spans.attempt(following, 1).span_context);
    is_child(spans.attempt(second, 1), &spans.send(second).span_context);
    links_to(spans.attempt(second, 1), &spans.send(second).span_context);
    assert_eq!(spans.attempt(second, 1).span_context.trace_id(), request_is.trace_id());
    // jobs that nobody enqueued within a span
    spans.is_root(plain);
    spans.is_root(by_hand);
    let ticks = spans.0.iter().filter(|span| attribute(span, "job.kind").as_deref() == Some("tick"));
    assert!(ticks.clone().count() > 0);
    ticks.for_each(|span| assert_eq!((span.parent_span_id, span.links.len()), (SpanId::INVALID, 0)));
    let attempt = spans.attempt(traced, 1);
    is_child(attempt, &foreign);
    links_to(attempt, &foreign);
    assert_eq!(attempt.span_context.trace_state().header(), "a=b");
    // traces that are not carried
    spans.is_root(garbage);
    heavy.iter().for_each(|id| spans.is_root(*id));
    assert_eq!(events.count("trace.unreadable"), 1);
    assert_eq!(events.count("trace.dropped"), 1);
}
