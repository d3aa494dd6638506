//! Throwaway database servers, for the commands of this repository and for tests that want one of their own to kill.
//!
//! ```no_run
//! use queue_test_servers::{Durability, Engine, Server, Settings};
//!
//! # fn main() -> anyhow::Result<()> {
//! let mut server = Server::start(Engine::Postgres, &Settings::new(Durability::Process))?;
//! println!("{}", server.url());
//! server.kill()?;    // kill -9: the server and every process of its own
//! server.start_again()?;   // the same data directory, the same port
//! server.stop()?;    // an orderly end; the data stay until `server` is dropped
//! # Ok(()) }
//! ```

mod account;
mod debian;
mod engine;
mod folder;
pub mod galera;
mod galera_scripts;
pub mod mariadb;
mod mysql;
pub mod paths;
pub mod pgbouncer;
mod port;
pub mod postgres;
pub mod postgres_wheel;
pub mod process;
pub mod programs;
mod recipe;
mod replica;
mod server;
mod servers;
mod sources;

pub use account::{Account, is_root};
pub use engine::Engine;
pub use galera::Galera;
pub use pgbouncer::PgBouncer;
pub use recipe::{Durability, Settings};
pub use replica::Replicated;
pub use server::Server;
pub use servers::Servers;
