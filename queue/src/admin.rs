//! Looking and mending: what code, a command line and a dashboard all need.

use chrono::{DateTime, Utc};

use crate::enqueue::target::Pool;
use crate::error::Error;
use crate::id::JobId;
use crate::limits::check_name;
use crate::limits::{MAX_ARGS_BYTES, MAX_ARGS_DEPTH, depth};
use crate::state::JobState;
use crate::store::view::{Among, Filter, Job, JobDetail, MAX_PAGE, Page, QueueInfo, Stat, WorkerInfo};
use crate::store::{AnyStore, Store};

/// Administration of the jobs in one database. Cheap to clone.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = queue::__doctest::pool().await;
/// use queue::{Admin, Filter, JobState};
///
/// let admin = Admin::new(&pool);
/// for dead in admin.jobs(&Filter::new().state(JobState::Dead)).await?.items {
///     println!("{} {}: {}", dead.id, dead.kind, dead.error.unwrap_or_default());
/// }
/// admin.send_back_all(&Filter::new().kind("send_email")).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Admin {
    store: AnyStore,
}

impl Admin {
    /// Administers the jobs in the database of `pool` (`&PgPool`, `&MySqlPool` or `&SqlitePool`). No I/O.
    pub fn new(pool: &impl Pool) -> Self {
        Self { store: pool.store() }
    }

    /// Counts and ages by kind, queue and state. Exact: it reads every row, so ask seldom beside millions of jobs.
    pub async fn stats(&self) -> Result<Vec<Stat>, Error> {
        self.store.stats().await
    }

    /// Lists jobs by ascending id, a page at a time.
    pub async fn jobs(&self, filter: &Filter) -> Result<Page<Job>, Error> {
        self.store.jobs(filter).await
    }

    /// One job with its arguments, its result and every attempt; None when there is no such job.
    pub async fn job(&self, id: JobId) -> Result<Option<JobDetail>, Error> {
        self.store.job(id).await
    }

    /// Runs a job soon: a scheduled one at once instead of later, a dead one again from the first attempt.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a running, completed or cancelled job (a finished job never runs again: enqueue a new one),
    /// [`Error::NotFound`].
    pub async fn retry(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Operation::Retry).await
    }

    /// Retries all scheduled and dead jobs that match, each of them once. Returns how many.
    pub async fn retry_all(&self, filter: &Filter) -> Result<u64, Error> {
        let operation = match filter.state {
            // one walk over both: a scheduled job that was made ready, and has died by the end of a first walk, would be sent
            // back by a second one
            None => Operation::Retry,
            Some(JobState::Scheduled) => Operation::RunNow,
            Some(JobState::Dead) => Operation::SendBack,
            Some(_) => return Ok(0),
        };
        self.all(Filter { among: Among::Retryable, ..filter.clone() }, operation).await
    }

    /// Cancels a job: a waiting one at once; a running one is told through its token within a heartbeat, and counts as
    /// cancelled when it stops because of that (one that completes all the same is completed).
    ///
    /// # Errors
    /// [`Error::Conflict`] for a completed job and a dead letter, [`Error::NotFound`]. One that is cancelled already is no error.
    pub async fn cancel(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Operation::Cancel).await
    }

    /// Cancels all waiting and running jobs that match. Returns how many were cancelled or told to stop: the latter also of
    /// waiting ones, when a worker was faster.
    pub async fn cancel_all(&self, filter: &Filter) -> Result<u64, Error> {
        let Some(filter) = filter.unfinished() else { return Ok(0) };
        self.all(filter, Operation::Cancel).await
    }

    /// Removes a job that no worker holds, with its attempts.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a running job (cancel it first), [`Error::NotFound`].
    pub async fn delete(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Operation::Delete).await
    }

    /// Removes all jobs that match and that no worker holds. Returns how many.
    pub async fn delete_all(&self, filter: &Filter) -> Result<u64, Error> {
        self.all(filter.clone(), Operation::Delete).await
    }

    /// Gives a waiting job another time.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a job that runs or is over, [`Error::NotFound`].
    pub async fn reschedule(&self, id: JobId, time: DateTime<Utc>) -> Result<(), Error> {
        self.one(id, Operation::Reschedule(time.timestamp_micros())).await
    }

    /// Gives all waiting jobs that match another time. Returns how many.
    pub async fn reschedule_all(&self, filter: &Filter, time: DateTime<Utc>) -> Result<u64, Error> {
        let Some(filter) = filter.unfinished() else { return Ok(0) };
        self.all(filter, Operation::Reschedule(time.timestamp_micros())).await
    }

    /// Sends a dead letter back: it is ready again, with all its attempts before it. Those that it had stay on record.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a job that is not dead, [`Error::NotFound`].
    pub async fn send_back(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Operation::SendBack).await
    }

    /// Sends all dead letters back that match. Returns how many.
    pub async fn send_back_all(&self, filter: &Filter) -> Result<u64, Error> {
        if filter.state.is_some_and(|state| state != JobState::Dead) {
            return Ok(0);
        }
        self.all(filter.clone().state(JobState::Dead), Operation::SendBack).await
    }

    /// Replaces the arguments of a dead letter or a waiting job; nothing else changes, so send it back afterwards.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a job that runs or is over, [`Error::NotFound`], [`Error::Config`] for arguments above the
    /// size limit.
    pub async fn edit_args(&self, id: JobId, args: &serde_json::Value) -> Result<(), Error> {
        let args = args.to_string();
        if args.len() > MAX_ARGS_BYTES {
            let size = args.len();
            return Err(Error::config(format!(
                "the new arguments of job {id} are {size} bytes of JSON, the limit is {MAX_ARGS_BYTES}"
            )));
        }
        let depth = depth(&args);
        if depth > MAX_ARGS_DEPTH {
            return Err(Error::config(format!(
                "the new arguments of job {id} nest {depth} levels deep, the limit is {MAX_ARGS_DEPTH}"
            )));
        }
        self.one(id, Operation::Edit(args)).await
    }

    /// Stops all claims from a queue, at once and on every worker. Jobs that run go on. A queue that has no jobs yet can
    /// be paused as well; pausing it again keeps the first time.
    ///
    /// # Errors
    /// [`Error::Config`] for a name that no queue can have.
    pub async fn pause(&self, queue: &str) -> Result<(), Error> {
        check_name("queue", queue).map_err(|why| Error::config(format!("cannot pause a queue: {why}")))?;
        self.store.set_paused(queue, true).await
    }

    /// Takes a pause back.
    pub async fn resume(&self, queue: &str) -> Result<(), Error> {
        self.store.set_paused(queue, false).await
    }

    /// The queues that have waiting or running jobs or are paused.
    pub async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        self.store.queues().await
    }

    /// The workers: those that are alive, and those that ended within the retention.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        self.store.workers().await
    }

    /// Changes one job, or says why not. A job that was on its way from one state to another just then, so that the
    /// statement missed it, is tried again.
    async fn one(&self, id: JobId, operation: Operation) -> Result<(), Error> {
        let mut tries = 0;
        loop {
            if !operation.run(&*self.store, &[id.get()], None).await?.is_empty() {
                return Ok(());
            }
            tries += 1;
            let Some(detail) = self.store.job(id).await? else { return Err(Error::NotFound(id)) };
            let state = detail.job.state;
            if operation.is_done(state) {
                return Ok(());
            }
            if tries == 5 || !operation.applies_to(state) {
                return Err(Error::Conflict { id, operation: operation.name(), state, cure: operation.cure(state) });
            }
        }
    }

    /// Walks all matching jobs by id, in bounded statements, so that no lock is held for long.
    async fn all(&self, mut filter: Filter, operation: Operation) -> Result<u64, Error> {
        let most = filter.limit.map_or(u64::MAX, u64::from);
        let mut count = 0;
        while count < most {
            filter.limit = Some(u32::try_from(most - count).unwrap_or(MAX_PAGE).min(MAX_PAGE));
            let page = self.store.jobs(&filter).await?;
            let ids: Vec<i64> = page.items.iter().map(|job| job.id.get()).collect();
            if !ids.is_empty() {
                count += operation.run(&*self.store, &ids, filter.state).await?.len() as u64;
            }
            match page.next {
                Some(next) => filter = filter.after(next),
                None => break,
            }
        }
        Ok(count)
    }
}

/// What can be done to jobs. Data and not closures: the futures of async closures cannot be shown to be `Send`, and what
/// [`Admin`] returns has to run in tasks and handlers.
#[derive(Debug)]
enum Operation {
    /// [`RunNow`](Self::RunNow) or [`SendBack`](Self::SendBack).
    Retry,
    RunNow,
    SendBack,
    Cancel,
    Delete,
    /// Microseconds since 1970.
    Reschedule(i64),
    /// JSON.
    Edit(String),
}

impl Operation {
    /// Returns the ids that changed. `state`: that in which they were looked for.
    async fn run(&self, store: &dyn Store, ids: &[i64], state: Option<JobState>) -> Result<Vec<i64>, Error> {
        match self {
            Self::Retry => {
                let mut changed = store.run_now(ids).await?;
                // one that was made ready may have run and died by now: it is not to be sent back as well
                let rest: Vec<i64> = ids.iter().copied().filter(|id| !changed.contains(id)).collect();
                changed.extend(store.send_back(&rest).await?);
                Ok(changed)
            }
            Self::RunNow => store.run_now(ids).await,
            Self::SendBack => store.send_back(ids).await,
            Self::Cancel => store.cancel(ids, "cancelled by an administrator").await,
            // not what was sent back, or ended, since it was listed
            Self::Delete => store.delete(ids, state).await,
            Self::Reschedule(run_at) => store.reschedule(ids, *run_at).await,
            Self::Edit(args) => {
                let mut changed = Vec::new();
                for &id in ids {
                    if store.edit(id.into(), args).await? {
                        changed.push(id);
                    }
                }
                Ok(changed)
            }
        }
    }

    /// Whether it changes jobs in this state.
    fn applies_to(&self, state: JobState) -> bool {
        use JobState::{Dead, Ready, Running, Scheduled};
        match self {
            Self::Retry => matches!(state, Scheduled | Dead),
            Self::RunNow => state == Scheduled,
            Self::SendBack => state == Dead,
            Self::Cancel => matches!(state, Scheduled | Ready | Running),
            Self::Delete => state != Running,
            Self::Reschedule(_) => matches!(state, Scheduled | Ready),
            Self::Edit(_) => matches!(state, Scheduled | Ready | Dead),
        }
    }

    /// Whether a job in this state is what it would have become.
    fn is_done(&self, state: JobState) -> bool {
        match self {
            Self::Retry | Self::RunNow => state == JobState::Ready,
            Self::Cancel => state == JobState::Cancelled,
            _ => false,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Retry | Self::RunNow => "retry",
            Self::SendBack => "send back",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Reschedule(_) => "reschedule",
            Self::Edit(_) => "edit",
        }
    }

    /// What to do instead where it does not apply.
    fn cure(&self, state: JobState) -> &'static str {
        match self {
            Self::Retry | Self::RunNow if state == JobState::Running => "that is what a retry would come to",
            Self::Retry | Self::RunNow => "only scheduled jobs and dead letters can be retried; enqueue a new job",
            Self::SendBack => "only dead letters can be sent back",
            Self::Cancel => "it is over; delete it if it is in the way",
            Self::Delete => "cancel it first, and delete it when it has stopped",
            Self::Reschedule(_) => "only waiting jobs have a time; send a dead letter back first",
            Self::Edit(_) => "only waiting jobs and dead letters can be edited",
        }
    }
}
