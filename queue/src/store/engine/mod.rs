//! The one implementation of [`Store`], over the [`Dialect`] of an engine.

pub(crate) mod connection;
pub(crate) mod dialect;
pub(crate) mod distance;
#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql", feature = "sqlite")),
    allow(dead_code, reason = "without an engine there are no statements")
)]
pub(crate) mod insert;
pub(crate) mod inspect;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) mod many_lanes;
pub(crate) mod migrate;
pub(crate) mod notify;
pub(crate) mod operation;
pub(crate) mod poisoned;
pub(crate) mod ranges;
pub(crate) mod read;
pub(crate) mod savepoint;
pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod write_queue;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::try_join;
use sqlx::Connection as _;

use crate::error::{Doing, Error};
use crate::id::JobId;
use crate::limits::micros;
use crate::state::JobState;
use crate::store::Guard;
use crate::store::engine::connection::connect;
use crate::store::engine::dialect::{Cells, Dialect, For, Seen, execute, ids, json, rows, without_signals};
use crate::store::engine::notify::Signals;
use crate::store::engine::notify::can_spare_one;
use crate::store::engine::operation::{From, LIMIT, Mode, SqlStore};
use crate::store::engine::ranges::Runs;
use crate::store::engine::read::{list, number};
use crate::store::values::{
    Ask, Beat, Bury, Claimed, Finish, Found, Holding, Lane, Lease, NewWorker, PutBack, Reach, Rescued, Scope, Share,
    Sight, Start, WorkerId,
};
use crate::store::view::{Filter, Job, JobDetail, Page, QueueInfo, Stat, WorkerInfo};
use crate::store::{Reply, Store};

/// How long a heartbeat may take: its worker has to know soon.
const BEAT_LIMIT: Duration = Duration::from_secs(3);
/// How long a look may take that keeps nobody waiting.
const LOOK_LIMIT: Duration = Duration::from_secs(30);

/// What a worker says that finds itself behind a pooler.
const LENT_UNSAID: &str = "the database's sessions change under the worker's connections, as behind PgBouncer in transaction \
    mode: add `.transaction_pooler(true)`, or give the worker a direct connection or a pool in session mode";

/// The connection is not to be used again, whatever the server says is wrong.
fn unsound(error: sqlx::Error) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::other(error))
}

/// Another worker in the answer to a heartbeat.
#[derive(serde::Deserialize)]
struct Other {
    id: i64,
    held: u8,
    busy: u8,
    heartbeat: i64,
    run: Option<i64>,
    late: i64,
    left: i64,
    given: i64,
}

impl Other {
    fn lease(&self) -> Lease {
        let Self { id: worker, heartbeat, left, given, .. } = *self;
        Lease { worker, heartbeat, left, given }
    }

    /// `here`: the run of the server.
    fn sight(&self, here: Option<i64>) -> Sight {
        let Self { id, held, busy, heartbeat, run, late, .. } = *self;
        Sight { id, held: held != 0, busy: busy != 0, heartbeat, had: run.is_some() && run == here, late }
    }
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
    /// Earlier attempts of which nobody knew whether they had begun, and for which this one answers.
    doubts: i64,
    losses: i64,
    error: String,
}

impl<DB: Dialect> SqlStore<DB> {
    /// Moves the lost jobs in `list` on, those that are not being moved by another rescuer.
    async fn rescue_some(&self, list: String) -> Result<Rescued, Error> {
        self.run(From::Upkeep, Mode::Transaction, "cannot take back the jobs of a lost worker", list, |conn, list| {
            async move {
                let locked = rows::<DB>(conn, DB::LOCK_LOST, &[list.as_str().into()]).await?;
                let fates = locked
                    .iter()
                    .map(|row| {
                        let (id, fate, error) = (row.int(0)?, row.text(1)?, row.text(4)?);
                        Ok(Fate { id, fate, doubts: row.int(2)?, losses: row.int(3)?, error })
                    })
                    .collect::<Result<Vec<_>, sqlx::Error>>()?;
                if !fates.is_empty() {
                    let list = json(&fates);
                    for sql in DB::RESCUE {
                        execute::<DB>(conn, sql, &[list.as_str().into()]).await?;
                    }
                }
                let count = |fate| fates.iter().filter(|f| f.fate == fate).count() as u64;
                let (dead, cancelled) = (count("dead"), count("cancelled"));
                Ok(Rescued { ready: fates.len() as u64 - dead - cancelled, dead, cancelled })
            }
            .boxed()
        })
        .await
    }

    /// The same for each by itself. What is refused is left as it is, and named; what refuses two in a row refuses all.
    async fn rescue_one_by_one(&self, lost: &[Lost]) -> Result<(Rescued, Vec<i64>), Error> {
        let (mut sum, mut left, mut refused) = (Rescued::default(), Vec::new(), None);
        for job in lost {
            let error = match self.rescue_some(json(std::slice::from_ref(job))).await {
                Ok(one) => {
                    sum += one;
                    refused = None;
                    continue;
                }
                Err(error) => error,
            };
            tracing::error!(job.id = job.id, %error, "cannot take a lost job back");
            left.push(job.id);
            let second = refused.is_some();
            refused = Some(error).filter(|error| !error.blames_the_row());
            if second && refused.is_some() {
                break;
            }
        }
        match refused {
            // it is met again later
            Some(error) if sum == Rescued::default() => Err(error),
            _ => Ok((sum, left)),
        }
    }

    /// Runs the first statement, and those behind it with its answer, unless that is empty: one transaction.
    async fn about_those_of_the_first(
        &self,
        doing: &'static str,
        statements: &'static [&'static str],
    ) -> Result<(), Error> {
        let [first, others @ ..] = statements else { return Ok(()) };
        let mode = if others.is_empty() { Mode::Write } else { Mode::Transaction };
        self.run(From::Upkeep, mode, doing, (first, others), |conn, (first, others)| {
            async move {
                let found = ids::<DB>(conn, first, &[]).await?;
                for sql in others.iter().filter(|_| !found.is_empty()) {
                    execute::<DB>(conn, sql, &[found.as_slice().into()]).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await
    }

    /// Whether the server's sessions are lent although nobody said so: what one connection had is another's right
    /// after, or changes while another one is in a transaction. A pooler gives out the session used last, or the one
    /// not used for longest, and others who use it may be in the way of either: so it is asked several times. Nothing
    /// may be set before it is known.
    async fn lends_unsaid(&self) -> Result<bool, Error> {
        const ROUNDS: usize = 3;
        let Some(sql) = DB::SESSION else { return Ok(false) };
        let pool = self.pool().clone();
        // in a task, which goes on when its caller is dropped: no transaction stays open in a lent session
        let asked = tokio::spawn(async move {
            let session = async |conn: &mut DB::Connection| {
                rows::<DB>(conn, sql, &[]).await?.first().ok_or(sqlx::Error::RowNotFound)?.int(0)
            };
            let (one, other) = (connect(&pool, LIMIT / 2), connect(&pool, LIMIT / 2));
            let (mut one, mut other) = try_join(one, other).await?;
            let mut lent = false;
            for _ in 0..ROUNDS {
                let had = session(&mut one).await?;
                let mut transaction = other.begin_with(DB::BEGIN).await?;
                lent |= session(&mut transaction).await? == had || session(&mut one).await? != had;
                transaction.rollback().await?;
                if lent {
                    break;
                }
            }
            try_join(one.close(), other.close()).await?;
            Ok::<_, sqlx::Error>(lent)
        });
        let answer = match tokio::time::timeout(LIMIT, asked).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(sqlx::Error::PoolClosed), // the runtime is shutting down
            Err(_) => Err(sqlx::Error::PoolTimedOut),
        };
        answer.doing("cannot open the connections that a worker keeps")
    }

    async fn look(
        &self,
        from: From,
        limit: Duration,
        scope: &Scope,
        behind: &[Lane],
        most: usize,
    ) -> Result<Found, Error> {
        // each kind is reached
        let most = most.max(scope.kinds.len() * 2);
        let args = (scope.kinds.clone(), behind.to_vec(), most, self.distance().clone());
        let mut found = self
            .run_within(
                limit,
                from,
                Mode::Read,
                "cannot look for jobs",
                args,
                |conn, (kinds, behind, most, distance)| {
                    async move {
                        let started = Instant::now();
                        let Seen { heads, stopped, round_trips } = DB::lanes(conn, kinds, behind, *most).await?;
                        let took = distance.without_network::<DB>(conn, started.elapsed(), round_trips).await?;
                        Ok(Found { heads, stopped, took })
                    }
                    .boxed()
                },
            )
            .await?;
        if !scope.queues.is_empty() {
            found.heads.retain(|head| scope.queues.iter().any(|queue| **queue == *head.lane.queue));
        }
        Ok(found)
    }
}

impl<DB: Dialect + inspect::AdminDialect + Signals> Store for SqlStore<DB> {
    fn engine(&self) -> &'static str {
        DB::ENGINE
    }

    fn connections_kept(&self) -> u32 {
        // it does not listen where sessions are lent
        DB::CONNECTIONS - u32::from(self.is_lent())
    }

    fn has_spare_connection(&self) -> bool {
        self.keeps_looks() || (self.connections_allowed() > 1 && can_spare_one(self.pool()))
    }

    fn connections_allowed(&self) -> u32 {
        self.pool().options().get_max_connections()
    }

    fn warn_of_options(&self) {
        DB::warn_of_options(self.pool());
    }

    fn poll_interval(&self, idle: Duration) -> Duration {
        if self.is_lent() { without_signals(idle) } else { DB::poll_interval(idle) }
    }

    fn subscribe(&self, notify: Arc<tokio::sync::Notify>) -> Guard {
        Box::new(notify::subscribe(self.pool(), notify))
    }

    fn lend_sessions(&self) -> bool {
        self.lend();
        DB::BEGIN_LENT.is_some()
    }

    fn open(&self) -> Reply<'_, ()> {
        async move {
            if !self.is_lent() && self.lends_unsaid().await? {
                return Err(Error::config(LENT_UNSAID));
            }
            SqlStore::open(self).await
        }
        .boxed()
    }

    fn migrate(&self) -> Reply<'_, ()> {
        migrate::run(self.pool().clone()).boxed()
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
                if DB::JOIN_BEAT.is_some() { Mode::Transaction } else { Mode::Write },
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
                        let Some(beat) = DB::JOIN_BEAT else {
                            let (sql, arguments) = DB::prepare(DB::JOIN, &binds)?;
                            return DB::insert_row(conn, sql, arguments).await;
                        };
                        let (sql, arguments) = DB::prepare(DB::JOIN, &binds[..5])?;
                        let id = DB::insert_row(conn, sql, arguments).await?;
                        execute::<DB>(conn, beat, &[id.into(), (*lease).into()]).await?;
                        Ok(id)
                    }
                    .boxed()
                },
            )
            .await
        }
        .boxed()
    }

    fn beat<'a>(
        &'a self,
        worker: WorkerId,
        lease: Duration,
        holding: Holding<'a>,
        look_for: &'a [String],
    ) -> Reply<'a, Beat> {
        let Holding { any, running, settled, check, again_in } = holding;
        let lists = [json(look_for), json(running), json(settled)];
        let times = [micros(lease), micros(again_in)];
        let session = (self.session().clone(), self.is_lent());
        let args = (session, worker, any, times, lists, i64::from(check));
        self.run_within(
            BEAT_LIMIT,
            From::Duties,
            Mode::Write,
            "the heartbeat failed",
            args,
            |conn, ((session, lent), worker, busy, [lease, again_in], lists, check)| {
                async move {
                    if *lent {
                        session.borrows::<DB>(conn).await?;
                    } else {
                        session.hold::<DB>(conn, *worker, *busy).await?;
                    }
                    let [look_for, running, settled] = lists.each_ref().map(|list| list.as_str().into());
                    let server = session.server();
                    let held = session.holds_in(*worker);
                    let binds = [
                        (*worker).into(),
                        (*lease).into(),
                        look_for,
                        running,
                        settled,
                        (*check).into(),
                        server.into(),
                        held.into(),
                        (*again_in).into(),
                    ];
                    let of_claims = lists[2] != "[]" || *check != 0 || server == 0;
                    let statements = DB::SETTLED.iter().filter(|_| of_claims).chain(DB::BEAT);
                    let mut news = Vec::new();
                    for sql in statements {
                        news = rows::<DB>(conn, sql, &binds).await?;
                    }
                    let Some(row) = news.first() else { return Ok(Beat::default()) };
                    let to_cancel: Vec<(i64, i32)> = list(row, 2)?;
                    let others: Vec<Other> = list(row, 4)?;
                    let (number, speaks) = session.answered(row.maybe_int(3)?);
                    let speaks = speaks && DB::SESSIONS.is_some();
                    let here = session.run();
                    Ok(Beat {
                        session: number,
                        leases: others.iter().map(Other::lease).collect(),
                        others: others.iter().filter(|it| speaks && it.left >= 0).map(|it| it.sight(here)).collect(),
                        unheld: DB::SESSIONS.is_some() && session.lacks(*worker),
                        vouched: held.is_some(),
                        alive: row.int(0)? != 0,
                        work: row.int(1)? != 0,
                        cancelled: to_cancel.into_iter().map(|(id, fence)| (JobId::from(id), fence)).collect(),
                    })
                }
                .boxed()
            },
        )
        .boxed()
    }

    fn declare_gone(&self, worker: WorkerId, heartbeat: i64, by_lease: bool) -> Reply<'_, bool> {
        if !by_lease && DB::SESSIONS.is_none() {
            return std::future::ready(Ok(false)).boxed();
        }
        let mode = if DB::DECLARE_GONE.len() == 1 { Mode::Write } else { Mode::Transaction };
        let args = (worker, heartbeat, i64::from(by_lease));
        self.run(From::Upkeep, mode, "cannot declare a worker gone", args, |conn, (worker, heartbeat, by_lease)| {
            async move {
                let mut gone = Vec::new();
                for (number, sql) in DB::DECLARE_GONE.iter().enumerate() {
                    let binds = [(*worker).into(), (*heartbeat).into(), (*by_lease).into()];
                    match number {
                        0 => gone = ids::<DB>(conn, sql, &binds).await?,
                        _ if gone.is_empty() => break,
                        _ => execute::<DB>(conn, sql, &[gone.as_slice().into()]).await.map(drop)?,
                    }
                }
                Ok(!gone.is_empty())
            }
            .boxed()
        })
        .boxed()
    }

    fn has_one_writer(&self) -> bool {
        DB::ONE_WRITER
    }

    fn is_kept_waiting(&self, error: &Error) -> bool {
        DB::ONE_WRITER && matches!(error, Error::Database { source, .. } if DB::is_transient(source))
    }

    fn beat_looks(&self) -> bool {
        DB::BEAT_LOOKS && !self.is_lent()
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
        self.give_up();
    }

    fn lanes<'a>(&'a self, scope: &'a Scope, behind: &'a [Lane], most: usize) -> Reply<'a, Found> {
        self.look(From::Claims, LIMIT, scope, behind, most).boxed()
    }

    fn lanes_beside<'a>(&'a self, scope: &'a Scope, behind: &'a [Lane], most: usize) -> Reply<'a, Found> {
        self.look(From::Look, LOOK_LIMIT, scope, behind, most).boxed()
    }

    fn ends_looks_beside(&self) -> Reply<'_, ()> {
        async move {
            self.release_looks().await;
            Ok(())
        }
        .boxed()
    }

    fn peek<'a>(&'a self, asks: &'a [Ask], reach: Reach) -> Reply<'a, Vec<Share>> {
        let args = (asks.to_vec(), reach);
        self.run(From::Claims, Mode::Read, "cannot look for jobs", args, |conn, (asks, reach)| {
            DB::peek(conn, asks, *reach).boxed()
        })
        .boxed()
    }

    fn take_turn(&self) -> Reply<'_, bool> {
        async move {
            let Some(turn) = DB::CLAIM_TURN.filter(|_| !self.is_lent()) else { return Ok(false) };
            self.run(From::Claims, Mode::Read, "cannot wait for a turn to claim", turn, |conn, turn| {
                async move {
                    match rows::<DB>(conn, turn.take, &[]).await {
                        Ok(rows) => rows.first().map_or(Ok(false), |row| Ok(row.maybe_int(0)? == Some(1))),
                        // It took too long, or this server gives no such locks. It may have been given at the last moment.
                        Err(sqlx::Error::Database(error)) => {
                            tracing::debug!(%error, "no turn to claim");
                            rows::<DB>(conn, turn.give, &[]).await.map_err(unsound).map(|_| false)
                        }
                        Err(error) => Err(error),
                    }
                }
                .boxed()
            })
            .await
        }
        .boxed()
    }

    fn give_turn(&self) -> Reply<'_, ()> {
        async move {
            // with its connection the turn is gone as well
            let Some(turn) = DB::CLAIM_TURN.filter(|_| !self.is_lent()) else { return Ok(()) };
            if !self.keeps_claims().await {
                return Ok(());
            }
            self.run(From::Claims, Mode::Read, "cannot give back a turn to claim", turn, |conn, turn| {
                async move { rows::<DB>(conn, turn.give, &[]).await.map_err(unsound).map(drop) }.boxed()
            })
            .await
        }
        .boxed()
    }

    fn claim<'a>(&'a self, worker: WorkerId, asks: &'a [Ask]) -> Reply<'a, Vec<Claimed>> {
        async move {
            if asks.iter().all(|ask| ask.take == 0) {
                return Ok(Vec::new());
            }
            let args = (worker, asks.to_vec());
            self.run(From::Claims, Mode::Write, "cannot claim jobs", args, |conn, (worker, asks)| {
                DB::claim(conn, *worker, asks).boxed()
            })
            .await
        }
        .boxed()
    }

    fn args(&self, worker: WorkerId, id: i64, fence: i32) -> Reply<'_, Option<String>> {
        let args = (id, worker, i64::from(fence));
        self.run(From::Claims, Mode::Read, "cannot read the arguments of a job", args, |conn, (id, worker, fence)| {
            async move {
                let binds = [(*id).into(), (*worker).into(), (*fence).into()];
                rows::<DB>(conn, include_str!("sql/args.sql"), &binds).await?.first().map(|row| row.text(0)).transpose()
            }
            .boxed()
        })
        .boxed()
    }

    fn claims_alone(&self) -> bool {
        DB::CLAIM_ALONE.is_some()
    }

    fn claim_alone<'a>(&'a self, worker: WorkerId, ask: &'a Ask, kinds: &'a [String]) -> Reply<'a, Vec<Claimed>> {
        async move {
            let Some(claim) = DB::CLAIM_ALONE else { return Ok(Vec::new()) };
            let args = (worker, ask.clone(), kinds.to_vec());
            self.run(From::Claims, Mode::Write, "cannot claim jobs", args, move |conn, (worker, ask, kinds)| {
                claim(conn, *worker, ask, kinds)
            })
            .await
        }
        .boxed()
    }

    fn started<'a>(&'a self, worker: WorkerId, batch: &'a [Start]) -> Reply<'a, Vec<i64>> {
        self.ending("cannot note that jobs have started", DB::STARTED, worker, batch).boxed()
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

    fn rescue<'a>(&'a self, limit: u32, leave_out: &'a HashSet<i64>) -> Reply<'a, (Rescued, Vec<i64>)> {
        async move {
            let doing = "cannot look for lost workers";
            self.about_those_of_the_first(doing, DB::FORGET_CLAIMS).await?;
            let lost = self
                .run(From::Upkeep, Mode::Read, doing, i64::from(limit) + leave_out.len() as i64, |conn, limit| {
                    async move {
                        let lost = rows::<DB>(conn, DB::LOST, &[(*limit).into()]).await?;
                        lost.iter().map(|row| Ok(Lost { id: row.int(0)?, worker_id: row.int(1)? })).collect()
                    }
                    .boxed()
                })
                .await;
            let mut lost: Vec<Lost> = lost?;
            lost.retain(|job| !leave_out.contains(&job.id));
            if lost.is_empty() {
                return Ok((Rescued::default(), Vec::new()));
            }
            lost.sort_unstable_by_key(|job| job.id);
            match self.rescue_some(json(&lost)).await {
                // one row that cannot be moved must not keep the others
                Err(error @ Error::Database { source: sqlx::Error::Database(_), .. }) => {
                    tracing::warn!(%error, jobs = lost.len(), "cannot take lost jobs back together; one by one");
                    self.rescue_one_by_one(&lost).await
                }
                result => Ok((result?, Vec::new())),
            }
        }
        .boxed()
    }

    fn purges_at_once(&self) -> u32 {
        // nobody else writes meanwhile where there is one writer
        if DB::ONE_WRITER { 1_000 } else { 5_000 }
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
            if !any {
                return Ok(0);
            }
            let args = (keep, i64::from(limit));
            self.run(From::Upkeep, Mode::Transaction, DOING, args, |conn, (keep, limit)| {
                async move {
                    let mut over = ids::<DB>(conn, DB::OVER, &[(*keep).into(), (*limit).into()]).await?;
                    over.sort_unstable();
                    let binds = [over.as_slice().into()];
                    let runs = Runs::of(&over);
                    let mut removed = None;
                    for (rows, sql) in DB::PURGE {
                        let touched = match (rows, &runs) {
                            (For::Runs, Some(runs)) => execute::<DB>(conn, sql, &runs.behind(&binds)).await?,
                            (For::Runs, None) | (For::Scattered, Some(_)) => continue,
                            _ => execute::<DB>(conn, sql, &binds).await?,
                        };
                        removed.get_or_insert(touched);
                    }
                    Ok(removed.unwrap_or(0))
                }
                .boxed()
            })
            .await
        }
        .boxed()
    }

    fn purge_workers(&self, keep: Duration) -> Reply<'_, ()> {
        self.run(From::Upkeep, Mode::Write, "cannot remove old workers", micros(keep), |conn, keep| {
            async move {
                execute::<DB>(conn, include_str!("sql/purge_heartbeats.sql"), &[]).await?;
                execute::<DB>(conn, DB::PURGE_WORKERS, &[(*keep).into()]).await.map(drop)
            }
            .boxed()
        })
        .boxed()
    }

    fn watch<'a>(&'a self, wake: &'a (dyn Fn() + Send + Sync)) -> Reply<'a, ()> {
        async move {
            if self.is_lent() {
                // the pooler would lend its session to others, and they would get the notifications
                return std::future::pending().await;
            }
            DB::watch(self.pool(), self.housekeeping(), wake).await.doing("the listener for new jobs failed")
        }
        .boxed()
    }

    fn listen(&self) -> Guard {
        Box::new(SqlStore::listen(self))
    }

    fn stats(&self) -> Reply<'_, Vec<Stat>> {
        inspect::stats(self).boxed()
    }

    fn jobs<'a>(&'a self, filter: &'a Filter) -> Reply<'a, Page<Job>> {
        inspect::jobs(self, filter).boxed()
    }

    fn job(&self, id: JobId) -> Reply<'_, Option<JobDetail>> {
        inspect::job(self, id).boxed()
    }

    fn run_now<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>> {
        inspect::run_now(self, ids).boxed()
    }

    fn reschedule<'a>(&'a self, ids: &'a [i64], run_at: i64) -> Reply<'a, Vec<i64>> {
        inspect::reschedule(self, ids, run_at).boxed()
    }

    fn cancel<'a>(&'a self, ids: &'a [i64], reason: &'a str) -> Reply<'a, Vec<i64>> {
        inspect::cancel(self, ids, reason).boxed()
    }

    fn send_back<'a>(&'a self, ids: &'a [i64]) -> Reply<'a, Vec<i64>> {
        inspect::send_back(self, ids).boxed()
    }

    fn delete<'a>(&'a self, ids: &'a [i64], state: Option<JobState>) -> Reply<'a, Vec<i64>> {
        inspect::delete(self, ids, state).boxed()
    }

    fn edit<'a>(&'a self, id: JobId, args: &'a str) -> Reply<'a, bool> {
        inspect::edit(self, id, args).boxed()
    }

    fn set_paused<'a>(&'a self, queue: &'a str, paused: bool) -> Reply<'a, ()> {
        inspect::set_paused(self, queue, paused).boxed()
    }

    fn queues(&self) -> Reply<'_, Vec<QueueInfo>> {
        inspect::queues(self).boxed()
    }

    fn workers(&self) -> Reply<'_, Vec<WorkerInfo>> {
        inspect::workers(self).boxed()
    }
}

#[cfg(test)]
mod tests;
