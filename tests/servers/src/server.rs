//! One server, which can be killed, stopped and started again.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::engine::Engine;
use crate::folder::Folder;
use crate::port;
use crate::process::{self, Supervised, check_interrupted};
use crate::recipe::{Recipe, Settings};

/// How long a server may take to start, recovery included.
const START: Duration = Duration::from_secs(60);
/// How long the processes of a killed server may take to end: they hold its memory until then.
const END: Duration = Duration::from_secs(20);

/// A server with a data directory and a port of its own. Ended, and its data removed, when dropped.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    port: u16,
    // Before the folder: fields are dropped in this order.
    process: Option<Supervised>,
    recipe: Recipe,
    folder: Folder,
}

impl Server {
    /// Makes a data directory and starts a server on it, on a free port.
    ///
    /// # Errors
    /// When it cannot be started; the message has the end of its log.
    pub fn start(engine: Engine, settings: &Settings) -> Result<Server> {
        let mut server = Server::prepare(engine, settings)?;
        server.start_first()?;
        Ok(server)
    }

    /// Makes the data directory, and starts nothing yet: [`start_again`](Server::start_again) does.
    ///
    /// # Errors
    /// When the server's programs are missing or fail.
    pub fn prepare(engine: Engine, settings: &Settings) -> Result<Server> {
        let (folder, recipe) = Recipe::prepare(engine, settings)?;
        Server::on(engine, folder, recipe)
    }

    /// On a data directory that is there, or that the server fills itself.
    pub(crate) fn on(engine: Engine, folder: Folder, recipe: Recipe) -> Result<Server> {
        Ok(Server { engine, port: port::free()?, process: None, recipe, folder })
    }

    /// A program beside the server's, as its user.
    pub(crate) fn program(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        process::command(program, self.recipe.account.as_ref(), Signal::SIGTERM)
    }

    /// The path of a program that came with the server's.
    pub(crate) fn beside(&self, program: &str) -> PathBuf {
        self.recipe.program.with_file_name(program)
    }

    /// The server's own program with its arguments, for a run that is over by itself.
    pub(crate) fn same_program(&self) -> Command {
        let mut command = self.program(&self.recipe.program);
        command.args(&self.recipe.args);
        command
    }

    /// Says what it writes to its log when it is ready, where that is not the usual.
    pub(crate) fn ready_at(&mut self, text: &'static str) {
        self.recipe.ready = text;
    }

    /// Between the choice of a port and its use, another program may take it.
    pub(crate) fn start_first(&mut self) -> Result<()> {
        for _ in 0..2 {
            match self.start_again() {
                Err(error) if !error.is::<process::Interrupted>() => self.port = port::free()?,
                result => return result,
            }
        }
        self.start_again()
    }

    /// Starts it, on the data that are there and on the same port as before. Returns when it accepts connections.
    ///
    /// # Errors
    /// When it runs already or cannot be started; the message has the end of its log.
    pub fn start_again(&mut self) -> Result<()> {
        if self.process.is_some() {
            bail!("{} runs already", self.engine);
        }
        let log = File::create(self.folder.log()).context("creating the server's log")?;
        // Variables are the server's alone: what is preloaded must not be at work before the change of the user.
        let mut command = process::command("env", self.recipe.account.as_ref(), self.recipe.end);
        command.args(self.recipe.variables.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(&self.recipe.program).args(&self.recipe.args).arg(format!("--port={}", self.port));
        command.stdout(log.try_clone()?).stderr(log);
        let process = Supervised::spawn(command, self.recipe.end)?;
        self.process = Some(self.ready(process)?);
        Ok(())
    }

    fn ready(&self, mut process: Supervised) -> Result<Supervised> {
        let patience = Instant::now() + START;
        loop {
            if let Some(status) = process.ended()? {
                bail!("the server ended at once ({status}):\n{}", self.folder.log_tail());
            }
            if self.folder.log_text().contains(self.recipe.ready) && port::accepts(self.port) {
                return Ok(process);
            }
            if Instant::now() > patience {
                bail!("the server was not ready within {START:?}:\n{}", self.folder.log_tail());
            }
            check_interrupted()?;
            sleep(process::TICK);
        }
    }

    /// Kills the server and all its processes with `kill -9`, as the out-of-memory killer does. Waits for their end.
    ///
    /// # Errors
    /// When it does not run, or one of its processes does not end.
    pub fn kill(&mut self) -> Result<()> {
        let mut process = self.take()?;
        let all = process::kill_family(process.id())?;
        let patience = Instant::now() + END;
        while process.ended()?.is_none() || all.iter().any(|pid| process::is_alive(*pid)) {
            if Instant::now() > patience {
                bail!("{} was killed, and {END:?} later one of its processes is still there", self.engine);
            }
            sleep(process::TICK);
        }
        Ok(())
    }

    /// Ends it in good order and waits for its end. What is committed is on the disk then, and clients are cut off.
    ///
    /// # Errors
    /// When it does not run, or does not end within a minute.
    pub fn stop(&mut self) -> Result<()> {
        let mut process = self.take()?;
        kill(Pid::from_raw(process.id().cast_signed()), self.recipe.stop).context("telling the server to stop")?;
        let patience = Instant::now() + START;
        while process.ended()?.is_none() {
            if Instant::now() > patience {
                bail!("{} did not stop within {START:?}:\n{}", self.engine, self.folder.log_tail());
            }
            check_interrupted()?;
            sleep(process::TICK);
        }
        Ok(())
    }

    /// Stops all its processes where they are (SIGSTOP), or lets them go on (SIGCONT).
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self, pause: bool) -> Result<()> {
        let process = self.process.as_ref().with_context(|| format!("{} does not run", self.engine))?;
        let signal = if pause { Signal::SIGSTOP } else { Signal::SIGCONT };
        for pid in process::family(process.id()) {
            let _ = kill(Pid::from_raw(pid.cast_signed()), signal);
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Supervised> {
        self.process.take().with_context(|| format!("{} does not run", self.engine))
    }

    /// Whether it runs. One that has ended by itself can be started again.
    pub fn is_running(&mut self) -> bool {
        if self.check().is_err() {
            self.process = None;
        }
        self.process.is_some()
    }

    /// Fails if it has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(process) = &mut self.process
            && let Some(status) = process.ended()?
        {
            bail!("{} ended by itself ({status}):\n{}", self.engine, self.folder.log_tail());
        }
        Ok(())
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The address, with an account that may do everything.
    pub fn url(&self) -> String {
        self.recipe.url.replace("PORT", &self.port.to_string())
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The number of its process; `None` while it does not run.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Supervised::id)
    }

    /// Its data directory.
    pub fn data(&self) -> PathBuf {
        self.folder.data()
    }

    /// The user that it runs as, if that is another one than ours.
    pub fn account(&self) -> Option<&crate::Account> {
        self.recipe.account.as_ref()
    }

    /// One more argument, or variable, from the next start on.
    pub fn reconfigure(&mut self, args: &[&str], variables: &[(&str, &str)]) {
        self.recipe.args.extend(args.iter().map(|&arg| arg.to_owned()));
        self.recipe.variables.extend(variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
    }

    /// What it wrote to its log since it was started last.
    pub fn log(&self) -> String {
        self.folder.log_text()
    }
}
