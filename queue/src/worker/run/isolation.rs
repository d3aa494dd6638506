//! Which jobs run at the same time. A job that kills its process must not take other jobs with it.
//!
//! Nobody can tell from outside which job killed a process, so all of its jobs are suspects from their second loss on. A
//! suspect runs alone. For that the doors close: no other job starts until the running ones have ended, and until the
//! suspect has run for some seconds. A job that kills its process nearly always does so early. An attempt that ends by
//! itself ends the suspicion.
//!
//! The doors are closed for at most [`BUDGET`] of any [`WINDOW`], whatever the number of suspects. One suspect is at the
//! doors at a time. The others go back to the table, where another worker may take them, and come again later. If the
//! running jobs do not end in time, the suspect starts beside them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

/// From this number of losses on, a job is a suspect. A process may die for any reason: only the second loss says
/// something about the job.
const SUSPECT: u32 = 2;
/// How long the doors are closed at most …
const BUDGET: Duration = Duration::from_secs(10);
/// … within this time.
const WINDOW: Duration = Duration::from_secs(60);
/// A suspect that would get less time than this comes again later.
const LEAST: Duration = Duration::from_secs(2);
/// How long a job that was never lost waits for the doors. Then it is released: another worker may be able to start it.
const LINGER: Duration = Duration::from_secs(1);

/// Whether a job that was lost so often has to run alone.
pub(crate) fn is_suspect(losses: u32) -> bool {
    losses >= SUSPECT
}

/// The doors of one worker: who may start. It does no I/O, and does not look at the clock.
#[derive(Default)]
struct Doors {
    running: u32,
    /// They are closed since then, at most until then.
    closed: Option<(Instant, Instant)>,
    /// When they were closed before, as long as that counts.
    before: VecDeque<(Instant, Instant)>,
}

impl Doors {
    /// Whether a job that was never lost may start. If so, it runs.
    fn admit(&mut self) -> bool {
        let open = self.closed.is_none();
        self.running += u32::from(open);
        open
    }

    /// Closes them for a suspect. Returns until when, or how long the suspect stays away.
    fn close(&mut self, now: Instant) -> Result<Instant, Duration> {
        if let Some((_, until)) = self.closed {
            return Err(until - now);
        }
        while self.before.front().is_some_and(|(_, end)| now.duration_since(*end) >= WINDOW) {
            self.before.pop_front();
        }
        let left = BUDGET.saturating_sub(self.shut(now));
        if left < LEAST {
            return Err(WINDOW / 2);
        }
        self.closed = Some((now, now + left));
        Ok(now + left)
    }

    /// For how much of the window that ends now they were closed.
    fn shut(&self, now: Instant) -> Duration {
        let closed = self.closed.map(|(begin, _)| (begin, now));
        let of_window = |(begin, end): (Instant, Instant)| {
            end.saturating_duration_since(now.checked_sub(WINDOW).map_or(begin, |window| window.max(begin)))
        };
        self.before.iter().copied().chain(closed).map(of_window).sum()
    }

    fn open(&mut self, now: Instant) {
        if let Some((begin, _)) = self.closed.take() {
            self.before.push_back((begin, now));
        }
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
        self.doors().admit().then(|| Admission { isolation: self.clone(), alone_until: None })
    }

    /// Waits until a job that is no suspect may start. None: not soon, so it is released.
    pub(crate) async fn enter(self: &Arc<Self>) -> Option<Admission> {
        timeout(LINGER, self.until(|| self.enter_at_once())).await.ok()
    }

    /// Closes the doors for a suspect, and waits until it is alone: for half of the time that it has. Err: how long it
    /// stays away.
    pub(crate) async fn enter_alone(self: &Arc<Self>) -> Result<Admission, Duration> {
        let now = Instant::now();
        let until = self.doors().close(now).map_err(|away| away.mul_f64(0.5 + fastrand::f64()))?;
        let closed = Closed { isolation: self, until };
        let alone = self.until(|| (self.doors().running == 0).then_some(()));
        let alone = timeout((until - now) / 2, alone).await.is_ok();
        Ok(closed.enter(alone))
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
}

/// Closed doors, for a suspect that does not run yet. They open when this is dropped.
struct Closed<'a> {
    isolation: &'a Arc<Isolation>,
    until: Instant,
}

impl Closed<'_> {
    /// The suspect starts. If it is not alone, nobody waits for it.
    fn enter(self, alone: bool) -> Admission {
        let isolation = self.isolation.clone();
        isolation.doors().running += 1;
        let alone_until = alone.then_some(self.until);
        if alone {
            std::mem::forget(self);
        }
        Admission { isolation, alone_until }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.isolation.open();
    }
}

/// The place of a running job. It is dropped when the job ends.
pub(crate) struct Admission {
    isolation: Arc<Isolation>,
    /// It runs alone, until then at most.
    alone_until: Option<Instant>,
}

impl Admission {
    pub(crate) fn alone_until(&self) -> Option<Instant> {
        self.alone_until
    }

    /// Lets others run at the same time from now on.
    pub(crate) fn open(&mut self) {
        if self.alone_until.take().is_some() {
            self.isolation.open();
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
