//! Checks the recorded attempts that did not complete their jobs.
//!
//! The record identifies attempts by process and number, because only the database knows fences. So each row is
//! compared with what its worker's process wrote about the attempt of that number. What the record cannot decide is
//! accepted: a lost or released attempt may have been claimed without starting, and a handler that timed out may block
//! its thread and return anything later.

use std::collections::HashMap;

use queue_test_support::Row;

use super::{Checker, Rule, Story};
use crate::record::{How, What};

/// What the handler must have reported for this outcome. `None` if it need not have reported anything.
fn said(outcome: &str) -> Option<fn(How) -> bool> {
    Some(match outcome {
        "failed" => |how| matches!(how, How::Failed { .. } | How::Dead),
        "snoozed" => |how| matches!(how, How::Snoozed { .. }),
        "cancelled" => |how| how == How::Cancelled,
        // its future is dropped while the stack is unwound
        "panicked" => |how| how == How::Dropped,
        _ => return None,
    })
}

impl Checker<'_> {
    /// Each recorded attempt ran in its worker's process, ended there with this outcome, and was current then. The last
    /// attempt made the job a dead letter or cancelled it.
    pub(super) fn outcomes(&self, job: &Story<'_>, broken: &mut impl FnMut(Rule, String)) {
        let told = job.rows.iter().any(|(id, _)| self.cancels.contains_key(id));
        // rows with the same words: a number is given again after a snooze
        let mut alike: HashMap<(i64, i64, &str), usize> = HashMap::new();
        for it in &job.attempts {
            let (outcome, attempt, worker) = (it.outcome.as_str(), it.attempt, it.worker);
            let Some(&process) = self.of_worker.get(&worker) else {
                broken(Rule::StaleWrite, format!("attempt {attempt} {outcome} by worker {worker}, which never was"));
                continue;
            };
            let began = job.starts().any(|(_, by, of)| by == process && of == attempt);
            if outcome == "timed_out" && !began {
                broken(
                    Rule::StaleWrite,
                    format!("attempt {attempt} {outcome} in process {process}, where it never ran"),
                );
            }
            // whatever else a handler returns that was told to stop
            let stopped = |how| how != How::Ok;
            let said = if told && outcome == "cancelled" { Some(stopped as fn(How) -> bool) } else { said(outcome) };
            let Some(said) = said else { continue };
            let count = alike.entry((process, attempt, outcome)).or_default();
            *count += 1;
            let ends = self.current_ends(job, process, attempt, said);
            if ends < *count {
                broken(
                    Rule::StaleWrite,
                    format!(
                        "attempt {attempt} {outcome} in process {process} under fence {}, {count} times, and it ended \
                         so there {ends} times while it was current",
                        it.fence
                    ),
                );
            }
        }
        if let [(_, row)] = job.rows.as_slice()
            && (row.state == "dead" || row.state == "cancelled")
        {
            self.last_attempt(job, row, told, broken);
        }
    }

    /// The last attempt of a dead or cancelled job is that of its row.
    fn last_attempt(&self, job: &Story<'_>, row: &Row, told: bool, broken: &mut impl FnMut(Rule, String)) {
        if told && row.state == "cancelled" {
            // while it waited (a snooze's number counts no more), or by the requeue of an attempt that is on record as
            // something else
            return;
        }
        if let Some((_, by, attempt)) = job.starts().find(|(_, _, attempt)| *attempt > row.attempt) {
            let state = &row.state;
            broken(
                Rule::StaleWrite,
                format!("{state} in attempt {}, although attempt {attempt} began in process {by}", row.attempt),
            );
        }
        let last = job.attempts.last();
        if last.is_none_or(|it| (it.fence, it.attempt, it.worker) != (row.fence, row.attempt, row.worker)) {
            let what = last.map_or("no attempt is recorded".to_owned(), |it| {
                format!(
                    "the last attempt on record is {} under fence {}, by worker {}",
                    it.attempt, it.fence, it.worker
                )
            });
            let Row { state, attempt, fence, worker, .. } = row;
            broken(
                Rule::StaleWrite,
                format!("{state} in attempt {attempt} under fence {fence}, by worker {worker}; {what}"),
            );
        }
    }

    /// How often a process ended an attempt like this before any later attempt had begun: a later start means a later
    /// claim, which makes this attempt stale.
    fn current_ends(&self, job: &Story<'_>, process: i64, number: i64, said: impl Fn(How) -> bool) -> usize {
        let later = job.starts().filter(|(_, _, attempt)| *attempt > number).map(|(at, ..)| at).min();
        let ends = job.runs.iter().filter(|event| match event.what {
            What::Ended { attempt, how, .. } => event.process == process && attempt == number && said(how),
            _ => false,
        });
        ends.filter(|event| later.is_none_or(|later| event.at < later)).count()
    }

    /// Whether an attempt ended like this in a worker's process, while it was current.
    pub(super) fn said(&self, job: &Story<'_>, worker: i64, attempt: i64, said: impl Fn(How) -> bool) -> bool {
        self.of_worker.get(&worker).is_some_and(|process| self.current_ends(job, *process, attempt, said) > 0)
    }

    /// A job is cancelled only by its handler or on request, and does not run again.
    pub(super) fn cancellation(&self, job: &Story<'_>, broken: &mut impl FnMut(Rule, String)) {
        let [(id, row)] = job.rows.as_slice() else { return };
        let asked = self.cancels.get(id);
        let by_handler = || self.said(job, row.worker, row.attempt, |how| how == How::Cancelled);
        if row.state == "cancelled" && asked.is_none() && !by_handler() {
            broken(
                Rule::Cancelled,
                format!("cancelled in attempt {}, and nobody asked for it: {}", row.attempt, row.error),
            );
        }
        // the one that was claimed by then, and had not begun
        if let Some(at) = asked.copied().flatten()
            && let Some((_, by, attempt)) = job.starts().filter(|(start, ..)| *start > at).nth(1)
        {
            broken(
                Rule::Uncancelled,
                format!(
                    "attempt {attempt} began in process {by}, the second one since it was accepted to be cancelled"
                ),
            );
        }
    }
}
