//! Worker processes, with a supervisor that restarts them when they end, as systemd or Kubernetes would.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use queue_test_support::Helper;
use tokio::time::sleep;

use crate::point::Moment;
use crate::record::{self, Event, Journal, What};
use crate::scene::LOOK;

/// Delay before the restart of a worker that ended by itself.
const PAUSE: Duration = Duration::from_millis(200);
/// The exit code of a program that does not understand its arguments.
const MISUSED: i32 = 2;
/// The signal that ends a process which does not handle it.
const SIGTERM: i32 = 15;
/// The signal with which a process kills itself.
const SIGKILL: i32 = 9;
/// The signal of a process that calls `abort` or runs out of memory.
const SIGABRT: i32 = 6;
/// Time limit for a worker to end after it was told to.
const END: Duration = Duration::from_secs(90);
/// Time limit for a worker to start.
const START: Duration = Duration::from_secs(60);

/// In which way a worker process may end, apart from when the suite ends it. Any other end fails the fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Mortal {
    /// In none: it must survive an outage, a lost lease or a full disk.
    #[default]
    Not,
    /// By this signal, after this event in its record.
    Itself(What, i32),
    /// With an error before it is ready, because it cannot reach the database.
    AtStart,
}

impl Mortal {
    /// Handlers abort it.
    pub fn aborts() -> Mortal {
        Mortal::Itself(What::Killed, SIGABRT)
    }

    /// A handler uses all memory that the process may have.
    pub fn starves() -> Mortal {
        Mortal::Itself(What::Stopped, SIGABRT)
    }

    /// Whether the process may end like this, after the events that it wrote.
    fn allows(&self, status: ExitStatus, own: &[Event]) -> bool {
        match self {
            Mortal::Not => false,
            Mortal::Itself(word, signal) => {
                status.signal() == Some(*signal) && own.iter().any(|event| event.what == *word)
            }
            Mortal::AtStart => status.code() == Some(1) && own.iter().all(|event| event.what != What::ProcessStarted),
        }
    }
}

/// The configuration of a worker process.
#[derive(Clone, Debug)]
pub struct Setup {
    args: Vec<String>,
    variables: Vec<(String, String)>,
    folder: PathBuf,
    mortal: Mortal,
}

impl Setup {
    pub(crate) fn new(url: &str, folder: &Path) -> Setup {
        let setup =
            Setup { args: vec!["worker".into()], variables: Vec::new(), folder: folder.into(), mortal: Mortal::Not };
        setup.arg("url", url).arg("records", folder.display())
    }

    /// Sets an argument. A later value of the same name replaces an earlier one.
    pub fn arg(mut self, name: &str, value: impl ToString) -> Setup {
        self.args.retain(|arg| !arg.starts_with(&format!("--{name}=")));
        self.args.push(format!("--{name}={}", value.to_string()));
        self
    }

    /// Another address of the database.
    pub fn url(self, url: &str) -> Setup {
        self.arg("url", url)
    }

    /// A lease other than the default, with a heartbeat in proportion.
    pub fn lease(self, lease: Duration) -> Setup {
        self.arg("lease-ms", lease.as_millis())
    }

    /// Jobs at a time.
    pub fn concurrency(self, jobs: u32) -> Setup {
        self.arg("concurrency", jobs)
    }

    /// Makes the worker kill itself at this moment. Its replacement does not.
    pub fn die(self, moment: Moment) -> Setup {
        self.arg("die", moment).mortal(Mortal::Itself(What::Killed, SIGKILL))
    }

    /// Makes the worker suspend itself at this moment.
    pub fn stop(self, moment: Moment) -> Setup {
        self.arg("stop", moment)
    }

    /// Allows this way to end.
    pub fn mortal(self, mortal: Mortal) -> Setup {
        Setup { mortal, ..self }
    }

    /// Sets an environment variable.
    pub fn variable(mut self, name: &str, value: &str) -> Setup {
        self.variables.push((name.into(), value.into()));
        self
    }

    fn start(&self, number: usize) -> Result<Helper> {
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        let log = self.folder.join(format!("{number}.log"));
        command.args(&self.args).arg(format!("--log={}", log.display()));
        // panics that it was told to have, for one
        command.stderr(File::create(log.with_extension("stderr")).context("creating a log")?);
        command.env("RUST_BACKTRACE", "0");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        Ok(Helper::start(&mut command))
    }
}

#[derive(Debug)]
struct Seat {
    /// The configuration of the next process in this seat.
    setup: Setup,
    process: Option<Helper>,
    /// How the current process may end.
    mortal: Mortal,
    not_before: Instant,
}

impl Seat {
    /// The events that its process wrote.
    fn record(&self) -> Vec<Event> {
        let read = |process: &Helper| record::read_one(&self.setup.folder, process.id().into()).unwrap_or_default();
        self.process.as_ref().map(read).unwrap_or_default()
    }

    /// Whether its process has reported that it is ready.
    fn is_ready(&self) -> bool {
        self.record().iter().any(|event| event.what == What::ProcessStarted)
    }

    /// Whether its process has ended by itself.
    ///
    /// # Errors
    /// When it may not end like this.
    fn has_ended(&mut self) -> Result<bool> {
        let Some((id, status)) = self.process.as_mut().and_then(|it| Some((it.id(), it.ended()?))) else {
            return Ok(false);
        };
        if status.code() == Some(MISUSED) {
            bail!("a worker does not understand its arguments:\n{}", logs(&self.setup.folder));
        }
        if !self.mortal.allows(status, &self.record()) {
            bail!("worker process {id} ended by itself: {status}\n{}", logs(&self.setup.folder));
        }
        Ok(true)
    }
}

/// Worker processes. Killed when dropped.
#[derive(Debug)]
pub struct Crew {
    seats: Vec<Seat>,
    journal: Journal,
    /// The numbers of all its processes so far.
    numbers: HashSet<u32>,
    started: usize,
    ended: usize,
}

impl Crew {
    pub(crate) fn new(journal: Journal) -> Crew {
        Crew { seats: Vec::new(), journal, numbers: HashSet::new(), started: 0, ended: 0 }
    }

    /// Starts a worker. [`work`](Crew::work) restarts it when it has ended.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn hire(&mut self, setup: Setup) -> Result<usize> {
        let seat = Seat { setup, process: None, mortal: Mortal::Not, not_before: Instant::now() };
        self.seats.push(seat);
        self.tend()?;
        Ok(self.seats.len() - 1)
    }

    /// Starts several of the same kind.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn hire_many(&mut self, count: usize, setup: &Setup) -> Result<()> {
        (0..count).try_for_each(|_| self.hire(setup.clone()).map(drop))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.seats.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// How many processes ended by themselves, in a way that their [`Mortal`] allows.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// The id of a seat's process, if it runs.
    pub fn pid(&self, seat: usize) -> Option<i64> {
        self.seats[seat].process.as_ref().map(|process| process.id().into())
    }

    /// Sets the configuration of the next process in this seat.
    pub fn next(&mut self, seat: usize, setup: Setup) {
        self.seats[seat].setup = setup;
    }

    /// Removes processes that have ended.
    fn mourn(&mut self) -> Result<()> {
        for seat in &mut self.seats {
            if seat.has_ended()?
                && let Some(process) = seat.process.take()
            {
                self.journal.write_of(process.id().into(), What::Exited);
                seat.not_before = Instant::now() + PAUSE;
                self.ended += 1;
            }
        }
        Ok(())
    }

    /// Restarts processes that have ended.
    fn tend(&mut self) -> Result<()> {
        self.mourn()?;
        for seat in &mut self.seats {
            if seat.process.is_none() && seat.not_before <= Instant::now() {
                let mut process = seat.setup.start(self.started)?;
                // the record goes by the numbers of processes, and in an hour the system gives them out again
                while !self.numbers.insert(process.id()) {
                    process.kill();
                    process = seat.setup.start(self.started)?;
                }
                seat.process = Some(process);
                seat.mortal = seat.setup.mortal.clone();
                self.started += 1;
            }
        }
        Ok(())
    }

    /// Waits until all are ready, so that the fault does not hit a worker at its start.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn ready(&mut self) -> Result<()> {
        let end = Instant::now() + START;
        while !self.seats.iter().all(Seat::is_ready) {
            if Instant::now() > end {
                bail!("a worker was not ready within {START:?}\n{}", logs(&self.seats[0].setup.folder));
            }
            self.work(LOOK).await?;
        }
        Ok(())
    }

    /// Lets them work for a while, and restarts those that end.
    ///
    /// # Errors
    /// When one ends in a way that is not allowed, or cannot be restarted.
    pub async fn work(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.tend()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(LOOK)).await;
        }
    }

    /// `kill -9`. A new process takes the seat at once.
    ///
    /// # Errors
    /// When it had already ended in a way that is not allowed, or the next one cannot be started.
    pub fn kill(&mut self, seat: usize) -> Result<()> {
        self.mourn()?;
        if let Some(mut process) = self.seats[seat].process.take() {
            self.journal.write_of(process.id().into(), What::Killed);
            process.kill();
            self.journal.write_of(i64::from(process.id()), What::Exited);
        }
        self.seats[seat].not_before = Instant::now();
        self.tend()
    }

    /// SIGSTOP, or SIGCONT.
    pub fn pause(&mut self, seat: usize, pause: bool) {
        let Some(process) = &mut self.seats[seat].process else { return };
        if process.ended().is_some() {
            return;
        }
        let id = i64::from(process.id());
        if pause {
            process.pause();
            self.journal.write_of(id, What::Stopped);
        } else {
            self.journal.write_of(id, What::Continued);
            process.resume();
        }
    }

    /// Shuts all down gracefully.
    ///
    /// # Errors
    /// When one does not end, ends with an error, or had already ended in a way that is not allowed.
    pub async fn end(mut self) -> Result<()> {
        self.mourn()?;
        for process in self.seats.iter_mut().filter_map(|seat| seat.process.as_mut()) {
            if process.ended().is_none() {
                process.terminate();
            }
        }
        let end = Instant::now() + END;
        for seat in &mut self.seats {
            let Some(process) = &mut seat.process else { continue };
            let status = process.exit_within(end.saturating_duration_since(Instant::now())).await;
            let status = status.with_context(|| format!("a worker did not end within {END:?} of SIGTERM"))?;
            self.journal.write_of(process.id().into(), What::Exited);
            // one that had only just been started did not listen yet
            if !status.success() && status.signal() != Some(SIGTERM) {
                bail!("a worker that was told to end ended badly: {status}\n{}", logs(&seat.setup.folder));
            }
        }
        Ok(())
    }
}

/// The last lines of each log in a folder.
pub(crate) fn logs(folder: &Path) -> String {
    const LINES: usize = 15;
    let logs = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut logs: Vec<PathBuf> =
        logs.filter(|path| path.extension().is_some_and(|it| it == "log" || it == "stderr")).collect();
    logs.sort();
    let mut text = String::new();
    for log in logs {
        let lines = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<_> = lines.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        text += &format!("--- {}\n{last}\n", log.file_name().unwrap_or_default().display());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::{Mortal, SIGABRT, SIGKILL};
    use crate::record::{Event, What};

    #[test]
    fn only_the_wanted_death_is_allowed() {
        let event = |what| Event { at: 1, process: 7, what };
        let (error, killed) = (ExitStatus::from_raw(1 << 8), ExitStatus::from_raw(SIGKILL));
        let said = [event(What::ProcessStarted), event(What::Killed)];
        assert!(!Mortal::Not.allows(error, &[]) && !Mortal::Not.allows(killed, &said));
        assert!(!Mortal::Not.allows(ExitStatus::from_raw(0), &said), "nor may it end well before it is told to");
        let itself = Mortal::Itself(What::Killed, SIGKILL);
        assert!(itself.allows(killed, &said));
        assert!(!itself.allows(killed, &said[..1]), "somebody else killed it");
        assert!(!itself.allows(error, &said) && !itself.allows(ExitStatus::from_raw(SIGABRT), &said));
        assert!(Mortal::AtStart.allows(error, &[]));
        assert!(!Mortal::AtStart.allows(error, &said[..1]), "it had begun to work");
        assert!(!Mortal::AtStart.allows(killed, &[]));
    }
}
