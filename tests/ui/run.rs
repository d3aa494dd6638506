//! Every accepted shape once through a database and a worker: what arrives is what was enqueued.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use queue::admin::{Admin, Filter};
use queue::{Job, JobContext, JobError, JobState, State, Worker, job};

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, String>>>);

impl Seen {
    fn note(&self, key: &str, value: impl std::fmt::Debug) {
        self.0.lock().expect("no panic while noting").insert(key.to_owned(), format!("{value:?}"));
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Point {
    x: i32,
}

#[job(queue = "shapes")]
async fn owned(State(seen): State<Seen>, mut n: u64, point: Point, r#type: String, maybe: Option<f64>, _unused: u8) {
    n += 1;
    seen.note("owned", (n, point, r#type, maybe));
}

#[job(queue = "shapes")]
#[allow(clippy::too_many_arguments, reason = "one of each shape")]
async fn borrowed(
    text: &str,
    seen: &State<Seen>,
    list: &[Point],
    path: &Path,
    maybe: Option<&str>,
    point: Option<&Point>,
    cow: Cow<'_, str>,
    fixed: Cow<'static, str>,
) {
    tokio::task::yield_now().await;
    seen.note("borrowed", (text, list, path, maybe, point, cow, fixed));
}

#[job(queue = "shapes", name = "renamed", aliases = ["former"])]
async fn with_context(ctx: JobContext, State(seen): State<Seen>, again: &JobContext) -> Result<u32, JobError> {
    seen.note(ctx.kind(), (ctx.attempt(), again.max_attempts(), ctx.queue()));
    Ok(ctx.attempt())
}

#[job(queue = "shapes", blocking)]
fn blocks(seen: State<Seen>, text: &str) -> Result<String, std::fmt::Error> {
    seen.note("blocks", text);
    Ok(text.to_uppercase())
}

#[job(queue = "shapes", blocking, max_retries = 0)]
fn panics() {
    panic!("on purpose");
}

#[job(queue = "shapes")]
async fn nothing(State(seen): State<Seen>) {
    seen.note("nothing", ());
}

#[job(queue = "shapes", max_retries = 1, backoff = fixed("1ms"))]
async fn fails(ctx: JobContext) -> Result<(), String> {
    Err(format!("attempt {}", ctx.attempt()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shape_runs_with_what_was_enqueued() {
    #[job(queue = "shapes")]
    async fn inside(State(seen): State<Seen>, n: i8) {
        seen.note("inside", n);
    }

    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("ui.db").display());
    let pool = sqlx::SqlitePool::connect(&url).await.expect("a database");
    queue::migrate(&pool).await.expect("the schema");

    let point = Point { x: -1 };
    let enqueued = [
        Owned::new(7, point.clone(), "t", None, 0).enqueue(&pool).await,
        Borrowed::new("a", [point.clone()], "/b", "c".to_owned(), point, "d", "e").enqueue(&pool).await,
        WithContext.enqueue(&pool).await,
        Blocks::new("loud").enqueue(&pool).await,
        Panics.enqueue(&pool).await,
        Nothing.enqueue(&pool).await,
        Fails.enqueue(&pool).await,
        Inside::new(-3).enqueue(&pool).await,
        queue_tests_lib::SendMail::new("f").enqueue(&pool).await,
    ];
    for id in enqueued {
        id.expect("enqueued");
    }
    sqlx::query("INSERT INTO queue_jobs (kind, queue, args) VALUES ('former', 'shapes', 'null'), ('nothing', 'shapes', '{\"x\":1}')")
        .execute(&pool)
        .await
        .expect("inserted");

    let seen = Seen::default();
    let worker = Worker::builder(&pool).state(seen.clone()).build().expect("all states are given");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let working = tokio::spawn(worker.run(async move {
        stopped.await.ok();
    }));
    let admin = Admin::new(&pool);
    let count = async |state| admin.jobs(&Filter::new().state(state)).await.expect("listed").items.len();
    tokio::time::timeout(Duration::from_secs(30), async {
        while count(JobState::Completed).await < 9 || count(JobState::Dead).await < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("all jobs end");
    stop.send(()).expect("the worker still runs");
    working.await.expect("no panic").expect("a clean end");

    let seen = seen.0.lock().expect("no panic while noting");
    let expected = [
        ("blocks", r#""loud""#),
        ("borrowed", r#"("a", [Point { x: -1 }], "/b", Some("c"), Some(Point { x: -1 }), "d", "e")"#),
        ("former", r#"(1, 21, "shapes")"#),
        ("inside", "-3"),
        ("nothing", "()"),
        ("owned", r#"(8, Point { x: -1 }, "t", None)"#),
        ("renamed", r#"(1, 21, "shapes")"#),
    ];
    let found: Vec<_> = seen.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(found, expected);
}
