//! PostgreSQL: every verb is one statement, and LISTEN wakes workers.

mod dialect;
pub(super) mod settings;
mod unique;
