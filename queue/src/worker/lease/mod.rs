//! The lease: the worker's own, heartbeats that extend it, and conclusions from the heartbeats of others.

pub(crate) mod health;
pub(crate) mod heartbeat;
pub(crate) mod liveness;

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::values::{NewWorker, WorkerId};
use crate::worker::notices::lock;

/// The worker's number and its lease. The start and the heartbeat write it; every loop reads it.
pub(crate) struct OwnLease {
    /// How this worker describes itself each time it joins.
    pub(crate) card: NewWorker,
    /// How long each heartbeat extends the lease.
    length: Duration,
    inner: Mutex<LeaseState>,
}

struct LeaseState {
    /// The worker number that it claims with. 0 while it has none.
    id: WorkerId,
    /// Until when the lease certainly holds, by this process's clock.
    end: Instant,
    others: usize,
}

impl OwnLease {
    pub(crate) fn new(card: NewWorker, length: Duration) -> Self {
        Self { card, length, inner: Mutex::new(LeaseState { id: 0, end: Instant::now(), others: 0 }) }
    }

    pub(crate) fn id(&self) -> WorkerId {
        lock(&self.inner).id
    }

    /// Sets the worker's number; 0: it has none from here on. Returns the one it had.
    pub(crate) fn set_id(&self, id: WorkerId) -> WorkerId {
        std::mem::replace(&mut lock(&self.inner).id, id)
    }

    /// Notes a lease that a statement sent at `sent` took or extended. Returns its end: a sixth earlier than by the
    /// database's clock, for safety.
    pub(crate) fn extend(&self, sent: Instant) -> Instant {
        let end = self.end_if_sent(sent);
        lock(&self.inner).end = end;
        end
    }

    /// Whether claimed jobs may start. A process that was suspended learns from its clock that the lease is over,
    /// before the database answers.
    pub(crate) fn holds(&self) -> bool {
        Instant::now() < lock(&self.inner).end
    }

    /// Whether the database has answered a heartbeat that was sent after `then`, so it is reachable.
    pub(crate) fn extended_since(&self, then: Instant) -> bool {
        lock(&self.inner).end > self.end_if_sent(then)
    }

    fn end_if_sent(&self, sent: Instant) -> Instant {
        sent + self.length - self.length / 6
    }

    /// How many other workers the last heartbeat saw. It looks at 32 at most.
    pub(crate) fn others(&self) -> usize {
        lock(&self.inner).others
    }

    pub(crate) fn set_others(&self, others: usize) {
        lock(&self.inner).others = others;
    }
}
