//! Which jobs run at the same time. A job that kills its process must not take other jobs with it.
//!
//! Nobody can tell from outside which job killed a process, so all of its jobs are suspects. A job that was lost twice
//! runs with few others, and from the third loss on alone. A job that was lost twice also runs alone if another loss
//! would make it a dead letter. An attempt that ends by itself ends the suspicion.
//!
//! The delay for other jobs is limited. A job waits at most [`PATIENCE`] for them to end, and they wait at most
//! [`SECLUSION`] for it. After that they run together.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};

/// How long a job waits for the others to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the others wait for a job. A job that kills its process nearly always does so early. A job that takes hours
/// must not keep the other slots empty for hours.
pub(crate) const SECLUSION: Duration = Duration::from_secs(60);
/// A job that is not the next to start after this time is released: another worker may be able to start it.
const LINGER: Duration = Duration::from_secs(1);
/// From this number of losses on, a job runs alone.
const ALONE: u32 = 3;
/// While a worker runs a job that was lost twice, it runs at most its concurrency divided by this, but at least 2.
const SHARE: u32 = 8;

/// How many jobs may run at the same time as this one, including itself. None: any number.
pub(crate) fn most(losses: u32, attempt: u32, max_retries: u32, concurrency: u32) -> Option<u32> {
    // a process may die for any reason: only the second loss says something about the job
    if losses < 2 {
        return None;
    }
    // one attempt may not have been counted, because nobody knew whether it had begun
    let is_last = attempt >= max_retries;
    Some(if is_last || losses >= ALONE { 1 } else { (concurrency / SHARE).max(2) })
}

/// The jobs that one worker runs.
pub(crate) struct Isolation {
    inner: Mutex<IsolationState>,
    /// Notified when a job need not wait any more.
    room: Arc<Notify>,
}

#[derive(Default)]
struct IsolationState {
    running: u32,
    /// The limits of the running jobs, and how many jobs have each.
    limits: BTreeMap<u32, u32>,
    /// The jobs that wait to start, in order.
    waiting: VecDeque<Entrant>,
    /// How many jobs have ever waited. It numbers them.
    waited: u64,
}

struct Entrant {
    number: u64,
    most: Option<u32>,
    go: oneshot::Sender<()>,
}

impl IsolationState {
    /// Whether one more job may start.
    fn admits(&self, most: Option<u32>) -> bool {
        let limit = self.limits.keys().next().copied();
        [limit, most].into_iter().flatten().all(|limit| self.running < limit)
    }

    fn add(&mut self, most: Option<u32>) {
        self.running += 1;
        if let Some(most) = most {
            *self.limits.entry(most).or_default() += 1;
        }
    }

    fn lift(&mut self, most: Option<u32>) {
        let Some(most) = most else { return };
        if let Some(count) = self.limits.get_mut(&most) {
            *count -= 1;
            if *count == 0 {
                self.limits.remove(&most);
            }
        }
    }

    /// Whether a job that was never lost would have to wait.
    fn is_closed(&self) -> bool {
        !self.waiting.is_empty() || !self.admits(None)
    }
}

impl Isolation {
    pub(crate) fn new(room: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), room })
    }

    fn lock(&self) -> MutexGuard<'_, IsolationState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a job would have to wait now. If so, none is claimed.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    /// Lets the job start if it need not wait.
    pub(crate) fn enter_at_once(self: &Arc<Self>, most: Option<u32>) -> Option<Admission> {
        self.place(&mut self.lock(), most)
    }

    fn place(self: &Arc<Self>, inner: &mut IsolationState, most: Option<u32>) -> Option<Admission> {
        (inner.waiting.is_empty() && inner.admits(most)).then(|| {
            inner.add(most);
            Admission { isolation: self.clone(), most }
        })
    }

    /// Waits in line until the job may start. None: others are ahead of it, so it is released.
    pub(crate) async fn enter(self: &Arc<Self>, most: Option<u32>) -> Option<Admission> {
        let mut gone = {
            let mut inner = self.lock();
            if let Some(place) = self.place(&mut inner, most) {
                return Some(place);
            }
            let (go, gone) = oneshot::channel();
            inner.waited += 1;
            let number = inner.waited;
            inner.waiting.push_back(Entrant { number, most, go });
            Waiter { isolation: self, number, most, go: gone, taken: false }
        };
        tokio::select! {
            biased;
            _ = &mut gone.go => return Some(gone.take()),
            () = sleep(LINGER) => {}
        }
        if self.lock().waiting.front().is_some_and(|first| first.number != gone.number) {
            return None;
        }
        match timeout(PATIENCE, &mut gone.go).await {
            Ok(_) => Some(gone.take()),
            Err(_) => Some(gone.take_anyhow()),
        }
    }

    /// Starts the waiting jobs that may start. Notifies `room` when nobody has to wait any more.
    fn advance(&self, inner: &mut IsolationState) {
        while let Some(first) = inner.waiting.front()
            && inner.admits(first.most)
        {
            let Some(first) = inner.waiting.pop_front() else { return };
            inner.add(first.most);
            let _ = first.go.send(());
        }
        if !inner.is_closed() {
            self.room.notify_one();
        }
    }

    fn leave(&self, most: Option<u32>) {
        let mut inner = self.lock();
        let was_closed = inner.is_closed();
        inner.lift(most);
        inner.running -= 1;
        if was_closed {
            self.advance(&mut inner);
        }
    }
}

/// A waiting job. Dropping it ends the wait.
struct Waiter<'a> {
    isolation: &'a Arc<Isolation>,
    number: u64,
    most: Option<u32>,
    go: oneshot::Receiver<()>,
    taken: bool,
}

impl Waiter<'_> {
    fn take(&mut self) -> Admission {
        self.taken = true;
        Admission { isolation: self.isolation.clone(), most: self.most }
    }

    /// Starts, whatever else runs.
    fn take_anyhow(&mut self) -> Admission {
        let mut inner = self.isolation.lock();
        if let Some(at) = inner.waiting.iter().position(|it| it.number == self.number) {
            inner.waiting.remove(at);
            self.most = None;
            inner.add(None);
            self.isolation.advance(&mut inner);
        }
        drop(inner);
        self.take()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut inner = self.isolation.lock();
        match inner.waiting.iter().position(|it| it.number == self.number) {
            Some(at) => {
                inner.waiting.remove(at);
                self.isolation.advance(&mut inner);
            }
            None => {
                drop(inner);
                self.isolation.leave(self.most);
            }
        }
    }
}

/// The place of a running job. It is dropped when the job ends.
pub(crate) struct Admission {
    isolation: Arc<Isolation>,
    most: Option<u32>,
}

impl Admission {
    /// How many others may run at the same time. None: any number.
    pub(crate) fn max_neighbours(&self) -> Option<u32> {
        self.most.map(|most| most - 1)
    }

    /// Lets others run at the same time from now on.
    pub(crate) fn open(&mut self) {
        if let Some(most) = self.most.take() {
            let mut inner = self.isolation.lock();
            inner.lift(Some(most));
            self.isolation.advance(&mut inner);
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.isolation.leave(self.most);
    }
}

#[cfg(test)]
#[path = "isolation_tests.rs"]
mod tests;
