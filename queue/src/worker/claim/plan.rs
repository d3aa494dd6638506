//! The plan: how much to take from each lane, so that jobs are claimed in order. No I/O.

use tokio::time::Instant;

use crate::store::values::{Ask, Claimed, Lane, Rank, Reach, Share};
use crate::worker::claim::lanes::Lanes;

/// The most lanes compared at once. Producers may create any number of lanes. If lanes are left out, a claim of this
/// many jobs is large enough.
pub(super) const COMPARED: usize = 128;

/// How often lanes with outdated heads make room for others before a claim takes fewer jobs.
const MOST_TURNOVERS: u32 = 16;

/// An estimate reaches this many times as far as the last pace suggests.
const AMPLE: f64 = 1.5;
/// An estimate reaches at least this far: microseconds, or ids.
const LEAST_TIME: f64 = 1_000.0;
const LEAST_IDS: f64 = 100.0;
/// An estimate that was too short is extended by this factor.
const FURTHER: f64 = 16.0;
/// After this many estimates that were too short, everything is read.
const TRIES: i32 = 3;
/// The longest estimate: 366 days in microseconds.
const FARTHEST: f64 = 366.0 * 86_400e6;
/// After wrong estimates in a row, at most this many claims run without one.
const LONGEST_REST: u32 = 64;

/// What to claim for one set of slots.
#[derive(Debug)]
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
pub(super) struct Planner {
    /// How many lanes the last comparison needed.
    breadth: usize,
    /// How far the next jobs reach, by set of slots.
    horizons: Vec<Horizon>,
}

impl Planner {
    /// For so many sets of slots.
    pub(super) fn new(slots: usize) -> Self {
        Self { breadth: 1, horizons: (0..slots).map(|_| Horizon::default()).collect() }
    }

    /// Learns from a claim how far the next jobs of these slots reach. `mine`: the jobs of these slots, whether they
    /// come newest first.
    pub(super) fn learn<'a>(&mut self, next: &Next, mine: impl Iterator<Item = (&'a Claimed, bool)> + Clone) {
        let all = mine.clone().count() >= next.take as usize;
        // newest-first jobs say nothing about how far the others reach
        let in_order = mine.filter(|(_, newest_first)| !newest_first);
        let ranks = in_order.map(|(job, _)| (job.lane.priority, (job.run_at, job.id.get())));
        if next.more || all {
            self.horizons[next.slots].claimed(ranks);
        } else {
            // no due job is left
            self.horizons[next.slots].reached = None;
        }
    }
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Planned {
    /// Count the next jobs of these lanes, within this reach.
    Preview(Vec<Ask>, Reach),
    Claim(Next),
}

/// What a plan knows and learns.
pub(super) struct Known<'a> {
    pub(super) lanes: &'a mut Lanes,
    pub(super) planner: &'a mut Planner,
    /// How often a lane's jobs are tried again; None: these slots do not serve it.
    pub(super) retries: &'a dyn Fn(&Lane) -> Option<u32>,
}

/// The plan of one claim. No I/O.
///
/// Lanes are compared in the order of their possible next rows, and no more of them than necessary. Jobs before the
/// first lane left out are the next ones, whatever the lanes left out contain. The same is true of jobs before the
/// part that is not read.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) slots: usize,
    take: u32,
    follows: bool,
    now: Instant,
    /// What comes there or later is not read.
    until: Option<Rank>,
    turnovers: u32,
}

impl Plan {
    /// For a claim of `take` jobs for these slots. `follows`: in a lane that is alone, more jobs are likely to follow
    /// right behind the cursor.
    pub(super) fn new(slots: usize, take: u32, follows: bool, now: Instant) -> Self {
        Self { slots, take, follows, now, until: None, turnovers: 0 }
    }

    pub(super) fn begin(&mut self, known: &mut Known<'_>) -> Planned {
        self.until = known.planner.horizons[self.slots].until(self.take);
        self.step(known)
    }

    /// Asks the lanes that come first, as far as is known.
    fn step(&self, known: &Known<'_>) -> Planned {
        let (mut asks, before) = known.lanes.asks(self.take, known.planner.breadth, self.now, known.retries);
        if asks.is_empty() || (asks.len() == 1 && before.is_none()) {
            if self.follows {
                asks.iter_mut().for_each(|ask| ask.first = known.lanes.next_place(ask));
            }
            return Planned::Claim(Next::all(self.slots, self.take, asks));
        }
        // If the known heads are exact, the next job in order is in the first lane. So the next 128 jobs are in the
        // first 128 lanes. They are always taken, so that jobs of many lanes that are due at the same time cannot block
        // the claim.
        let least = if asks.len() == COMPARED { COMPARED as u32 } else { 0 };
        Planned::Preview(asks, Reach { most: self.take, least, before, until: self.until })
    }

    /// What the answer of a preview means.
    pub(super) fn after(&mut self, known: &mut Known<'_>, asks: Vec<Ask>, reach: Reach, shares: &[Share]) -> Planned {
        known.lanes.compared(&asks, shares);
        let counts = Counts::of(self.take, reach, shares);
        let mut sure_only = false;
        if let Some(before) = reach.before
            && counts.by_lanes
            && counts.sure < counts.enough
        {
            // lanes were left out that may have the next jobs
            if self.compares_more(known, &asks, shares, counts) {
                return self.step(known);
            }
            let others = known.lanes.make_room(&asks, shares, before, self.now);
            if others && counts.sure < counts.enough.div_ceil(2) && self.turnovers < MOST_TURNOVERS {
                self.turnovers += 1;
                return self.step(known);
            }
            // the heads of some lanes were outdated: only what comes before all others is next for certain
            sure_only = others && counts.sure > 0;
        }
        if self.until.is_some() && !sure_only {
            if counts.found < counts.enough.div_ceil(2) {
                self.until = known.planner.horizons[self.slots].further(self.take);
                return self.step(known);
            }
            known.planner.horizons[self.slots].last_rest = 0;
        }
        Planned::Claim(self.claim(known, asks, reach, shares, counts, sure_only))
    }

    /// Whether more lanes are compared, or read further, before any of them makes room for others.
    fn compares_more(&mut self, known: &mut Known<'_>, asks: &[Ask], shares: &[Share], counts: Counts) -> bool {
        if known.planner.breadth < COMPARED {
            known.planner.breadth = (known.planner.breadth * 4).min(COMPARED);
            return true;
        }
        if counts.all == 0 && self.until.is_some() {
            // the answer does not show where these lanes stand
            self.until = None;
            return true;
        }
        if counts.all < self.take && self.until.is_none() {
            let none = asks.iter().zip(shares).filter(|(_, share)| share.ends.is_none());
            none.for_each(|(ask, _)| known.lanes.empty(ask, self.now));
        }
        false
    }

    fn claim(
        &self,
        known: &mut Known<'_>,
        mut asks: Vec<Ask>,
        reach: Reach,
        shares: &[Share],
        counts: Counts,
        sure_only: bool,
    ) -> Next {
        let found = if sure_only { counts.sure } else { counts.found };
        for (ask, share) in asks.iter_mut().zip(shares) {
            ask.take = if sure_only { share.sure } else { share.count };
            ask.first = share.ends.map(|(first, _)| first).filter(|_| !ask.newest_first);
        }
        // nothing is due behind the cursors; if lanes were left out, each empty lane makes room for them
        if self.until.is_none() && !sure_only && (found == 0 || found < reach.least.min(self.take)) {
            asks.iter().filter(|ask| ask.take == 0).for_each(|ask| known.lanes.empty(ask, self.now));
        }
        let needed = asks.iter().rposition(|ask| ask.take > 0).map_or(1, |last| last + 1);
        known.planner.breadth = needed.next_power_of_two().min(COMPARED);
        asks.retain(|ask| ask.take > 0);
        let cut = self.until.is_some() && found < self.take;
        Next {
            slots: self.slots,
            take: self.take,
            asks,
            more: reach.before.is_some() || found >= self.take || cut,
            cut,
        }
    }
}

/// What the lanes of a preview have together.
#[derive(Debug, Clone, Copy)]
struct Counts {
    /// Jobs within reach.
    found: u32,
    /// Those of them that are next whatever the lanes left out contain.
    sure: u32,
    /// Jobs that were read, within reach or not.
    all: u32,
    /// With this many the claim is large enough.
    enough: u32,
    /// The lanes left out limit the claim, not the part that was not read.
    by_lanes: bool,
}

impl Counts {
    fn of(take: u32, reach: Reach, shares: &[Share]) -> Self {
        let sum = |count: fn(&Share) -> u32| shares.iter().map(count).sum();
        let by_lanes = reach.before.is_some_and(|before| reach.until.is_none_or(|until| before < until));
        let enough = if by_lanes { take.min(COMPARED as u32) } else { take };
        Self { found: sum(|it| it.count), sure: sum(|it| it.sure), all: sum(|it| it.all), enough, by_lanes }
    }
}

/// The distance from one job to the next.
#[derive(Debug, Clone, Copy)]
enum Density {
    /// Microseconds.
    Time(f64),
    /// Ids, because all jobs were due at the same time.
    Ids(f64),
}

/// Estimates from the last claims how far the next jobs reach in the order of all lanes. No I/O.
///
/// To claim the next 500 jobs of 64 lanes in order, the database would have to read the first 500 of each. It would
/// read 32,000 jobs for 500. A lane does not give a steady share of the jobs: it may give all of them for a while, then
/// none. But all lanes together advance in time about as fast as they just did. If all jobs are due at the same time
/// (every customer's nightly job), they advance in ids. So only jobs up to a little further than needed are read. The
/// estimate affects nothing but the cost. If it brings less than half of the jobs, it is extended, and in the end
/// everything is read.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    /// How far the last claim came, and its pace.
    reached: Option<(Rank, Density)>,
    /// How many estimates were too short for the present claim.
    tries: i32,
    /// How many claims still run without an estimate, and how many there were after the last wrong one.
    rest: u32,
    last_rest: u32,
}

impl Horizon {
    /// The next `take` jobs are expected before this rank. None: no estimate, read everything.
    pub(super) fn until(&mut self, take: u32) -> Option<Rank> {
        self.tries = 0;
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        self.guess(take)
    }

    /// A longer estimate, after one that was too short. None: read everything.
    pub(super) fn further(&mut self, take: u32) -> Option<Rank> {
        self.tries += 1;
        if self.tries < TRIES {
            return self.guess(take);
        }
        self.last_rest = (self.last_rest * 2).clamp(1, LONGEST_REST);
        self.rest = self.last_rest;
        None
    }

    fn guess(&self, take: u32) -> Option<Rank> {
        let ((priority, (time, id)), pace) = self.reached?;
        let ample = |pace: f64| pace * f64::from(take) * AMPLE;
        let pace = match pace {
            Density::Ids(pace) if self.tries == 0 => {
                return Some((priority, (time, id.saturating_add((ample(pace) + LEAST_IDS) as i64))));
            }
            // no more jobs are due at that time
            Density::Ids(_) => 0.0,
            Density::Time(pace) => pace,
        };
        let ahead = (ample(pace) + LEAST_TIME) * FURTHER.powi(self.tries);
        Some((priority, (time.checked_add(ahead.min(FARTHEST) as i64)?, i64::MIN)))
    }

    /// These jobs were claimed, and there are more. Jobs that other workers took since the last claim count for the
    /// pace too.
    pub(super) fn claimed(&mut self, jobs: impl Iterator<Item = Rank> + Clone) {
        let Some((priority, last)) = jobs.clone().max() else { return };
        let (mut count, mut first) = (0_u32, last);
        for (_, place) in jobs.filter(|job| job.0 == priority) {
            count += 1;
            first = first.min(place);
        }
        let before = self.reached.map(|(reached, _)| reached).filter(|before| before.0 == priority && before.1 < last);
        let from = before.map_or(first, |(_, place)| place);
        let per_job = |from: i64, to: i64| to.saturating_sub(from) as f64 / f64::from(count);
        let pace = if from.0 == last.0 {
            Density::Ids(per_job(from.1, last.1))
        } else {
            Density::Time(per_job(from.0, last.0))
        };
        self.reached = Some(((priority, last), pace));
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
