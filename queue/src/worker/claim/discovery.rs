//! Looks: which lanes there are. A worker looks before it claims, or, where that takes its time, beside its claims; and the dearer
//! looks are, the fewer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Error;
use crate::store::{Found, Lane};
use crate::worker::claim::budget::Cost;
use crate::worker::claim::lanes::Lanes;
use crate::worker::shared::Shared;

/// Looks that take longer than this are done beside the claims …
const SLOW: Duration = Duration::from_millis(20);

/// … and so is the next one after a single look that took as long as this: it is not the machine that paused.
const VERY_SLOW: Duration = Duration::from_millis(250);

/// An idle worker looks no more often than this when it is dear.
pub(super) const REST: Duration = Duration::from_secs(2);

/// How many lanes one look finds at most. A producer may make any number of queues, so a look's memory and time need a
/// bound. The next look goes on behind the last lane.
const MOST_LANES: usize = 5_000;

/// How a look beside the claims ended, and after how long.
type Ended = (Result<Found, Error>, Duration);

/// What is known of looks.
pub(super) struct Looks {
    /// When the last one was; None: the next is due.
    last: Option<Instant>,
    /// What the last one took.
    took: Duration,
    cost: Cost,
    /// A look beside the claims.
    beside: Option<oneshot::Receiver<Ended>>,
    /// A connection is kept for looks beside the claims.
    connected: bool,
    /// Where the last one has stopped midway. A kind that is gone through begins anew, so that the lanes of small kinds
    /// are found each time.
    stopped: Vec<Lane>,
    /// Kinds that are not gone through yet in this round.
    pending: Vec<Arc<str>>,
    /// What those have taken since the last that came to the end.
    spent: Duration,
    /// What the last round through all lanes took.
    round: Duration,
    most: usize,
}

impl Looks {
    pub(super) fn new() -> Self {
        let (cost, stopped, pending) = (Cost::of_looks(), Vec::new(), Vec::new());
        let (took, spent, round) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Self {
            last: None,
            took,
            cost,
            beside: None,
            connected: false,
            stopped,
            pending,
            spent,
            round,
            most: MOST_LANES,
        }
    }

    /// The last one has stopped midway: others are behind what it has found.
    pub(super) fn are_midway(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The next one is due, whenever the last one was.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// One is being done beside the claims.
    pub(super) fn are_beside(&self) -> bool {
        self.beside.is_some()
    }

    /// One may be done, by what they cost.
    pub(super) fn are_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|at| now - at >= self.cost.pause())
    }

    pub(super) fn are_cheap(&self) -> bool {
        self.cost.is_cheap() && self.took < VERY_SLOW
    }

    /// The last one is long enough ago for a worker that has nothing else to do.
    pub(super) fn have_rested(&self) -> bool {
        let rest = REST.max(self.took.max(self.round) * 10);
        self.last.is_none_or(|at| at.elapsed() >= rest)
    }

    /// Looks, or has it done beside the claims.
    pub(super) async fn again(&mut self, shared: &Arc<Shared>, lanes: &mut Lanes) -> Result<(), Error> {
        let are_slow = self.cost.least() >= SLOW || self.took >= VERY_SLOW;
        match are_slow && shared.config.store.has_spare_connection() {
            true => self.begin_beside(shared, lanes),
            false => {
                if std::mem::take(&mut self.connected) {
                    shared.config.store.ends_looks_beside().await?;
                }
                self.now(shared, lanes).await?;
            }
        }
        Ok(())
    }

    /// Finds the lanes that have rows.
    pub(super) async fn now(&mut self, shared: &Shared, lanes: &mut Lanes) -> Result<(), Error> {
        lanes.look_begins();
        let started = Instant::now();
        let found = shared.config.store.lanes(&shared.scope, &self.stopped, self.most).await;
        // a look that takes too long for this is done beside the claims the next time
        self.took = started.elapsed();
        match found {
            Ok(found) => self.found(shared, lanes, found),
            Err(error) if self.took < VERY_SLOW => return Err(error),
            // nor may one that comes to nothing keep the lanes waiting that are known
            Err(error) => self.failed(&error, self.took),
        }
        Ok(())
    }

    /// The same on another connection, while claims go on.
    fn begin_beside(&mut self, shared: &Arc<Shared>, lanes: &mut Lanes) {
        lanes.look_begins();
        let (shared, behind, most) = (shared.clone(), self.stopped.clone(), self.most);
        let (sender, receiver) = oneshot::channel();
        (self.beside, self.connected) = (Some(receiver), true);
        tokio::spawn(async move {
            let started = Instant::now();
            let found = shared.config.store.lanes_beside(&shared.scope, &behind, most).await;
            // nobody waits for it any more: the worker ends, or has another number
            let _ = sender.send((found, started.elapsed()));
            shared.wake.notify_one();
        });
    }

    /// Takes over what the look beside the claims has found, if it is done.
    pub(super) fn end_beside(&mut self, shared: &Shared, lanes: &mut Lanes) {
        let Some(look) = &mut self.beside else { return };
        let found = match look.try_recv() {
            Ok(found) => Some(found),
            Err(oneshot::error::TryRecvError::Empty) => return,
            Err(oneshot::error::TryRecvError::Closed) => None, // the runtime is shutting down
        };
        self.beside = None;
        self.last = Some(Instant::now());
        match found {
            Some((Ok(found), _)) => self.found(shared, lanes, found),
            Some((Err(error), took)) => self.failed(&error, took),
            None => {}
        }
    }

    /// A look came to nothing.
    fn failed(&mut self, error: &Error, took: Duration) {
        tracing::debug!(%error, "a look at the lanes failed; those that are known go on");
        self.last = Some(Instant::now());
        self.took = self.took.max(took);
        // one that failed at once says nothing of what looks cost
        if took >= VERY_SLOW {
            self.cost.add(took);
        }
    }

    fn found(&mut self, shared: &Shared, lanes: &mut Lanes, found: Found) {
        let from_the_start = self.pending.is_empty();
        self.took = found.took;
        self.stopped = found.stopped;
        self.spent += found.took;
        match from_the_start {
            true => self.pending = self.stopped.iter().map(|lane| lane.kind.clone()).collect(),
            false => self.pending.retain(|kind| self.stopped.iter().any(|lane| lane.kind == *kind)),
        }
        if self.pending.is_empty() {
            self.stopped.clear();
            // the round through all lanes is what looks cost
            self.round = std::mem::take(&mut self.spent);
            self.cost.add(self.round);
        }
        let now = Instant::now();
        self.last = Some(now);
        let newest_first = &shared.config.newest_first;
        let dear = (!self.are_cheap()).then_some(found.took);
        let all = from_the_start && self.pending.is_empty();
        let most_kept = if all { 0 } else { self.most };
        lanes.found(found.heads, now, dear, most_kept, |lane| newest_first.contains(&*lane.queue));
    }

    #[cfg(test)]
    pub(super) fn bounded(most: usize) -> Self {
        Self { most, ..Self::new() }
    }
}
