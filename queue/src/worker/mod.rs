//! The worker: loops that share one [`Shared`](shared::Shared).
//!
//! ```text
//!            claim ──jobs──► run ──how each attempt ended──► record
//!              ▲ wake-ups      │ starts                        │
//!              │               ▼                               ▼
//!              └──────────── the database ◄── lease: heartbeats, and who is lost
//!                                         ◄── duties: rescue, retention, schedules, keys
//! ```
//!
//! | room | what it does |
//! |---|---|
//! | [`claim`] | Finds lanes that have jobs, plans which jobs are next, and claims them. |
//! | [`run`] | Holds claimed jobs until a slot is free, admits them, and runs their attempts. |
//! | [`record`] | Writes how attempts ended, in batches; sets aside what the database refuses. |
//! | [`lease`] | Sends heartbeats, and decides which other workers are lost. |
//! | [`duties`] | Takes back the jobs of lost workers, removes old finished jobs, fires schedules, and sweeps. |
//! | [`lifecycle`] | Starts the loops, and ends them: stop claiming, release, wait, cancel, leave. |

mod builder;
mod claim;
mod clock;
mod config;
#[cfg(feature = "schedules")]
mod declared;
mod duties;
#[cfg(test)]
mod fake;
mod lease;
mod lifecycle;
mod notices;
mod record;
mod run;
mod shared;

pub use builder::{Worker, WorkerBuilder};
#[cfg(feature = "testing")]
pub(crate) use run::attempt::{Attempt, AttemptRow, Ended, Env, LongArgs, Settled, Timing};
pub(crate) use shared::host;
