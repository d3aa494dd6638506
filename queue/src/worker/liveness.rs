//! Who is gone, as far as the server's sessions tell.
//!
//! A worker's session holds a lock that the server drops with the connection. One that is killed is seen by that within
//! moments; its lease runs for seconds yet. But a lock can be missing for other reasons: an older program takes none, a
//! connection was terminated and is made again, another node of a cluster does not know of it, a proxy has changed sessions.
//! So a worker is taken for gone only when *this* session has seen its lock, then missed it twice with some time between,
//! and no heartbeat came meanwhile. Whoever beats lives, and is not judged again before its lock has been seen again. A
//! session that is new, or that has not looked for long, knows nobody.
//!
//! No clock but that of this process is asked, and that only for the time between two of its own looks.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::{Sight, WorkerId};

/// A worker that lost its connection has this long to beat on another one: twice as long as it takes to notice.
pub(crate) const SETTLE: Duration = Duration::from_millis(1_000);
/// While somebody is at work, a look comes at most so often …
const LEAST: Duration = Duration::from_millis(500);
/// … and so seldom, for each worker that looks: all of them together are no burden.
const PER_WORKER: Duration = Duration::from_millis(40);
/// Without a look for so long, or for two heartbeats, everything is forgotten.
const STALE: Duration = Duration::from_secs(5);
/// A worker whose own lock is not taken yet tries again after this time.
const RETAKE: Duration = Duration::from_millis(400);

/// What one worker has seen of the others.
#[derive(Debug)]
pub(crate) struct Watch {
    /// After how long without a look everything is forgotten.
    stale: Duration,
    session: u64,
    looked: Option<Instant>,
    seen: HashMap<WorkerId, Seen>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Held,
    /// First missed, or told to be gone, by a look that was answered at that time, with that heartbeat.
    Missed(Instant, i64),
}

/// A worker to be declared gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) id: WorkerId,
    /// Its last heartbeat, by the database's clock: with another one it lives.
    pub(crate) heartbeat: i64,
    pub(crate) missed_for: Duration,
}

impl Watch {
    pub(crate) fn new(heartbeat: Duration) -> Self {
        Self { stale: STALE.max(heartbeat * 2), session: 0, looked: None, seen: HashMap::new() }
    }

    /// Whether it is a session that looks: a file has none, and no heartbeat need come early because a statement failed.
    pub(crate) fn has_session(&self) -> bool {
        self.session != 0
    }

    /// Takes in what a session saw with a look that was sent and answered at those times. Returns who is gone.
    pub(crate) fn look(&mut self, sent: Instant, answered: Instant, session: u64, others: &[Sight]) -> Vec<Gone> {
        let long_ago = |at: Instant| sent.saturating_duration_since(at) > self.stale;
        if session != self.session || self.looked.is_none_or(long_ago) {
            self.seen.clear();
        }
        (self.session, self.looked) = (session, Some(answered));
        self.seen.retain(|id, _| others.iter().any(|other| other.id == *id));
        let mut gone = Vec::new();
        for other in others {
            if other.held {
                self.seen.insert(other.id, Seen::Held);
                continue;
            }
            match self.seen.get(&other.id).copied() {
                None => {}
                Some(Seen::Held) => {
                    self.seen.insert(other.id, Seen::Missed(answered, other.heartbeat));
                }
                Some(Seen::Missed(_, heartbeat)) if heartbeat != other.heartbeat => {
                    self.seen.remove(&other.id);
                }
                Some(Seen::Missed(since, heartbeat)) => {
                    let missed_for = sent.saturating_duration_since(since);
                    if missed_for >= SETTLE {
                        // should it not come to that, it is said again after the same time
                        self.seen.insert(other.id, Seen::Missed(answered, heartbeat));
                        gone.push(Gone { id: other.id, heartbeat, missed_for });
                    }
                }
            }
        }
        gone
    }

    /// When somebody who is missed may be told to be gone.
    fn settles(&self) -> Option<Instant> {
        let missed = self.seen.values().filter_map(|seen| match seen {
            Seen::Missed(since, _) => Some(*since + SETTLE),
            Seen::Held => None,
        });
        missed.min()
    }

    /// How long to wait before the next heartbeat, which is a look too. `busy`: this worker holds jobs. As long as nobody
    /// does, there is nothing that could wait for somebody who is gone.
    pub(crate) fn pause(
        &self,
        heartbeat: Duration,
        now: Instant,
        busy: bool,
        unheld: bool,
        others: &[Sight],
    ) -> Duration {
        let at_work = busy || others.iter().any(|other| other.busy);
        let mut pause = heartbeat;
        if at_work && !others.is_empty() {
            // it also tells a worker that its own connection is gone, before others can take it for gone
            let workers = u32::try_from(others.len() + 1).unwrap_or(u32::MAX);
            let spread = LEAST.max(PER_WORKER.saturating_mul(workers)).mul_f64(0.9 + fastrand::f64() / 5.0);
            pause = pause.min(spread);
        }
        if unheld {
            pause = pause.min(RETAKE);
        }
        if let Some(settles) = self.settles() {
            pause = pause.min(settles.saturating_duration_since(now));
        }
        pause
    }
}

#[cfg(test)]
#[path = "liveness_tests.rs"]
mod tests;
