//! Finds broken promises, from the records and the final tables alone.

mod effects;
mod order;
mod outcomes;
mod overlap;
mod rules;
mod story;
#[cfg(test)]
mod tests;
mod ticks;
mod unique;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use queue_test_support::{Attempt, Row, Tables};
use serde::Deserialize;

pub use self::effects::{Effect, EffectHistory, EffectRule, EffectViolation, Step};
pub use self::ticks::{Decided, Made, Scheduled, TickHistory, TickRule, TickViolation};
pub use self::unique::{Keyed, Sighting, UniqueHistory, UniqueRule, UniqueViolation};
use crate::record::{Event, Options, What};

/// Everything that is known at the end, when no job waits or runs.
#[derive(Debug, Default)]
pub struct History {
    /// The events of all processes, in order of time.
    pub events: Vec<Event>,
    /// The tables.
    pub tables: Tables,
    /// The tags in the ledger. A producer writes there in the transaction of its enqueue.
    pub ledger: HashSet<i64>,
}

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// A committed job is neither finished nor present.
    Lost,
    /// A committed job still waits or runs at the end.
    Unfinished,
    /// A job whose transaction was rolled back ran, or is present.
    RolledBack,
    /// A job is in two places, or was enqueued twice.
    Twice,
    /// Nobody enqueued this job.
    Unasked,
    /// Two attempts were current at once.
    Overlap,
    /// A completed job ran again.
    RanAgain,
    /// A write of an attempt that was not current was accepted.
    StaleWrite,
    /// A job was cancelled, and neither its handler nor anybody else had asked for it.
    Cancelled,
    /// A job began again although its cancellation had been accepted.
    Uncancelled,
    /// There were more attempts than allowed.
    TooMany,
    /// A job became a dead letter although attempts were left.
    GivenUp,
    /// A job and its ledger row were not committed together.
    Ledger,
    /// Jobs of a queue that one worker serves, one at a time, did not run in their order.
    Order,
    /// A job started before its time.
    Early,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub rule: Rule,
    /// The job's tag.
    pub tag: i64,
    /// The tag of the other job, if two are involved.
    pub beside: Option<i64>,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: job with tag {}: {}", self.rule, self.tag, self.what)
    }
}

/// The answer that a producer got to its enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// None: it was killed, or its connection broke.
    Unknown,
    Committed(i64),
    RolledBack,
}

/// All that is known of one job.
#[derive(Debug)]
struct Story<'a> {
    tag: i64,
    asked: Option<(i64, &'a Options)>,
    fate: Fate,
    /// `Started` and `Ended`, in order.
    runs: Vec<&'a Event>,
    rows: Vec<(i64, &'a Row)>,
    /// In the order of their fences.
    attempts: Vec<&'a Attempt>,
    in_ledger: bool,
}

impl Story<'_> {
    /// The starts of its handler: time, process and attempt.
    fn starts(&self) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
        self.runs.iter().filter_map(|event| match event.what {
            What::Started { attempt, .. } => Some((event.at, event.process, attempt)),
            _ => None,
        })
    }
}

/// The field that the arguments of every job of the suite have.
#[derive(Deserialize)]
struct Args {
    tag: i64,
}

/// The records and tables, job by job.
#[derive(Debug)]
pub struct Checker<'a> {
    history: &'a History,
    jobs: BTreeMap<i64, Story<'a>>,
    /// Events that concern a whole process, not one job.
    processes: HashMap<i64, Vec<&'a Event>>,
    /// Cancellation requests by job id: the time of acceptance, or `None` if that is not known.
    cancels: HashMap<i64, Option<i64>>,
    /// Processes by worker id.
    of_worker: &'a HashMap<i64, i64>,
}

impl<'a> Checker<'a> {
    /// Groups everything that is known by job and by process.
    pub fn new(history: &'a History) -> Checker<'a> {
        let mut checker = Checker {
            history,
            jobs: BTreeMap::new(),
            processes: HashMap::new(),
            cancels: HashMap::new(),
            of_worker: &history.tables.processes,
        };
        history.events.iter().for_each(|event| checker.take(event));
        for (&id, rows) in &history.tables.jobs {
            for row in rows {
                // a row without a tag is no job of the suite's
                let tag = serde_json::from_str(&row.args).map_or(-id, |Args { tag }| tag);
                let attempts = history.tables.attempts.get(&id);
                let job = checker.job(tag);
                job.rows.push((id, row));
                if job.attempts.is_empty() {
                    job.attempts = attempts.into_iter().flatten().collect();
                }
            }
        }
        history.ledger.iter().for_each(|tag| checker.job(*tag).in_ledger = true);
        checker
    }

    fn job(&mut self, tag: i64) -> &mut Story<'a> {
        self.jobs.entry(tag).or_insert_with(|| Story {
            tag,
            asked: None,
            fate: Fate::Unknown,
            runs: Vec::new(),
            rows: Vec::new(),
            attempts: Vec::new(),
            in_ledger: false,
        })
    }

    fn take(&mut self, event: &'a Event) {
        match &event.what {
            What::Asked { tags, options } => {
                tags.iter().for_each(|tag| self.job(*tag).asked = Some((event.at, options)));
            }
            What::Committed { tags } => {
                tags.iter().for_each(|tag| self.job(*tag).fate = Fate::Committed(event.at));
            }
            What::RolledBack { tags } => {
                tags.iter().for_each(|tag| self.job(*tag).fate = Fate::RolledBack);
            }
            What::Unknown { tags } => tags.iter().for_each(|tag| self.job(*tag).fate = Fate::Unknown),
            What::CancelAsked { job } => {
                self.cancels.entry(*job).or_default();
            }
            What::CancelAccepted { job } => {
                self.cancels.insert(*job, Some(event.at));
            }
            What::Started { tag, .. } | What::Ended { tag, .. } => self.job(*tag).runs.push(event),
            What::Stands { .. } | What::Produced => {}
            _ => self.processes.entry(event.process).or_default().push(event),
        }
    }

    /// Every broken promise, by job.
    pub fn violations(&self) -> Vec<Violation> {
        let mut found = Vec::new();
        for job in self.jobs.values() {
            let mut broken = |rule, what: String| found.push(Violation { rule, tag: job.tag, beside: None, what });
            self.presence(job, &mut broken);
            self.completion(job, &mut broken);
            self.cancellation(job, &mut broken);
            self.outcomes(job, &mut broken);
            self.attempts(job, &mut broken);
            self.times(job, &mut broken);
            self.overlaps(job, &mut broken);
        }
        found.extend(self.order().found);
        found
    }

    /// How many jobs of an ordered queue began while others waited. Only these say something about the order.
    pub fn compared(&self) -> usize {
        self.order().starts
    }

    /// How often a job's handler began.
    pub fn starts_of(&self, tag: i64) -> usize {
        self.jobs.get(&tag).map_or(0, |job| job.starts().count())
    }

    /// How many jobs were committed.
    pub fn committed(&self) -> usize {
        self.jobs.values().filter(|job| matches!(job.fate, Fate::Committed(_))).count()
    }
}
