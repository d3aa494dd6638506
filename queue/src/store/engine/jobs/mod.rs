//! Jobs, from the claim to the end, and what is removed afterwards.

pub(crate) mod ends;
pub(crate) mod enqueue;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::FutureExt;

use crate::error::{Doing as _, Error};
use crate::limits::micros;
use crate::state::JobState;
use crate::store::engine::connection::{LIMIT, Mode, SqlStore, Via};
use crate::store::engine::dialect::{Dialect, Seen};
use crate::store::engine::driver::{Cells, execute, ids, json, rows};
use crate::store::engine::jobs::ends::{Batch, clean, forget, is_recorded, listed};
use crate::store::engine::operations;
use crate::store::engine::statement::When;
use crate::store::engine::tallies;
use crate::store::engine::unique::keys;
use crate::store::values::{
    Ask, Claimed, Destination, End, FailureRow, Found, Hold, Lane, Reach, Scope, Share, Start, TallyRow, WorkerId,
};
use crate::store::{AdminStore, Jobs, Upkeep};

/// The time limit of a discovery that keeps nobody waiting.
pub(super) const LOOK_LIMIT: Duration = Duration::from_secs(30);

/// An error after which the connection is not used again, whatever the server reported.
fn unsound(error: sqlx::Error) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::other(error))
}

impl<DB: Dialect> SqlStore<DB> {
    async fn look(
        &self,
        via: Via,
        limit: Duration,
        scope: &Scope,
        behind: &[Lane],
        most: usize,
    ) -> Result<Found, Error> {
        // so that every kind is reached
        let most = most.max(scope.kinds.len() * 2);
        let args = (scope.kinds.clone(), behind.to_vec(), most, self.distance().clone());
        let mut found = self
            .run_within(
                limit,
                via,
                Mode::Read,
                "cannot discover jobs",
                args,
                |conn, (kinds, behind, most, distance)| {
                    async move {
                        let started = Instant::now();
                        let Seen { heads, stopped, round_trips, now } =
                            DB::discover(conn, kinds, behind, *most).await?;
                        let took = distance.without_network::<DB>(conn, started.elapsed(), round_trips).await?;
                        Ok(Found { heads, stopped, took, now })
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

#[async_trait]
impl<DB: Dialect> Jobs for SqlStore<DB> {
    async fn discover(&self, scope: &Scope, behind: &[Lane], most: usize, beside: bool) -> Result<Found, Error> {
        if beside {
            return self.look(Via::Discovery, LOOK_LIMIT, scope, behind, most).await;
        }
        if let Some(line) = self.line(Via::Discovery) {
            line.close_if_idle().await;
        }
        self.look(Via::Claims, LIMIT, scope, behind, most).await
    }

    async fn preview(&self, asks: &[Ask], reach: Reach) -> Result<Vec<Share>, Error> {
        let args = (asks.to_vec(), reach);
        self.run(Via::Claims, Mode::Read, "cannot preview jobs", args, |conn, (asks, reach)| {
            DB::preview(conn, asks, *reach).boxed()
        })
        .await
    }

    async fn take_claim_lock(&self) -> Result<bool, Error> {
        let Some(locks) = DB::SESSIONS.filter(|_| !self.is_lent()) else { return Ok(false) };
        self.run(Via::Claims, Mode::Read, "cannot take the claim lock", locks, |conn, locks| {
            async move {
                match rows::<DB>(conn, locks.claim_lock, &[]).await {
                    Ok(rows) => rows.first().map_or(Ok(false), |row| Ok(row.maybe_int(0)? == Some(1))),
                    // It took too long, or this server has no such locks. The lock may still have been granted at
                    // the last moment.
                    Err(sqlx::Error::Database(error)) => {
                        tracing::debug!(%error, "did not get the claim lock");
                        rows::<DB>(conn, locks.claim_unlock, &[]).await.map_err(unsound).map(|_| false)
                    }
                    Err(error) => Err(error),
                }
            }
            .boxed()
        })
        .await
    }

    async fn release_claim_lock(&self) -> Result<(), Error> {
        // the lock ended with its connection
        let Some(locks) = DB::SESSIONS.filter(|_| !self.is_lent()) else { return Ok(()) };
        match self.line(Via::Claims) {
            Some(line) if line.lock().await.is_some() => {}
            _ => return Ok(()),
        }
        self.run(Via::Claims, Mode::Read, "cannot release the claim lock", locks, |conn, locks| {
            async move { rows::<DB>(conn, locks.claim_unlock, &[]).await.map_err(unsound).map(drop) }.boxed()
        })
        .await
    }

    async fn claim(&self, worker: WorkerId, asks: &[Ask], alone: Option<&[String]>) -> Result<Vec<Claimed>, Error> {
        const DOING: &str = "cannot claim jobs";
        match (alone, DB::CLAIM_ALONE, asks) {
            _ if asks.iter().all(|ask| ask.take == 0) => Ok(Vec::new()),
            (None, _, _) => {
                let args = (worker, asks.to_vec(), self.whose());
                self.run(Via::Claims, Mode::Write, DOING, args, |conn, (worker, asks, whose)| {
                    DB::claim(conn, *worker, asks, *whose).boxed()
                })
                .await
            }
            (Some(kinds), Some(claim), [ask, ..]) => {
                let args = (worker, ask.clone(), kinds.to_vec());
                self.run(Via::Claims, Mode::Write, DOING, args, move |conn, (worker, ask, kinds)| {
                    claim(conn, *worker, ask, kinds)
                })
                .await
            }
            (Some(_), ..) => Ok(Vec::new()),
        }
    }

    async fn args(&self, worker: WorkerId, id: i64, fence: i32) -> Result<Option<String>, Error> {
        let binds = [id.into(), worker.into(), i64::from(fence).into()];
        let doing = "cannot read the arguments of a job";
        Ok(self.read(Via::Claims, doing, DB::ATTEMPTS.args, &binds, |row| row.text(0)).await?.pop())
    }

    async fn undecodable(&self, id: i64) -> Result<Duration, Error> {
        const DOING: &str = "cannot read the attempts of a job";
        let found = self.read(Via::Duties, DOING, DB::ATTEMPTS.undecodable, &[id.into()], |row| row.int(0)).await?;
        let micros = *found.first().ok_or(sqlx::Error::RowNotFound).doing(DOING)?;
        Ok(Duration::from_micros(u64::try_from(micros).unwrap_or(0)))
    }

    async fn started(&self, worker: WorkerId, starts: &[Start]) -> Result<Vec<i64>, Error> {
        let mut starts = starts.to_vec();
        starts.sort_unstable_by_key(|start| start.hold.key());
        self.write_batch(
            worker,
            Batch {
                doing: "cannot note that jobs have started",
                script: DB::ATTEMPTS.started,
                jobs: starts.iter().map(|start| start.hold.id).collect(),
                list: json(&starts).into(),
                recorded: false,
                forgetting: false,
            },
        )
        .await
    }

    async fn end(&self, worker: WorkerId, ends: &[End]) -> Result<Vec<i64>, Error> {
        let Some(first) = ends.first() else { return Ok(Vec::new()) };
        let goes_with_it = |end: &End| std::mem::discriminant(&end.to) == std::mem::discriminant(&first.to);
        debug_assert!(ends.iter().all(goes_with_it), "one statement has one destination");
        let mut ends: Vec<End> = ends.iter().map(clean).collect();
        ends.sort_unstable_by_key(|end| end.hold.key());
        let (doing, script, list) = match first.to {
            Destination::Finish { .. } => ("cannot store finished jobs", DB::ATTEMPTS.finish, DB::finish_list(&ends)),
            Destination::Requeue { .. } => ("cannot return jobs to the queue", DB::ATTEMPTS.requeue, listed(&ends)),
            Destination::Bury => ("cannot store dead letters", DB::ATTEMPTS.bury, listed(&ends)),
        };
        let (recorded, forgetting) = (ends.iter().any(is_recorded), ends.iter().any(|end| forget(end).is_some()));
        let jobs = ends.iter().map(|end| end.hold.id).collect();
        self.write_batch(worker, Batch { doing, script, jobs, list, recorded, forgetting }).await
    }

    async fn still_held(&self, worker: WorkerId, batch: &[Hold]) -> Result<Vec<i64>, Error> {
        let (doing, list) = ("cannot look whether jobs are still held", json(batch));
        let binds = [worker.into(), list.as_str().into()];
        self.read(Via::Ends, doing, DB::ATTEMPTS.still_held, &binds, |row| row.int(0)).await
    }
}

impl<DB: Dialect> SqlStore<DB> {
    async fn purge_jobs(&self, keep: i64, limit: u32) -> Result<u64, Error> {
        const DOING: &str = "cannot remove old history";
        // usually there is nothing to remove, and this check is cheap
        let any = [keep.into(), 1.into()];
        let any = !self.read(Via::Duties, DOING, DB::RETENTION.over, &any, |row| row.int(0)).await?.is_empty();
        if !any {
            return Ok(0);
        }
        let args = (keep, i64::from(limit));
        let (removed, over) = self
            .run(Via::Duties, Mode::Transaction, DOING, args, |conn, (keep, limit)| {
                async move {
                    let mut over = ids::<DB>(conn, DB::RETENTION.over, &[(*keep).into(), (*limit).into()]).await?;
                    over.sort_unstable();
                    let binds = [over.as_slice().into()];
                    let runs = DB::runs(&over, &binds);
                    let mut removed = None;
                    for (when, sql) in DB::RETENTION.purge.steps() {
                        let touched = match (when, &runs) {
                            (When::Runs, Some(runs)) => execute::<DB>(conn, sql, runs).await?,
                            (When::Runs, None) | (When::Scattered, Some(_)) => continue,
                            _ => execute::<DB>(conn, sql, &binds).await?,
                        };
                        removed.get_or_insert(touched);
                    }
                    Ok((removed.unwrap_or(0), over))
                }
                .boxed()
            })
            .await?;
        keys::purged(self, &over).await?;
        Ok(removed)
    }

    async fn purge_workers(&self, keep: i64) -> Result<(), Error> {
        self.run(Via::Duties, Mode::Write, "cannot remove old workers", keep, |conn, keep| {
            async move {
                execute::<DB>(conn, DB::LEASES.purge_heartbeats, &[]).await?;
                execute::<DB>(conn, DB::LEASES.purge_workers, &[(*keep).into()]).await.map(drop)
            }
            .boxed()
        })
        .await
    }
}

#[async_trait]
impl<DB: Dialect> Upkeep for SqlStore<DB> {
    async fn purge(&self, keep: Duration, limit: u32, workers: bool) -> Result<u64, Error> {
        let keep = micros(keep);
        let removed = self.purge_jobs(keep, limit).await?;
        if workers {
            self.purge_workers(keep).await?;
        }
        Ok(removed)
    }

    async fn delete(&self, ids: &[i64], state: Option<JobState>) -> Result<Vec<i64>, Error> {
        self.delete_jobs(ids, state).await
    }

    #[cfg(feature = "schedules")]
    fn schedules(&self) -> Arc<dyn crate::store::ScheduleStore> {
        Arc::new(self.clone())
    }

    async fn sweep_keys(&self, hand: &mut Option<i64>, is_its_turn: bool) -> Result<(), Error> {
        keys::round(self, hand, is_its_turn).await
    }

    async fn unattended(&self, silent: Duration) -> Result<Option<i64>, Error> {
        operations::unattended(self, micros(silent)).await
    }

    async fn purge_operations(&self, keep: Duration) -> Result<(), Error> {
        operations::purge(self, micros(keep)).await
    }

    fn administration(&self) -> Arc<dyn AdminStore> {
        Arc::new(self.clone())
    }

    async fn add_tallies(&self, rows: &[TallyRow], failures: &[FailureRow]) -> Result<(), Error> {
        tallies::add(self, rows, failures).await
    }

    async fn purge_tallies(&self) -> Result<(), Error> {
        tallies::purge(self).await
    }
}
