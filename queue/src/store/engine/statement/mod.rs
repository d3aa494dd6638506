//! Statements: where they lie, how they are put together, and how their rows are read.

pub(crate) mod many_lanes;
pub(crate) mod read;
pub(crate) mod script;
pub(crate) mod topics;
