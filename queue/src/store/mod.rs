//! What the workers and the administration ask of a database, without saying which.
//!
//! Above this trait no database type appears. Below it stands one implementation, [`engine`], over a
//! [`Dialect`](engine::dialect::Dialect) for each engine. Statements are files; only what differs in shape is code.

pub(crate) mod engine;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
pub(crate) mod values;
pub(crate) mod view;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::error::Error;
use crate::id::JobId;
use crate::state::JobState;
use crate::store::values::{
    Ask, Beat, Bury, Claimed, Finish, Found, Holding, Lane, NewWorker, PutBack, Reach, Rescued, Scope, Share, Start,
    WorkerId,
};
use crate::store::view::{Filter, Job, JobDetail, Page, QueueInfo, Stat, WorkerInfo};

/// Something that lasts until it is dropped.
pub(crate) type Guard = Box<dyn Send>;
/// A store of any engine.
pub(crate) type AnyStore = Arc<dyn Store>;
/// What every verb returns.
pub(crate) type Reply<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// What an engine can do, and how much of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capabilities {
    /// How the engine is called in messages: `PostgreSQL`, `MySQL or MariaDB`, `SQLite`.
    pub(crate) engine: &'static str,
    /// How many connections a worker keeps for itself.
    pub(crate) connections_kept: u32,
    /// How many connections the pool may open.
    pub(crate) connections_allowed: u32,
    /// Only one connection can write at a time. Nobody can then take over from a worker that waits to write.
    pub(crate) one_writer: bool,
    /// Heartbeats say that jobs wait, so an idle worker need not ask.
    pub(crate) heartbeats_discover: bool,
    /// There is a [`claim_alone`](Jobs::claim_alone).
    pub(crate) claims_alone: bool,
    /// The limit for [`purge`](Upkeep::purge): what one transaction can remove without blocking other writers.
    pub(crate) purge_batch: u32,
}

/// All that the workers and the administration ask of a database.
///
/// Each verb is one transaction, and safe to call again after an error. It retries deadlocks, serialization failures and
/// lock timeouts itself. The caller bounds the lists.
pub(crate) trait Store: Access + Jobs + Leases + Upkeep + Inspect {}

impl<S: Access + Jobs + Leases + Upkeep + Inspect> Store for S {}

/// The engine, its schema, its connections, and what wakes a worker.
pub(crate) trait Access: Send + Sync + 'static {
    fn capabilities(&self) -> Capabilities;

    /// Warns of a pool whose settings may lose the database.
    fn warn_of_options(&self);

    /// Whether the pool can give a connection without making anybody wait.
    fn has_spare_connection(&self) -> bool;

    /// The most a worker may wait between two looks at the tables when nothing wakes it; after `idle` without work.
    fn poll_interval(&self, idle: Duration) -> Duration;

    /// Somebody else writes, and this operation has waited for its turn in vain. Only where there is one writer.
    fn is_kept_waiting(&self, error: &Error) -> bool;

    /// To be called before anything else: a pooler lends the server's sessions to the worker's connections for one
    /// transaction at a time, so none of them keeps anything. False: there are no such poolers, or no worker can live
    /// with one.
    fn lend_sessions(&self) -> bool;

    /// Opens the connections that the worker keeps. Refused where sessions turn out to be lent although nobody said so.
    fn open(&self) -> Reply<'_, ()>;

    /// See [`crate::migrate`](crate::migrate()). Goes on when it is dropped.
    fn migrate(&self) -> Reply<'_, ()>;

    /// Whether the schema is there and fits this binary; a message that says what to do if not.
    fn check_schema(&self) -> Reply<'_, ()>;

    /// Gives up every statement under way: they fail at once instead of waiting for a server that may be gone.
    fn abandon(&self);

    /// Wakes `notify` whenever this process enqueues into the same database, until the answer is dropped.
    fn subscribe(&self, notify: Arc<tokio::sync::Notify>) -> Guard;

    /// To be held while a worker with room does nothing but wait for jobs: it claims as soon as it is woken, and where there is one
    /// writer at a time this goes before ends.
    fn listen(&self) -> Guard;

    /// Calls `wake` whenever something may have been enqueued elsewhere, until dropped. Returns only on failure; an
    /// engine without such a signal never returns.
    fn watch<'a>(&'a self, wake: &'a (dyn Fn() + Send + Sync)) -> Reply<'a, ()>;
}

/// A job's way from the claim to its end.
pub(crate) trait Jobs: Send + Sync + 'static {
    /// The lanes in scope that have waiting rows, whether due or not: about `most` of them, behind the lane that is
    /// named of their kind, if one is. While an old snapshot holds the remains of many rows this takes seconds.
    fn lanes<'a>(&'a self, scope: &'a Scope, behind: &'a [Lane], most: usize) -> Reply<'a, Found>;

    /// As [`lanes`](Self::lanes), without being in the way of claims: on another connection of the pool, which is kept
    /// until [`ends_looks_beside`](Self::ends_looks_beside).
    fn lanes_beside<'a>(&'a self, scope: &'a Scope, behind: &'a [Lane], most: usize) -> Reply<'a, Found>;

    /// Gives that connection back.
    fn ends_looks_beside(&self) -> Reply<'_, ()>;

    /// The next jobs in order (priority, due time, id) of all the lanes asked: what each of those has of them. No lock.
    fn peek<'a>(&'a self, asks: &'a [Ask], reach: Reach) -> Reply<'a, Vec<Share>>;

    /// Waits up to a second for the right to claim, which one of all workers has at a time: of claims that run side by side,
    /// each walks over what the others are taking, and may lock it. A hint to keep out of each other's way and nothing more:
    /// whoever does not get it (false) claims all the same. To be given back; a session that ends gives it back by itself.
    fn take_turn(&self) -> Reply<'_, bool>;

    /// Gives it back. As good as done when it fails: then the connection is thrown away.
    fn give_turn(&self) -> Reply<'_, ()>;

    /// ready → running, for a worker whose lease has not run out; takes nothing from paused queues. Every job is given to
    /// one caller only; jobs that others are claiming are skipped.
    fn claim<'a>(&'a self, worker: WorkerId, asks: &'a [Ask]) -> Reply<'a, Vec<Claimed>>;

    /// The same for one lane, if no other lane has rows of these kinds that wait, in whatever queue; else nothing. It walks
    /// over nothing that was taken from the lane before: a question that comes with the claim, or right before it, for less than a look takes.
    fn claim_alone<'a>(&'a self, worker: WorkerId, ask: &'a Ask, kinds: &'a [String]) -> Reply<'a, Vec<Claimed>>;

    /// The arguments of a job that the worker holds, which were too long to come with the claim. None: it is not held
    /// any more.
    fn args(&self, worker: WorkerId, id: i64, fence: i32) -> Reply<'_, Option<String>>;

    /// Notes that attempts begin: from now on they count when their worker is lost. Returns the ids that were accepted;
    /// the rest is not this claim's any more.
    fn started<'a>(&'a self, worker: WorkerId, batch: &'a [Start]) -> Reply<'a, Vec<i64>>;

    /// running → completed or cancelled. Returns the ids that were accepted; the rest is not this claim's any more.
    fn finish<'a>(&'a self, worker: WorkerId, batch: &'a [Finish]) -> Reply<'a, Vec<i64>>;

    /// running → scheduled or ready. Returns the ids that were accepted.
    fn put_back<'a>(&'a self, worker: WorkerId, batch: &'a [PutBack]) -> Reply<'a, Vec<i64>>;

    /// running → dead. Returns the ids that were accepted.
    fn bury<'a>(&'a self, worker: WorkerId, batch: &'a [Bury]) -> Reply<'a, Vec<i64>>;
}

/// The lives of workers.
pub(crate) trait Leases: Send + Sync + 'static {
    /// Writes the worker's row; its lease runs for `lease` from now.
    fn join<'a>(&'a self, worker: &'a NewWorker, lease: Duration) -> Reply<'a, WorkerId>;

    /// Extends the lease of a worker that was not declared dead, and brings it the news; also whether jobs of the kinds in
    /// `look_for` wait, where [`beat_looks`](Capabilities::heartbeats_discover). Its session takes the lock by which others see that it lives,
    /// and, when it holds any jobs, the one by which they see that.
    fn beat<'a>(
        &'a self,
        worker: WorkerId,
        lease: Duration,
        holding: Holding<'a>,
        look_for: &'a [String],
    ) -> Reply<'a, Beat>;

    /// Declares a worker dead whose last heartbeat is still the one given, and whose lease has run out (`by_lease`) or
    /// whose lock no session holds. False: it is not so, or somebody else did it.
    fn declare_gone(&self, worker: WorkerId, heartbeat: i64, by_lease: bool) -> Reply<'_, bool>;

    /// The jobs that the database counts as held by the worker, with the fence of each.
    fn holding(&self, worker: WorkerId) -> Reply<'_, Vec<(i64, i32)>>;

    /// The worker ended by itself and holds nothing.
    fn leave(&self, worker: WorkerId) -> Reply<'_, ()>;

    /// Declares workers dead whose lease has run out, and takes back up to `limit` jobs of workers that are dead, gone or
    /// unknown: running → ready or scheduled, or dead after the last attempt. An attempt that is not known to have
    /// begun does not count. Leaves those out that are named; returns also those that the database would not let go.
    fn rescue<'a>(&'a self, limit: u32, leave_out: &'a HashSet<i64>) -> Reply<'a, (Rescued, Vec<i64>)>;
}

/// Retention.
pub(crate) trait Upkeep: Send + Sync + 'static {
    /// Removes up to `limit` finished jobs (with their attempts) that ended more than `keep` ago. Returns how many.
    fn purge(&self, keep: Duration, limit: u32) -> Reply<'_, u64>;

    /// Removes the rows of workers that have been gone for longer than `keep`.
    fn purge_workers(&self, keep: Duration) -> Reply<'_, ()>;
}

/// The administration.
pub(crate) trait Inspect: Send + Sync + 'static {
    /// See [`crate::Admin::stats`].
    fn stats(&self) -> Reply<'_, Vec<Stat>>;

    /// See [`crate::Admin::jobs`].
    fn jobs<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Page<Job>>;

    /// See [`crate::Admin::job`].
    fn job(&self, id: JobId) -> Reply<'_, Option<JobDetail>>;

    /// scheduled → ready. Returns the ids that changed.
    fn run_now<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>>;

    /// scheduled or ready → scheduled or ready at another time (microseconds since 1970). Returns the ids that changed.
    fn reschedule<'a>(&'a self, ids: &'a [i64], run_at: i64) -> Reply<'a, Vec<i64>>;

    /// scheduled or ready → cancelled at once; a running job is marked, and its worker told at its next heartbeat.
    /// Returns the ids that were cancelled or marked.
    fn cancel<'a>(&'a self, ids: &'a [i64], reason: &'a str) -> Reply<'a, Vec<i64>>;

    /// dead → ready with a fresh count of attempts. Returns the ids that changed.
    fn send_back<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>>;

    /// Removes jobs that no worker holds, with their attempts: those in this state, where one is given (ready ones are like
    /// scheduled ones, cancelled like completed). Returns the ids that are gone.
    fn delete<'a>(&'a self, ids: &'a [i64], state: Option<JobState>) -> Reply<'a, Vec<i64>>;

    /// Replaces the arguments of a waiting or dead job. False: there is none such.
    fn edit<'a>(&'a self, id: JobId, args: &'a str) -> Reply<'a, bool>;

    /// Pauses or resumes a queue.
    fn set_paused<'a>(&'a self, queue: &'a str, paused: bool) -> Reply<'a, ()>;

    /// Every queue that has waiting or running jobs or was paused.
    fn queues(&self) -> Reply<'_, Vec<QueueInfo>>;

    /// Workers that are alive, and those that ended within the retention.
    fn workers(&self) -> Reply<'_, Vec<WorkerInfo>>;
}
