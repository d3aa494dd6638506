//! Plants each violation in otherwise correct tables.

use std::time::Duration;

use queue::schedule::Missed;

use super::{Decided, Made, Scheduled, TickHistory, TickRule};

const SECOND: i64 = 1_000_000;
const BEGIN: i64 = 1_000 * SECOND;
const ALL: Missed = Missed::All { within: Duration::from_secs(7200) };

/// A schedule that ticks each second, and so many ticks of it with their jobs, each decided 20 ms late.
fn good(missed: Missed, count: i64) -> TickHistory {
    let mut history = TickHistory { until: BEGIN + count * SECOND, ..TickHistory::default() };
    for (id, name) in [(1, "one"), (2, "two")] {
        let changed_at = BEGIN + SECOND / 2;
        history.schedules.push(Scheduled {
            id,
            name: name.into(),
            interval: SECOND,
            missed,
            changed_at,
            last_at: None,
            last_job: None,
            error: None,
        });
        for number in 1..=count {
            history = history.fire(id, BEGIN + number * SECOND, BEGIN + number * SECOND + 20_000);
        }
    }
    history
}

impl TickHistory {
    fn fire(mut self, schedule: i64, tick: i64, at: i64) -> Self {
        let id = 100 + self.ticks.len() as i64;
        let row = self.schedules.iter_mut().find(|it| it.id == schedule).expect("a schedule");
        (row.last_at, row.last_job) = (Some(tick), Some(id));
        let began = Some(at + 5_000 + 1_000 * id);
        self.jobs.push(Made { id, of: row.name.clone(), state: "completed".into(), began });
        self.ticks.push(Decided { schedule, tick, job: Some(id), outcome: "fired".into(), skipped: 0, at });
        self
    }

    fn pass(mut self, schedule: i64, tick: i64, skipped: i64, at: i64) -> Self {
        let row = self.schedules.iter_mut().find(|it| it.id == schedule).expect("a schedule");
        row.last_at = Some(tick);
        self.ticks.push(Decided { schedule, tick, job: None, outcome: "missed".into(), skipped, at });
        self
    }

    fn change(mut self, change: impl FnOnce(&mut TickHistory)) -> Self {
        change(&mut self);
        self
    }

    #[track_caller]
    fn breaks(&self, expected: &[TickRule]) {
        let violations = self.violations();
        let mut rules: Vec<TickRule> = violations.iter().map(|it| it.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        let told: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert_eq!(rules, expected, "{told:#?}");
    }
}

#[test]
fn good_tables_pass() {
    good(Missed::Last, 5).breaks(&[]);
    good(ALL, 1).breaks(&[]);
}

#[test]
fn a_tick_is_missing() {
    // its job is left
    good(Missed::Last, 5).change(|it| drop(it.ticks.remove(2))).breaks(&[TickRule::TickLost, TickRule::NoTick]);
    let both = |at: usize| {
        good(Missed::Last, 5).change(|it| {
            it.ticks.remove(at);
            it.jobs.remove(at);
        })
    };
    both(2).breaks(&[TickRule::TickLost]);
    both(0).breaks(&[TickRule::TickLost]);
    both(4).breaks(&[TickRule::TickLost, TickRule::LastTick]);
    good(Missed::Last, 5).change(|it| it.until += SECOND).breaks(&[TickRule::TickLost]);
}

#[test]
fn a_job_is_doubled() {
    let double = |change: fn(&mut Made)| {
        good(Missed::Last, 5).change(|it| {
            let mut job = it.jobs[2].clone();
            change(&mut job);
            it.jobs.push(job);
        })
    };
    double(|job| job.id = 900).breaks(&[TickRule::NoTick]);
    double(|job| job.state = "dead".into()).breaks(&[TickRule::TickTwice]);
    let again = good(Missed::Last, 5).fire(1, BEGIN + 3 * SECOND, BEGIN + 4 * SECOND);
    again.breaks(&[TickRule::TickTwice, TickRule::LastTick]);
}

#[test]
fn a_tick_and_its_job_are_no_pair() {
    good(Missed::Last, 5).change(|it| drop(it.jobs.remove(1))).breaks(&[TickRule::NoJob]);
    let none = good(Missed::Last, 5).change(|it| it.ticks[1].job = None);
    none.breaks(&[TickRule::NoJob, TickRule::NoTick]);
    let same = good(Missed::Last, 5).change(|it| it.ticks[1].job = it.ticks[0].job);
    same.breaks(&[TickRule::TickTwice, TickRule::NoTick]);
    good(Missed::Last, 5).change(|it| it.jobs[1].of = "two".into()).breaks(&[TickRule::NoJob]);
    good(Missed::Last, 5).change(|it| it.jobs[1].state = "dead".into()).breaks(&[TickRule::Unfinished]);
}

#[test]
fn a_schedule_is_wrong_about_itself() {
    good(Missed::Last, 5).change(|it| it.schedules[0].last_at = None).breaks(&[TickRule::LastTick]);
    good(Missed::Last, 5).change(|it| it.schedules[0].last_job = Some(1)).breaks(&[TickRule::LastTick]);
    good(Missed::Last, 5).change(|it| it.schedules[1].error = Some("no".into())).breaks(&[TickRule::Refused]);
}

#[test]
fn a_tick_is_no_tick() {
    let aside = good(Missed::Last, 5).change(|it| {
        it.ticks[4].tick += SECOND / 2;
        it.ticks[4].at += SECOND;
        it.schedules[0].last_at = Some(it.ticks[4].tick);
    });
    aside.breaks(&[TickRule::TickLost, TickRule::NoTick]);
    good(Missed::Last, 5).change(|it| it.ticks[3].at -= SECOND).breaks(&[TickRule::TickEarly]);
}

#[test]
fn missed_ticks_follow_their_policy() {
    let (hour, at) = (3600, BEGIN + 3605 * SECOND + 20_000);
    // 5 ticks, and after an hour that nobody saw those of the last minute
    let young = |missed| {
        let mut history = good(missed, 5).pass(1, BEGIN + (hour - 60) * SECOND, hour - 66, at);
        for tick in hour - 59..=hour {
            history = history.fire(1, BEGIN + tick * SECOND, at);
        }
        history
    };
    young(Missed::None).breaks(&[]);
    young(Missed::Last).breaks(&[]);
    young(ALL).breaks(&[TickRule::Policy]);
    let tick = BEGIN + hour * SECOND - 300 * SECOND;
    let alone = |missed| good(missed, 5).pass(1, tick - SECOND, 3293, at).fire(1, tick, at);
    alone(Missed::None).breaks(&[TickRule::Policy]);
    alone(Missed::Last).breaks(&[]);
    alone(Missed::Last).fire(1, tick + SECOND, at).breaks(&[TickRule::Policy]);
    let none = |missed| good(missed, 5).pass(1, tick - SECOND, 3293, at);
    none(Missed::None).breaks(&[]);
    none(Missed::Last).breaks(&[TickRule::Policy]);
    good(Missed::None, 5).pass(1, BEGIN + 6 * SECOND, 0, BEGIN + 7 * SECOND).breaks(&[TickRule::Policy]);
}

#[test]
fn a_tick_that_is_fired_again_after_the_clock_was_set_back_is_found() {
    let again = good(Missed::Last, 5).change(|it| {
        let mut tick = it.ticks[3].clone();
        (tick.job, tick.at) = (Some(900), tick.at + 9 * SECOND);
        it.jobs.push(Made { id: 900, of: "one".into(), state: "completed".into(), began: None });
        it.ticks.push(tick);
    });
    again.breaks(&[TickRule::TickTwice]);
}

#[test]
fn jobs_of_one_transaction_are_ready_when_the_first_of_them_began() {
    let mut history = good(Missed::Last, 1);
    let (decided, ready) = history.delays();
    // the first job began 5 + 100 ms after it was decided
    assert_eq!((decided, ready), (vec![20_000; 2], vec![125_000; 2]));
    history.jobs[0].began = None;
    assert_eq!(history.delays().1, [126_000; 2]);
    history.jobs[1].began = None;
    assert!(history.delays().1.is_empty(), "nothing is known");
}
