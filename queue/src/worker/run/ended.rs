//! How an attempt ended: what is to be recorded.

use crate::store::values::{AttemptOutcome, Destination, End, Hold};

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Known(End),
    /// The handler completed the job in a transaction of its own: whether that was committed is still to be read.
    Unsettled(Unsettled),
}

impl Ended {
    /// The job, and the fence of the attempt.
    pub(crate) fn key(&self) -> (i64, i32) {
        match self {
            Self::Known(end) => end.hold.key(),
            Self::Unsettled(it) => it.hold.key(),
        }
    }

    /// The arguments did not decode, and another worker may be able to.
    pub(crate) fn is_misfit(&self) -> bool {
        matches!(self, Self::Known(End { outcome: AttemptOutcome::Undecodable, to: Destination::Requeue { .. }, .. }))
    }
}

impl From<End> for Ended {
    fn from(end: End) -> Self {
        Self::Known(end)
    }
}

/// An attempt that ended, if its job is still there.
pub(crate) struct Unsettled {
    pub(crate) hold: Hold,
    settle: Box<dyn FnOnce(bool) -> Settled + Send>,
}

/// How it ended.
pub(crate) enum Settled {
    /// The job is gone: there is nothing to write. The result is what the handler returned.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "only tests look at the result"))]
    Completed { result: Option<String> },
    /// As the transaction was not committed.
    Ended(End),
    /// The lease was lost, so there is nothing to record.
    Lost,
}

impl Unsettled {
    pub(crate) fn new(hold: Hold, settle: impl FnOnce(bool) -> Settled + Send + 'static) -> Self {
        Self { hold, settle: Box::new(settle) }
    }

    /// Decides, and logs it. `is_held`: the worker still holds the job under the attempt's fence.
    pub(crate) fn settle(self, is_held: bool) -> Settled {
        (self.settle)(is_held)
    }
}

impl std::fmt::Debug for Unsettled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unsettled").field("hold", &self.hold).finish_non_exhaustive()
    }
}
