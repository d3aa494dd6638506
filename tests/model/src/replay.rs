//! Checks a trace of a real database against the model. One of the model's statements must make each change of a row,
//! on the model's tables and under that statement's conditions.

use std::collections::{BTreeMap, HashMap};

use crate::database::Database;
use crate::rows::{End, Job, Number, Outcome, Over, Row};
use crate::rules::Rules;
use crate::trace::{Event, Holding, Refused, Trace, What};

/// How often each step was taken.
pub type Tally = BTreeMap<&'static str, usize>;

/// By so many microseconds two clocks of one machine differ: SQLite's counts in milliseconds.
const ROUNDING: i64 = 2000;

/// A worker from some time on.
struct Since {
    at: i64,
    expires: i64,
    stopped: bool,
}

/// A worker's life.
struct Life {
    process: i64,
    since: Vec<Since>,
}

/// The replay under way.
#[derive(Default)]
struct Replay {
    database: Database,
    jobs: HashMap<i64, usize>,
    run_at: Vec<i64>,
    numbers: HashMap<i64, Number>,
    lives: Vec<Life>,
    /// Attempts of which nobody knows whether they had begun, of each job.
    unknown: HashMap<usize, i32>,
    /// Committed effects of jobs, before the completion that they belong to.
    effects: HashMap<usize, (Event, i32)>,
    tally: Tally,
}

/// Changes of one job in one transaction.
#[derive(Default)]
struct Group<'a> {
    row: Option<&'a Event>,
    over: Option<(Holding, &'a str)>,
    outcome: Option<&'a str>,
}

/// Replays a trace. The steps that were taken, or the first change that the model does not allow.
pub fn replay(trace: &Trace) -> Result<Tally, Refused> {
    let mut replay = Replay::default();
    for event in trace.events.iter().filter(|event| event.is_of_worker()) {
        replay.worker(trace, event).map_err(|why| refused(event, why))?;
    }
    let mut open: HashMap<i64, Group<'_>> = HashMap::new();
    for (at, event) in trace.events.iter().enumerate().filter(|(_, event)| !event.is_of_worker()) {
        if let What::Effect(attempt) = event.what {
            replay.effect(event, attempt).map_err(|why| refused(event, why))?;
            continue;
        }
        let group = open.entry(event.id).or_default();
        match &event.what {
            What::Over(holding, state) => group.over = Some((*holding, state)),
            What::Attempt(outcome) => group.outcome = Some(outcome),
            _ => group.row = Some(event),
        }
        if !event.ends_its_group(&trace.events[at + 1..]) {
            continue;
        }
        let group = open.remove(&event.id).unwrap_or_default();
        let step = replay.job(trace, event, &group).map_err(|why| refused(event, why))?;
        *replay.tally.entry(step).or_default() += 1;
    }
    if let Some((event, _)) = replay.effects.values().next() {
        return Err(refused(event, "an effect is committed without a completion".to_owned()));
    }
    match open.keys().next() {
        None => Ok(replay.tally),
        Some(job) => {
            let event = trace.events.iter().rfind(|event| event.id == *job).expect("its own");
            Err(refused(event, format!("something was written of job {job} without a change of its row")))
        }
    }
}

fn refused(event: &Event, why: String) -> Refused {
    Refused { event: Box::new(event.clone()), why }
}

impl Replay {
    fn worker(&mut self, trace: &Trace, event: &Event) -> Result<(), String> {
        let known = self.numbers.get(&event.id).copied();
        let since = |expires, stopped| Since { at: event.at, expires, stopped };
        match (&event.what, known) {
            (What::Joins(process, expires), None) => {
                let number = self.database.join(0);
                self.numbers.insert(event.id, number);
                self.lives.push(Life { process: *process, since: vec![since(*expires, false)] });
                self.count("join");
            }
            (What::Beats(expires), Some(number)) => {
                if !self.database.beat(Rules::default(), number, 0) {
                    return Err("the lease of a worker that is gone is extended".to_owned());
                }
                self.life(number).since.push(since(*expires, false));
                self.count("beat");
            }
            (What::Stops, Some(number)) => {
                self.database.leave(number);
                let life = self.life(number);
                let expires = life.since.last().map_or(0, |last| last.expires);
                let killed = trace.killed.get(&life.process).is_some_and(|killed| *killed <= event.at);
                life.since.push(since(expires, true));
                // whoever is declared gone says so too, when it learns it
                let left = trace.left.get(&event.id).is_some_and(|left| *left - ROUNDING <= event.at);
                self.count(match (expires < event.at, left, killed) {
                    (true, ..) => "expire",
                    (false, true, _) => "leave",
                    (false, false, true) => "declare",
                    (false, false, false) => {
                        return Err(
                            "a worker that lives, and did not leave, is declared gone before its lease ran out"
                                .to_owned(),
                        );
                    }
                });
            }
            _ => return Err("a worker joins twice, or was never there".to_owned()),
        }
        Ok(())
    }

    fn life(&mut self, number: Number) -> &mut Life {
        &mut self.lives[usize::from(number) - 1]
    }

    fn count(&mut self, step: &'static str) {
        *self.tally.entry(step).or_default() += 1;
    }

    /// What the clock makes of workers and of the job at a time.
    fn set_clock(&mut self, at: i64, job: usize) {
        let left = |until: i64| u32::try_from((until - at).max(0)).unwrap_or(u32::MAX);
        for (life, worker) in self.lives.iter().zip(&mut self.database.workers) {
            // nobody before it joined
            let then = life.since.iter().rfind(|since| since.at <= at);
            worker.stopped = then.is_none_or(|then| then.stopped);
            worker.left = then.map_or(0, |then| left(then.expires));
        }
        if let Some(row) = &mut self.database.jobs[job].row {
            row.delay = left(self.run_at[job]);
        }
    }

    fn job(&mut self, trace: &Trace, event: &Event, group: &Group<'_>) -> Result<&'static str, String> {
        let row = group.row.ok_or("something was written without a change of the row")?;
        if let What::Added(holding) = &row.what {
            return self.add(event, *holding);
        }
        let job = *self.jobs.get(&event.id).ok_or("a job that was never enqueued")?;
        self.set_clock(event.at, job);
        let (was, is, cancel) = match &row.what {
            What::Changed(was, is, cancel) => (*was, Some(*is), *cancel),
            What::Removed(was) => (*was, None, false),
            _ => return Err("no change of a row".to_owned()),
        };
        if self.holding(job) != Some(was) {
            return Err(format!("the row was {was:?}, but by all changes before {:?}", self.holding(job)));
        }
        if is.is_none() && group.over.is_none() {
            return Err("the job is in no table any more: it is lost".to_owned());
        }
        let step = match (is, group.outcome) {
            (Some(is), _) if was.worker == 0 && is.worker != 0 => self.claim(job, row, is.worker)?,
            (Some(is), None) if is == was && cancel => self.cancel(job),
            // what a rescue makes of it shows then
            (Some(is), None) if is == was && was.worker != 0 => "note that it began",
            (None, None) if was.worker == 0 => self.cancel(job),
            (_, Some("lost")) => {
                let after = is.or(group.over.map(|(holding, _)| holding));
                self.rescue(job, was, after.map_or(was.attempt, |holding| holding.attempt))?
            }
            (_, outcome) => self.end(trace, job, row, was, group.over.map(|(_, state)| state), outcome)?,
        };
        self.run_at[job] = if is.is_some() { row.run_at } else { 0 };
        self.agrees(job, was, is, cancel, group.over)?;
        self.database.check(None).map_err(|violation| violation.to_string())?;
        Ok(step)
    }

    fn add(&mut self, event: &Event, holding: Holding) -> Result<&'static str, String> {
        if self.jobs.contains_key(&event.id) || holding != (Holding { worker: 0, fence: 0, attempt: 0 }) {
            return Err("a new row that is no new job".to_owned());
        }
        self.jobs.insert(event.id, self.database.jobs.len());
        self.database.jobs.push(Job::new(event.retries.unwrap_or(i32::MAX - 1)));
        self.run_at.push(event.run_at);
        Ok("enqueue")
    }

    /// The effect of an attempt that completes its job in the same transaction.
    fn effect(&mut self, event: &Event, attempt: i32) -> Result<(), String> {
        let job = *self.jobs.get(&event.id).ok_or("an effect of a job that was never enqueued")?;
        let is_second = self.effects.insert(job, (event.clone(), attempt)).is_some();
        if is_second || self.database.jobs[job].effects > 0 {
            return Err("a second effect of one job".to_owned());
        }
        Ok(())
    }

    fn claim(&mut self, job: usize, row: &Event, worker: i64) -> Result<&'static str, String> {
        let number = *self.numbers.get(&worker).ok_or("claimed by a worker that never joined")?;
        if let Some(retries) = row.retries {
            self.database.jobs[job].retries = retries;
        }
        if !self.database.claimable(Rules::default(), number).contains(&job) {
            return Err("claimed although it is not due, or its worker has no lease".to_owned());
        }
        self.database.claim(Rules::default(), number, &[job]).map_err(|violation| violation.to_string())?;
        Ok("claim")
    }

    fn cancel(&mut self, job: usize) -> &'static str {
        self.database.cancel(job);
        "cancel"
    }

    /// An attempt that was lost while it ran alone answers for those before it of which nobody knew whether they had
    /// begun.
    fn rescue(&mut self, job: usize, was: Holding, after: i32) -> Result<&'static str, String> {
        let number = *self.numbers.get(&was.worker).ok_or("taken back from a worker that never joined")?;
        if !self.database.lost(Rules::default()).contains(&(job, number)) {
            return Err("taken back from a worker that is not gone".to_owned());
        }
        let answered = after - was.attempt;
        if answered != 0 {
            if self.unknown.remove(&job) != Some(answered) {
                return Err(format!("it answers for {answered} attempts before it"));
            }
            let it = &mut self.database.jobs[job];
            it.counted += answered;
            it.row.as_mut().ok_or("nothing to take back")?.attempt += answered;
        }
        self.database.rescue(Rules::default(), &[(job, number)]).map_err(|violation| violation.to_string())?;
        Ok(if self.database.jobs[job].row.is_some() { "rescue" } else { "rescue: dead" })
    }

    fn end(
        &mut self,
        trace: &Trace,
        job: usize,
        row: &Event,
        was: Holding,
        over: Option<&str>,
        recorded: Option<&str>,
    ) -> Result<&'static str, String> {
        let (outcome, step) = match (over, recorded) {
            (Some("completed"), None) => (Outcome::Completed, "complete"),
            (Some("cancelled"), Some("cancelled")) => (Outcome::Cancelled, "stop as cancelled"),
            (Some("dead"), Some("failed" | "panicked" | "timed_out")) => (Outcome::FailedLast, "bury"),
            (None | Some("cancelled"), Some("failed" | "panicked" | "timed_out")) => (Outcome::Failed, "fail"),
            (None | Some("cancelled"), Some("snoozed")) => (Outcome::Snoozed, "snooze"),
            (None | Some("cancelled"), Some("released")) => (Outcome::Released, "release"),
            (None, Some("unstarted")) => {
                *self.unknown.entry(job).or_default() += 1;
                (Outcome::Unstarted, "rescue: not known to have begun")
            }
            (None | Some("cancelled"), None) => (Outcome::Unstarted, "give back"),
            what => return Err(format!("no end is written like this: {what:?}")),
        };
        let number = *self.numbers.get(&was.worker).ok_or("ended although nobody held it")?;
        let process = self.life(number).process;
        let told = matches!(outcome, Outcome::Completed | Outcome::Failed | Outcome::FailedLast | Outcome::Snoozed);
        if told && !trace.returned.contains(&(row.id, was.attempt, process)) {
            return Err(format!(
                "attempt {} did not return in the process that holds the job ({process})",
                was.attempt
            ));
        }
        if outcome == Outcome::Failed && was.attempt > self.database.jobs[job].retries {
            return Err("requeued after its last attempt".to_owned());
        }
        let end = End { job, fence: was.fence, claim: was.fence, outcome };
        if outcome == Outcome::Completed
            && let Some((effect, attempt)) = self.effects.remove(&job)
        {
            let transaction = row.transaction == effect.transaction;
            if attempt != was.attempt || !transaction || !self.database.may_complete(Rules::default(), number, &end) {
                return Err(format!("completed by attempt {}, with the effect of attempt {attempt}", was.attempt));
            }
            self.database.complete(Rules::default(), number, &end).map_err(|violation| violation.to_string())?;
            return Ok("complete with its effect");
        }
        self.database.end(Rules::default(), number, &[end]).map_err(|violation| violation.to_string())?;
        Ok(step)
    }

    fn holding(&self, job: usize) -> Option<Holding> {
        let Row { holder, fence, attempt, .. } = *self.database.jobs[job].row.as_ref()?;
        let worker = if holder == 0 { Some(0) } else { self.numbers.iter().find(|it| *it.1 == holder).map(|it| *it.0) };
        Some(Holding { worker: worker?, fence, attempt })
    }

    /// Whether the model's tables say what the real ones do.
    fn agrees(
        &self,
        job: usize,
        was: Holding,
        is: Option<Holding>,
        cancel: bool,
        over: Option<(Holding, &str)>,
    ) -> Result<(), String> {
        let model = &self.database.jobs[job];
        let marked = model.row.as_ref().is_some_and(|row| row.cancel);
        if self.holding(job) != is || marked != cancel {
            return Err(format!(
                "the model's row is {:?}, the real one {is:?}, asked to cancel {cancel}",
                self.holding(job)
            ));
        }
        let state = match model.over {
            None => None,
            Some((Over::Completed, attempt)) => Some((attempt, "completed")),
            Some((Over::Cancelled, attempt)) => Some((attempt, "cancelled")),
            Some((Over::Dead, attempt)) => Some((attempt, "dead")),
        };
        let real = over.map(|(holding, state)| (holding.attempt, state));
        let same_lease = over.is_none_or(|(it, _)| (it.worker, it.fence) == (was.worker, was.fence));
        if state != real || !same_lease {
            return Err(format!("the model's end is {state:?}, the real one {over:?}"));
        }
        Ok(())
    }
}
