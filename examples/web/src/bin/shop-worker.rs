//! The worker:
//!
//! ```text
//! cargo run -p queue-example-web --bin shop-worker
//! ```
//!
//! Start as many as you like. Ctrl-C (or TERM) lets it finish what it runs; a second Ctrl-C ends it at once, and what
//! it ran is given to another worker. At `ADDRESS` (default: a free port) it answers `/livez`, `/readyz`, and `/metrics`
//! for Prometheus.

use std::future::IntoFuture;

use axum::routing::get;
use metrics_exporter_prometheus::PrometheusBuilder;
use queue_example_web::db::Db;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    queue_example_web::log_to_stderr();
    let db = Db::open().await?;
    let page = PrometheusBuilder::new().set_buckets(queue_metrics::BUCKETS)?.install_recorder()?;
    let worker = db.worker().queue("orders", 4).state(db.clone()).observe(queue_metrics::observer()).build()?;
    let app = worker.health().router().route("/metrics", get(move || async move { page.render() }));
    let address = std::env::var("ADDRESS").unwrap_or_else(|_| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, app).into_future());
    Ok(worker.run(queue::shutdown_signal()).await?)
}
