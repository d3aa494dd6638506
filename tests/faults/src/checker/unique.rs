//! Finds broken promises of unique jobs, from the records, the tables, and what was seen of the tables meanwhile.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use queue::unique::UniqueUntil;

use super::History;
use crate::record::{How, Request, What};

/// A row of `queue_unique_jobs`.
#[derive(Clone, Debug, PartialEq)]
pub struct Keyed {
    /// The job's number.
    pub job: i64,
    /// Its key.
    pub key: String,
    /// Until when nobody else may have it.
    pub until: UniqueUntil,
    /// When the job was over: microseconds since 1970, by the database's clock.
    pub ended: Option<i64>,
}

/// Several jobs that had one key in one snapshot of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Their key.
    pub key: String,
    /// How many there were.
    pub count: i64,
    /// The numbers of the first and the last one.
    pub jobs: [i64; 2],
}

/// All that concerns unique jobs, when no job waits or runs.
#[derive(Debug)]
pub struct UniqueHistory<'a> {
    /// The records and the tables.
    pub history: &'a History,
    /// The keys of the jobs.
    pub keyed: Vec<Keyed>,
    /// What was seen while jobs ran.
    pub sightings: Vec<Sighting>,
}

/// A promise about unique jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UniqueRule {
    /// Two jobs had one key at the same time.
    TwoHolders,
    /// A request was committed, and no job stands for it.
    NoHolder,
    /// A job started before a request was committed that it stands for.
    TooSoon,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueViolation {
    /// Which promise.
    pub rule: UniqueRule,
    /// The key.
    pub key: String,
    /// What happened.
    pub what: String,
}

impl fmt::Display for UniqueViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}: {}", self.rule, self.key, self.what)
    }
}

/// What the handlers of a job recorded, by the clock of the record.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// When the first one began.
    began: i64,
    /// When the one that completed the job had ended. The database learned of it later.
    completed: Option<i64>,
}

impl UniqueHistory<'_> {
    /// Every broken promise.
    pub fn violations(&self) -> Vec<UniqueViolation> {
        let mut found = Vec::new();
        let mut broken = |rule, key: &str, what| found.push(UniqueViolation { rule, key: key.to_owned(), what });
        for Sighting { key, count, jobs: [first, last] } in &self.sightings {
            broken(UniqueRule::TwoHolders, key, format!("{count} jobs had it at once, from {first} to {last}"));
        }
        let runs = self.runs();
        self.lives(&runs, &mut broken);
        self.requests(&runs, &mut broken);
        found
    }

    /// The answers to all requests, and since when they hold.
    pub fn answers(&self) -> impl Iterator<Item = (i64, &Request)> {
        self.history.events.iter().flat_map(|event| match &event.what {
            What::Stands { since, requests } => requests.iter().map(|request| (*since, request)).collect(),
            _ => Vec::new(),
        })
    }

    /// How many requests kept a job that must have waited then.
    pub fn kept_waiting(&self) -> usize {
        let started = self.keyed.iter().filter(|keyed| keyed.until == UniqueUntil::Start);
        let jobs: HashSet<i64> = started.map(|keyed| keyed.job).collect();
        self.answers().filter(|(_, request)| !request.new && jobs.contains(&request.job)).count()
    }

    fn runs(&self) -> HashMap<i64, Run> {
        let tables = &self.history.tables;
        let completes = |id: i64, number: i64, by: i64| {
            let rows = tables.jobs.get(&id).map_or(&[][..], |rows| rows.as_slice());
            let of = |worker: i64| tables.processes.get(&worker) == Some(&by);
            rows.iter().any(|row| row.state == "completed" && row.attempt == number && of(row.worker))
        };
        let mut runs: HashMap<i64, Run> = HashMap::new();
        for event in &self.history.events {
            match event.what {
                What::Started { job, .. } => {
                    runs.entry(job).or_insert(Run { began: event.at, completed: None });
                }
                What::Ended { job, attempt, how: How::Ok, .. } if completes(job, attempt, event.process) => {
                    if let Some(run) = runs.get_mut(&job) {
                        run.completed.get_or_insert(event.at);
                    }
                }
                _ => {}
            }
        }
        runs
    }

    /// The lives of the jobs of a key do not overlap. Each job gets its number after the one before has left the key.
    fn lives(&self, runs: &HashMap<i64, Run>, broken: &mut impl FnMut(UniqueRule, &str, String)) {
        let mut keys: BTreeMap<&str, Vec<&Keyed>> = BTreeMap::new();
        for keyed in &self.keyed {
            keys.entry(&keyed.key).or_default().push(keyed);
        }
        for (key, mut jobs) in keys {
            jobs.sort_by_key(|keyed| keyed.job);
            let holds = jobs.iter().filter(|keyed| self.still_holds(keyed)).count();
            if holds > 1 {
                broken(UniqueRule::TwoHolders, key, format!("{holds} jobs have it at the end"));
            }
            for pair in jobs.windows(2) {
                let (before, after) = (pair[0], pair[1]);
                if before.until == UniqueUntil::Start {
                    continue;
                }
                let (first, second) = (before.job, after.job);
                // An enqueue has the time of its transaction, which may have waited for the end of the job before. So
                // the ends are compared.
                let end = |keyed: &Keyed| keyed.ended.unwrap_or(i64::MAX);
                if end(before) > end(after) {
                    broken(UniqueRule::TwoHolders, key, format!("job {second} was over before job {first}"));
                }
                let run = |job: i64| runs.get(&job);
                if let (Some(completed), Some(next)) = (run(first).and_then(|run| run.completed), run(second))
                    && next.began < completed
                {
                    broken(UniqueRule::TwoHolders, key, format!("job {second} began while job {first} ran"));
                }
            }
        }
    }

    /// Whether the job has its key at the end.
    fn still_holds(&self, keyed: &Keyed) -> bool {
        let rows = self.history.tables.jobs.get(&keyed.job);
        let open = |state: &str| state == "waiting" || state == "running";
        rows.into_iter().flatten().any(|row| open(&row.state) && (keyed.until == UniqueUntil::End || row.fence == 0))
    }

    /// A job with the key stands for each request. It starts after the request's commit, unless it may have run by then.
    fn requests(&self, runs: &HashMap<i64, Run>, broken: &mut impl FnMut(UniqueRule, &str, String)) {
        let keyed: HashMap<i64, &Keyed> = self.keyed.iter().map(|keyed| (keyed.job, keyed)).collect();
        for (since, Request { key, job, new }) in self.answers() {
            let own = keyed.get(job).filter(|keyed| keyed.key == *key);
            let Some(own) = own.filter(|_| self.history.tables.jobs.contains_key(job)) else {
                let what = match keyed.get(job) {
                    Some(other) if other.key != *key => format!("job {job} has the key {}", other.key),
                    _ => format!("job {job} is in no table"),
                };
                broken(UniqueRule::NoHolder, key, what);
                continue;
            };
            let waited = *new || own.until == UniqueUntil::Start;
            if let Some(run) = runs.get(job).filter(|run| waited && run.began < since) {
                let early = (since - run.began) as f64 / 1e6;
                let word = if *new { "made" } else { "kept" };
                broken(UniqueRule::TooSoon, key, format!("job {job}, {word}, began {early:.6} s before its commit"));
            }
        }
    }
}

#[cfg(test)]
#[path = "unique_tests.rs"]
mod tests;
