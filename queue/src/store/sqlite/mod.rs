//! SQLite: one writer at a time, in a file that several processes may share.

mod connections;
mod dialect;
mod in_memory;
mod poisoned;
pub(super) mod settings;
mod unique;
mod watch;
