//! Inspecting and repairing jobs, for use in code, a command line or a dashboard.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

pub use crate::admin_operations::Plan;
pub use crate::admin_within::Within;
use crate::carry_out::{AGAIN, PATIENCE, TRIES, fate};
use crate::edit;
use crate::enqueue::Pool;
use crate::error::Error;
pub use crate::failures::{FailureGroup, Failures};
pub use crate::gauges::{Count, Depth, Gauges, Paused, QueueInfo};
use crate::limits::check_name;
use crate::operations::Note;
pub use crate::operations::{Action, Actor, Operation, Progress, RefusedJob};
pub use crate::raw::{RawJob, known_kinds};
pub use crate::search::{BadSearch, Search, Word};
pub use crate::secrets::MARK;
use crate::secrets::Secrets;
use crate::state::JobId;
pub use crate::state::UnknownState;
use crate::store::AdminStore;
use crate::store::operations::{Change, LOCKED, NewArgs, Record};
use crate::store::values::Refusal;
pub use crate::store::view::{Attempt, Ended, Filter, JobDetail, JobRow, Page, Stat, WorkerInfo};
pub use crate::throughput::{Tally, TallyOutcome, Throughput};
use crate::why::summary;
pub use crate::why::{Reason, Waiting, Why};
use crate::worker::host;

/// How long a page for Prometheus is shared.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// What was read last, and when.
type Last<T> = Mutex<Option<(Instant, T)>>;

/// Inspects and changes the jobs in one database. Cheap to clone.
///
/// Every method may also fail with [`Error::Database`]. All are safe to drop: a step that has begun continues in the
/// background. The methods named `…_all` are [plans](Self::plan) that are carried out at once, in steps of up to 1,000
/// jobs. They change at most 8,000 jobs a second, so that workers keep most of their rate. If one fails or is dropped,
/// the steps before remain, and a worker goes on with the rest: [`stop`](Self::stop) ends it. If a transaction has
/// locked a job, a change tries again for five seconds. Then [`Error::Locked`] names that job. All others are changed.
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
    actor: Arc<Actor>,
    /// The last page for Prometheus.
    page: Arc<Last<String>>,
    /// What was last known of secret arguments.
    pub(crate) secrets: Arc<Last<Arc<Secrets>>>,
    /// Whether it shows them.
    pub(crate) reveals: bool,
}

impl Admin {
    /// Administers the jobs in the database of `pool` (`&PgPool`, `&MySqlPool` or `&SqlitePool`). Does no I/O.
    pub fn new(pool: &impl Pool) -> Self {
        let program = Actor::new(format!("{}:{}", host(), std::process::id()));
        let (page, secrets) = (Arc::default(), Arc::default());
        Self { store: pool.store(), actor: Arc::new(program), page, secrets, reveals: false }
    }

    /// The same, for somebody. Each change leaves a record with this name and reason: see
    /// [`operations`](Self::operations). Without an actor it names the host and process, such as `web-1:4711`.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::{Actor, Admin};
    ///
    /// let admin = Admin::new(&pool);
    /// admin.acting(Actor::new("ada").reason("the disk is full")).pause("reports").await?;
    /// let last = &admin.operations(None).await?[0];
    /// assert_eq!((&*last.actor, &*last.action), ("ada", "pause"));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn acting(&self, actor: Actor) -> Self {
        Self { actor: Arc::new(actor), ..self.clone() }
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

    /// How much started and ended in this time until now, and how long that took. Up to three hours, it is counted by
    /// minutes; else by hours, for 35 days at most. It reads the small tallies that workers write every ten seconds. So it stays
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

    /// Searches for jobs, newest first, until the page is full. However many jobs there are, it looks at 50,000 rows at
    /// most, and for about 200 milliseconds. Then it answers with what it has found, and [how far](Page::back_to) it
    /// looked. So a page may have no items although there are more: [`Page::complete`] tells.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::{Admin, Filter};
    ///
    /// let (admin, mut filter) = (Admin::new(&pool), Filter::new().error("timed out"));
    /// loop {
    ///     let page = admin.jobs(&filter).await?;
    ///     for job in page.items {
    ///         println!("{} {}: {}", job.id, job.kind, job.state);
    ///     }
    ///     let Some(next) = page.next else { break };
    ///     filter = filter.before(next);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] if it selects by a secret argument, [`Error::Database`].
    pub async fn jobs(&self, filter: &Filter) -> Result<Page<JobRow>, Error> {
        self.refuse_secrets(filter, None).await?;
        self.store.jobs(filter).await
    }

    /// Reads one job with its arguments, result and attempts. `None` if there is no such job. Secret arguments are
    /// hidden: see [`reveal_secrets`](Self::reveal_secrets).
    pub async fn job(&self, id: JobId) -> Result<Option<JobDetail>, Error> {
        match self.store.job(id).await? {
            Some(detail) => self.shown(detail).await.map(Some),
            None => Ok(None),
        }
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
            Some(id) => self.job(id.into()).await,
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
            let note = self.note("release_key", &json!({"kind": kind}), None);
            let id = match self.store.release_key(kind, key, note).await? {
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

    /// What fails now, by group: texts that differ only in what varies are one group. It looks at the 4,000 newest dead
    /// letters, and at the 4,000 attempts that ended last, so it takes some milliseconds however many there are. Workers
    /// count the attempts that fail, hour by hour. So it also tells which group is new, and which has come back.
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

    /// The attempts that ended last, of all kinds and queues, newest first: at most `limit`, and at most 1,000. Jobs that
    /// were cancelled while they waited are among them. It takes one statement and some milliseconds, however many jobs
    /// there are.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// for ended in queue::admin::Admin::new(&pool).ended(20).await? {
    ///     println!("{} {}: {}", ended.id, ended.kind, ended.attempt.outcome);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Database`].
    pub async fn ended(&self, limit: u32) -> Result<Vec<Ended>, Error> {
        self.store.ended(limit).await
    }

    /// Why a job does not run: the one reason, what would cure it, and how that is known. It takes at most five
    /// statements and some milliseconds, however many jobs there are.
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
        let job = self.store.row(id).await?.ok_or(Error::NotFound(id))?;
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
        self.one(id, Action::Retry, None).await
    }

    /// Makes all matching scheduled jobs and dead letters ready, each of them once. Returns how many.
    pub async fn retry_all(&self, filter: &Filter) -> Result<u64, Error> {
        self.all(filter, Action::Retry).await
    }

    /// Cancels a job. A waiting job is cancelled at once. A running job gets the request through its token, within one
    /// heartbeat. It ends as cancelled if it stops because of the token, and as completed if it completes anyway.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a completed job or a dead letter, [`Error::NotFound`]. Cancelling a cancelled job is not
    /// an error.
    pub async fn cancel(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Action::Cancel, None).await
    }

    /// Cancels all matching jobs that wait or run. Returns how many were cancelled or told to stop. A waiting job is
    /// told to stop if a worker claims it meanwhile.
    pub async fn cancel_all(&self, filter: &Filter) -> Result<u64, Error> {
        self.all(filter, Action::Cancel).await
    }

    /// Deletes a job and its attempts. A job that a worker holds cannot be deleted.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a running job (cancel it first), [`Error::NotFound`].
    pub async fn delete(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Action::Delete, None).await
    }

    /// Deletes all matching jobs that no worker holds. Returns how many.
    pub async fn delete_all(&self, filter: &Filter) -> Result<u64, Error> {
        self.all(filter, Action::Delete).await
    }

    /// Changes the due time of a waiting job.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a running or finished job, [`Error::NotFound`].
    pub async fn reschedule(&self, id: JobId, time: DateTime<Utc>) -> Result<(), Error> {
        self.one(id, Action::Reschedule(time), None).await
    }

    /// Changes the due time of all matching jobs that wait. Returns how many.
    pub async fn reschedule_all(&self, filter: &Filter, time: DateTime<Utc>) -> Result<u64, Error> {
        self.all(filter, Action::Reschedule(time)).await
    }

    /// Sends a dead letter back: it becomes ready, with all its retries. Its old attempts stay on record.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a job that is not dead, [`Error::NotFound`], and [`Error::KeyTaken`] for a unique job if
    /// another one has its key.
    pub async fn send_back(&self, id: JobId) -> Result<(), Error> {
        self.one(id, Action::SendBack, None).await
    }

    /// Sends back all matching dead letters. Returns how many. Unique jobs whose key is taken stay dead letters:
    /// [`plan`](Self::plan) tells which.
    pub async fn send_back_all(&self, filter: &Filter) -> Result<u64, Error> {
        self.all(filter, Action::SendBack).await
    }

    /// Replaces all arguments of a waiting job or a dead letter. A dead letter stays dead: send it back afterwards.
    /// [`merge_args`](Self::merge_args) changes some of them, and keeps the text of the others.
    ///
    /// A unique job keeps its key, whatever its arguments are. If this program has the job's type, arguments that it
    /// cannot read are refused.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a running, completed or cancelled job, [`Error::NotFound`], [`Error::Locked`]. And
    /// [`Error::Config`] for arguments that are no object although the present ones are, for those that do not fit the
    /// job's type, for those that have [`MARK`] in the place of a secret, and for those above
    /// [`MAX_ARGS_BYTES`](crate::limits::MAX_ARGS_BYTES) or [`MAX_ARGS_DEPTH`](crate::limits::MAX_ARGS_DEPTH).
    pub async fn edit_args(&self, id: JobId, args: &serde_json::Value) -> Result<(), Error> {
        let (detail, args) = (self.store.job(id).await?.ok_or(Error::NotFound(id))?, args.to_string());
        self.refuse_marks(&detail.job.kind, &args).await?;
        edit::check(&detail, &args)?;
        let fields = serde_json::from_str(&args).unwrap_or_default();
        self.one(id, Action::Edit(fields), Some(NewArgs { args, was: None })).await
    }

    /// Pauses a queue: from now on no worker claims its jobs. Running jobs continue. The queue may be empty. Pausing a
    /// paused queue keeps the time of the first pause.
    ///
    /// # Errors
    /// [`Error::Config`] for an invalid name.
    pub async fn pause(&self, queue: &str) -> Result<(), Error> {
        check_name("queue", queue).map_err(|why| Error::config(format!("cannot pause a queue: {why}")))?;
        let note = self.note("pause", &json!({"queue": queue}), None);
        self.store.set_paused(queue, true, note).await
    }

    /// Ends the pause of a queue.
    pub async fn resume(&self, queue: &str) -> Result<(), Error> {
        let note = self.note("resume", &json!({"queue": queue}), None);
        self.store.set_paused(queue, false, note).await
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
    async fn one(&self, id: JobId, action: Action, args: Option<NewArgs>) -> Result<(), Error> {
        let patience = Instant::now() + PATIENCE;
        let mut tries = 0;
        loop {
            let (changed, refused) = self.change(id, &action, args.clone()).await?;
            if let Some(Refusal { id, key, holder }) = refused.into_iter().next() {
                return Err(Error::KeyTaken { id: id.into(), key, holder: holder.into() });
            }
            if !changed.is_empty() {
                return Ok(());
            }
            tries += 1;
            if let Some(result) = fate(&*self.store, id, &action).await?.result(id, &action) {
                return result;
            }
            // it is locked, or changed its state just then
            if tries >= TRIES && Instant::now() >= patience {
                return Err(Error::Locked { operation: action.name(), jobs: vec![id], changed: 0 });
            }
            sleep(AGAIN).await;
        }
    }

    /// Changes one job, if it can be changed just now.
    pub(crate) async fn change(
        &self,
        id: JobId,
        action: &Action,
        args: Option<NewArgs>,
    ) -> Result<(Vec<i64>, Vec<Refusal>), Error> {
        let change = Change {
            action: action.clone(),
            ids: vec![id.get()],
            listed: None,
            spread: None,
            args: args.map(|args| (id.get(), args)).into_iter().collect(),
            record: Record::Note(self.note(action.word(), &action.details(), Some(id))),
        };
        Ok(self.store.change_jobs(change).await?.unwrap_or_default())
    }

    /// Changes all that match, now.
    async fn all(&self, filter: &Filter, action: Action) -> Result<u64, Error> {
        let task = self.task(action, filter).await?;
        let operation = task.action.name();
        let done = self.run(&task).await?;
        let locked = self.store.refusals(done.id, i64::MIN, Some(LOCKED)).await?;
        if locked.is_empty() {
            return Ok(done.changed);
        }
        let jobs = locked.into_iter().map(|(id, _)| id.into()).collect();
        Err(Error::Locked { operation, jobs, changed: done.changed })
    }

    pub(crate) fn note(&self, action: &'static str, details: &serde_json::Value, job: Option<JobId>) -> Note {
        Note { by: (*self.actor).clone(), action, details: details.to_string(), job: job.map(JobId::get) }
    }
}
