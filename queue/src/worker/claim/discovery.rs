//! When to run discovery, which finds the lanes that have jobs, and what it and scans may cost. It runs before a claim.
//! When it is slow, it runs in the background while claims continue. The more it costs, the less often it runs. No I/O.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::store::values::{Found, Lane, LaneHead};

/// The shortest pause between two discoveries, and between two scans of a lane from before its cursor.
pub(super) const RESCAN: Duration = Duration::from_millis(250);
/// A pause lasts this many times as long as the work before it.
pub(super) const RATION: u32 = 50;
/// The longest pause between two discoveries. Discovery walks over the entries of all rows that were ever taken.
const LONGEST_LOOK: Duration = Duration::from_secs(30);
/// The longest pause between two scans of a lane. A scan walks only over rows that were due lately.
pub(super) const LONGEST_SCAN: Duration = Duration::from_secs(2);
/// Scans that cost less are not rationed. Discovery that costs less runs at every wake-up, and a lane that it finds
/// empty is forgotten.
const CHEAP: Duration = Duration::from_millis(5);

/// A single discovery that takes this long is expensive, whatever others took. No pause of the machine explains it.
const VERY_SLOW: Duration = Duration::from_millis(250);

/// When discovery is expensive, an idle worker runs it no more often than this.
pub(super) const REST: Duration = Duration::from_secs(2);

/// The most lanes that one discovery finds. A producer may create any number of queues, so memory and time need a
/// bound. The next discovery continues behind the last lane.
const MOST_LANES: usize = 5_000;

/// The cost of discovery or of scans: the least of the last three. A pause of the machine or the network may fall into
/// any one of them, but real cost shows in all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    last: [Duration; 3],
    next: usize,
}

impl Cost {
    pub(super) fn add(&mut self, cost: Duration) {
        self.last[self.next % 3] = cost;
        self.next += 1;
    }

    /// Zero until three were measured.
    pub(super) fn least(&self) -> Duration {
        self.last.into_iter().min().unwrap_or_default()
    }

    pub(super) fn is_cheap(&self) -> bool {
        self.least() < CHEAP
    }

    /// The pause before the next one.
    pub(super) fn pause(&self, longest: Duration) -> Duration {
        (self.least() * RATION).clamp(RESCAN, longest)
    }
}

/// What a discovery has found.
pub(super) struct Seen {
    pub(super) heads: Vec<LaneHead>,
    /// How long it took, if that was long.
    pub(super) expensive: Option<Duration>,
    /// How many of the lanes that it left out are kept at most.
    pub(super) most_kept: usize,
}

/// The state of discovery.
#[derive(Default)]
pub(super) struct Discovery {
    /// When the last one ended. None: the next one is due.
    pub(super) last: Option<Instant>,
    /// How long the last one took.
    took: Duration,
    cost: Cost,
    /// One is running in the background.
    pub(super) beside: bool,
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
        Self { most: MOST_LANES, ..Self::default() }
    }

    /// The last one stopped midway: there are lanes behind the ones that it found.
    pub(super) fn is_midway(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Its cost allows another one now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|at| now - at >= self.cost.pause(LONGEST_LOOK))
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
    pub(super) fn begin(&mut self, beside: bool) -> (Vec<Lane>, usize) {
        self.beside = beside;
        (self.stopped.clone(), self.most)
    }

    /// It has ended, and took this long. A slow failure must not delay the claims from known lanes, so it is no error.
    pub(super) fn ended(&mut self, result: Result<Found, Error>, took: Duration) -> Result<Option<Seen>, Error> {
        let beside = std::mem::take(&mut self.beside);
        if !beside {
            // if this took too long, the next one runs in the background
            self.took = took;
        }
        match result {
            Ok(found) => Ok(Some(self.found(found))),
            Err(error) if !beside && took < VERY_SLOW => Err(error),
            Err(error) => {
                tracing::debug!(%error, "discovery of lanes failed; claims from known lanes continue");
                self.last = Some(Instant::now());
                self.took = self.took.max(took);
                // a quick failure says nothing about the cost
                if took >= VERY_SLOW {
                    self.cost.add(took);
                }
                Ok(None)
            }
        }
    }

    fn found(&mut self, found: Found) -> Seen {
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
        self.last = Some(Instant::now());
        let all = from_the_start && self.pending.is_empty();
        Seen {
            heads: found.heads,
            expensive: (!self.is_cheap()).then_some(found.took),
            most_kept: if all { 0 } else { self.most },
        }
    }

    #[cfg(test)]
    pub(super) fn bounded(most: usize) -> Self {
        Self { most, ..Self::new() }
    }
}
