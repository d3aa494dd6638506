//! The plan: how much to take from each lane, so that jobs are claimed in order.

use tokio::time::Instant;

use crate::error::Error;
use crate::store::values::{Ask, Claimed, Reach};
use crate::worker::claim::horizon::Horizon;
use crate::worker::claim::lanes::Lanes;
use crate::worker::shared::Shared;

/// The most lanes compared at once. If lanes are left out, a claim takes no more jobs than this. Producers may create
/// any number of lanes.
pub(super) const COMPARED: usize = 128;

/// How often lanes with outdated heads make room for others before a claim takes fewer jobs.
const MOST_TURNOVERS: u32 = 16;

/// What to claim for one set of slots.
pub(super) struct Next {
    pub(super) slots: usize,
    pub(super) take: u32,
    pub(super) asks: Vec<Ask>,
    /// There are more jobs, or may be, because not everything was compared.
    more: bool,
    /// The claim is smaller than wanted, because not everything was read.
    pub(super) cut: bool,
}

impl Next {
    /// For asks that cover all that is known.
    pub(super) fn all(slots: usize, take: u32, asks: Vec<Ask>) -> Self {
        Self { slots, take, asks, more: false, cut: false }
    }
}

/// What earlier comparisons showed.
pub(super) struct Order {
    /// How many lanes the last comparison needed.
    breadth: usize,
    /// How far the next jobs reach, by set of slots.
    horizons: Vec<Horizon>,
}

impl Order {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { breadth: 1, horizons: shared.slots.iter().map(|_| Horizon::default()).collect() }
    }

    /// The asks for the due lanes of these slots, so that the next jobs in order are taken. `full`: the last claim
    /// brought all that it asked for.
    ///
    /// Lanes are compared in the order of their possible next rows, and no more of them than necessary. Jobs before the
    /// first lane left out are the next ones, whatever the lanes left out contain. The same is true of jobs before the
    /// part that is not read.
    pub(super) async fn next(
        &mut self,
        shared: &Shared,
        lanes: &mut Lanes,
        (slots, take): (usize, u32),
        full: bool,
        now: Instant,
    ) -> Result<Next, Error> {
        let mut breadth = self.breadth;
        let mut until = self.horizons[slots].until(take);
        let mut turnovers = 0;
        loop {
            let (mut asks, before) = lanes.asks(take, breadth, now, |lane| shared.retries(slots, lane));
            if asks.is_empty() || (asks.len() == 1 && before.is_none()) {
                // if nobody else claims, as many jobs are likely to follow right behind the cursor
                if full && !shared.has_others() {
                    asks.iter_mut().for_each(|ask| ask.first = lanes.next_place(ask));
                }
                return Ok(Next::all(slots, take, asks));
            }
            // If the known heads are exact, the next job in order is in the first lane. So the next 128 jobs are in the
            // first 128 lanes. They are always taken, so that jobs of many lanes that are due at the same time cannot
            // block the claim.
            let least = if asks.len() == COMPARED { COMPARED as u32 } else { 0 };
            let reach = Reach { most: take, least, before, until };
            let shares = shared.config.store.peek(&asks, reach).await?;
            lanes.compared(&asks, &shares);
            let mut found: u32 = shares.iter().map(|share| share.count).sum();
            let sure: u32 = shares.iter().map(|share| share.sure).sum();
            // whether the lanes left out limit the claim, or the part that was not read
            let too_few_lanes = before.is_some_and(|before| until.is_none_or(|until| before < until));
            let enough = if too_few_lanes { take.min(COMPARED as u32) } else { take };
            let mut sure_only = false;
            if let Some(before) = before.filter(|_| too_few_lanes && sure < enough) {
                if breadth < COMPARED {
                    breadth = (breadth * 4).min(COMPARED);
                    continue;
                }
                let all: u32 = shares.iter().map(|share| share.all).sum();
                if all == 0 && until.is_some() {
                    // the answer does not show where these lanes stand
                    until = None;
                    continue;
                }
                if all < take && until.is_none() {
                    let none = asks.iter().zip(&shares).filter(|(_, share)| share.ends.is_none());
                    none.for_each(|(ask, _)| lanes.empty(ask, now));
                }
                let others = lanes.make_room(&asks, &shares, before, now);
                if others && sure < enough.div_ceil(2) && turnovers < MOST_TURNOVERS {
                    turnovers += 1;
                    continue;
                }
                sure_only = others && sure > 0;
                found = if sure_only { sure } else { found };
            }
            if until.is_some() && !sure_only {
                if found < enough.div_ceil(2) {
                    until = self.horizons[slots].further(take);
                    continue;
                }
                self.horizons[slots].was_right();
            }
            for (ask, share) in asks.iter_mut().zip(shares) {
                ask.take = if sure_only { share.sure } else { share.count };
                ask.first = share.ends.map(|(first, _)| first).filter(|_| !ask.newest_first);
            }
            // nothing is due behind the cursors; if lanes were left out, each empty lane makes room for them
            if until.is_none() && !sure_only && (found == 0 || found < least.min(take)) {
                asks.iter().filter(|ask| ask.take == 0).for_each(|ask| lanes.empty(ask, now));
            }
            let needed = asks.iter().rposition(|ask| ask.take > 0).map_or(1, |last| last + 1);
            self.breadth = needed.next_power_of_two().min(COMPARED);
            asks.retain(|ask| ask.take > 0);
            let (more, cut) = (before.is_some() || found >= take, until.is_some() && found < take);
            return Ok(Next { slots, take, asks, more: more || cut, cut });
        }
    }

    /// Learns from a claim how far the next jobs of these slots reach.
    pub(super) fn learn(&mut self, shared: &Shared, next: &Next, jobs: &[Claimed]) {
        let mine = |job: &&Claimed| shared.slots_of(&job.lane.queue) == Some(next.slots);
        let all = jobs.iter().filter(mine).count() >= next.take as usize;
        // newest-first jobs say nothing about how far the others reach
        let in_order = |job: &&Claimed| mine(job) && !shared.config.newest_first.contains(&*job.lane.queue);
        let ranks = jobs.iter().filter(in_order).map(|job| (job.lane.priority, (job.run_at, job.id.get())));
        if next.more || all {
            self.horizons[next.slots].claimed(ranks);
        } else {
            self.horizons[next.slots].forget();
        }
    }
}
