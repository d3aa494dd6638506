//! The row of an attempt's own job, for a handler that completes the job itself.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::context::OwnRow;
use crate::error::Error;
use crate::limits::micros;
use crate::store::Store;
use crate::store::values::{Claimed, End, RunningRow, WorkerId};
use crate::worker::run::switch::{Stop, Switch};

/// How long a handler lets a statement end before it locks its job's row. The statement takes a round trip.
const PATIENCE: Duration = Duration::from_secs(1);

/// The row of a job that a worker holds.
pub(crate) struct HeldRow {
    pub(crate) job: Arc<Claimed>,
    pub(crate) worker: WorkerId,
    pub(crate) started: Instant,
    pub(crate) switch: Arc<Switch>,
    pub(crate) store: Arc<dyn Store>,
}

impl OwnRow for HeldRow {
    fn engine(&self) -> &'static str {
        self.store.capabilities().engine
    }

    fn row(&self) -> RunningRow {
        let enqueued_us = self.job.enqueued_at.timestamp_micros();
        RunningRow { hold: self.job.hold(), worker: self.worker, enqueued_us }
    }

    fn completed(&self, result: Option<String>) -> End {
        End::completed(self.job.hold(), micros(self.started.elapsed()), result)
    }

    fn is_lost(&self) -> bool {
        self.switch.reason() == Some(Stop::LeaseLost)
    }

    fn lock_soon(&self) -> BoxFuture<'_, ()> {
        // one writer: the statement would wait for the handler's transaction, which has begun already
        let patience = if self.store.capabilities().one_writer { Duration::ZERO } else { PATIENCE };
        self.switch.handler_locks_row(patience).boxed()
    }

    fn is_held(&self) -> BoxFuture<'_, Result<bool, Error>> {
        async move { Ok(!self.store.still_held(self.worker, &[self.job.hold()]).await?.is_empty()) }.boxed()
    }
}
