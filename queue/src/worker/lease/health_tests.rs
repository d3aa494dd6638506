//! What is said of a database that fails.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Subscriber, set_default};
use tracing::{Event, Metadata};

use super::*;
use crate::worker::fake::{Answer, NO_RIGHT, NO_VALUE, error};

/// All events, one a line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    /// What this thread says from now on.
    fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        (log.clone(), set_default(log))
    }

    /// How many lines there were with this text, since the last time that one asked for any.
    fn take(&self, text: &str) -> usize {
        std::mem::take(&mut *self.0.lock().unwrap()).lines().filter(|line| line.contains(text)).count()
    }
}

struct LogLine<'a>(&'a mut String);

impl Visit for LogLine<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock().unwrap();
        event.record(&mut LogLine(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

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
