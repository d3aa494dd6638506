//! Jobs to write, and why they were not written.

use std::borrow::Cow;

use serde::Serialize;

use crate::unique::UniqueJob;

/// Whose connection writes the jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The caller's. It may be in a transaction, begun by sqlx or by SQL that sqlx does not know of.
    Callers,
    /// Taken from the pool for these jobs alone, so it need not be checked for an open transaction.
    Pools,
    /// Either of them, in a transaction or behind a savepoint that undoes all after an error.
    InTransaction,
}

/// A job to insert.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NewJob {
    pub(crate) kind: Cow<'static, str>,
    pub(crate) queue: Cow<'static, str>,
    pub(crate) priority: i16,
    /// `None`: what its kind says when it is claimed first.
    pub(crate) max_retries: Option<i32>,
    /// From now, in microseconds.
    pub(crate) delay_us: Option<i64>,
    /// Microseconds since 1970.
    pub(crate) run_at_us: Option<i64>,
    /// JSON, as text.
    pub(crate) args: String,
    /// Metadata, as JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meta: Option<String>,
    #[serde(skip)]
    pub(crate) unique: Option<Box<UniqueJob>>,
}

impl NewJob {
    /// The bit of unique jobs in the column `features`. Each bit stands for a feature that a job uses. A bit never
    /// changes its meaning, because rows keep it.
    pub(crate) const IS_UNIQUE: i64 = 1;

    /// The value of the column `features`.
    pub(crate) fn features(&self) -> i64 {
        if self.unique.is_some() { Self::IS_UNIQUE } else { 0 }
    }

    /// How a unique job is unique.
    pub(crate) fn rule(&self) -> &UniqueJob {
        self.unique.as_deref().expect("a job that wants a key is unique")
    }
}

/// A dead letter that cannot be sent back, because another job has its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) id: i64,
    pub(crate) key: String,
    pub(crate) holder: i64,
}

/// Why jobs were not written.
#[derive(Debug)]
pub(crate) enum Unwritten {
    Sql(sqlx::Error),
    /// sqlx counts a transaction that is over.
    TransactionOver,
    /// A job that must not be enqueued twice. `existing` has its key. None: another job of the batch.
    Duplicate {
        key: String,
        existing: Option<i64>,
    },
}

impl Unwritten {
    /// Of jobs that are not unique, in a transaction that is there for sure.
    pub(crate) fn of_plain_jobs(self) -> sqlx::Error {
        match self {
            Self::Sql(error) => error,
            other => sqlx::Error::Protocol(format!("plain jobs were refused as if they were unique: {other:?}")),
        }
    }
}

impl From<sqlx::Error> for Unwritten {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}
