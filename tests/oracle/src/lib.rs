//! The ticks of schedules, held against a second opinion.
//!
//! The oracle is the Python program in `python/`: its own reading of cron, Python's `zoneinfo`, and a walk minute by
//! minute around each transition of a time zone. It shares neither code nor data structures with the library. Here, the
//! library's [`preview`](queue::schedule::Schedule::preview) is asked for the same ticks. Both are compared: instants
//! and kinds, for every expression and every pair of policies.

mod compare;
mod library;
mod python;
mod run;

pub use compare::{Comparison, Difference, Plant};
pub use python::{Python, why_not};
pub use run::{Args, Report, check, run};
