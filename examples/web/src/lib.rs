//! A shop: what the web application (`src/bin/shop.rs`) and the worker (`src/bin/shop-worker.rs`) have in common.
//!
//! ```text
//! cargo run -p queue-example-web --bin shop            # http://127.0.0.1:3000
//! cargo run -p queue-example-web --bin shop-worker     # in a second terminal, and a third, …
//! curl -d '{"item":"lamp"}' -H 'content-type: application/json' http://127.0.0.1:3000/orders
//! curl http://127.0.0.1:3000/jobs
//! ```
//!
//! Both use the SQLite file `shop.sqlite`, or what `DATABASE_URL` names: `sqlite://…`, `postgres://…`, `mysql://…`.
//! `examples/web/demo.sh` shows two workers, one of which is killed.

pub mod db;
pub mod jobs;

/// Prints what the library and the program have to say; `RUST_LOG` chooses how much of it.
pub fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
}

/// Ready when the program is asked to end: Ctrl-C, or the TERM signal of whatever runs it.
pub async fn shutdown_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).expect("the process may listen to its signals");
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    #[cfg(not(unix))]
    drop(tokio::signal::ctrl_c().await);
}
