//! The worker's own number and lease.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::values::{NewWorker, WorkerId};

/// The worker's number and its lease. The start and the heartbeat write it; every loop reads it.
pub(crate) struct OwnLease {
    /// How this worker describes itself each time it joins.
    pub(crate) card: NewWorker,
    /// How long each heartbeat extends the lease.
    pub(crate) length: Duration,
    /// The worker number that it claims with. 0 while it has none.
    id: AtomicI64,
    /// The zero of `end`.
    made: Instant,
    /// Until when the lease certainly holds, by this process's clock, in microseconds.
    end: AtomicU64,
    others: AtomicUsize,
}

impl OwnLease {
    pub(crate) fn new(card: NewWorker, length: Duration) -> Self {
        Self {
            card,
            length,
            id: AtomicI64::new(0),
            made: Instant::now(),
            end: AtomicU64::new(0),
            others: AtomicUsize::new(0),
        }
    }

    pub(crate) fn id(&self) -> WorkerId {
        self.id.load(Ordering::Acquire)
    }

    pub(crate) fn set_id(&self, id: WorkerId) {
        self.id.store(id, Ordering::Release);
    }

    /// The worker has no number from here on. Returns the one it had.
    pub(crate) fn give_up(&self) -> WorkerId {
        self.id.swap(0, Ordering::AcqRel)
    }

    /// Notes a lease that a statement sent at `sent` took or extended. Returns its end: a sixth earlier than by the
    /// database's clock, for safety.
    pub(crate) fn extend(&self, sent: Instant) -> Instant {
        let end = self.end_if_sent(sent);
        let micros = u64::try_from(end.saturating_duration_since(self.made).as_micros()).unwrap_or(u64::MAX);
        self.end.store(micros, Ordering::Release);
        end
    }

    /// Whether claimed jobs may start. A process that was suspended learns from its clock that the lease is over,
    /// before the database answers.
    pub(crate) fn holds(&self) -> bool {
        self.made.elapsed().as_micros() < u128::from(self.end.load(Ordering::Acquire))
    }

    /// Whether the database has answered a heartbeat that was sent after `then`, so it is reachable.
    pub(crate) fn extended_since(&self, then: Instant) -> bool {
        let end = self.end_if_sent(then).saturating_duration_since(self.made);
        u128::from(self.end.load(Ordering::Acquire)) > end.as_micros()
    }

    fn end_if_sent(&self, sent: Instant) -> Instant {
        sent + self.length - self.length / 6
    }

    /// Whether the last heartbeat saw other workers.
    pub(crate) fn has_others(&self) -> bool {
        self.others() > 0
    }

    /// How many other workers the last heartbeat saw. It looks at 32 at most.
    pub(crate) fn others(&self) -> usize {
        self.others.load(Ordering::Relaxed)
    }

    pub(crate) fn set_others(&self, others: usize) {
        self.others.store(others, Ordering::Relaxed);
    }
}
