//! The lease: heartbeats that extend it, and conclusions from the heartbeats of others.

pub(crate) mod health;
pub(crate) mod heartbeat;
pub(crate) mod liveness;
pub(crate) mod own;
