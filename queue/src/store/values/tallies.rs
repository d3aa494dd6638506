//! What started and ended, as it is written.

use serde::Serialize;

use crate::throughput::TallyOutcome;

/// What is added to a row of `queue_tallies`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TallyRow {
    pub(crate) queue: String,
    pub(crate) kind: String,
    pub(crate) outcome: TallyOutcome,
    pub(crate) attempts: i64,
    pub(crate) total_us: i64,
    pub(crate) longest_us: i64,
}

/// What is added to a row of `queue_failures`: attempts that failed in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FailureRow {
    pub(crate) failure: String,
    pub(crate) attempts: i64,
}
