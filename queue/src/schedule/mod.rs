//! Schedules: when periodic jobs are due, and what happens around clock changes, missed ticks and overlapping jobs.
//!
//! [`#[job(schedule = …)]`](macro@crate::job) declares a schedule in code, and
//! [`Admin::schedule`](crate::admin::Admin::schedule) makes one at run time.
//!
//! ```
//! use queue::schedule::{Periodic, Schedule};
//!
//! #[queue::job]
//! async fn report(shop: u32) {
//!     println!("{shop}");
//! }
//!
//! # fn main() -> Result<(), queue::Error> {
//! let nightly = Periodic::new("report-7", Schedule::cron("0 3 * * * Europe/Berlin")?, Report { shop: 7 });
//! assert_eq!(nightly.name(), "report-7");
//! # Ok(()) }
//! ```

pub(crate) mod calendar;
pub(crate) mod definition;
pub(crate) mod expression;
pub(crate) mod plan;
pub(crate) mod spec;

pub use crate::admin_schedules::{ScheduleInfo, TickInfo};
pub use crate::context::Tick;
pub use crate::job::Periodic;
pub use calendar::{Fold, Gap, TickKind};
pub use spec::{Missed, Overlap, Preview, Schedule, Upcoming};
