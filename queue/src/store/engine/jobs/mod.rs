//! Jobs, from the claim to the end.

pub(crate) mod complete;
mod ends;
pub(crate) mod enqueue;
pub(crate) mod insert;
mod upkeep;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::FutureExt;

use crate::error::Error;
use crate::store::Jobs;
use crate::store::engine::connection::{LIMIT, Mode, SqlStore, Via};
use crate::store::engine::dialect::{Dialect, Seen};
use crate::store::engine::driver::{Cells, ids, json, rows};
use crate::store::values::{Ask, Claimed, End, Found, Hold, Lane, Reach, Scope, Share, Start, WorkerId};

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
                        let Seen { heads, stopped, round_trips } = DB::discover(conn, kinds, behind, *most).await?;
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
        let Some(lock) = DB::CLAIM_LOCK.filter(|_| !self.is_lent()) else { return Ok(false) };
        self.run(Via::Claims, Mode::Read, "cannot take the claim lock", lock, |conn, lock| {
            async move {
                match rows::<DB>(conn, lock.take, &[]).await {
                    Ok(rows) => rows.first().map_or(Ok(false), |row| Ok(row.maybe_int(0)? == Some(1))),
                    // It took too long, or this server has no such locks. The lock may still have been granted at
                    // the last moment.
                    Err(sqlx::Error::Database(error)) => {
                        tracing::debug!(%error, "did not get the claim lock");
                        rows::<DB>(conn, lock.release, &[]).await.map_err(unsound).map(|_| false)
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
        let Some(lock) = DB::CLAIM_LOCK.filter(|_| !self.is_lent()) else { return Ok(()) };
        match self.line(Via::Claims) {
            Some(line) if line.lock().await.is_some() => {}
            _ => return Ok(()),
        }
        self.run(Via::Claims, Mode::Read, "cannot release the claim lock", lock, |conn, lock| {
            async move { rows::<DB>(conn, lock.release, &[]).await.map_err(unsound).map(drop) }.boxed()
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
        let args = (id, worker, i64::from(fence));
        self.run(Via::Claims, Mode::Read, "cannot read the arguments of a job", args, |conn, (id, worker, fence)| {
            async move {
                let binds = [(*id).into(), (*worker).into(), (*fence).into()];
                rows::<DB>(conn, DB::ATTEMPTS.args, &binds).await?.first().map(|row| row.text(0)).transpose()
            }
            .boxed()
        })
        .await
    }

    async fn undecodable(&self, id: i64) -> Result<Duration, Error> {
        self.run(Via::Duties, Mode::Read, "cannot read the attempts of a job", id, |conn, id| {
            async move {
                let found = rows::<DB>(conn, DB::ATTEMPTS.undecodable, &[(*id).into()]).await?;
                let row = found.first().ok_or(sqlx::Error::RowNotFound)?;
                Ok(Duration::from_micros(u64::try_from(row.int(0)?).unwrap_or(0)))
            }
            .boxed()
        })
        .await
    }

    async fn started(&self, worker: WorkerId, batch: &[Start]) -> Result<Vec<i64>, Error> {
        self.write_starts(worker, batch).await
    }

    async fn end(&self, worker: WorkerId, batch: &[End]) -> Result<Vec<i64>, Error> {
        self.write_ends(worker, batch).await
    }

    async fn still_held(&self, worker: WorkerId, batch: &[Hold]) -> Result<Vec<i64>, Error> {
        let args = (worker, json(batch));
        self.run(Via::Ends, Mode::Read, "cannot look whether jobs are still held", args, |conn, (worker, list)| {
            async move { ids::<DB>(conn, DB::ATTEMPTS.still_held, &[(*worker).into(), list.as_str().into()]).await }
                .boxed()
        })
        .await
    }
}
