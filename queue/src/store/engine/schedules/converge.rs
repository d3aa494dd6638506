//! Making the database have what an application declares.

use std::sync::Arc;

use futures_util::FutureExt;

use crate::error::Error;
use crate::schedule::definition::Definition;
use crate::schedule::plan::ScheduleRow;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{self, Cells, execute, json, rows};
use crate::store::engine::schedules::fire::is_refused;
use crate::store::engine::schedules::rows::read;
use crate::store::schedules::{Converged, Scheduler};

pub(super) async fn converge<DB: Dialect>(
    store: &SqlStore<DB>,
    by: &Scheduler,
    declared: &Arc<[Definition]>,
    digest: &str,
) -> Result<Converged, Error> {
    match converge_on(store, by, declared, Some(digest)).await {
        Err(error) if is_refused::<DB>(&error) => {}
        done => return done,
    }
    // the database refuses one of them: the others are written all the same
    let mut done = Converged::default();
    for definition in &**declared {
        match converge_on(store, by, &[definition.clone()].into(), None).await {
            Ok(part) => {
                done.written.extend(part.written);
                done.conflicts.extend(part.conflicts);
            }
            Err(error) if is_refused::<DB>(&error) => done.refused.push((definition.name.clone(), error.to_string())),
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// With a digest, what is not declared is retired. Without, this is a part of what is declared.
async fn converge_on<DB: Dialect>(
    store: &SqlStore<DB>,
    by: &Scheduler,
    declared: &Arc<[Definition]>,
    digest: Option<&str>,
) -> Result<Converged, Error> {
    let args = (by.clone(), declared.clone(), digest.map(str::to_owned));
    store
        .run(Via::Schedules, Mode::Transaction, "cannot write the declared schedules", args, |conn, args| {
            async move {
                let (by, declared, digest) = args;
                let app = rows::<DB>(conn, DB::SCHEDULES.app, &[(&*by.app).into(), by.worker.into()]).await?;
                let app = app.first().ok_or(sqlx::Error::RowNotFound)?;
                if app.int(1)? == 0 || digest.as_ref().is_some_and(|digest| app.text(0).is_ok_and(|it| it == *digest)) {
                    return Ok(Converged::default()); // somebody else decides by now, or has done it
                }
                let names: Vec<_> = declared.iter().map(|it| it.name.as_str()).collect();
                let names = json(&names);
                let binds = [(&*by.app).into(), names.as_str().into()];
                let lives = |row: &DB::Row| Ok((row.int(0)?, row.int(1)? != 0));
                let found = driver::read::<DB, _>(conn, DB::SCHEDULES.of_app, &binds, lives).await?;
                let ids: Vec<i64> = found.iter().map(|(id, _)| *id).collect();
                let rows = read::<DB>(conn, &ids, 0).await?.into_iter().map(|(row, _)| {
                    let lives = found.iter().any(|(id, lives)| *id == row.id && *lives);
                    (row, lives)
                });
                let mut difference = Difference::between(&by.app, declared, &rows.collect::<Vec<_>>());
                if digest.is_none() {
                    (difference.retire, difference.told.retired) = Default::default();
                }
                difference.write::<DB>(conn, by, digest.as_deref().unwrap_or_default()).await
            }
            .boxed()
        })
        .await
}

/// What has to change.
#[derive(Default)]
struct Difference<'a> {
    define: Vec<&'a Definition>,
    retire: Vec<i64>,
    told: Converged,
}

impl<'a> Difference<'a> {
    /// `rows`: the schedules of the application and those with declared names, each with whether a live worker belongs
    /// to its application.
    fn between(app: &str, declared: &'a [Definition], rows: &[(ScheduleRow, bool)]) -> Self {
        let mut difference = Self::default();
        for definition in declared {
            match rows.iter().find(|(row, _)| row.definition.name == definition.name) {
                Some((row, _))
                    if row.app == app && row.retired_at.is_none() && row.definition.is_same_as(definition) => {}
                Some((row, lives)) if row.app != app && row.retired_at.is_none() && (*lives || row.app.is_empty()) => {
                    difference.told.conflicts.push((definition.name.clone(), row.app.clone()));
                }
                _ => {
                    difference.define.push(definition);
                    difference.told.written.push(definition.name.clone());
                }
            }
        }
        for (row, _) in rows.iter().filter(|(row, _)| row.app == app && row.retired_at.is_none()) {
            if !declared.iter().any(|it| it.name == row.definition.name) {
                difference.retire.push(row.id);
                difference.told.retired.push(row.definition.name.clone());
            }
        }
        difference
    }

    async fn write<DB: Dialect>(
        self,
        conn: &mut DB::Connection,
        by: &Scheduler,
        digest: &str,
    ) -> Result<Converged, sqlx::Error> {
        if !self.define.is_empty() {
            execute::<DB>(conn, DB::SCHEDULES.define, &[json(&self.define).as_str().into(), (&*by.app).into()]).await?;
        }
        if !self.retire.is_empty() {
            execute::<DB>(conn, DB::SCHEDULES.retire, &[self.retire.as_slice().into()]).await?;
        }
        // a conflict is looked at again
        let digest = if self.told.conflicts.is_empty() { digest } else { "" };
        let given_up = i64::from(!self.retire.is_empty());
        for (_, sql) in DB::SCHEDULES.decided.steps() {
            let binds = [(&*by.app).into(), digest.into(), by.worker.into(), given_up.into()];
            execute::<DB>(conn, sql, &binds).await?;
        }
        Ok(self.told)
    }
}
