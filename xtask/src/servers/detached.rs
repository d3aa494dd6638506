//! Servers that go on running in the background, kept by a process of their own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::install::install;
use queue_test_servers::Engine;
use queue_test_servers::paths;
use queue_test_servers::process::{self, check_interrupted};

/// The first line of the report, which names the process that keeps the servers.
const KEEPER: &str = "# kept by process ";

fn path() -> PathBuf {
    paths::servers().join("env")
}

/// The file that says that the servers run, with their variables. Removed when dropped.
pub(super) struct Report(PathBuf);

impl Report {
    pub(super) fn write(path: &Path, variables: &str) -> Result<Report> {
        // Renamed into place, since its appearance is the signal.
        let draft = path.with_extension("draft");
        fs::write(&draft, format!("{KEEPER}{}\n{variables}", std::process::id()))
            .and_then(|()| fs::rename(&draft, path))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(Report(path.into()))
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The process that keeps the servers, and their variables; `None` if none run.
fn running() -> Option<(u32, String)> {
    let text = fs::read_to_string(path()).ok()?;
    let (pid, variables) = text.strip_prefix(KEEPER)?.split_once('\n')?;
    let pid = pid.parse().ok()?;
    is_keeper(pid).then(|| (pid, variables.into()))
}

/// Whether the process keeps servers: its number may belong to another one by now.
fn is_keeper(pid: u32) -> bool {
    process::words(pid).contains("--report")
}

fn terminate(pid: u32) -> nix::Result<()> {
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM)
}

/// Starts the servers unless they run already. Returns their variables.
pub(super) fn start(engines: &[Engine], durable: bool) -> Result<String> {
    paths::create_open(&paths::servers())?;
    let _lock = paths::lock(&paths::servers())?;
    if let Some((pid, variables)) = running() {
        if durable != process::words(pid).contains("--durable") {
            let are = if durable { "without" } else { "with" };
            bail!("servers run already, {are} --durable: stop them first (--stop)");
        }
        let lacks = |engine: &&Engine| engine.variable().is_some_and(|name| !variables.contains(name));
        return match engines.iter().find(lacks) {
            None => Ok(variables),
            Some(engine) => {
                bail!("servers run already, but without {engine}: stop them first (--stop)")
            }
        };
    }
    // Here, where the person who may have to type a password sits.
    install(engines)?;
    let _ = fs::remove_file(path());
    let log_path = paths::servers().join("detached.log");
    let log = File::create(&log_path).with_context(|| format!("creating {}", log_path.display()))?;
    let program = std::env::current_exe().context("finding this program")?;
    // A session of its own, or closing the terminal would end it.
    let mut command = Command::new("setsid");
    command.arg(program).arg("servers").arg("--report").arg(path());
    command.args(engines.iter().flat_map(|engine| ["--engine", engine.name()]));
    command.args(durable.then_some("--durable"));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut keeper = command.spawn().context("starting the process that keeps the servers")?;
    eprintln!("starting the servers ...");
    loop {
        if let Some((_, variables)) = running() {
            return Ok(variables);
        }
        if let Some(status) = keeper.try_wait()? {
            let log = fs::read_to_string(&log_path).unwrap_or_default();
            bail!("the servers could not be started ({status}):\n{}", process::tail(&log));
        }
        if let Err(interrupted) = check_interrupted() {
            let _ = terminate(keeper.id());
            return Err(interrupted);
        }
        sleep(process::TICK);
    }
}

/// Stops the servers and waits until they have ended.
pub(super) fn stop() -> Result<()> {
    let Some((pid, _)) = running() else {
        eprintln!("no servers are running in the background");
        return Ok(());
    };
    terminate(pid).with_context(|| format!("asking process {pid} to stop the servers"))?;
    let patience = Instant::now() + Duration::from_secs(60);
    while is_keeper(pid) {
        if Instant::now() > patience {
            bail!("process {pid} did not stop the servers within a minute");
        }
        sleep(process::TICK);
    }
    eprintln!("stopped");
    Ok(())
}
