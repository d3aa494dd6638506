//! A model of how workers and the database agree on who runs what: claim, lease, heartbeat, rescue, and the ends of
//! attempts. See `docs/model.md`.
//!
//! [`rows`] has the tables, and [`database`] the statements: each is one atomic step with the conditions of the SQL.
//! [`world`] has the processes, the messages between them and the database, and the possible faults. [`step`] lists
//! what can happen next. [`effects`] has handlers that complete their jobs in transactions of their own, and [`keys`]
//! a world of its own for unique jobs. [`search`] visits every reachable state. [`rules`] names the guards. A
//! test can remove each of them. [`replay`] checks a [`trace`] of a real database against [`database`].

pub mod canonical;
pub mod database;
pub mod effects;
pub mod keys;
pub mod moves;
pub mod replay;
pub mod rows;
pub mod rules;
pub mod search;
pub mod step;
mod tell;
pub mod trace;
pub mod world;
