//! Plants each violation in otherwise correct tables.

use queue_test_support::{Row, Tables};
use serde_json::{Value, json};

use super::{Effect, EffectHistory, EffectRule, Step};
use crate::effects::{Deal, End};

/// Tables under construction.
#[derive(Default)]
struct Plot {
    tables: Tables,
    effects: Vec<Effect>,
    steps: Vec<Step>,
}

/// Attempt 2 of job 1 completed it, after two steps, and job 2 follows. Job 3 is a dead letter.
fn good() -> Plot {
    let mut plot = Plot::default();
    plot.row(1, "completed", 2, &json!({"tag": 1, "deal": deal(2, true)}));
    plot.row(2, "completed", 1, &json!({"tag": 2, "of": 1}));
    plot.row(3, "dead", 1, &json!({"tag": 3, "deal": deal(0, true)}));
    plot.effects.push(Effect { job: 1, attempt: 2 });
    plot.steps.extend([Step { job: 1, step: 1 }, Step { job: 1, step: 2 }]);
    plot
}

fn deal(steps: i64, follow_up: bool) -> Deal {
    Deal { ms: 0, steps, follow_up, end: End::Commit }
}

impl Plot {
    fn row(&mut self, job: i64, state: &str, attempt: i64, args: &Value) {
        let (error, args) = (String::new(), args.to_string());
        let row = Row { state: state.into(), attempt, fence: attempt, worker: 1, error, args };
        self.tables.jobs.entry(job).or_default().push(row);
    }

    fn state(&mut self, job: i64, state: &str) {
        self.tables.jobs.get_mut(&job).into_iter().flatten().for_each(|row| row.state = state.into());
    }

    #[track_caller]
    fn breaks(self, expected: &[EffectRule]) {
        let Plot { tables, effects, steps } = self;
        let found = EffectHistory { tables: &tables, effects, steps }.violations();
        let rules: Vec<EffectRule> = found.iter().map(|violation| violation.rule).collect();
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(rules, expected, "{told:#?}");
    }
}

#[test]
fn good_tables_pass() {
    good().breaks(&[]);
    // a step of a job that was given up
    let mut plot = good();
    plot.steps.push(Step { job: 3, step: 1 });
    plot.breaks(&[]);
    // its follow-up still waits
    let mut plot = good();
    plot.state(2, "waiting");
    plot.breaks(&[]);
}

#[test]
fn an_effect_has_no_completion() {
    for state in ["dead", "waiting", "running", "cancelled"] {
        let mut plot = good();
        plot.state(3, state);
        plot.effects.push(Effect { job: 3, attempt: 1 });
        plot.breaks(&[EffectRule::NoCompletion]);
    }
    // of a job that is nowhere
    let mut plot = good();
    plot.effects.push(Effect { job: 9, attempt: 1 });
    plot.breaks(&[EffectRule::NoCompletion]);
}

#[test]
fn a_completion_has_no_effect() {
    let mut plot = good();
    plot.effects.clear();
    plot.breaks(&[EffectRule::NoEffect]);
}

#[test]
fn a_job_has_two_effects() {
    for attempt in [1, 2] {
        let mut plot = good();
        plot.effects.push(Effect { job: 1, attempt });
        plot.breaks(&[EffectRule::TwoEffects]);
    }
}

#[test]
fn a_job_is_completed_twice() {
    let mut plot = good();
    plot.row(1, "completed", 3, &json!({"tag": 1, "deal": deal(2, true)}));
    plot.breaks(&[EffectRule::TwoEffects]);
}

#[test]
fn the_effect_is_of_another_attempt() {
    let mut plot = good();
    plot.effects[0].attempt = 1;
    plot.breaks(&[EffectRule::OtherAttempt]);
}

#[test]
fn a_follow_up_is_missing() {
    let mut plot = good();
    plot.tables.jobs.remove(&2);
    plot.breaks(&[EffectRule::FollowUp]);
}

#[test]
fn a_follow_up_is_too_many() {
    // a second one, that of a job that is not completed, that of a job that is nowhere
    for of in [1, 3, 9] {
        let mut plot = good();
        plot.row(4, "completed", 1, &json!({"tag": 4, "of": of}));
        plot.breaks(&[EffectRule::FollowUp]);
    }
}

#[test]
fn a_step_is_missing_or_taken_twice() {
    let mut plot = good();
    plot.steps.pop();
    plot.breaks(&[EffectRule::Step]);
    let mut plot = good();
    plot.steps.push(Step { job: 1, step: 1 });
    plot.breaks(&[EffectRule::Step]);
    let mut plot = good();
    plot.steps.extend([Step { job: 3, step: 1 }; 2]);
    plot.breaks(&[EffectRule::Step]);
}
