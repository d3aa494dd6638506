//! What the test jobs do and tell.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use queue::{JobContext, JobError, JobId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;

use crate::{DEADLINE, within};

/// What happened to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Its handler was called.
    Started,
    /// Its token fired while it waited.
    Told,
    /// Its handler came to an end, or panicked.
    Ended,
    /// Its future was dropped before.
    Dropped,
}

/// Something that happened to an attempt, and what its context said.
#[derive(Debug, Clone)]
pub struct Event {
    /// What happened.
    pub what: What,
    /// The job's own argument, by which tests tell jobs apart.
    pub label: String,
    /// See [`JobContext::id`].
    pub id: JobId,
    /// See [`JobContext::attempt`].
    pub attempt: u32,
    /// See [`JobContext::max_attempts`].
    pub max_attempts: u32,
    /// See [`JobContext::kind`].
    pub kind: String,
    /// See [`JobContext::queue`].
    pub queue: String,
    /// See [`JobContext::enqueued_at`].
    pub enqueued_at: chrono::DateTime<chrono::Utc>,
}

/// What one run of a job does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Step {
    /// Returns nothing.
    Complete,
    /// Returns this as the result.
    Return(Value),
    /// Fails.
    Fail(String),
    /// Fails, and asks for a retry after so many milliseconds.
    RetryAfter(u64, String),
    /// Gives up.
    Die(String),
    /// Calls itself off.
    Cancel(String),
    /// Wants to be run again after so many milliseconds.
    Snooze(u64),
    /// Panics.
    Panic(String),
    /// Takes so many milliseconds.
    Pause(u64),
    /// Waits for [`Probe::release`] of this name, then goes on; fails when it is told to stop.
    Hold(String, Box<Step>),
    /// Waits for [`Probe::release`] of this name, or to be told to stop; goes on then.
    Heed(String, Box<Step>),
    /// Waits for [`Probe::release`] of this name and does not listen to its token.
    Deaf(String, Box<Step>),
    /// Blocks its thread until [`Probe::release`] of this name.
    Block(String, Box<Step>),
}

impl Step {
    /// Waits to be released, then completes.
    pub fn hold(name: &str) -> Self {
        Self::Hold(name.into(), Box::new(Self::Complete))
    }

    /// Waits to be released, then does something else.
    pub fn hold_then(name: &str, then: Self) -> Self {
        Self::Hold(name.into(), Box::new(then))
    }

    /// Waits to be released and does not listen, then completes.
    pub fn deaf(name: &str) -> Self {
        Self::Deaf(name.into(), Box::new(Self::Complete))
    }

    /// Blocks its thread until it is released, then completes.
    pub fn block(name: &str) -> Self {
        Self::Block(name.into(), Box::new(Self::Complete))
    }
}

/// One test's view of its jobs: given to workers as a state, and asked by the test.
#[derive(Clone, Default)]
pub struct Probe(Arc<Inner>);

#[derive(Default)]
struct Inner {
    log: Mutex<Vec<Event>>,
    changed: Notify,
    released: Mutex<Released>,
    /// For those that wait asynchronously, and for those that block.
    gate: Notify,
    gate_blocking: Condvar,
}

#[derive(Default)]
struct Released {
    names: HashSet<String>,
    all: bool,
}

impl Released {
    fn has(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Probe {
    /// Everything that has happened, in order.
    pub fn log(&self) -> Vec<Event> {
        lock(&self.0.log).clone()
    }

    /// The labels of what has happened in this way, in order.
    pub fn labels(&self, what: What) -> Vec<String> {
        lock(&self.0.log).iter().filter(|event| event.what == what).map(|event| event.label.clone()).collect()
    }

    /// How often this has happened to jobs with this label.
    pub fn count(&self, what: What, label: &str) -> usize {
        lock(&self.0.log).iter().filter(|event| event.what == what && event.label == label).count()
    }

    /// The most attempts that ever ran at the same time, of those that `of` picks.
    pub fn peak(&self, of: impl Fn(&Event) -> bool) -> usize {
        let (mut now, mut most) = (0usize, 0);
        for event in lock(&self.0.log).iter().filter(|event| of(event)) {
            match event.what {
                What::Started => now += 1,
                What::Ended | What::Dropped => now -= 1,
                What::Told => {}
            }
            most = most.max(now);
        }
        most
    }

    /// Waits until `look` finds in the log what it looks for.
    ///
    /// # Panics
    /// At the deadline, with `what` and the end of the log.
    pub async fn wait<T>(&self, what: &str, look: impl Fn(&[Event]) -> Option<T>) -> T {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let mut changed = pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if let Some(found) = look(&lock(&self.0.log)) {
                return found;
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                let log = self.log();
                let last: Vec<_> =
                    log.iter().rev().take(20).map(|e| (e.what, &e.label, e.id.get(), e.attempt)).collect();
                panic!("waited {DEADLINE:?} in vain: {what}; {} events, the last ones first: {last:?}", log.len());
            }
        }
    }

    /// Waits for the `n`th time that something happens to jobs with this label.
    pub async fn wait_for(&self, what: What, label: &str, n: usize) -> Event {
        let text = format!("{what:?} {label:?}, number {n}");
        self.wait(&text, |log| log.iter().filter(|e| e.what == what && e.label == label).nth(n - 1).cloned()).await
    }

    /// Waits until something has happened `n` times in all.
    pub async fn wait_for_all(&self, what: What, n: usize) {
        let text = format!("{n} times {what:?}");
        self.wait(&text, |log| (log.iter().filter(|e| e.what == what).count() >= n).then_some(())).await;
    }

    /// Lets go on what waits, or will wait, under this name.
    pub fn release(&self, name: &str) {
        lock(&self.0.released).names.insert(name.to_owned());
        self.0.gate.notify_waiters();
        self.0.gate_blocking.notify_all();
    }

    /// Lets everything go on, for ever.
    pub fn release_all(&self) {
        lock(&self.0.released).all = true;
        self.0.gate.notify_waiters();
        self.0.gate_blocking.notify_all();
    }

    async fn released(&self, name: &str) {
        loop {
            let mut gate = pin!(self.0.gate.notified());
            gate.as_mut().enable();
            if lock(&self.0.released).has(name) {
                return;
            }
            gate.await;
        }
    }

    fn released_blocking(&self, name: &str) {
        let guard = lock(&self.0.released);
        let waited = self.0.gate_blocking.wait_timeout_while(guard, 3 * DEADLINE, |released| !released.has(name));
        drop(waited);
    }

    fn tell(&self, event: Event) {
        lock(&self.0.log).push(event);
        self.0.changed.notify_waiters();
    }

    /// Says that an attempt begins; it ends when the answer is ended or dropped.
    pub fn start(&self, ctx: &JobContext, label: &str) -> Attempt {
        let event = Event {
            what: What::Started,
            label: label.to_owned(),
            id: ctx.id(),
            attempt: ctx.attempt(),
            max_attempts: ctx.max_attempts(),
            kind: ctx.kind().to_owned(),
            queue: ctx.queue().to_owned(),
            enqueued_at: ctx.enqueued_at(),
        };
        let earlier = lock(&self.0.log).iter().filter(|e| e.what == What::Started && e.id == event.id).count();
        self.tell(event.clone());
        Attempt { probe: self.clone(), event, earlier, ended: false }
    }

    /// Begins and ends an attempt that does nothing else.
    pub fn note(&self, ctx: &JobContext, label: &str) {
        self.start(ctx, label).end();
    }

    /// Does what the script says: the `n`th run of the job its `n`th step, further runs the last one.
    pub async fn perform(&self, ctx: &JobContext, label: &str, steps: &[Step]) -> Result<Value, JobError> {
        let attempt = self.start(ctx, label);
        let mut step = attempt.step(steps);
        let result = loop {
            step = match step {
                Step::Hold(name, then) => {
                    if !self.released_or_told(ctx, &attempt, &name).await {
                        break Err(JobError::retry("told to stop"));
                    }
                    *then
                }
                Step::Heed(name, then) => {
                    self.released_or_told(ctx, &attempt, &name).await;
                    *then
                }
                Step::Deaf(name, then) => {
                    within("an end of a deaf job", async {
                        tokio::select! {
                            () = self.released(&name) => {}
                            () = async {
                                ctx.cancelled().await;
                                attempt.told();
                                self.released(&name).await;
                            } => {}
                        }
                    })
                    .await;
                    *then
                }
                Step::Block(name, then) => {
                    self.released_blocking(&name);
                    *then
                }
                Step::Pause(ms) => {
                    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
                    Step::Complete
                }
                end => break end.end(),
            };
        };
        attempt.end();
        result
    }

    /// The same for a handler that may block.
    pub fn perform_blocking(&self, ctx: &JobContext, label: &str, steps: &[Step]) -> Result<Value, JobError> {
        let attempt = self.start(ctx, label);
        let mut step = attempt.step(steps);
        while let Step::Hold(name, then) | Step::Heed(name, then) | Step::Deaf(name, then) | Step::Block(name, then) =
            step
        {
            self.released_blocking(&name);
            step = *then;
        }
        let result = step.end();
        attempt.end();
        result
    }

    /// True: released.
    async fn released_or_told(&self, ctx: &JobContext, attempt: &Attempt, name: &str) -> bool {
        tokio::select! {
            () = self.released(name) => true,
            () = ctx.cancelled() => {
                attempt.told();
                false
            }
        }
    }
}

impl Step {
    fn end(self) -> Result<Value, JobError> {
        match self {
            Self::Return(value) => Ok(value),
            Self::Fail(text) => Err(JobError::retry(text)),
            Self::RetryAfter(ms, text) => Err(JobError::retry_after(std::time::Duration::from_millis(ms), text)),
            Self::Die(text) => Err(JobError::dead(text)),
            Self::Cancel(text) => Err(JobError::cancel(text)),
            Self::Snooze(ms) => Err(JobError::snooze(std::time::Duration::from_millis(ms))),
            Self::Panic(text) => panic!("{text}"),
            _ => Ok(Value::Null),
        }
    }
}

/// A handler at work.
#[derive(Debug)]
#[must_use = "dropping it says that the handler was dropped"]
pub struct Attempt {
    probe: Probe,
    event: Event,
    /// How often the job ran before.
    earlier: usize,
    ended: bool,
}

impl Attempt {
    fn step(&self, steps: &[Step]) -> Step {
        steps.get(self.earlier).or(steps.last()).cloned().unwrap_or(Step::Complete)
    }

    /// Says that the handler learned that it shall stop.
    pub fn told(&self) {
        self.probe.tell(Event { what: What::Told, ..self.event.clone() });
    }

    /// Says that the handler ended.
    pub fn end(mut self) {
        self.ended = true;
        self.probe.tell(Event { what: What::Ended, ..self.event.clone() });
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.ended {
            let what = if std::thread::panicking() { What::Ended } else { What::Dropped };
            self.probe.tell(Event { what, ..self.event.clone() });
        }
    }
}
