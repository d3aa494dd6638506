use std::time::Duration;

use chrono::{DateTime, Utc};

use super::*;
use crate::schedule::spec::Schedule;
use crate::store::values::NewJob;

const DECODES: KnownKind = KnownKind { secrets: &[], max_retries: 3, decodes: |_| Ok(()) };

fn at(text: &str) -> i64 {
    let text = if text.contains('T') { text.to_owned() } else { format!("2026-06-10T{text}Z") };
    text.parse::<DateTime<Utc>>().expect(&text).timestamp_micros()
}

/// A row that was made at 08:00 and is due.
fn row(schedule: Schedule, next: &str, now: &str) -> ScheduleRow {
    ScheduleRow {
        id: 1,
        app: String::new(),
        definition: Definition::new("one".into(), &schedule, NewJob::example("k")).expect("a definition"),
        changed_at: at("08:00:00"),
        paused_at: None,
        retired_at: None,
        next_at: Some(if next.is_empty() { 0 } else { at(next) }),
        last_at: None,
        last_job_id: None,
        error: None,
        now: at(now),
        busy: None,
    }
}

fn cron(text: &str) -> Schedule {
    Schedule::cron(text).expect(text)
}

fn fired(plan: &Plan) -> Vec<i64> {
    plan.fire.iter().map(|(tick, _)| *tick).collect()
}

fn missed(plan: &Plan) -> Option<(i64, i32)> {
    plan.passed.iter().find(|it| it.outcome == TickOutcome::Missed).map(|it| (it.tick, it.before))
}

#[test]
fn a_new_row_gets_its_next_tick() {
    let found = plan(&row(cron("0 * * * *"), "", "08:30:00"), DECODES);
    assert_eq!(found, Plan { next: Some(at("09:00:00")), ..Plan::default() });
}

#[test]
fn a_tick_becomes_a_job_once() {
    let mut row = row(cron("0 * * * *"), "09:00:00", "09:00:00");
    let found = plan(&row, DECODES);
    assert_eq!((fired(&found), found.next), (vec![at("09:00:00")], Some(at("10:00:00"))));
    // the clock was set back, or a stale look brought it here again
    row.last_at = Some(at("09:00:00"));
    row.next_at = Some(0);
    let found = plan(&row, DECODES);
    assert_eq!((fired(&found), found.next), (vec![], Some(at("10:00:00"))));
}

#[test]
fn a_clock_that_was_set_back_is_believed_when_somebody_asks() {
    let mut row = row(cron("0 * * * *"), "", "09:30:00");
    row.last_at = Some(at("2026-07-10T09:00:00Z"));
    assert_eq!(plan(&row, DECODES).next, Some(at("10:00:00")), "it was resumed or written anew");
    assert_eq!(row.last(), Some(row.now), "what is later counts as open");
    // a clock that is corrected by seconds repeats no tick
    let corrected = ScheduleRow { last_at: Some(at("11:00:00")), now: at("10:59:58"), ..row };
    assert_eq!(plan(&ScheduleRow { next_at: Some(0), ..corrected }, DECODES).next, Some(at("12:00:00")));
}

#[test]
fn a_tick_that_is_decided_is_left_out() {
    let all = cron("*/10 * * * *").missed(Missed::All { within: Duration::from_secs(1_600) });
    let mut plan = plan(&row(all, "09:00:00", "10:05:00"), DECODES);
    assert_eq!(plan.span(), Some((at("09:30:00"), at("10:00:00"))));
    plan.leave_out(&[at("09:30:00"), at("09:50:00"), at("11:00:00")]);
    assert_eq!((fired(&plan), missed(&plan)), (vec![at("09:40:00"), at("10:00:00")], None));
    assert_eq!(Plan::default().span(), None);
}

#[test]
fn a_late_tick_is_fired_whatever_was_said_about_missed_ones() {
    for missed in [Missed::None, Missed::Last, Missed::All { within: Duration::from_secs(5) }] {
        let late = plan(&row(cron("0 * * * *").missed(missed), "09:00:00", "09:01:00"), DECODES);
        assert_eq!(fired(&late), [at("09:00:00")], "{missed:?}");
        assert!(late.passed.is_empty());
    }
}

#[test]
fn missed_ticks_follow_their_policy() {
    let found = |missed_ones| plan(&row(cron("*/10 * * * *").missed(missed_ones), "09:00:00", "10:05:00"), DECODES);
    let none = found(Missed::None);
    assert_eq!((fired(&none), missed(&none)), (vec![], Some((at("10:00:00"), 6))));
    let last = found(Missed::Last);
    assert_eq!((fired(&last), missed(&last)), (vec![at("10:00:00")], Some((at("09:50:00"), 5))));
    let all = found(Missed::All { within: Duration::from_secs(1_600) });
    assert_eq!(fired(&all), [at("09:40:00"), at("09:50:00"), at("10:00:00")]);
    assert_eq!(missed(&all), Some((at("09:30:00"), 3)));
    for plan in [none, last, all] {
        assert_eq!(plan.next, Some(at("10:10:00")));
    }
}

#[test]
fn the_last_missed_tick_gives_way_to_one_that_is_due_as_well() {
    let found = plan(&row(cron("*/10 * * * *"), "09:00:00", "10:00:30"), DECODES);
    assert_eq!((fired(&found), missed(&found)), (vec![at("10:00:00")], Some((at("09:50:00"), 5))));
}

#[test]
fn a_great_number_of_missed_ticks_is_jumped_over() {
    let mut years = row(cron("* * * * *"), "", "10:00:30");
    years.changed_at = at("2020-01-01T00:00:00Z");
    let found = plan(&years, DECODES);
    assert_eq!((fired(&found), missed(&found)), (vec![at("10:00:00")], Some((at("09:59:00"), MOST_WALKED))));
    assert_eq!(found.next, Some(at("10:01:00")));
    let all = Schedule::every(Duration::from_secs(1))
        .expect("a second")
        .missed(Missed::All { within: Duration::from_secs(86_400) });
    let found = plan(&row(all, "09:00:00", "10:00:00"), DECODES);
    assert_eq!((found.fire.len(), found.next), (MOST, Some(at("09:16:40"))), "the rest follows in the next round");
}

#[test]
fn an_overlap_is_passed_over() {
    let mut busy = row(cron("0 * * * *").overlap(Overlap::Skip), "09:00:00", "09:00:00");
    busy.busy = Some(7);
    let found = plan(&busy, DECODES);
    assert_eq!(
        (found.fire.len(), found.passed[0].outcome, found.next),
        (0, TickOutcome::Overlap, Some(at("10:00:00")))
    );
    let several = Schedule::every(Duration::from_secs(1)).expect("a second").overlap(Overlap::Skip);
    let found = plan(&row(several, "09:00:00", "09:00:05"), DECODES);
    assert_eq!(fired(&found), [at("09:00:05")]);
    assert_eq!((found.passed[0].tick, found.passed[0].before), (at("09:00:04"), 4));
}

#[test]
fn jitter_is_the_same_on_every_worker() {
    let jitter = Duration::from_secs(600);
    let found = |name: &str, hour: &str| {
        let mut row = row(cron("0 * * * *").jitter(jitter), hour, hour);
        row.definition.name = name.into();
        plan(&row, DECODES).fire[0]
    };
    let (tick, due) = found("one", "09:00:00");
    let due = due.expect("later");
    assert!(due > tick && due < tick + 600 * SECOND);
    assert_eq!(found("one", "09:00:00").1, Some(due));
    assert_ne!(found("one", "10:00:00").1.map(|due| due - 3600 * SECOND), Some(due), "another tick");
    assert_ne!(found("two", "09:00:00").1, Some(due), "another name");
}

#[test]
fn arguments_that_this_build_cannot_decode_cost_no_tick() {
    let undecodable = KnownKind { decodes: |_| serde_json::from_str::<u8>("{}").map(drop), ..DECODES };
    let panics = KnownKind { decodes: |_| panic!("of a hostile row"), ..DECODES };
    let secret =
        KnownKind { secrets: &["card"], decodes: |args| serde_json::from_str::<u8>(args).map(drop), ..DECODES };
    let mut hidden = row(cron("0 * * * *"), "09:00:00", "09:00:01");
    hidden.definition.args = "\"4111 1111\"".to_owned();
    assert!(plan(&hidden, secret).error.is_some_and(|error| error.contains("string \"••••\"")), "it quotes no secret");
    for kind in [undecodable, panics] {
        let found = plan(&row(cron("0 * * * *"), "09:00:00", "09:00:01"), kind);
        let error = found.error.as_deref().expect("it is told");
        assert!(error.starts_with("the arguments do not fit `k`"), "{error}");
        assert_eq!((fired(&found), found.next), (vec![at("09:00:00")], Some(at("10:00:00"))));
    }
}

/// What the next plan sees.
fn moved(row: &ScheduleRow, plan: &Plan, now: &str) -> ScheduleRow {
    ScheduleRow { next_at: plan.next, error: plan.error.clone(), now: at(now), ..row.clone() }
}

#[test]
fn a_refusal_costs_no_tick() {
    let mars = |mut row: ScheduleRow| {
        row.definition.zone = "Mars/Base".into();
        row
    };
    let earth = |mut row: ScheduleRow| {
        row.definition.zone = "UTC".into();
        row
    };
    let all = cron("* * * * *").missed(Missed::All { within: Duration::from_secs(3_600) });
    let bad = mars(ScheduleRow { changed_at: at("08:59:30"), ..row(all, "09:00:00", "09:00:01") });
    let refused = plan(&bad, DECODES);
    assert!(refused.error.is_some() && !refused.is_known_to(&bad));
    let told = moved(&bad, &refused, "09:00:30");
    assert!(plan(&told, DECODES).is_known_to(&told), "nothing to write: it stays due for another worker");
    let found = plan(&earth(told.clone()), DECODES);
    assert_eq!((fired(&found), found.error), (vec![at("09:00:00")], None), "which fires it at its own time");
    let later = moved(&told, &plan(&told, DECODES), "09:02:00");
    let given_up = plan(&later, DECODES);
    assert_eq!(given_up.next, Some(at("09:12:00")), "nobody could");
    let mended = earth(moved(&later, &given_up, "09:12:00"));
    let each_minute: Vec<i64> = (0..=12).map(|minute| at("09:00:00") + minute * 60 * SECOND).collect();
    assert_eq!(fired(&plan(&mended, DECODES)), each_minute, "the time of another try is no tick; the policy holds");
}

#[test]
fn what_cannot_be_fired_says_why_and_moves_on() {
    for (column, text) in [("expression", "0 9 * *"), ("zone", "Mars/Base"), ("missed", "never"), ("gap", "jump")] {
        let mut bad = row(cron("0 * * * *"), "09:00:00", "09:02:00");
        match column {
            "expression" => bad.definition.expression = text.into(),
            "zone" => bad.definition.zone = text.into(),
            "missed" => bad.definition.missed = text.into(),
            _ => bad.definition.gap = Some(text.into()),
        }
        let found = plan(&bad, DECODES);
        assert!(found.error.as_ref().is_some_and(|error| error.contains(text)), "{found:?}");
        assert_eq!((found.fire.len(), found.next), (0, Some(at("09:12:00"))), "mended rows heal");
    }
}

#[test]
fn paused_and_retired_rows_have_no_next_tick() {
    let paused = ScheduleRow { paused_at: Some(1), ..row(cron("0 * * * *"), "09:00:00", "09:30:00") };
    let retired = ScheduleRow { retired_at: Some(1), ..row(cron("0 * * * *"), "09:00:00", "09:30:00") };
    assert_eq!([plan(&paused, DECODES), plan(&retired, DECODES)], [Plan::default(), Plan::default()]);
}

#[test]
fn a_change_counts_from_then_on() {
    let mut changed = row(cron("0 * * * *"), "", "12:30:00");
    changed.changed_at = at("12:10:00");
    assert_eq!(plan(&changed, DECODES), Plan { next: Some(at("13:00:00")), ..Plan::default() });
}
