//! Compares the records of the jobs with the tables.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::records::{Record, What, seconds};
use crate::scene::Scene;
use queue_test_support::{Attempt, Row, Tables};

/// Jobs whose whole story is printed.
const TOLD: usize = 10;
/// Outcomes of attempts that count.
const COUNTED: [&str; 4] = ["failed", "panicked", "timed_out", "lost"];

/// What happened, by job.
pub(crate) struct Checker {
    pub(crate) records: HashMap<i64, Vec<Record>>,
    pub(crate) tables: Tables,
    violations: Vec<(Option<i64>, String)>,
    logs: String,
}

impl Checker {
    pub(crate) async fn of(scene: &Scene) -> Self {
        let mut records: HashMap<i64, Vec<Record>> = HashMap::new();
        for record in scene.records() {
            records.entry(record.job).or_default().push(record);
        }
        Self { records, tables: scene.db.tables().await, violations: Vec::new(), logs: scene.logs() }
    }

    pub(crate) fn violation(&mut self, job: impl Into<Option<i64>>, what: impl Into<String>) {
        self.violations.push((job.into(), what.into()));
    }

    /// The job's row, if it has exactly one.
    pub(crate) fn row(&self, job: i64) -> Option<&Row> {
        match self.tables.jobs.get(&job).map(Vec::as_slice) {
            Some([row]) => Some(row),
            _ => None,
        }
    }

    pub(crate) fn attempts(&self, job: i64) -> &[Attempt] {
        self.tables.attempts.get(&job).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn records(&self, job: i64) -> &[Record] {
        self.records.get(&job).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn process(&self, worker: i64) -> Option<i64> {
        self.tables.processes.get(&worker).copied()
    }

    /// Exactly these jobs were enqueued. Each completed once, and its rows agree with its records.
    pub(crate) fn completed_exactly_once(&mut self, jobs: &[i64]) {
        let known: std::collections::HashSet<i64> = jobs.iter().copied().collect();
        let mut unknown: Vec<i64> = self.tables.jobs.keys().chain(self.records.keys()).copied().collect();
        unknown.retain(|job| !known.contains(job));
        for job in unknown {
            self.violation(job, "nobody enqueued it");
        }
        for &job in jobs {
            self.has_state(job, "completed");
            self.consistent(job);
        }
    }

    /// The job is in one place, in this state.
    pub(crate) fn has_state(&mut self, job: i64, state: &str) {
        match self.tables.jobs.get(&job).map(Vec::as_slice) {
            None | Some([]) => self.violation(job, "it is gone"),
            Some([row]) if row.state == state => {}
            Some([row]) => {
                let what = format!("it is {}, not {state}", row.state);
                self.violation(job, what);
            }
            Some(rows) => {
                let what = format!("it is in {} places", rows.len());
                self.violation(job, what);
            }
        }
    }

    /// These jobs are running in this process, under this fence.
    pub(crate) fn held_by(&mut self, process: i64, fence: i64, jobs: &[i64]) {
        for &job in jobs {
            self.has_state(job, "running");
            let row = self.row(job).cloned();
            if row.is_some_and(|row| self.process(row.worker) != Some(process) || row.fence != fence) {
                self.violation(job, format!("not held by process {process} under fence {fence}"));
            }
        }
    }

    /// What holds for every finished job: fences and attempts count up, and its process recorded its completion.
    fn consistent(&mut self, job: i64) {
        let Some(row) = self.row(job).cloned() else {
            return;
        };
        let attempts = self.attempts(job).to_vec();
        let records = self.records(job).to_vec();
        let counted = attempts.iter().filter(|it| COUNTED.contains(&it.outcome.as_str())).count() as i64;
        if row.attempt != counted + 1 {
            self.violation(job, format!("attempt {} after {counted} attempts that count", row.attempt));
        }
        if attempts.iter().any(|it| it.fence >= row.fence) {
            self.violation(job, "an earlier attempt has the last fence");
        }
        let process = self.process(row.worker);
        let said = |what| {
            records
                .iter()
                .filter(|it| it.what == what && it.attempt == row.attempt && Some(it.process) == process)
                .count()
        };
        let (starts, ends) = (said(What::Start), said(What::End));
        // a release does not count: the same process may start the same attempt again
        if starts == 0 || ends == 0 {
            self.violation(
                job,
                format!(
                    "completed by process {process:?} in attempt {}, which has {starts} starts and {ends} ends",
                    row.attempt
                ),
            );
        }
    }

    /// The job was started this many times.
    pub(crate) fn started(&mut self, job: i64, times: usize) {
        let starts = self.records(job).iter().filter(|it| it.what == What::Start).count();
        if starts != times {
            self.violation(job, format!("started {starts} times, not {times}"));
        }
    }

    /// Fails if there are violations, and prints them all.
    pub(crate) fn verdict(self) {
        if self.violations.is_empty() {
            return;
        }
        let mut told: Vec<i64> = Vec::new();
        let mut text = format!("{} violations\n", self.violations.len());
        for (job, what) in &self.violations {
            match job {
                Some(job) => {
                    let _ = writeln!(text, "job {job}: {what}");
                    if !told.contains(job) && told.len() < TOLD {
                        text += &self.story(*job);
                        told.push(*job);
                    }
                }
                None => {
                    let _ = writeln!(text, "{what}");
                }
            }
        }
        panic!("{text}{}", self.logs);
    }

    fn story(&self, job: i64) -> String {
        let mut text = String::new();
        let records = self.records(job);
        let first = records.first().map_or(0, |it| it.at);
        for it in records {
            let what = match it.what {
                What::Start => "start",
                What::End => "end",
            };
            let _ = writeln!(
                text,
                "    +{} {what} of attempt {} in process {}",
                seconds(it.at - first),
                it.attempt,
                it.process
            );
        }
        let process = |worker| self.process(worker).map_or("?".to_owned(), |it| it.to_string());
        for it in self.attempts(job) {
            let _ = writeln!(
                text,
                "    fence {}: attempt {} by worker {} (process {}): {}",
                it.fence,
                it.attempt,
                it.worker,
                process(it.worker),
                it.outcome
            );
        }
        for it in self.tables.jobs.get(&job).into_iter().flatten() {
            let _ = writeln!(
                text,
                "    {}: fence {}, attempt {}, worker {} (process {}) {}",
                it.state,
                it.fence,
                it.attempt,
                it.worker,
                process(it.worker),
                it.error
            );
        }
        text
    }
}
