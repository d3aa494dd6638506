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

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

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

/// The doors of one worker: who may start. It does no I/O, and does not look at the clock.
#[derive(Default)]
struct Doors {
    running: u32,
    /// A suspect is at the doors: it waits, or has just begun.
    suspect: bool,
    /// They are closed since then.
    closed: Option<Instant>,
    /// When they were closed before, as long as that counts.
    before: VecDeque<(Instant, Instant)>,
}

impl Doors {
    /// Whether a job that is no suspect may start. If so, it runs.
    fn admit(&mut self) -> bool {
        let open = self.closed.is_none();
        self.running += u32::from(open);
        open
    }

    /// A suspect comes. False: another one is there.
    fn comes(&mut self) -> bool {
        !std::mem::replace(&mut self.suspect, true)
    }

    /// Closes them, unless they have been closed for too long of late. Returns until when.
    fn close(&mut self, now: Instant) -> Option<Instant> {
        while self.before.front().is_some_and(|(_, end)| now.duration_since(*end) >= WINDOW) {
            self.before.pop_front();
        }
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

    fn open(&mut self, now: Instant) {
        self.before.extend(self.closed.take().map(|begin| (begin, now)));
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
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a job would have to wait now. If so, none is claimed.
    pub(crate) fn is_closed(&self) -> bool {
        self.doors().closed.is_some()
    }

    /// Lets a job that is no suspect start, unless it has to wait.
    pub(crate) fn enter_at_once(self: &Arc<Self>) -> Option<Admission> {
        self.doors().admit().then(|| Admission::beside(self))
    }

    /// Waits until a job that is no suspect may start. None: not soon, so it is released.
    pub(crate) async fn enter(self: &Arc<Self>) -> Option<Admission> {
        timeout(LINGER, self.until(|| self.enter_at_once())).await.ok()
    }

    /// Waits until a suspect is alone: for half of the time that it has. Err: another one is there, and this one comes
    /// again after this time.
    pub(crate) async fn enter_suspect(self: &Arc<Self>) -> Result<Admission, Duration> {
        if !self.doors().comes() {
            return Err(APART.mul_f64(0.2 + fastrand::f64()));
        }
        let at_doors = AtDoors(self);
        let now = Instant::now();
        let closed_until = self.doors().close(now);
        let mut alone = false;
        if let Some(until) = closed_until {
            let is_alone = self.until(|| (self.doors().running == 0).then_some(()));
            alone = timeout((until - now) / 2, is_alone).await.is_ok();
        }
        Ok(at_doors.enters(closed_until.filter(|_| alone)))
    }

    /// Looks again whenever something has changed.
    async fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look() {
                return found;
            }
            changed.await;
        }
    }

    fn open(&self) {
        self.doors().open(Instant::now());
        self.changed.notify_waiters();
        self.room.notify_one();
    }

    /// The suspect is not at the doors any more.
    fn leave_doors(&self) {
        self.doors().suspect = false;
        self.open();
    }
}

/// A suspect that waits. When this is dropped, it waits no more.
struct AtDoors<'a>(&'a Arc<Isolation>);

impl AtDoors<'_> {
    /// It begins: alone until then, or beside others.
    fn enters(self, alone_until: Option<Instant>) -> Admission {
        let isolation = self.0.clone();
        std::mem::forget(self);
        isolation.doors().running += 1;
        if alone_until.is_none() {
            isolation.open();
        }
        let until = alone_until.map_or(Instant::now() + APART, |until| until.min(Instant::now() + APART));
        Admission { isolation, alone: alone_until.is_some(), at_doors_until: Some(until) }
    }
}

impl Drop for AtDoors<'_> {
    fn drop(&mut self) {
        self.0.leave_doors();
    }
}

/// The place of a running job. It is dropped when the job ends.
pub(crate) struct Admission {
    isolation: Arc<Isolation>,
    /// Nobody else may begin.
    alone: bool,
    /// A suspect that has just begun: until then, no other suspect may begin.
    at_doors_until: Option<Instant>,
}

impl Admission {
    fn beside(isolation: &Arc<Isolation>) -> Self {
        Self { isolation: isolation.clone(), alone: false, at_doors_until: None }
    }

    /// Whether it runs alone.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// When to [`open`](Self::open) the doors. None: they are open.
    pub(crate) fn at_doors_until(&self) -> Option<Instant> {
        self.at_doors_until
    }

    /// Lets others begin from now on.
    pub(crate) fn open(&mut self) {
        self.alone = false;
        if self.at_doors_until.take().is_some() {
            self.isolation.leave_doors();
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.isolation.doors().running -= 1;
        self.isolation.changed.notify_waiters();
        self.open();
    }
}

#[cfg(test)]
#[path = "isolation_tests.rs"]
mod tests;
