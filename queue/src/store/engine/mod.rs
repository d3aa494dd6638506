//! The one implementation of [`Store`](crate::store::Store), over the [`Dialect`](dialect::Dialect) of an engine.
//!
//! | | |
//! |---|---|
//! | verbs | [`access`], [`jobs`], [`leases`], [`upkeep`], [`inspect`] and [`changes`], [`migrate`] |
//! | what engines differ in | [`dialect`], [`statements`] |
//! | running a statement | [`operation`] with [`pauses`], on a [`connection`], inside a [`savepoint`] or the [`write_queue`] |
//! | what features add | [`unique`] and `schedules` |
//! | enqueueing, starts and ends | [`enqueue`], [`insert`], [`ends`], [`complete`] |
//! | shapes of statements | [`script`], [`runs`], `many_lanes`, [`read`] |
//! | transactions that a driver lost track of | [`poisoned`] |
//! | tests of users | [`given`], [`test_store`] |
//! | the server | [`session`], [`distance`], [`notify`] |

mod access;
mod changes;
pub(crate) mod complete;
pub(crate) mod connection;
pub(crate) mod dialect;
pub(crate) mod distance;
mod ends;
pub(crate) mod enqueue;
#[cfg(feature = "testing")]
pub(crate) mod given;
#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "without an engine there are no statements")
)]
pub(crate) mod insert;
pub(crate) mod inspect;
mod jobs;
mod leases;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) mod many_lanes;
pub(crate) mod migrate;
pub(crate) mod notify;
pub(crate) mod operation;
mod pauses;
pub(crate) mod poisoned;
pub(crate) mod read;
pub(crate) mod runs;
pub(crate) mod savepoint;
#[cfg(feature = "schedules")]
pub(crate) mod schedules;
pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod statements;
#[cfg(feature = "testing")]
pub(crate) mod test_store;
pub(crate) mod unique;
mod upkeep;
pub(crate) mod write_queue;

#[cfg(test)]
pub(crate) mod tests;
