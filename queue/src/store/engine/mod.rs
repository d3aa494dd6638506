//! The one implementation of [`Store`](crate::store::Store), over the [`Dialect`](dialect::Dialect) of an engine.
//!
//! | Room | |
//! |---|---|
//! | [`dialect`] | What engines differ in |
//! | [`driver`] | How to run a statement on any of them |
//! | [`statement`] | Where statements lie, how they are put together, how rows are read |
//! | [`connection`] | The pool and the worker's own connections, sessions, turns to write, signals |
//! | [`jobs`] | The way of a job: enqueue, claim, start, end, retention |
//! | [`leases`] | Workers: heartbeats, losses, rescue |
//! | `inspect`, `gauges`, `tallies`, `changes`, `operations` | What people see, what they change, the record of it |
//! | [`unique`], `schedules` | What features add |
//! | [`migrate`] | The schema |

pub(crate) mod changes;
pub(crate) mod connection;
pub(crate) mod dialect;
pub(crate) mod driver;
mod gauges;
pub(crate) mod inspect;
pub(crate) mod jobs;
mod leases;
pub(crate) mod migrate;
mod operations;
#[cfg(feature = "schedules")]
pub(crate) mod schedules;
pub(crate) mod statement;
mod tallies;
#[cfg(feature = "testing")]
pub(crate) mod testing;
pub(crate) mod unique;

#[cfg(test)]
pub(crate) mod tests;
