//! What [`crate::testing`] asks of a database beyond what workers and the administration do.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;

use crate::error::Error;
use crate::store::TestStore;
use crate::store::engine::connection::{Mode, SqlStore, Via};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, execute, ids};
use crate::store::engine::statement::When;
use crate::store::engine::testing::{Given, Requests};
use crate::store::values::Whose;

/// A store on a lent connection.
pub(crate) fn lent<DB: Dialect>() -> (Arc<dyn TestStore>, Requests<DB>) {
    let (given, requests) = Given::new();
    (Arc::new(SqlStore::<DB>::on(given)), requests)
}

#[async_trait]
impl<DB: Dialect> TestStore for SqlStore<DB> {
    fn is_given(&self) -> bool {
        self.whose() == Whose::InTransaction
    }

    async fn standstill(&self) -> Result<(i64, i64), Error> {
        let Some(sql) = DB::STANDSTILL.filter(|_| self.is_given()) else { return Ok((0, 0)) };
        let found = self.read(Via::Pool, "cannot read the time", sql, &[], |row| match row.int(2)? {
            0 => Ok((0, 0)),
            _ => Ok((row.int(0)?, row.int(1)?)),
        });
        Ok(found.await?.pop().unwrap_or_default())
    }

    async fn shift(&self, micros: i64, after: i64) -> Result<(), Error> {
        const DOING: &str = "cannot move the jobs in time";
        self.run(Via::Pool, Mode::Transaction, DOING, (micros, after), |conn, (micros, after)| {
            async move {
                let mut found = Vec::new();
                for (when, sql) in DB::TESTING.shift.steps() {
                    match when {
                        When::Find => found = ids::<DB>(conn, sql, &[(*after).into()]).await?,
                        When::Found if found.is_empty() => {}
                        When::Found => {
                            execute::<DB>(conn, sql, &[(*micros).into(), found.as_slice().into()]).await?;
                        }
                        _ => drop(execute::<DB>(conn, sql, &[(*micros).into(), (*after).into()]).await?),
                    }
                }
                Ok(())
            }
            .boxed()
        })
        .await
    }
}
