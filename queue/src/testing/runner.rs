//! Runs jobs one after another, with the attempt and the statements of a worker.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use futures_util::FutureExt as _;

use crate::context::States;
use crate::error::Error;
use crate::job::Job;
use crate::metadata::Metadata;
use crate::registry::{JobDefinition, linked};
use crate::state::{JobId, JobState};
use crate::store::TestStore;
use crate::store::values::{Ask, Claimed, End, Lane, LaneHead, NewWorker, Reach, Scope, Start, WorkerId};
use crate::store::view::{Among, Filter, JobDetail};
use crate::testing::outcome::{Drained, Outcome};
use crate::worker::{Attempt, AttemptRow, Ended, Env, LongArgs, Settled, Timing};

/// A job that is retried at once, again and again, is a mistake in the test.
const MOST_RUNS: u32 = 100_000;
/// The lease of a worker in a test. No heartbeat extends it.
const LEASE: Duration = Duration::from_secs(24 * 60 * 60);
/// For how long a worker that dies was silent before. Any time but zero, which says that it was well.
const SILENCE: Duration = Duration::from_secs(1);

/// This many ticks of a schedule are fired at once, at first and after a job that left something to do. The number
/// doubles whenever all their jobs ran. A tick that is fired too early waits in the table, and makes each step slower.
#[cfg(feature = "schedules")]
pub(super) const FEW: usize = 2;

/// The schedules of a test.
#[cfg(feature = "schedules")]
pub(super) struct Ticking {
    /// How far the test's time is ahead of the clock, in microseconds. Negative: behind it.
    pub(super) ahead: i64,
    /// When the test's time begins. None: it has begun.
    pub(super) start: Option<i64>,
    /// What the code declares is in the database.
    pub(super) declared: bool,
    /// How many ticks are fired at once.
    pub(super) at_once: usize,
}

#[cfg(feature = "schedules")]
impl Ticking {
    pub(super) fn new(start: Option<chrono::DateTime<chrono::Utc>>) -> Self {
        Self { ahead: 0, start: start.map(|start| start.timestamp_micros()), declared: false, at_once: FEW }
    }
}

/// What happens to the worker that runs the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mishap {
    CrashBeforeEnd,
    LoseLease,
}

pub(crate) struct Runner {
    pub(super) store: Arc<dyn TestStore>,
    pub(super) states: States,
    pub(super) registered: Vec<JobDefinition>,
    pub(super) mishap: Option<Mishap>,
    worker: Option<WorkerId>,
    /// By how many microseconds the jobs have made up for a clock that stands still …
    caught_up: i64,
    /// … and up to which id.
    newest: i64,
    /// A `drain` ended with an error, or was dropped: its worker may hold a job.
    unfinished: bool,
    /// None: schedules do not fire.
    #[cfg(feature = "schedules")]
    pub(super) ticking: Option<Ticking>,
}

impl Runner {
    pub(super) fn new(store: Arc<dyn TestStore>) -> Self {
        Self {
            store,
            states: States::new(),
            registered: Vec::new(),
            mishap: None,
            worker: None,
            caught_up: 0,
            newest: 0,
            unfinished: false,
            #[cfg(feature = "schedules")]
            ticking: None,
        }
    }

    /// Each job once.
    pub(super) fn distinct_definitions(&self) -> Vec<JobDefinition> {
        let mut all: Vec<_> = linked().into_iter().chain(self.registered.iter().cloned()).collect();
        let mut seen = HashSet::new();
        all.retain(|job| seen.insert(job.type_id));
        all
    }

    pub(super) fn definitions(&self) -> HashMap<&'static str, Arc<JobDefinition>> {
        let all = self.distinct_definitions().into_iter().map(Arc::new);
        let named = |job: Arc<JobDefinition>| {
            let names: Vec<_> = std::iter::once(job.kind).chain(job.aliases.iter().copied()).collect();
            names.into_iter().map(move |name| (name, job.clone()))
        };
        all.flat_map(named).collect()
    }

    pub(super) fn scope(&self) -> Scope {
        let mut kinds: Vec<String> = self.definitions().keys().map(ToString::to_string).collect();
        kinds.sort();
        Scope { kinds, queues: Vec::new() }
    }

    /// Runs everything that is due.
    pub(super) async fn drain(&mut self, drained: &mut Drained) -> Result<(), Error> {
        #[cfg(feature = "schedules")]
        self.fire().await?;
        let (definitions, scope) = (self.definitions(), self.scope());
        self.catch_up().await?;
        let mut worker = match self.worker {
            Some(worker) if self.unfinished => self.lose(worker, &scope).await?.0,
            Some(worker) => worker,
            None => self.join(&scope).await?,
        };
        (self.worker, self.unfinished) = (Some(worker), true);
        let before = drained.runs();
        while let Some(job) = self.next(&scope, &definitions, worker).await? {
            let definition = definitions.get(&*job.lane.kind).expect("only these kinds are claimed").clone();
            let outcome = match self.mishap.take() {
                None => {
                    let (outcome, ended) = self.run(worker, job, definition).await?;
                    self.store.end(worker, ended.as_slice()).await?;
                    outcome
                }
                Some(mishap) => self.run_and_lose(&mut worker, &scope, job, definition, mishap).await?,
            };
            self.worker = Some(worker);
            drained.add(outcome);
            if drained.runs() - before >= MOST_RUNS {
                return Err(Error::config(format!(
                    "`drain` has run {MOST_RUNS} attempts and jobs are still due: does one of them snooze or retry \
                     without a pause, or enqueue itself?"
                )));
            }
        }
        // in somebody's transaction nobody else sees the worker, and it goes with the transaction
        if !self.store.is_given() {
            self.store.leave(worker, Duration::ZERO).await?;
            self.worker = None;
        }
        self.unfinished = false;
        Ok(())
    }

    /// Moves to the next due moment, at most by `most`. Returns by how much, or None if nothing is due until then.
    pub(super) async fn step(&mut self, most: Duration) -> Result<Option<Duration>, Error> {
        let found = self.store.discover(&self.scope(), &[], usize::MAX / 4, false).await?;
        // what is due and did not run is locked by somebody else
        let later = found.heads.iter().map(|head| head.due_in).filter(|due_in| !due_in.is_zero());
        let next = later.min();
        #[cfg(feature = "schedules")]
        let next = next.into_iter().chain(self.next_tick().await?).min();
        let next = next.filter(|next| *next <= most);
        let by = next.unwrap_or(most);
        // whole milliseconds: SQLite has no others
        let micros = i64::try_from(by.as_micros().div_ceil(1_000) * 1_000).unwrap_or(i64::MAX / 2);
        if micros > 0 {
            self.store.shift(micros, 0).await?;
        }
        #[cfg(feature = "schedules")]
        self.passes(Duration::from_micros(micros.unsigned_abs()));
        Ok(next.map(|_| Duration::from_micros(micros.unsigned_abs())))
    }

    /// Inside a transaction, PostgreSQL's time stands still. So the jobs move instead.
    async fn catch_up(&mut self) -> Result<(), Error> {
        let (stands_still, newest) = self.store.standstill().await?;
        if stands_still > self.caught_up {
            self.store.shift(stands_still - self.caught_up, 0).await?;
            // delays of newer jobs count from a later time by the clock
            if self.caught_up > 0 {
                self.store.shift(self.caught_up, self.newest).await?;
            }
            (self.caught_up, self.newest) = (stands_still, newest.max(self.newest));
        }
        Ok(())
    }

    /// Runs one attempt of a job that has no row.
    pub(super) async fn perform<J: Job>(&self, job: &J) -> Result<Outcome, Error> {
        let args = serde_json::to_string(job).map_err(|source| Error::Payload { kind: J::KIND, source })?;
        let definition = Arc::new(JobDefinition::of::<J>());
        self.check_states(&definition)?;
        let claimed = Claimed {
            id: JobId::from(0),
            fence: 1,
            attempt: 1,
            max_retries: J::MAX_RETRIES,
            lane: Lane { kind: Arc::from(J::KIND), queue: Arc::from(J::QUEUE), priority: J::PRIORITY },
            run_at: Utc::now().timestamp_micros(),
            enqueued_at: Utc::now(),
            args: Ok(args),
            losses: 0,
            meta: Ok(Metadata::NONE),
            claim: None,
        };
        let ended = self.attempt(claimed, definition, AttemptRow::None).run(None, None).await;
        match ended.expect("its lease is not lost") {
            Ended::Known(end) => Ok(Outcome::of(&end)),
            Ended::Unsettled(..) => unreachable!("there is no row that it could complete"),
        }
    }

    /// The waiting jobs of a kind and its aliases.
    pub(super) async fn waiting<J: Job>(&self) -> Result<Vec<JobDetail>, Error> {
        let mut all = Vec::new();
        for kind in std::iter::once(&J::KIND).chain(J::ALIASES) {
            let filter = Filter { among: Among::Unfinished, ..Filter::new().kind(*kind) };
            let mut after = Some(i64::MIN);
            while let Some(from) = after {
                let walked = self.store.walk(&filter, from, i64::MAX).await?;
                for job in walked.jobs.iter().filter(|job| job.state != JobState::Running) {
                    all.extend(self.store.job(job.id).await?);
                }
                after = walked.next;
            }
        }
        all.sort_by_key(|job| job.job.id);
        Ok(all)
    }

    pub(super) async fn join(&self, scope: &Scope) -> Result<WorkerId, Error> {
        let card = NewWorker {
            host: "test".to_owned(),
            pid: std::process::id(),
            concurrency: 1,
            queues: scope.queues.clone(),
            kinds: scope.kinds.clone(),
            secrets: Default::default(),
            limits: Default::default(),
        };
        self.store.join(&card, LEASE).await
    }

    /// Claims the next due job, by priority, due time and id.
    async fn next(
        &self,
        scope: &Scope,
        definitions: &HashMap<&'static str, Arc<JobDefinition>>,
        worker: WorkerId,
    ) -> Result<Option<Claimed>, Error> {
        let found = self.store.discover(scope, &[], usize::MAX / 4, false).await?;
        let ask = |head: LaneHead| Ask {
            take: 1,
            behind: None,
            first: None,
            newest_first: false,
            max_retries: definitions.get(&*head.lane.kind).map_or(0, |job| job.max_retries),
            lane: head.lane,
        };
        let mut due: Vec<_> = found.heads.into_iter().filter(|head| head.due_in.is_zero()).map(ask).collect();
        while !due.is_empty() {
            let mut first = 0;
            if due.len() > 1 {
                let shares = self.store.preview(&due, Reach { most: 1, least: 1, before: None, until: None }).await?;
                let next = shares.iter().enumerate().max_by_key(|(number, share)| (share.count, Reverse(*number)));
                first = next.map_or(0, |(number, _)| number);
            }
            let ask = due.swap_remove(first);
            if let Some(definition) = definitions.get(&*ask.lane.kind) {
                self.check_states(definition)?;
            }
            // somebody else may have locked the only job of the lane
            if let Some(job) = self.store.claim(worker, &[ask], None).await?.pop() {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }

    pub(super) fn check_states(&self, definition: &JobDefinition) -> Result<(), Error> {
        match definition.requires.iter().find(|state| !self.states.contains_key(&state.id)) {
            Some(state) if state.tx_of.is_some() && self.store.is_given() => Err(Error::config(format!(
                "job `{}` takes `Tx<{}>`, and this test queue works within a transaction: use `TestQueue::new(&pool)`",
                definition.kind, state.name
            ))),
            Some(state) => {
                let engine = self.store.capabilities().engine;
                Err(Error::config(format!("job `{}` takes {}", definition.kind, state.missing(engine, "test queue"))))
            }
            None => Ok(()),
        }
    }

    fn attempt(&self, job: Claimed, definition: Arc<JobDefinition>, row: AttemptRow) -> Arc<Attempt> {
        let env = Env {
            store: self.store.clone(),
            states: Arc::new(self.states.clone()),
            timing: Timing::default(),
            log_errors: true,
            observers: Default::default(),
            wrappers: Default::default(),
        };
        Attempt::new(Arc::new(env), job, definition, row)
    }

    /// The attempt of a job that this worker has claimed.
    async fn claimed(
        &self,
        worker: WorkerId,
        job: Claimed,
        definition: Arc<JobDefinition>,
    ) -> Result<impl Future<Output = Option<Ended>>, Error> {
        let args = match job.args {
            Ok(_) => None,
            // they were too long to come with the claim
            Err(_) => self.store.args(worker, job.id.get(), job.fence).await?,
        };
        let row = if self.store.is_given() { AttemptRow::Lent } else { AttemptRow::Of(worker) };
        Ok(self.attempt(job, definition, row).run(args.map(|json| LongArgs { json, _turn: None }), None))
    }

    /// Runs an attempt. Returns how it ended, and what is still to be recorded of it.
    pub(super) async fn run(
        &self,
        worker: WorkerId,
        job: Claimed,
        definition: Arc<JobDefinition>,
    ) -> Result<(Outcome, Option<End>), Error> {
        let ended = self.claimed(worker, job, definition).await?.await;
        self.settled(worker, ended.expect("its lease is not lost")).await
    }

    /// How an attempt ended, and what is still to be recorded of it.
    async fn settled(&self, worker: WorkerId, ended: Ended) -> Result<(Outcome, Option<End>), Error> {
        let (attempt, raw) = match ended {
            Ended::Known(end) => return Ok((Outcome::of(&end), Some(end))),
            Ended::Unsettled(attempt, raw) => (attempt, raw),
        };
        let is_held = !self.store.still_held(worker, &[attempt.job.hold()]).await?.is_empty();
        Ok(match attempt.settle(raw, is_held) {
            Settled::Completed { result } => (Outcome::completed(result.as_deref()), None),
            Settled::Ended(end) => (Outcome::of(&end), Some(end)),
            Settled::Lost => unreachable!("its lease is not lost"),
        })
    }

    /// Runs an attempt whose worker is lost, and joins as another worker.
    async fn run_and_lose(
        &self,
        worker: &mut WorkerId,
        scope: &Scope,
        job: Claimed,
        definition: Arc<JobDefinition>,
        mishap: Mishap,
    ) -> Result<Outcome, Error> {
        let (lost, id) = (*worker, job.id);
        // so that the attempt counts, as that of a worker that dies in the middle
        self.store.started(lost, &[Start { hold: job.hold(), max_neighbours: None }]).await?;
        let attempt = self.claimed(lost, job, definition).await?;
        let ended = match mishap {
            Mishap::CrashBeforeEnd => attempt.await,
            // to its first pause, where it is dropped
            Mishap::LoseLease => attempt.now_or_never().flatten(),
        };
        let late = match ended {
            Some(Ended::Known(end)) if mishap == Mishap::LoseLease => Some(end),
            Some(ended @ Ended::Unsettled(..)) => match self.settled(lost, ended).await? {
                // committed with its own effects
                (outcome, None) => return Ok(outcome),
                _ => None,
            },
            _ => None,
        };
        let (next, dead) = self.lose(lost, scope).await?;
        *worker = next;
        // refused: the job belongs to no worker or to another one by now
        self.store.end(lost, late.as_slice()).await?;
        Ok(match dead {
            true => Outcome::Dead { error: format!("job {id}: its worker was lost in its last attempt") },
            false => Outcome::Lost { id },
        })
    }

    /// The worker is lost, and its job returns or is dead. Returns which, and the worker's successor.
    async fn lose(&self, worker: WorkerId, scope: &Scope) -> Result<(WorkerId, bool), Error> {
        self.store.leave(worker, SILENCE).await?;
        let (rescued, _) = self.store.rescue(100, &HashSet::new()).await?;
        Ok((self.join(scope).await?, rescued.dead > 0))
    }
}
