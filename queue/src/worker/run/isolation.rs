//! Which jobs run at the same time. A job that kills its process must not take other jobs with it.
//!
//! Nobody can tell from outside which job killed a process, so all of its jobs are suspects from their second loss on.
//! Suspects begin one at a time, each some seconds after the other: a job that kills its process nearly always does so
//! early. A suspect that has to wait goes back to the table, where another worker may take it, and comes again soon. An
//! attempt that ends by itself ends the suspicion.
//!
//! For a suspect the doors close, too: no other job starts until the running ones have ended and the suspect has run
//! alone for these seconds. But the doors are closed for at most [`BUDGET`] of any [`WINDOW`], whatever the number of
//! suspects. Beyond that, and if the running jobs do not end in time, a suspect begins beside jobs that are not
//! suspects.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::worker::notices::{lock, look_at};

/// From this number of losses on, a job is a suspect. A process may die for any reason: only the second loss says
/// something about the job.
const SUSPECT: u32 = 2;
/// How long the doors may be closed in any [`WINDOW`].
const BUDGET: Duration = Duration::from_secs(10);
const WINDOW: Duration = Duration::from_secs(60);
/// With less than this left of the budget, the doors stay open.
const LEAST: Duration = Duration::from_secs(2);
/// The time between the beginnings of two suspects.
const APART: Duration = Duration::from_secs(5);
/// How long a job that was never lost waits for the doors. Then it is released: another worker may be able to start it.
const LINGER: Duration = Duration::from_secs(1);

/// Whether a job with this number of losses is a suspect.
pub(crate) fn is_suspect(losses: u32) -> bool {
    losses >= SUSPECT
}

/// The doors of one worker: who may start.
#[derive(Default)]
struct Doors {
    running: u32,
    /// A suspect is at the doors: it waits, or has just begun.
    suspect: bool,
    /// They are closed since then.
    closed: Option<Instant>,
    /// When they were closed before, as long as that counts.
    before: Vec<(Instant, Instant)>,
}

impl Doors {
    /// Closes them, unless they have been closed for too long of late. Returns until when.
    fn close(&mut self, now: Instant) -> Option<Instant> {
        self.before.retain(|(_, end)| now.duration_since(*end) < WINDOW);
        let left = BUDGET.saturating_sub(self.shut(now));
        self.closed = (left >= LEAST).then_some(now);
        self.closed.map(|now| now + left)
    }

    /// For how much of the window that ends now they were closed.
    fn shut(&self, now: Instant) -> Duration {
        let closed = self.closed.map(|begin| (begin, now));
        let of_window = |(begin, end): (Instant, Instant)| {
            end.saturating_duration_since(now.checked_sub(WINDOW).map_or(begin, |window| window.max(begin)))
        };
        self.before.iter().copied().chain(closed).map(of_window).sum()
    }
}

/// The jobs that one worker runs.
pub(crate) struct Isolation {
    doors: Mutex<Doors>,
    /// Notified when a job has ended or the doors have opened.
    changed: Notify,
    /// Notified when the doors have opened, for the claim loop.
    room: Arc<Notify>,
}

impl Isolation {
    pub(crate) fn new(room: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { doors: Mutex::default(), changed: Notify::new(), room })
    }

    fn doors(&self) -> MutexGuard<'_, Doors> {
        lock(&self.doors)
    }

    /// Whether a job would have to wait now. If so, none is claimed.
    pub(crate) fn is_closed(&self) -> bool {
        self.doors().closed.is_some()
    }

    /// Lets a job that is no suspect start, unless it has to wait.
    pub(crate) fn enter_at_once(self: &Arc<Self>) -> Option<Admission> {
        let mut doors = self.doors();
        if doors.closed.is_some() {
            return None;
        }
        doors.running += 1;
        Some(Admission { isolation: self.clone(), runs: true, at_doors_until: None })
    }

    /// Waits until a job that is no suspect may start. None: not soon, so it is released.
    pub(crate) async fn enter(self: &Arc<Self>) -> Option<Admission> {
        timeout(LINGER, look_at(&self.changed, || self.enter_at_once())).await.ok()
    }

    /// Waits until a suspect is alone: for half of the time that it has. Err: another one is there, and this one comes
    /// again after this time.
    pub(crate) async fn enter_suspect(self: &Arc<Self>) -> Result<Admission, Duration> {
        if std::mem::replace(&mut self.doors().suspect, true) {
            return Err(APART.mul_f64(0.2 + fastrand::f64()));
        }
        let now = Instant::now();
        let mut place = Admission { isolation: self.clone(), runs: false, at_doors_until: Some(now) };
        let until = self.doors().close(now);
        let mut alone_until = None;
        if let Some(until) = until {
            let is_alone = look_at(&self.changed, || (self.doors().running == 0).then_some(until));
            alone_until = timeout((until - now) / 2, is_alone).await.ok();
        }
        if alone_until.is_none() {
            self.open();
        }
        self.doors().running += 1;
        place.runs = true;
        let apart = Instant::now() + APART;
        place.at_doors_until = Some(alone_until.map_or(apart, |until| until.min(apart)));
        Ok(place)
    }

    fn open(&self) {
        let mut doors = self.doors();
        if let Some(begin) = doors.closed.take() {
            doors.before.push((begin, Instant::now()));
        }
        drop(doors);
        self.changed.notify_waiters();
        self.room.notify_one();
    }
}

/// The place of a job that runs, or of a suspect that waits. It is dropped when the job ends, or waits no more.
pub(crate) struct Admission {
    isolation: Arc<Isolation>,
    runs: bool,
    /// A suspect that waits or has just begun: until then, no other suspect may
    /// begin, unless it [opens](Self::open) the doors.
    pub(crate) at_doors_until: Option<Instant>,
}

impl Admission {
    /// Whether it runs alone, and nobody else may begin.
    pub(crate) fn is_alone(&self) -> bool {
        self.at_doors_until.is_some() && self.isolation.is_closed()
    }

    /// Lets others begin from now on.
    pub(crate) fn open(&mut self) {
        if self.at_doors_until.take().is_some() {
            self.isolation.doors().suspect = false;
            self.isolation.open();
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.isolation.doors().running -= u32::from(self.runs);
        self.isolation.changed.notify_waiters();
        self.open();
    }
}

#[cfg(test)]
#[path = "isolation_tests.rs"]
mod tests;
