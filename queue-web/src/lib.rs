//! The dashboard of [`queue`]: what is wrong, why, and how to act on it. It is an axum router for your application.
//!
//! ```
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
//! use axum::Router;
//! use axum::http::request::Parts;
//! use queue::admin::Admin;
//! use queue_web::{Colour, Dashboard, Rights, Viewer};
//!
//! /// Your application knows who sent a request.
//! async fn viewer(request: &Parts) -> Option<Viewer> {
//!     let user = request.headers.get("x-forwarded-user")?.to_str().ok()?;
//!     Some(Viewer::new(user).may(Rights::ACT | Rights::EDIT))
//! }
//!
//! queue::migrate(&pool).await?;
//! let dashboard = Dashboard::new(Admin::new(&pool)).instance("production", Colour::Red).viewer(viewer);
//! let app: Router = Router::new().nest("/admin/jobs", dashboard);
//! # drop(app);
//! # Ok(()) }
//! ```
//!
//! # Safe by construction
//! * There is no router without [`viewer`](Dashboard::viewer), or [`open_to_everybody`](Dashboard::open_to_everybody).
//! * A change is a POST that comes from a page of the dashboard: the browser says so in `Sec-Fetch-Site`, or in
//!   `Origin`. There is no session and no token, and other sites are never let in.
//! * Nothing is loaded from elsewhere. The `Content-Security-Policy` allows no inline script and no inline style.
//! * Each change is on record with the viewer's name and reason: the screen Operations shows it.
//! * If the database only reads, as a replica does, the dashboard says so and offers no change.
//!
//! # Cheap
//! It has no SQL of its own: every screen is what [`Admin`] returns, which is bounded however many jobs there are. The
//! counts beside the screens are shared by all who look, for up to 15 seconds.
//!
//! # Without a script
//! Every screen and every action works without JavaScript. The script only refreshes a page every three seconds, unless
//! somebody types or its tab is hidden, and adds keys: press `?`.

mod access;
mod assets;
mod chart;
mod done;
mod findings;
mod frame;
mod looks;
mod pages;
mod site;
#[cfg(test)]
mod tests;
mod text;
mod world;

use std::fmt;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use queue::admin::{Admin, JobDetail};

pub use crate::access::{LooksUp, Rights, Viewer};
use crate::access::{guard, hook};
use crate::looks::Looks;
use crate::site::{LinkOf, Problem, Site};

/// A form holds arguments of 1 MiB at most, each byte of which may take three.
const LARGEST_FORM: usize = 4 * 1024 * 1024;

/// The colour at the top of every page, so that nobody takes one instance for another. The name stands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Colour {
    /// Where mistakes hurt, such as production.
    Red,
    /// Between the others, such as staging.
    Amber,
    /// Where nothing can break.
    Green,
    /// Any other.
    Blue,
}

impl Colour {
    fn word(self) -> &'static str {
        match self {
            Self::Red => "red",
            Self::Amber => "amber",
            Self::Green => "green",
            Self::Blue => "blue",
        }
    }
}

/// The dashboard of the jobs in one database. [`viewer`](Self::viewer) or
/// [`open_to_everybody`](Self::open_to_everybody) makes it a router.
///
/// The router works at the root and [nested](Router::nest) under any path. It is also a `tower` service.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::SqlitePool::connect("sqlite::memory:").await?;
/// use queue::admin::Admin;
/// use queue_web::Dashboard;
///
/// let router = Dashboard::new(Admin::new(&pool))
///     .trace_url("https://tempo.example/trace/{trace_id}")
///     .link("Order", |job| {
///         let args: serde_json::Value = serde_json::from_str(&job.args).ok()?;
///         Some(format!("https://shop.example/orders/{}", args["order"].as_i64()?))
///     })
///     .open_to_everybody();
/// # drop(router);
/// # Ok(()) }
/// ```
#[must_use = "it becomes a router by `viewer` or `open_to_everybody`"]
pub struct Dashboard {
    admin: Admin,
    instance: Option<(String, &'static str)>,
    links: Vec<(String, LinkOf)>,
    trace_url: Option<String>,
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard").field("instance", &self.instance).finish_non_exhaustive()
    }
}

impl Dashboard {
    /// The dashboard of this administration. Does no I/O.
    pub fn new(admin: Admin) -> Self {
        Self { admin, instance: None, links: Vec::new(), trace_url: None }
    }

    /// The name of the instance, such as `production`. It stands at the top of every page and in its title.
    pub fn instance(mut self, name: impl Into<String>, colour: Colour) -> Self {
        self.instance = Some((name.into(), colour.word()));
        self
    }

    /// A link on the page of each job for which `url` returns one, such as its errors or its order. Only `https:` and
    /// `http:` addresses are shown, and paths that begin with `/`.
    pub fn link(
        mut self,
        label: impl Into<String>,
        url: impl Fn(&JobDetail) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.links.push((label.into(), Box::new(url)));
        self
    }

    /// Where the trace of a job is, with `{trace_id}` in it: the id out of the `traceparent` in the job's metadata.
    /// Jobs without one have no such link.
    pub fn trace_url(mut self, url: impl Into<String>) -> Self {
        self.trace_url = Some(url.into());
        self
    }

    /// The router for those whom `viewer` knows. Everybody else gets 403. It is asked for every request.
    ///
    /// The request has the extensions that your own layers have put into it. See [`LooksUp`] for functions that need
    /// state of their own.
    pub fn viewer(self, viewer: impl for<'a> LooksUp<'a>) -> Router {
        let Self { admin, instance, links, trace_url } = self;
        let (looks, refused) = (Arc::new(Looks::new()), Mutex::default());
        let site = Arc::new(Site { admin, look: hook(viewer), instance, links, trace_url, looks, refused });
        let routes = routes().into_iter().fold(Router::new(), |all, (_, path, route)| all.route(path, route));
        routes
            .fallback(async || Problem::new(StatusCode::NOT_FOUND, "There is no such page."))
            .layer(DefaultBodyLimit::max(LARGEST_FORM))
            .layer(from_fn_with_state(site.clone(), guard))
            .with_state(site)
    }

    /// The router for everybody who reaches it, with all [rights](Rights). Use it where something else lets only the
    /// right people in, such as a proxy or a VPN. Changes are on record under the name `anybody`.
    pub fn open_to_everybody(self) -> Router {
        self.viewer(|_: &axum::http::request::Parts| async { Some(Viewer::new("anybody").may(Rights::ALL)) })
    }
}

/// Every route: tests go through this list. The names of its parameters are none that a path around it could have.
fn routes() -> Vec<(&'static str, &'static str, MethodRouter<Arc<Site>>)> {
    use pages::{edit, enqueue, failures, job, jobs, operations, overview, plan, queues, schedules, workers};
    vec![
        ("GET", "/", get(overview::show)),
        ("GET", "/failures", get(failures::show)),
        ("GET", "/jobs", get(jobs::show)),
        ("GET", "/jobs/{queue_web_id}", get(job::show)),
        ("POST", "/jobs/{queue_web_id}", post(job::act)),
        ("GET", "/jobs/{queue_web_id}/edit", get(edit::show)),
        ("POST", "/jobs/{queue_web_id}/edit", post(edit::save)),
        ("GET", "/plan", get(plan::show)),
        ("POST", "/plan", post(plan::run)),
        ("GET", "/queues", get(queues::show)),
        ("POST", "/queues", post(queues::change)),
        ("GET", "/workers", get(workers::show)),
        ("GET", "/schedules", get(schedules::show)),
        ("POST", "/schedules", post(schedules::change)),
        ("GET", "/operations", get(operations::show)),
        ("GET", "/operations/{queue_web_id}", get(operations::one)),
        ("POST", "/operations/{queue_web_id}", post(operations::stop)),
        ("GET", "/enqueue", get(enqueue::show)),
        ("POST", "/enqueue", post(enqueue::enqueue)),
        ("GET", "/keys", get(pages::keys)),
        ("GET", "/theme", get(pages::theme)),
        ("GET", "/assets/{queue_web_file}", get(assets::show)),
    ]
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
