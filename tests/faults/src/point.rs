//! Watches a worker's `tracing` events: writes them to the record, and kills or suspends the process at a given point.
//! The library has no hooks for this.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{Signal, raise};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::record::{Journal, What};

/// A point in the life of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Claimed, before its handler begins: the attempt's span is created.
    Claimed,
    /// In the handler.
    Handler,
    /// In the handler, after the fence and the writes of a step that it guards, before their commit.
    Guarded,
    /// In a transaction of the handler's own, before its first statement.
    Begun,
    /// In the handler's transaction, after its effects.
    Effects,
    /// In the handler's transaction, after `complete_in`.
    Completed,
    /// The handler has sent the commit, and has no answer.
    Commit,
    /// The handler has the answer to the commit.
    Committed,
    /// The handler has ended, and nothing is recorded yet: the `job.completed` event. If the handler has completed the
    /// job itself, it is recorded.
    Ended,
    /// While ends are recorded: the statement that writes the history has run. On PostgreSQL and SQLite that is the
    /// whole write, and the worker has not yet acted on the answer. Elsewhere the commit follows. It follows everywhere
    /// for a handler with a `Tx`.
    Recording,
}

impl Point {
    /// All that every job reaches, in this order.
    pub const OF_ANY_JOB: [Point; 4] = [Point::Claimed, Point::Handler, Point::Ended, Point::Recording];
    /// All around the commit of handlers that complete their jobs themselves.
    pub const OF_EFFECTS: [Point; 9] = [
        Point::Handler,
        Point::Guarded,
        Point::Begun,
        Point::Effects,
        Point::Completed,
        Point::Commit,
        Point::Committed,
        Point::Ended,
        Point::Recording,
    ];

    /// A handler has reached this point. It may be the end of the process.
    pub(crate) fn reach(self) {
        tracing::debug!(target: "queue_faults::handler", point = self.name());
    }

    fn of(name: &str) -> Option<Point> {
        Point::OF_ANY_JOB.into_iter().chain(Point::OF_EFFECTS).find(|point| point.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Point::Claimed => "claimed",
            Point::Handler => "handler",
            Point::Guarded => "guarded",
            Point::Begun => "begun",
            Point::Effects => "effects",
            Point::Completed => "completed",
            Point::Commit => "commit",
            Point::Committed => "committed",
            Point::Ended => "ended",
            Point::Recording => "recording",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When a process kills or suspends itself: the n-th time that it reaches a point. Written `point:n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The point.
    pub point: Point,
    /// The n-th time, from 1.
    pub time: u64,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.point, self.time)
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        let parse = || {
            let (name, time) = text.split_once(':')?;
            Some(Moment { point: Point::of(name)?, time: time.parse().ok()? })
        };
        parse().ok_or_else(|| format!("{text:?} is no point and number, such as claimed:3"))
    }
}

/// Watches events, records what the checker needs, and kills or suspends the process at the given moments.
#[derive(Debug)]
pub struct Watcher {
    journal: Journal,
    die: Option<Countdown>,
    stop: Option<Countdown>,
}

/// Counts the times until a moment comes.
#[derive(Debug)]
struct Countdown {
    moment: Moment,
    times: AtomicU64,
}

impl Countdown {
    fn new(moment: Moment) -> Countdown {
        Countdown { moment, times: AtomicU64::new(0) }
    }

    fn is_over(&self, point: Point) -> bool {
        point == self.moment.point && self.times.fetch_add(1, Ordering::Relaxed) + 1 == self.moment.time
    }
}

impl Watcher {
    /// Writes to the record of this process.
    pub fn new(journal: Journal, die: Option<Moment>, stop: Option<Moment>) -> Watcher {
        Watcher { journal, die: die.map(Countdown::new), stop: stop.map(Countdown::new) }
    }

    fn reached(&self, point: Point) {
        let comes = |countdown: &Option<Countdown>| countdown.as_ref().is_some_and(|it| it.is_over(point));
        // to this thread: it is the one that goes no further
        if comes(&self.die) {
            self.journal.write(What::Killed);
            let _ = raise(Signal::SIGKILL);
        }
        if comes(&self.stop) {
            self.journal.write(What::Stopped);
            let _ = raise(Signal::SIGSTOP);
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
        let target = event.metadata().target();
        if !target.starts_with("queue") && target != "sqlx::query" {
            return;
        }
        let mut said = Said::default();
        event.record(&mut said);
        if let Some(point) = said.point {
            return self.reached(point);
        }
        if said.writes_history {
            self.reached(Point::Recording);
        }
        match said.event.as_str() {
            "worker.started" => self.journal.write(What::ProcessStarted),
            "worker.lease_lost" => {
                if said.reason == "unanswered" {
                    self.journal.write(What::Unanswered);
                }
                self.journal.write(What::LeaseLost);
            }
            "database.lost" => self.journal.write(What::Unanswered),
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
    reason: String,
    job: i64,
    point: Option<Point>,
    writes_history: bool,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => value.clone_into(&mut self.event),
            "reason" => value.clone_into(&mut self.reason),
            "point" => self.point = Point::of(value),
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
    use super::{Moment, Point};

    #[test]
    fn a_moment_can_be_written_and_read() {
        for point in Point::OF_ANY_JOB.into_iter().chain(Point::OF_EFFECTS) {
            let moment = Moment { point, time: 3 };
            assert_eq!(moment.to_string().parse(), Ok(moment));
        }
        "claimed".parse::<Moment>().expect_err("no number");
        "nowhere:1".parse::<Moment>().expect_err("no point");
    }
}
