//! The oracle's short form, and that it finds what it is there for.

use std::env;

use queue_oracle::{Args, Plant, check, why_not};

/// Whether the oracle can run. Where everything has to run, that it cannot is a failure.
fn possible() -> bool {
    let Some(why) = why_not() else { return true };
    assert!(env::var_os("QUEUE_TEST_REQUIRE_ALL").is_none(), "{why}");
    eprintln!("skipped: {why}");
    false
}

#[test]
fn a_sample_of_time_zones_ticks_as_the_oracle_says() {
    if !possible() {
        return;
    }
    let report = check(&Args { sample: Some(12), ..Args::default() }, None).expect("compared");
    println!("{report}");
    assert!(report.differences.is_empty(), "{report}");
    assert!(report.zones >= 12 && report.transitions > 300 && report.ticks > 100_000, "{report}");
}

#[test]
fn planted_errors_are_found() {
    if !possible() {
        return;
    }
    let berlin = |expression: &str| Args {
        zones: vec!["Europe/Berlin".into()],
        expressions: vec![expression.into()],
        ..Args::default()
    };
    for expression in ["30 2 * * *", "*/15 * * * *", "0 3 * * SUN"] {
        let honest = check(&berlin(expression), None).expect("compared");
        assert_eq!(honest.differences.len(), 0, "{honest}");
        for plant in [Plant::Late, Plant::Lost, Plant::Doubled, Plant::Kind] {
            let report = check(&berlin(expression), Some(plant)).expect("compared");
            // under each pair of policies
            assert_eq!(report.differences.len(), 6, "{plant:?}: {report}");
            let told = report.to_string();
            assert!(
                told.contains(&format!("`{expression}` in Europe/Berlin, gap shift, fold first: 1 windows")),
                "{told}"
            );
        }
    }
}
