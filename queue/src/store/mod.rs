//! The database operations that workers ([`Store`]) and the administration ([`AdminStore`]) need, on any engine.
//!
//! No database type appears above these traits. Below them is one implementation, [`engine`], over a
//! [`Dialect`](engine::dialect::Dialect) for each engine. Statements are files; only what differs in structure is code.

pub(crate) mod engine;
pub(crate) mod engines;
mod mysql;
mod postgres;
#[cfg(feature = "schedules")]
pub(crate) mod schedules;
pub(crate) mod schema;
mod sqlite;
pub(crate) mod values;
pub(crate) mod view;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::error::Error;
use crate::id::JobId;
#[cfg(feature = "schedules")]
use crate::schedule::{definition::Definition, plan::ScheduleRow};
use crate::state::JobState;
#[cfg(feature = "schedules")]
use crate::store::schedules::{Change, Converged, Fired, Kinds, Named, Noted, Scheduler, Seen};
use crate::store::values::{
    Ask, Claimed, End, Found, Heartbeat, Hold, Holding, Lane, NewWorker, Reach, Refusal, Rescued, Scope, Share, Start,
    WorkerId,
};
use crate::store::view::{Filter, JobDetail, JobRow, Page, QueueInfo, Stat, WorkerInfo};

/// Its effect lasts until it is dropped.
pub(crate) type Guard = Box<dyn Send>;
/// The return type of every verb.
pub(crate) type Reply<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// What an engine can do, and its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capabilities {
    /// The engine's name in messages: `PostgreSQL`, `MySQL or MariaDB`, `SQLite`.
    pub(crate) engine: &'static str,
    /// How many connections a worker keeps for itself.
    pub(crate) connections_kept: u32,
    /// How many connections the pool may open.
    pub(crate) connections_allowed: u32,
    /// Only one connection can write at a time. So no worker can take over from one that waits to write.
    pub(crate) one_writer: bool,
    /// Heartbeats report whether jobs wait, so an idle worker needs no other query.
    pub(crate) heartbeats_discover: bool,
    /// The engine can [claim](Jobs::claim) alone.
    pub(crate) claims_alone: bool,
    /// The limit for [`purge`](Upkeep::purge): what one transaction can remove without blocking other writers.
    pub(crate) purge_batch: u32,
}

/// What an error means for its statement and its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Another writer holds the database, and this operation waited too long for its turn. Only where there is one
    /// writer.
    KeptWaiting,
    /// The database is up, and refuses this. It may accept other statements.
    Refused,
    /// Anything else: the database is away, or busy, or too slow.
    Away,
}

/// Everything that a worker asks of a database.
///
/// Each verb is one transaction, and safe to call again after an error. It retries deadlocks, serialization failures
/// and lock timeouts itself. The caller limits the length of lists.
pub(crate) trait Store: Access + Jobs + Leases + Upkeep {}

impl<S: Access + Jobs + Leases + Upkeep> Store for S {}

/// The engine, its schema, its connections, and what wakes a worker.
pub(crate) trait Access: Send + Sync + 'static {
    fn capabilities(&self) -> Capabilities;

    /// Whether the pool can give a connection without making anybody wait.
    fn has_spare_connection(&self) -> bool;

    /// The longest interval between two polls if nothing wakes the worker. It has been without work for `idle`.
    fn poll_interval(&self, idle: Duration) -> Duration;

    /// What this error means.
    fn trouble(&self, error: &Error) -> Trouble;

    /// Call this first if a pooler lends the server's sessions to the worker's connections, one transaction at a time.
    /// Such a session keeps no settings and no locks. False: there are no such poolers, or no worker can run behind
    /// one.
    fn lend_sessions(&self) -> bool;

    /// Opens the connections that the worker keeps, and checks that the schema exists and fits this binary. Logs a
    /// warning if the pool's settings may lose the database. Fails if a pooler lends sessions and
    /// [`lend_sessions`](Self::lend_sessions) was not called. The error says what to do.
    fn open(&self) -> Reply<'_, ()>;

    /// Gives up all statements in progress: they fail at once instead of waiting for a server that may be unreachable.
    fn abandon(&self);

    /// Wakes `notify` whenever this process enqueues into the same database, until the guard is dropped.
    fn subscribe(&self, notify: Arc<tokio::sync::Notify>) -> Guard;

    /// Held while a worker has free slots and only waits for jobs, so that it claims as soon as it is woken. Where
    /// there is one writer, such a claim goes before ends.
    fn listen(&self) -> Guard;

    /// Calls `wake` whenever another process may have enqueued something, until dropped. Returns only on failure. On an
    /// engine without such a signal it never returns.
    fn watch<'a>(&'a self, wake: &'a (dyn Fn() + Send + Sync)) -> Reply<'a, ()>;
}

/// Jobs, from the claim to the end.
pub(crate) trait Jobs: Send + Sync + 'static {
    /// The lanes in scope that have waiting rows, due or not: about `most` of them. In the kind of a lane in `behind`,
    /// discovery starts behind that lane. If an old snapshot keeps many dead index entries, this takes seconds.
    /// `beside`: on another connection, so that no claim waits. The next call without it closes that connection.
    fn discover<'a>(&'a self, scope: &'a Scope, behind: &'a [Lane], most: usize, beside: bool) -> Reply<'a, Found>;

    /// Counts the next jobs in order (priority, due time, id) over all given lanes, and returns each lane's share.
    /// Takes no locks.
    fn preview<'a>(&'a self, asks: &'a [Ask], reach: Reach) -> Reply<'a, Vec<Share>>;

    /// Waits up to one second for the claim lock, which one worker holds at a time. Without it, parallel claims walk
    /// over each other's rows, and may lock them. It is only a hint: a worker that does not get it (false) claims all
    /// the same. The caller releases it; so does the end of the session.
    fn take_claim_lock(&self) -> Reply<'_, bool>;

    /// Releases it. A failure discards the connection, which releases it as well.
    fn release_claim_lock(&self) -> Reply<'_, ()>;

    /// ready → running, for a worker whose lease has not run out. Takes nothing from paused queues. Each job goes to
    /// one caller only; jobs that others are claiming are skipped.
    ///
    /// `alone`: claims from the first lane only, and only if no other lane, in any queue, has waiting rows of these
    /// kinds. The check comes with the claim or right before it. It is cheaper than discovery, because it walks over no
    /// entries of rows that were taken from the lane before. See [`Capabilities::claims_alone`].
    fn claim<'a>(&'a self, worker: WorkerId, asks: &'a [Ask], alone: Option<&'a [String]>) -> Reply<'a, Vec<Claimed>>;

    /// The arguments of a held job, if they were too long to come with the claim. None: the worker no longer holds it.
    fn args(&self, worker: WorkerId, id: i64, fence: i32) -> Reply<'_, Option<String>>;

    /// How long ago the arguments of a job first did not decode, if they never did since. Zero: they always did.
    fn undecodable(&self, id: i64) -> Reply<'_, Duration>;

    /// Records that attempts begin: from now on they count if their worker is lost. Returns the accepted ids; the other
    /// jobs no longer belong to this claim.
    fn started<'a>(&'a self, worker: WorkerId, batch: &'a [Start]) -> Reply<'a, Vec<i64>>;

    /// Writes how attempts ended: running → completed, cancelled, scheduled, ready or dead. All ends of a batch have
    /// the same [`Destination`](crate::store::values::Destination). Returns the accepted ids. The other jobs no longer
    /// belong to this claim.
    fn end<'a>(&'a self, worker: WorkerId, batch: &'a [End]) -> Reply<'a, Vec<i64>>;

    /// Those of these jobs that the worker still holds under these fences. Takes no locks, so it waits for nobody.
    fn still_held<'a>(&'a self, worker: WorkerId, batch: &'a [Hold]) -> Reply<'a, Vec<i64>>;
}

/// Workers and their leases.
pub(crate) trait Leases: Send + Sync + 'static {
    /// Writes the worker's row. Its lease runs for `lease` from now.
    fn join<'a>(&'a self, worker: &'a NewWorker, lease: Duration) -> Reply<'a, WorkerId>;

    /// Extends the lease of a worker that was not declared lost, and returns its news. With
    /// [`heartbeats_discover`](Capabilities::heartbeats_discover), also returns whether jobs of the kinds in `look_for`
    /// wait. The session takes the lock that shows that the worker lives and, if it holds jobs, the lock that shows
    /// that.
    fn heartbeat<'a>(
        &'a self,
        worker: WorkerId,
        lease: Duration,
        holding: Holding<'a>,
        look_for: &'a [String],
    ) -> Reply<'a, Heartbeat>;

    /// Declares a worker lost if its last heartbeat is still the one given, and its lease has run out (`by_lease`) or
    /// no session holds its lock. False: that is not so, or somebody else declared it.
    fn declare_lost(&self, worker: WorkerId, heartbeat: i64, by_lease: bool) -> Reply<'_, bool>;

    /// The jobs that the worker holds according to the database.
    fn holding(&self, worker: WorkerId) -> Reply<'_, Vec<Hold>>;

    /// Signs off a worker. `silent`: for how long it had sent no heartbeat. At zero it was well all the time, so the
    /// loss of the jobs that it still holds is not their fault.
    fn leave(&self, worker: WorkerId, silent: Duration) -> Reply<'_, ()>;

    /// Takes back up to `limit` jobs of workers that are lost, stopped or unknown: running → ready or scheduled, or
    /// dead after the last attempt. An attempt that is not known to have begun does not count. Skips the jobs in
    /// `leave_out`. Also returns the jobs that the database refused to move.
    fn rescue<'a>(&'a self, limit: u32, leave_out: &'a HashSet<i64>) -> Reply<'a, (Rescued, Vec<i64>)>;
}

/// Work for the whole database that any worker may do.
pub(crate) trait Upkeep: Send + Sync + 'static {
    /// Removes up to `limit` finished jobs (with their attempts) that ended more than `keep` ago. Returns how many.
    /// `workers`: also removes the rows of workers that ended or were lost more than `keep` ago.
    fn purge(&self, keep: Duration, limit: u32, workers: bool) -> Reply<'_, u64>;

    /// Removes jobs that no worker holds, with their attempts. With `state`, only jobs in that state (ready counts as
    /// scheduled, cancelled as completed). Returns the removed ids.
    fn delete<'a>(&'a self, ids: &'a [i64], state: Option<JobState>) -> Reply<'a, Vec<i64>>;

    /// Everything about schedules.
    #[cfg(feature = "schedules")]
    fn schedules(&self) -> Arc<dyn ScheduleStore>;

    /// Removes keys of unique jobs that are nowhere any more, for a while. It begins at the hand and moves it. Without
    /// a hand it begins anywhere, because workers are often restarted before they are through. If it is another
    /// worker's turn, it only looks whether there are keys.
    fn sweep_keys<'a>(&'a self, hand: &'a mut Option<i64>, is_its_turn: bool) -> Reply<'a, ()>;
}

/// Everything that [`crate::testing`] asks of a database.
#[cfg(feature = "testing")]
pub(crate) trait TestStore: Store + AdminStore {
    /// It works in a transaction of somebody else.
    fn is_given(&self) -> bool;

    /// How far the database's time stands still behind the clock, in microseconds: PostgreSQL's does so in a
    /// transaction. And the highest id of a job then. Zero if no job is due later.
    fn standstill(&self) -> Reply<'_, (i64, i64)>;

    /// Moves the times of all waiting jobs with an id above `after` into the past, by so many microseconds.
    fn shift(&self, micros: i64, after: i64) -> Reply<'_, ()>;
}

/// Everything that the administration asks of a database.
pub(crate) trait AdminStore: Upkeep {
    /// See [`crate::migrate`](crate::migrate()). Continues if the future is dropped.
    fn migrate(&self) -> Reply<'_, ()>;

    /// See [`crate::admin::Admin::stats`].
    fn stats(&self) -> Reply<'_, Vec<Stat>>;

    /// See [`crate::admin::Admin::jobs`].
    fn jobs<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Page<JobRow>>;

    /// See [`crate::admin::Admin::job`].
    fn job(&self, id: JobId) -> Reply<'_, Option<JobDetail>>;

    /// scheduled → ready. Returns the ids that changed.
    fn run_now<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>>;

    /// scheduled or ready → scheduled or ready at another time (microseconds since 1970). Returns the ids that changed.
    fn reschedule<'a>(&'a self, ids: &'a [i64], run_at: i64) -> Reply<'a, Vec<i64>>;

    /// scheduled or ready → cancelled at once. A running job is marked, and its worker learns of it with its next
    /// heartbeat. Returns the ids that were cancelled or marked.
    fn cancel<'a>(&'a self, ids: &'a [i64], reason: &'a str) -> Reply<'a, Vec<i64>>;

    /// dead → ready with a fresh attempt count. Returns the ids that changed, and the unique jobs whose key is taken.
    fn send_back<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, (Vec<i64>, Vec<Refusal>)>;

    /// The last job of a kind that took this key, whether or not it has it still.
    fn last_of_key<'a>(&'a self, kind: &'a str, key: &'a str) -> Reply<'a, Option<i64>>;

    /// Ends the time of a key. Returns whether there is such a key, or else the job that has it and is not over.
    fn release_key<'a>(&'a self, kind: &'a str, key: &'a str) -> Reply<'a, Result<bool, JobId>>;

    /// Replaces the arguments of a waiting or dead job. False: there is no such job.
    fn edit<'a>(&'a self, id: JobId, args: &'a str) -> Reply<'a, bool>;

    /// Pauses or resumes a queue.
    fn set_paused<'a>(&'a self, queue: &'a str, paused: bool) -> Reply<'a, ()>;

    /// Every queue that has waiting or running jobs or is paused.
    fn queues(&self) -> Reply<'_, Vec<QueueInfo>>;

    /// Live workers, and those that ended within the retention.
    fn workers(&self) -> Reply<'_, Vec<WorkerInfo>>;
}

/// Everything that schedules ask of a database. `ahead`: how many microseconds their time is ahead of the clock, in
/// tests.
#[cfg(feature = "schedules")]
pub(crate) trait ScheduleStore: Send + Sync + 'static {
    /// The one statement that is sent again and again. Takes no locks.
    fn look<'a>(&'a self, by: &'a Scheduler, kinds: &'a [String], ahead: i64) -> Reply<'a, Seen>;

    /// Makes the worker one of those that decide for its application. Since when: the last answer of
    /// [`look`](Self::look), or now.
    fn register<'a>(&'a self, by: &'a Scheduler, since: Option<i64>) -> Reply<'a, ()>;

    /// Fires those schedules that are due and locked by nobody else. Their jobs, the history of their ticks and their
    /// next ticks are one transaction.
    fn fire<'a>(&'a self, ids: &'a [i64], kinds: &'a Kinds, ahead: i64) -> Reply<'a, Fired>;

    /// Lets new and changed schedules count from now on, in a test's time.
    #[cfg(feature = "testing")]
    fn adopt(&self, ahead: i64) -> Reply<'_, ()>;

    /// Fires all ticks of a schedule up to so far ahead, as if each were on time. Returns how many.
    #[cfg(feature = "testing")]
    fn fire_on_time<'a>(&'a self, id: i64, kinds: &'a Kinds, ahead: i64) -> Reply<'a, usize>;

    /// Notes the error of schedules whose kind no live worker knows. Their ticks wait for one. Returns names and errors.
    fn mark_orphans<'a>(&'a self, ids: &'a [i64], ahead: i64) -> Reply<'a, Vec<(String, String)>>;

    /// Writes what an application declares, and retires what it does not declare any more, if the worker is still its
    /// latest one.
    fn converge<'a>(
        &'a self,
        by: &'a Scheduler,
        declared: &'a Arc<[Definition]>,
        digest: &'a str,
    ) -> Reply<'a, Converged>;

    /// Names of some schedules whose last tick is still to come, because the clock was ahead.
    fn silent(&self) -> Reply<'_, Vec<String>>;

    /// Removes up to `limit` ticks that are older than `keep`, and retired schedules without ticks.
    fn purge_ticks(&self, keep: Duration, limit: u32) -> Reply<'_, u64>;

    /// Writes a schedule that no code declares.
    fn define<'a>(&'a self, definition: &'a Definition) -> Reply<'a, Named<()>>;

    fn change<'a>(&'a self, name: &'a str, change: Change) -> Reply<'a, Named<()>>;

    /// Enqueues the job of a schedule now, whatever its ticks are. `max_retries`: if the row says nothing.
    fn fire_by_hand<'a>(&'a self, name: &'a str, max_retries: fn(&str) -> u32) -> Reply<'a, Named<i64>>;

    /// Schedules by name, and whether a live worker knows their kind.
    fn list<'a>(&'a self, after: &'a str, limit: u32) -> Reply<'a, Vec<(ScheduleRow, bool)>>;

    fn history<'a>(&'a self, name: &'a str, before: i64, limit: u32) -> Reply<'a, Named<Vec<Noted>>>;

    /// The tick that a job stands for: the schedule's name, the tick, and its outcome.
    fn tick_of(&self, job: i64) -> Reply<'_, Option<(String, i64, String)>>;
}
