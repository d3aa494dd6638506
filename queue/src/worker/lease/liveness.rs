//! Which workers are lost, as far as the server's sessions tell.
//!
//! A worker's session holds a lock that the server drops with the connection. So a killed worker is noticed within
//! moments, while its lease still runs for seconds. But a lock can be missing for other reasons:
//!
//! * An older release takes none.
//! * A connection was terminated and is opened again.
//! * Another node of a cluster does not know of it.
//! * A proxy changed sessions.
//! * The server was restarted.
//!
//! So each heartbeat writes three facts into the worker's row: whether its session holds the lock, in which run of the
//! server, and when the next heartbeat is due. A worker counts as lost only if all of this is true: by its row it
//! had the lock in this run, the lock is free now, and its promised heartbeat has been overdue for a while. A worker
//! that sends its heartbeats in time is alive, whatever happens to its lock. The judging worker needs no earlier
//! observations.
//!
//! All of this uses the database's clock.
//!
//! A lease that has run out by that clock is not proof. The clock may have been set forward, which ends all leases at
//! once. Or no worker could send heartbeats for a while. So half of the lease must also pass by the judge's own clock,
//! from when it first saw the heartbeat. Meanwhile it must be able to send its own ([`Witness`]). A living worker sends
//! three heartbeats within a lease.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::values::{Heartbeat, Lease, Sight, WorkerId};

/// A worker that lost its connection has this long to send a heartbeat on another one: twice as long as it takes to
/// notice.
pub(crate) const SETTLE: Duration = Duration::from_millis(800);
/// The shortest interval between heartbeats while any worker holds jobs.
const LEAST: Duration = Duration::from_millis(400);
/// The interval is at least this long for each worker, so that all of them together are no burden.
const PER_WORKER: Duration = Duration::from_millis(40);
/// The jitter of the interval, for workers that began together.
const SPREAD: f64 = 0.1;
/// A worker that does not have its own lock yet tries again after this time.
const RETAKE: Duration = Duration::from_millis(400);

/// A worker to be declared lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostWorker {
    pub(crate) id: WorkerId,
    /// Its last heartbeat, by the database's clock. If there is a newer one, the worker is alive.
    pub(crate) heartbeat: i64,
    /// How long its next heartbeat has been overdue, or its lease over.
    pub(crate) late: Duration,
    /// Its lease has run out. Otherwise its session has ended.
    pub(crate) by_lease: bool,
}

/// The workers whose session has ended.
pub(crate) fn lost(others: &[Sight]) -> Vec<LostWorker> {
    let missed = others.iter().filter_map(|other| Some((other, missed_for(other)?)));
    let gone = missed.filter(|(_, late)| *late >= micros(SETTLE));
    gone.map(|(Sight { id, heartbeat, .. }, late)| LostWorker {
        id: *id,
        heartbeat: *heartbeat,
        late: Duration::from_micros(late.unsigned_abs()),
        by_lease: false,
    })
    .collect()
}

/// How long the heartbeat of a worker without its lock has been overdue, in microseconds. Negative before it is due.
fn missed_for(other: &Sight) -> Option<i64> {
    (other.had && !other.held).then_some(other.late)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// When this worker first saw the last heartbeats of the others.
#[derive(Debug, Default)]
pub(crate) struct Witness(HashMap<WorkerId, (i64, Instant)>);

impl Witness {
    /// This worker could not send heartbeats for a while, and others may not have been able to either.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// The workers whose lease has run out by both clocks, and when to check the others again.
    pub(crate) fn judge(&mut self, leases: &[Lease], now: Instant) -> (Vec<LostWorker>, Option<Duration>) {
        let before = std::mem::take(&mut self.0);
        let mut gone = Vec::new();
        let mut again: Option<Duration> = None;
        for Lease { worker, heartbeat, left, given } in leases {
            let since = match before.get(worker) {
                Some((seen, since)) if seen == heartbeat => *since,
                _ => now,
            };
            self.0.insert(*worker, (*heartbeat, since));
            let positive = |micros: i64| Duration::from_micros(micros.max(0).unsigned_abs());
            let wait = positive(*left).max((positive(*given) / 2).saturating_sub(now - since));
            if wait.is_zero() {
                let late = positive(left.saturating_neg());
                gone.push(LostWorker { id: *worker, heartbeat: *heartbeat, late, by_lease: true });
            } else {
                again = Some(again.map_or(wait, |other| other.min(wait)));
            }
        }
        (gone, again)
    }
}

/// How often a worker sends heartbeats. Each of them also checks the other workers.
#[derive(Debug)]
pub(crate) struct Rhythm {
    /// The interval while no worker holds jobs.
    heartbeat: Duration,
    /// How many workers check each other, by the last heartbeat's answer. None: no session can be seen.
    lookers: Option<u32>,
    /// Another worker held jobs then. This is assumed at first, because a worker that starts takes jobs at once.
    others_work: bool,
    /// The longest time until the next heartbeat, as this one promises.
    promised: Duration,
}

impl Rhythm {
    pub(crate) fn new(heartbeat: Duration) -> Self {
        Self { heartbeat, lookers: Some(1), others_work: true, promised: heartbeat }
    }

    fn usual(&self, busy: bool) -> Duration {
        match self.lookers {
            // a heartbeat also shows a worker that its own connection is lost, before others notice, even those yet to
            // join
            Some(lookers) if busy || self.others_work => {
                LEAST.max(PER_WORKER.saturating_mul(lookers)).min(self.heartbeat)
            }
            _ => self.heartbeat,
        }
    }

    /// The next heartbeat may come later than it would with jobs in hand.
    pub(crate) fn is_slow(&self) -> bool {
        self.promised > self.usual(true).mul_f64(1.0 + SPREAD)
    }

    /// The longest time between the heartbeat about to be sent and the next one.
    pub(crate) fn promise(&mut self, busy: bool) -> Duration {
        self.promised = self.usual(busy).mul_f64(1.0 + SPREAD);
        self.promised
    }

    /// How long to wait before the next heartbeat. `busy`: this worker holds jobs. While nobody holds jobs, no job
    /// waits for a lost worker.
    pub(crate) fn pause(&mut self, busy: bool, beat: &Heartbeat) -> Duration {
        let Heartbeat { others, unheld, vouched, .. } = beat;
        let lookers = u32::try_from(others.len() + 1).unwrap_or(u32::MAX);
        self.lookers = (*vouched || !others.is_empty()).then_some(lookers);
        self.others_work = others.iter().any(|other| other.busy);
        let usual = self.usual(busy);
        let mut pause = self.heartbeat;
        if usual < self.heartbeat {
            pause = pause.min(usual.mul_f64(1.0 - SPREAD + fastrand::f64() * 2.0 * SPREAD));
        }
        if *unheld {
            pause = pause.min(RETAKE);
        }
        let settles = others.iter().filter_map(missed_for).map(|late| micros(SETTLE) - late).filter(|left| *left > 0);
        if let Some(left) = settles.min() {
            pause = pause.min(Duration::from_micros(left.unsigned_abs()));
        }
        pause.min(self.promised)
    }
}

#[cfg(test)]
#[path = "liveness_tests.rs"]
mod tests;
