//! Inspecting and repairing jobs, for use in code, a command line or a dashboard.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::enqueue::Pool;
use crate::error::Error;
pub use crate::failures::{FailureGroup, Failures};
pub use crate::gauges::{Count, Depth, Gauges, Paused, QueueInfo};
use crate::limits::{MAX_ARGS_BYTES, MAX_ARGS_DEPTH, check_name, depth};
pub use crate::state::UnknownState;
use crate::state::{JobId, JobState};
use crate::store::AdminStore;
use crate::store::values::Refusal;
use crate::store::view::{Among, MAX_PAGE};
pub use crate::store::view::{Attempt, Filter, JobDetail, JobRow, Page, Stat, WorkerInfo};
use crate::telemetry::Event;
pub use crate::throughput::{Tally, TallyOutcome, Throughput};
use crate::why::summary;
pub use crate::why::{Reason, Waiting, Why};

/// How long a change tries again to reach a job that is locked.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two of these tries.
const AGAIN: Duration = Duration::from_millis(50);
/// How long a page for Prometheus is shared.
const SHARED_FOR: Duration = Duration::from_secs(1);
/// So often at least: on a slow machine one try may outlast the patience.
const TRIES: u32 = 5;

/// Inspects and changes the jobs in one database. Cheap to clone.
///
/// Every method may also fail with [`Error::Database`]. All are safe to drop: a step that has begun continues in the
/// background. The methods named `…_all` work in steps of up to 1,000 jobs. If one fails or is dropped, the earlier
/// steps remain. If a transaction has locked a job, a change tries again for five seconds. Then [`Error::Locked`]
/// names that job. All others are changed.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use queue::admin::{Admin, Filter};
/// use queue::JobState;
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
    pub(crate) store: Arc<dyn AdminStore>,
    /// The last page for Prometheus.
    page: Arc<Mutex<Option<(Instant, String)>>>,
}

impl Admin {
    /// Administers the jobs in the database of `pool` (`&PgPool`, `&MySqlPool` or `&SqlitePool`). Does no I/O.
    pub fn new(pool: &impl Pool) -> Self {
        Self { store: pool.store(), page: Arc::default() }
    }

    /// Counts the jobs by kind, queue and state, and finds the oldest of each. The counts are exact: it reads every
    /// row, for two minutes at most. Call it rarely if there are millions of jobs.
    pub async fn stats(&self) -> Result<Vec<Stat>, Error> {
        self.store.stats().await
    }

    /// Counts what waits, runs and is dead, however large the tables are: it takes some milliseconds. Each kind, queue
    /// and priority is counted up to 10,000 jobs. All together are counted up to 100,000, or fewer if there are more
    /// than 100 of them. Where a count stopped, it says "or more". The age of the oldest due job is always exact. No
    /// worker has to be alive, and the account may be one that only reads.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// for depth in queue::admin::Admin::new(&pool).gauges().await?.depths {
    ///     println!("{} in {}: {} ready, {} dead", depth.kind, depth.queue, depth.ready, depth.dead);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn gauges(&self) -> Result<Gauges, Error> {
        self.store.gauges().await
    }

    /// The page for a scrape by Prometheus: [`Gauges::prometheus`]. Calls that come while one is reading, or within a
    /// second after it, share its answer. So any number of scrapers costs the database one read a second at most.
    pub async fn prometheus(&self) -> Result<String, Error> {
        let mut last = self.page.lock().await;
        if let Some((at, page)) = &*last
            && at.elapsed() < SHARED_FOR
        {
            return Ok(page.clone());
        }
        let page = self.gauges().await?.prometheus();
        *last = Some((Instant::now(), page.clone()));
        Ok(page)
    }

    /// How much started and ended since so long ago, and how long that took: by minutes if that is three hours at most,
    /// else by hours, for 35 days at most. It reads the small tallies that workers write every ten seconds. So it stays
    /// cheap however many jobs there are, and needs no worker alive and no right to change anything. What started or
    /// ended counts in the minute in which it was written.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// let throughput = queue::admin::Admin::new(&pool).throughput(std::time::Duration::from_secs(300)).await?;
    /// let ended = throughput.over().filter(|it| it.outcome.is_end()).map(|it| it.attempts).sum::<u64>();
    /// println!("{} attempts ended per minute", ended / 5);
    /// # Ok(()) }
    /// ```
    pub async fn throughput(&self, since: Duration) -> Result<Throughput, Error> {
        self.store.throughput(since).await
    }

    /// Lists jobs by ascending id, one page at a time. Takes two minutes at most.
    pub async fn jobs(&self, filter: &Filter) -> Result<Page<JobRow>, Error> {
        let mut page = self.store.jobs(filter).await?;
        page.items.retain(|job| filter.has(job));
        Ok(page)
    }

    /// Reads one job with its arguments, result and attempts. `None` if there is no such job.
    pub async fn job(&self, id: JobId) -> Result<Option<JobDetail>, Error> {
        self.store.job(id).await
    }

    /// Finds the job of this kind that took this key last. It may have started or ended since, so the key may be free.
    /// `None`: no job took the key, or that job is gone.
    ///
    /// # Errors
    /// [`Error::Database`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::{Job, job};
    ///
    /// #[job(unique)]
    /// async fn greet_once(name: String) {
    ///     println!("Hello, {name}!");
    /// }
    ///
    /// let id = GreetOnce::new("Ada").enqueue(&pool).await?;
    /// let job = Admin::new(&pool).job_with_key("greet_once", r#"{"name":"Ada"}"#).await?.expect("it waits");
    /// assert_eq!((job.job.id, job.unique_key.as_deref()), (id, Some(r#"{"name":"Ada"}"#)));
    /// # Ok(()) }
    /// ```
    pub async fn job_with_key(&self, kind: &str, key: &str) -> Result<Option<JobDetail>, Error> {
        match self.store.last_of_key(kind, key).await? {
            Some(id) => self.store.job(id.into()).await,
            None => Ok(None),
        }
    }

    /// Frees a key that `for` keeps although its job is over or gone, or has started with `until = "start"`. Returns
    /// false if there is no such key. Then it is free.
    ///
    /// # Errors
    /// [`Error::Conflict`] if a job holds the key: cancel that job instead. [`Error::Database`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::{Job, job};
    ///
    /// #[job(unique(by = (invoice), for = "30d"))]
    /// async fn bill(invoice: u32) {}
    ///
    /// let admin = Admin::new(&pool);
    /// let id = Bill::new(7).enqueue(&pool).await?;
    /// admin.delete(id).await?;
    /// assert_eq!(Bill::new(7).enqueue(&pool).await?, id, "kept for 30 days");
    /// assert!(admin.release_key("bill", r#"{"invoice":7}"#).await?);
    /// assert_ne!(Bill::new(7).enqueue(&pool).await?, id);
    /// # Ok(()) }
    /// ```
    pub async fn release_key(&self, kind: &str, key: &str) -> Result<bool, Error> {
        loop {
            let id = match self.store.release_key(kind, key).await? {
                Ok(found) => return Ok(found),
                Err(holder) => holder,
            };
            // it may have ended just then
            if let Some(detail) = self.store.job(id).await?
                && !detail.job.state.is_final()
            {
                let (operation, cure) = ("release the key of", "cancel it, or wait until it is over");
                return Err(Error::Conflict { id, operation, state: detail.job.state, cure });
            }
        }
    }

    /// What fails now, by group: texts that differ only in what varies are one group. It looks at the 10,000 newest dead
    /// letters, and at 10,000 attempts of the newest jobs, so it takes some milliseconds however many there are.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::JobState;
    /// use queue::admin::{Admin, Filter};
    ///
    /// let admin = Admin::new(&pool);
    /// if let Some(worst) = admin.failures().await?.groups.first() {
    ///     println!("{}: {} dead, {} retrying: {}", worst.kind, worst.dead, worst.retrying, worst.title);
    ///     // one of them first
    ///     let them = Filter::new().kind(&*worst.kind).state(JobState::Dead).group(&*worst.group);
    ///     admin.send_back_all(&them.limit(1)).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn failures(&self) -> Result<Failures, Error> {
        self.store.failures().await
    }

    /// Why a job does not run: the one reason, what would cure it, and how that is known. It takes five statements and
    /// some milliseconds, however many jobs there are.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Database`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::{Admin, Reason};
    /// use queue::{Job, job};
    ///
    /// #[job]
    /// async fn feed(cat: String) {
    ///     println!("feeding {cat}");
    /// }
    ///
    /// let id = Feed::new("Tom").enqueue(&pool).await?;
    /// let why = Admin::new(&pool).why(id).await?;
    /// assert_eq!(why.reason, Reason::NoWorker);
    /// assert_eq!(why.cure.as_deref(), Some("start a worker"));
    /// # Ok(()) }
    /// ```
    pub async fn why(&self, id: JobId) -> Result<Why, Error> {
        let job = self.job(id).await?.ok_or(Error::NotFound(id))?.job;
        Ok(Why::of(&job, &self.store.facts(&job).await?))
    }

    /// What all waiting jobs wait for, in at most six lines, the most first. It counts as [`gauges`](Self::gauges) does.
    /// The filter may name a kind and a queue; its other conditions do not matter.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::{Admin, Filter};
    ///
    /// // "31204 wait until the queue `mail` is resumed", "12 wait for a worker that knows `send_emial`"
    /// for line in Admin::new(&pool).why_summary(&Filter::new()).await? {
    ///     println!("{line}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn why_summary(&self, filter: &Filter) -> Result<Vec<Waiting>, Error> {
        let is_asked = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let Gauges { mut depths, complete, .. } = self.gauges().await?;
        depths.retain(|depth| is_asked(&filter.kind, &depth.kind) && is_asked(&filter.queue, &depth.queue));
        Ok(summary(&depths, complete, &self.workers().await?))
    }

    /// Makes a job ready. A scheduled job no longer waits for its due time. A dead letter is
    /// [sent back](Self::send_back). A job that is already ready stays as it is.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a running, completed or cancelled job, [`Error::NotFound`], and [`Error::KeyTaken`] as
    /// for [`send_back`](Self::send_back). A finished job never runs again: enqueue a new one.
    pub async fn retry(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Operation::Retry).await
    }

    /// Makes all matching scheduled jobs and dead letters ready, each of them once. Returns how many.
    pub async fn retry_all(&self, filter: &Filter) -> Result<u64, Error> {
        let operation = match filter.state {
            // Two walks could retry a job twice: the first makes it ready, it fails for good, and the second sends it
            // back. So one walk covers both states.
            None => Operation::Retry,
            Some(JobState::Scheduled) => Operation::RunNow,
            Some(JobState::Dead) => Operation::SendBack,
            Some(_) => return Ok(0),
        };
        self.all(Filter { among: Among::Retryable, ..filter.clone() }, operation).await
    }

    /// Cancels a job. A waiting job is cancelled at once. A running job gets the request through its token, within one
    /// heartbeat. It ends as cancelled if it stops because of the token, and as completed if it completes anyway.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a completed job or a dead letter, [`Error::NotFound`]. Cancelling a cancelled job is not
    /// an error.
    pub async fn cancel(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Operation::Cancel).await
    }

    /// Cancels all matching jobs that wait or run. Returns how many were cancelled or told to stop. A waiting job is
    /// told to stop if a worker claims it meanwhile.
    pub async fn cancel_all(&self, filter: &Filter) -> Result<u64, Error> {
        let Some(filter) = filter.unfinished() else { return Ok(0) };
        self.all(filter, Operation::Cancel).await
    }

    /// Deletes a job and its attempts. A job that a worker holds cannot be deleted.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a running job (cancel it first), [`Error::NotFound`].
    pub async fn delete(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Operation::Delete).await
    }

    /// Deletes all matching jobs that no worker holds. Returns how many.
    pub async fn delete_all(&self, filter: &Filter) -> Result<u64, Error> {
        self.all(filter.clone(), Operation::Delete).await
    }

    /// Changes the due time of a waiting job.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a running or finished job, [`Error::NotFound`].
    pub async fn reschedule(&self, id: JobId, time: DateTime<Utc>) -> Result<(), Error> {
        self.one(id, Operation::Reschedule(time.timestamp_micros())).await
    }

    /// Changes the due time of all matching jobs that wait. Returns how many.
    pub async fn reschedule_all(&self, filter: &Filter, time: DateTime<Utc>) -> Result<u64, Error> {
        let Some(filter) = filter.unfinished() else { return Ok(0) };
        self.all(filter, Operation::Reschedule(time.timestamp_micros())).await
    }

    /// Sends a dead letter back: it becomes ready, with all its retries. Its old attempts stay on record.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a job that is not dead, [`Error::NotFound`], and [`Error::KeyTaken`] for a unique job if
    /// another one has its key.
    pub async fn send_back(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Operation::SendBack).await
    }

    /// Sends back all matching dead letters. Returns how many. Unique jobs whose key is taken stay dead letters, with a
    /// warning in the log for each.
    pub async fn send_back_all(&self, filter: &Filter) -> Result<u64, Error> {
        if filter.state.is_some_and(|state| state != JobState::Dead) {
            return Ok(0);
        }
        self.all(filter.clone().state(JobState::Dead), Operation::SendBack).await
    }

    /// Replaces the arguments of a waiting job or a dead letter. A dead letter stays dead: send it back
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a running, completed or cancelled job, [`Error::NotFound`], [`Error::Config`] for
    /// arguments that are no object although the present ones are, and for those above [`MAX_ARGS_BYTES`] or
    /// [`MAX_ARGS_DEPTH`].
    pub async fn edit_args(&self, id: JobId, args: &serde_json::Value) -> Result<(), Error> {
        if !args.is_object() {
            let job = self.job(id).await?.ok_or(Error::NotFound(id))?;
            if job.args.trim_start().starts_with('{') {
                return Err(Error::config(format!(
                    "the new arguments of job {id} are not a JSON object, and its present ones are: give one field for \
                     each argument, for example {{\"to\": \"ada@example.org\"}}"
                )));
            }
        }
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

    /// Pauses a queue: from now on no worker claims its jobs. Running jobs continue. The queue may be empty. Pausing a
    /// paused queue keeps the time of the first pause.
    ///
    /// # Errors
    /// [`Error::Config`] for an invalid name.
    pub async fn pause(&self, queue: &str) -> Result<(), Error> {
        check_name("queue", queue).map_err(|why| Error::config(format!("cannot pause a queue: {why}")))?;
        self.store.set_paused(queue, true).await
    }

    /// Ends the pause of a queue.
    pub async fn resume(&self, queue: &str) -> Result<(), Error> {
        self.store.set_paused(queue, false).await
    }

    /// Lists the queues that have unfinished jobs or dead letters or are paused, as cheaply as
    /// [`gauges`](Self::gauges).
    pub async fn queues(&self) -> Result<Vec<QueueInfo>, Error> {
        Ok(self.gauges().await?.queues())
    }

    /// Lists the workers that are alive, and those that ended within the [retention](crate::WorkerBuilder::retention).
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, Error> {
        self.store.workers().await
    }

    /// Changes one job, or returns why it could not.
    async fn one(&self, id: JobId, operation: Operation) -> Result<(), Error> {
        let patience = Instant::now() + PATIENCE;
        let mut tries = 0;
        loop {
            let (changed, refused) = operation.run(&*self.store, &[id.get()], None).await?;
            if let Some(Refusal { id, key, holder }) = refused.into_iter().next() {
                return Err(Error::KeyTaken { id: id.into(), key, holder: holder.into() });
            }
            if !changed.is_empty() {
                return Ok(());
            }
            tries += 1;
            let state = match self.fate(id, &operation).await? {
                Fate::Gone => return Err(Error::NotFound(id)),
                Fate::Done => return Ok(()),
                Fate::Missed(_) => {
                    // it is locked, or changed its state just then
                    if tries >= TRIES && Instant::now() >= patience {
                        return Err(Error::Locked { operation: operation.name(), jobs: vec![id], changed: 0 });
                    }
                    sleep(AGAIN).await;
                    continue;
                }
                Fate::Unfit(state) => state,
            };
            return Err(Error::Conflict { id, operation: operation.name(), state, cure: operation.cure(state) });
        }
    }

    /// Walks all matching jobs by id. Its statements are bounded, so that no lock is held for long.
    async fn all(&self, mut filter: Filter, operation: Operation) -> Result<u64, Error> {
        let most = filter.limit.map_or(u64::MAX, u64::from);
        let (mut changed, mut missed) = (0, Vec::new());
        while changed < most {
            let left = u32::try_from(most - changed).unwrap_or(MAX_PAGE).min(MAX_PAGE);
            // of a group, a page may have few jobs
            filter.limit = Some(if filter.group.is_some() { MAX_PAGE } else { left });
            let page = self.store.jobs(&filter).await?;
            let fits = page.items.iter().filter(|job| operation.applies_to(job.state) && filter.has(job));
            let ids: Vec<i64> = fits.map(|job| job.id.get()).take(left as usize).collect();
            changed += self.step(&ids, &operation, filter.state, &mut missed).await?;
            let rest = ids.last().filter(|_| ids.len() == left as usize).map(|id| JobId::from(*id));
            match rest.or(page.next) {
                Some(next) => filter = filter.after(next),
                None => break,
            }
        }
        let patience = Instant::now() + PATIENCE;
        while !missed.is_empty() && changed < most {
            if Instant::now() >= patience {
                let jobs = missed.into_iter().map(JobId::from).collect();
                return Err(Error::Locked { operation: operation.name(), jobs, changed });
            }
            sleep(AGAIN).await;
            let again = std::mem::take(&mut missed);
            let left = usize::try_from(most - changed).unwrap_or(usize::MAX);
            missed.extend(again.iter().skip(left));
            for ids in again[..again.len().min(left)].chunks(MAX_PAGE as usize) {
                changed += self.step(ids, &operation, filter.state, &mut missed).await?;
            }
        }
        Ok(changed)
    }

    /// Changes these jobs, which were listed in this state. Adds to `missed` those that it could not change now.
    async fn step(
        &self,
        ids: &[i64],
        operation: &Operation,
        listed: Option<JobState>,
        missed: &mut Vec<i64>,
    ) -> Result<u64, Error> {
        if ids.is_empty() {
            return Ok(0);
        }
        let (changed, refused) = operation.run(&*self.store, ids, listed).await?;
        for Refusal { id, holder, .. } in &refused {
            // not the key: it may consist of arguments, which are never logged
            Event::NotSentBack { id: *id, holder: *holder }.log();
        }
        let done: HashSet<i64> = changed.iter().copied().chain(refused.iter().map(|it| it.id)).collect();
        for &id in ids.iter().filter(|id| !done.contains(id)) {
            if let Fate::Missed(state) = self.fate(id.into(), operation).await?
                && (listed.is_none_or(|listed| listed == state) || !matches!(operation, Operation::Delete))
            {
                missed.push(id);
            }
        }
        Ok(changed.len() as u64)
    }

    /// Why an operation did not change this job.
    async fn fate(&self, id: JobId, operation: &Operation) -> Result<Fate, Error> {
        let Some(detail) = self.store.job(id).await? else { return Ok(Fate::Gone) };
        Ok(match detail.job.state {
            state if operation.is_done(state) => Fate::Done,
            state if operation.applies_to(state) => Fate::Missed(state),
            state => Fate::Unfit(state),
        })
    }
}

/// Why an operation did not change a job.
enum Fate {
    Gone,
    /// It is what the operation would make of it.
    Done,
    /// Nothing speaks against it: the row was locked, or it moved from one table to another just then.
    Missed(JobState),
    Unfit(JobState),
}

/// What can be done to jobs. It is an enum, because the futures of [`Admin`] must be `Send`, and the compiler cannot
/// prove that for async closures.
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
    /// The changed jobs, and those whose keys other jobs have. `state`: the state that the jobs were listed with.
    async fn run(
        &self,
        store: &dyn AdminStore,
        ids: &[i64],
        state: Option<JobState>,
    ) -> Result<(Vec<i64>, Vec<Refusal>), Error> {
        let ids = match self {
            Self::Retry => {
                let mut ready = store.run_now(ids).await?;
                // A job that was just made ready may be a dead letter by now. It must not be sent back as well.
                let rest: Vec<i64> = ids.iter().copied().filter(|id| !ready.contains(id)).collect();
                let (sent_back, refused) = store.send_back(&rest).await?;
                ready.extend(sent_back);
                return Ok((ready, refused));
            }
            Self::SendBack => return store.send_back(ids).await,
            Self::RunNow => store.run_now(ids).await?,
            Self::Cancel => store.cancel(ids, "cancelled by an administrator").await?,
            // only if still in the listed state: a dead letter may have been sent back since
            Self::Delete => store.delete(ids, state).await?,
            Self::Reschedule(run_at) => store.reschedule(ids, *run_at).await?,
            // one at a time
            Self::Edit(args) => match *ids {
                [id] if store.edit(id.into(), args).await? => vec![id],
                _ => Vec::new(),
            },
        };
        Ok((ids, Vec::new()))
    }

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

    /// Whether a job in this state already is what the operation makes of it.
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

    /// What to do instead, for a job in this state.
    fn cure(&self, state: JobState) -> &'static str {
        match self {
            Self::Retry | Self::RunNow if state == JobState::Running => "wait until its attempt has ended",
            Self::Retry | Self::RunNow => "only scheduled jobs and dead letters can be retried; enqueue a new job",
            Self::SendBack => "only dead letters can be sent back",
            Self::Cancel => "only waiting and running jobs can be cancelled; delete it if you no longer need it",
            Self::Delete => "cancel it first, and delete it when it has stopped",
            Self::Reschedule(_) => "only waiting jobs can be rescheduled; send a dead letter back first",
            Self::Edit(_) => "only waiting jobs and dead letters can be edited",
        }
    }
}
