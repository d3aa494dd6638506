//! Who is gone, as far as the server's sessions tell.
//!
//! A worker's session holds a lock that the server drops with the connection. One that is killed is seen by that within
//! moments; its lease runs for seconds yet. But a lock can be missing for other reasons: an older program takes none, a
//! connection was terminated and is made again, another node of a cluster does not know of it, a proxy has changed sessions, the
//! server was started again. So each heartbeat writes into the worker's row whether its session holds the lock, in which run of
//! the server, and by when the next heartbeat comes. A worker is taken for gone only when by its row it had the lock in this
//! run, the lock is free now, and the heartbeat that it promised has been due for a while. Whoever beats in time lives,
//! whatever becomes of its lock; and whoever looks needs to have seen nothing before.
//!
//! All of this goes by the database's clock.
//!
//! A lease that has run out by that clock is not proof. The clock may have been set forward, which ends all leases at
//! once. Or no worker could send heartbeats for a while. So half of the lease must also have passed by the judge's own
//! clock since it first saw the heartbeat, while it could send its own ([`Witness`]). A living worker beats three times
//! within a lease.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::{Beat, Lease, Sight, WorkerId};

/// A worker that lost its connection has this long to beat on another one: twice as long as it takes to notice.
pub(crate) const SETTLE: Duration = Duration::from_millis(800);
/// While somebody is at work, a look comes at most so often …
const LEAST: Duration = Duration::from_millis(400);
/// … and so seldom, for each worker that looks: all of them together are no burden.
const PER_WORKER: Duration = Duration::from_millis(40);
/// By so much the pauses of workers that began together differ.
const SPREAD: f64 = 0.1;
/// A worker whose own lock is not taken yet tries again after this time.
const RETAKE: Duration = Duration::from_millis(400);

/// A worker to be declared gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) id: WorkerId,
    /// Its last heartbeat, by the database's clock: with another one it lives.
    pub(crate) heartbeat: i64,
    /// How long the next one has been due, or the lease has run out.
    pub(crate) late: Duration,
    /// Its lease has run out. Else its session has ended.
    pub(crate) by_lease: bool,
}

/// Those who are gone.
pub(crate) fn gone(others: &[Sight]) -> Vec<Gone> {
    let missed = others.iter().filter_map(|other| Some((other, missed_for(other)?)));
    let gone = missed.filter(|(_, late)| *late >= micros(SETTLE));
    gone.map(|(Sight { id, heartbeat, .. }, late)| Gone {
        id: *id,
        heartbeat: *heartbeat,
        late: Duration::from_micros(late.unsigned_abs()),
        by_lease: false,
    })
    .collect()
}

/// For how long a worker whose lock is missing has owed its heartbeat, in microseconds; negative before it is due.
fn missed_for(other: &Sight) -> Option<i64> {
    (other.had && !other.held).then_some(other.late)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Since when the last heartbeats of others have been seen.
#[derive(Debug, Default)]
pub(crate) struct Witness(HashMap<WorkerId, (i64, Instant)>);

impl Witness {
    /// This worker could not beat for a while, and others may not have been able to either.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// Those whose lease has run out by both clocks, and when to look again at the others.
    pub(crate) fn judge(&mut self, leases: &[Lease], now: Instant) -> (Vec<Gone>, Option<Duration>) {
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
                gone.push(Gone { id: *worker, heartbeat: *heartbeat, late, by_lease: true });
            } else {
                again = Some(again.map_or(wait, |other| other.min(wait)));
            }
        }
        (gone, again)
    }
}

/// How often a worker beats. Its heartbeats are its looks at the others, too.
#[derive(Debug)]
pub(crate) struct Pace {
    /// While nobody is at work.
    heartbeat: Duration,
    /// As many as look, by the last heartbeat's answer; none: nobody could see, or be seen.
    lookers: Option<u32>,
    /// Another one was at work then. At first it is taken for granted: a worker that starts takes jobs at once.
    others_work: bool,
    /// What this heartbeat says of the next one.
    promised: Duration,
}

impl Pace {
    pub(crate) fn new(heartbeat: Duration) -> Self {
        Self { heartbeat, lookers: Some(1), others_work: true, promised: heartbeat }
    }

    fn usual(&self, busy: bool) -> Duration {
        match self.lookers {
            // it also tells a worker that its own connection is gone, before others can take it for gone, who may be yet to come
            Some(lookers) if busy || self.others_work => {
                LEAST.max(PER_WORKER.saturating_mul(lookers)).min(self.heartbeat)
            }
            _ => self.heartbeat,
        }
    }

    /// The next heartbeat may come later than it would at work.
    pub(crate) fn is_slow(&self) -> bool {
        self.promised > self.usual(true).mul_f64(1.0 + SPREAD)
    }

    /// Within which time after the heartbeat that is about to be sent the next one comes.
    pub(crate) fn promise(&mut self, busy: bool) -> Duration {
        self.promised = self.usual(busy).mul_f64(1.0 + SPREAD);
        self.promised
    }

    /// How long to wait before the next heartbeat. `busy`: this worker holds jobs. As long as nobody does, there is nothing that
    /// could wait for somebody who is gone.
    pub(crate) fn pause(&mut self, busy: bool, beat: &Beat) -> Duration {
        let Beat { others, unheld, vouched, .. } = beat;
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
