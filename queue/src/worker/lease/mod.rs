//! The lease: heartbeats that extend it, and what is concluded from those of others.

pub(crate) mod health;
pub(crate) mod heartbeat;
pub(crate) mod liveness;
