//! Retention, and the sweep of unique keys.

#[cfg(feature = "schedules")]
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;

use crate::error::Error;
use crate::limits::micros;
use crate::state::JobState;
use crate::store::Upkeep;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, execute, ids};
use crate::store::engine::statement::script::When;
use crate::store::engine::unique::sweep;

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
        sweep::purged(self, &over).await?;
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
        sweep::round(self, hand, is_its_turn).await
    }
}
