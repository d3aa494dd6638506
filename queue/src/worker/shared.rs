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
use crate::worker::lease::liveness::Gone;
use crate::worker::record::claims::Ledger;
use crate::worker::record::recorder::Recorder;
use crate::worker::run::attempt::Stop;
use crate::worker::run::held::Held;
use crate::worker::run::isolation::Company;
use crate::worker::run::slots::{Slots, Total};
use crate::worker::run::starts::Starts;

/// What the loops of one worker share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) slots: Vec<Slots>,
    pub(crate) total: Arc<Total>,
    pub(crate) scope: Scope,
    /// What this worker says of itself, each time that it joins.
    pub(crate) card: NewWorker,
    /// The number under which it claims; 0 while it has none.
    pub(crate) id: AtomicI64,
    /// When this was made, from which [`Self::lease_end`] counts.
    pub(crate) made: Instant,
    /// Until when the lease holds for sure, by this process's clock: microseconds.
    pub(crate) lease_end: AtomicU64,
    /// Attempts in hand, by job and fence.
    pub(crate) held: Mutex<HashMap<(i64, i32), Arc<Held>>>,
    pub(crate) health: Health,
    pub(crate) recorder: Recorder,
    pub(crate) ledger: Ledger,
    pub(crate) starts: Starts,
    pub(crate) company: Arc<Company>,
    /// Turns to hold the text of long arguments: until they are decoded there are several copies.
    pub(crate) long_args: Arc<Semaphore>,
    /// Something may have been enqueued.
    pub(crate) wake: Arc<Notify>,
    /// The claim loop waits to be woken and leaves it to the heartbeat to look.
    pub(crate) quiet: AtomicBool,
    /// There is work after a time without any: the next heartbeat need not be far off.
    pub(crate) at_work: Notify,
    /// See [`has_others`](Self::has_others).
    pub(crate) others: AtomicBool,
    /// A slot may take more.
    pub(crate) room: Arc<Notify>,
    /// A slot became free, or something was recorded.
    pub(crate) progress: Notify,
    pub(crate) stop_claiming: CancellationToken,
    /// Jobs of workers that are gone may wait to be taken back.
    pub(crate) rescue: Notify,
    /// Jobs were taken back: the claim loop looks for them.
    pub(crate) look: AtomicBool,
    /// Workers to be declared gone before that.
    pub(crate) gone: Mutex<Vec<Gone>>,
    /// The slots.
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

    /// The lease was taken or extended by a statement sent at that time. It counts as over a little before the database's
    /// clock can say so. Returns when.
    pub(crate) fn lease_from(&self, sent: Instant) -> Instant {
        let lease = self.config.timing.lease;
        let end = sent + lease - lease / 6;
        let micros = u64::try_from(end.saturating_duration_since(self.made).as_micros()).unwrap_or(u64::MAX);
        self.lease_end.store(micros, Ordering::Release);
        end
    }

    /// Whether what was claimed may be started. A process that stood still knows it from its clock before any answer of
    /// the database.
    pub(crate) fn lease_holds(&self) -> bool {
        self.made.elapsed().as_micros() < u128::from(self.lease_end.load(Ordering::Acquire))
    }

    /// Whether a heartbeat that was sent after that moment has been answered: the database is there.
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

    /// Which slots a queue's jobs run in.
    pub(crate) fn slots_of(&self, queue: &str) -> Option<usize> {
        self.slots.iter().position(|slots| slots.queue.as_deref().is_none_or(|name| name == queue))
    }

    /// How often jobs of a lane are tried again, if these slots serve it.
    pub(crate) fn retries(&self, slots: usize, lane: &Lane) -> Option<u32> {
        let served = self.slots_of(&lane.queue) == Some(slots);
        self.config.jobs.get(&*lane.kind).filter(|_| served).map(|definition| definition.max_retries)
    }

    /// The last heartbeat saw other workers.
    pub(crate) fn has_others(&self) -> bool {
        self.others.load(Ordering::Relaxed)
    }

    /// Jobs in hand or claimed and waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.iter().all(Slots::is_idle)
    }

    /// Tells every attempt in hand to stop.
    pub(crate) fn stop_all(&self, why: Stop) -> usize {
        let held: Vec<_> = self.held().values().cloned().collect();
        held.iter().for_each(|held| held.switch.stop(why));
        held.len()
    }

    /// The lease is gone, or must be taken for gone: nothing in hand is ours any more.
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
            "the lease was lost; what ran was cancelled and is run elsewhere"
        );
    }
}
