use chrono::{DateTime, Utc};
use proptest::prelude::*;

use super::*;
use crate::schedule::definition::Definition;
use crate::store::values::NewJob;
use crate::unique::{OnConflict, UniqueJob, UniqueUntil};

fn schedule(text: &str) -> Schedule {
    Schedule::cron(text).expect(text)
}

/// The ticks after `from`, as the zone's clock shows them. `*`: shifted. `2`: second of two.
fn ticks(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
    let from: DateTime<Utc> = from.parse().expect(from);
    let told = |tick: Upcoming| {
        let mark = match tick.kind {
            TickKind::Normal => "",
            TickKind::Shifted => "*",
            TickKind::SecondOfTwo => "2",
        };
        tick.local.format("%m-%d %H:%M%:z").to_string() + mark
    };
    schedule.preview(from).take(count).map(told).collect()
}

#[test]
fn a_time_that_does_not_exist_is_shifted_or_skipped() {
    let daily = schedule("30 2 * * * Europe/Berlin");
    let from = "2026-03-28T12:00:00Z";
    assert_eq!(ticks(&daily, from, 2), ["03-29 03:00+02:00*", "03-30 02:30+02:00"]);
    assert_eq!(ticks(&daily.gap(Gap::Skip), from, 2), ["03-30 02:30+02:00", "03-31 02:30+02:00"]);
    // several times in the gap are one tick, and none beside a regular one
    let often = schedule("*/20 2,3 * * * Europe/Berlin");
    assert_eq!(ticks(&often, from, 3), ["03-29 03:00+02:00", "03-29 03:20+02:00", "03-29 03:40+02:00"]);
    // real time goes on
    let hourly = schedule("30 * * * * Europe/Berlin");
    assert_eq!(ticks(&hourly, "2026-03-29T00:00:00Z", 2), ["03-29 01:30+01:00", "03-29 03:30+02:00"]);
}

#[test]
fn a_time_that_comes_twice_ticks_once_or_twice() {
    let daily = schedule("30 2 * * * Europe/Berlin");
    let from = "2026-10-24T12:00:00Z";
    let (first, last, next) = ("10-25 02:30+02:00", "10-25 02:30+01:00", "10-26 02:30+01:00");
    assert_eq!(ticks(&daily, from, 2), [first, next]);
    assert_eq!(ticks(&daily.clone().fold(Fold::Last), from, 2), [last, next]);
    assert_eq!(ticks(&daily.clone().fold(Fold::Both), from, 3), [first, "10-25 02:30+01:002", next]);
    assert_eq!(
        ticks(&schedule("30 */2 * * * Europe/Berlin"), "2026-10-25T00:00:00Z", 2),
        [first, "10-25 02:30+01:002"]
    );
    // from the middle of the hour that comes twice
    assert_eq!(ticks(&daily, "2026-10-25T00:45:00Z", 1), [next]);
    assert_eq!(ticks(&daily.fold(Fold::Last), "2026-10-25T00:45:00Z", 1), [last]);
}

#[test]
fn odd_zones_are_no_special_case() {
    // half an hour
    let lord_howe = schedule("15 2 * * * Australia/Lord_Howe");
    assert_eq!(ticks(&lord_howe, "2026-10-03T00:00:00Z", 1), ["10-04 02:30+11:00*"]);
    // two hours
    let troll = schedule("30 1 * * * Antarctica/Troll");
    assert_eq!(ticks(&troll, "2026-03-28T12:00:00Z", 2), ["03-29 03:00+02:00*", "03-30 01:30+02:00"]);
    // midnight
    let cairo = schedule("@daily Africa/Cairo");
    assert_eq!(ticks(&cairo, "2026-04-23T12:00:00Z", 2), ["04-24 01:00+03:00*", "04-25 00:00+03:00"]);
    // a whole day: 30 December 2011
    let apia = schedule("0 9 * * * Pacific/Apia");
    assert_eq!(ticks(&apia, "2011-12-29T20:00:00Z", 2), ["12-31 00:00+14:00*", "12-31 09:00+14:00"]);
}

#[test]
fn an_interval_counts_from_1970() {
    assert_eq!(ticks(&schedule("every 15m"), "2026-01-01T00:00:00Z", 2), ["01-01 00:15+00:00", "01-01 00:30+00:00"]);
    let refused = schedule("every 15m").zone("Europe/Berlin").expect_err("no zone").to_string();
    assert!(refused.contains("five fields"), "{refused}");
}

#[test]
fn zones_are_looked_up() {
    for wrong in ["Europe/Berln", "Etc/Unknown", "+01:00", ""] {
        let refused = schedule("@daily").zone(wrong).expect_err(wrong).to_string();
        assert!(refused.contains("is no time zone"), "{refused}");
    }
    assert_eq!(schedule("@daily").zone("europe/berlin").expect("any case"), schedule("@daily Europe/Berlin"));
}

fn definition(text: &str) -> Result<Definition, Error> {
    Definition::new("one".into(), &schedule(text), NewJob::example("k"))
}

#[test]
fn a_zone_in_the_text_and_another_one_in_the_column_are_refused() {
    let row = |expression: &str, zone: &str| {
        let row =
            Definition { expression: expression.into(), zone: zone.into(), ..definition("@daily").expect("a row") };
        row.schedule().map_err(|error| error.to_string())
    };
    for (expression, zone) in [
        ("0 9 * * * Europe/Berlin", "UTC"),
        ("0 9 * * *", "Europe/Berlin"),
        ("0 9 * * *", "europe/berlin"),
        ("0 9 * * * Europe/Berlin", "Europe/Berlin"),
        ("0 9 * * * europe/berlin", "Europe/Berlin"),
        ("0 9 * * * Europe/Berlin", "EUROPE/BERLIN"),
        ("0 9 * * * Europe/Berlin", "utc"),
    ] {
        assert!(row(expression, zone) == Ok(schedule("0 9 * * * Europe/Berlin")), "{expression}, {zone}");
    }
    assert!(row("every 15m", "utc") == Ok(schedule("every 15m")));
    for (expression, zone) in [("0 9 * * * UTC", "Europe/Berlin"), ("@daily Asia/Tokyo", "Europe/Berlin")] {
        let refused = row(expression, zone).expect_err(expression);
        assert!(refused.contains("the column zone says `Europe/Berlin`: keep one of the two"), "{refused}");
    }
    let refused = row("@daily Asia/Tokyo", "Mars/Base").expect_err("no zone");
    assert!(refused.contains("`Mars/Base` is no time zone"), "{refused}");
}

#[test]
fn what_is_longer_than_its_column_on_some_engine_is_refused() {
    let minutes = |length: usize| {
        let list = "0,".repeat((length - 9) / 2) + "0";
        let list = if length.is_multiple_of(2) { list.replacen('0', "00", 1) } else { list };
        list + " * * * *"
    };
    for length in [255, 256] {
        let kept = definition(&minutes(length)).expect("it fits");
        assert_eq!(kept.expression.chars().count(), length);
    }
    for length in [257, 300, 5_000] {
        let refused = definition(&minutes(length)).expect_err("too long").to_string();
        assert!(
            refused.contains(&format!("its expression has {length} characters, and the limit is 256")),
            "{refused}"
        );
    }
    // the zone is a column of its own
    let zoned = definition(&(minutes(256) + " America/Argentina/Buenos_Aires")).expect("it fits");
    assert_eq!(zoned.zone, "America/Argentina/Buenos_Aires");
    for (name, why) in
        [("n".repeat(129), "is 129 bytes long"), (" n".into(), "begins or ends"), ("".into(), "is empty")]
    {
        let refused = Definition::new(name, &schedule("@daily"), NewJob::example("k")).expect_err(why).to_string();
        assert!(refused.contains(&format!("the schedule name {why}")), "{refused}");
    }
}

#[test]
fn a_unique_job_is_refused() {
    let key = UniqueJob {
        key: "7".into(),
        until: UniqueUntil::End,
        at_least: None,
        on_conflict: OnConflict::Keep,
        at_most: None,
    };
    let unique = NewJob { unique: Some(Box::new(key)), ..NewJob::example("sync") };
    let refused = Definition::new("one".into(), &schedule("@daily"), unique).expect_err("a key").to_string();
    assert!(refused.contains("its job `sync` is unique, and a schedule takes no key"), "{refused}");
}

#[test]
fn rare_dates_are_found() {
    let leap = schedule("0 0 29 2 * America/New_York");
    assert_eq!(ticks(&leap, "2097-01-01T00:00:00Z", 2), ["02-29 00:00-05:00", "02-29 00:00-05:00"]);
    let days: Vec<_> = ticks(&schedule("0 9 1 * MON"), "2026-06-01T10:00:00Z", 5);
    assert_eq!(
        days.join(" "),
        "06-08 09:00+00:00 06-15 09:00+00:00 06-22 09:00+00:00 06-29 09:00+00:00 07-01 09:00+00:00"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Against the zone's own rules: each instant with a matching clock is a tick, and no other, unless the clock shows
    /// its time twice.
    #[test]
    fn ticks_are_the_instants_at_which_the_clock_matches(
        zone in prop::sample::select(vec!["Europe/Berlin", "America/St_Johns", "Africa/Casablanca", "Asia/Tehran"]),
        text in prop::sample::select(vec!["*/10 * * * *", "30 2 * * *", "0 0 * * *", "15 1-3 * * SUN"]),
        day in 0..20_000i64,
    ) {
        let schedule = schedule(text).zone(zone).expect(zone).gap(Gap::Skip).fold(Fold::Both);
        let from = DateTime::from_timestamp(day * 86_400, 0).expect("a date");
        let until = from + Duration::from_secs(3 * 86_400);
        let found: Vec<_> = schedule.preview(from).take_while(|tick| tick.at < until).map(|tick| tick.at.timestamp()).collect();
        let calendar = schedule.calendar();
        let matches = |instant: &i64| {
            let wall = DateTime::from_timestamp(instant + calendar.offset(*instant), 0).expect("a date").naive_utc();
            calendar.expression.wall_clock(wall) == Some(wall)
        };
        let walked: Vec<_> = (from.timestamp() + 60..until.timestamp()).step_by(60).filter(matches).collect();
        prop_assert_eq!(found, walked);
    }
}
