//! SQLite: one writer at a time, in a file that several processes may share.

#[cfg(feature = "sqlite")]
mod connections;
#[cfg(feature = "sqlite")]
mod dialect;
#[cfg(feature = "sqlite")]
mod in_memory;
#[cfg(feature = "sqlite")]
mod poisoned;
pub(super) mod schema;
#[cfg(feature = "sqlite")]
pub(super) mod settings;
#[cfg(feature = "sqlite")]
mod unique;
#[cfg(feature = "sqlite")]
mod watch;
