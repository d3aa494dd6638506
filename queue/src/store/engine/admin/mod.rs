//! The administration: what it shows, and what it changes.

pub(crate) mod changes;
pub(crate) mod gauges;
pub(crate) mod inspect;
