//! What the library tells, and the names of its spans, events and fields. They are stable, because dashboards and
//! alerts depend on them.
//!
//! Spans: `job` around every attempt, with `job.id`, `job.kind`, `job.queue`, `job.attempt` and `job.meta`. Every event
//! about a job that the worker holds has the same fields, whatever the filter.
//!
//! Arguments and results of jobs are never logged, because they may be private. Errors are, unless
//! [`log_errors(false)`](crate::WorkerBuilder::log_errors) is set.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tracing::{debug, error, info, warn};

use crate::error::Error;
pub use crate::gauges::FewLabels;
use crate::limits::micros;
pub use crate::propagation::{Propagation, propagate};
use crate::store::values::NewJob;
pub use crate::store::values::{AttemptOutcome, Claimed};

/// Something that operators may want to know. [`WorkerBuilder::observe`](crate::WorkerBuilder::observe) passes each one
/// on. The log has it under the name in the field `event`.
///
/// Variants and fields are added in minor versions: end each pattern with `..`.
///
/// ```
/// # fn example(pool: sqlx::SqlitePool) {
/// use queue::telemetry::Event;
///
/// let worker = queue::Worker::builder(pool).observe(|event| {
///     if let Event::JobDead { job, error, .. } = event {
///         eprintln!("page somebody: {} {} is dead: {error:?}", job.kind(), job.id());
///     }
/// });
/// # drop(worker); }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Jobs were written. Their transaction may still be rolled back. Only [`observe_enqueues`] gets this event, and it
    /// is not logged.
    JobsEnqueued {
        /// Their kind.
        kind: &'a str,
        /// Their queue.
        queue: &'a str,
        /// How many.
        jobs: usize,
    },
    /// Jobs may wait for connections of the worker's pool.
    WorkerPoolSmall {
        /// The most connections of the pool.
        connections: u32,
        /// How many jobs run at a time.
        concurrency: u32,
        /// How many connections of its own the worker opens.
        kept: u32,
    },
    /// The worker serves queues that no job it knows declares.
    WorkerQueuesUndeclared {
        /// The worker's number.
        worker: i64,
        /// The queues.
        queues: String,
    },
    /// The worker does not serve the queues that these jobs declare.
    WorkerJobsUnserved {
        /// The worker's number.
        worker: i64,
        /// The jobs.
        jobs: String,
    },
    /// A worker is ready to claim.
    WorkerStarted {
        /// Its number.
        worker: i64,
        /// The name of its database's engine.
        engine: &'a str,
        /// How many jobs run at a time.
        concurrency: u32,
        /// The queues that it serves.
        queues: String,
        /// The kinds that it serves.
        kinds: String,
    },
    /// A worker was told to stop.
    WorkerStopping {
        /// Its number.
        worker: i64,
        /// How many jobs still run.
        running: usize,
        /// How many jobs were claimed, had not begun, and were given back.
        released: usize,
    },
    /// A worker has ended.
    WorkerStopped {
        /// Its number.
        worker: i64,
    },
    /// A worker lost its lease and cancelled its running jobs. It starts over under a new number.
    WorkerLeaseLost {
        /// Its number until now.
        worker: i64,
        /// `unanswered`: no heartbeat was answered in time. `declared`: another worker declared it lost.
        reason: &'a str,
        /// How many jobs ran.
        running: usize,
        /// How many jobs were claimed and had not begun.
        waiting: usize,
    },
    /// Another worker was declared lost, because its session or its lease ended.
    WorkerLost {
        /// The number of the lost one.
        worker: i64,
        /// How long its next heartbeat had been overdue, or its lease over.
        late: Duration,
        /// Its lease ended. If not, its session.
        by_lease: bool,
    },
    /// A worker that lost its lease works again.
    WorkerJoined {
        /// Its new number.
        worker: i64,
    },
    /// The database fails. Told once per outage, again each minute, and for each different error.
    DatabaseLost {
        /// What it answered.
        error: &'a Error,
    },
    /// The database is in memory, and the pool may close the connection that holds it. Only logged.
    #[cfg(feature = "sqlite")]
    DatabaseFleeting {
        /// What to do.
        text: &'a str,
    },
    /// The database answers again.
    DatabaseBack {
        /// For how long it did not.
        outage: Duration,
    },
    /// A worker has claimed jobs. Not logged.
    JobsClaimed {
        /// The jobs.
        jobs: &'a [Claimed],
    },
    /// An attempt begins. Not logged.
    JobStarted {
        /// The job.
        job: &'a Claimed,
        /// How long ago the job was due, by the database's clock. `None`: that is not known yet.
        waited: Option<Duration>,
        /// The promise of its kind or queue: it starts within this time. See `start_within` of [`job`](crate::job).
        promise: Option<Duration>,
    },
    /// A job starts whose metadata cannot be read. It is as if it had none.
    JobMetaUnread {
        /// The job.
        job: &'a Claimed,
        /// Why.
        error: &'a str,
    },
    /// A job starts that was lost with two or more workers.
    JobSuspected {
        /// The job.
        job: &'a Claimed,
        /// No other job runs beside it at first.
        alone: bool,
    },
    /// An attempt completed its job.
    JobCompleted {
        /// The job.
        job: &'a Claimed,
        /// How long the attempt ran.
        ran: Duration,
    },
    /// An attempt completed its job in a transaction of its own, and failed after that was committed.
    JobFailedAfterCommit {
        /// The job.
        job: &'a Claimed,
        /// How long the attempt ran.
        ran: Duration,
        /// The error. `None`: [`log_errors(false)`](crate::WorkerBuilder::log_errors) hides it.
        error: Option<String>,
    },
    /// An attempt failed and the job will be retried.
    JobFailed {
        /// The job.
        job: &'a Claimed,
        /// How long the attempt ran.
        ran: Duration,
        /// How it failed.
        outcome: AttemptOutcome,
        /// When the next attempt is due.
        retry_in: Duration,
        /// The error. `None`: [`log_errors(false)`](crate::WorkerBuilder::log_errors) hides it.
        error: Option<String>,
    },
    /// A job went to the dead letters.
    JobDead {
        /// The job.
        job: &'a Claimed,
        /// How long the attempt ran.
        ran: Duration,
        /// How its last attempt failed.
        outcome: AttemptOutcome,
        /// The error. `None`: [`log_errors(false)`](crate::WorkerBuilder::log_errors) hides it.
        error: Option<String>,
    },
    /// A job went to the dead letters, because the database refused to record how it ended.
    JobUnrecordable {
        /// The job's number.
        id: i64,
        /// What the database answered.
        error: &'a str,
    },
    /// A job was cancelled.
    JobCancelled {
        /// The job.
        job: &'a Claimed,
        /// How long the attempt ran.
        ran: Duration,
    },
    /// A job asked to run later.
    JobSnoozed {
        /// The job.
        job: &'a Claimed,
        /// How long the attempt ran.
        ran: Duration,
        /// When it runs again.
        retry_in: Duration,
        /// The reason, if it has one and [`log_errors(false)`](crate::WorkerBuilder::log_errors) does not hide it.
        error: Option<String>,
    },
    /// A job was released at shutdown, without counting an attempt.
    JobReleased {
        /// The job.
        job: &'a Claimed,
    },
    /// A job was released before its handler began, because what the handler needs was not there.
    JobUnbegun {
        /// The job.
        job: &'a Claimed,
        /// When the next attempt is due.
        retry_in: Duration,
        /// The error. `None`: [`log_errors(false)`](crate::WorkerBuilder::log_errors) hides it.
        error: Option<String>,
    },
    /// A job was released, because the answer to its claim was lost.
    ClaimLost {
        /// The job's number.
        id: i64,
    },
    /// An attempt did not end when it was told to, and was dropped.
    JobDropped {
        /// The job.
        job: &'a Claimed,
        /// Why it was told to end.
        reason: &'a dyn std::fmt::Debug,
    },
    /// An attempt does not even leave its thread, and was left behind.
    JobLeftBehind {
        /// The job.
        job: &'a Claimed,
    },
    /// The database refused the end of an attempt, because another attempt is current. So the events of that end are
    /// not what became of the job.
    JobRefused {
        /// The job's number.
        id: i64,
    },
    /// Jobs of lost workers were rescued.
    JobsRescued {
        /// How many wait again.
        ready: u64,
        /// How many went to the dead letters.
        dead: u64,
        /// How many ended cancelled.
        cancelled: u64,
        /// The kind and queue of each that went to the dead letters.
        buried: &'a [(String, String)],
    },
    /// Retention removed finished jobs.
    JobsPurged {
        /// How many.
        jobs: u64,
    },
    /// A round of retention failed. The next round tries again.
    RetentionFailed {
        /// What the database answered.
        error: &'a Error,
    },
    /// Jobs of schedules were enqueued.
    #[cfg(feature = "schedules")]
    SchedulesFired {
        /// How many.
        jobs: usize,
    },
    /// The schedules of an application were made what its code declares.
    #[cfg(feature = "schedules")]
    SchedulesChanged {
        /// The application.
        app: &'a str,
        /// The schedules that were written.
        written: String,
        /// The schedules that were retired.
        retired: String,
    },
    /// A declared schedule has the name of another one, which stays.
    #[cfg(feature = "schedules")]
    ScheduleConflict {
        /// Its name.
        schedule: &'a str,
        /// The other's application. Empty: it was made at run time.
        owner: &'a str,
    },
    /// A schedule does not fire.
    #[cfg(feature = "schedules")]
    ScheduleFailed {
        /// Its name.
        schedule: &'a str,
        /// Why.
        error: &'a str,
    },
    /// Schedules do not fire, because they fired while the database's clock was ahead.
    #[cfg(feature = "schedules")]
    SchedulesSilent {
        /// Their names.
        schedules: String,
    },
    /// More schedules do not fire than were named one by one.
    #[cfg(feature = "schedules")]
    MoreSchedulesFailed {
        /// How many.
        more: usize,
    },
    /// A round of a feature's background work failed. The next round tries again.
    DutyFailed {
        /// The feature.
        feature: &'a str,
        /// What failed.
        what: &'a str,
        /// What the database answered.
        error: &'a Error,
    },
    /// The account lacks a right for a feature's background work. The worker does it no more until it is restarted.
    DutyGivenUp {
        /// The feature.
        feature: &'a str,
        /// What the database answered.
        error: &'a Error,
    },
    /// A round of background work panicked.
    DutyPanicked,
}

/// The observers of a worker.
#[derive(Clone, Default)]
pub(crate) struct Observers(Vec<Arc<Observer>>);

struct Observer {
    tell: Box<dyn Fn(&Event<'_>) + Send + Sync>,
    /// It has panicked, or taken too long. The log says so once.
    blamed: AtomicBool,
}

/// An observer that takes longer than this delays the jobs of the worker.
const SLOW: Duration = Duration::from_millis(100);

impl Observers {
    pub(crate) fn add(&mut self, tell: impl Fn(&Event<'_>) + Send + Sync + 'static) {
        self.0.push(Arc::new(Observer { tell: Box::new(tell), blamed: AtomicBool::new(false) }));
    }

    /// Whether there is at least one.
    pub(crate) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Calls each of them. Does not log.
    pub(crate) fn tell(&self, event: &Event<'_>) {
        for observer in &self.0 {
            let began = Instant::now();
            let panic = catch_unwind(AssertUnwindSafe(|| (observer.tell)(event))).err();
            let took = began.elapsed();
            if (panic.is_some() || took > SLOW) && !observer.blamed.swap(true, Ordering::Relaxed) {
                let what = if panic.is_some() { "panicked" } else { "blocked its thread" };
                warn!(
                    event = "observer.failed",
                    took_ms = whole_ms(took),
                    "an observer of events {what}: it has to be quick and must not fail. This is said once"
                );
            }
        }
    }
}

/// The observers of enqueues.
static ENQUEUES: RwLock<Observers> = RwLock::new(Observers(Vec::new()));
/// Whether there are any. Most programs have none, so they take no lock.
static ENQUEUES_ARE_OBSERVED: AtomicBool = AtomicBool::new(false);

/// Calls this observer with [`Event::JobsEnqueued`] after each later enqueue of this process. That includes enqueues by
/// handlers and schedules. The call comes after the INSERT, on the thread of the enqueue, so it has to be quick.
///
/// ```
/// use queue::telemetry::{Event, observe_enqueues};
///
/// observe_enqueues(|event| {
///     if let Event::JobsEnqueued { kind, jobs, .. } = event {
///         println!("{jobs} more of {kind}");
///     }
/// });
/// ```
pub fn observe_enqueues(tell: impl Fn(&Event<'_>) + Send + Sync + 'static) {
    ENQUEUES.write().unwrap_or_else(PoisonError::into_inner).add(tell);
    ENQUEUES_ARE_OBSERVED.store(true, Ordering::Release);
}

/// Passes new jobs on to the observers of enqueues. Neighbours of one kind and queue are one event.
pub(crate) fn enqueued<'a>(jobs: impl FnOnce() -> Vec<&'a NewJob>) {
    if !ENQUEUES_ARE_OBSERVED.load(Ordering::Acquire) {
        return;
    }
    let jobs = jobs();
    let observers = ENQUEUES.read().unwrap_or_else(PoisonError::into_inner).clone();
    for alike in jobs.chunk_by(|a, b| a.kind == b.kind && a.queue == b.queue) {
        observers.tell(&Event::JobsEnqueued { kind: &alike[0].kind, queue: &alike[0].queue, jobs: alike.len() });
    }
}

/// An event of this level and name about a job that the worker holds.
macro_rules! about_job {
    ($level:ident, $event:literal, $job:expr, $($fields:tt)+) => {{
        let job: &Claimed = $job;
        $level!(
            event = $event,
            job.id = job.id.get(),
            job.kind = %job.lane.kind,
            job.queue = %job.lane.queue.escape_debug(),
            job.attempt = job.attempt,
            job.meta = job.metadata().json().map(tracing::field::display),
            $($fields)+
        )
    }};
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Event<'_> {
    /// Tells `tracing` and the observers.
    pub(crate) fn emit(self, observers: &Observers) {
        observers.tell(&self);
        self.log();
    }

    /// Tells `tracing` alone.
    pub(crate) fn log(self) {
        match self {
            Self::JobsEnqueued { .. } | Self::JobsClaimed { .. } | Self::JobStarted { .. } => {}
            Self::WorkerPoolSmall { connections, concurrency, kept } => warn!(
                event = "worker.pool_small",
                connections,
                concurrency,
                "jobs that use the worker's pool may wait for each other: {concurrency} jobs run at a time, and it has \
                 {connections} connections. If all jobs use it, set `max_connections` to {concurrency}. The worker \
                 opens {kept} more connections of its own"
            ),
            Self::WorkerQueuesUndeclared { worker, queues } => warn!(
                event = "worker.queues_undeclared",
                worker,
                queues,
                "no job that this worker knows declares these queues: is a name misspelt? (An enqueue may still name \
                 them.)"
            ),
            Self::WorkerJobsUnserved { worker, jobs } => warn!(
                event = "worker.jobs_unserved",
                worker,
                jobs,
                "this worker does not serve the queues that these jobs declare: they wait for a worker that does"
            ),
            Self::WorkerStarted { worker, engine, concurrency, queues, kinds } => {
                info!(event = "worker.started", worker, engine, concurrency, queues, kinds, "worker started");
            }
            Self::WorkerStopping { worker, running, released } => info!(
                event = "worker.stopping",
                worker, running, released, "stopping: no more claims; waiting for running jobs"
            ),
            Self::WorkerStopped { worker } => info!(event = "worker.stopped", worker, "stopped"),
            Self::WorkerLeaseLost { worker, reason, running, waiting } => error!(
                event = "worker.lease_lost",
                worker,
                reason,
                running,
                waiting,
                "the lease was lost; its jobs were cancelled here and will run elsewhere"
            ),
            Self::WorkerLost { worker, late, by_lease } => {
                let how = if by_lease { "lease ran out" } else { "session ended without notice" };
                let late_ms = whole_ms(late);
                warn!(event = "worker.lost", worker, late_ms, "a worker's {how}; its jobs are rescued");
            }
            Self::WorkerJoined { worker } => {
                info!(event = "worker.joined", worker, "working again under a new number");
            }
            Self::DatabaseLost { error } => {
                error!(event = "database.lost", %error, "the database fails; trying again");
            }
            #[cfg(feature = "sqlite")]
            Self::DatabaseFleeting { text } => warn!(event = "database.fleeting", "{text}"),
            Self::DatabaseBack { outage } => {
                info!(event = "database.back", outage_ms = whole_ms(outage), "the database answers again");
            }
            Self::JobMetaUnread { job, error } => about_job!(
                warn,
                "job.meta_unread",
                job,
                error,
                "the metadata of a job cannot be read, and is left out; whoever writes it must fix that"
            ),
            Self::JobSuspected { job, alone } => {
                let how = match alone {
                    true => "it runs alone for some seconds",
                    false => "it was to run alone for some seconds, but the running jobs did not end in time",
                };
                about_job!(
                    warn,
                    "job.suspected",
                    job,
                    job.losses = job.losses,
                    job.max_neighbours = alone.then_some(0),
                    "workers were lost while they ran this job: {how}"
                );
            }
            Self::JobCompleted { job, ran } => {
                about_job!(debug, "job.completed", job, job.duration_ms = ms(ran), "completed");
            }
            Self::JobFailedAfterCommit { job, ran, error } => about_job!(
                warn,
                "job.completed",
                job,
                job.duration_ms = ms(ran),
                error,
                "completed; the attempt failed after its transaction had been committed"
            ),
            Self::JobFailed { job, ran, outcome, retry_in, error } => {
                let how = match outcome {
                    AttemptOutcome::Undecodable => {
                        "the arguments do not decode; they are tried again until the grace period is over"
                    }
                    _ => "failed; will be retried",
                };
                about_job!(
                    warn,
                    "job.failed",
                    job,
                    job.duration_ms = ms(ran),
                    job.outcome = outcome.as_str(),
                    job.retry_in_ms = micros(retry_in) / 1000,
                    error,
                    "{how}"
                );
            }
            Self::JobDead { job, ran, outcome, error } => about_job!(
                error,
                "job.dead",
                job,
                job.duration_ms = ms(ran),
                job.outcome = outcome.as_str(),
                error,
                "moved to the dead letters"
            ),
            Self::JobUnrecordable { id, error } => {
                error!(event = "job.dead", job.id = id, error, "the end of a job could not be recorded");
            }
            Self::JobCancelled { job, ran } => {
                about_job!(info, "job.cancelled", job, job.duration_ms = ms(ran), "cancelled");
            }
            Self::JobSnoozed { job, ran: _, retry_in, error } => {
                about_job!(debug, "job.snoozed", job, job.retry_in_ms = micros(retry_in) / 1000, error, "snoozed");
            }
            Self::JobReleased { job } => about_job!(info, "job.released", job, "released at shutdown"),
            Self::JobUnbegun { job, retry_in, error } => about_job!(
                warn,
                "job.released",
                job,
                job.retry_in_ms = micros(retry_in) / 1000,
                error,
                "released before its handler began"
            ),
            Self::ClaimLost { id } => {
                warn!(event = "job.released", job.id = id, "a claim's answer was lost; the job was released");
            }
            Self::JobDropped { job, reason } => {
                about_job!(warn, "job.abandoned", job, ?reason, "the job did not stop in time and was dropped");
            }
            Self::JobLeftBehind { job } => about_job!(
                warn,
                "job.abandoned",
                job,
                "the job blocks its thread and was left behind; use #[job(blocking)] for work that does not await"
            ),
            Self::JobRefused { id } => warn!(
                event = "job.refused",
                job.id = id,
                "the end of an attempt was refused: another attempt is current, or the job no longer exists"
            ),
            Self::JobsRescued { ready, dead, cancelled, .. } => {
                warn!(event = "jobs.rescued", ready, dead, cancelled, "rescued the jobs of lost workers");
            }
            Self::JobsPurged { jobs } => {
                info!(event = "jobs.purged", jobs, "removed finished jobs past their retention");
            }
            Self::RetentionFailed { error } => {
                warn!(event = "retention.failed", %error, "retention failed; the next round tries again");
            }
            #[cfg(feature = "schedules")]
            Self::SchedulesFired { jobs } => {
                debug!(event = "schedules.fired", jobs, "enqueued the jobs of schedules");
            }
            #[cfg(feature = "schedules")]
            Self::SchedulesChanged { app, written, retired } => {
                info!(event = "schedules.changed", app, written, retired, "wrote the declared schedules");
            }
            #[cfg(feature = "schedules")]
            Self::ScheduleConflict { schedule, owner } => {
                let other = if owner.is_empty() { "that was made at run time" } else { "of another application" };
                error!(
                    event = "schedule.conflict",
                    schedule,
                    owner = Some(owner).filter(|owner| !owner.is_empty()),
                    "the code declares a schedule with the name of one {other}, which stays: rename one"
                );
            }
            #[cfg(feature = "schedules")]
            Self::ScheduleFailed { schedule, error } => error!(
                event = "schedule.failed",
                schedule, error, "a schedule does not fire as it should; fix its row or its code"
            ),
            #[cfg(feature = "schedules")]
            Self::SchedulesSilent { schedules } => error!(
                event = "schedule.failed",
                schedule = schedules,
                error = "they fired while the database's clock was ahead, and it has not passed their last ticks",
                "schedules are silent; pause and resume them"
            ),
            #[cfg(feature = "schedules")]
            Self::MoreSchedulesFailed { more } => error!(
                event = "schedule.failed",
                more, "other schedules do not fire either; `Admin::schedules` has their errors"
            ),
            Self::DutyFailed { feature, what, error } => {
                warn!(event = "duty.failed", feature, %error, "{what}; a later round tries again");
            }
            Self::DutyGivenUp { feature, error } => error!(
                event = "duty.failed",
                feature,
                %error,
                "this worker does no background work for {feature} until it is restarted; grant it what \
                 docs/security.md lists"
            ),
            Self::DutyPanicked => {
                error!(event = "duty.failed", "a round of a worker's background work panicked; a later one tries again")
            }
        }
    }
}
