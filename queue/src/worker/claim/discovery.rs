//! When to run discovery, which finds the lanes that have jobs. It runs before a claim. When it is slow, it runs in the
//! background while claims continue. The more it costs, the less often it runs. No I/O.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::store::values::{Found, Lane};
use crate::worker::claim::lanes::Lanes;
use crate::worker::claim::pacing::Cost;
use crate::worker::shared::Shared;

/// A single discovery that takes this long is expensive, whatever others took. No pause of the machine explains it.
const VERY_SLOW: Duration = Duration::from_millis(250);

/// When discovery is expensive, an idle worker runs it no more often than this.
pub(super) const REST: Duration = Duration::from_secs(2);

/// The most lanes that one discovery finds. A producer may create any number of queues, so memory and time need a
/// bound. The next discovery continues behind the last lane.
const MOST_LANES: usize = 5_000;

/// The state of discovery.
pub(super) struct Discovery {
    /// When the last one ended. None: the next one is due.
    last: Option<Instant>,
    /// How long the last one took.
    took: Duration,
    cost: Cost,
    /// One is running in the background.
    beside: bool,
    /// Where the last one stopped midway. A kind that was read to its end starts over, so that the lanes of small kinds
    /// are found each time.
    stopped: Vec<Lane>,
    /// Kinds that are not read to their end yet in this round.
    pending: Vec<Arc<str>>,
    /// What this round has cost so far.
    spent: Duration,
    /// What the last round through all lanes cost.
    round: Duration,
    most: usize,
}

impl Discovery {
    pub(super) fn new() -> Self {
        let (cost, stopped, pending) = (Cost::of_looks(), Vec::new(), Vec::new());
        let (took, spent, round) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Self { last: None, took, cost, beside: false, stopped, pending, spent, round, most: MOST_LANES }
    }

    /// The last one stopped midway: there are lanes behind the ones that it found.
    pub(super) fn is_midway(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Makes the next one due now.
    pub(super) fn forget(&mut self) {
        self.last = None;
    }

    /// One is running in the background.
    pub(super) fn is_beside(&self) -> bool {
        self.beside
    }

    /// Its cost allows another one now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|at| now - at >= self.cost.pause())
    }

    pub(super) fn is_cheap(&self) -> bool {
        self.cost.is_cheap() && self.took < VERY_SLOW
    }

    /// The last one is long enough ago for an idle worker, whatever discovery costs.
    pub(super) fn has_rested(&self) -> bool {
        let rest = REST.max(self.took.max(self.round) * 10);
        self.last.is_none_or(|at| at.elapsed() >= rest)
    }

    /// It begins, on a connection of its own or while the claims wait (`beside`). Returns the lanes behind which it
    /// starts, and how many it finds at most.
    pub(super) fn begin(&mut self, lanes: &mut Lanes, beside: bool) -> (Vec<Lane>, usize) {
        lanes.look_begins();
        self.beside = beside;
        (self.stopped.clone(), self.most)
    }

    /// It has ended, and took this long. A slow failure must not delay the claims from known lanes, so it is no error.
    pub(super) fn ended(
        &mut self,
        result: Result<Found, Error>,
        took: Duration,
        shared: &Shared,
        lanes: &mut Lanes,
    ) -> Result<(), Error> {
        let beside = std::mem::take(&mut self.beside);
        if !beside {
            // if this took too long, the next one runs in the background
            self.took = took;
        }
        match result {
            Ok(found) => self.found(shared, lanes, found),
            Err(error) if !beside && took < VERY_SLOW => return Err(error),
            Err(error) => self.failed(&error, took),
        }
        Ok(())
    }

    /// Records a failed discovery.
    fn failed(&mut self, error: &Error, took: Duration) {
        tracing::debug!(%error, "discovery of lanes failed; claims from known lanes continue");
        self.last = Some(Instant::now());
        self.took = self.took.max(took);
        // a quick failure says nothing about the cost
        if took >= VERY_SLOW {
            self.cost.add(took);
        }
    }

    fn found(&mut self, shared: &Shared, lanes: &mut Lanes, mut found: Found) {
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
            // the cost is that of the whole round
            self.round = std::mem::take(&mut self.spent);
            self.cost.add(self.round);
        }
        let now = Instant::now();
        self.last = Some(now);
        let newest_first = &shared.config.newest_first;
        let expensive = (!self.is_cheap()).then_some(found.took);
        let all = from_the_start && self.pending.is_empty();
        let most_kept = if all { 0 } else { self.most };
        shared.notices.let_others_first(&mut found.heads);
        lanes.found(found.heads, now, expensive, most_kept, |lane| newest_first.contains(&*lane.queue));
    }

    #[cfg(test)]
    pub(super) fn bounded(most: usize) -> Self {
        Self { most, ..Self::new() }
    }
}
