//! The database operations that workers ([`Store`]) and the administration ([`AdminStore`]) need, on any engine.
//!
//! No database type appears above these traits. Below them is one implementation, [`engine`], over a
//! [`Dialect`](engine::dialect::Dialect) for each engine. Statements are files; only what differs in structure is code.

#![cfg_attr(
    not(all(feature = "postgres", feature = "mysql", feature = "sqlite", feature = "schedules")),
    allow(dead_code, unused_imports, unused_macros, reason = "one or two of the engines need it")
)]

pub(crate) mod engine;
pub(crate) mod engines;
#[cfg(feature = "mysql")]
mod mysql;
pub(crate) mod operations;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "schedules")]
pub(crate) mod schedules;
pub(crate) mod schema;
#[cfg(feature = "sqlite")]
mod sqlite;
pub(crate) mod values;
pub(crate) mod view;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::error::Error;
use crate::failures::Failures;
use crate::gauges::Gauges;
use crate::operations::{Note, Progress};
#[cfg(feature = "schedules")]
use crate::schedule::{definition::Definition, plan::ScheduleRow};
use crate::secrets::Secrets;
use crate::state::{JobId, JobState};
use crate::store::operations::{Change, Refused, Saved};
#[cfg(feature = "schedules")]
use crate::store::schedules::{Converged, Fired, Kinds, Named, Noted, Scheduler, Seen};
use crate::store::values::{
    Ask, Claimed, End, FailureRow, Found, Heartbeat, Hold, Holding, Lane, NewJob, NewWorker, Reach, Refusal, Rescued,
    Scope, Share, Start, TallyRow, Unwritten, WorkerId,
};
use crate::store::view::{Ended, Filter, JobDetail, JobRow, Page, Stat, Walked, WorkerInfo};
use crate::throughput::Throughput;
use crate::unique::Enqueued;
use crate::why::Facts;

/// Its effect lasts until it is dropped.
pub(crate) type Guard = Box<dyn Send>;

/// What an engine can do, and its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capabilities {
    /// The engine's name in messages: `PostgreSQL`, `MySQL or MariaDB`, `SQLite`.
    pub(crate) engine: &'static str,
    /// How many connections a worker keeps for itself.
    pub(crate) connections_kept: u32,
    /// How many connections the pool may open.
    pub(crate) connections_allowed: u32,
    /// A heartbeat may wait for another writer for as long as it likes: meanwhile nobody else can write either, so no
    /// worker can take over.
    pub(crate) heartbeats_wait: bool,
    /// How long a handler lets a statement for several jobs end before it locks its own job's row. It takes a round
    /// trip. Zero where that statement would wait for the handler's transaction, which has begun already.
    pub(crate) lock_patience: Duration,
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
#[async_trait]
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
    async fn open(&self) -> Result<(), Error>;

    /// Gives up all statements in progress: they fail at once instead of waiting for a server that may be unreachable.
    fn abandon(&self);

    /// Wakes `notify` whenever this process enqueues into the same database, until the guard is dropped.
    fn subscribe(&self, notify: Arc<tokio::sync::Notify>) -> Guard;

    /// Held while a worker has free slots and only waits for jobs, so that it claims as soon as it is woken. Where
    /// there is one writer, such a claim goes before ends.
    fn listen(&self) -> Guard;

    /// Calls `wake` whenever another process may have enqueued something, until dropped. Returns only on failure. On an
    /// engine without such a signal it never returns.
    async fn watch(&self, wake: &(dyn Fn() + Send + Sync)) -> Result<(), Error>;
}

/// Jobs, from the claim to the end.
#[async_trait]
pub(crate) trait Jobs: Send + Sync + 'static {
    /// The lanes in scope that have waiting rows, due or not: about `most` of them. In the kind of a lane in `behind`,
    /// discovery starts behind that lane. If an old snapshot keeps many dead index entries, this takes seconds.
    /// `beside`: on another connection, so that no claim waits. The next call without it closes that connection.
    async fn discover(&self, scope: &Scope, behind: &[Lane], most: usize, beside: bool) -> Result<Found, Error>;

    /// Counts the next jobs in order (priority, due time, id) over all given lanes, and returns each lane's share.
    /// Takes no locks.
    async fn preview(&self, asks: &[Ask], reach: Reach) -> Result<Vec<Share>, Error>;

    /// Waits up to one second for the claim lock, which one worker holds at a time. Without it, parallel claims walk
    /// over each other's rows, and may lock them. It is only a hint: a worker that does not get it (false) claims all
    /// the same. The caller releases it; so does the end of the session.
    async fn take_claim_lock(&self) -> Result<bool, Error>;

    /// Releases it. A failure discards the connection, which releases it as well.
    async fn release_claim_lock(&self) -> Result<(), Error>;

    /// ready → running, for a worker whose lease has not run out. Takes nothing from paused queues. Each job goes to
    /// one caller only; jobs that others are claiming are skipped.
    ///
    /// `alone`: claims from the first lane only, and only if no other lane, in any queue, has waiting rows of these
    /// kinds. The check comes with the claim or right before it. It is cheaper than discovery, because it walks over no
    /// entries of rows that were taken from the lane before. See [`Capabilities::claims_alone`].
    async fn claim(&self, worker: WorkerId, asks: &[Ask], alone: Option<&[String]>) -> Result<Vec<Claimed>, Error>;

    /// The arguments of a held job, if they were too long to come with the claim. None: the worker no longer holds it.
    async fn args(&self, worker: WorkerId, id: i64, fence: i32) -> Result<Option<String>, Error>;

    /// How long ago the arguments of a job first did not decode, if they never did since. Zero: they always did.
    async fn undecodable(&self, id: i64) -> Result<Duration, Error>;

    /// Records that attempts begin: from now on they count if their worker is lost. Returns the accepted ids; the other
    /// jobs no longer belong to this claim.
    async fn started(&self, worker: WorkerId, batch: &[Start]) -> Result<Vec<i64>, Error>;

    /// Writes how attempts ended: running → completed, cancelled, scheduled, ready or dead. All ends of a batch have
    /// the same [`Destination`](crate::store::values::Destination). Returns the accepted ids. The other jobs no longer
    /// belong to this claim.
    async fn end(&self, worker: WorkerId, batch: &[End]) -> Result<Vec<i64>, Error>;

    /// Those of these jobs that the worker still holds under these fences. Takes no locks, so it waits for nobody.
    async fn still_held(&self, worker: WorkerId, batch: &[Hold]) -> Result<Vec<i64>, Error>;
}

/// Workers and their leases.
#[async_trait]
pub(crate) trait Leases: Send + Sync + 'static {
    /// Writes the worker's row. Its lease runs for `lease` from now.
    async fn join(&self, worker: &NewWorker, lease: Duration) -> Result<WorkerId, Error>;

    /// Extends the lease of a worker that was not declared lost, and returns its news. With
    /// [`heartbeats_discover`](Capabilities::heartbeats_discover), also returns whether jobs of the kinds in `look_for`
    /// wait. The session takes the lock that shows that the worker lives and, if it holds jobs, the lock that shows
    /// that.
    async fn heartbeat(
        &self,
        worker: WorkerId,
        lease: Duration,
        holding: Holding<'_>,
        look_for: &[String],
    ) -> Result<Heartbeat, Error>;

    /// Declares a worker lost if its last heartbeat is still the one given, and its lease has run out (`by_lease`) or
    /// no session holds its lock. False: that is not so, or somebody else declared it.
    async fn declare_lost(&self, worker: WorkerId, heartbeat: i64, by_lease: bool) -> Result<bool, Error>;

    /// The jobs that the worker holds according to the database.
    async fn holding(&self, worker: WorkerId) -> Result<Vec<Hold>, Error>;

    /// Signs off a worker. `silent`: for how long it had sent no heartbeat. At zero it was well all the time, so the
    /// loss of the jobs that it still holds is not their fault.
    async fn leave(&self, worker: WorkerId, silent: Duration) -> Result<(), Error>;

    /// Takes back up to `limit` jobs of workers that are lost, stopped or unknown: running → ready or scheduled, or
    /// dead after the last attempt. An attempt that is not known to have begun does not count. Skips the jobs in
    /// `leave_out`. Also returns the jobs that the database refused to move.
    async fn rescue(&self, limit: u32, leave_out: &HashSet<i64>) -> Result<(Rescued, Vec<i64>), Error>;
}

/// Work for the whole database that any worker may do.
#[async_trait]
pub(crate) trait Upkeep: Send + Sync + 'static {
    /// Removes up to `limit` finished jobs (with their attempts) that ended more than `keep` ago. Returns how many.
    /// `workers`: also removes the rows of workers that ended or were lost more than `keep` ago.
    async fn purge(&self, keep: Duration, limit: u32, workers: bool) -> Result<u64, Error>;

    /// Removes jobs that no worker holds, with their attempts. With `state`, only jobs in that state (ready counts as
    /// scheduled, cancelled as completed). Returns the removed ids.
    async fn delete(&self, ids: &[i64], state: Option<JobState>) -> Result<Vec<i64>, Error>;

    /// Everything about schedules.
    #[cfg(feature = "schedules")]
    fn schedules(&self) -> Arc<dyn ScheduleStore>;

    /// Removes keys of unique jobs that are nowhere any more, for a while. It begins at the hand and moves it. Without
    /// a hand it begins anywhere, because workers are often restarted before they are through. If it is another
    /// worker's turn, it only looks whether there are keys.
    async fn sweep_keys(&self, hand: &mut Option<i64>, is_its_turn: bool) -> Result<(), Error>;

    /// A running operation of the administration that has made no step for this time.
    async fn unattended(&self, silent: Duration) -> Result<Option<i64>, Error>;

    /// Removes the records of operations that ended longer ago than this.
    async fn purge_operations(&self, keep: Duration) -> Result<(), Error>;

    /// What carries out an operation.
    fn administration(&self) -> Arc<dyn AdminStore>;

    /// Adds to the tallies of this minute and of this hour, and to the failures of this hour, which all workers share.
    async fn add_tallies(&self, rows: &[TallyRow], failures: &[FailureRow]) -> Result<(), Error>;

    /// Removes old tallies and failures.
    async fn purge_tallies(&self) -> Result<(), Error>;
}

/// Everything that [`crate::testing`] asks of a database.
#[cfg(feature = "testing")]
#[async_trait]
pub(crate) trait TestStore: Store + AdminStore {
    /// It works in a transaction of somebody else.
    fn is_given(&self) -> bool;

    /// How far the database's time stands still behind the clock, in microseconds: PostgreSQL's does so in a
    /// transaction. And the highest id of a job then. Zero if no job is due later.
    async fn standstill(&self) -> Result<(i64, i64), Error>;

    /// Moves the times of all waiting jobs with an id above `after` into the past, by so many microseconds.
    async fn shift(&self, micros: i64, after: i64) -> Result<(), Error>;
}

/// Everything that the administration reads.
#[async_trait]
pub(crate) trait AdminReads: Send + Sync + 'static {
    /// See [`crate::admin::Admin::stats`].
    async fn stats(&self) -> Result<Vec<Stat>, Error>;

    /// See [`crate::admin::Admin::gauges`].
    async fn gauges(&self) -> Result<Gauges, Error>;

    /// See [`crate::admin::Admin::jobs`].
    async fn jobs(&self, filter: &Filter) -> Result<Page<JobRow>, Error>;

    /// The matching jobs with the lowest ids above `after`, up to `upto`. It looks at a bounded number of rows, so
    /// there may be none although there is a [`next`](Walked::next).
    async fn walk(&self, filter: &Filter, after: i64, upto: i64) -> Result<Walked, Error>;

    /// See [`crate::admin::Admin::job`].
    async fn job(&self, id: JobId) -> Result<Option<JobDetail>, Error>;

    /// See [`crate::admin::Admin::failures`].
    async fn failures(&self) -> Result<Failures, Error>;

    /// See [`crate::admin::Admin::ended`].
    async fn ended(&self, limit: u32) -> Result<Vec<Ended>, Error>;

    /// One job, without its arguments and attempts.
    async fn row(&self, id: JobId) -> Result<Option<JobRow>, Error>;

    /// What decides when a job is claimed.
    async fn facts(&self, job: &JobRow) -> Result<Facts, Error>;

    /// The last job of a kind that took this key, whether or not it has it still.
    async fn last_of_key(&self, kind: &str, key: &str) -> Result<Option<i64>, Error>;

    /// Whether a job of this kind has taken a key.
    async fn has_keys(&self, kind: &str) -> Result<bool, Error>;

    /// See [`crate::admin::Admin::throughput`].
    async fn throughput(&self, since: Duration) -> Result<Throughput, Error>;

    /// Which arguments are secret, as workers have told.
    async fn secrets(&self) -> Result<Secrets, Error>;

    /// Live workers, and those that ended within the retention.
    async fn workers(&self) -> Result<Vec<WorkerInfo>, Error>;
}

/// Everything that the administration asks of a database: reads, deletions, and these changes.
#[async_trait]
pub(crate) trait AdminStore: AdminReads + Upkeep {
    /// The engine's name in messages.
    fn engine(&self) -> &'static str;

    /// See [`crate::migrate`](crate::migrate()). Continues if the future is dropped.
    async fn migrate(&self) -> Result<(), Error>;

    /// See [`crate::migration::check`].
    async fn check_schema(&self) -> Result<(), Error>;

    /// Carries out an action on these jobs, with its record, in one transaction. Returns the ids that changed, and the
    /// unique jobs whose key is taken. `None`: the operation was stopped, or another process has taken it over.
    async fn change_jobs(&self, change: Change) -> Result<Option<(Vec<i64>, Vec<Refusal>)>, Error>;

    /// Now, and the highest number of a job.
    async fn bounds(&self) -> Result<(DateTime<Utc>, i64), Error>;

    /// Begins an operation on many jobs. Returns its number.
    async fn begin(&self, note: Note) -> Result<i64, Error>;

    /// Ends an operation that is running. False: none with this number is. `by`: that is an operation itself.
    async fn end_operation(&self, id: i64, as_: Progress, by: Option<Note>) -> Result<bool, Error>;

    /// Keeps these reasons with an operation, and forgets others.
    async fn explain(&self, operation: i64, refused: Vec<Refused>, forgiven: Vec<i64>) -> Result<(), Error>;

    /// The last operations before this one, or those on one job.
    async fn operations(&self, before: i64, limit: u32, job: Option<i64>) -> Result<Vec<Saved>, Error>;

    /// What an operation could not change, after this job. `reason`: for this one alone.
    async fn refusals(&self, operation: i64, after: i64, reason: Option<&str>) -> Result<Vec<(i64, String)>, Error>;

    /// Ends the time of a key. Returns whether there is such a key, or else the job that has it and is not over.
    async fn release_key(&self, kind: &str, key: &str, note: Note) -> Result<Result<bool, JobId>, Error>;

    /// Writes the record of something that was done.
    async fn record(&self, note: Note) -> Result<(), Error>;

    /// Inserts a job.
    async fn enqueue(&self, job: NewJob) -> Result<Vec<Enqueued>, Unwritten>;

    /// Pauses or resumes a queue.
    async fn set_paused(&self, queue: &str, paused: bool, note: Note) -> Result<(), Error>;
}

/// Everything that schedules ask of a database. `ahead`: how many microseconds their time is ahead of the clock, in
/// tests.
#[cfg(feature = "schedules")]
#[async_trait]
pub(crate) trait ScheduleStore: Send + Sync + 'static {
    /// The one statement that is sent again and again. Takes no locks.
    async fn look(&self, by: &Scheduler, kinds: &[String], ahead: i64) -> Result<Seen, Error>;

    /// Makes the worker one of those that decide for its application. Since when: the last answer of
    /// [`look`](Self::look), or now.
    async fn register(&self, by: &Scheduler, since: Option<i64>) -> Result<(), Error>;

    /// Fires those schedules that are due and locked by nobody else. Their jobs, the history of their ticks and their
    /// next ticks are one transaction.
    async fn fire(&self, ids: &[i64], kinds: &Kinds, ahead: i64) -> Result<Fired, Error>;

    /// Lets new and changed schedules count from now on, in a test's time.
    #[cfg(feature = "testing")]
    async fn adopt(&self, ahead: i64) -> Result<(), Error>;

    /// Fires all ticks of a schedule up to so far ahead, as if each were on time. Returns how many.
    #[cfg(feature = "testing")]
    async fn fire_on_time(&self, id: i64, kinds: &Kinds, ahead: i64) -> Result<usize, Error>;

    /// Notes the error of schedules whose kind no live worker knows. Their ticks wait for one. Returns names and
    /// errors.
    async fn mark_orphans(&self, ids: &[i64], ahead: i64) -> Result<Vec<(String, String)>, Error>;

    /// Writes what an application declares, and retires what it does not declare any more, if the worker is still its
    /// latest one.
    async fn converge(&self, by: &Scheduler, declared: &Arc<[Definition]>, digest: &str) -> Result<Converged, Error>;

    /// Names of some schedules whose last tick is still to come, because the clock was ahead.
    async fn silent(&self) -> Result<Vec<String>, Error>;

    /// Removes up to `limit` ticks that are older than `keep`, and retired schedules without ticks.
    async fn purge_ticks(&self, keep: Duration, limit: u32) -> Result<u64, Error>;

    /// Writes a schedule that no code declares.
    async fn define(&self, definition: &Definition, note: Note) -> Result<Named<()>, Error>;

    async fn change(&self, name: &str, change: schedules::Change, note: Note) -> Result<Named<()>, Error>;

    /// Enqueues the job of a schedule now, whatever its ticks are. `max_retries`: if the row says nothing.
    async fn fire_by_hand(
        &self,
        name: &str,
        max_retries: for<'k> fn(&'k str) -> u32,
        note: Note,
    ) -> Result<Named<i64>, Error>;

    /// Schedules by name, and whether a live worker knows their kind.
    async fn list(&self, after: &str, limit: u32) -> Result<Vec<(ScheduleRow, bool)>, Error>;

    async fn history(&self, name: &str, before: i64, limit: u32) -> Result<Named<Vec<Noted>>, Error>;

    /// The tick that a job stands for: the schedule's name, the tick, and its outcome.
    async fn tick_of(&self, job: i64) -> Result<Option<(String, i64, String)>, Error>;
}
