//! Where waiting jobs are: lanes, and places in them.

use std::sync::Arc;
use std::time::Duration;

use crate::limits::END_OF_9999;

/// Which rows a worker may take.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    /// Kinds and aliases that this worker serves.
    pub(crate) kinds: Vec<String>,
    /// Empty: every queue.
    pub(crate) queues: Vec<String>,
}

/// Waiting jobs of one kind, queue and priority. They are adjacent in the claim index, by due time and id, so that a
/// claim never walks over rows that it may not take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    pub(crate) kind: Arc<str>,
    pub(crate) queue: Arc<str>,
    pub(crate) priority: i16,
}

/// A lane with rows, as discovery found it. Lanes of paused queues are left out.
#[derive(Debug, Clone)]
pub(crate) struct LaneHead {
    pub(crate) lane: Lane,
    /// The place of the first row, or before it: the due time is exact, the id may be lower.
    pub(crate) first: Place,
    /// Time until it is due; zero if it is due.
    pub(crate) due_in: Duration,
}

/// The result of a discovery.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) heads: Vec<LaneHead>,
    /// The last lane seen of each kind that has more: the next discovery continues behind these. Empty: it has seen
    /// all.
    pub(crate) stopped: Vec<Lane>,
    /// How long the database took, without the network.
    pub(crate) took: Duration,
    /// The database's time when it was asked, in microseconds since 1970. None: there are no lanes.
    pub(crate) now: Option<i64>,
}

/// A place in a lane: the due time (microseconds since 1970) and id of a row. In newest-first lanes both count
/// backwards (the id as −1 − id), so that the next row always has the lowest place.
pub(crate) type Place = (i64, i64);

/// A row's position in the order of all lanes: its priority, then its place.
pub(crate) type Rank = (i16, Place);

/// How many jobs to take from one lane, and where to start.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) lane: Lane,
    pub(crate) take: u32,
    /// Start behind this place (first-in-first-out only). Rows before it were taken earlier. Walking over their dead
    /// index entries again is what makes queues slow.
    pub(crate) behind: Option<Place>,
    /// The place of its first due row, or before it (first-in-first-out only). If it is given, the due rows need not be
    /// counted first. A preview has just counted them, or the last claim up to this place got all that it asked for.
    pub(crate) first: Option<Place>,
    pub(crate) newest_first: bool,
    /// Stored in rows without a number of retries.
    pub(crate) max_retries: u32,
}

impl Ask {
    /// `max_retries`, as a row can store it.
    pub(crate) fn retries(&self) -> i64 {
        i64::from(self.max_retries.min(i32::MAX as u32))
    }
}

/// How far a preview reads in the order of all lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    /// It counts at most this many jobs.
    pub(crate) most: u32,
    /// This many count in any case …
    pub(crate) least: u32,
    /// … and, beyond them, those before this rank. From there on, other lanes may have the next job.
    pub(crate) before: Option<Rank>,
    /// Jobs from this rank on are not read, so they cost nothing. Newest-first lanes may still read them, and the bound
    /// is only exact to the millisecond.
    pub(crate) until: Option<Rank>,
}

/// A lane's share of the next jobs of all given lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// How many of them are within reach …
    pub(crate) count: u32,
    /// … and how many of those come before all other lanes, whatever these contain.
    pub(crate) sure: u32,
    /// How many there are in all, within reach or not.
    pub(crate) all: u32,
    /// The places of the first and the last of them, or before: the due times are exact, the ids may be lower. None:
    /// there are none.
    pub(crate) ends: Option<(Place, Place)>,
}

impl Reach {
    /// `most, least, priority, time, id`.
    pub(crate) fn numbers(&self) -> [i64; 5] {
        let [priority, time, id] = Self::rank(self.before);
        [self.most.into(), self.least.into(), priority, time, id]
    }

    /// The priority, time and id. For none, a rank behind all others.
    pub(crate) fn rank(rank: Option<Rank>) -> [i64; 3] {
        rank.map_or([i64::MAX, 0, 0], |(priority, (time, id))| [priority.into(), time, id])
    }

    /// The place at which to stop reading a lane.
    pub(crate) fn end_in(&self, lane: &Lane) -> Place {
        match self.until {
            Some((priority, place)) if lane.priority == priority => place,
            Some((priority, _)) if lane.priority > priority => (i64::MIN, i64::MIN),
            _ => NEVER,
        }
    }
}

/// After every due place: 9999 is the last year that each engine can compute with.
pub(crate) const NEVER: Place = (END_OF_9999, i64::MIN);
