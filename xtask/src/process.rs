//! Child processes that do not outlive this one.
//!
//! Three nets, since a server left behind keeps its port and its memory: `Drop` stops a child on failure and on panic;
//! Ctrl-C only sets a flag that every wait looks at, so that it leaves through `Drop` as well; and `setpriv --pdeathsig`
//! asks the kernel to stop the child if this process is killed.

use std::ffi::OsStr;
use std::fmt;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::account::Account;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How often a wait looks at its condition.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// The error of everything that was waiting when Ctrl-C (or a polite kill) came.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Turns SIGINT, SIGTERM and SIGHUP into [`Interrupted`].
pub(crate) fn watch_for_interrupts() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst)).context("listening for Ctrl-C")
}

/// Fails after a Ctrl-C.
pub(crate) fn check_interrupted() -> Result<()> {
    if INTERRUPTED.load(Ordering::SeqCst) { Err(Interrupted.into()) } else { Ok(()) }
}

/// A command that runs as `account` and gets `at_death` when the *thread* that starts it ends.
pub(crate) fn command(program: impl AsRef<OsStr>, account: Option<&Account>, at_death: Signal) -> Command {
    let mut command = Command::new("setpriv");
    command.arg(format!("--pdeathsig={}", at_death.as_str().trim_start_matches("SIG")));
    if let Some(Account { uid, gid }) = account {
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
        // A home that the user cannot read makes initdb and others complain; so does the current folder.
        command.env("HOME", "/").current_dir("/");
    }
    command.arg("--").arg(program).stdin(Stdio::null());
    command
}

/// A running child, the leader of a process group of its own. Stopped when dropped.
#[derive(Debug)]
pub(crate) struct Supervised {
    child: Child,
    stop: Signal,
}

impl Supervised {
    /// Starts `command`, to be stopped by `stop`.
    pub(crate) fn spawn(mut command: Command, stop: Signal) -> Result<Supervised> {
        // A group of its own: Ctrl-C in a terminal must not reach the child before this process has its say, and the
        // children of the child can be killed together.
        command.process_group(0);
        let child = command.spawn().with_context(|| format!("starting {}", display(&command)))?;
        Ok(Supervised { child, stop })
    }

    /// The exit status if the child has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("waiting for a child process")
    }

    /// Waits for the end of the child.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            check_interrupted()?;
            sleep(TICK);
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        if let Ok(None) = self.child.try_wait() {
            let _ = kill(pid, self.stop);
            let patience = Instant::now() + Duration::from_secs(10);
            while Instant::now() < patience && matches!(self.child.try_wait(), Ok(None)) {
                sleep(TICK);
            }
        }
        // The rest of the group, also when its leader has ended by itself.
        let _ = killpg(pid, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Runs a command to its end, quietly; its output is shown only in the error.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let mut output = tempfile::tempfile().context("creating a temporary file")?;
    let clone = || output.try_clone().context("sharing a temporary file");
    command.stdout(clone()?).stderr(clone()?);
    let name = display(&command);
    let status = Supervised::spawn(command, Signal::SIGTERM)?.wait()?;
    if status.success() {
        return Ok(());
    }
    let mut text = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut text)?;
    bail!("`{name}` failed ({status}):\n{}", tail(&String::from_utf8_lossy(&text)))
}

/// The command line of a process; empty when it has ended, also before its parent has taken note.
pub(crate) fn words(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// The last lines of a text, enough to see what went wrong.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

fn display(command: &Command) -> String {
    // What comes before `--` is the wrapper around the program.
    let mut words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    match words.iter().position(|word| word == "--") {
        Some(at) => drop(words.drain(..=at)),
        None => words.insert(0, command.get_program().to_string_lossy()),
    }
    words.truncate(6);
    words.join(" ")
}
