//! Rules for each job by itself.

use queue_test_support::Row;

use super::{Checker, Fate, Rule, Story};
use crate::record::{Event, How, What};

/// Outcomes of attempts that count.
const COUNTED: [&str; 4] = ["failed", "panicked", "timed_out", "lost"];
/// Outcomes of attempts that do not count: the next attempt has the same number.
const UNCOUNTED: [&str; 3] = ["snoozed", "released", "unstarted"];

impl Checker<'_> {
    /// The job is in exactly the tables where it should be.
    pub(super) fn presence(&self, job: &Story<'_>, broken: &mut impl FnMut(Rule, String)) {
        match (job.fate, job.rows.as_slice()) {
            (Fate::Committed(_), []) => broken(Rule::Lost, "committed, and in no table".into()),
            (Fate::Committed(_) | Fate::Unknown, [(_, row)]) if is_open(row) => {
                broken(Rule::Unfinished, format!("it is {}", row.state));
            }
            (Fate::RolledBack, [_, ..]) => broken(Rule::RolledBack, "rolled back, and in a table".into()),
            (_, [_, _, ..]) => {
                let places: Vec<String> = job.rows.iter().map(|(id, row)| format!("{id} ({})", row.state)).collect();
                broken(Rule::Twice, format!("in more than one place: {}", places.join(", ")));
            }
            _ => {}
        }
        if job.fate == Fate::RolledBack && !job.runs.is_empty() {
            broken(Rule::RolledBack, "rolled back, and its handler ran".into());
        }
        match job.asked {
            None => broken(Rule::Unasked, "no producer asked for it".into()),
            Some((_, options)) if options.ledger && job.in_ledger == job.rows.is_empty() => {
                let what = if job.in_ledger {
                    "its ledger row is there without it"
                } else {
                    "it is there without its ledger row"
                };
                broken(Rule::Ledger, what.into());
            }
            Some(_) => {}
        }
    }

    /// The current attempt completed the job, and the job did not run again.
    pub(super) fn completion(&self, job: &Story<'_>, broken: &mut impl FnMut(Rule, String)) {
        let [(_, row)] = job.rows.as_slice() else { return };
        // a cancelled attempt is on record itself, a completed one is not; for dead letters see `outcomes`
        let late = job.attempts.iter().find(|it| match row.state.as_str() {
            "completed" => it.fence >= row.fence,
            "cancelled" => it.fence > row.fence,
            _ => false,
        });
        if let Some(late) = late {
            broken(
                Rule::StaleWrite,
                format!("{} under fence {}, after fence {} was given", row.state, row.fence, late.fence),
            );
        }
        if row.state != "completed" {
            return;
        }
        let process = self.of_worker.get(&row.worker).copied();
        let started = job.starts().any(|(_, by, attempt)| Some(by) == process && attempt == row.attempt);
        let end = job.runs.iter().find(|event| {
            let ok = matches!(event.what, What::Ended { attempt, how: How::Ok, .. } if attempt == row.attempt);
            ok && Some(event.process) == process
        });
        let Some(end) = end.filter(|_| started) else {
            let by = process.map_or("an unknown process".to_owned(), |process| format!("process {process}"));
            broken(
                Rule::StaleWrite,
                format!("completed by {by} in attempt {}, which did not end well there", row.attempt),
            );
            return;
        };
        for (at, by, attempt) in job.starts().filter(|(_, _, attempt)| *attempt > row.attempt) {
            if at > end.at {
                broken(
                    Rule::RanAgain,
                    format!("attempt {attempt} began in process {by} after attempt {} had completed it", row.attempt),
                );
            } else {
                broken(
                    Rule::StaleWrite,
                    format!(
                        "attempt {} completed it, although attempt {attempt} had begun in process {by}",
                        row.attempt
                    ),
                );
            }
        }
    }

    /// The job has no more attempts than allowed, and each number occurs once.
    pub(super) fn attempts(&self, job: &Story<'_>, broken: &mut impl FnMut(Rule, String)) {
        // who claimed it first is not known before an attempt of it is on record
        let allowed = self.retries(job).map_or(i64::MAX, |retries| retries + 1);
        if let Some((_, by, attempt)) = job.starts().find(|(_, _, attempt)| *attempt > allowed) {
            broken(Rule::TooMany, format!("attempt {attempt} of {allowed} in process {by}"));
        }
        let counted = job.attempts.iter().filter(|it| COUNTED.contains(&it.outcome.as_str())).count() as i64;
        if counted > allowed {
            broken(Rule::TooMany, format!("{counted} attempts that count, of {allowed}"));
        }
        if let [(_, row)] = job.rows.as_slice()
            && row.state == "dead"
            && allowed < i64::MAX
            && counted < allowed
            && job.attempts.iter().all(|it| it.outcome != "undecodable")
            && !self.said(job, row.worker, row.attempt, |how| how == How::Dead)
        {
            broken(Rule::GivenUp, format!("dead after {counted} of {allowed} attempts: {}", row.error));
        }
        // one that was lost while it ran alone is recorded under a later number than it began with: it answers for
        // those before it of which nobody knew whether they had begun
        let answered =
            |it: &&queue_test_support::Attempt| self.lost_as(job, it).map_or(0, |number| it.attempt - number);
        let answered = usize::try_from(job.attempts.iter().map(answered).sum::<i64>()).unwrap_or(0);
        let mut numbers: Vec<i64> = job.starts().map(|(_, _, attempt)| attempt).collect();
        numbers.sort_unstable();
        for same in numbers.chunk_by(|one, other| one == other) {
            let again =
                |it: &&&queue_test_support::Attempt| it.attempt == same[0] && UNCOUNTED.contains(&it.outcome.as_str());
            let lost = job.attempts.iter().filter(|it| self.lost_as(job, it) == Some(same[0])).count();
            // of those that were lost, one is the attempt of this number, unless that ended by itself
            let ended = job
                .attempts
                .iter()
                .any(|it| it.attempt == same[0] && it.outcome != "lost" && !UNCOUNTED.contains(&it.outcome.as_str()));
            let others = if ended { lost } else { lost.saturating_sub(1) };
            let may = 1 + job.attempts.iter().filter(again).count() + answered.min(others);
            if same.len() > may {
                broken(
                    Rule::Overlap,
                    format!("attempt {} began {} times, and {} times were due", same[0], same.len(), may),
                );
            }
        }
    }

    /// The number under which a lost attempt began, if it began.
    fn lost_as(&self, job: &Story<'_>, lost: &queue_test_support::Attempt) -> Option<i64> {
        let process = self.of_worker.get(&lost.worker).copied();
        let own = job.starts().filter(|(_, by, attempt)| Some(*by) == process && *attempt <= lost.attempt);
        own.map(|(.., attempt)| attempt).max().filter(|_| lost.outcome == "lost")
    }

    /// The jobs (by tag) with an attempt that counts as lost although its handler never began. This happens if a worker
    /// is killed between the record that the attempt begins and the beginning.
    pub fn charged_unstarted(&self) -> Vec<i64> {
        let charged =
            |job: &&Story<'_>| job.attempts.iter().any(|it| it.outcome == "lost" && self.lost_as(job, it).is_none());
        self.jobs.values().filter(charged).map(|job| job.tag).collect()
    }

    /// How often the job may be retried: from its row, or else the default of the binary that claimed it first.
    fn retries(&self, job: &Story<'_>) -> Option<i64> {
        let (_, options) = job.asked?;
        if !options.by_claimer {
            return Some(options.max_retries);
        }
        let first = job.attempts.first().filter(|it| it.fence == 1)?;
        self.of(*self.of_worker.get(&first.worker)?).find_map(|event| match event.what {
            What::Retries { by_default } => Some(by_default),
            _ => None,
        })
    }

    /// The job does not begin before it is due, at first and after each retry delay.
    pub(super) fn times(&self, job: &Story<'_>, broken: &mut impl FnMut(Rule, String)) {
        let early = |at: i64, due: i64| format!("began {:.3} s before it was due", (due - at) as f64 / 1e6);
        let forward = |from: i64, to: i64| {
            let mut put = self.history.events.iter().filter(|it| it.what == What::ClockForward);
            put.any(|it| (from..=to).contains(&it.at))
        };
        if let (Some((asked, options)), Some((at, ..))) = (job.asked, job.starts().next()) {
            let due = asked + options.delay_ms * 1000;
            // by a clock that was slow and is right again, a pause is over and a time of day is not
            if at < due && (options.absolute || !forward(asked, at)) {
                broken(Rule::Early, early(at, due));
            }
        }
        for (index, event) in job.runs.iter().enumerate() {
            let What::Ended { job: id, attempt, how, .. } = event.what else { continue };
            if self.was_refused(job, event, id) {
                continue;
            }
            let (outcome, retry_ms) = match how {
                How::Failed { retry_ms } => ("failed", retry_ms),
                How::Snoozed { retry_ms } => ("snoozed", retry_ms),
                How::Ok | How::Dead | How::Cancelled | How::Dropped => continue,
            };
            // an end that was refused decides nothing; it is the last one of its number
            let rows = job.attempts.iter().filter(|it| {
                let process = self.of_worker.get(&it.worker);
                it.outcome == outcome && it.attempt == attempt && process == Some(&event.process)
            });
            let before = job.runs[..index].iter().filter(|it| !self.was_refused(job, it, id)).filter(|it| {
                let same = matches!(it.what, What::Ended { attempt: of, how: so, .. } if of == attempt && so == how);
                same && it.process == event.process
            });
            let accepted = before.count() < rows.count();
            // nor does the start of an earlier attempt, in a process that woke up late
            let later = |it: &&&Event| matches!(it.what, What::Started { attempt: of, .. } if of >= attempt);
            let next = job.runs[index..].iter().find(later);
            let due = event.at + retry_ms * 1000;
            if let Some(next) = next.filter(|it| accepted && it.at < due && !forward(event.at, it.at)) {
                broken(Rule::Early, early(next.at, due));
            }
        }
    }

    /// Whether the database refused this end, and the process learned of it before it started the job again. A worker
    /// does not even send the ends of attempts that it dropped with its lease.
    fn was_refused(&self, job: &Story<'_>, end: &Event, id: i64) -> bool {
        let own = job.runs.iter().filter(|it| it.process == end.process);
        let mut starts = own.filter(|it| matches!(it.what, What::Started { .. })).map(|it| it.at);
        let began = starts.clone().take_while(|at| *at <= end.at).last().unwrap_or(end.at);
        let until = starts.find(|at| *at > end.at).unwrap_or(i64::MAX);
        self.of(end.process).any(|it| match it.what {
            What::Refused { job } => job == id && (end.at..until).contains(&it.at),
            What::LeaseLost => (began..=end.at).contains(&it.at) || self.is_uncounted(job, end, it.at, until),
            _ => false,
        })
    }

    /// Whether the end came a moment before the process wrote down that its lease was lost, and the database does not
    /// know of the attempt's start.
    fn is_uncounted(&self, job: &Story<'_>, end: &Event, lost: i64, until: i64) -> bool {
        let What::Ended { attempt, .. } = end.what else { return false };
        let of_process = |worker: i64| self.of_worker.get(&worker) == Some(&end.process);
        let mut attempts = job.attempts.iter().filter(|it| it.attempt == attempt && of_process(it.worker));
        (end.at..until).contains(&lost) && attempts.any(|it| it.outcome == "unstarted")
    }
}

/// Whether the job waits or runs.
fn is_open(row: &Row) -> bool {
    row.state == "waiting" || row.state == "running"
}
