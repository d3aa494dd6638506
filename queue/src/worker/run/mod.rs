//! Running jobs: the slots, and the steps of an attempt from the claim to its end. Here is everything that the worker
//! holds: claimed jobs that wait for a slot, and attempts that run.

pub(crate) mod attempt;
pub(crate) mod ending;
pub(crate) mod isolation;
pub(crate) mod slot;
pub(crate) mod slots;
pub(crate) mod verdict;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::store::values::{Hold, Start, WorkerId};
use crate::worker::config::Config;
use crate::worker::notices::lock;
use crate::worker::record::tally::Place;
use crate::worker::run::attempt::Attempt;
use crate::worker::run::ending::Stop;
use crate::worker::run::isolation::{Admission, Isolation};
use crate::worker::run::slots::Slots;

/// How many attempts may read and decode long arguments at the same time.
const LONG_ARGS_AT_ONCE: usize = 4;

/// A job in hand: its attempt runs, or is about to.
pub(crate) struct Held {
    pub(crate) attempt: Arc<Attempt>,
    /// The number under which it was claimed.
    pub(crate) worker: WorkerId,
    /// The number of its slots.
    pub(crate) slots: usize,
    /// The database knows that the attempt has begun.
    pub(crate) noted: AtomicBool,
    /// Where its end is counted. Empty: it has not started.
    pub(crate) tally: OnceLock<Place>,
    place: Mutex<Option<Admission>>,
}

impl Held {
    pub(crate) fn new(attempt: Arc<Attempt>, worker: WorkerId, slots: usize) -> Self {
        Self { attempt, worker, slots, noted: AtomicBool::new(false), tally: OnceLock::new(), place: Mutex::default() }
    }

    pub(crate) fn hold(&self) -> Hold {
        self.attempt.job.hold()
    }

    /// Its place among the running jobs; None before and after.
    pub(crate) fn place(&self) -> MutexGuard<'_, Option<Admission>> {
        lock(&self.place)
    }
}

/// The claimed jobs. The claim loop adds jobs, and slots take them. The heartbeat and the shutdown stop attempts.
pub(crate) struct Work {
    pub(crate) slots: Slots,
    /// The attempts under way, by job and fence.
    held: Mutex<HashMap<(i64, i32), Arc<Held>>>,
    pub(crate) isolation: Arc<Isolation>,
    /// Limits how many long arguments are in memory, because several copies exist until they are decoded.
    pub(crate) long_args: Arc<Semaphore>,
    /// The tasks of the slots.
    pub(crate) tasks: TaskTracker,
}

impl Work {
    /// `room` is told when a slot may have room for a job.
    pub(crate) fn new(config: &Config, room: Arc<Notify>) -> Self {
        let limits = config.queues.iter().map(|(queue, limit)| (Some(queue.clone()), *limit));
        // behind those with a queue, because the first that match take a job
        let others = config.others.then_some((None, config.concurrency));
        Self {
            slots: Slots::new(limits.chain(others), config.concurrency),
            held: Mutex::default(),
            isolation: Isolation::new(room),
            long_args: Arc::new(Semaphore::new(LONG_ARGS_AT_ONCE)),
            tasks: TaskTracker::new(),
        }
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashMap<(i64, i32), Arc<Held>>> {
        lock(&self.held)
    }

    /// Tells every held attempt to stop. Returns their number.
    pub(crate) fn stop_all(&self, why: Stop) -> usize {
        let held: Vec<_> = self.held().values().cloned().collect();
        held.iter().for_each(|held| held.attempt.switch.stop(why));
        held.len()
    }
}

/// The channel to the loop that records starts.
pub(crate) struct Starts {
    asked: mpsc::UnboundedSender<StartRequest>,
    /// An attempt has begun without being recorded.
    pub(super) begun: Notify,
    /// Hold this from before the start is recorded until the handler has begun. Otherwise one of several jobs that were
    /// lost before could kill the process while another is recorded but has not begun.
    pub(super) one_by_one: tokio::sync::Mutex<()>,
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
        (Self { asked, begun: Notify::new(), one_by_one: Default::default() }, receiver)
    }

    /// Records a start and waits for the answer: whether it was accepted. None: the database failed, so nobody knows.
    pub(crate) async fn note(&self, worker: WorkerId, start: Start) -> Option<bool> {
        let (answer, answered) = oneshot::channel();
        self.asked.send(StartRequest { worker, start, answer }).ok()?;
        answered.await.ok()
    }
}
