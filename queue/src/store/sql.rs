//! The one implementation of [`Store`], over the [`Dialect`] of an engine.
//!
//! Every operation runs as a task of its own, so that a caller who drops a future midway (a timeout, a `select!`) never
//! leaves a connection inside a statement or a transaction: the operation goes on to its end. An operation that meets its
//! time limit throws its connection away.

use std::io::ErrorKind;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Pool};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::dialect::{Cells, Dialect, For, Housekeeping, Script, execute, ids, rows};
use super::{
    Ask, Beat, Bury, Claimed, Finish, Lane, LaneHead, NewWorker, Outcome, Place, PutBack, Reply, Rescued, Scope, Store,
    WorkerId, admin,
};
use crate::admin::{Filter, Job, JobDetail, Page, QueueInfo, Stat, WorkerInfo};
use crate::error::{Doing, Error};
use crate::job::JobId;
use crate::migrate;
use crate::signal::{self, Signals, Subscription};

/// How long an operation may take, with all its repetitions.
const LIMIT: Duration = Duration::from_secs(10);
/// The same for a heartbeat: its worker has to know soon.
const BEAT_LIMIT: Duration = Duration::from_secs(3);
/// The same for questions that read every row.
pub(super) const COUNT_LIMIT: Duration = Duration::from_secs(120);

/// The store on a pool. Cheap to clone.
pub(crate) struct SqlStore<DB: Dialect>(Arc<Inner<DB>>);

struct Inner<DB: Dialect> {
    pool: Pool<DB>,
    /// Writers of this process, where the engine has one writer at a time.
    writer: Mutex<()>,
    housekeeping: Housekeeping,
    /// Cancelled to give up what is under way; then there is a new one.
    under_way: std::sync::Mutex<CancellationToken>,
    claims: Line<DB>,
    endings: Line<DB>,
    duties: Line<DB>,
    upkeep: Line<DB>,
}

impl<DB: Dialect> Clone for SqlStore<DB> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A connection that the worker keeps for one purpose: a claim never waits behind a completion, nor either behind a
/// heartbeat. It is taken out while in use and put back only when all went well.
struct Line<DB: Dialect>(Mutex<Option<PoolConnection<DB>>>);

impl<DB: Dialect> Default for Line<DB> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<DB: Dialect> Drop for Line<DB> {
    fn drop(&mut self) {
        // sqlx closes connections in a task; where no runtime is left the socket is just dropped
        if let Some(conn) = self.0.get_mut().take()
            && tokio::runtime::Handle::try_current().is_err()
        {
            drop(conn.leak());
        }
    }
}

/// Where an operation gets its connection from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// The user's pool.
    Pool,
    /// The line for claims.
    Claims,
    /// The line for the ends of attempts.
    Endings,
    /// The line for heartbeats: nothing slow may come before one.
    Duties,
    /// The line for rescue and retention.
    Upkeep,
}

impl From {
    /// Whether it enqueues nothing.
    fn is_housekeeping(self) -> bool {
        matches!(self, Self::Duties | Self::Upkeep)
    }
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Statements that write nothing.
    Read,
    /// One statement that writes.
    Write,
    /// Several statements of which all or none count.
    Transaction,
}

impl<DB: Dialect> SqlStore<DB> {
    pub(crate) fn new(pool: Pool<DB>) -> Self {
        Self(Arc::new(Inner {
            pool,
            writer: Mutex::new(()),
            housekeeping: Housekeeping::new(),
            under_way: std::sync::Mutex::default(),
            claims: Line::default(),
            endings: Line::default(),
            duties: Line::default(),
            upkeep: Line::default(),
        }))
    }

    /// Runs `body` with a connection and the values in `args`; again when others were in its way. `doing` becomes the
    /// head of the error message.
    pub(crate) async fn run<A, T, F>(
        &self,
        from: From,
        mode: Mode,
        doing: &'static str,
        args: A,
        body: F,
    ) -> Result<T, Error>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'c> Fn(&'c mut DB::Connection, &'c A) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + Sync + 'static,
    {
        self.run_within(LIMIT, from, mode, doing, args, body).await
    }

    /// [`run`](Self::run) with another time limit.
    pub(super) async fn run_within<A, T, F>(
        &self,
        limit: Duration,
        from: From,
        mode: Mode,
        doing: &'static str,
        args: A,
        body: F,
    ) -> Result<T, Error>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'c> Fn(&'c mut DB::Connection, &'c A) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + Sync + 'static,
    {
        let store = self.clone();
        let operation = async move {
            let mut pauses = Pauses::new(limit);
            loop {
                match store.once(from, mode, &args, &body).await {
                    Err(error) if DB::is_transient(&error) => match pauses.next() {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return Err(error),
                    },
                    result => return result,
                }
            }
        };
        let task = if DB::ONE_WRITER {
            // an embedded database has no half-open connection, and closing one would lose a database in memory
            tokio::spawn(operation)
        } else {
            let under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let gone = |kind, text| Err(sqlx::Error::Io(std::io::Error::new(kind, text)));
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    result = operation => result,
                    () = under_way.cancelled() => gone(ErrorKind::ConnectionAborted, "given up".to_owned()),
                    () = tokio::time::sleep(limit) => {
                        gone(ErrorKind::TimedOut, format!("the database did not answer within {limit:?}"))
                    }
                }
            })
        };
        match task.await {
            Ok(result) => result.doing(doing),
            Err(gone) if gone.is_panic() => std::panic::resume_unwind(gone.into_panic()),
            Err(_) => Err(sqlx::Error::PoolClosed).doing(doing), // the runtime is shutting down
        }
    }

    async fn once<A, T, F>(&self, from: From, mode: Mode, args: &A, body: &F) -> Result<T, sqlx::Error>
    where
        F: for<'c> Fn(&'c mut DB::Connection, &'c A) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    {
        let _writer = match mode {
            Mode::Write | Mode::Transaction if DB::ONE_WRITER => Some(self.0.writer.lock().await),
            _ => None,
        };
        if from.is_housekeeping() && mode != Mode::Read {
            self.0.housekeeping.starts();
        }
        let _ended = Ended(&self.0.housekeeping, from);
        let line = match from {
            _ if DB::ONE_WRITER => None,
            From::Pool => None,
            From::Claims => Some(&self.0.claims),
            From::Endings => Some(&self.0.endings),
            From::Duties => Some(&self.0.duties),
            From::Upkeep => Some(&self.0.upkeep),
        };
        let mut kept = match line {
            Some(line) => Some(line.0.lock().await),
            None => None,
        };
        let conn = match kept.as_mut().and_then(|kept| kept.take()) {
            Some(conn) => conn,
            None => {
                let mut conn = self.0.pool.acquire().await?;
                if line.is_some() {
                    conn.close_on_drop();
                    for sql in DB::OPEN_LINE {
                        DB::raw(&mut conn, sql).await?;
                    }
                }
                conn
            }
        };
        let mut held = Held { conn: Some(conn), sound: false };
        let conn = held.conn.as_mut().expect("just put there");
        let result = match mode {
            Mode::Read | Mode::Write => body(conn, args).await,
            Mode::Transaction => {
                if line.is_none()
                    && let Some(sql) = DB::BEFORE_BEGIN
                {
                    DB::raw(conn, sql).await?;
                }
                in_transaction::<DB, _, _, _>(conn, args, body).await
            }
        };
        held.sound = match &result {
            Ok(_) => true,
            Err(sqlx::Error::Database(_)) => line.is_none() || result.as_ref().is_err_and(DB::is_transient),
            Err(_) => false,
        };
        if held.sound
            && let Some(mut kept) = kept
        {
            *kept = held.conn.take();
        }
        result
    }

    /// Gives the connections back that were kept.
    async fn release(&self) {
        for line in [&self.0.claims, &self.0.endings, &self.0.duties, &self.0.upkeep] {
            drop(line.0.lock().await.take());
        }
    }

    /// The end of attempts: one script for a batch of jobs.
    async fn ending<E: Ending>(
        &self,
        doing: &'static str,
        script: Script,
        worker: WorkerId,
        batch: &[E],
    ) -> Result<Vec<i64>, Error> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let mode = if script.len() == 1 { Mode::Write } else { Mode::Transaction };
        let recorded = batch.iter().any(Ending::recorded);
        let mut batch: Vec<_> = batch.iter().map(Ending::clean).collect();
        batch.sort_unstable_by_key(|ending| ending.id()); // all lock in one order
        let all: Vec<i64> = batch.iter().map(Ending::id).collect();
        let args = (worker, E::list::<DB>(&batch), recorded, all);
        self.run(From::Endings, mode, doing, args, move |conn, (worker, list, recorded, all)| {
            async move {
                let binds = [(*worker).into(), list.as_str().into()];
                let (mut accepted, mut refused) = (Vec::new(), false);
                for (jobs, sql) in script {
                    match jobs {
                        For::Recorded if !recorded => {}
                        For::Refused if !refused => {}
                        For::Each => match execute::<DB>(conn, sql, &binds).await? {
                            count if count == all.len() as u64 => accepted.extend(all),
                            _ => refused = true,
                        },
                        _ => accepted.extend(ids::<DB>(conn, sql, &binds).await?),
                    }
                }
                Ok(accepted)
            }
            .boxed()
        })
        .await
    }
}

/// The end of one attempt, in a batch.
trait Ending: serde::Serialize + Clone + Sync {
    fn id(&self) -> i64;
    /// Whether the attempt goes into `queue_attempts`.
    fn recorded(&self) -> bool;
    fn error(&mut self) -> Option<&mut String>;

    /// A batch as one JSON text.
    fn list<DB: Dialect>(batch: &[Self]) -> String
    where
        Self: Sized,
    {
        json(batch)
    }

    /// Without what some engine cannot store.
    fn clean(&self) -> Self {
        let mut clean = self.clone();
        if let Some(error) = clean.error()
            && let Some(text) = without_nul(error)
        {
            *error = text;
        }
        clean
    }
}

impl Ending for Finish {
    fn id(&self) -> i64 {
        self.id
    }
    fn recorded(&self) -> bool {
        self.state != Outcome::Completed
    }
    fn error(&mut self) -> Option<&mut String> {
        self.error.as_mut()
    }
    fn list<DB: Dialect>(batch: &[Self]) -> String {
        if !DB::FINISH_IN_ARRAYS {
            return json(batch);
        }
        let row = |it: &'_ Self| (it.id, it.lease, it.ran_us, it.state, it.result.clone(), it.error.clone());
        json(&batch.iter().map(row).collect::<Vec<_>>())
    }
}

impl Ending for PutBack {
    fn id(&self) -> i64 {
        self.id
    }
    fn recorded(&self) -> bool {
        self.record
    }
    fn error(&mut self) -> Option<&mut String> {
        self.error.as_mut()
    }
}

impl Ending for Bury {
    fn id(&self) -> i64 {
        self.id
    }
    fn recorded(&self) -> bool {
        true
    }
    fn error(&mut self) -> Option<&mut String> {
        Some(&mut self.error)
    }
}

/// Marks the end of a write that wakes nobody, however it comes.
struct Ended<'a>(&'a Housekeeping, From);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if self.1.is_housekeeping() {
            self.0.ends();
        }
    }
}

/// A connection in use: unless its operation came to an end, it is not used again.
struct Held<DB: Dialect> {
    conn: Option<PoolConnection<DB>>,
    sound: bool,
}

impl<DB: Dialect> Drop for Held<DB> {
    fn drop(&mut self) {
        if !self.sound
            && !DB::ONE_WRITER
            && let Some(conn) = &mut self.conn
        {
            conn.close_on_drop();
        }
    }
}

async fn in_transaction<DB: Dialect, A, T, F>(conn: &mut DB::Connection, args: &A, body: &F) -> Result<T, sqlx::Error>
where
    F: for<'c> Fn(&'c mut DB::Connection, &'c A) -> BoxFuture<'c, Result<T, sqlx::Error>>,
{
    let mut transaction = conn.begin_with(DB::BEGIN).await?;
    match body(&mut transaction, args).await {
        Ok(value) => transaction.commit().await.map(|()| value),
        Err(error) => {
            transaction.rollback().await?;
            Err(error)
        }
    }
}

/// Pauses between repetitions: short, growing, different for each of those that were in each other's way.
struct Pauses {
    tries: u32,
    until: Instant,
}

impl Pauses {
    fn new(limit: Duration) -> Self {
        Self { tries: 0, until: Instant::now() + limit / 2 }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.tries += 1;
        let most = 5_000 << self.tries.min(7); // µs
        (self.tries <= 12 && Instant::now() < self.until).then(|| Duration::from_micros(fastrand::u64(1_000..most)))
    }
}

/// A list as one JSON text. PostgreSQL has no text with NUL in it.
fn json<T: serde::Serialize>(list: &[T]) -> String {
    serde_json::to_string(list).expect("plain structs of numbers and text serialize")
}

fn without_nul(text: &str) -> Option<String> {
    text.contains('\0').then(|| text.replace('\0', "\u{fffd}"))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 2)
}

#[derive(serde::Serialize)]
struct Lost {
    id: i64,
    worker_id: i64,
}

#[derive(serde::Serialize)]
struct Fate {
    id: i64,
    fate: String,
}

impl<DB: Dialect> SqlStore<DB> {
    /// Moves the lost jobs in `list` on, those that are not being moved by another rescuer.
    async fn rescue_some(&self, list: String) -> Result<Rescued, Error> {
        self.run(From::Upkeep, Mode::Transaction, "cannot take back the jobs of a lost worker", list, |conn, list| {
            async move {
                let locked = rows::<DB>(conn, DB::LOCK_LOST, &[list.as_str().into()]).await?;
                let fates = locked
                    .iter()
                    .map(|row| Ok(Fate { id: row.int(0)?, fate: row.text(1)? }))
                    .collect::<Result<Vec<_>, sqlx::Error>>()?;
                if !fates.is_empty() {
                    let list = json(&fates);
                    for sql in DB::RESCUE {
                        execute::<DB>(conn, sql, &[list.as_str().into()]).await?;
                    }
                }
                let count = |fate| fates.iter().filter(|f| f.fate == fate).count() as u64;
                Ok(Rescued { ready: count("ready"), dead: count("dead"), cancelled: count("cancelled") })
            }
            .boxed()
        })
        .await
    }
}

impl<DB: Dialect + admin::AdminDialect + Signals> Store for SqlStore<DB> {
    fn engine(&self) -> &'static str {
        DB::ENGINE
    }

    fn connections_needed(&self) -> u32 {
        DB::CONNECTIONS
    }

    fn connections_allowed(&self) -> u32 {
        self.0.pool.options().get_max_connections()
    }

    fn poll_interval(&self, idle: Duration) -> Duration {
        DB::poll_interval(idle)
    }

    fn subscribe(&self, notify: Arc<tokio::sync::Notify>) -> Subscription {
        signal::subscribe(&self.0.pool, notify)
    }

    fn check_schema(&self) -> Reply<'_, ()> {
        migrate::check(self).boxed()
    }

    fn join<'a>(&'a self, worker: &'a NewWorker, lease: Duration) -> Reply<'a, WorkerId> {
        async move {
            let worker = worker.clone();
            let (queues, kinds) = (json(&worker.queues), json(&worker.kinds));
            let args = (worker, queues, kinds, micros(lease));
            self.run(
                From::Duties,
                Mode::Write,
                "cannot register the worker",
                args,
                |conn, (worker, queues, kinds, lease)| {
                    async move {
                        let binds = [
                            worker.host.as_str().into(),
                            i64::from(worker.pid).into(),
                            i64::from(worker.concurrency).into(),
                            queues.as_str().into(),
                            kinds.as_str().into(),
                            (*lease).into(),
                        ];
                        let (sql, arguments) = DB::prepare(DB::JOIN, &binds)?;
                        DB::insert_row(conn, sql, arguments).await
                    }
                    .boxed()
                },
            )
            .await
        }
        .boxed()
    }

    fn beat<'a>(&'a self, worker: WorkerId, lease: Duration, look_for: &'a [String]) -> Reply<'a, Beat> {
        let args = (worker, micros(lease), json(look_for));
        self.run_within(
            BEAT_LIMIT,
            From::Duties,
            Mode::Write,
            "the heartbeat failed",
            args,
            |conn, (worker, lease, look_for)| {
                async move {
                    let mut news = Vec::new();
                    for sql in DB::BEAT {
                        let binds = [(*worker).into(), (*lease).into(), look_for.as_str().into()];
                        news = rows::<DB>(conn, sql, &binds).await?;
                    }
                    let Some(row) = news.first() else { return Ok(Beat::default()) };
                    let to_cancel = row.maybe_text(3)?.unwrap_or_else(|| "[]".to_owned());
                    let to_cancel: Vec<(i64, i32)> =
                        serde_json::from_str(&to_cancel).map_err(|error| sqlx::Error::Decode(error.into()))?;
                    Ok(Beat {
                        alive: row.int(0)? != 0,
                        next_expiry: row.maybe_int(1)?.map(|us| Duration::from_micros(us.max(0).unsigned_abs())),
                        work: row.int(2)? != 0,
                        cancelled: to_cancel.into_iter().map(|(id, lease)| (JobId::from(id), lease)).collect(),
                    })
                }
                .boxed()
            },
        )
        .boxed()
    }

    fn beat_looks(&self) -> bool {
        DB::BEAT_LOOKS
    }

    fn holding(&self, worker: WorkerId) -> Reply<'_, Vec<(i64, i32)>> {
        self.run(From::Upkeep, Mode::Read, "cannot ask what the worker holds", worker, |conn, worker| {
            async move {
                let held = rows::<DB>(conn, DB::HOLDING, &[(*worker).into()]).await?;
                held.iter().map(|row| Ok((row.int(0)?, number(row.int(1)?)?))).collect()
            }
            .boxed()
        })
        .boxed()
    }

    fn leave(&self, worker: WorkerId) -> Reply<'_, ()> {
        async move {
            let left = self
                .run(From::Duties, Mode::Write, "cannot sign the worker off", worker, |conn, worker| {
                    async move { execute::<DB>(conn, DB::LEAVE, &[(*worker).into()]).await.map(drop) }.boxed()
                })
                .await;
            self.release().await;
            left
        }
        .boxed()
    }

    fn abandon(&self) {
        let mut under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *under_way).cancel();
    }

    fn lanes<'a>(&'a self, scope: &'a Scope) -> Reply<'a, Vec<LaneHead>> {
        async move {
            let kinds = scope.kinds.clone();
            let mut lanes = self
                .run(From::Claims, Mode::Read, "cannot look for jobs", kinds, |conn, kinds| {
                    DB::lanes(conn, kinds).boxed()
                })
                .await?;
            if !scope.queues.is_empty() {
                lanes.retain(|head| scope.queues.iter().any(|queue| **queue == *head.lane.queue));
            }
            Ok(lanes)
        }
        .boxed()
    }

    fn peek<'a>(&'a self, asks: &'a [Ask], limit: u32) -> Reply<'a, Vec<u32>> {
        let args = (asks.to_vec(), limit);
        self.run(From::Claims, Mode::Read, "cannot look for jobs", args, |conn, (asks, limit)| {
            DB::peek(conn, asks, *limit).boxed()
        })
        .boxed()
    }

    fn claim<'a>(&'a self, worker: WorkerId, asks: &'a [Ask]) -> Reply<'a, Vec<Claimed>> {
        async move {
            if asks.iter().all(|ask| ask.take == 0) {
                return Ok(Vec::new());
            }
            let mode = if DB::CLAIM_IN_TRANSACTION || (DB::ONE_WRITER && asks.len() > 1) {
                Mode::Transaction
            } else {
                Mode::Write
            };
            let args = (worker, asks.to_vec());
            self.run(From::Claims, mode, "cannot claim jobs", args, |conn, (worker, asks)| {
                DB::claim(conn, *worker, asks).boxed()
            })
            .await
        }
        .boxed()
    }

    fn finish<'a>(&'a self, worker: WorkerId, batch: &'a [Finish]) -> Reply<'a, Vec<i64>> {
        self.ending("cannot store finished jobs", DB::FINISH, worker, batch).boxed()
    }

    fn put_back<'a>(&'a self, worker: WorkerId, batch: &'a [PutBack]) -> Reply<'a, Vec<i64>> {
        self.ending("cannot put jobs back", DB::PUT_BACK, worker, batch).boxed()
    }

    fn bury<'a>(&'a self, worker: WorkerId, batch: &'a [Bury]) -> Reply<'a, Vec<i64>> {
        self.ending("cannot store dead letters", DB::BURY, worker, batch).boxed()
    }

    fn rescue(&self, limit: u32) -> Reply<'_, Rescued> {
        async move {
            let doing = "cannot look for lost workers";
            let mode = if DB::EXPIRE_WORKERS.len() == 1 { Mode::Write } else { Mode::Transaction };
            self.run(From::Upkeep, mode, doing, (), |conn, ()| {
                async move {
                    let mut expired = String::from("[]");
                    for sql in DB::EXPIRE_WORKERS {
                        expired = json(&ids::<DB>(conn, sql, &[expired.as_str().into()]).await?);
                    }
                    Ok(())
                }
                .boxed()
            })
            .await?;
            let lost = self
                .run(From::Upkeep, Mode::Read, doing, i64::from(limit), |conn, limit| {
                    async move {
                        let lost = rows::<DB>(conn, DB::LOST, &[(*limit).into()]).await?;
                        lost.iter().map(|row| Ok(Lost { id: row.int(0)?, worker_id: row.int(1)? })).collect()
                    }
                    .boxed()
                })
                .await;
            let mut lost: Vec<Lost> = lost?;
            if lost.is_empty() {
                return Ok(Rescued::default());
            }
            lost.sort_unstable_by_key(|job| job.id);
            match self.rescue_some(json(&lost)).await {
                // one row that cannot be moved must not keep the others
                Err(Error::Database { source: sqlx::Error::Database(error), .. }) if lost.len() > 1 => {
                    tracing::warn!(%error, jobs = lost.len(), "cannot take lost jobs back together; one by one");
                    let mut sum = Rescued::default();
                    for job in &lost {
                        match self.rescue_some(json(std::slice::from_ref(job))).await {
                            Ok(one) => {
                                sum.ready += one.ready;
                                sum.dead += one.dead;
                            }
                            Err(error) => tracing::error!(job.id = job.id, %error, "cannot take a lost job back"),
                        }
                    }
                    Ok(sum)
                }
                result => result,
            }
        }
        .boxed()
    }

    fn purge(&self, keep: Duration, limit: u32) -> Reply<'_, u64> {
        const DOING: &str = "cannot remove old history";
        async move {
            let keep = micros(keep);
            // nearly always there is nothing, which is cheap to learn
            let any = self
                .run(From::Upkeep, Mode::Read, DOING, keep, |conn, keep| {
                    async move { Ok(!ids::<DB>(conn, DB::OVER, &[(*keep).into(), 1.into()]).await?.is_empty()) }.boxed()
                })
                .await?;
            let mut removed = 0;
            if any {
                let args = (keep, i64::from(limit));
                let purge = self.run(From::Upkeep, Mode::Transaction, DOING, args, |conn, (keep, limit)| {
                    async move {
                        let mut over = ids::<DB>(conn, DB::OVER, &[(*keep).into(), (*limit).into()]).await?;
                        over.sort_unstable();
                        let list = json(&over);
                        for sql in DB::PURGE {
                            execute::<DB>(conn, sql, &[list.as_str().into()]).await?;
                        }
                        Ok(over.len() as u64)
                    }
                    .boxed()
                });
                removed = purge.await?;
            }
            if removed == 0 {
                self.run(From::Upkeep, Mode::Write, DOING, keep, |conn, keep| {
                    async move { execute::<DB>(conn, DB::PURGE_WORKERS, &[(*keep).into()]).await.map(drop) }.boxed()
                })
                .await?;
            }
            Ok(removed)
        }
        .boxed()
    }

    fn watch<'a>(&'a self, wake: &'a (dyn Fn() + Send + Sync)) -> Reply<'a, ()> {
        async move { DB::watch(&self.0.pool, &self.0.housekeeping, wake).await.doing("the listener for new jobs failed") }.boxed()
    }

    fn stats(&self) -> Reply<'_, Vec<Stat>> {
        admin::stats(self).boxed()
    }

    fn jobs<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Page<Job>> {
        admin::jobs(self, filter).boxed()
    }

    fn job(&self, id: JobId) -> Reply<'_, Option<JobDetail>> {
        admin::job(self, id).boxed()
    }

    fn run_now<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>> {
        admin::run_now(self, ids).boxed()
    }

    fn reschedule<'a>(&'a self, ids: &'a [i64], run_at: i64) -> Reply<'a, Vec<i64>> {
        admin::reschedule(self, ids, run_at).boxed()
    }

    fn cancel<'a>(&'a self, ids: &'a [i64], reason: &'a str) -> Reply<'a, Vec<i64>> {
        admin::cancel(self, ids, reason).boxed()
    }

    fn send_back<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>> {
        admin::send_back(self, ids).boxed()
    }

    fn delete<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>> {
        admin::delete(self, ids).boxed()
    }

    fn edit<'a>(&'a self, id: JobId, args: &'a str) -> Reply<'a, bool> {
        admin::edit(self, id, args).boxed()
    }

    fn set_paused<'a>(&'a self, queue: &'a str, paused: bool) -> Reply<'a, ()> {
        admin::set_paused(self, queue, paused).boxed()
    }

    fn queues(&self) -> Reply<'_, Vec<QueueInfo>> {
        admin::queues(self).boxed()
    }

    fn workers(&self) -> Reply<'_, Vec<WorkerInfo>> {
        admin::workers(self).boxed()
    }
}

/// A whole number of another width; a row that has it otherwise is not ours.
pub(crate) fn number<T: TryFrom<i64>>(value: i64) -> Result<T, sqlx::Error> {
    T::try_from(value).map_err(|_| sqlx::Error::Decode(format!("{value} is out of range").into()))
}

/// The nearest number that fits. The row is claimed by now: it has to be run or set aside, whatever somebody wrote there.
fn nearest(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

/// Reads `id, lease, attempt, max_retries, run_at, enqueued_at, args`.
pub(crate) fn claimed(row: &impl Cells, lane: Lane) -> Result<Claimed, sqlx::Error> {
    Ok(Claimed {
        id: JobId::from(row.int(0)?),
        lease: number(row.int(1)?)?,
        attempt: nearest(row.int(2)?),
        max_retries: nearest(row.int(3)?),
        lane,
        run_at: row.int(4)?,
        enqueued_at: chrono::DateTime::from_timestamp_micros(row.int(5)?).unwrap_or_default(),
        args: row.text(6)?,
    })
}

/// Reads `kind, queue, priority, run_at, now`.
pub(crate) fn lane_head(row: &impl Cells) -> Result<LaneHead, sqlx::Error> {
    // a time that the engine itself cannot read (MySQL's zero date) counts as due
    let due_in = row.maybe_int(3)?.unwrap_or(0).saturating_sub(row.int(4)?).max(0).unsigned_abs();
    Ok(LaneHead {
        lane: Lane { kind: row.text(0)?.into(), queue: row.text(1)?.into(), priority: number(row.int(2)?)? },
        due_in: Duration::from_micros(due_in),
    })
}

/// Of the places of the next jobs of each ask, how many of the first `limit` in order (priority, due time, id) are whose.
#[cfg_attr(not(any(feature = "mysql", feature = "sqlite")), allow(dead_code, reason = "PostgreSQL counts by itself"))]
pub(crate) fn merge(asks: &[Ask], places: Vec<Vec<Place>>, limit: u32) -> Vec<u32> {
    let mut all: Vec<(i16, i64, i64, usize)> = Vec::new();
    for (number, (ask, places)) in asks.iter().zip(places).enumerate() {
        let time = |run_at: i64| if ask.newest_first { run_at.saturating_neg() } else { run_at };
        all.extend(places.into_iter().map(|(run_at, id)| (ask.lane.priority, time(run_at), id, number)));
    }
    all.sort_unstable();
    let mut counts = vec![0; asks.len()];
    for (.., number) in all.into_iter().take(limit as usize) {
        counts[number] += 1;
    }
    counts
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
