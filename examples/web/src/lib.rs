//! A shop: code shared by the web application (`src/bin/shop.rs`) and the worker (`src/bin/shop-worker.rs`).
//!
//! ```text
//! cargo run -p queue-example-web --bin shop            # http://127.0.0.1:3000
//! cargo run -p queue-example-web --bin shop-worker     # in a second terminal, and a third, …
//! curl -d '{"item":"lamp"}' -H 'content-type: application/json' http://127.0.0.1:3000/orders
//! curl http://127.0.0.1:3000/jobs
//! ```
//!
//! Both use the SQLite file `shop.sqlite`, or the database in `DATABASE_URL`: `sqlite://…`, `postgres://…`,
//! `mysql://…`. `examples/web/demo.sh` starts two workers and kills one;
//! `tests/orders.rs` tests the job.

pub mod db;
pub mod jobs;

/// Logs to stderr. `RUST_LOG` sets the level (default: `info`).
pub fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
}
