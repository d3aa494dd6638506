//! Opening the database: its schema, its connections, and what wakes a worker.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{try_join, try_join_all};
use sqlx::Connection as _;

use crate::error::{Doing, Error};
use crate::store::engine::connection::connecting::without_signals;
use crate::store::engine::connection::line::{Line, connect};
use crate::store::engine::connection::notify::{self, can_spare_one};
use crate::store::engine::connection::{LIMIT, Mode, SqlStore, Via, end_of};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, rows};
use crate::store::engine::migrate;
use crate::store::{Access, Capabilities, Guard, Trouble};

/// The error of a worker that finds itself behind a pooler.
const LENT_UNSAID: &str = "the database's sessions change under the worker's connections, as behind PgBouncer in \
    transaction mode: add `.transaction_pooler(true)`, or give the worker a direct connection or a pool in session \
    mode";

const OPENING: &str = "cannot open the connections that a worker keeps";

impl<DB: Dialect> SqlStore<DB> {
    /// Whether a pooler lends sessions although nobody said so. This sets nothing: in a lent session, settings would
    /// reach other clients.
    async fn lends_unsaid(&self) -> Result<bool, Error> {
        const ROUNDS: usize = 3;
        let Some(sql) = DB::SESSION else { return Ok(false) };
        let pool = self.pool().clone();
        // a task survives its caller, so no transaction stays open in a lent session
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
        let answer = tokio::time::timeout(LIMIT, end_of(asked)).await.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        answer.doing(OPENING)?.doing(OPENING)
    }
}

#[async_trait]
impl<DB: Dialect> Access for SqlStore<DB> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: DB::ENGINE,
            // no listener where sessions are lent
            connections_kept: DB::CONNECTIONS - u32::from(self.is_lent())
                + u32::from(cfg!(feature = "schedules") && !DB::ONE_WRITER),
            connections_allowed: self.pool().options().get_max_connections(),
            heartbeats_wait: DB::ONE_WRITER,
            lock_patience: if DB::ONE_WRITER { Duration::ZERO } else { Duration::from_secs(1) },
            heartbeats_discover: DB::HEARTBEAT_DISCOVERS && !self.is_lent(),
            claims_alone: DB::CLAIM_ALONE.is_some(),
            // with one writer, nobody else can write during a purge
            purge_batch: if DB::ONE_WRITER { 1_000 } else { 5_000 },
        }
    }

    fn has_spare_connection(&self) -> bool {
        let keeps_one = self.line(Via::Discovery).is_some_and(Line::is_kept);
        keeps_one || (self.capabilities().connections_allowed > 1 && can_spare_one(self.pool()))
    }

    fn poll_interval(&self, idle: Duration) -> Duration {
        if self.is_lent() { without_signals(idle) } else { DB::poll_interval(idle) }
    }

    fn trouble(&self, error: &Error) -> Trouble {
        let Error::Database { source, .. } = error else { return Trouble::Away };
        if DB::ONE_WRITER && DB::is_transient(source) {
            Trouble::KeptWaiting
        } else if DB::is_refusal(source) {
            Trouble::Refused
        } else {
            Trouble::Away
        }
    }

    fn lend_sessions(&self) -> bool {
        self.0.lent.store(true, Ordering::Relaxed);
        DB::BEGIN_LENT.is_some()
    }

    async fn open(&self) -> Result<(), Error> {
        DB::warn_of_options(self.pool());
        if !self.is_lent() && self.lends_unsaid().await? {
            return Err(Error::config(LENT_UNSAID));
        }
        // all that a worker keeps, except the one for discovery
        let open = |via| self.run(via, Mode::Read, OPENING, (), |_, ()| std::future::ready(Ok(())).boxed());
        try_join_all([Via::Claims, Via::Ends, Via::Heartbeats, Via::Duties].map(open)).await?;
        migrate::check(self).await
    }

    fn abandon(&self) {
        let mut under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *under_way).cancel();
    }

    fn subscribe(&self, notify: Arc<tokio::sync::Notify>) -> Guard {
        Box::new(notify::subscribe(self.pool(), notify))
    }

    fn listen(&self) -> Guard {
        // Only where claims have a connection of their own. Elsewhere they may wait for that of the ends.
        match self.0.beside.try_lock().as_deref() {
            Ok(Some(Some(_))) => Box::new(self.0.turns.listen()),
            _ => Box::new(()),
        }
    }

    async fn watch(&self, wake: &(dyn Fn() + Send + Sync)) -> Result<(), Error> {
        if self.is_lent() {
            // the pooler would lend the listening session to others, which would get the notifications
            return std::future::pending().await;
        }
        DB::watch(self.pool(), wake).await.doing("the listener for new jobs failed")
    }
}
