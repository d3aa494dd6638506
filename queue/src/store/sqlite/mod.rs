//! SQLite: one writer at a time, in a file that several processes may share.

mod connections;
mod dialect;
pub(super) mod settings;
mod unique;
mod watch;
