//! Helper processes, to be killed, stopped and continued by a test.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// A running helper process. Killed when dropped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::{process::Command, time::Duration};
/// use queue_test_support::Helper;
///
/// let mut helper = Helper::start(Command::new("sh").args(["-c", "echo ready; exec sleep 60"]));
/// helper.wait_for("ready", Duration::from_secs(10)).await;
/// helper.kill();
/// # }
/// ```
#[derive(Debug)]
pub struct Helper {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    seen: Vec<String>,
}

impl Helper {
    /// Starts a command, with its standard output connected to [`wait_for`](Helper::wait_for). What it writes to
    /// standard error goes to the test's.
    ///
    /// # Panics
    /// When the program cannot be started.
    pub fn start(command: &mut Command) -> Helper {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("starting {}: {error}", command.get_program().display()));
        let output = child.stdout.take().expect("a pipe");
        let (sender, lines) = mpsc::unbounded_channel();
        // Always read, or a helper that prints much would stop at a full pipe.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Helper { child, lines, seen: Vec::new() }
    }

    /// Waits for a line that contains `text`, after those seen by the waits before. Returns the line.
    ///
    /// # Panics
    /// When no such line comes within the time, or the output ends before. The message has all lines seen.
    pub async fn wait_for(&mut self, text: &str, within: Duration) -> String {
        let wait = async {
            while let Some(line) = self.lines.recv().await {
                self.seen.push(line);
                if let Some(line) = self.seen.last().filter(|line| line.contains(text)) {
                    return Some(line.clone());
                }
            }
            None
        };
        let reason = match timeout(within, wait).await {
            Ok(Some(line)) => return line,
            Ok(None) => "the helper's output ended".to_owned(),
            Err(_) => format!("{within:?} went by"),
        };
        panic!("{reason} without a line with {text:?}; lines seen:\n{}", self.seen.join("\n"));
    }

    /// Waits until the process ends.
    ///
    /// # Panics
    /// When it does not within the time.
    pub async fn wait_for_exit(&mut self, within: Duration) -> ExitStatus {
        self.exit_within(within).await.unwrap_or_else(|| panic!("the helper still ran after {within:?}"))
    }

    /// Waits until the process ends; `None` when it does not within the time.
    ///
    /// # Panics
    /// When the system does not say.
    pub async fn exit_within(&mut self, within: Duration) -> Option<ExitStatus> {
        let wait = async {
            loop {
                if let Some(status) = self.ended() {
                    return status;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(within, wait).await.ok()
    }

    /// How the process ended, if it has.
    ///
    /// # Panics
    /// When the system does not say.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of this process")
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process at once (SIGKILL) and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks the process to end (SIGTERM).
    pub fn terminate(&mut self) {
        self.signal(Signal::SIGTERM);
    }

    /// Freezes the process (SIGSTOP), with its connections open. On Linux it waits until no thread runs, because the
    /// signal alone takes effect a little later.
    pub fn pause(&mut self) {
        self.signal(Signal::SIGSTOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        let runs = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // behind the name, which may hold anything; one that has ended does not run either
            stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['T', 't', 'Z', 'X']))
        };
        while std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.flatten().any(runs)) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    /// Lets a frozen process go on (SIGCONT).
    pub fn resume(&mut self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&mut self, signal: Signal) {
        // After its end the number may belong to another process.
        let ended = self.child.try_wait().expect("a child of this process");
        assert!(ended.is_none(), "{signal} for a helper that has ended ({ended:?})");
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).expect("a signal sent");
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::time::Duration;

    use super::Helper;

    const LONG: Duration = Duration::from_secs(20);

    fn counter() -> Helper {
        Helper::start(Command::new("sh").args(["-c", "i=0; while sleep 0.02; do i=$((i+1)); echo tick $i; done"]))
    }

    #[tokio::test]
    async fn a_paused_helper_is_silent_until_it_is_resumed() {
        let mut helper = counter();
        helper.wait_for("tick 2", LONG).await;
        helper.pause();
        tokio::time::sleep(Duration::from_millis(100)).await;
        while helper.lines.try_recv().is_ok() {}
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(helper.lines.try_recv().is_err());
        helper.resume();
        helper.wait_for("tick", LONG).await;
    }

    #[tokio::test]
    async fn the_end_of_a_helper_is_seen() {
        let mut helper = counter();
        helper.wait_for("tick", LONG).await;
        helper.terminate();
        assert_eq!(helper.wait_for_exit(LONG).await.signal(), Some(15));
        assert_eq!(helper.exit_within(LONG).await.and_then(|it| it.signal()), Some(15), "it stays ended");
        let mut helper = counter();
        assert_eq!(helper.exit_within(Duration::from_millis(30)).await, None, "it has not ended");
        helper.kill();
        assert_eq!(helper.wait_for_exit(LONG).await.signal(), Some(9));
    }

    #[tokio::test]
    #[should_panic(expected = "the helper's output ended without a line with \"never\"; lines seen:\nonce")]
    async fn a_line_that_does_not_come_is_told_with_those_that_did() {
        Helper::start(Command::new("echo").arg("once")).wait_for("never", LONG).await;
    }
}
