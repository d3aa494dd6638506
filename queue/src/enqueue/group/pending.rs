//! An enqueue that leaves its job to others.

use sqlx::Error;
use tokio::sync::oneshot;

use crate::store::values::NewJob;

/// An enqueue that waits for its id.
pub(super) struct PendingInsert {
    pub(super) job: NewJob,
    pub(super) written: oneshot::Sender<Result<i64, Error>>,
}
