//! The whole story of a job.

use std::fmt::Write as _;

use super::{Checker, Violation};
use crate::record::{Event, What};

/// Jobs whose whole story is printed.
const TOLD: usize = 10;
/// Violations that are listed.
const LISTED: usize = 40;

impl Checker<'_> {
    /// The violations, and the stories of the first jobs concerned.
    pub fn tell(&self, violations: &[Violation]) -> String {
        let mut text = String::new();
        let mut told: Vec<i64> = Vec::new();
        for (index, violation) in violations.iter().enumerate() {
            if index == LISTED {
                let _ = writeln!(text, "... and {} more", violations.len() - index);
                break;
            }
            let _ = writeln!(text, "{violation}");
            for tag in [Some(violation.tag), violation.beside].into_iter().flatten() {
                if !told.contains(&tag) && told.len() < TOLD {
                    told.push(tag);
                    let _ = writeln!(text, "  the job with tag {tag}:");
                    text += &self.story(tag);
                }
            }
        }
        text
    }

    /// All that is known about a job, in order of time.
    pub fn story(&self, tag: i64) -> String {
        let mut text = String::new();
        let Some(job) = self.jobs.get(&tag) else { return text };
        let concerns = |event: &&Event| match &event.what {
            What::Asked { tags, .. }
            | What::Committed { tags }
            | What::RolledBack { tags }
            | What::Unknown { tags } => tags.contains(&tag),
            What::Started { tag: of, .. } | What::Ended { tag: of, .. } => *of == tag,
            What::Refused { job: id } | What::CancelAsked { job: id } | What::CancelAccepted { job: id } => {
                job.rows.iter().any(|(of, _)| of == id)
            }
            // what happened to the processes in which it ran
            _ => job.runs.iter().any(|run| run.process == event.process),
        };
        let events: Vec<&Event> = self.history.events.iter().filter(concerns).collect();
        let first = events.first().map_or(0, |event| event.at);
        for event in events {
            let what = match &event.what {
                What::Asked { tags, options } => format!("asked for, one of {}, with {options:?}", tags.len()),
                What::Committed { .. } => "committed".into(),
                What::RolledBack { .. } => "rolled back".into(),
                What::Unknown { .. } => "unknown whether it was committed".into(),
                other => format!("{other:?}"),
            };
            let _ = writeln!(text, "    +{:.3} s process {}: {what}", (event.at - first) as f64 / 1e6, event.process);
        }
        let process = |worker: &i64| self.of_worker.get(worker).map_or("?".to_owned(), ToString::to_string);
        for it in &job.attempts {
            let _ = writeln!(
                text,
                "    queue_attempts: fence {}, attempt {}, worker {} (process {}): {}",
                it.fence,
                it.attempt,
                it.worker,
                process(&it.worker),
                it.outcome
            );
        }
        for (id, it) in &job.rows {
            let _ = writeln!(
                text,
                "    job {id} is {}: lease {}, attempt {}, worker {} (process {}) {}",
                it.state,
                it.fence,
                it.attempt,
                it.worker,
                process(&it.worker),
                it.error
            );
        }
        let _ = writeln!(text, "    {} in the ledger", if job.in_ledger { "a row" } else { "no row" });
        text
    }
}
