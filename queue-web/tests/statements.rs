//! How many statements a page takes. sqlx reports them from a thread of its own, so this test has a process of its own.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::body::Body;
use axum::http::Request;
use queue::admin::Admin;
use queue::testing::TestQueue;
use queue::{Job as _, JobError, job};
use queue_web::Dashboard;
use sqlx::sqlite::SqlitePoolOptions;
use tower::ServiceExt as _;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

static SEEN: AtomicUsize = AtomicUsize::new(0);

struct Statements;

impl<S: tracing::Subscriber> Layer<S> for Statements {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        SEEN.fetch_add(usize::from(event.metadata().target() == "sqlx::query"), Relaxed);
    }
}

#[job(queue = "mail", backoff = fixed("1h"))]
async fn send_email(to: String) -> Result<(), JobError> {
    match to.as_str() {
        "nobody" => Err(JobError::dead("550 no such user")),
        "busy" => Err(JobError::retry("421 too many connections")),
        _ => Ok(()),
    }
}

/// The counts beside the screens are one reading, which all who look share for a while. A page adds little.
#[tokio::test]
async fn a_page_takes_few_statements() {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Statements)).expect("the first one");
    let options = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = options.connect("sqlite::memory:").await.expect("memory");
    queue::migrate(&pool).await.expect("an empty database takes the schema");
    for to in ["nobody", "busy", "ada"] {
        SendEmail::new(to).enqueue(&pool).await.expect("enqueued");
    }
    let _ = TestQueue::new(&pool).drain().await.expect("it runs");
    SendEmail::new("later").enqueue(&pool).await.expect("enqueued");
    let admin = Admin::new(&pool);
    admin.pause("reports").await.expect("paused");
    let router = Dashboard::new(admin).open_to_everybody();
    let get = async |path: &str| {
        let before = SEEN.load(Relaxed);
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let answer = router.clone().oneshot(request).await.expect("an answer");
        assert!(answer.status().is_success(), "{path}");
        let taken = SEEN.load(Relaxed) - before;
        println!("{path}: {taken}");
        taken
    };
    assert!((1..=24).contains(&get("/keys").await), "the counts beside the screens");
    for path in [
        "/keys",
        "/jobs",
        "/jobs?q=state:dead",
        "/jobs/1",
        "/jobs/1/edit",
        "/operations",
        "/operations/1",
        "/plan?do=send_back&q=state:dead",
        "/plan?do=send_back&id=1",
        "/enqueue",
        "/enqueue?copy=1",
    ] {
        assert!(get(path).await <= 6, "{path}");
    }
    // `why` takes up to five by itself
    for path in ["/jobs/2", "/jobs/4"] {
        assert!(get(path).await <= 10, "{path}");
    }
}
