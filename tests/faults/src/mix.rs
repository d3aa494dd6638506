//! What the producers of the load enqueue.

use std::time::Duration;

use fastrand::Rng;

use crate::jobs::Plan;

/// What producers enqueue, and how.
#[derive(Clone, Debug)]
pub struct Mix {
    /// How many producers there are.
    pub producers: usize,
    /// Most jobs in a bulk enqueue.
    pub bulk: usize,
    /// The longest pause between two enqueues of a producer.
    pub pause: Duration,
    /// Some jobs are delayed, and have priorities.
    pub varied: bool,
    /// How many of ten enqueues are delayed, if `varied`: half by a duration, half until a time of day.
    pub delayed: u32,
    /// What the jobs do.
    pub plan: fn(&mut Rng) -> Plan,
    /// The queue that one worker serves, one job at a time.
    pub ordered: Option<&'static str>,
    /// Producers pause while more jobs than this wait: otherwise suspended workers or a slow machine would never catch
    /// up. `None` to avoid counting the table.
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

    /// As many jobs as the workers can run, with a short backlog, so that rescued jobs need not wait behind others.
    pub fn dense() -> Mix {
        Mix { producers: 4, bulk: 200, pause: Duration::from_millis(20), plan: brisk, ahead: Some(500), ..Mix::usual() }
    }
}

/// Mostly short successful jobs. Some fail, panic, snooze, or take longer.
pub fn everyday(rng: &mut Rng) -> Plan {
    match rng.u32(..100) {
        0..6 => Plan::Fail { times: rng.u32(1..3), retry_ms: rng.u64(50..400) },
        6..8 => Plan::Panic,
        8..12 => Plan::Snooze { ms: rng.u64(50..400) },
        12..18 => Plan::Ok { ms: rng.u64(200..900) },
        _ => Plan::Ok { ms: rng.u64(..20) },
    }
}

/// As [`everyday`], with fewer long jobs, for a high rate.
pub fn brisk(rng: &mut Rng) -> Plan {
    match rng.u32(..100) {
        0..3 => Plan::Fail { times: rng.u32(1..3), retry_ms: rng.u64(50..400) },
        3 => Plan::Panic,
        4 => Plan::Snooze { ms: rng.u64(50..400) },
        5..7 => Plan::Ok { ms: rng.u64(200..900) },
        _ => Plan::Ok { ms: rng.u64(..10) },
    }
}

/// As [`everyday`], without long jobs: to compare rates, every part of the queue must take the same time.
pub fn quick(rng: &mut Rng) -> Plan {
    match rng.u32(..100) {
        0..6 => Plan::Fail { times: rng.u32(1..3), retry_ms: rng.u64(50..400) },
        6..8 => Plan::Panic,
        8..12 => Plan::Snooze { ms: rng.u64(50..400) },
        _ => short(rng),
    }
}

/// Short successful jobs.
pub fn short(rng: &mut Rng) -> Plan {
    Plan::Ok { ms: rng.u64(..3) }
}

/// Successful jobs of 0.1 to 0.5 s.
pub fn long(rng: &mut Rng) -> Plan {
    Plan::Ok { ms: rng.u64(100..500) }
}

/// Jobs of 0.1 to 0.5 s, with every possible end.
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
