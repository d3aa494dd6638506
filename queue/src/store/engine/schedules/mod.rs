//! Schedules: looking, firing, what applications declare, and their administration.

mod admin;
mod converge;

mod fire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;

use crate::error::Error;
use crate::limits::micros;
use crate::schedule::definition::Definition;
use crate::schedule::plan::ScheduleRow;
use crate::store::ScheduleStore;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, execute, json, rows};
use crate::store::engine::statement::read::{list, number, time};
use crate::store::engine::statement::script::When;
use crate::store::schedules::{Change, Converged, Fired, Kinds, Named, Noted, Scheduler, Seen};

/// The most schedules that one look finds.
const MOST_DUE: i64 = 1_000;

/// Reads schedules by id, each with whether a live worker knows its kind.
async fn read<DB: Dialect>(
    conn: &mut DB::Connection,
    ids: &[i64],
    ahead: i64,
) -> Result<Vec<(ScheduleRow, bool)>, sqlx::Error> {
    let found = rows::<DB>(conn, DB::SCHEDULES.rows, &[ids.into(), ahead.into()]).await?;
    found.iter().map(|found| Ok((row(found)?, found.int(25)? != 0))).collect()
}

fn row(row: &impl Cells) -> Result<ScheduleRow, sqlx::Error> {
    Ok(ScheduleRow {
        id: row.int(0)?,
        app: row.text(2)?,
        definition: Definition {
            name: row.text(1)?,
            kind: row.text(3)?,
            queue: row.text(4)?,
            args: row.text(5)?,
            priority: number(row.int(6)?)?,
            max_retries: row.maybe_int(7)?.map(number).transpose()?,
            expression: row.text(8)?,
            zone: row.text(9)?,
            gap: row.maybe_text(10)?,
            fold: row.maybe_text(11)?,
            missed: row.text(12)?,
            window_s: row.maybe_int(13)?,
            overlap: row.text(14)?,
            jitter_ms: row.int(15)?,
        },
        changed_at: time(row, 16)?,
        paused_at: row.maybe_int(17)?,
        retired_at: row.maybe_int(18)?,
        next_at: row.maybe_int(19)?,
        last_at: row.maybe_int(20)?,
        last_job_id: row.maybe_int(21)?,
        error: row.maybe_text(22)?,
        now: row.int(23)?,
        busy: row.maybe_int(24)?,
    })
}

fn seen(row: &impl Cells) -> Result<Seen, sqlx::Error> {
    let next = row.maybe_int(1)?.map(|next| Duration::from_micros(u64::try_from(next).unwrap_or(0)));
    Ok(Seen {
        due: list(row, 0)?,
        next,
        since: row.maybe_int(2)?,
        decides: row.int(3)? != 0,
        digest: row.maybe_text(4)?,
        orphans: list(row, 5)?,
    })
}

#[async_trait]
impl<DB: Dialect> ScheduleStore for SqlStore<DB> {
    async fn look(&self, by: &Scheduler, kinds: &[String], ahead: i64) -> Result<Seen, Error> {
        let args = (by.app.clone(), json(kinds), by.worker, ahead);
        self.run(Via::Schedules, Mode::Read, "cannot look for schedules", args, |conn, (app, kinds, worker, ahead)| {
            async move {
                let binds =
                    [(&**app).into(), kinds.as_str().into(), (*worker).into(), MOST_DUE.into(), (*ahead).into()];
                let found = rows::<DB>(conn, DB::SCHEDULES.look, &binds).await?;
                seen(found.first().ok_or(sqlx::Error::RowNotFound)?)
            }
            .boxed()
        })
        .await
    }

    async fn register(&self, by: &Scheduler, since: Option<i64>) -> Result<(), Error> {
        let args = (by.clone(), since);
        self.run(Via::Schedules, Mode::Transaction, "cannot register for schedules", args, |conn, (by, since)| {
            async move {
                for (_, sql) in DB::SCHEDULES.register.steps() {
                    execute::<DB>(conn, sql, &[by.worker.into(), (&*by.app).into(), (*since).into()]).await?;
                }
                Ok(())
            }
            .boxed()
        })
        .await
    }

    async fn fire(&self, ids: &[i64], kinds: &Kinds, ahead: i64) -> Result<Fired, Error> {
        fire::fire(self, ids, kinds, ahead).await
    }

    #[cfg(feature = "testing")]
    async fn adopt(&self, ahead: i64) -> Result<(), Error> {
        self.run(Via::Schedules, Mode::Write, "cannot move schedules in time", ahead, |conn, ahead| {
            async move { execute::<DB>(conn, DB::TESTING.adopt, &[(*ahead).into()]).await.map(drop) }.boxed()
        })
        .await
    }

    #[cfg(feature = "testing")]
    async fn fire_on_time(&self, id: i64, kinds: &Kinds, ahead: i64) -> Result<usize, Error> {
        fire::fire_on_time(self, id, kinds, ahead).await
    }

    async fn mark_orphans(&self, ids: &[i64], ahead: i64) -> Result<Vec<(String, String)>, Error> {
        fire::mark_orphans(self, ids, ahead).await
    }

    async fn converge(&self, by: &Scheduler, declared: &Arc<[Definition]>, digest: &str) -> Result<Converged, Error> {
        converge::converge(self, by, declared, digest).await
    }

    async fn silent(&self) -> Result<Vec<String>, Error> {
        self.run(Via::Schedules, Mode::Read, "cannot look for silent schedules", (), |conn, ()| {
            async move {
                let found = rows::<DB>(conn, DB::SCHEDULES.silent, &[]).await?;
                found.iter().map(|row| row.text(0)).collect()
            }
            .boxed()
        })
        .await
    }

    async fn purge_ticks(&self, keep: Duration, limit: u32) -> Result<u64, Error> {
        let args = (micros(keep), i64::from(limit));
        self.run(Via::Schedules, Mode::Transaction, "cannot remove old ticks", args, |conn, (keep, limit)| {
            async move {
                let mut removed = 0;
                for (when, sql) in DB::SCHEDULES.purge.steps() {
                    let binds = [(*keep).into(), (*limit).into()];
                    let touched = execute::<DB>(conn, sql, &binds).await?;
                    removed += if when == When::Each { touched } else { 0 };
                }
                Ok(removed)
            }
            .boxed()
        })
        .await
    }

    async fn define(&self, definition: &Definition) -> Result<Named<()>, Error> {
        admin::define(self, definition).await
    }

    async fn change(&self, name: &str, change: Change) -> Result<Named<()>, Error> {
        admin::change(self, name, change).await
    }

    async fn fire_by_hand(&self, name: &str, max_retries: for<'k> fn(&'k str) -> u32) -> Result<Named<i64>, Error> {
        admin::fire_by_hand(self, name, max_retries).await
    }

    async fn list(&self, after: &str, limit: u32) -> Result<Vec<(ScheduleRow, bool)>, Error> {
        admin::list(self, after, limit).await
    }

    async fn history(&self, name: &str, before: i64, limit: u32) -> Result<Named<Vec<Noted>>, Error> {
        admin::history(self, name, before, limit).await
    }

    async fn tick_of(&self, job: i64) -> Result<Option<(String, i64, String)>, Error> {
        // a handler may hold the pool's last connection
        self.run(Via::Schedules, Mode::Read, "cannot read the job's tick", job, |conn, job| {
            async move {
                let found = rows::<DB>(conn, DB::SCHEDULES.tick_of, &[(*job).into()]).await?;
                found.first().map(|row| Ok((row.text(0)?, row.int(1)?, row.text(2)?))).transpose()
            }
            .boxed()
        })
        .await
    }
}
