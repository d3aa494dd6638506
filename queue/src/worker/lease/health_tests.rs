//! What is said of a database that fails.

use super::*;
use crate::worker::fake::log::Log;
use crate::worker::fake::{Answer, NO_RIGHT, NO_VALUE, error};

const LOST: &str = "database.lost";
const BACK: &str = "database.back";

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_when_it_begins_and_each_minute_while_it_lasts() {
    let (log, _listening) = Log::listen();
    let (health, mut claims, mut beats) = (Health::default(), Failures::default(), Failures::default());
    let away = error("claiming", Answer::Away);
    health.down(&mut claims, &away).await;
    health.down(&mut beats, &error("beating", Answer::Away)).await;
    assert_eq!(log.take(LOST), 1, "for all loops");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(600) {
        health.down(&mut claims, &away).await;
    }
    let told = log.take(LOST);
    assert!((9..=10).contains(&told), "{told}");
    health.up(&mut claims);
    health.up(&mut beats);
    assert_eq!(log.take(BACK), 1);
    health.down(&mut claims, &away).await;
    assert_eq!(log.take(LOST), 1, "the next outage");
}

#[tokio::test(start_paused = true)]
async fn another_error_is_told_although_one_was_told_before() {
    let (log, _listening) = Log::listen();
    let (health, mut claims, mut ends) = (Health::default(), Failures::default(), Failures::default());
    let refused = error("burying", NO_RIGHT);
    health.failed(&mut ends, &refused);
    assert_eq!(log.take("permission denied"), 1);
    for _ in 0..9 {
        health.down(&mut claims, &error("claiming", Answer::Away)).await;
        health.failed(&mut ends, &refused);
    }
    assert_eq!(log.take(LOST), 1, "what comes in turns is no news each time");
    // nor is a text that never is the same a flood
    for number in 0..1_000 {
        health.failed(&mut ends, &error(&format!("writing {number}"), NO_RIGHT));
    }
    assert!(log.take(LOST) < MOST_TOLD);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_refused_is_no_outage() {
    let (log, _listening) = Log::listen();
    let (health, mut claims) = (Health::default(), Failures::default());
    for _ in 0..9 {
        health.down(&mut claims, &error("claiming", NO_VALUE)).await;
    }
    assert_eq!(log.take("escape sequence"), 1);
    health.down(&mut claims, &error("claiming", NO_VALUE)).await;
    health.up(&mut claims);
    assert_eq!(log.take("database."), 0);
    // but one may come in between
    health.down(&mut claims, &error("claiming", NO_VALUE)).await;
    health.down(&mut claims, &error("claiming", Answer::Away)).await;
    health.up(&mut claims);
    assert_eq!(log.take("database."), 2);
}
