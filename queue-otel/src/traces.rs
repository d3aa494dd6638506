//! Traces: what connects an enqueue with the attempts of its jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{Status, TraceContextExt};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use queue::telemetry::{AttemptOutcome, Claimed, Propagation, propagate};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The name in a job's metadata, as W3C Trace Context has it.
const TRACEPARENT: &str = "traceparent";
/// A trace that waits for longer would have nothing to show for most of its time.
const SOON: Duration = Duration::from_secs(5 * 60);

/// Whether attempts belong to the trace of their enqueue. All of them link to it.
///
/// ```no_run
/// queue_otel::traces(queue_otel::Traces::Link);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Traces {
    /// The first attempt does, if it starts within five minutes. Retries begin traces of their own.
    #[default]
    Auto,
    /// None does: each attempt begins a trace of its own.
    Link,
    /// All do, however late they are.
    Child,
}

impl Traces {
    fn is_child(self, attempt: u32, since_enqueue: Option<Duration>) -> bool {
        match self {
            Self::Auto => attempt == 1 && since_enqueue.is_none_or(|since| since <= SOON),
            Self::Link => false,
            Self::Child => true,
        }
    }
}

/// Makes producer spans of enqueues and consumer spans of attempts, in the whole process. Each job carries the context
/// of its enqueue in its [metadata](queue::Job::meta), as `traceparent` and `tracestate`. Jobs that a handler enqueues
/// belong to its attempt.
///
/// The spans are those of `tracing`, at the level `info`. The program exports them with its layer of
/// `tracing-opentelemetry`. Returns false if a propagation is set already: that one stays.
///
/// ```no_run
/// queue_otel::traces(queue_otel::Traces::Auto);
/// ```
pub fn traces(traces: Traces) -> bool {
    propagate(W3c { traces, format: TraceContextPropagator::new() })
}

struct W3c {
    traces: Traces,
    format: TraceContextPropagator,
}

impl Propagation for W3c {
    /// Nothing without a span: what the running job hands on stays.
    fn inject(&self, span: &Span) -> Vec<(String, String)> {
        let mut pairs = Pairs(Vec::new());
        self.format.inject_context(&span.context(), &mut pairs);
        pairs.0
    }

    fn begins(&self, span: &Span, job: &Claimed, since_enqueue: Option<Duration>) {
        let sent = self.format.extract_with_context(&Context::new(), &Meta(job.meta()));
        let enqueue = sent.span().span_context().clone();
        let is_child = enqueue.is_valid() && self.traces.is_child(job.attempt(), since_enqueue);
        // Else a span that is current here would be the parent, such as that of a test. An error means that nobody
        // exports this span, or that another layer has begun it: then its parent stays.
        let _ = span.set_parent(if is_child { sent.clone() } else { Context::new() });
        if enqueue.is_valid() {
            span.add_link(enqueue);
        } else if let Some(text) = job.meta().get(TRACEPARENT) {
            tracing::warn!(
                parent: span,
                event = "trace.unreadable",
                job.id = %job.id(),
                job.kind = job.kind(),
                job.queue = %job.queue().escape_debug(),
                job.attempt = job.attempt(),
                traceparent = %text.escape_debug(),
                "the `traceparent` in the metadata of a job is not one of W3C Trace Context: the attempt has no link; \
                 whoever writes it must fix that"
            );
        }
        span.record("otel.name", format!("process {}", job.queue()));
        span.record("otel.kind", "consumer");
        span.set_attribute("messaging.system", "queue");
        span.set_attribute("messaging.operation.name", "process");
        span.set_attribute("messaging.operation.type", "process");
        span.set_attribute("messaging.destination.name", job.queue().to_owned());
    }

    fn ends(&self, span: &Span, outcome: Option<AttemptOutcome>, error: Option<&str>) {
        if let Some(error_type) = error_type(outcome) {
            span.set_attribute("error.type", error_type);
            span.set_status(Status::error(error.unwrap_or_default().to_owned()));
        }
    }
}

/// What went wrong, if something did. A worker that has lost its lease knows no outcome.
fn error_type(outcome: Option<AttemptOutcome>) -> Option<&'static str> {
    match outcome {
        None => Some("lease_lost"),
        Some(outcome) => is_error(outcome).then_some(outcome.as_str()),
    }
}

pub(crate) fn is_error(outcome: AttemptOutcome) -> bool {
    use AttemptOutcome::{Failed, Panicked, TimedOut, Undecodable};
    matches!(outcome, Failed | Panicked | TimedOut | Undecodable)
}

struct Pairs(Vec<(String, String)>);

impl Injector for Pairs {
    fn set(&mut self, name: &str, value: String) {
        self.0.push((name.to_owned(), value));
    }
}

struct Meta<'a>(&'a BTreeMap<String, String>);

impl Extractor for Meta<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_attempt_belongs_to_its_enqueue_for_five_minutes() {
        let (soon, late) = (Some(SOON), Some(SOON + Duration::from_micros(1)));
        for (traces, attempt, since, is_child) in [
            (Traces::Auto, 1, Some(Duration::ZERO), true),
            (Traces::Auto, 1, soon, true),
            (Traces::Auto, 1, None, true),
            (Traces::Auto, 1, late, false),
            (Traces::Auto, 2, soon, false),
            (Traces::Auto, 2, None, false),
            (Traces::Link, 1, soon, false),
            (Traces::Child, 1, late, true),
            (Traces::Child, 2, late, true),
        ] {
            assert_eq!(traces.is_child(attempt, since), is_child, "{traces:?} {attempt} {since:?}");
        }
    }

    #[test]
    fn only_failures_are_errors() {
        let outcomes = [AttemptOutcome::Completed, AttemptOutcome::Cancelled, AttemptOutcome::Snoozed];
        assert!(outcomes.iter().all(|outcome| error_type(Some(*outcome)).is_none()));
        assert_eq!(error_type(Some(AttemptOutcome::Released)), None);
        assert_eq!(error_type(Some(AttemptOutcome::TimedOut)), Some("timed_out"));
        assert_eq!(error_type(None), Some("lease_lost"));
    }
}
