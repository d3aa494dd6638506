//! What can go wrong in the library itself (a job's own outcome is [`JobError`](crate::JobError)).

use crate::id::JobId;
use crate::state::JobState;
use crate::store::engine::settings::cure;

/// An error of the library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database refused or could not be reached. `doing` says what was tried (and names the kind for an enqueue).
    #[error("{doing}: {source}{}", cure(source))]
    Database {
        /// What was tried.
        doing: String,
        /// The driver's error.
        #[source]
        source: sqlx::Error,
    },
    /// The arguments of a job could not be written as JSON.
    #[error("cannot enqueue `{kind}`: its arguments do not serialize: {source}")]
    Payload {
        /// The job's kind.
        kind: &'static str,
        /// The serializer's error.
        #[source]
        source: serde_json::Error,
    },
    /// The arguments of a job are too large.
    #[error(
        "cannot enqueue `{kind}`: its arguments are {size} bytes of JSON, the limit is {limit}; \
         store the data elsewhere and enqueue a reference to it"
    )]
    TooLarge {
        /// The job's kind.
        kind: &'static str,
        /// Bytes of JSON.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The arguments of a job nest too deeply: no worker could decode them.
    #[error(
        "cannot enqueue `{kind}`: its arguments nest {depth} levels deep, the limit is {limit}; \
         enqueue them as a text that holds JSON, or in a flatter form"
    )]
    TooDeep {
        /// The job's kind.
        kind: &'static str,
        /// Levels of arrays and objects.
        depth: usize,
        /// Levels allowed.
        limit: usize,
    },
    /// An option is not usable: which, why, and what to write instead.
    #[error("{0}")]
    Config(String),
    /// The database's schema does not fit this binary.
    #[error("{0}")]
    Schema(String),
    /// There is no such job.
    #[error("there is no job {0}; it may have been deleted, or removed by retention")]
    NotFound(JobId),
    /// The job's state does not allow the operation.
    #[error("cannot {operation} job {id}: it is {state}; {cure}")]
    Conflict {
        /// The job.
        id: JobId,
        /// What was asked.
        operation: &'static str,
        /// The state that it is in.
        state: JobState,
        /// What to do instead.
        cure: &'static str,
    },
}

impl Error {
    /// The database refuses these very values: trying again will not help. Every other refusal (read-only after a
    /// failover, a full disk, a time limit of the server) is an outage.
    pub(crate) fn blames_the_row(&self) -> bool {
        let Self::Database { source: sqlx::Error::Database(error), .. } = self else { return false };
        // data exception, program limit exceeded
        let of_the_data = error.code().is_some_and(|code| code.len() == 5 && ["22", "54"].contains(&&code[..2]));
        !matches!(error.kind(), sqlx::error::ErrorKind::Other) || of_the_data
    }

    /// Another row has its key.
    pub(crate) fn is_taken(&self) -> bool {
        let Self::Database { source: sqlx::Error::Database(error), .. } = self else { return false };
        error.is_unique_violation()
    }

    /// A constraint refuses it: a key, a check, a column that must have a value.
    pub(crate) fn is_a_constraint(&self) -> bool {
        let Self::Database { source: sqlx::Error::Database(error), .. } = self else { return false };
        !matches!(error.kind(), sqlx::error::ErrorKind::Other)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::Config(message.into())
    }
}

/// Says what was tried when the database failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error>;
}

impl<T> Doing<T> for Result<T, sqlx::Error> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error::Database { doing: what.into(), source })
    }
}
