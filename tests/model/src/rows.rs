//! What the tables hold.

use crate::rules::{Promise, Violation};

/// A worker's number in `queue_workers`, from 1; 0 is nobody.
pub type Number = u8;

/// A row of `queue_jobs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// `worker_id`.
    pub holder: Number,
    /// The fence.
    pub fence: u32,
    /// Attempts that count, with the current one.
    pub attempt: i32,
    /// Ticks until `run_at`.
    pub delay: u32,
    /// `cancel_requested_at`.
    pub cancel: bool,
    /// Whether the holder has a claim record for this job. On the servers no index covers `worker_id`, so a row of
    /// `queue_claims` leads from the holder to the job. The record stays while any job of the claim is held.
    pub noted: bool,
    /// How many claims there were. No column: it tells attempts apart when a guard is taken away.
    pub claims: u32,
}

/// Where a job that is over stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// In `queue_history`, as completed.
    Completed,
    /// In `queue_history`, as cancelled.
    Cancelled,
    /// In `queue_dead`.
    Dead,
}

/// A job in all its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// In `queue_jobs`.
    pub row: Option<Row>,
    /// In `queue_history` or `queue_dead`, with its attempts there.
    pub over: Option<(Over, i32)>,
    /// Rows of `queue_attempts` whose outcome counts.
    pub counted: i32,
    /// Somebody was told that the running job will be cancelled. No column.
    pub asked: bool,
    /// `max_retries`.
    pub retries: i32,
    /// Its fence when it ended: a dead letter that is sent back goes on from there.
    pub last_fence: u32,
    /// Somebody deleted it. No column.
    pub deleted: bool,
    /// How many effects of its handlers are committed. No column.
    pub effects: u8,
}

/// A row of `queue_workers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Ticks until `expires_at`; 0 when it is past.
    pub left: u32,
    /// `stopped_at IS NOT NULL`.
    pub stopped: bool,
}

/// How an attempt ended, as its worker tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// finish
    Completed,
    /// finish
    Cancelled,
    /// requeued after a delay; counts
    Failed,
    /// bury; counts
    FailedLast,
    /// requeued after a delay
    Snoozed,
    /// requeued, on record
    Released,
    /// requeued, not on record
    Unstarted,
}

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Which job.
    pub job: usize,
    /// Under which fence it ran.
    pub fence: u32,
    /// Which claim that was.
    pub claim: u32,
    /// How it ended.
    pub outcome: Outcome,
}

impl Row {
    /// What is broken by a write that is not of the current attempt.
    pub(crate) fn stale_write(&self, job: usize) -> Violation {
        let promise = if self.holder == 0 { Promise::NoStaleWrite } else { Promise::CurrentAttemptKept };
        Violation::new(promise, job)
    }
}

impl Job {
    /// Enqueued just now.
    pub fn new(retries: i32) -> Self {
        let row = Row { holder: 0, fence: 0, attempt: 0, delay: 0, cancel: false, noted: false, claims: 0 };
        Self {
            row: Some(row),
            over: None,
            counted: 0,
            asked: false,
            retries,
            last_fence: 0,
            deleted: false,
            effects: 0,
        }
    }

    pub(crate) fn end(&mut self, over: Over, attempt: i32) {
        self.over = Some((over, attempt));
        self.last_fence = self.row.as_ref().map_or(0, |row| row.fence);
        self.row = None;
    }

    pub(crate) fn is_completed(&self) -> bool {
        matches!(self.over, Some((Over::Completed, _)))
    }

    /// What the job's rows say that must never be.
    pub(crate) fn broken(&self) -> [Option<Promise>; 4] {
        let current = i32::from(self.row.as_ref().is_some_and(|row| row.holder != 0));
        let allowed = self.retries + 1;
        let dead = matches!(self.over, Some((Over::Dead, _)));
        let agrees = match (&self.row, self.over) {
            (_, Some((over, attempt))) => attempt == self.counted + i32::from(over == Over::Completed),
            (Some(row), None) => row.attempt == self.counted + current,
            (None, None) => true,
        };
        [
            (self.row.is_none() && self.over.is_none() && !self.deleted).then_some(Promise::NothingLost),
            (self.counted + current > allowed).then_some(Promise::AttemptsAllowed),
            (dead && self.counted < allowed).then_some(Promise::DeadAfterLast),
            (!agrees).then_some(Promise::HistoryAgrees),
        ]
    }
}
