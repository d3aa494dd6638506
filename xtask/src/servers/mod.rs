//! Throwaway database servers on free ports of the loopback interface.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use nix::sys::signal::Signal;

use self::folder::{Folder, remove_leftovers};
use crate::account::Account;
use crate::engine::Engine;
use crate::process::{self, Supervised, check_interrupted};

pub(crate) mod command;
mod detached;
mod folder;
pub(crate) mod mariadb;
mod mysql;
mod mysql_packages;
pub(crate) mod postgres;
mod sources;

/// Connections that a server accepts. Tests run side by side, each with pools of its own.
const MAX_CONNECTIONS: u32 = 500;

/// What a server may lose when the machine fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Nothing: as the server comes, for measurements.
    Stock,
    /// Everything: quick, for tests.
    Relaxed,
}

/// Servers that run until dropped.
#[derive(Debug, Default)]
pub(crate) struct Servers(Vec<Server>);

#[derive(Debug)]
struct Server {
    engine: Engine,
    url: String,
    // Before the folder: fields are dropped in this order.
    process: Supervised,
    folder: Folder,
}

/// What it takes to start a server whose data directory has been made.
struct Recipe {
    program: PathBuf,
    args: Vec<String>,
    account: Option<Account>,
    /// Ends the server at once; its data is not needed any more.
    stop: Signal,
    /// What the server writes to its log when it accepts connections.
    ready: &'static str,
    /// The address, with `PORT` in place of the port.
    url: &'static str,
}

impl Servers {
    /// Starts one server of each engine. Must be called on a thread that lives as long as the servers do.
    pub(crate) fn start(engines: &[Engine], durability: Durability) -> Result<Servers> {
        remove_leftovers();
        let prepared: Vec<Result<(Engine, Folder, Recipe)>> = thread::scope(|scope| {
            let threads: Vec<_> = engines
                .iter()
                .filter(|engine| engine.variable().is_some())
                .map(|&engine| (engine, scope.spawn(move || prepare(engine, durability))))
                .collect();
            let join = |(engine, thread): (Engine, thread::ScopedJoinHandle<'_, _>)| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow!("panicked")))
                    .map(|(folder, recipe)| (engine, folder, recipe))
                    .map_err(|error| keep_interrupt(error, || format!("preparing {engine}")))
            };
            threads.into_iter().map(join).collect()
        });
        // On this thread, since a server is told when the thread that started it ends.
        let mut servers = Servers::default();
        for it in prepared {
            let (engine, folder, recipe) = it?;
            let server = Server::start(engine, folder, &recipe)
                .map_err(|error| keep_interrupt(error, || format!("starting {engine}")))?;
            servers.0.push(server);
        }
        Ok(servers)
    }

    /// The variables that point the tests at the servers.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        self.0.iter().filter_map(|server| Some((server.engine.variable()?, server.url.clone()))).collect()
    }

    /// Fails if a server has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        for server in &mut self.0 {
            if let Some(status) = server.process.ended()? {
                bail!("{} ended by itself ({status}):\n{}", server.engine, server.folder.log_tail());
            }
        }
        Ok(())
    }
}

/// Adds context, but leaves the error of a Ctrl-C recognizable.
fn keep_interrupt(error: anyhow::Error, context: impl FnOnce() -> String) -> anyhow::Error {
    if error.is::<process::Interrupted>() { error } else { error.context(context()) }
}

fn prepare(engine: Engine, durability: Durability) -> Result<(Folder, Recipe)> {
    let account = Account::for_server(if engine == Engine::Postgres { "postgres" } else { "mysql" })?;
    let folder = Folder::create(engine, account.as_ref())?;
    let recipe = match engine {
        Engine::Postgres => postgres::prepare(&folder, account, durability)?,
        Engine::Mariadb => mariadb::prepare(&folder, account, durability)?,
        Engine::Mysql => mysql::prepare(&folder, account, durability)?,
        Engine::Sqlite => bail!("SQLite has no server"),
    };
    Ok((folder, recipe))
}

impl Server {
    fn start(engine: Engine, folder: Folder, recipe: &Recipe) -> Result<Server> {
        // Between the choice of a port and its use, another program may take it.
        let mut attempts = 3;
        loop {
            attempts -= 1;
            let port = free_port()?;
            match start_on(port, &folder, recipe) {
                Ok(process) => {
                    let url = recipe.url.replace("PORT", &port.to_string());
                    return Ok(Server { engine, url, process, folder });
                }
                Err(error) if attempts == 0 || error.is::<process::Interrupted>() => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }
}

fn start_on(port: u16, folder: &Folder, recipe: &Recipe) -> Result<Supervised> {
    let log = File::create(folder.log()).context("creating the server's log")?;
    let mut command = process::command(&recipe.program, recipe.account.as_ref(), recipe.stop);
    command.args(&recipe.args).arg(format!("--port={port}"));
    command.stdout(log.try_clone()?).stderr(log);
    let mut process = Supervised::spawn(command, recipe.stop)?;
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = process.ended()? {
            bail!("the server ended at once ({status}):\n{}", folder.log_tail());
        }
        if folder.log_text().contains(recipe.ready) && accepts(port) {
            return Ok(process);
        }
        if Instant::now() > patience {
            bail!("the server was not ready within a minute:\n{}", folder.log_tail());
        }
        check_interrupted()?;
        sleep(process::TICK);
    }
}

fn accepts(port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Duration::from_secs(1)).is_ok()
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}

/// The path as the argument of an option.
fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}
