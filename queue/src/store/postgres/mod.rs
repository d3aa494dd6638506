//! PostgreSQL: every verb is one statement, and LISTEN wakes workers.

#[cfg(feature = "postgres")]
mod dialect;
pub(super) mod schema;
#[cfg(feature = "postgres")]
pub(super) mod settings;
#[cfg(feature = "postgres")]
mod unique;
