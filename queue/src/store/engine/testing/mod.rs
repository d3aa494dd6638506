//! For tests of users.

pub(crate) mod given;
pub(crate) mod test_store;
