//! Workers: joining, heartbeats, losses, and the rescue of their jobs.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;

use crate::error::Error;
use crate::limits::micros;
use crate::secrets::row_of;
use crate::state::JobId;
use crate::store::Leases;
use crate::store::engine::connection::notify;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Bind, Cells, execute, json, read, rows};
use crate::store::engine::statement::read::{list, number};
use crate::store::engine::statement::{Script, When, find_then};
use crate::store::values::{Heartbeat, Hold, Holding, Lease, NewWorker, Rescued, Sight, WorkerId};

/// The time limit of a heartbeat: its worker must soon know whether it failed.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(3);

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

    /// `here`: the current run of the server.
    fn sight(&self, here: Option<i64>) -> Sight {
        let Self { id, held, busy, heartbeat, run, late, .. } = *self;
        Sight { id, held: held != 0, busy: busy != 0, heartbeat, had: run.is_some() && run == here, late }
    }
}

/// Reads the answer to a heartbeat, except for this worker's own session. `here`: the current run of the server;
/// `speaks`: sessions carry information about other workers.
fn heartbeat_answer(row: &impl Cells, here: Option<i64>, speaks: bool) -> Result<Heartbeat, sqlx::Error> {
    let to_cancel: Vec<(i64, i32)> = list(row, 2)?;
    let others: Vec<Other> = list(row, 4)?;
    Ok(Heartbeat {
        leases: others.iter().map(Other::lease).collect(),
        others: others.iter().filter(|it| speaks && it.left >= 0).map(|it| it.sight(here)).collect(),
        alive: row.int(0)? != 0,
        work: row.int(1)? != 0,
        cancelled: to_cancel.into_iter().map(|(id, fence)| (JobId::from(id), fence)).collect(),
        ..Heartbeat::default()
    })
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
    /// Earlier attempts that nobody knows to have begun. They count as lost together with this one.
    doubts: i64,
    /// How often the job was lost in a row, including this time unless nobody is to blame.
    losses: i64,
    error: String,
    #[serde(skip)]
    kind: String,
    #[serde(skip)]
    queue: String,
}

impl<DB: Dialect> SqlStore<DB> {
    /// Rescues the lost jobs in `list`, except those that another worker is rescuing.
    async fn rescue_some(&self, list: String) -> Result<Rescued, Error> {
        self.run(Via::Duties, Mode::Transaction, "cannot rescue the jobs of a lost worker", list, |conn, list| {
            async move {
                let fate = |row: &DB::Row| {
                    let (id, fate, error) = (row.int(0)?, row.text(1)?, row.text(4)?);
                    let (doubts, losses, kind, queue) = (row.int(2)?, row.int(3)?, row.text(5)?, row.text(6)?);
                    Ok(Fate { id, fate, doubts, losses, error, kind, queue })
                };
                let fates = read::<DB, _>(conn, DB::LEASES.lock_lost, &[list.as_str().into()], fate).await?;
                if !fates.is_empty() {
                    let list = json(&fates);
                    for (_, sql) in DB::LEASES.rescue.steps() {
                        execute::<DB>(conn, sql, &[list.as_str().into()]).await?;
                    }
                }
                let (jobs, cancelled) =
                    (fates.len() as u64, fates.iter().filter(|job| job.fate == "cancelled").count() as u64);
                let dead = fates.into_iter().filter(|job| job.fate == "dead");
                let buried: Vec<_> = dead.map(|job| (job.kind, job.queue)).collect();
                let dead = buried.len() as u64;
                Ok(Rescued { ready: jobs - dead - cancelled, dead, cancelled, buried })
            }
            .boxed()
        })
        .await
    }

    /// The same, job by job. A job that the database refuses stays as it is, and its id is returned. After two errors
    /// in a row that do not blame the row, the rest is left.
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
            tracing::error!(job.id = job.id, %error, "cannot rescue a lost job");
            left.push(job.id);
            let second = refused.is_some();
            refused = Some(error).filter(|error| !error.blames_the_row());
            if second && refused.is_some() {
                break;
            }
        }
        match refused {
            // if some jobs were rescued, the error is dropped: the next rescue meets it again
            Some(error) if sum == Rescued::default() => Err(error),
            _ => Ok((sum, left)),
        }
    }

    /// Runs a script of [`find_then`].
    async fn find_then(
        &self,
        doing: &'static str,
        script: Script,
        binds: Vec<Bind<'static>>,
    ) -> Result<Vec<i64>, Error> {
        let mode = if script.is_one() { Mode::Write } else { Mode::Transaction };
        self.run(Via::Duties, mode, doing, binds, move |conn, binds| find_then::<DB>(conn, script, binds).boxed()).await
    }
}

#[async_trait]
impl<DB: Dialect> Leases for SqlStore<DB> {
    async fn join(&self, worker: &NewWorker, lease: Duration) -> Result<WorkerId, Error> {
        let worker = worker.clone();
        let queues = json(&worker.queues);
        let kinds = row_of(&worker.kinds, &worker.secrets);
        let limits = serde_json::to_string(&worker.limits).unwrap_or_default();
        let args = (worker, queues, kinds, limits, micros(lease));
        self.run(
            Via::Heartbeats,
            if DB::LEASES.join_heartbeat.is_some() { Mode::Transaction } else { Mode::Write },
            "cannot register the worker",
            args,
            |conn, (worker, queues, kinds, limits, lease)| {
                async move {
                    let binds = [
                        worker.host.as_str().into(),
                        i64::from(worker.pid).into(),
                        i64::from(worker.concurrency).into(),
                        queues.as_str().into(),
                        kinds.as_str().into(),
                        limits.as_str().into(),
                        (*lease).into(),
                    ];
                    let Some(beat) = DB::LEASES.join_heartbeat else {
                        let (sql, arguments) = DB::prepare(DB::LEASES.join, &binds)?;
                        return DB::insert_row(conn, sql, arguments).await;
                    };
                    let (sql, arguments) = DB::prepare(DB::LEASES.join, &binds[..6])?;
                    let id = DB::insert_row(conn, sql, arguments).await?;
                    execute::<DB>(conn, beat, &[id.into(), (*lease).into()]).await?;
                    Ok(id)
                }
                .boxed()
            },
        )
        .await
    }

    async fn heartbeat(
        &self,
        worker: WorkerId,
        lease: Duration,
        holding: Holding<'_>,
        look_for: &[String],
    ) -> Result<Heartbeat, Error> {
        // the pool may have got other connect options meanwhile
        notify::introduce(self.pool());
        let Holding { any, running, settled, check, again_in } = holding;
        let lists = [json(look_for), json(running), json(settled)];
        let times = [micros(lease), micros(again_in)];
        let session = (self.session().clone(), self.is_lent());
        let args = (session, worker, any, times, lists, i64::from(check));
        self.run_within(
            HEARTBEAT_LIMIT,
            Via::Heartbeats,
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
                    let mut news = Vec::new();
                    for (_, sql) in DB::LEASES.heartbeat.steps().filter(|(when, _)| of_claims || *when != When::Claims)
                    {
                        news = rows::<DB>(conn, sql, &binds).await?;
                    }
                    let Some(row) = news.first() else { return Ok(Heartbeat::default()) };
                    let (number, speaks) = session.answered(row.maybe_int(3)?);
                    let speaks = speaks && DB::SESSIONS.is_some();
                    let answer = heartbeat_answer(row, session.run(), speaks)?;
                    let unheld = DB::SESSIONS.is_some() && session.lacks(*worker);
                    Ok(Heartbeat { session: number, unheld, vouched: held.is_some(), ..answer })
                }
                .boxed()
            },
        )
        .await
    }

    async fn declare_lost(&self, worker: WorkerId, heartbeat: i64, by_lease: bool) -> Result<bool, Error> {
        if !by_lease && DB::SESSIONS.is_none() {
            return Ok(false);
        }
        let binds = vec![worker.into(), heartbeat.into(), i64::from(by_lease).into()];
        let lost = self.find_then("cannot declare a worker lost", DB::LEASES.declare_lost, binds);
        Ok(!lost.await?.is_empty())
    }

    async fn holding(&self, worker: WorkerId) -> Result<Vec<Hold>, Error> {
        let held = |row: &DB::Row| Ok(Hold { id: row.int(0)?, fence: number(row.int(1)?)? });
        let doing = "cannot read what the worker holds";
        self.read(Via::Duties, doing, DB::LEASES.holding, &[worker.into()], held).await
    }

    async fn leave(&self, worker: WorkerId, silent: Duration) -> Result<(), Error> {
        let binds = [worker.into(), micros(silent).into()];
        let left = self.write(Via::Heartbeats, "cannot sign the worker off", DB::LEASES.leave, &binds).await;
        self.release().await;
        left.map(drop)
    }

    async fn rescue(&self, limit: u32, leave_out: &HashSet<i64>) -> Result<(Rescued, Vec<i64>), Error> {
        let doing = "cannot find the jobs of lost workers";
        if let Some(script) = DB::LEASES.forget_claims {
            self.find_then(doing, script, Vec::new()).await?;
        }
        let most = i64::from(limit) + leave_out.len() as i64;
        let lost = |row: &DB::Row| Ok(Lost { id: row.int(0)?, worker_id: row.int(1)? });
        let mut lost = self.read(Via::Duties, doing, DB::LEASES.lost, &[most.into()], lost).await?;
        lost.retain(|job| !leave_out.contains(&job.id));
        if lost.is_empty() {
            return Ok((Rescued::default(), Vec::new()));
        }
        lost.sort_unstable_by_key(|job| job.id);
        match self.rescue_some(json(&lost)).await {
            // one row that cannot be moved must not block the others
            Err(error @ Error::Database { source: sqlx::Error::Database(_), .. }) => {
                tracing::warn!(%error, jobs = lost.len(), "cannot rescue lost jobs together; trying one by one");
                self.rescue_one_by_one(&lost).await
            }
            result => Ok((result?, Vec::new())),
        }
    }
}
