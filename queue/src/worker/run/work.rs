//! Everything that the worker holds: claimed jobs that wait for a slot, and attempts that run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use crate::store::values::{Claimed, WorkerId};
use crate::worker::config::Config;
use crate::worker::run::held::Held;
use crate::worker::run::isolation::Isolation;
use crate::worker::run::slots::{Slots, Total};
use crate::worker::run::switch::Stop;

/// How many attempts may read and decode long arguments at the same time.
const LONG_ARGS_AT_ONCE: usize = 4;

/// The claimed jobs. The claim loop adds jobs, and slots take them. The heartbeat and the shutdown stop attempts.
pub(crate) struct Work {
    pub(crate) slots: Vec<Slots>,
    pub(crate) total: Arc<Total>,
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
        let queues: Vec<(Option<String>, u32)> = limits.chain(others).collect();
        let wanted: u64 = queues.iter().map(|(_, limit)| u64::from(*limit)).sum();
        let total = Arc::new(match wanted > u64::from(config.concurrency) {
            true => Total::in_turn(config.concurrency),
            false => Total::new(config.concurrency),
        });
        let slots = queues.into_iter().enumerate();
        Self {
            slots: slots.map(|(number, (queue, limit))| Slots::new(number, queue, limit, total.clone())).collect(),
            total,
            held: Mutex::default(),
            isolation: Isolation::new(room),
            long_args: Arc::new(Semaphore::new(LONG_ARGS_AT_ONCE)),
            tasks: TaskTracker::new(),
        }
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashMap<(i64, i32), Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots that run a queue's jobs.
    pub(crate) fn slots_of(&self, queue: &str) -> Option<usize> {
        self.slots.iter().position(|slots| slots.queue.as_deref().is_none_or(|name| name == queue))
    }

    /// Whether no claimed job runs or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.iter().all(Slots::is_idle)
    }

    /// Takes out the jobs that wait for a slot, each with the worker that claimed it.
    pub(crate) fn take_unstarted(&self) -> Vec<(Claimed, WorkerId)> {
        self.slots.iter().flat_map(Slots::clear).collect()
    }

    /// Tells every held attempt to stop. Returns their number.
    pub(crate) fn stop_all(&self, why: Stop) -> usize {
        let held: Vec<_> = self.held().values().cloned().collect();
        held.iter().for_each(|held| held.switch.stop(why));
        held.len()
    }
}
