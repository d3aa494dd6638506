//! What the loops of one worker share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::store::values::{Lane, NewWorker, Scope, WorkerId};
use crate::telemetry;
use crate::worker::config::Config;
use crate::worker::lease::health::Health;
use crate::worker::lease::liveness::LostWorker;
use crate::worker::record::claims::ClaimRecords;
use crate::worker::record::recorder::Recorder;
use crate::worker::run::attempt::Stop;
use crate::worker::run::held::Held;
use crate::worker::run::isolation::Isolation;
use crate::worker::run::slots::{Slots, Total};
use crate::worker::run::starts::Starts;

/// What the loops of one worker share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) slots: Vec<Slots>,
    pub(crate) total: Arc<Total>,
    pub(crate) scope: Scope,
    /// How this worker describes itself each time it joins.
    pub(crate) card: NewWorker,
    /// The worker number that it claims with. 0 while it has none.
    pub(crate) id: AtomicI64,
    /// The zero of [`Self::lease_end`].
    pub(crate) made: Instant,
    /// Until when the lease certainly holds, by this process's clock, in microseconds.
    pub(crate) lease_end: AtomicU64,
    /// The attempts under way, by job and fence.
    pub(crate) held: Mutex<HashMap<(i64, i32), Arc<Held>>>,
    pub(crate) health: Health,
    pub(crate) recorder: Recorder,
    pub(crate) claim_records: ClaimRecords,
    pub(crate) starts: Starts,
    pub(crate) isolation: Arc<Isolation>,
    /// Limits how many long arguments are in memory, because several copies exist until they are decoded.
    pub(crate) long_args: Arc<Semaphore>,
    /// Something may have been enqueued.
    pub(crate) wake: Arc<Notify>,
    /// The claim loop waits to be woken, and leaves discovery to the heartbeat.
    pub(crate) quiet: AtomicBool,
    /// An idle worker got work, so it should send its next heartbeat soon.
    pub(crate) at_work: Notify,
    /// See [`has_others`](Self::has_others).
    pub(crate) others: AtomicBool,
    /// A slot may have room for a job.
    pub(crate) room: Arc<Notify>,
    /// A slot became free, or something was recorded.
    pub(crate) progress: Notify,
    pub(crate) stop_claiming: CancellationToken,
    /// Lost workers may have jobs to rescue.
    pub(crate) rescue: Notify,
    /// Jobs were rescued: the claim loop runs discovery for them.
    pub(crate) look: AtomicBool,
    /// Workers to declare lost before the next rescue.
    pub(crate) lost_workers: Mutex<Vec<LostWorker>>,
    /// The tasks of the slots.
    pub(crate) tasks: TaskTracker,
    /// The run is over or was dropped.
    pub(crate) over: CancellationToken,
}

impl Shared {
    pub(crate) fn id(&self) -> WorkerId {
        self.id.load(Ordering::Acquire)
    }

    pub(crate) fn set_id(&self, id: WorkerId) {
        self.id.store(id, Ordering::Release);
    }

    /// Notes a lease that a statement sent at `sent` took or extended. Returns its end: a sixth earlier than by the
    /// database's clock, for safety.
    pub(crate) fn lease_from(&self, sent: Instant) -> Instant {
        let lease = self.config.timing.lease;
        let end = sent + lease - lease / 6;
        let micros = u64::try_from(end.saturating_duration_since(self.made).as_micros()).unwrap_or(u64::MAX);
        self.lease_end.store(micros, Ordering::Release);
        end
    }

    /// Whether claimed jobs may start. A process that was suspended learns from its clock that the lease is over,
    /// before the database answers.
    pub(crate) fn lease_holds(&self) -> bool {
        self.made.elapsed().as_micros() < u128::from(self.lease_end.load(Ordering::Acquire))
    }

    /// Whether the database has answered a heartbeat that was sent after `then`, so it is reachable.
    pub(crate) fn has_beaten_since(&self, then: Instant) -> bool {
        let lease = self.config.timing.lease;
        let end = (then + (lease - lease / 6)).saturating_duration_since(self.made);
        u128::from(self.lease_end.load(Ordering::Acquire)) > end.as_micros()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    pub(crate) fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashMap<(i64, i32), Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots that run a queue's jobs.
    pub(crate) fn slots_of(&self, queue: &str) -> Option<usize> {
        self.slots.iter().position(|slots| slots.queue.as_deref().is_none_or(|name| name == queue))
    }

    /// The retries of a lane's jobs, if these slots serve it.
    pub(crate) fn retries(&self, slots: usize, lane: &Lane) -> Option<u32> {
        let served = self.slots_of(&lane.queue) == Some(slots);
        self.config.jobs.get(&*lane.kind).filter(|_| served).map(|definition| definition.max_retries)
    }

    /// Whether the last heartbeat saw other workers.
    pub(crate) fn has_others(&self) -> bool {
        self.others.load(Ordering::Relaxed)
    }

    /// Whether no claimed job runs or waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.iter().all(Slots::is_idle)
    }

    /// Tells every held attempt to stop. Returns their number.
    pub(crate) fn stop_all(&self, why: Stop) -> usize {
        let held: Vec<_> = self.held().values().cloned().collect();
        held.iter().for_each(|held| held.switch.stop(why));
        held.len()
    }

    /// Stops all jobs. The lease is lost, or must be assumed lost, so other workers may have them.
    pub(crate) fn drop_everything(&self) {
        let lost = self.id.swap(0, Ordering::AcqRel);
        let waiting: usize = self.slots.iter().map(|slots| slots.clear().len()).sum();
        let running = self.stop_all(Stop::LeaseLost);
        self.config.store.abandon();
        tracing::error!(
            event = telemetry::WORKER_LEASE_LOST,
            worker = lost,
            running,
            waiting,
            "the lease was lost; its jobs were cancelled here and will run elsewhere"
        );
    }
}
