//! Finds effects that were not committed together with the completion of their job, from the tables alone.

use std::collections::BTreeMap;
use std::fmt;

use queue_test_support::Tables;
use serde::Deserialize;

use crate::effects::Deal;

/// An effect of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The job's number.
    pub job: i64,
    /// The attempt that wrote it.
    pub attempt: i64,
}

/// A step that a job took before its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The job's number.
    pub job: i64,
    /// The number of the step.
    pub step: i64,
}

/// All that concerns effects, when no job waits or runs.
#[derive(Debug)]
pub struct EffectHistory<'a> {
    /// The tables of the library.
    pub tables: &'a Tables,
    /// All effects.
    pub effects: Vec<Effect>,
    /// All steps.
    pub steps: Vec<Step>,
}

/// A promise about effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EffectRule {
    /// A job has an effect and is not completed.
    NoCompletion,
    /// A job is completed without its effect.
    NoEffect,
    /// A job has several effects.
    TwoEffects,
    /// The attempt that completed a job is not the one whose effect is there.
    OtherAttempt,
    /// A job is completed without its follow-up, or a follow-up is there that no completion stands for.
    FollowUp,
    /// A completed job has not taken a step, or a job has taken one twice.
    Step,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectViolation {
    /// Which promise.
    pub rule: EffectRule,
    /// The job's number.
    pub job: i64,
    /// What happened.
    pub what: String,
}

impl fmt::Display for EffectViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: job {}: {}", self.rule, self.job, self.what)
    }
}

/// The arguments that matter here.
#[derive(Deserialize)]
struct Args {
    deal: Option<Deal>,
    of: Option<i64>,
}

/// All that belongs to one job.
#[derive(Default)]
struct Account {
    deal: Option<Deal>,
    /// Where it is.
    states: Vec<String>,
    /// The attempts that completed it.
    completed: Vec<i64>,
    /// The attempts that wrote its effects.
    effects: Vec<i64>,
    follow_ups: i64,
    /// How often it took each step.
    steps: BTreeMap<i64, i64>,
}

impl EffectHistory<'_> {
    /// Every broken promise, by job.
    pub fn violations(&self) -> Vec<EffectViolation> {
        let mut found = Vec::new();
        for (job, account) in self.accounts() {
            account.check(|rule, what| found.push(EffectViolation { rule, job, what }));
        }
        found
    }

    /// How many jobs with effects are completed, and how many are not.
    pub fn ends(&self) -> (usize, usize) {
        let accounts = self.accounts();
        let completed = accounts.values().filter(|it| !it.completed.is_empty()).count();
        (completed, accounts.len() - completed)
    }

    /// How many follow-ups there are.
    pub fn follow_ups(&self) -> i64 {
        self.accounts().values().map(|it| it.follow_ups).sum()
    }

    fn accounts(&self) -> BTreeMap<i64, Account> {
        let mut accounts: BTreeMap<i64, Account> = BTreeMap::new();
        let rows = self.tables.jobs.iter().flat_map(|(id, rows)| rows.iter().map(|row| (*id, row)));
        for (id, row) in rows {
            let Ok(Args { deal, of }) = serde_json::from_str(&row.args) else { continue };
            if let Some(of) = of {
                accounts.entry(of).or_default().follow_ups += 1;
            }
            if let Some(deal) = deal {
                let account = accounts.entry(id).or_default();
                account.deal = Some(deal);
                account.states.push(row.state.clone());
                account.completed.extend((row.state == "completed").then_some(row.attempt));
            }
        }
        for Effect { job, attempt } in &self.effects {
            accounts.entry(*job).or_default().effects.push(*attempt);
        }
        for Step { job, step } in &self.steps {
            *accounts.entry(*job).or_default().steps.entry(*step).or_default() += 1;
        }
        accounts
    }
}

impl Account {
    fn check(&self, mut broken: impl FnMut(EffectRule, String)) {
        let Account { deal, states, completed, effects, follow_ups, steps } = self;
        let place = if states.is_empty() { "in no table".to_owned() } else { states.join(" and ") };
        match (completed.as_slice(), effects.as_slice()) {
            ([], []) => {}
            ([], [..]) => {
                broken(EffectRule::NoCompletion, format!("it is {place}, with effects of attempts {effects:?}"))
            }
            ([..], []) => broken(EffectRule::NoEffect, format!("attempt {completed:?} completed it without an effect")),
            ([attempt], [by]) if attempt != by => {
                let what = format!("attempt {attempt} completed it, and the effect is of attempt {by}");
                broken(EffectRule::OtherAttempt, what);
            }
            ([_], [_]) => {}
            _ => broken(EffectRule::TwoEffects, format!("{place}, with effects of attempts {effects:?}")),
        }
        let wanted = i64::from(!completed.is_empty() && deal.as_ref().is_some_and(|deal| deal.follow_up));
        if *follow_ups != wanted {
            broken(EffectRule::FollowUp, format!("it is {place}, with {follow_ups} follow-ups instead of {wanted}"));
        }
        let due = deal.as_ref().filter(|_| !completed.is_empty()).map_or(0, |deal| deal.steps);
        let missing = (1..=due).any(|step| !steps.contains_key(&step));
        if missing || steps.values().any(|times| *times > 1) {
            broken(EffectRule::Step, format!("it is {place}, of {due} steps it took {steps:?} (step: times)"));
        }
    }
}

#[cfg(test)]
#[path = "effects_tests.rs"]
mod tests;
