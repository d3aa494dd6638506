//! MySQL and MariaDB: one driver, two engines. No statement returns what it changed, so rows are locked first.

#[cfg(feature = "mysql")]
mod claim;
#[cfg(feature = "mysql")]
mod dialect;
#[cfg(feature = "mysql")]
mod discovery;
#[cfg(feature = "mysql")]
mod insert;
#[cfg(feature = "mysql")]
mod runs;
pub(super) mod schema;
#[cfg(feature = "mysql")]
pub(super) mod settings;
#[cfg(feature = "mysql")]
mod statement;
#[cfg(feature = "mysql")]
mod text;
#[cfg(feature = "mysql")]
mod unique;
