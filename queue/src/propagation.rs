//! Enqueues as the beginning of a trace: their spans, and what their jobs carry in their metadata.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

use crate::metadata::{MAX_META_BYTES, Metadata};
use crate::store::values::{AttemptOutcome, Claimed};

/// Carries traces from enqueues to attempts, for example as OpenTelemetry has them. The crate `queue-otel` is one.
///
/// ```
/// use std::time::Duration;
/// use queue::telemetry::{AttemptOutcome, Claimed, Propagation, propagate};
/// use tracing::Span;
///
/// struct Numbers;
///
/// impl Propagation for Numbers {
///     fn inject(&self, span: &Span) -> Vec<(String, String)> {
///         span.id().map(|id| ("caused_by".to_owned(), id.into_u64().to_string())).into_iter().collect()
///     }
///     fn begins(&self, _span: &Span, job: &Claimed, _since_enqueue: Option<Duration>) {
///         println!("{} was enqueued in the span {:?}", job.id(), job.meta().get("caused_by"));
///     }
///     fn ends(&self, _span: &Span, outcome: Option<AttemptOutcome>, error: Option<&str>) {
///         println!("{outcome:?}: {error:?}");
///     }
/// }
///
/// propagate(Numbers);
/// ```
pub trait Propagation: Send + Sync + 'static {
    /// What the jobs of an enqueue carry. `span` is that of the enqueue, which a batch has one of. An empty value takes
    /// away what the job would get from the one whose handler enqueues it.
    fn inject(&self, span: &Span) -> Vec<(String, String)>;
    /// An attempt is about to begin. `span` is its span `job`, which nobody has entered yet. `since_enqueue`: how long
    /// ago the job was enqueued, by the database's clock; `None` while that is not known.
    fn begins(&self, span: &Span, job: &Claimed, since_enqueue: Option<Duration>);
    /// It has ended; without an outcome, its worker has lost the lease. The error is `None` if there is none, or the
    /// worker has [`log_errors(false)`](crate::WorkerBuilder::log_errors).
    fn ends(&self, span: &Span, outcome: Option<AttemptOutcome>, error: Option<&str>);
}

static PROPAGATION: OnceLock<Box<dyn Propagation>> = OnceLock::new();

/// Uses this in the whole process, for each later enqueue and attempt. Returns false if there is one already, which
/// stays.
pub fn propagate(propagation: impl Propagation) -> bool {
    PROPAGATION.set(Box::new(propagation)).is_ok()
}

pub(crate) fn propagation() -> Option<&'static dyn Propagation> {
    PROPAGATION.get().map(|it| &**it)
}

/// An enqueue of one job or several: its span, and what the jobs get beside their own metadata.
pub(crate) struct Sending {
    pub(crate) span: Span,
    handed_on: Metadata,
    injected: Vec<(String, String)>,
    /// Whether the log says that the trace does not fit. A batch may have many jobs that it does not fit into.
    told: Cell<bool>,
}

impl Sending {
    /// Of jobs that are not enqueued now.
    pub(crate) fn later() -> Self {
        Self { span: Span::none(), handed_on: Metadata::default(), injected: Vec::new(), told: Cell::default() }
    }

    /// `jobs`: how many, if it is a batch.
    pub(crate) fn begin(kind: &str, queue: &str, jobs: Option<usize>) -> Self {
        let handed_on = Metadata::of_running_job();
        let Some(propagation) = propagation() else { return Self { handed_on, ..Self::later() } };
        let span = tracing::info_span!(
            "enqueue",
            otel.name = format!("send {queue}"),
            otel.kind = "producer",
            otel.status_code = Empty,
            messaging.system = "queue",
            messaging.operation.name = "send",
            messaging.operation.type = "send",
            messaging.destination.name = queue,
            messaging.batch.message_count = jobs,
            job.kind = kind,
            job.id = Empty,
        );
        let injected = propagation.inject(&if span.is_disabled() { Span::current() } else { span.clone() });
        Self { span, handed_on, injected, told: Cell::default() }
    }

    /// The column `meta` of a job with metadata of its own.
    pub(crate) fn meta(&self, own: Option<BTreeMap<String, String>>) -> Result<Option<String>, String> {
        if own.is_none() && self.injected.is_empty() {
            return Ok(self.handed_on.json());
        }
        let own = own.unwrap_or_default();
        let is_traced = !self.injected.iter().any(|(name, _)| own.contains_key(name));
        let with = |injected: &[(String, String)]| {
            let all = self.handed_on.map().clone().into_iter().chain(injected.iter().cloned()).chain(own.clone());
            Metadata::from(all.collect::<BTreeMap<_, _>>()).json()
        };
        let fits = |json: &Option<String>| json.as_ref().is_none_or(|json| json.len() <= MAX_META_BYTES);
        let all = with(if is_traced { &self.injected } else { &[] });
        if fits(&all) {
            return Ok(all);
        }
        let json = with(&[]);
        if !fits(&json) {
            return Err(format!(
                "its metadata, with what the running job hands on, is {} bytes of JSON, and the limit is \
                 {MAX_META_BYTES}; metadata is for ids: give data as an argument",
                json.unwrap_or_default().len()
            ));
        }
        if !self.told.replace(true) {
            tracing::warn!(event = "trace.dropped", "the context of the trace does not fit into a job's metadata");
        }
        Ok(json)
    }

    /// How it ended.
    pub(crate) fn ends(&self, id: Option<i64>, failed: bool) {
        if let Some(id) = id {
            self.span.record("job.id", id);
        }
        if failed {
            self.span.record("otel.status_code", "ERROR");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn sending(handed_on: &[(&str, &str)], injected: &[(&str, &str)]) -> Sending {
        Sending { handed_on: map(handed_on).into(), injected: map(injected).into_iter().collect(), ..Sending::later() }
    }

    #[test]
    fn own_metadata_comes_before_the_trace_and_that_before_what_is_handed_on() {
        let sending = sending(&[("a", "1"), ("trace", "old"), ("state", "old")], &[("trace", "new"), ("state", "")]);
        assert_eq!(sending.meta(None).unwrap().unwrap(), r#"{"a":"1","trace":"new"}"#);
        let own = Some(map(&[("a", "2"), ("b", "3")]));
        assert_eq!(sending.meta(own).unwrap().unwrap(), r#"{"a":"2","b":"3","trace":"new"}"#);
        let traced = Some(map(&[("trace", "mine")]));
        assert_eq!(sending.meta(traced).unwrap().unwrap(), r#"{"a":"1","state":"old","trace":"mine"}"#);
        assert_eq!(Sending::later().meta(None), Ok(None));
        assert_eq!(Sending::later().meta(Some(map(&[("a", "")]))), Ok(None));
    }

    #[test]
    fn a_trace_that_does_not_fit_is_dropped_and_metadata_that_does_not_is_refused() {
        let long = "x".repeat(1 << 20);
        let own = || Some(map(&[("id", "7")]));
        assert_eq!(sending(&[], &[("trace", &long)]).meta(own()).unwrap().unwrap(), r#"{"id":"7"}"#);
        let refused = sending(&[], &[]).meta(Some(map(&[("id", &long)]))).unwrap_err();
        assert!(refused.contains("1048585 bytes of JSON, and the limit is 4096"), "{refused}");
    }
}
