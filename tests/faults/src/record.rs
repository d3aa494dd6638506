//! The record: what producers, workers and handlers did, in files outside the database under test.
//!
//! Each process has a file with one JSON event per line. Each event is one write, so a killed process leaves at most
//! its last line unfinished. The answers to a producer are forced to disk before it continues.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When: see [`now`].
    pub at: i64,
    /// In which process.
    pub process: i64,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// What happened. A tag identifies a job: a number that its producer chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A producer is about to enqueue.
    Asked {
        /// One or many, in one statement or transaction.
        tags: Vec<i64>,
        /// With these options.
        #[serde(flatten)]
        options: Options,
    },
    /// The database said that they are committed.
    Committed {
        /// All of one [`What::Asked`].
        tags: Vec<i64>,
    },
    /// The transaction was rolled back, or the database refused the enqueue.
    RolledBack {
        /// All of one [`What::Asked`].
        tags: Vec<i64>,
    },
    /// The connection was lost before the answer: the jobs may exist or not.
    Unknown {
        /// All of one [`What::Asked`].
        tags: Vec<i64>,
    },
    /// The database said that a producer's requests for unique jobs are committed.
    Stands {
        /// When the commit was asked for; without a transaction, when the enqueue was.
        since: i64,
        /// The answers.
        requests: Vec<Request>,
    },
    /// All producers of this process have ended.
    Produced,
    /// A handler began.
    Started {
        /// The job's number.
        job: i64,
        /// Its tag.
        tag: i64,
        /// The number of the attempt.
        attempt: i64,
    },
    /// A handler ended.
    Ended {
        /// The job's number.
        job: i64,
        /// Its tag.
        tag: i64,
        /// The number of the attempt.
        attempt: i64,
        /// What it returned.
        how: How,
    },
    /// The database did not accept the end of an attempt.
    Refused {
        /// The job's number.
        job: i64,
    },
    /// Somebody is about to ask, through `Admin`, for a job to be cancelled.
    CancelAsked {
        /// The job's number.
        job: i64,
    },
    /// The library answered that the job is cancelled, or that its handler is told to stop.
    CancelAccepted {
        /// The job's number.
        job: i64,
    },
    /// A worker has learned that it lost its lease.
    LeaseLost,
    /// The database did not answer a worker, or not in time.
    Unanswered,
    /// The time of day by the clock of a process.
    Clock {
        /// Microseconds since 1970.
        micros: i64,
    },
    /// The default number of retries of this process's binary, for rows that do not set it.
    Retries {
        /// The default of its kind.
        by_default: i64,
    },
    /// A worker process is ready.
    ProcessStarted,
    /// A process is killed, by itself or by the suite. Written just before the kill.
    Killed,
    /// A process is suspended (SIGSTOP).
    Stopped,
    /// It continues (SIGCONT).
    Continued,
    /// It ended.
    Exited,
    /// The database's clock is about to be set forward. By that clock, every delay that has begun is then over.
    ClockForward,
}

/// The answer to a request for a unique job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The key.
    pub key: String,
    /// The number of the job that stands for the request.
    pub job: i64,
    /// Whether the request made the job.
    pub new: bool,
}

/// How a job is enqueued.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Not before this many milliseconds have passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay_ms: i64,
    /// The due time is a time of day, which does not move when a clock is set.
    #[serde(default, skip_serializing_if = "is_default")]
    pub absolute: bool,
    /// Smaller runs first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: i16,
    /// How often it may be retried.
    pub max_retries: i64,
    /// Its row has no number of retries. The binary that claims it first sets it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_claimer: bool,
    /// A row of the ledger is written in the same transaction.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ledger: bool,
    /// Its handler may block its thread beyond its timeout.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blocking: bool,
    /// It is in a queue that a single worker serves, one job at a time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ordered: bool,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What became of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It returned `Ok`.
    Ok,
    /// It failed, and requested a retry after this many milliseconds.
    Failed {
        /// The pause.
        retry_ms: i64,
    },
    /// It snoozed, which does not count as an attempt.
    Snoozed {
        /// How much later.
        retry_ms: i64,
    },
    /// It returned `JobError::dead`.
    Dead,
    /// It returned `JobError::cancel`.
    Cancelled,
    /// Its future was dropped before it returned.
    Dropped,
}

/// Microseconds of the machine's monotonic clock, which all processes share and `faketime` does not change.
///
/// # Panics
/// When the system has no such clock.
pub fn now() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a monotonic clock");
    time.tv_sec() * 1_000_000 + time.tv_nsec() / 1_000
}

/// Microseconds since 1970, by the clock that can be set and that `faketime` changes.
pub fn time_of_day() -> i64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// The file that a process appends its events to.
#[derive(Clone, Debug)]
pub struct Journal {
    file: Arc<File>,
    process: i64,
}

impl Journal {
    /// Opens the file of this process in a folder.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn open(folder: &Path) -> Result<Journal> {
        let process = i64::from(std::process::id());
        let path = path_of(folder, process);
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let file = file.with_context(|| format!("opening the record {}", path.display()))?;
        Ok(Journal { file: Arc::new(file), process })
    }

    /// Writes an event of this process.
    pub fn write(&self, what: What) {
        self.write_of(self.process, what);
    }

    /// Writes an event of another process.
    ///
    /// # Panics
    /// When the line cannot be written: the checker would draw wrong conclusions from an incomplete record.
    pub fn write_of(&self, process: i64, what: What) {
        let mut line = serde_json::to_string(&Event { at: now(), process, what }).expect("an event is JSON");
        line.push('\n');
        (&*self.file).write_all(line.as_bytes()).expect("the record takes a line");
    }

    /// Writes an event and forces everything so far to the disk.
    ///
    /// # Panics
    /// As [`write_of`](Journal::write_of).
    pub fn write_for_good(&self, what: What) {
        self.write(what);
        self.file.sync_data().expect("the record is forced to the disk");
    }
}

/// Follows a record that is still being written.
#[derive(Debug, Default)]
pub struct Tail {
    /// How far each file was read.
    read: HashMap<PathBuf, u64>,
    starts: usize,
}

impl Tail {
    /// How many handlers of a folder's record have begun so far.
    ///
    /// # Errors
    /// As [`follow`](Tail::follow).
    pub fn starts(&mut self, folder: &Path) -> Result<usize> {
        let mut starts = 0;
        self.follow(folder, |event| starts += usize::from(matches!(event.what, What::Started { .. })))?;
        self.starts += starts;
        Ok(self.starts)
    }

    /// Reads what is new in a folder's record.
    ///
    /// # Errors
    /// When a file cannot be read, or has a broken line.
    pub fn follow(&mut self, folder: &Path, mut look: impl FnMut(&Event)) -> Result<()> {
        for path in files(folder)? {
            let read = self.read.entry(path.clone()).or_default();
            let mut file = BufReader::new(File::open(&path).context("opening a record")?);
            file.seek(SeekFrom::Start(*read)).context("reading on")?;
            let mut line = String::new();
            while file.read_line(&mut line).context("reading a record")? > 0 && line.ends_with('\n') {
                *read += line.len() as u64;
                let event: Event = serde_json::from_str(&line).with_context(|| format!("a broken line: {line}"))?;
                look(&event);
                line.clear();
            }
        }
        Ok(())
    }
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).context("reading the folder of records")?;
    let paths = entries.map(|entry| entry.map(|it| it.path())).collect::<Result<Vec<_>, _>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|it| it == "record")).collect())
}

/// All events of a folder's files, in the order in which they happened.
///
/// # Errors
/// When a file cannot be read, or has a broken line that is not its last.
pub fn read(folder: &Path) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    files(folder)?.iter().try_for_each(|path| read_file(path, &mut events))?;
    events.sort_by_key(|event: &Event| event.at);
    Ok(events)
}

/// What one process wrote so far.
///
/// # Errors
/// As [`read`].
pub fn read_one(folder: &Path, process: i64) -> Result<Vec<Event>> {
    let mut events = Vec::new();
    read_file(&path_of(folder, process), &mut events)?;
    Ok(events)
}

fn path_of(folder: &Path, process: i64) -> PathBuf {
    folder.join(format!("{process}.record"))
}

fn read_file(path: &Path, events: &mut Vec<Event>) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    // a process that was killed may have left a piece of a line
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        let event = serde_json::from_str(line);
        events.push(event.with_context(|| format!("{}: a broken line: {line}", path.display()))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Journal, Tail, What, read};

    #[test]
    fn a_record_is_followed_while_it_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(folder.path()).expect("a record");
        let started = |job| What::Started { job, tag: job, attempt: 1 };
        let mut tail = Tail::default();
        assert_eq!(tail.starts(folder.path()).expect("read"), 0);
        journal.write(started(1));
        journal.write(What::LeaseLost);
        assert_eq!(tail.starts(folder.path()).expect("read"), 1);
        journal.write(started(2));
        assert_eq!(tail.starts(folder.path()).expect("read"), 2);
        assert_eq!(read(folder.path()).expect("read").len(), 3);
    }
}
