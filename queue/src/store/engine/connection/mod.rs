//! Connections: the user's pool and the worker's own ones, and how a verb runs on them.

pub(crate) mod access;
pub(crate) mod connecting;
pub(crate) mod distance;
pub(crate) mod line;
pub(crate) mod notify;
pub(crate) mod operation;
pub(crate) mod savepoint;
pub(crate) mod session;
pub(crate) mod write_queue;
