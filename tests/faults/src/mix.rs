//! What the producers of the load enqueue.

use std::time::Duration;

use fastrand::Rng;

use crate::jobs::Plan;

/// What producers enqueue, and how.
#[derive(Clone, Debug)]
pub struct Mix {
    /// How many there are.
    pub producers: usize,
    /// Jobs in a bulk enqueue, at most.
    pub bulk: usize,
    /// The longest pause between two enqueues of a producer.
    pub pause: Duration,
    /// Some jobs are delayed, and have priorities.
    pub varied: bool,
    /// How many of ten enqueues are delayed, if some are: half of them by a pause, half until a time of day.
    pub delayed: u32,
    /// What the jobs do.
    pub plan: fn(&mut Rng) -> Plan,
    /// The queue that one worker serves, one job at a time.
    pub ordered: Option<&'static str>,
    /// Producers pause while more jobs than this wait: workers that stand still, or a slow machine, would never
    /// come to the end. `None` where looking at the table is not wanted.
    pub ahead: Option<i64>,
}

impl Mix {
    /// Two producers of short jobs of every kind.
    pub fn usual() -> Mix {
        Mix {
            producers: 2,
            bulk: 40,
            pause: Duration::from_millis(150),
            varied: true,
            delayed: 1,
            plan: everyday,
            ordered: None,
            ahead: Some(1000),
        }
    }

    /// As many as the workers can do, and few that wait: those that are rescued need not stand in line.
    pub fn dense() -> Mix {
        Mix { producers: 4, bulk: 200, pause: Duration::from_millis(20), plan: brisk, ahead: Some(500), ..Mix::usual() }
    }
}

/// Mostly short and well; some fail, panic, snooze, or take a while.
pub fn everyday(rng: &mut Rng) -> Plan {
    match rng.u32(..100) {
        0..6 => Plan::Fail { times: rng.u32(1..3), retry_ms: rng.u64(50..400) },
        6..8 => Plan::Panic,
        8..12 => Plan::Snooze { ms: rng.u64(50..400) },
        12..18 => Plan::Ok { ms: rng.u64(200..900) },
        _ => Plan::Ok { ms: rng.u64(..20) },
    }
}

/// As [`everyday`], with fewer that take a while: many a second.
pub fn brisk(rng: &mut Rng) -> Plan {
    match rng.u32(..100) {
        0..3 => Plan::Fail { times: rng.u32(1..3), retry_ms: rng.u64(50..400) },
        3 => Plan::Panic,
        4 => Plan::Snooze { ms: rng.u64(50..400) },
        5..7 => Plan::Ok { ms: rng.u64(200..900) },
        _ => Plan::Ok { ms: rng.u64(..10) },
    }
}

/// As [`everyday`], and none takes a while: where rates are compared, a stretch of the queue must cost what any other does.
pub fn quick(rng: &mut Rng) -> Plan {
    match rng.u32(..100) {
        0..6 => Plan::Fail { times: rng.u32(1..3), retry_ms: rng.u64(50..400) },
        6..8 => Plan::Panic,
        8..12 => Plan::Snooze { ms: rng.u64(50..400) },
        _ => short(rng),
    }
}

/// Short and well.
pub fn short(rng: &mut Rng) -> Plan {
    Plan::Ok { ms: rng.u64(..3) }
}

/// A tenth to half a second, and well.
pub fn long(rng: &mut Rng) -> Plan {
    Plan::Ok { ms: rng.u64(100..500) }
}

/// A tenth to half a second, and every end that a handler can have.
pub fn late(rng: &mut Rng) -> Plan {
    let then = match rng.u32(..10) {
        0..2 => Plan::Fail { times: rng.u32(1..3), retry_ms: rng.u64(50..400) },
        2 => Plan::Panic,
        3..5 => Plan::Snooze { ms: rng.u64(50..400) },
        5 => Plan::Dead,
        6 => Plan::Cancel,
        _ => return long(rng),
    };
    Plan::Late { ms: rng.u64(100..500), then: Box::new(then) }
}
