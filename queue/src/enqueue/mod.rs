//! How a job gets into the database: through which pool, connection or transaction, alone or with others.

pub(crate) mod group;
pub(crate) mod target;
