//! A schedule of a typed job.

use crate::error::Error;
use crate::job::{Enqueue, Job};
use crate::schedule::Schedule;
use crate::schedule::definition::Definition;

/// A schedule with the job that it enqueues at each tick. [`#[job(schedule = …)]`](crate::job) declares them.
///
/// ```
/// use queue::{Periodic, Schedule, job};
///
/// #[job]
/// async fn report(shop: u32) {
///     println!("{shop}");
/// }
///
/// # fn main() -> Result<(), queue::Error> {
/// let nightly = Periodic::new("report-7", Schedule::cron("@daily Europe/Berlin")?, Report { shop: 7 });
/// # let _ = nightly; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Periodic<J> {
    name: String,
    schedule: Schedule,
    job: Enqueue<J>,
}

impl<J: Job> Periodic<J> {
    /// A schedule has a name of at most 128 bytes, which is unique in its database. The job may have options: a queue,
    /// a priority and a number of retries.
    pub fn new(name: impl Into<String>, schedule: Schedule, job: impl Into<Enqueue<J>>) -> Self {
        Self { name: name.into(), schedule, job: job.into() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it ticks. So a test can [`preview`](Schedule::preview) what code declares: `Report::schedules()?`.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub(crate) fn definition(self) -> Result<Definition, Error> {
        let Self { name, schedule, job } = self;
        let job = job.into_row()?;
        if job.delay_us.is_some() || job.run_at_us.is_some() {
            return Err(Error::config(format!(
                "the job of the schedule `{}` has a time of its own: leave `after` and `at` out, its ticks say when",
                name.escape_debug()
            )));
        }
        Definition::new(name, &schedule, job)
    }
}
