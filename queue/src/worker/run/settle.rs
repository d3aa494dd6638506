//! Attempts whose handler completed the job in a transaction of its own: how they end depends on its commit.

use crate::store::values::Hold;
use crate::worker::run::attempt::Ended;

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
    Ended(Ended),
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
