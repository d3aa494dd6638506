//! Claiming: the loop that takes jobs while there is room for them. The [`Brain`] decides, and the loop carries it out.

mod brain;
mod discovery;
mod lanes;
pub(crate) mod orphans;
mod plan;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::store::values::{Claimed, End, Found, WorkerId};
use crate::telemetry;
use crate::worker::claim::brain::{After, Brain, Event, Rest, Step};
use crate::worker::claim::discovery::Discovery;
use crate::worker::claim::orphans::Orphans;
use crate::worker::lease::health::Failures;
use crate::worker::run::slots::Want;
use crate::worker::shared::Shared;

/// Claims until told to stop.
pub(crate) async fn run(shared: Arc<Shared>) {
    Claims::new(shared).run().await;
}

/// The loop.
struct Claims {
    shared: Arc<Shared>,
    brain: Brain,
    /// The result of a discovery in the background, with the time that it took.
    beside: Option<oneshot::Receiver<(Result<Found, Error>, Duration)>>,
    /// This worker holds the claim lock.
    locked: bool,
}

impl Claims {
    fn new(shared: Arc<Shared>) -> Self {
        Self { brain: Brain::new(shared.clone()), shared, beside: None, locked: false }
    }

    async fn run(mut self) {
        let shared = self.shared.clone();
        let stop = &shared.stop_claiming;
        let mut failures = Failures::default();
        let mut idle_since = Instant::now();
        // after a wait there may be new jobs; right after a claim, nothing suggests so
        let mut after = After::News;
        let mut orphans = Orphans::default();
        while !stop.is_cancelled() {
            orphans.look(&shared).await;
            let wants = self.brain.wants();
            if wants.is_empty() {
                tokio::select! {
                    () = shared.notices.room.notified() => {}
                    () = orphans.wait() => {}
                    () = stop.cancelled() => {}
                }
                continue;
            }
            let claimed = self.round(wants, after).await;
            self.unlock().await;
            match claimed {
                Ok(0) => {
                    shared.health.up(&mut failures);
                    let Rest { pause, poll, quiet } = self.brain.rest(idle_since.elapsed());
                    shared.notices.quiet.store(quiet, Relaxed);
                    let _listening = shared.config.store.listen();
                    after = tokio::select! {
                        () = shared.notices.enqueued.notified() => After::News,
                        () = sleep(pause) => if pause < poll { After::Pause } else { After::Poll },
                        // another queue has room: its lanes may be known
                        () = shared.notices.room.notified(), if shared.work.slots.count() > 1 => After::Claim,
                        () = orphans.wait() => After::Claim,
                        () = stop.cancelled() => After::Claim,
                    };
                }
                Ok(_) => {
                    shared.health.up(&mut failures);
                    shared.notices.quiet.store(false, Relaxed);
                    idle_since = Instant::now();
                    after = After::Claim;
                }
                Err(error) => {
                    self.brain.failed(&error);
                    orphans.doubt();
                    shared.health.down(&mut failures, &error).await;
                }
            }
        }
    }

    /// Carries out the steps of one round. Returns how many jobs it claimed.
    async fn round(&mut self, wants: Vec<Want>, after: After) -> Result<usize, Error> {
        if self.brain.is_outdated() {
            (self.brain, self.beside) = (Brain::new(self.shared.clone()), None);
        }
        self.end_beside()?;
        let shared = self.shared.clone();
        let store = &shared.config.store;
        let mut step = self.brain.begin(wants, after);
        loop {
            if !matches!(step, Step::Preview(..) | Step::Claim { .. }) {
                self.unlock().await;
            }
            let began = Instant::now();
            step = match step {
                Step::Discover { behind, most, beside: true } => {
                    let (sender, receiver) = oneshot::channel();
                    self.beside = Some(receiver);
                    let shared = shared.clone();
                    tokio::spawn(async move {
                        let found = shared.config.store.discover(&shared.scope, &behind, most, true).await;
                        shared.learn_the_time(began, &found);
                        // nobody receives it if the worker has ended or has a new number
                        let _ = sender.send((found, began.elapsed()));
                        shared.notices.enqueued.notify_one();
                    });
                    self.brain.on(Event::Discovering)?
                }
                Step::Discover { behind, most, beside: false } => {
                    let found = store.discover(&shared.scope, &behind, most, false).await;
                    shared.learn_the_time(began, &found);
                    self.brain.on(Event::Discovered(found, began.elapsed()))?
                }
                Step::Lock => {
                    self.locked = store.take_claim_lock().await?;
                    self.brain.on(Event::Locked { taken: self.locked, waited: began.elapsed() })?
                }
                Step::Preview(asks, reach) => {
                    let shares = store.preview(&asks, reach).await?;
                    self.brain.on(Event::Previewed(asks, reach, shares))?
                }
                Step::Claim { asks, alone } => {
                    let worker = shared.lease.id();
                    let jobs = store.claim(worker, &asks, alone.then_some(&*shared.scope.kinds)).await?;
                    let next = self.brain.on(Event::Claimed { asks, jobs: &jobs, began })?;
                    hand_over(&shared, worker, jobs);
                    self.unlock().await;
                    next
                }
                Step::Done(claimed) => return Ok(claimed),
            };
        }
    }

    /// Takes over the result of the discovery in the background, if it has ended.
    fn end_beside(&mut self) -> Result<(), Error> {
        match self.beside.as_mut().map(oneshot::Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => return Ok(()),
            Some(Ok((found, took))) => self.brain.discovered(found, took)?,
            // the runtime is shutting down
            Some(Err(TryRecvError::Closed)) => self.brain.discovery = Discovery::new(),
        }
        self.beside = None;
        Ok(())
    }

    async fn unlock(&mut self) {
        if std::mem::take(&mut self.locked)
            && let Err(error) = self.shared.config.store.release_claim_lock().await
        {
            tracing::debug!(%error, "could not release the claim lock; it ends with its connection");
        }
    }
}

/// Hands claimed jobs to the slots of their queues.
fn hand_over(shared: &Arc<Shared>, worker: WorkerId, jobs: Vec<Claimed>) {
    if shared.config.env.observers.any() && !jobs.is_empty() {
        shared.tell(telemetry::Event::JobsClaimed { jobs: &jobs });
    }
    let had_none = !jobs.is_empty() && shared.work.slots.is_idle();
    shared.recorder.claims.claimed(worker, &jobs);
    let slots_of = |job: Claimed| match shared.work.slots.of(&job.lane.queue) {
        Some(slots) => {
            let newest_first = shared.config.newest_first.contains(&*job.lane.queue);
            Some((slots, job, newest_first))
        }
        None => {
            // the scope holds only served queues: this row's queue changed during the claim
            shared.recorder.record(worker, None, End::unstarted(job.hold()));
            None
        }
    };
    shared.work.slots.admit(worker, jobs.into_iter().filter_map(slots_of));
    shared.start_slots();
    if had_none {
        shared.notices.at_work.notify_one();
    }
}

#[cfg(test)]
mod tests;
