//! The router as a browser sees it, on SQLite in memory.

mod access;
mod actions;
mod hostile;
mod screens;
mod secrets;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode};
use queue::admin::Admin;
use queue::testing::TestQueue;
use queue::{Job as _, JobError, JobId, job};
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use tower::ServiceExt as _;

use crate::{Dashboard, Rights, Viewer};

/// Fails for good if it has nobody to write to, and waits for another attempt if the line is busy.
#[job(queue = "mail", max_retries = 3, backoff = fixed("1h"))]
async fn send_email(to: String, size: u32) -> Result<u32, JobError> {
    match to.as_str() {
        "nobody" => Err(JobError::dead(format!("550 no such user {size}\ncaused by: mailbox is gone"))),
        "busy" => Err(JobError::retry("421 too many connections")),
        _ => Ok(size),
    }
}

#[job(queue = "reports", schedule = "0 9 * * * Europe/Berlin")]
async fn report() {}

async fn database() -> SqlitePool {
    let options = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = options.connect("sqlite::memory:").await.expect("memory");
    queue::migrate(&pool).await.expect("an empty database takes the schema");
    pool
}

/// A dashboard and the database behind it.
struct Site {
    pool: SqlitePool,
    admin: Admin,
    router: Router,
}

struct Got {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Got {
    fn to(&self) -> &str {
        self.headers.get("location").map_or("", |to| to.to_str().expect("a path"))
    }

    /// Each part is on the page.
    fn says(&self, parts: &[&str]) -> &Self {
        parts.iter().for_each(|part| assert!(self.text.contains(part), "{part}\n{}", self.text));
        self
    }

    fn is(&self, status: u16) -> &Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }
}

impl Site {
    async fn new(rights: Rights) -> Self {
        Self::with(move |_: &Parts| async move { Some(Viewer::new("ada").may(rights)) }).await
    }

    async fn with(viewer: impl for<'a> crate::LooksUp<'a>) -> Self {
        let pool = database().await;
        let admin = Admin::new(&pool);
        Self { router: Dashboard::new(admin.clone()).viewer(viewer), pool, admin }
    }

    async fn ask(&self, request: Request<Body>) -> Got {
        let answer = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = answer.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.expect("a body");
        let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
        Got { status: parts.status, headers: parts.headers, text }
    }

    async fn get(&self, path: &str) -> Got {
        self.ask(Request::get(path).body(Body::empty()).expect("a request")).await
    }

    /// As a form of our own pages does it.
    async fn post(&self, path: &str, form: &[(&str, &str)]) -> Got {
        let form = form.iter().fold(form_urlencoded::Serializer::new(String::new()), |mut form, (name, value)| {
            form.append_pair(name, value);
            form
        });
        self.post_text(path, { form }.finish()).await
    }

    async fn post_text(&self, path: &str, form: String) -> Got {
        let request = Request::post(path).header("sec-fetch-site", "same-origin");
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        self.ask(request.body(Body::from(form)).expect("a request")).await
    }

    /// Enqueues a job for each of these, and runs what is due. Returns their ids.
    async fn run(&self, receivers: &[&str]) -> Vec<JobId> {
        let mut ids = Vec::new();
        for (size, to) in receivers.iter().enumerate() {
            let size = u32::try_from(size).expect("a few");
            ids.push(SendEmail::new(*to, size).enqueue(&self.pool).await.expect("enqueued"));
        }
        let _ = TestQueue::new(&self.pool).drain().await.expect("it runs");
        ids
    }

    /// Enqueues a job that waits for a worker.
    async fn waiting(&self) -> JobId {
        SendEmail::new("ada", 1u32).enqueue(&self.pool).await.expect("enqueued")
    }

    async fn state(&self, id: JobId) -> String {
        self.admin.job(id).await.expect("read").map_or_else(|| "gone".to_owned(), |it| it.job.state.to_string())
    }
}
