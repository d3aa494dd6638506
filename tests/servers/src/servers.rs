//! One server of each kind.

use std::thread;

use anyhow::{Result, anyhow};

use crate::engine::Engine;
use crate::folder::remove_leftovers;
use crate::process;
use crate::recipe::Settings;
use crate::server::Server;

/// Servers that run until dropped.
#[derive(Debug, Default)]
pub struct Servers(Vec<Server>);

impl Servers {
    /// Starts one server of each engine that has servers.
    ///
    /// # Errors
    /// When one of them cannot be started, with a line for each of those.
    pub fn start(engines: &[Engine], settings: &Settings) -> Result<Servers> {
        remove_leftovers();
        let started: Vec<Result<Server>> = thread::scope(|scope| {
            let threads: Vec<_> = engines
                .iter()
                .filter(|engine| engine.variable().is_some())
                .map(|&engine| (engine, scope.spawn(move || Server::start(engine, settings))))
                .collect();
            let join = |(engine, thread): (Engine, thread::ScopedJoinHandle<'_, _>)| {
                let result = thread.join().unwrap_or_else(|_| Err(anyhow!("panicked")));
                result.map_err(|error| keep_interrupt(error, || format!("starting {engine}")))
            };
            threads.into_iter().map(join).collect()
        });
        let (mut servers, mut errors) = (Vec::new(), Vec::new());
        for result in started {
            match result {
                Ok(server) => servers.push(server),
                Err(error) => errors.push(error),
            }
        }
        match errors.len() {
            0 => Ok(Servers(servers)),
            1 => Err(errors.remove(0)),
            _ => {
                let interrupt = errors.iter().position(|error| error.is::<process::Interrupted>());
                let lines: Vec<String> = errors.iter().map(|error| format!("{error:#}")).collect();
                Err(interrupt.map_or_else(|| anyhow!(lines.join("\n")), |at| errors.swap_remove(at)))
            }
        }
    }

    /// The variables that point the tests at the servers.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        self.0.iter().filter_map(|server| Some((server.engine().variable()?, server.url()))).collect()
    }

    /// The address of the server of an engine.
    pub fn url(&self, engine: Engine) -> Option<String> {
        self.0.iter().find(|server| server.engine() == engine).map(Server::url)
    }

    /// Fails if a server has ended by itself.
    ///
    /// # Errors
    /// With the end of its log.
    pub fn check(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(Server::check)
    }
}

/// Adds context, but leaves the error of a Ctrl-C recognizable.
fn keep_interrupt(error: anyhow::Error, context: impl FnOnce() -> String) -> anyhow::Error {
    if error.is::<process::Interrupted>() { error } else { error.context(context()) }
}
