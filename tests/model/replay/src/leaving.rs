//! Records that a worker ends, before it tells the database. While a worker lives, nobody else may end it.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::jobs::Recorder;

/// Watches what the library says through `tracing`.
pub(crate) struct Watcher(pub(crate) Recorder);

impl<S: Subscriber> Layer<S> for Watcher {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        if said.leaves {
            self.0.left(said.worker);
        }
    }
}

#[derive(Default)]
struct Said {
    leaves: bool,
    worker: i64,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.leaves |= field.name() == "event" && ["worker.lease_lost", "worker.stopping"].contains(&value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "worker" {
            self.worker = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
