//! Records in the database which attempts have begun. Only these count when the worker is lost with them.
//!
//! Nearly every attempt is recorded a moment after it began, if it still runs. So jobs that take microseconds cost no
//! statement, and no job waits. If the worker dies within that moment, nobody knows whether the attempt began. Then it
//! does not count.
//!
//! A job that was lost before, or has at most one retry left, is recorded before it begins. So its start is always
//! known.

use tokio::sync::{Mutex, MutexGuard, Notify, mpsc, oneshot};

use crate::store::values::{Start, WorkerId};

/// The channel to the loop that records starts.
pub(crate) struct Starts {
    asked: mpsc::UnboundedSender<StartRequest>,
    pub(super) begun: Notify,
    one: Mutex<()>,
}

/// An attempt that waits until its start is recorded.
pub(crate) struct StartRequest {
    pub(super) worker: WorkerId,
    pub(super) start: Start,
    pub(super) answer: oneshot::Sender<bool>,
}

impl Starts {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<StartRequest>) {
        let (asked, receiver) = mpsc::unbounded_channel();
        (Self { asked, begun: Notify::new(), one: Mutex::default() }, receiver)
    }

    /// Records a start and waits for the answer: whether it was accepted. None: the database failed, so nobody knows.
    pub(crate) async fn note(&self, worker: WorkerId, start: Start) -> Option<bool> {
        let (answer, answered) = oneshot::channel();
        self.asked.send(StartRequest { worker, start, answer }).ok()?;
        answered.await.ok()
    }

    /// Hold this from before the start is recorded until the handler has begun. Otherwise one of several jobs that were
    /// lost before could kill the process while another is recorded but has not begun.
    pub(crate) async fn one_by_one(&self) -> MutexGuard<'_, ()> {
        self.one.lock().await
    }

    /// An attempt has begun without being recorded.
    pub(crate) fn begun(&self) {
        self.begun.notify_one();
    }
}
