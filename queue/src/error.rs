//! The errors of the library itself. The outcome of a handler is [`JobError`](crate::JobError).

use std::io::ErrorKind;

use crate::state::{JobId, JobState};
use crate::store::engines::cure;

/// Why nothing is written in a transaction that only the caller believes in.
pub(crate) const TRANSACTION_OVER: &str = "its transaction is over: the database rolled it back, for example after a \
    deadlock or because of ON CONFLICT ROLLBACK, or a statement such as COMMIT, ROLLBACK or ALTER ended it; return \
    errors of the database, and begin anew";

/// An error of the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database refused an operation, or could not be reached.
    #[error("{doing}: {source}{}", cure(source))]
    Database {
        /// The operation that failed, for example ``cannot enqueue `send_email` ``.
        doing: String,
        /// The driver's error. It is part of this error's text, so it is not its `source()` as well.
        r#source: sqlx::Error,
    },
    /// The arguments of a job do not serialize to JSON.
    #[error("cannot enqueue `{kind}`: its arguments do not serialize: {source}")]
    Payload {
        /// The job's kind.
        kind: &'static str,
        /// The serializer's error. It is part of this error's text, so it is not its `source()` as well.
        r#source: serde_json::Error,
    },
    /// The arguments of a job are too large. See [`MAX_ARGS_BYTES`](crate::limits::MAX_ARGS_BYTES).
    #[error(
        "cannot enqueue `{kind}`: its arguments are {size} bytes of JSON, the limit is {limit}; \
         store the data elsewhere and enqueue a reference to it"
    )]
    TooLarge {
        /// The job's kind.
        kind: &'static str,
        /// Their size in bytes of JSON.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The arguments of a job nest too deeply, so no worker could decode them. See
    /// [`MAX_ARGS_DEPTH`](crate::limits::MAX_ARGS_DEPTH).
    #[error(
        "cannot enqueue `{kind}`: its arguments nest {depth} levels deep, the limit is {limit}; \
         enqueue a string that contains the JSON, or a flatter structure"
    )]
    TooDeep {
        /// The job's kind.
        kind: &'static str,
        /// Levels of arrays and objects.
        depth: usize,
        /// The limit in levels.
        limit: usize,
    },
    /// Another job holds this key, and the enqueue has [`OnConflict::Reject`](crate::unique::OnConflict::Reject).
    /// Nothing was written, and the caller's transaction stays usable.
    #[error(
        "cannot enqueue `{kind}`: {} has the key `{key}` already; let that one do, or enqueue again when it is over",
        holder(*existing)
    )]
    Duplicate {
        /// The job's kind.
        kind: &'static str,
        /// Its key.
        key: String,
        /// The job that has the key. `None`: another job of the same batch.
        existing: Option<JobId>,
    },
    /// A dead letter cannot be sent back, because another job has its key by now.
    #[error(
        "cannot send job {id} back: job {holder} has its key `{key}`; wait until that one is over, or cancel it, or \
         delete the dead letter"
    )]
    KeyTaken {
        /// The dead letter.
        id: JobId,
        /// Its key.
        key: String,
        /// The job that has the key.
        holder: JobId,
    },
    /// A setting or argument is not usable. The message names it, gives the reason, and says what to write instead.
    #[error("{0}")]
    Config(String),
    /// The tables are missing, or their version is not compatible with this binary. The message says what to do.
    #[error("{0}")]
    Schema(String),
    /// The attempt is not current any more: its worker lost the lease, and the job may run elsewhere. What this
    /// attempt has written must not be committed. See [`JobContext::complete_in`](crate::JobContext::complete_in).
    #[error("job {id} is another worker's by now: roll back what this attempt has written")]
    LeaseLost {
        /// The job.
        id: JobId,
    },
    /// No job has this id.
    #[error("there is no job {0}; it may have been deleted, or removed by retention")]
    NotFound(JobId),
    /// No schedule has this name.
    #[cfg(feature = "schedules")]
    #[error("there is no schedule `{0}`; it may have been removed")]
    NoSchedule(String),
    /// The job's state does not allow the operation.
    #[error("cannot {operation} job {id}: it is {state}; {cure}")]
    Conflict {
        /// The job.
        id: JobId,
        /// The operation, for example `retry`.
        operation: &'static str,
        /// The job's state.
        state: JobState,
        /// What to do instead.
        cure: &'static str,
    },
    /// A transaction has had a job's row locked for some seconds: that of a handler which has called
    /// [`guard`](crate::JobContext::guard) or [`complete_in`](crate::JobContext::complete_in), or one of another
    /// program. The other jobs were changed.
    #[error(
        "cannot {operation} {}: an open transaction has locked it, such as one in which a handler called `guard` or \
         `complete_in`; call this again when that transaction has ended{}",
        some_of(jobs),
        if *changed > 0 { format!("; {changed} other jobs were changed") } else { String::new() }
    )]
    Locked {
        /// The operation, for example `cancel`.
        operation: &'static str,
        /// The jobs that it could not change.
        jobs: Vec<JobId>,
        /// How many others it changed.
        changed: u64,
    },
}

/// The first jobs of a list that may be long.
fn some_of(jobs: &[JobId]) -> String {
    const TOLD: usize = 10;
    let told: Vec<String> = jobs.iter().take(TOLD).map(|id| format!("job {id}")).collect();
    let more = jobs.len().saturating_sub(TOLD);
    if more == 0 { told.join(", ") } else { format!("{} and {more} more", told.join(", ")) }
}

fn holder(existing: Option<JobId>) -> String {
    existing.map_or("another job of the batch".to_owned(), |id| format!("job {id}"))
}

impl Error {
    /// Whether the database refuses the values, so that a retry cannot help. Every other refusal (read-only after a
    /// failover, a full disk, a server timeout) counts as an outage.
    pub(crate) fn blames_the_row(&self) -> bool {
        let Self::Database { source: sqlx::Error::Database(error), .. } = self else { return false };
        // data exception, program limit exceeded
        let of_the_data = error.code().is_some_and(|code| code.len() == 5 && ["22", "54"].contains(&&code[..2]));
        !matches!(error.kind(), sqlx::error::ErrorKind::Other) || of_the_data
    }

    /// The connection is gone. If the statement caused that, a server that is up answers on other connections.
    pub(crate) fn broke_the_connection(&self) -> bool {
        let Self::Database { source, .. } = self else { return false };
        match source {
            // a timeout says nothing about what was sent
            sqlx::Error::Io(error) => !matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::ConnectionAborted),
            sqlx::Error::Protocol(_) => true,
            // connection exception; "got a packet bigger than max_allowed_packet" is one as well
            sqlx::Error::Database(error) => error.code().is_some_and(|code| code.starts_with("08")),
            _ => false,
        }
    }

    /// Whether the account lacks a right: by SQLSTATE. MySQL has one class for this and for mistakes in a statement.
    pub(crate) fn is_a_missing_right(&self) -> bool {
        let Self::Database { source: sqlx::Error::Database(error), .. } = self else { return false };
        error.code().is_some_and(|code| matches!(code.as_ref(), "42501" | "42000"))
    }

    /// Whether another row has the key.
    pub(crate) fn is_taken(&self) -> bool {
        let Self::Database { source: sqlx::Error::Database(error), .. } = self else { return false };
        error.is_unique_violation()
    }

    /// Whether a constraint refuses the row: a key, a check or `NOT NULL`.
    pub(crate) fn is_a_constraint(&self) -> bool {
        let Self::Database { source: sqlx::Error::Database(error), .. } = self else { return false };
        !matches!(error.kind(), sqlx::error::ErrorKind::Other)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::Config(message.into())
    }
}

/// Adds the failed operation to an error of the database.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, sqlx::Error> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Database { doing: what.into(), source })
    }
}

#[cfg(all(test, feature = "anyhow"))]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_printed_once() {
        let error = Error::Database { doing: "cannot enqueue `a`".into(), source: sqlx::Error::PoolTimedOut };
        let text = format!("{:#}", anyhow::Error::new(error));
        assert_eq!(text.matches("timed out while waiting").count(), 1, "{text}");
    }
}
