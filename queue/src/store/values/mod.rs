//! The values that the workers and the store exchange.

mod attempts;
mod lanes;
mod new_jobs;
mod tallies;
mod workers;

pub use attempts::{AttemptOutcome, Claimed};
pub(crate) use attempts::{Destination, End, Hold, RunningRow, Start};
pub(crate) use lanes::{Ask, Found, Lane, LaneHead, NEVER, Place, Rank, Reach, Scope, Share};
pub(crate) use new_jobs::{NewJob, Refusal, Unwritten, Whose};
pub(crate) use tallies::{FailureRow, TallyRow};
pub(crate) use workers::{Heartbeat, Holding, Lease, NewWorker, Rescued, Sight, WorkerId};
