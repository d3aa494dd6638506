//! A shop: code shared by the web application (`src/bin/shop.rs`) and the worker (`src/bin/shop-worker.rs`).
//!
//! ```text
//! cargo run -p queue-example-web --bin shop            # http://127.0.0.1:3000
//! cargo run -p queue-example-web --bin shop-worker     # in a second terminal, and a third, …
//! curl -d '{"item":"lamp"}' -H 'content-type: application/json' http://127.0.0.1:3000/orders
//! curl http://127.0.0.1:3000/jobs
//! ```
//!
//! The staff sees the jobs at <http://127.0.0.1:3000/admin/jobs>, behind the shop's login.
//!
//! Both use the SQLite file `shop.sqlite`, or the database in `DATABASE_URL`: `sqlite://…`, `postgres://…`,
//! `mysql://…`. `examples/web/demo.sh` starts two workers and kills one;
//! `tests/orders.rs` tests the job.

pub mod db;
pub mod jobs;
pub mod staff;

use opentelemetry::trace::TracerProvider;
use tracing_subscriber::prelude::*;

/// Logs to stderr. `RUST_LOG` sets the level (default: `info`). Traces lead from a request to its jobs; a provider with
/// an exporter, such as that of `opentelemetry-otlp`, would send them somewhere.
pub fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info,sqlx=warn".into());
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let tracer = opentelemetry_sdk::trace::SdkTracerProvider::builder().build().tracer("shop");
    let traces = tracing_opentelemetry::layer().with_tracer(tracer);
    tracing_subscriber::registry().with(filter).with(log).with(traces).init();
    queue_otel::traces(queue_otel::Traces::Auto);
}
