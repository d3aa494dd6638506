//! Checks that a job's attempts do not overlap.

use super::{Checker, Rule, Story};
use crate::record::What;

/// Latest time after the end of a handler at which its process learns of its lost lease: with its next heartbeat, on a
/// busy machine.
const LEARNED_WITHIN: i64 = 10_000_000;
/// If a lease is lost within this time after the database did not answer, that may be the cause. It is twice the
/// default lease, because a worker that joins a database that hangs may have little of its lease left.
const SILENCE: i64 = 15_000_000;

impl Checker<'_> {
    /// Two handlers of one job do not run at the same time. Two exceptions are allowed. A process that was suspended,
    /// cut off or starved loses its lease: the database says that its attempt was lost, and its handler continues until
    /// the process learns of it. And a handler that blocks its thread outlives its timeout.
    pub(super) fn overlaps(&self, job: &Story<'_>, broken: &mut impl FnMut(Rule, String)) {
        let starts: Vec<_> = job.starts().collect();
        for pair in starts.windows(2) {
            let ((first, process, attempt), (second, other, next)) = (pair[0], pair[1]);
            if second >= self.end_of(job, first, process, attempt) {
                continue;
            }
            let over = |(_, process, number): (i64, i64, i64), outcome: &str| {
                let of_process = |worker: i64| self.of_worker.get(&worker) == Some(&process);
                let mut own = job.attempts.iter().filter(|it| it.attempt == number && of_process(it.worker));
                own.any(|it| it.outcome == outcome)
            };
            let rescued = |start| over(start, "lost") || over(start, "unstarted");
            // the one that is not current: it may also be the one that began later, in a process that woke up. One that
            // was not known to have begun gave its number to the other one.
            let stale = if attempt < next || (attempt == next && rescued(pair[0])) { pair[0] } else { pair[1] };
            let end = self.end_of(job, stale.0, stale.1, stale.2);
            let excused = rescued(stale) && self.troubled(stale.1, stale.0, second, end);
            // a handler that blocks its thread cannot be dropped, and goes on after its time is up
            let blocks = job.asked.is_some_and(|(_, options)| options.blocking) && over(stale, "timed_out");
            if !excused && !blocks {
                let what =
                    format!("attempt {next} began in process {other} while attempt {attempt} ran in process {process}");
                broken(Rule::Overlap, what);
            }
        }
    }

    /// When a handler ended: by itself or with its process.
    fn end_of(&self, job: &Story<'_>, start: i64, process: i64, attempt: i64) -> i64 {
        let own = job.runs.iter().find(|it| {
            let ends = matches!(it.what, What::Ended { attempt: of, .. } if of == attempt);
            ends && it.process == process && it.at >= start
        });
        let death = self.of(process).find(|it| it.at >= start && matches!(it.what, What::Killed | What::Exited));
        own.map_or(i64::MAX, |it| it.at).min(death.map_or(i64::MAX, |it| it.at))
    }

    /// Whether the process was suspended when the other attempt began, or learned of its lost lease while this one ran.
    fn troubled(&self, process: i64, from: i64, second: i64, end: i64) -> bool {
        let mut stopped = false;
        for event in self.of(process).take_while(|it| it.at <= second) {
            stopped = (stopped || event.what == What::Stopped) && event.what != What::Continued;
        }
        let learned = |at: i64| at >= from && at <= end.saturating_add(LEARNED_WITHIN);
        stopped || self.of(process).any(|it| it.what == What::LeaseLost && learned(it.at))
    }

    pub(super) fn of(&self, process: i64) -> impl Iterator<Item = &crate::record::Event> {
        self.processes.get(&process).into_iter().flatten().copied()
    }

    /// How often a process lost its lease without being suspended.
    pub fn false_deaths(&self) -> usize {
        let mut deaths = 0;
        for events in self.processes.values() {
            if events.iter().all(|it| it.what != What::Stopped) {
                deaths += events.iter().filter(|it| it.what == What::LeaseLost).count();
            }
        }
        deaths
    }

    /// How often a process lost its lease without being suspended, while the database answered everybody.
    pub fn deaths_while_answered(&self) -> usize {
        let silences = self.processes.values().flatten().filter(|it| it.what == What::Unanswered);
        let silences: Vec<i64> = silences.map(|it| it.at).collect();
        let answered = |at: i64| !silences.iter().any(|silence| (at - SILENCE..=at).contains(silence));
        let unstopped = self.processes.values().filter(|events| events.iter().all(|it| it.what != What::Stopped));
        unstopped.flatten().filter(|it| it.what == What::LeaseLost && answered(it.at)).count()
    }

    /// How many ends of attempts the database refused.
    pub fn refused(&self) -> usize {
        self.processes.values().flatten().filter(|it| matches!(it.what, What::Refused { .. })).count()
    }

    /// For each attempt that ended with its process: the time until the next one began. If the next holder of the job
    /// was killed as well before its handler began, the time counts from that kill. Jobs with a low priority wait
    /// behind others, and are left out.
    pub fn rescues(&self) -> Vec<i64> {
        let mut delays = Vec::new();
        let in_line = |job: &&Story<'_>| job.asked.is_some_and(|(_, options)| options.priority > 0);
        for job in self.jobs.values().filter(|job| !in_line(job)) {
            let starts: Vec<_> = job.starts().collect();
            for pair in starts.windows(2) {
                let ((first, process, attempt), (second, _, next)) = (pair[0], pair[1]);
                let end = self.end_of(job, first, process, attempt);
                if self.kill_of(process) != Some(end) {
                    continue;
                }
                // held in between, by workers that were lost before the handler began there
                let between = job.attempts.iter().filter(|it| (attempt..=next).contains(&it.attempt));
                let kills = between.filter_map(|it| self.kill_of(*self.of_worker.get(&it.worker)?));
                let last = kills.filter(|at| (end..second).contains(at)).max();
                delays.push(second - last.unwrap_or(end));
            }
        }
        delays
    }

    fn kill_of(&self, process: i64) -> Option<i64> {
        self.of(process).find(|it| it.what == What::Killed).map(|it| it.at)
    }
}
