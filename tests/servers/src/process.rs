//! Child processes that do not outlive this one.
//!
//! A server left behind keeps its port and its memory, so there are three safeguards. `Drop` stops a child on failure
//! and on panic. Ctrl-C only sets a flag that every wait checks, so it also ends in `Drop`. `setpriv --pdeathsig` makes
//! the kernel stop the child if this process is killed. The kernel watches the *thread* that started the child, so one
//! permanent thread starts them all.

use std::ffi::OsStr;
use std::fmt;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::account::Account;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A command, and where the child goes.
type Start = (Command, Sender<std::io::Result<Child>>);

/// The thread that starts every child.
static STARTER: LazyLock<Sender<Start>> = LazyLock::new(|| {
    let (sender, commands) = mpsc::channel::<Start>();
    thread::spawn(move || {
        for (mut command, reply) in commands {
            let _ = reply.send(command.spawn());
        }
    });
    sender
});

/// How often a wait looks at its condition.
pub const TICK: Duration = Duration::from_millis(20);

/// The error of everything that was waiting when Ctrl-C (or a polite kill) came.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Turns SIGINT, SIGTERM and SIGHUP into [`Interrupted`].
///
/// # Errors
/// When it was called before.
pub fn watch_for_interrupts() -> Result<()> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst)).context("listening for Ctrl-C")
}

/// Fails after a Ctrl-C.
///
/// # Errors
/// [`Interrupted`].
pub fn check_interrupted() -> Result<()> {
    if INTERRUPTED.load(Ordering::SeqCst) { Err(Interrupted.into()) } else { Ok(()) }
}

/// A command that runs as `account` and gets `at_death` when this process ends.
pub fn command(program: impl AsRef<OsStr>, account: Option<&Account>, at_death: Signal) -> Command {
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
pub struct Supervised {
    child: Child,
    stop: Signal,
}

impl Supervised {
    /// Starts `command`, to be stopped by `stop`.
    ///
    /// # Errors
    /// When there is no such program, or it may not be run.
    pub fn spawn(mut command: Command, stop: Signal) -> Result<Supervised> {
        // A group of its own: Ctrl-C in a terminal must not reach the child before this process has its say, and the
        // children of the child can be killed together.
        command.process_group(0);
        let name = display(&command);
        let (reply, started) = mpsc::channel();
        STARTER.send((command, reply)).ok().context("the thread that starts processes has ended")?;
        let child = started.recv().context("the thread that starts processes has ended")?;
        Ok(Supervised { child: child.with_context(|| format!("starting {name}"))?, stop })
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status if the child has ended.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("waiting for a child process")
    }

    /// Waits for the end of the child.
    ///
    /// # Errors
    /// [`Interrupted`] after a Ctrl-C.
    pub fn wait(&mut self) -> Result<ExitStatus> {
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
///
/// # Errors
/// When it cannot be started, fails, or is interrupted.
pub fn run(mut command: Command) -> Result<()> {
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
pub fn words(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// Whether the process is there and has not ended. While it is torn down it is: its memory, and what it shares with
/// others, are given back only then.
pub fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// What a process does, by its letter in `/proc/N/stat` ('Z': it has ended), and its parent.
fn state(pid: u32) -> Option<(char, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name of the program, in parentheses, may have anything in it; the state and the parent come after it
    let mut words = text.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// A process with all its descendants, itself first.
pub fn family(pid: u32) -> Vec<u32> {
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let all: Vec<(u32, u32)> = (std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(number))
        .filter_map(|pid| Some((pid, state(pid)?.1)))
        .collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(all.iter().filter(|(_, of)| *of == parent).map(|(child, _)| child));
        next += 1;
    }
    family
}

/// Kills a process with all its descendants at once. It stands still before they are counted, so that none is born
/// meanwhile and left behind. Returns those that were killed, which may take a moment to end.
///
/// # Errors
/// When the process cannot be told to stand still: it has ended, or is somebody else's.
pub fn kill_family(pid: u32) -> Result<Vec<u32>> {
    let tell = |pid: u32, signal| kill(Pid::from_raw(pid.cast_signed()), signal);
    tell(pid, Signal::SIGSTOP).context("stopping a process")?;
    while state(pid).is_some_and(|(state, _)| !matches!(state, 'T' | 'Z' | 'X')) {
        sleep(Duration::from_millis(1));
    }
    let all = family(pid);
    for pid in &all {
        let _ = tell(*pid, Signal::SIGKILL);
    }
    Ok(all)
}

/// The last lines of a text, enough to see what went wrong.
pub fn tail(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;

    use super::{Supervised, TICK, command, family, is_alive};

    #[test]
    fn a_family_goes_down_to_the_grandchildren() {
        let mut shell = command("sh", None, Signal::SIGKILL);
        shell.args(["-c", "sh -c 'sleep 60; true'; true"]);
        let shell = Supervised::spawn(shell, Signal::SIGKILL).expect("a shell");
        while family(shell.id()).len() < 3 {
            std::thread::sleep(TICK);
        }
        let all = family(shell.id());
        assert_eq!(all[0], shell.id());
        drop(shell);
        assert!(!is_alive(all[0]));
    }
}
