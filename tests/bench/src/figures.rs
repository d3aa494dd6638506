//! What is printed.

use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// Jobs a second.
pub(crate) fn rate(jobs: i64, since: Instant) -> Value {
    json!({ "jobs_per_second": jobs as f64 / since.elapsed().as_secs_f64() })
}

/// Jobs a second, from microseconds.
pub(crate) fn per_second(jobs: i64, us: i64) -> f64 {
    jobs as f64 * 1e6 / us.max(1) as f64
}

/// Median and 99th percentile, in milliseconds.
pub(crate) fn quantiles(mut ms: Vec<f64>) -> Value {
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| ms.get(((ms.len() as f64 * share) as usize).min(ms.len().saturating_sub(1)));
    json!({ "p50_ms": at(0.5), "p99_ms": at(0.99) })
}

/// Two objects as one.
pub(crate) fn merge(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            one.extend(other);
            Value::Object(one)
        }
        (one, _) => one,
    }
}

/// Microseconds since 1970, to time what crosses tasks and processes.
pub(crate) fn wall_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}

/// Times that handlers note, in microseconds.
#[derive(Default)]
pub(crate) struct Latencies(Mutex<Vec<u32>>);

impl Latencies {
    pub(crate) fn note(&self, us: i64) {
        let us = u32::try_from(us.max(0)).unwrap_or(u32::MAX);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(us);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// What was noted since the last call, in milliseconds.
    pub(crate) fn take(&self) -> Vec<f64> {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().map(|us| f64::from(us) / 1e3).collect()
    }
}
