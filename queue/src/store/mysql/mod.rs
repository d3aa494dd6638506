//! MySQL and MariaDB: one driver, two engines. No statement returns what it changed, so rows are locked first.

mod claim;
mod dialect;
mod discovery;
mod insert;
pub(super) mod settings;
mod statement;
mod unique;
