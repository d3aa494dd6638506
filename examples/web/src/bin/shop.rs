//! The web application:
//!
//! ```text
//! cargo run -p queue-example-web --bin shop
//! ```
//!
//! `POST /orders` writes an order and the job that confirms it, `GET /orders` counts the orders, `GET /jobs` the jobs
//! by state, `GET /jobs/{id}` shows one with every attempt, `GET /workers` says who is at work. `/admin/jobs` is the
//! dashboard, for the staff: they log in with any name and the password of `STAFF_PASSWORD`. It listens on `ADDRESS`,
//! 127.0.0.1:3000 by default. The header `x-request-id` of an order goes to its job, and so into the worker's log.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use queue::JobId;
use queue::admin::{JobDetail, Stat, WorkerInfo};
use queue_example_web::db::{Db, Orders};
use queue_example_web::staff::{self, Staff};
use queue_web::{Colour, Dashboard};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    queue_example_web::log_to_stderr();
    let (db, staff) = (Db::open().await?, Staff::from_env());
    let dashboard = Dashboard::new(db.admin()).instance("shop", Colour::Green).viewer(staff::viewer);
    let app = Router::new()
        .route("/orders", get(count_orders).post(place_order))
        .route("/jobs", get(job_states))
        .route("/jobs/{id}", get(show_job))
        .route("/workers", get(workers))
        .with_state(db)
        .nest("/admin/jobs", staff.guard(dashboard))
        .merge(staff.router());
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(queue::shutdown_signal()).await?;
    Ok(())
}

#[derive(serde::Deserialize)]
struct NewOrder {
    item: String,
}

#[derive(serde::Serialize)]
struct Placed {
    order: String,
    job: JobId,
}

/// The order and its job are one transaction (see `Db::place`): no order without its job, no job without its order, and
/// no worker sees the job before the order is there.
async fn place_order(
    State(db): State<Db>,
    headers: HeaderMap,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Placed>), Failed> {
    let request_id = headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    let (order, job) = db.place(&new.item, request_id).await?;
    Ok((StatusCode::CREATED, Json(Placed { order, job })))
}

async fn count_orders(State(db): State<Db>) -> Result<Json<Orders>, Failed> {
    Ok(Json(db.orders().await?))
}

async fn job_states(State(db): State<Db>) -> Result<Json<Vec<Stat>>, Failed> {
    Ok(Json(db.admin().stats().await?))
}

async fn show_job(State(db): State<Db>, Path(id): Path<JobId>) -> Result<Json<JobDetail>, Failed> {
    let job = db.admin().job(id).await?.ok_or(queue::Error::NotFound(id))?;
    Ok(Json(job))
}

async fn workers(State(db): State<Db>) -> Result<Json<Vec<WorkerInfo>>, Failed> {
    Ok(Json(db.admin().workers().await?))
}

/// An error on its way to the client.
struct Failed(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = match self.0.downcast_ref() {
            Some(queue::Error::NotFound(_)) => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, format!("{:#}\n", self.0)).into_response()
    }
}
