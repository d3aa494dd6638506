//! Writes jobs to the database: through a pool, connection or transaction, one at a time or in groups.

pub(crate) mod group;
pub(crate) mod target;
pub(crate) mod tx;
