//! What is asked of a server, and what it takes to start it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use nix::sys::signal::Signal;

use crate::account::Account;
use crate::engine::Engine;
use crate::folder::Folder;
use crate::{mariadb, mysql, postgres};

/// Connections that a server accepts. Tests run side by side, each with pools of its own.
const MAX_CONNECTIONS: u32 = 500;

/// What a server may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: as the server comes, for measurements.
    Stock,
    /// Everything when the machine fails, nothing when the server is killed: nothing is forced to the disk, and
    /// everything is given to the system before a commit is answered.
    Process,
    /// Everything: quick, for tests.
    Relaxed,
}

/// What is asked of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) durability: Durability,
    pub(crate) max_connections: u32,
    pub(crate) args: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) place: Option<PathBuf>,
    pub(crate) postgres: Option<u32>,
}

impl Settings {
    /// 500 connections, and nothing else special. PostgreSQL is of the version that its variable names.
    pub fn new(durability: Durability) -> Settings {
        Settings {
            durability,
            max_connections: MAX_CONNECTIONS,
            args: Vec::new(),
            variables: Vec::new(),
            place: None,
            postgres: postgres::version(),
        }
    }

    /// The major version of PostgreSQL; without one, the newest that the machine has.
    pub fn postgres(mut self, version: Option<u32>) -> Settings {
        self.postgres = version;
        self
    }

    /// How many connections it accepts.
    pub fn max_connections(mut self, connections: u32) -> Settings {
        self.max_connections = connections;
        self
    }

    /// One more argument of the server's program, behind those that it has anyway.
    pub fn arg(mut self, arg: impl Into<String>) -> Settings {
        self.args.push(arg.into());
        self
    }

    /// A variable of the server's environment.
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Settings {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// The folder in which the server's own is made, instead of `target/servers`. Every user must be able to enter it.
    pub fn place(mut self, folder: impl Into<PathBuf>) -> Settings {
        self.place = Some(folder.into());
        self
    }
}

/// What it takes to start a server whose data directory has been made.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) account: Option<Account>,
    /// Ends the server in good order, however many clients it has.
    pub(crate) stop: Signal,
    /// Ends the server at once; its data is not needed any more.
    pub(crate) end: Signal,
    /// What the server writes to its log when it accepts connections.
    pub(crate) ready: &'static str,
    /// The address, with `PORT` in place of the port.
    pub(crate) url: &'static str,
}

impl Recipe {
    /// Makes the data directory.
    pub(crate) fn prepare(engine: Engine, settings: &Settings) -> Result<(Folder, Recipe)> {
        let account = Account::for_server(if engine == Engine::Postgres { "postgres" } else { "mysql" })?;
        let folder = Folder::create(engine, account.as_ref(), settings.place.as_deref())?;
        let mut recipe = match engine {
            Engine::Postgres => postgres::prepare(&folder, account, settings)?,
            Engine::MariaDb => mariadb::prepare(&folder, account, settings)?,
            Engine::MySql => mysql::prepare(&folder, account, settings)?,
            Engine::Sqlite => bail!("SQLite has no server"),
        };
        recipe.args.extend(settings.args.iter().cloned());
        recipe.variables.extend(settings.variables.iter().cloned());
        Ok((folder, recipe))
    }
}

/// The path as the argument of an option.
pub(crate) fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}
