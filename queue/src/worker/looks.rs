//! Looks: which lanes there are. A worker looks before it claims, or, where that takes its time, beside its claims; and the dearer
//! looks are, the fewer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Shared;
use super::cost::Cost;
use super::lanes::Lanes;
use crate::error::Error;
use crate::store::LaneHead;

/// Looks that take longer than this are done beside the claims …
const SLOW: Duration = Duration::from_millis(20);

/// … and so is the next one after a single look that took as long as this: it is not the machine that paused.
const VERY_SLOW: Duration = Duration::from_millis(250);

/// An idle worker looks no more often than this when it is dear.
pub(super) const REST: Duration = Duration::from_secs(2);

/// What a look found, and how long it took.
type Found = (Result<Vec<LaneHead>, Error>, Duration);

/// What is known of looks.
pub(super) struct Looks {
    /// When the last one was; None: the next is due.
    last: Option<Instant>,
    /// What the last one took.
    took: Duration,
    cost: Cost,
    /// A look beside the claims.
    beside: Option<oneshot::Receiver<Found>>,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self { last: None, took: Duration::ZERO, cost: Cost::of_looks(), beside: None }
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
        let rest = REST.max(self.took * 10);
        self.last.is_none_or(|at| at.elapsed() >= rest)
    }

    /// Looks, or has it done beside the claims.
    pub(super) async fn again(&mut self, shared: &Arc<Shared>, lanes: &mut Lanes) -> Result<(), Error> {
        let are_slow = self.cost.least() >= SLOW || self.took >= VERY_SLOW;
        match are_slow && shared.config.store.has_spare_connection() {
            true => self.begin_beside(shared, lanes),
            false => self.now(shared, lanes).await?,
        }
        Ok(())
    }

    /// Finds the lanes that have rows.
    pub(super) async fn now(&mut self, shared: &Shared, lanes: &mut Lanes) -> Result<(), Error> {
        lanes.look_begins();
        let started = Instant::now();
        let heads = shared.config.store.lanes(&shared.scope).await;
        // a look that takes too long for this is done beside the claims the next time
        self.took = started.elapsed();
        match heads {
            Ok(heads) => self.found(shared, lanes, heads, self.took),
            Err(error) if self.took < VERY_SLOW => return Err(error),
            // nor may one that comes to nothing keep the lanes waiting that are known
            Err(error) => self.failed(&error, self.took),
        }
        Ok(())
    }

    /// The same on another connection, while claims go on.
    fn begin_beside(&mut self, shared: &Arc<Shared>, lanes: &mut Lanes) {
        lanes.look_begins();
        let shared = shared.clone();
        let (sender, receiver) = oneshot::channel();
        self.beside = Some(receiver);
        tokio::spawn(async move {
            let started = Instant::now();
            let found = match shared.config.store.lanes_beside(&shared.scope).await {
                Ok((heads, took)) => (Ok(heads), took),
                Err(error) => (Err(error), started.elapsed()),
            };
            // nobody waits for it any more: the worker ends, or has another number
            let _ = sender.send(found);
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
            Some((Ok(heads), took)) => self.found(shared, lanes, heads, took),
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

    fn found(&mut self, shared: &Shared, lanes: &mut Lanes, heads: Vec<LaneHead>, took: Duration) {
        self.cost.add(took);
        self.took = took;
        let now = Instant::now();
        self.last = Some(now);
        let newest_first = &shared.config.newest_first;
        let dear = (!self.are_cheap()).then_some(took);
        lanes.found(heads, now, dear, |lane| newest_first.contains(&*lane.queue));
    }
}
