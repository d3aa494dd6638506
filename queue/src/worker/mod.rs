//! The worker: loops that share one [`Shared`], each in its own file.
//!
//! ```text
//!  claim ──jobs──► slots ──► company ──► attempt ──how it ended──► record
//!    ▲  wake: enqueues of this process, the engine's signal, the poll, a slot that became free
//!  starts: tells the database what has begun
//!  heartbeat: keeps the lease, brings cancellations, starts rescue and retention
//!  shutdown: stop claiming → give unstarted jobs back → wait → cancel → give back → leave
//! ```

mod attempt;
mod claim;
mod company;
mod config;
mod cost;
mod health;
mod heartbeat;
mod horizon;
mod lanes;
mod ledger;
mod liveness;
mod looks;
#[cfg(test)]
mod made_up;
mod order;
mod patience;
mod record;
mod shutdown;
mod slots;
mod starts;
mod stray;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use config::WorkerBuilder;

use crate::error::Error;
use crate::limits::MAX_ARGS_BYTES;
use crate::registry::JobDefinition;
use crate::store::{Claimed, Lane, NewWorker, Scope, Start, WorkerId};
use crate::target::Pool;
use crate::telemetry;

use attempt::{Attempt, Ended, LongArgs, Stop, Switch};
use company::{Company, Place};
use config::Config;
use health::Health;
use ledger::Ledger;
use liveness::Gone;
use record::Recorder;
use slots::{Slots, Total};
use starts::Starts;

/// Runs jobs. Any number of workers may serve one database, in one process or many; they need no coordinator.
///
/// A worker keeps a few connections beside its pool, whatever its concurrency: 5 on PostgreSQL (claims, endings,
/// heartbeat, upkeep, notifications), 4 on MySQL and MariaDB, 3 on SQLite. The pool itself is for the jobs that use it.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
/// use queue::Worker;
///
/// # let ctrl_c = std::future::pending();
/// Worker::builder(pool).concurrency(32).build()?.run(ctrl_c).await
/// # }
/// ```
#[must_use = "a worker does nothing until `.run(…)` is awaited"]
pub struct Worker {
    config: Config,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("engine", &self.config.store.engine())
            .field("concurrency", &self.config.concurrency)
            .field("queues", &self.config.queues)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts to configure a worker on a `PgPool`, `MySqlPool` or `SqlitePool` (or a reference to one). No I/O.
    pub fn builder(pool: impl Pool) -> WorkerBuilder {
        WorkerBuilder::new(pool)
    }

    pub(crate) fn new(config: Config) -> Self {
        Self { config }
    }

    /// Works until `shutdown` is ready (Ctrl-C, SIGTERM, whatever the program decides), then stops claiming, gives back at
    /// once what was not started, lets running jobs go on for [`shutdown_grace`](WorkerBuilder::shutdown_grace), cancels
    /// the rest and gives them back without counting an attempt.
    ///
    /// An outage of the database is survived: the worker cancels what it runs before its lease can have run out, and works
    /// on when the database is back.
    ///
    /// # Errors
    /// Before it claims anything: [`Error::Schema`] when the tables are missing, older than this binary, or newer and not
    /// compatible; [`Error::Database`] when the database cannot be reached.
    ///
    /// # Cancellation
    /// Dropping the future drops the running jobs with it; they are rescued by other workers as after a crash.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        self.run_until(shutdown, std::future::pending()).await
    }

    /// As [`run`](Self::run), and ends at once when `immediately` is ready too (a second Ctrl-C, say): running jobs are
    /// dropped and given back without counting an attempt.
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()>,
        immediately: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        shutdown::supervise(self.config, shutdown, immediately).await
    }
}

/// For how many attempts long arguments are read and decoded at once.
const LONG_ARGS_AT_ONCE: usize = 4;

/// What the loops of one worker share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) slots: Vec<Slots>,
    pub(crate) total: Arc<Total>,
    pub(crate) scope: Scope,
    /// What this worker says of itself, each time that it joins.
    pub(crate) card: NewWorker,
    /// The number under which it claims; 0 while it has none.
    id: AtomicI64,
    /// When this was made, from which [`Self::lease_end`] counts.
    made: Instant,
    /// Until when the lease holds for sure, by this process's clock: microseconds.
    lease_end: AtomicU64,
    /// Attempts in hand, by job and fence.
    held: Mutex<HashMap<(i64, i32), Arc<Held>>>,
    pub(crate) health: Health,
    pub(crate) recorder: Recorder,
    pub(crate) ledger: Ledger,
    pub(crate) starts: Starts,
    pub(crate) company: Arc<Company>,
    /// Turns to hold the text of long arguments: until they are decoded there are several copies.
    long_args: Arc<Semaphore>,
    /// Something may have been enqueued.
    pub(crate) wake: Arc<Notify>,
    /// The claim loop waits to be woken and leaves it to the heartbeat to look.
    quiet: AtomicBool,
    /// There is work after a time without any: the next heartbeat need not be far off.
    pub(crate) at_work: Notify,
    /// See [`has_others`](Self::has_others).
    pub(crate) others: AtomicBool,
    /// A slot may take more.
    pub(crate) room: Arc<Notify>,
    /// A slot became free, or something was recorded.
    pub(crate) progress: Notify,
    pub(crate) stop_claiming: CancellationToken,
    /// Jobs of workers that are gone may wait to be taken back.
    pub(crate) rescue: Notify,
    /// Jobs were taken back: the claim loop looks for them.
    pub(crate) look: AtomicBool,
    /// Workers to be declared gone before that.
    pub(crate) gone: Mutex<Vec<Gone>>,
    /// The slots.
    pub(crate) tasks: TaskTracker,
    /// The run is over or was dropped.
    pub(crate) over: CancellationToken,
}

/// A job in hand: its attempt runs, or is about to.
pub(crate) struct Held {
    pub(crate) job: Arc<Claimed>,
    pub(crate) worker: WorkerId,
    pub(crate) definition: Arc<JobDefinition>,
    pub(crate) switch: Arc<Switch>,
    /// Index into [`Shared::slots`].
    pub(crate) slots: usize,
    /// Empty while it waits for its turn to begin.
    pub(crate) started: OnceLock<Instant>,
    /// The database knows that it has begun.
    pub(crate) noted: AtomicBool,
    place: Mutex<Option<Place>>,
}

impl Held {
    fn new(job: Arc<Claimed>, worker: WorkerId, definition: Arc<JobDefinition>, slots: usize) -> Self {
        let (started, noted, place) = (OnceLock::new(), AtomicBool::new(false), Mutex::default());
        Self { job, worker, definition, switch: Arc::default(), slots, started, noted, place }
    }

    pub(crate) fn key(&self) -> (i64, i32) {
        (self.job.id.get(), self.job.fence)
    }

    fn begin(&self) -> Instant {
        *self.started.get_or_init(Instant::now)
    }

    /// For how long it has run.
    pub(crate) fn ran(&self) -> Duration {
        self.started.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_place(&self, place: Place) {
        *self.place() = Some(place);
    }

    fn leave_company(&self) {
        drop(self.place().take());
    }
}

/// An attempt that may begin.
#[derive(Default)]
struct Admitted<'a> {
    /// How many others may run beside it; None: any number.
    max_neighbours: Option<u32>,
    /// Held until it has begun, where others wait for that.
    one_by_one: Option<tokio::sync::MutexGuard<'a, ()>>,
    /// The arguments, where they did not come with the claim.
    long_args: Option<LongArgs>,
}

/// Says that a job runs that was lost with its worker more than once.
fn tell_of_losses(job: &Claimed, max_neighbours: Option<u32>) {
    let how = match max_neighbours {
        Some(_) => "it runs beside few others or none until an attempt ends by itself",
        None => "it was to run beside few others or none, but those that run did not end in time",
    };
    tracing::warn!(
        event = telemetry::JOB_SUSPECTED,
        job.id = %job.id,
        job.kind = %job.lane.kind,
        job.queue = %job.lane.queue,
        job.attempt = job.attempt,
        job.losses = job.losses,
        job.max_neighbours = max_neighbours,
        "workers were lost while they ran this job: {how}"
    );
}

impl Shared {
    pub(crate) fn id(&self) -> WorkerId {
        self.id.load(Ordering::Acquire)
    }

    pub(crate) fn set_id(&self, id: WorkerId) {
        self.id.store(id, Ordering::Release);
    }

    /// The lease was taken or extended by a statement sent at that time. It counts as over a little before the database's
    /// clock can say so. Returns when.
    pub(crate) fn lease_from(&self, sent: Instant) -> Instant {
        let lease = self.config.timing.lease;
        let end = sent + lease - lease / 6;
        let micros = u64::try_from(end.saturating_duration_since(self.made).as_micros()).unwrap_or(u64::MAX);
        self.lease_end.store(micros, Ordering::Release);
        end
    }

    /// Whether what was claimed may be started. A process that stood still knows it from its clock before any answer of
    /// the database.
    fn lease_holds(&self) -> bool {
        self.made.elapsed().as_micros() < u128::from(self.lease_end.load(Ordering::Acquire))
    }

    /// Whether a heartbeat that was sent after that moment has been answered: the database is there.
    fn has_beaten_since(&self, then: Instant) -> bool {
        let lease = self.config.timing.lease;
        let end = (then + (lease - lease / 6)).saturating_duration_since(self.made);
        u128::from(self.lease_end.load(Ordering::Acquire)) > end.as_micros()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    pub(crate) fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Relaxed);
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashMap<(i64, i32), Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which slots a queue's jobs run in.
    pub(crate) fn slots_of(&self, queue: &str) -> Option<usize> {
        self.slots.iter().position(|slots| slots.queue.as_deref().is_none_or(|name| name == queue))
    }

    /// How often jobs of a lane are tried again, if these slots serve it.
    fn retries(&self, slots: usize, lane: &Lane) -> Option<u32> {
        let served = self.slots_of(&lane.queue) == Some(slots);
        self.config.jobs.get(&*lane.kind).filter(|_| served).map(|definition| definition.max_retries)
    }

    /// The last heartbeat saw other workers.
    fn has_others(&self) -> bool {
        self.others.load(Ordering::Relaxed)
    }

    /// Jobs in hand or claimed and waiting.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.iter().all(Slots::is_idle)
    }

    /// Starts slots for what waits; each runs jobs until none waits.
    pub(crate) fn start_slots(self: &Arc<Self>) {
        // a queue whose turn it was may want nothing any more: only the next pass shows what that leaves for those before it
        let mut passes = 0;
        while passes < 2 {
            passes += 1;
            for (index, slots) in self.slots.iter().enumerate() {
                for _ in 0..slots.start() {
                    passes = 0;
                    self.start_slot(index);
                }
            }
            if self.slots.len() == 1 {
                return;
            }
        }
    }

    fn start_slot(self: &Arc<Self>, slots: usize) {
        let shared = self.clone();
        self.tasks.spawn(async move {
            let over = shared.over.clone();
            tokio::select! {
                biased;
                () = over.cancelled() => {}
                () = shared.work(slots) => {}
            }
        });
    }

    async fn work(self: &Arc<Self>, slots: usize) {
        let mut took = None;
        loop {
            let (next, low) = self.slots[slots].next(took.take());
            if low {
                self.room.notify_one();
            }
            let Some((job, worker)) = next else {
                if self.slots.len() > 1 {
                    // what this slot leaves free may be another queue's
                    self.start_slots();
                }
                self.progress.notify_waiters();
                return;
            };
            let job = Arc::new(job);
            let Some(definition) = self.config.jobs.get(&*job.lane.kind).cloned() else {
                // the scope holds only known kinds, so this is a row that changed its kind under the claim
                self.recorder.record(worker, Ended::unstarted(&job));
                continue;
            };
            let key = (job.id.get(), job.fence);
            let held = Arc::new(Held::new(job.clone(), worker, definition, slots));
            self.held().insert(key, held.clone());
            let Some(first) = self.admit(&held).await else {
                held.leave_company();
                if self.held().remove(&key).is_some() {
                    self.recorder.record(worker, Ended::unstarted(&job));
                }
                continue;
            };
            let ended = self.run_attempt(&held, first).await;
            held.leave_company();
            let mine = self.held().remove(&key).is_some();
            if !mine {
                // left behind: somebody recorded the end and gave the slot away
                return;
            }
            took = Some(held.ran());
            if let Some(ended) = ended {
                self.recorder.record(worker, ended);
            }
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Waits until an attempt may begin, and notes it where that must be known before. None: it may not begin here and
    /// now. Nearly every attempt may begin at once; what the others wait for is boxed, so that those carry none of it.
    async fn admit(&self, held: &Held) -> Option<Admitted<'_>> {
        let job = &held.job;
        let most = company::most(job.losses, job.attempt, job.max_retries, self.config.concurrency);
        let place = match self.company.enter_at_once(most) {
            Some(place) => place,
            None => Box::pin(self.enter_company(held, most)).await?,
        };
        let max_neighbours = place.max_neighbours();
        held.take_place(place);
        // in hand first: a lease that is lost from here on finds it there, and tells it to stop
        if held.worker != self.id() || !self.lease_holds() {
            // it is lost, or must be taken for lost: not ours to start
            return None;
        }
        let long_args = match job.args {
            Err(bytes) if usize::try_from(bytes).is_ok_and(|bytes| bytes <= MAX_ARGS_BYTES) => {
                Some(Box::pin(self.fetch_args(held)).await?)
            }
            _ => None,
        };
        let mut admitted = Admitted { long_args, ..Admitted::default() };
        if job.losses > 0 || job.attempt >= job.max_retries {
            admitted.one_by_one = Box::pin(self.note_before(held, max_neighbours)).await?;
            admitted.max_neighbours = max_neighbours;
        }
        if most.is_some() {
            tell_of_losses(job, max_neighbours);
        }
        Some(admitted)
    }

    /// Waits until the others let the job start. None: it does not start here.
    async fn enter_company(&self, held: &Held, most: Option<u32>) -> Option<Place> {
        tokio::select! {
            biased;
            place = self.company.enter(most) => place,
            () = held.switch.token.cancelled() => None,
            () = self.stop_claiming.cancelled() => None,
        }
    }

    /// The arguments that were too long to come with the claim. None: the job is not ours any more, or cannot be read.
    async fn fetch_args(&self, held: &Held) -> Option<LongArgs> {
        let fetched = async {
            let turn = self.long_args.clone().acquire_owned().await.ok()?;
            let args = self.config.store.args(held.worker, held.job.id.get(), held.job.fence).await.ok()??;
            Some(LongArgs::new(args, turn))
        };
        tokio::select! {
            args = fetched => args,
            () = held.switch.token.cancelled() => None,
        }
    }

    /// Notes a start of which it must be known that it began. The guard, if any, is held until it has. None: the job is
    /// not ours any more.
    async fn note_before(
        &self,
        held: &Held,
        max_neighbours: Option<u32>,
    ) -> Option<Option<tokio::sync::MutexGuard<'_, ()>>> {
        let job = &held.job;
        let noted = async {
            let one_by_one = if job.losses > 0 { Some(self.starts.one_by_one().await) } else { None };
            let start = Start { id: job.id.get(), fence: job.fence, max_neighbours };
            (self.starts.note(held.worker, start).await, one_by_one)
        };
        tokio::select! {
            biased;
            () = held.switch.token.cancelled() => None,
            (accepted, one_by_one) = noted => {
                accepted.filter(|accepted| *accepted)?;
                held.noted.store(true, Ordering::Relaxed);
                Some(one_by_one)
            }
        }
    }

    /// Runs an attempt to its end. None: there is nothing to record.
    async fn run_attempt(&self, held: &Held, admitted: Admitted<'_>) -> Option<Ended> {
        let Admitted { max_neighbours, one_by_one, long_args } = admitted;
        let started = held.begin();
        if !held.noted.load(Ordering::Relaxed) {
            self.starts.begun();
        }
        let attempt = Attempt {
            job: held.job.clone(),
            definition: held.definition.clone(),
            states: self.config.states.clone(),
            switch: held.switch.clone(),
            cancel_grace: self.config.timing.cancel_grace,
            started,
            long_args,
        };
        let mut run = pin!(AssertUnwindSafe(attempt.run()).catch_unwind());
        let mut ended = None;
        if one_by_one.is_some() {
            // the handler has begun: now the next one may
            ended = poll_fn(|context| Poll::Ready(run.as_mut().poll(context))).await.into();
            drop(one_by_one);
        }
        let ended = match ended {
            Some(Poll::Ready(ended)) => ended,
            _ if max_neighbours.is_some() => {
                let mut open = Box::pin(self.open_later(held));
                tokio::select! {
                    biased;
                    ended = &mut run => ended,
                    never = &mut open => match never {},
                }
            }
            _ => run.await,
        };
        ended.unwrap_or_else(|panic| Some(Attempt::panicked(&held.job, &held.definition, started.elapsed(), &*panic)))
    }

    /// Lets others run beside an attempt that has had the process to itself for long enough.
    async fn open_later(&self, held: &Held) -> Infallible {
        tokio::time::sleep(company::SECLUSION).await;
        let start = Start { id: held.job.id.get(), fence: held.job.fence, max_neighbours: None };
        // what it ran beside must be known before anything does
        while self.starts.note(held.worker, start).await.is_none() {
            tokio::time::sleep(STUCK).await;
        }
        if let Some(place) = &mut *held.place() {
            place.open();
        }
        std::future::pending().await
    }

    /// Tells every attempt in hand to stop.
    pub(crate) fn stop_all(&self, why: Stop) -> usize {
        let held: Vec<_> = self.held().values().cloned().collect();
        held.iter().for_each(|held| held.switch.stop(why));
        held.len()
    }

    /// Takes an attempt away from a slot that does not come back, and lets another slot take its place.
    pub(crate) fn leave_behind(self: &Arc<Self>, held: &Held, ended: Ended) {
        if self.held().remove(&held.key()).is_none() {
            return;
        }
        held.leave_company();
        tracing::warn!(
            event = telemetry::JOB_ABANDONED,
            job.id = %held.job.id,
            job.kind = %held.job.lane.kind,
            job.queue = %held.job.lane.queue,
            job.attempt = held.job.attempt,
            "the job blocks its thread and was left behind; use #[job(blocking)] for work that does not await"
        );
        self.recorder.record(held.worker, ended);
        self.slots[held.slots].replace();
        self.start_slots();
        self.room.notify_one();
        self.progress.notify_waiters();
    }

    /// The lease is gone, or must be taken for gone: nothing in hand is ours any more.
    pub(crate) fn drop_everything(&self) {
        let lost = self.id.swap(0, Ordering::AcqRel);
        let waiting: usize = self.slots.iter().map(|slots| slots.clear().len()).sum();
        let running = self.stop_all(Stop::LeaseLost);
        self.config.store.abandon();
        tracing::error!(
            event = telemetry::WORKER_LEASE_LOST,
            worker = lost,
            running,
            waiting,
            "the lease was lost; what ran was cancelled and is run elsewhere"
        );
    }
}

/// How often one looks whether an attempt past its end still blocks its thread.
pub(crate) const STUCK: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
