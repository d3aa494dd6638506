//! What the code under test says.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Subscriber, set_default};
use tracing::{Event, Metadata};

/// All events, one a line.
#[derive(Clone, Default)]
pub(in crate::worker) struct Log(Arc<Mutex<String>>);

impl Log {
    /// What this thread says from now on.
    pub(in crate::worker) fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        (log.clone(), set_default(log))
    }

    /// How many lines there were with this text, since the last time that one asked for any.
    pub(in crate::worker) fn take(&self, text: &str) -> usize {
        std::mem::take(&mut *self.0.lock().unwrap()).lines().filter(|line| line.contains(text)).count()
    }
}

struct LogLine<'a>(&'a mut String);

impl Visit for LogLine<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock().unwrap();
        event.record(&mut LogLine(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
