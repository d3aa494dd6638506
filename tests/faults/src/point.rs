//! Watches a worker's `tracing` events: writes them to the record, and kills the process at a given point. The library
//! has no hooks for this.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::record::{Journal, What};

/// A moment in the life of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Claimed, before its handler begins: the attempt's span is created.
    Claimed,
    /// In the handler.
    Handler,
    /// The handler has ended, and nothing is recorded yet: the `job.completed` event.
    Ended,
    /// While ends are recorded: the statement that writes the history has run. On PostgreSQL and SQLite that is the
    /// whole write, and the worker has not yet acted on the answer. Elsewhere the commit follows.
    Recording,
}

impl Point {
    /// All points, in the order in which a job reaches them.
    pub const ALL: [Point; 4] = [Point::Claimed, Point::Handler, Point::Ended, Point::Recording];
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Point::Claimed => "claimed",
            Point::Handler => "handler",
            Point::Ended => "ended",
            Point::Recording => "recording",
        })
    }
}

/// When a process kills itself: the n-th time that it reaches a point. Written `point:n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// The point.
    pub point: Point,
    /// The n-th time, from 1.
    pub time: u64,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.point, self.time)
    }
}

impl FromStr for Death {
    type Err = String;

    fn from_str(text: &str) -> Result<Death, String> {
        let parse = || {
            let (name, time) = text.split_once(':')?;
            let point = Point::ALL.into_iter().find(|point| point.to_string() == name)?;
            Some(Death { point, time: time.parse().ok()? })
        };
        parse().ok_or_else(|| format!("{text:?} is no point and number, such as claimed:3"))
    }
}

/// Watches events, records what the checker needs, and kills the process at the given moment.
#[derive(Debug)]
pub struct Watcher {
    journal: Journal,
    death: Option<Death>,
    times: AtomicU64,
}

impl Watcher {
    /// Writes to the record of this process.
    pub fn new(journal: Journal, death: Option<Death>) -> Watcher {
        Watcher { journal, death, times: AtomicU64::new(0) }
    }

    fn reached(&self, point: Point) {
        let Some(death) = self.death.filter(|death| death.point == point) else { return };
        if self.times.fetch_add(1, Ordering::Relaxed) + 1 == death.time {
            self.journal.write(What::Killed);
            let _ = kill(Pid::this(), Signal::SIGKILL);
        }
    }
}

impl<S: Subscriber> Layer<S> for Watcher {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if span.metadata().name() == "job" {
            self.reached(Point::Claimed);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        match event.metadata().target() {
            "queue_faults::handler" => return self.reached(Point::Handler),
            target if !target.starts_with("queue") && target != "sqlx::query" => return,
            _ => {}
        }
        let mut said = Said::default();
        event.record(&mut said);
        if said.writes_history {
            self.reached(Point::Recording);
        }
        match said.event.as_str() {
            "worker.started" => self.journal.write(What::ProcessStarted),
            "worker.lease_lost" => self.journal.write(What::LeaseLost),
            "job.refused" => self.journal.write(What::Refused { job: said.job }),
            "job.completed" => self.reached(Point::Ended),
            _ => {}
        }
    }
}

/// The fields that matter here.
#[derive(Debug, Default)]
struct Said {
    event: String,
    job: i64,
    writes_history: bool,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => value.clone_into(&mut self.event),
            "summary" | "db.statement" => self.writes_history |= value.contains("INTO queue_history"),
            _ => {}
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "job.id" {
            self.job = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

#[cfg(test)]
mod tests {
    use super::{Death, Point};

    #[test]
    fn a_moment_can_be_written_and_read() {
        for point in Point::ALL {
            let death = Death { point, time: 3 };
            assert_eq!(death.to_string().parse(), Ok(death));
        }
        "claimed".parse::<Death>().expect_err("no number");
        "nowhere:1".parse::<Death>().expect_err("no point");
    }
}
