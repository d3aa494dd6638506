//! Servers that go on running in the background, kept by a process of their own.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempPath;

use crate::install::install;
use queue_test_servers::process::{self, check_interrupted};
use queue_test_servers::{Engine, paths};

/// The first line of the report, which names the process that keeps the servers.
const KEEPER: &str = "# kept by process ";

/// The file that says that the servers run, with their variables.
fn path() -> PathBuf {
    paths::servers().join("env")
}

/// Reports that this process keeps the servers, until the report is dropped.
pub(super) fn report(variables: &str) -> Result<TempPath> {
    // Renamed into place, since its appearance is the signal.
    let draft = path().with_extension("draft");
    fs::write(&draft, format!("{KEEPER}{}\n{variables}", std::process::id()))
        .and_then(|()| fs::rename(&draft, path()))
        .and_then(|()| TempPath::try_from_path(path()))
        .with_context(|| format!("writing {}", path().display()))
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
        let as_durable = durable == process::words(pid).contains("--durable");
        let all = engines.iter().all(|engine| engine.variable().is_none_or(|name| variables.contains(name)));
        ensure!(all && as_durable, "servers run already, of other engines or durability: stop them first (--stop)");
        return Ok(variables);
    }
    // Here, where the person who may have to type a password sits.
    install(engines)?;
    let _ = fs::remove_file(path());
    let log_path = paths::servers().join("detached.log");
    let log = File::create(&log_path).with_context(|| format!("creating {}", log_path.display()))?;
    // A session of its own, or closing the terminal would end it.
    let mut command = Command::new("setsid");
    command.arg(std::env::current_exe().context("finding this program")?).args(["servers", "--report"]);
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
        check_interrupted().inspect_err(|_| _ = terminate(keeper.id()))?;
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
    while is_keeper(pid) {
        check_interrupted()?;
        sleep(process::TICK);
    }
    eprintln!("stopped");
    Ok(())
}
