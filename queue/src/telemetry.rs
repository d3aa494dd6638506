//! What the library tells, and the names of its spans, events and fields. They are stable, because dashboards and
//! alerts depend on them.
//!
//! Spans: `job` around every attempt, with `job.id`, `job.kind`, `job.queue`, `job.attempt`. Every event about a job
//! that the worker holds has the same fields, whatever the filter.
//!
//! Arguments and results of jobs are never logged, because they may be private. Errors are, unless
//! [`log_errors(false)`](crate::WorkerBuilder::log_errors) is set.

use std::time::Duration;

use tracing::{debug, error, info, warn};

use crate::error::Error;
use crate::limits::micros;
use crate::store::values::{AttemptOutcome, Claimed, Rescued, WorkerId};

/// Something that operators may want to know. Each variant has a name in the field `event`.
pub(crate) enum Event<'a> {
    /// Jobs may wait for connections of the worker's pool. The worker opens `kept` more of its own.
    WorkerPoolSmall { connections: u32, concurrency: u32, kept: u32 },
    /// The worker serves queues that no job it knows declares.
    WorkerQueuesUndeclared { worker: WorkerId, queues: String },
    /// The worker does not serve the queues that these jobs declare.
    WorkerJobsUnserved { worker: WorkerId, jobs: String },
    /// A worker is ready to claim.
    WorkerStarted { worker: WorkerId, engine: &'a str, concurrency: u32, queues: String, kinds: String },
    /// A worker was told to stop. `released`: jobs that were claimed and had not begun.
    WorkerStopping { worker: WorkerId, running: usize, released: usize },
    /// A worker has ended.
    WorkerStopped { worker: WorkerId },
    /// A worker lost its lease and cancelled its running jobs. It starts over under a new number. `reason`:
    /// `unanswered` (no heartbeat was answered in time) or `declared` (another worker declared it lost).
    /// `waiting`: jobs that were claimed and had not begun.
    WorkerLeaseLost { worker: WorkerId, reason: &'a str, running: usize, waiting: usize },
    /// Another worker was declared lost, because its session or its lease ended. `late`: how long its next heartbeat
    /// had been overdue, or its lease over.
    WorkerLost { worker: WorkerId, late: Duration, by_lease: bool },
    /// A worker that lost its lease works again under a new number.
    WorkerJoined { worker: WorkerId },
    /// The database fails. Told once per outage, again each minute, and for each different error.
    DatabaseLost { error: &'a Error },
    /// The database is in memory, and the pool may close the connection that holds it.
    #[cfg(feature = "sqlite")]
    DatabaseFleeting { text: &'a str },
    /// The database answers again.
    DatabaseBack { outage: Duration },
    /// A job starts that was lost with two or more workers. `alone`: no other job runs beside it at first.
    JobSuspected { job: &'a Claimed, alone: bool },
    /// An attempt completed its job.
    JobCompleted { job: &'a Claimed, ran: Duration },
    /// An attempt completed its job in a transaction of its own, and failed after that was committed.
    JobFailedAfterCommit { job: &'a Claimed, ran: Duration, error: Option<String> },
    /// An attempt failed and the job will be retried.
    JobFailed { job: &'a Claimed, ran: Duration, outcome: AttemptOutcome, retry_in: Duration, error: Option<String> },
    /// A job went to the dead letters.
    JobDead { job: &'a Claimed, ran: Duration, outcome: AttemptOutcome, error: Option<String> },
    /// A job went to the dead letters, because the database refused to record how it ended.
    JobUnrecordable { id: i64, error: &'a str },
    /// A job was cancelled.
    JobCancelled { job: &'a Claimed, ran: Duration },
    /// A job asked to run later. `error`: the reason, if it has one.
    JobSnoozed { job: &'a Claimed, retry_in: Duration, error: Option<String> },
    /// A job was released at shutdown, without counting an attempt.
    JobReleased { job: &'a Claimed },
    /// A job was released before its handler began, because what the handler needs was not there.
    JobUnbegun { job: &'a Claimed, retry_in: Duration, error: Option<String> },
    /// A job was released, because the answer to its claim was lost.
    ClaimLost { id: i64 },
    /// An attempt did not end when it was told to, and was dropped.
    JobDropped { job: &'a Claimed, reason: &'a dyn std::fmt::Debug },
    /// An attempt does not even leave its thread, and was left behind.
    JobLeftBehind { job: &'a Claimed },
    /// The database refused a write, because another attempt is current.
    JobRefused { id: i64 },
    /// A dead letter was not sent back, because another job has its key.
    NotSentBack { id: i64, holder: i64 },
    /// Jobs of lost workers were rescued.
    JobsRescued(&'a Rescued),
    /// Retention removed finished jobs.
    JobsPurged { jobs: u64 },
    /// A round of retention failed. The next round tries again.
    RetentionFailed { error: &'a Error },
    /// Jobs of schedules were enqueued.
    #[cfg(feature = "schedules")]
    SchedulesFired { jobs: usize },
    /// The schedules of an application were made what its code declares.
    #[cfg(feature = "schedules")]
    SchedulesChanged { app: &'a str, written: String, retired: String },
    /// A declared schedule has the name of another one, which stays. `owner`: the other's application. Empty: it was
    /// made at run time.
    #[cfg(feature = "schedules")]
    ScheduleConflict { schedule: &'a str, owner: &'a str },
    /// A schedule does not fire.
    #[cfg(feature = "schedules")]
    ScheduleFailed { schedule: &'a str, error: &'a str },
    /// Schedules do not fire, because they fired while the database's clock was ahead.
    #[cfg(feature = "schedules")]
    SchedulesSilent { schedules: String },
    /// So many more schedules do not fire.
    #[cfg(feature = "schedules")]
    MoreSchedulesFailed { more: usize },
    /// A round of a feature's background work failed. The next round tries again.
    DutyFailed { feature: &'a str, what: &'a str, error: &'a Error },
    /// The account lacks a right for a feature's background work. The worker does it no more until it is restarted.
    DutyGivenUp { feature: &'a str, error: &'a Error },
    /// A round of background work panicked.
    DutyPanicked,
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
    /// Tells `tracing`.
    pub(crate) fn emit(self) {
        match self {
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
            Self::JobSnoozed { job, retry_in, error } => {
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
            Self::NotSentBack { id, holder } => {
                warn!(event = "job.not_sent_back", job.id = id, holder, "not sent back: another job has its key");
            }
            Self::JobsRescued(Rescued { ready, dead, cancelled }) => {
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
