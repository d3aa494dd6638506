//! The names of spans, events and fields. They are stable, because dashboards and alerts depend on them.
//!
//! Spans: `job` around every attempt, with `job.id`, `job.kind`, `job.queue`, `job.attempt`.
//! Events carry `event = "…"`, one of the constants below, and the same fields.
//!
//! Arguments and results of jobs are never logged, because they may be private. Errors are, unless
//! [`log_errors(false)`](crate::WorkerBuilder::log_errors) is set.

/// Jobs may wait for connections of the worker's pool. Fields: `connections` of the pool, `concurrency`.
pub(crate) const WORKER_POOL_SMALL: &str = "worker.pool_small";
/// The worker serves queues that no job it knows declares. Fields: `worker`, `queues`.
pub(crate) const WORKER_QUEUES_UNDECLARED: &str = "worker.queues_undeclared";
/// The worker does not serve the queues that these jobs declare. Fields: `worker`, `jobs` (each with its queue).
pub(crate) const WORKER_JOBS_UNSERVED: &str = "worker.jobs_unserved";
/// A worker is ready to claim. Fields: `worker`, `engine`, `concurrency`, `queues`, `kinds`.
pub(crate) const WORKER_STARTED: &str = "worker.started";
/// A worker was told to stop. Fields: `worker`, `running`, `released`.
pub(crate) const WORKER_STOPPING: &str = "worker.stopping";
/// A worker has ended. Fields: `worker`.
pub(crate) const WORKER_STOPPED: &str = "worker.stopped";
/// A worker lost its lease and cancelled its running jobs. It starts over under a new number. Fields: `worker`,
/// `reason` (`unanswered`: no heartbeat was answered in time; `declared`: another worker declared it lost), `running`,
/// `waiting` (claimed, not started).
pub(crate) const WORKER_LEASE_LOST: &str = "worker.lease_lost";
/// Another worker was declared lost, because its session or its lease ended. Fields: `worker` (the lost one), `late_ms`
/// (how long its next heartbeat had been overdue, or its lease over).
pub(crate) const WORKER_LOST: &str = "worker.lost";
/// A worker that lost its lease works again under a new number. Fields: `worker`.
pub(crate) const WORKER_JOINED: &str = "worker.joined";
/// The database fails. Logged once per outage, again each minute, and for each different error. Fields: `error`.
pub(crate) const DATABASE_LOST: &str = "database.lost";
/// The database is in memory, and the pool may close the connection that holds it.
#[cfg(feature = "sqlite")]
pub(crate) const DATABASE_FLEETING: &str = "database.fleeting";
/// The database answers again. Fields: `outage_ms`.
pub(crate) const DATABASE_BACK: &str = "database.back";
/// A job starts that was lost with two or more workers. Fields: the job's, `job.losses`, and `job.max_neighbours` (0 if
/// it runs alone at first).
pub(crate) const JOB_SUSPECTED: &str = "job.suspected";
/// An attempt completed its job. Fields: the job's, `job.duration_ms`.
pub(crate) const JOB_COMPLETED: &str = "job.completed";
/// An attempt failed and the job will be retried. Fields: the job's, `job.duration_ms`, `job.outcome`,
/// `job.retry_in_ms`, `error`.
pub(crate) const JOB_FAILED: &str = "job.failed";
/// A job went to the dead letters. Fields: the job's, `job.duration_ms`, `job.outcome`, `error`.
pub(crate) const JOB_DEAD: &str = "job.dead";
/// A job was cancelled. Fields: the job's, `job.duration_ms`.
pub(crate) const JOB_CANCELLED: &str = "job.cancelled";
/// A job asked to run later. Fields: the job's, `job.retry_in_ms`, `error` (the reason, if it has one).
pub(crate) const JOB_SNOOZED: &str = "job.snoozed";
/// A job was released without counting an attempt: at shutdown, or because a claim's answer was lost. Fields: the
/// job's.
pub(crate) const JOB_RELEASED: &str = "job.released";
/// An attempt did not end when it was told to. It was dropped or left behind. Fields: the job's.
pub(crate) const JOB_ABANDONED: &str = "job.abandoned";
/// The database refused a write, because another attempt is current. Fields: `job.id`.
pub(crate) const JOB_REFUSED: &str = "job.refused";
/// A dead letter was not sent back, because another job has its key. Fields: `job.id`, `holder`.
pub(crate) const NOT_SENT_BACK: &str = "job.not_sent_back";
/// Jobs of lost workers were rescued. Fields: `ready`, `dead`, `cancelled`.
pub(crate) const JOBS_RESCUED: &str = "jobs.rescued";
/// Retention removed finished jobs. Fields: `jobs`.
pub(crate) const JOBS_PURGED: &str = "jobs.purged";
/// A round of retention failed. The next round tries again. Fields: `error`.
pub(crate) const RETENTION_FAILED: &str = "retention.failed";
/// Jobs of schedules were enqueued. Fields: `jobs`.
#[cfg(feature = "schedules")]
pub(crate) const SCHEDULES_FIRED: &str = "schedules.fired";
/// The schedules of an application were made what its code declares. Fields: `app`, `written`, `retired`.
#[cfg(feature = "schedules")]
pub(crate) const SCHEDULES_CHANGED: &str = "schedules.changed";
/// A declared schedule has the name of another one, which stays. Fields: `schedule`, `owner`.
#[cfg(feature = "schedules")]
pub(crate) const SCHEDULE_CONFLICT: &str = "schedule.conflict";
/// A schedule does not fire. Fields: `schedule`, `error`.
#[cfg(feature = "schedules")]
pub(crate) const SCHEDULE_FAILED: &str = "schedule.failed";
/// A round of a feature's background work failed. The next round tries again. Fields: `feature`, `error`.
pub(crate) const DUTY_FAILED: &str = "duty.failed";
