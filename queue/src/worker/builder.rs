//! The public worker: its settings, their checks, and how it runs.

use std::any::TypeId;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::context::{JobContext, States};
use crate::enqueue::Pool;
use crate::error::Error;
use crate::health::Health;
use crate::job::Job;
use crate::limits::check_name;
use crate::middleware::{Done, Next, Wrappers};
#[cfg(feature = "tower")]
use crate::middleware::{HandlerService, Refused};
#[cfg(feature = "tower")]
use crate::outcome::BoxError;
use crate::outcome::JobError;
use crate::registry::{JobDefinition, linked};
use crate::signal;
use crate::store::{Capabilities, Store};
use crate::telemetry::{Event, Observers};

use crate::worker::config::Config;
#[cfg(feature = "schedules")]
use crate::worker::declared::Declared;
use crate::worker::lifecycle;
use crate::worker::run::attempt::{Env, Timing};

/// Runs jobs. Any number of workers may serve one database, in one process or many. They need no coordinator.
///
/// A worker opens connections of its own: 5 on PostgreSQL, 4 on MySQL and MariaDB, 3 on SQLite. The feature `schedules`
/// adds one on servers. The concurrency does not change these numbers. The pool serves the jobs. A slow search for
/// lanes borrows a spare connection of it. A worker on an SQLite database in memory shares it.
///
/// ```no_run
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
/// use queue::Worker;
///
/// Worker::builder(pool).concurrency(32).build()?.run(queue::shutdown_signal()).await
/// # }
/// ```
#[must_use = "a worker does nothing until `.run(…)` is awaited"]
pub struct Worker {
    config: Config,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker")
            .field("engine", &self.config.store.capabilities().engine)
            .field("concurrency", &self.config.concurrency)
            .field("queues", &self.config.queues)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// Starts to configure a worker on a `PgPool`, `MySqlPool` or `SqlitePool`, or a reference to one. Does no I/O.
    pub fn builder(pool: impl Pool) -> WorkerBuilder {
        WorkerBuilder::new(pool)
    }

    /// Whether the worker is alive and ready, for the probes of a platform. Ask before [`run`](Self::run), which takes
    /// the worker.
    ///
    /// ```no_run
    /// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
    /// let worker = queue::Worker::builder(pool).build()?;
    /// let health = worker.health();
    /// // … give `health` to the HTTP server …
    /// worker.run(queue::shutdown_signal()).await
    /// # }
    /// ```
    pub fn health(&self) -> Health {
        self.config.health.clone()
    }

    /// Claims and runs jobs until `shutdown` is ready: [`shutdown_signal()`](crate::shutdown_signal), or any other
    /// future without a value. For ever: `std::future::pending()`. Then the worker:
    ///
    /// 1. stops claiming, and releases the jobs that have not started;
    /// 2. lets running jobs continue for the [`shutdown_grace`](WorkerBuilder::shutdown_grace);
    /// 3. cancels the rest, and drops those that do not stop within the [`cancel_grace`](WorkerBuilder::cancel_grace);
    /// 4. releases those that did not complete. A release does not count as an attempt.
    ///
    /// The worker survives an outage of the database. It cancels its running jobs before its lease can run out, and
    /// continues when the database is back.
    ///
    /// # Errors
    /// - [`Error::Schema`]: the tables are missing, older than this binary, or newer and not compatible.
    /// - [`Error::Config`]: PostgreSQL is behind a pooler in transaction mode, without
    ///   [`transaction_pooler`](WorkerBuilder::transaction_pooler).
    /// - [`Error::Database`]: the database cannot be reached at the start, or the worker could not sign off at the end.
    ///
    /// # Cancellation
    /// Dropping the future also drops the running jobs. Other workers rescue them as after a crash.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        self.run_until(shutdown, signal::second()).await
    }

    /// Like [`run`](Self::run), but ends at once when `immediately` is ready. Running jobs are then dropped and
    /// released without counting an attempt. ([`run`](Self::run) does so on the second signal, if it is given
    /// [`shutdown_signal()`](crate::shutdown_signal).)
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()>,
        immediately: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        lifecycle::supervise(self.config, shutdown, immediately).await
    }
}

/// Configures a [`Worker`]. All defaults are meant for production.
///
/// ```standalone_crate
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// # #[queue::job(queue = "mail")] async fn send_email(to: String) { let _ = to; }
/// use std::time::Duration;
///
/// let worker = queue::Worker::builder(pool)
///     .queue("mail", 8)
///     .queue("default", 32)
///     .state(String::from("smtp://localhost"))
///     .retention(Duration::from_secs(24 * 60 * 60))
///     .build()?;
/// # drop(worker); Ok(()) }
/// ```
#[must_use = "a worker runs only after `.build()?.run(…).await`"]
pub struct WorkerBuilder {
    store: Arc<dyn Store>,
    concurrency: Option<u32>,
    queues: Vec<(String, u32)>,
    limits: Vec<(String, u32)>,
    newest_first: HashSet<String>,
    states: States,
    registered: Vec<JobDefinition>,
    linked: bool,
    transaction_pooler: bool,
    log_errors: bool,
    observers: Observers,
    wrappers: Wrappers,
    start_within: HashMap<String, Duration>,
    alive_file: Option<PathBuf>,
    timing: Timing,
    #[cfg(feature = "schedules")]
    app: Option<String>,
}

/// The most that `lease`, `shutdown_grace` and `cancel_grace` may be.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The accepted retention. The minimum limits how often an idle worker checks for old jobs. The maximum, subtracted
/// from the current time, is valid in every database.
const RETENTION: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The most jobs that one worker may run at a time.
const MOST_AT_A_TIME: u32 = 1_000_000;
/// The default of [`WorkerBuilder::concurrency`].
const CONCURRENCY: u32 = 32;

impl WorkerBuilder {
    pub(crate) fn new(pool: impl Pool) -> Self {
        Self {
            states: States::from([pool.state()]),
            store: pool.store(),
            concurrency: None,
            queues: Vec::new(),
            limits: Vec::new(),
            newest_first: HashSet::new(),
            registered: Vec::new(),
            linked: true,
            transaction_pooler: false,
            log_errors: true,
            observers: Observers::default(),
            wrappers: Wrappers::default(),
            start_within: HashMap::new(),
            alive_file: None,
            timing: Timing::default(),
            #[cfg(feature = "schedules")]
            app: None,
        }
    }

    /// Sets how many jobs run at a time, in all queues together. The default is 32, or the sum of the limits given with
    /// [`queue`](Self::queue). Raise it for jobs that wait, for example for the network. Lower it for jobs that
    /// compute. If the limits of the queues exceed it, the queues take turns.
    pub fn concurrency(mut self, jobs: u32) -> Self {
        self.concurrency = Some(jobs);
        self
    }

    /// Serves only the queues named, each with its own limit of jobs at a time. By default, a worker serves all queues.
    /// To limit one and serve the rest, see [`limit_queue`](Self::limit_queue).
    pub fn queue(mut self, queue: impl Into<String>, limit: u32) -> Self {
        self.queues.push((queue.into(), limit));
        self
    }

    /// Limits how many jobs of this queue run at a time, and serves all other queues as well.
    ///
    /// ```
    /// # fn example(pool: sqlx::SqlitePool) {
    /// // 32 jobs at a time, at most two of them transcode
    /// let worker = queue::Worker::builder(pool).concurrency(32).limit_queue("transcode", 2);
    /// # }
    /// ```
    pub fn limit_queue(mut self, queue: impl Into<String>, limit: u32) -> Self {
        self.limits.push((queue.into(), limit));
        self
    }

    /// Runs the jobs of this queue last in, first out: within a priority, the job that became due last comes first. Use
    /// it if fresh jobs matter most. Old jobs may starve.
    pub fn lifo(mut self, queue: impl Into<String>) -> Self {
        self.newest_first.insert(queue.into());
        self
    }

    /// Provides the value of [`State<T>`](crate::State) parameters. Each attempt gets a clone. A second value of the
    /// same type replaces the first.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Serves a job that was not collected at link time, because the target does not support that or its [`Job`] was
    /// written by hand. Registering a job again changes nothing.
    pub fn register<J: Job>(mut self) -> Self {
        self.registered.push(JobDefinition::of::<J>());
        self
    }

    /// Serves only the jobs given with [`register`](Self::register), not those collected at link time. Use it to
    /// dedicate a worker to some jobs, for example on a machine with a GPU, in a binary that links many.
    pub fn only_registered(mut self) -> Self {
        self.linked = false;
        self
    }

    /// Sets how often the worker reports that it is alive. The default is 2.5 s, the minimum 100 ms, the maximum a
    /// third of the [`lease`](Self::lease). On PostgreSQL, MySQL and MariaDB it is about every 0.4 s while any worker
    /// holds jobs. On PostgreSQL and SQLite, the heartbeat of an idle worker also finds jobs that no signal announced,
    /// such as plain INSERTs.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.timing.heartbeat = every;
        self
    }

    /// Sets how long after its last heartbeat a worker counts as lost and its jobs run elsewhere. The default is 7.5 s,
    /// the maximum a year. PostgreSQL, MySQL and MariaDB end the session of a killed process, and other workers notice
    /// that within about 2 s. A longer lease survives longer pauses of the machine or the database. A shorter one
    /// rescues jobs sooner.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.timing.lease = lease;
        self
    }

    /// Sets how long running jobs may continue after the shutdown signal. Then they are cancelled, and after the
    /// [`cancel_grace`](Self::cancel_grace) released. The default is 30 s. Keep the sum of both below the time after
    /// which your platform kills the process.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.timing.shutdown_grace = grace;
        self
    }

    /// Sets how long a job may take to end by itself after its token was cancelled (timeout, cancellation, shutdown).
    /// After that it is dropped. The default is 5 s.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.timing.cancel_grace = grace;
        self
    }

    /// Sets how long completed and cancelled jobs are kept, from 100 ms to 100 years. The default is 7 days. Dead
    /// letters stay until somebody acts. Any worker removes jobs of all queues, so give all workers of a database the
    /// same retention.
    pub fn retention(mut self, keep: Duration) -> Self {
        self.timing.retention = keep;
        self
    }

    /// Sets for how long a job is tried again if its arguments do not decode. Such an attempt costs no retry. The
    /// default is one hour. Zero makes the job a dead letter at its first attempt.
    ///
    /// During a deploy or a rollback, workers of another build meet jobs that only the new or the old build can decode.
    /// Each pause is a quarter of the time since the first attempt, from a second to a minute. After the grace period
    /// the job becomes a dead letter. If it is sent back, it gets no second grace period.
    ///
    /// ```
    /// # fn example(pool: sqlx::SqlitePool) {
    /// // hostile producers: no second look at what they write
    /// let worker = queue::Worker::builder(pool).decode_grace(std::time::Duration::ZERO);
    /// # }
    /// ```
    pub fn decode_grace(mut self, grace: Duration) -> Self {
        self.timing.decode_grace = grace;
        self
    }

    /// For tests: the longest pause between two writes of tallies. The default is 10 s.
    #[doc(hidden)]
    pub fn tally_every(mut self, pause: Duration) -> Self {
        self.timing.tallies = pause;
        self
    }

    /// Whether the log lines of failed jobs carry the error, with its causes. The default is `true`. Set it to `false`
    /// if errors may contain private data. Arguments and results are never logged. The database always keeps the
    /// errors.
    ///
    /// ```
    /// # fn example(pool: sqlx::SqlitePool) {
    /// let worker = queue::Worker::builder(pool).log_errors(false);
    /// # }
    /// ```
    pub fn log_errors(mut self, yes: bool) -> Self {
        self.log_errors = yes;
        self
    }

    /// Tells each [`Event`] of this worker, in addition to the log: for metrics, or to page somebody. The observer is
    /// called on the threads that run jobs, so it has to be quick. If it panics or blocks its thread, no job is lost,
    /// and the log says so once. May be called several times.
    ///
    /// ```
    /// # fn example(pool: sqlx::SqlitePool) {
    /// use queue::telemetry::Event;
    ///
    /// let worker = queue::Worker::builder(pool).observe(|event| {
    ///     if let Event::JobsRescued { ready, .. } = event {
    ///         println!("{ready} jobs of lost workers run again");
    ///     }
    /// });
    /// # drop(worker); }
    /// ```
    pub fn observe(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.observers.add(observer);
        self
    }

    /// Puts code around each handler. The first wrapper is the outermost. It sees the attempt, and the arguments as
    /// [`Next::args`]. It runs the rest with [`Next::run`], sees how that ended, and may return something else. If it
    /// does not run the rest, the handler never begins. Then its own result decides how the attempt ends. Time limits,
    /// cancellation and panics are those of the attempt as a whole. A job whose arguments do not decode reaches no
    /// wrapper.
    ///
    /// ```
    /// # fn example(pool: sqlx::SqlitePool) {
    /// use std::time::Instant;
    ///
    /// let worker = queue::Worker::builder(pool).wrap(|ctx, next| async move {
    ///     let began = Instant::now();
    ///     let outcome = next.run().await;
    ///     println!("{} took {:?}, ok: {}", ctx.kind(), began.elapsed(), outcome.is_ok());
    ///     outcome
    /// });
    /// # drop(worker); }
    /// ```
    pub fn wrap<Outcome>(mut self, wrapper: impl Fn(JobContext, Next) -> Outcome + Send + Sync + 'static) -> Self
    where
        Outcome: Future<Output = Result<Done, JobError>> + Send + 'static,
    {
        self.wrappers.add(wrapper);
        self
    }

    /// Puts a layer of `tower` around each handler, as [`wrap`](Self::wrap) does with a function: a time limit, a limit
    /// of concurrency, or one of your own. What the layer refuses is a failure of the attempt, unless its error is a
    /// [`Refused`](crate::middleware::Refused), which says what becomes of the job. An attempt that waits for the layer
    /// to be ready has begun.
    ///
    /// ```
    /// # fn example(pool: sqlx::SqlitePool) {
    /// use std::time::Duration;
    /// use tower::{limit::ConcurrencyLimitLayer, timeout::TimeoutLayer};
    ///
    /// let worker = queue::Worker::builder(pool)
    ///     .layer(TimeoutLayer::new(Duration::from_secs(30)))
    ///     .layer(ConcurrencyLimitLayer::new(4));
    /// # drop(worker); }
    /// ```
    #[cfg(feature = "tower")]
    pub fn layer<L, S>(self, layer: L) -> Self
    where
        L: tower::Layer<HandlerService, Service = S>,
        S: tower::Service<(JobContext, Next), Response = Done> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
    {
        let service = layer.layer(HandlerService);
        self.wrap(move |ctx, next| {
            let service = service.clone();
            async move {
                tower::ServiceExt::oneshot(service, (ctx, next)).await.map_err(|error| {
                    error.into().downcast::<Refused>().map_or_else(JobError::retry, |refused| refused.0)
                })
            }
        })
    }

    /// Promises that the jobs of this queue start within this time after they are due, whatever their kinds
    /// [promise](crate::job). It changes nothing about how they run: [`Event::JobStarted`] has the promise beside the
    /// time that the job has waited, so that metrics can count how often it was kept.
    ///
    /// ```
    /// # fn example(pool: sqlx::SqlitePool) {
    /// let worker = queue::Worker::builder(pool).start_within("mail", std::time::Duration::from_secs(10));
    /// # drop(worker); }
    /// ```
    pub fn start_within(mut self, queue: impl Into<String>, promise: Duration) -> Self {
        self.start_within.insert(queue.into(), promise);
        self
    }

    /// A file that the worker touches each second while its runtime moves, for liveness probes of platforms without
    /// HTTP: the worker stands still if the file is older than 30 seconds. See [`Worker::health`].
    ///
    /// ```
    /// # fn example(pool: sqlx::SqlitePool) {
    /// let worker = queue::Worker::builder(pool).alive_file("/run/mailer.alive");
    /// # drop(worker); }
    /// ```
    pub fn alive_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.alive_file = Some(path.into());
        self
    }

    /// Set this to `true` if PostgreSQL is reached through a pooler in transaction mode. The default is `false`.
    /// PgBouncer supports this from 1.21 on, with `max_prepared_statements` above zero.
    ///
    /// Such a pooler may run each transaction in another session of the server, so the worker keeps nothing in a
    /// session. It polls instead of listening, and only its lease shows that it is alive. A killed worker's jobs
    /// therefore come back after 7.5 to 10 s instead of 2 s. `docs/clusters.md` lists all drawbacks.
    ///
    /// [`build`](Self::build) refuses this setting on other databases. [`Worker::run`] refuses to work behind such a
    /// pooler without it.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shutdown = std::future::pending::<()>();
    /// let pool = sqlx::PgPool::connect("postgres://app@pgbouncer:6432/app").await?;
    /// queue::Worker::builder(pool).transaction_pooler(true).build()?.run(shutdown).await?;
    /// # Ok(()) }
    /// ```
    pub fn transaction_pooler(mut self, yes: bool) -> Self {
        self.transaction_pooler = yes;
        self
    }

    /// Names the application whose schedules this program declares. The default is the name of its file. Of the live
    /// workers of an application, the one that started last decides what it declares. So give different names to
    /// different programs with one file name, and one name to programs that share their code. At most 128 bytes.
    ///
    /// ```
    /// # #[tokio::main] async fn main() {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// let worker = queue::Worker::builder(pool).app("billing");
    /// # drop(worker); }
    /// ```
    #[cfg(feature = "schedules")]
    pub fn app(mut self, name: impl Into<String>) -> Self {
        self.app = Some(name.into());
        self
    }

    /// Checks the settings, as far as that is possible without the database.
    ///
    /// # Errors
    /// [`Error::Config`] for a zero limit, a queue named twice, durations that contradict each other, two jobs of one
    /// kind, a missing [`state`](Self::state), or no jobs at all. The message says what to write instead.
    pub fn build(self) -> Result<Worker, Error> {
        let jobs = self.check_jobs()?;
        self.check_timing()?;
        if self.transaction_pooler && !self.store.lend_sessions() {
            return Err(Error::config(format!(
                "`.transaction_pooler(true)` is for PostgreSQL, and this worker is on {}: leave it out",
                self.store.capabilities().engine
            )));
        }
        #[cfg(feature = "schedules")]
        let schedules = Declared::of(self.app.as_deref(), &self.registered, &jobs)?;
        let others = self.queues.is_empty();
        if let (Some((queue, _)), Some((limited, _))) = (self.queues.first(), self.limits.first()) {
            return Err(Error::config(format!(
                "`.queue(\"{queue}\", …)` serves only the queues named, and `.limit_queue(\"{limited}\", …)` serves \
                 all: use one of the two"
            )));
        }
        let mut queues = BTreeMap::new();
        for (queue, limit) in self.queues.into_iter().chain(self.limits) {
            check_name("queue", &queue)
                .map_err(|why| Error::config(format!("the worker cannot serve a queue: {why}")))?;
            if limit == 0 {
                return Err(Error::config(format!(
                    "the limit of queue `{queue}` is 0: give at least 1, or leave the queue out"
                )));
            }
            if queues.insert(queue.clone(), limit).is_some() {
                return Err(Error::config(format!("queue `{queue}` is named twice: name it once, with one limit")));
            }
        }
        let named = self.newest_first.iter().map(|queue| ("lifo", queue));
        let named = named.chain(self.start_within.keys().map(|queue| ("start_within", queue)));
        if let Some((setting, queue)) = { named }.find(|(_, queue)| !others && !queues.contains_key(*queue)) {
            return Err(Error::config(format!(
                "`.{setting}(\"{queue}\", …)` names a queue that this worker does not serve: add `.queue(\"{queue}\", …)`"
            )));
        }
        let sum = queues.values().fold(0u32, |sum, limit| sum.saturating_add(*limit));
        let concurrency = self.concurrency.unwrap_or(if others { CONCURRENCY } else { sum });
        if concurrency == 0 {
            return Err(Error::config("`.concurrency(0)` would never run a job: give at least 1"));
        }
        let most = queues.values().copied().fold(concurrency, u32::max);
        if most > MOST_AT_A_TIME {
            return Err(Error::config(format!(
                "{most} jobs at a time are more than the {MOST_AT_A_TIME} that one worker can run: give fewer"
            )));
        }
        let Capabilities { connections_kept: kept, connections_allowed: allowed, .. } = self.store.capabilities();
        // no error, because the worker's own connections are not part of it; a pool of one is deliberate: a database in
        // memory allows no other
        if allowed < concurrency && allowed > 1 {
            Event::WorkerPoolSmall { connections: allowed, concurrency, kept }.emit(&self.observers);
        }
        let env = Env {
            store: self.store.clone(),
            states: Arc::new(self.states),
            timing: self.timing,
            log_errors: self.log_errors,
            observers: self.observers,
            wrappers: self.wrappers,
        };
        let config = Config {
            store: self.store,
            concurrency,
            queues,
            others,
            newest_first: self.newest_first,
            start_within: self.start_within,
            health: Health::new(self.alive_file),
            env: Arc::new(env),
            jobs,
            #[cfg(feature = "schedules")]
            schedules,
        };
        Ok(Worker { config })
    }

    fn check_jobs(&self) -> Result<HashMap<&'static str, Arc<JobDefinition>>, Error> {
        let mut jobs: HashMap<&'static str, Arc<JobDefinition>> = HashMap::new();
        let found = if self.linked { linked() } else { Vec::new() };
        for job in found.into_iter().chain(self.registered.iter().cloned()) {
            let job = Arc::new(job);
            for name in std::iter::once(job.kind).chain(job.aliases.iter().copied()) {
                check_name("kind", name).map_err(|why| Error::config(format!("`{}`: {why}", job.type_name)))?;
                match jobs.get(name) {
                    Some(other) if other.type_id != job.type_id => {
                        return Err(Error::config(format!(
                            "two jobs are called `{name}`: `{}` and `{}`; give one of them another \
                             `#[job(name = \"…\")]` or drop the alias",
                            other.type_name, job.type_name
                        )));
                    }
                    _ => drop(jobs.insert(name, job.clone())),
                }
            }
            for state in &job.requires {
                if !self.states.contains_key(&state.id) {
                    let engine = self.store.capabilities().engine;
                    return Err(Error::config(format!("job `{}` takes {}", job.kind, state.missing(engine, "worker"))));
                }
            }
        }
        if jobs.is_empty() {
            return Err(Error::config(
                "this worker knows no job: link the crate with the `#[job]` functions into this binary (a `use` of one \
                 of its items is enough), or add `.register::<YourJob>()`",
            ));
        }
        Ok(jobs)
    }

    fn check_timing(&self) -> Result<(), Error> {
        let Timing { heartbeat, lease, shutdown_grace, cancel_grace, retention, .. } = self.timing;
        if heartbeat < Duration::from_millis(100) {
            return Err(Error::config(format!("a heartbeat every {heartbeat:?} is too often: give at least 100 ms")));
        }
        for (name, duration) in [("lease", lease), ("shutdown_grace", shutdown_grace), ("cancel_grace", cancel_grace)] {
            if duration > YEAR {
                return Err(Error::config(format!("`{name}` is {duration:?}: give at most a year")));
            }
        }
        if !RETENTION.contains(&retention) {
            return Err(Error::config(format!("`retention` is {retention:?}: give from 100 ms to 100 years")));
        }
        if lease / 3 < heartbeat {
            return Err(Error::config(format!(
                "heartbeat {heartbeat:?} must be at most a third of lease {lease:?}, or one late heartbeat loses all \
                 jobs: raise the lease or lower the heartbeat"
            )));
        }
        Ok(())
    }
}
