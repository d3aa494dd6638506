//! What a worker can be told, and what it refuses.

use std::any::TypeId;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::context::States;
use crate::enqueue::target::Pool;
use crate::error::Error;
use crate::job::Job;
use crate::limits::check_name;
use crate::registry::{JobDefinition, linked};
use crate::store::{AnyStore, Store};
use crate::telemetry;

use crate::worker::Worker;

/// Settings of a [`Worker`]. Every one has a default that is meant for production.
///
/// ```standalone_crate
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = queue::__doctest::pool().await;
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
    store: AnyStore,
    concurrency: Option<u32>,
    queues: Vec<(String, u32)>,
    newest_first: HashSet<String>,
    states: States,
    registered: Vec<JobDefinition>,
    linked: bool,
    transaction_pooler: bool,
    timing: Timing,
}

/// The durations of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) heartbeat: Duration,
    pub(crate) lease: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) retention: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(2500),
            lease: Duration::from_millis(7500),
            shutdown_grace: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            retention: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

/// No wait of a worker is longer.
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long finished jobs may be kept: an idle worker looks for old ones as often as the shortest, and the longest
/// counted back from now is a time that every database knows.
const RETENTION: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// No worker runs more jobs at a time.
const MOST_AT_A_TIME: u32 = 1_000_000;
/// Jobs that run at a time, without [`WorkerBuilder::concurrency`].
const CONCURRENCY: u32 = 32;

/// A checked configuration.
pub(crate) struct Config {
    pub(crate) store: AnyStore,
    /// Jobs at a time, over all queues.
    pub(crate) concurrency: u32,
    /// Limits by queue; empty: all queues.
    pub(crate) queues: BTreeMap<String, u32>,
    pub(crate) newest_first: HashSet<String>,
    pub(crate) states: Arc<States>,
    /// By kind and alias.
    pub(crate) jobs: HashMap<&'static str, Arc<JobDefinition>>,
    pub(crate) timing: Timing,
}

impl WorkerBuilder {
    pub(crate) fn new(pool: impl Pool) -> Self {
        Self {
            store: pool.store(),
            concurrency: None,
            queues: Vec::new(),
            newest_first: HashSet::new(),
            states: States::new(),
            registered: Vec::new(),
            linked: true,
            transaction_pooler: false,
            timing: Timing::default(),
        }
    }

    /// How many jobs run at a time, over all queues: 32 by default, or the sum of the limits given with
    /// [`queue`](Self::queue). Raise it for jobs that wait (for the network, say), lower it for jobs that compute.
    /// Queues whose limits come to more than that take turns.
    pub fn concurrency(mut self, jobs: u32) -> Self {
        self.concurrency = Some(jobs);
        self
    }

    /// Serves only the queues named, each with its own limit of jobs at a time. Without it, all queues.
    pub fn queue(mut self, queue: impl Into<String>, limit: u32) -> Self {
        self.queues.push((queue.into(), limit));
        self
    }

    /// Takes this queue last-in-first-out: within a priority the job that fell due last comes first. For work that is worth
    /// most while it is fresh; old jobs may starve.
    pub fn lifo(mut self, queue: impl Into<String>) -> Self {
        self.newest_first.insert(queue.into());
        self
    }

    /// Gives jobs a value for their [`State<T>`](crate::State) parameters; each attempt gets a clone. The last value of a
    /// type counts.
    pub fn state<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(TypeId::of::<T>(), Arc::new(value));
        self
    }

    /// Serves a job that was not collected at link time (some targets cannot), or whose [`Job`] was written by hand. Twice
    /// is once.
    pub fn register<J: Job>(mut self) -> Self {
        self.registered.push(JobDefinition::of::<J>());
        self
    }

    /// Serves only the jobs given with [`register`](Self::register), not those collected at link time: a worker dedicated
    /// to some jobs (on a machine with a GPU, say) in a binary that links many.
    pub fn only_registered(mut self) -> Self {
        self.linked = false;
        self
    }

    /// How often the worker tells the database that it lives: every 2.5 s by default; on PostgreSQL, MySQL and MariaDB about
    /// every 0.4 s while any worker holds jobs. On PostgreSQL and SQLite an idle
    /// worker also looks with it for jobs that no signal told it of, plain INSERTs above all. Must be at most a third of
    /// the [`lease`](Self::lease).
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.timing.heartbeat = every;
        self
    }

    /// How long after its last heartbeat a worker is taken for dead and its jobs are given to others: 7.5 s by
    /// default. A worker whose session a server has ended (its process was killed) is declared gone sooner, in about 2 s, by
    /// others that have seen it. Longer survives longer pauses of the machine or the database, shorter rescues sooner.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.timing.lease = lease;
        self
    }

    /// How long running jobs may go on after the shutdown signal before they are cancelled and given back: 30 s by default.
    /// Keep it below the time that your platform waits before it kills.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.timing.shutdown_grace = grace;
        self
    }

    /// How long a job whose token was cancelled (timeout, cancellation, shutdown) has to end by itself before it is
    /// dropped: 5 s by default.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.timing.cancel_grace = grace;
        self
    }

    /// How long completed and cancelled jobs are kept: 7 days by default. Dead letters stay until somebody acts. Any worker
    /// removes jobs of all queues, so give all workers of a database the same retention: from 100 ms to 100 years.
    pub fn retention(mut self, keep: Duration) -> Self {
        self.timing.retention = keep;
        self
    }

    /// Whether PostgreSQL is reached through a pooler in transaction mode: `false` by default. PgBouncer can do this
    /// from 1.21 on, with `max_prepared_statements` above zero.
    ///
    /// Such a pooler may give a connection another session of the server with each transaction. So the worker keeps
    /// nothing in a session. It polls instead of listening, and its lease alone tells that it lives. A killed worker's
    /// jobs therefore come back after 7.5 to 10 s instead of 2. `docs/clusters.md` has the whole price.
    ///
    /// [`build`](Self::build) refuses this setting on other databases. [`Worker::run`] refuses to work behind such a
    /// pooler without it.
    ///
    /// ```no_run
    /// # #[cfg(feature = "postgres")]
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let shutdown = std::future::pending();
    /// let pool = sqlx::PgPool::connect("postgres://app@pgbouncer:6432/app").await?;
    /// queue::Worker::builder(pool).transaction_pooler(true).build()?.run(shutdown).await?;
    /// # Ok(()) }
    /// ```
    pub fn transaction_pooler(mut self, yes: bool) -> Self {
        self.transaction_pooler = yes;
        self
    }

    /// Checks everything that can be checked without the database.
    ///
    /// # Errors
    /// [`Error::Config`], which says what to write instead: a zero limit, a queue named twice, durations that contradict
    /// each other, two jobs of one kind, a missing [`state`](Self::state), no jobs at all.
    pub fn build(self) -> Result<Worker, Error> {
        let jobs = self.check_jobs()?;
        self.check_timing()?;
        self.check_pooler()?;
        let mut queues = BTreeMap::new();
        for (queue, limit) in self.queues {
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
        if let Some(queue) = self.newest_first.iter().find(|q| !queues.is_empty() && !queues.contains_key(*q)) {
            return Err(Error::config(format!(
                "`.lifo(\"{queue}\")` names a queue that this worker does not serve: add `.queue(\"{queue}\", …)`"
            )));
        }
        let sum = queues.values().fold(0u32, |sum, limit| sum.saturating_add(*limit));
        let concurrency = self.concurrency.unwrap_or(if queues.is_empty() { CONCURRENCY } else { sum });
        if concurrency == 0 {
            return Err(Error::config("`.concurrency(0)` would never run a job: give at least 1"));
        }
        let most = queues.values().copied().fold(concurrency, u32::max);
        if most > MOST_AT_A_TIME {
            return Err(Error::config(format!(
                "{most} jobs at a time are more than the {MOST_AT_A_TIME} that one worker can run: give less"
            )));
        }
        self.store.warn_of_options();
        Self::warn_of_pool(&*self.store, concurrency);
        Ok(Worker::new(Config {
            store: self.store,
            concurrency,
            queues,
            newest_first: self.newest_first,
            states: Arc::new(self.states),
            jobs,
            timing: self.timing,
        }))
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
                    return Err(Error::config(format!(
                        "job `{}` takes `State<{}>`, but the worker was not given one: add `.state(…)` with a value of that \
                         type",
                        job.kind, state.name
                    )));
                }
            }
        }
        if jobs.is_empty() {
            return Err(Error::config(
                "this worker knows no job: link the crate with the `#[job]` functions into this binary (a `use` of one of its \
                 items is enough), or add `.register::<YourJob>()`",
            ));
        }
        Ok(jobs)
    }

    fn check_timing(&self) -> Result<(), Error> {
        let Timing { heartbeat, lease, shutdown_grace, cancel_grace, retention } = self.timing;
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
                "heartbeat {heartbeat:?} must be at most a third of lease {lease:?}, or one late beat costs all jobs: raise the \
                 lease or lower the heartbeat"
            )));
        }
        Ok(())
    }

    /// Nothing is wrong with a small pool by itself: the worker's own connections are beside it.
    fn warn_of_pool(store: &dyn Store, concurrency: u32) {
        let (kept, allowed) = (store.connections_kept(), store.connections_allowed());
        // of a pool of one somebody has thought: a database in memory has no other
        if allowed < concurrency && allowed > 1 {
            tracing::warn!(
                event = telemetry::WORKER_POOL_SMALL,
                connections = allowed,
                concurrency,
                "jobs that use the worker's pool may wait for each other: {concurrency} run at a time and it has {allowed} \
                 connections; if all of them use it, set `max_connections` to {concurrency}. The worker keeps {kept} more beside \
                 the pool"
            );
        }
    }

    fn check_pooler(&self) -> Result<(), Error> {
        if self.transaction_pooler && !self.store.lend_sessions() {
            return Err(Error::config(format!(
                "`.transaction_pooler(true)` is for PostgreSQL, and this worker is on {}: leave it out",
                self.store.engine()
            )));
        }
        Ok(())
    }
}
