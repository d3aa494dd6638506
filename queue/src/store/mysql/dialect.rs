//! MySQL and MariaDB: one driver, two engines. No statement returns what it changed, so rows are locked first.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::FutureExt;
use sqlx::mysql::{MySqlDatabaseError, MySqlRow};
use sqlx::{Error, MySql, MySqlConnection, Pool, Row, SqlStr};

use crate::engine::Engine;
use crate::store::engine::connection::connecting::{Connecting, without_signals};
use crate::store::engine::connection::savepoint::SET_AND_RELEASED;
use crate::store::engine::dialect::{ClaimAlone, Dialect, Seen, topics};
use crate::store::engine::driver::{
    Bind, Cells, Driver, List, add_binds, assembled, driver, json, question_marks, rows,
};
use crate::store::engine::statement::topic;
use crate::store::engine::statement::topics::SessionStatements;
use crate::store::mysql::insert::Refused;
use crate::store::mysql::statement::Runs;
use crate::store::mysql::{claim, discovery, insert, settings};
use crate::store::values::{Ask, Claimed, End, Lane, NewJob, Reach, Share, Whose, WorkerId};

/// See [`Dialect::TRIES_FIRST`]: MySQL does not say whether there is a transaction, MariaDB does.
static TRIES_FIRST: AtomicBool = AtomicBool::new(true);

impl Cells for MySqlRow {
    fn maybe_int(&self, column: usize) -> Result<Option<i64>, Error> {
        self.try_get_unchecked(column)
    }

    fn maybe_text(&self, column: usize) -> Result<Option<String>, Error> {
        self.try_get_unchecked(column)
    }
}

// without autocommit, the session may be in a transaction: START TRANSACTION alone would commit that too
macro_rules! begin_anew {
    () => {
        "COMMIT AND NO CHAIN NO RELEASE; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION"
    };
}

impl Driver for MySql {
    fn prepare(sql: &'static str, binds: &[Bind<'_>]) -> Result<(SqlStr, Self::Arguments), Error> {
        let (sql, places) = question_marks(sql);
        Ok((assembled(sql), add_binds!(Self, places.iter().map(|place| &binds[*place]), json)))
    }

    driver!();

    async fn fetch_anew(conn: &mut MySqlConnection, sql: &'static str) -> Result<Vec<MySqlRow>, Error> {
        sqlx::raw_sql(sql).fetch_all(conn).await
    }

    async fn insert_row(conn: &mut MySqlConnection, sql: SqlStr, arguments: Self::Arguments) -> Result<i64, Error> {
        let done = sqlx::query_with(sql, arguments).execute(conn).await?;
        Ok(done.last_insert_id().cast_signed())
    }
}

impl Connecting for MySql {
    const CONNECTIONS: u32 = 4;
    const ONE_WRITER: bool = false;
    const ENDS_BY_ITSELF: bool = true;
    const BEGIN: &'static str = "BEGIN";
    const BEFORE_BEGIN: Option<&'static str> = Some("SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    const OPEN_LINE: &'static [&'static str] = settings::LINE;
    const END_SILENT: Option<&'static str> =
        Some("SET SESSION wait_timeout = 8, SESSION net_read_timeout = 8, SESSION net_write_timeout = 8");
    // two of these plus the time limit of a ping are less than the server's limit
    const SILENCE: Option<Duration> = Some(Duration::from_millis(1_500));
    // Galera: a worker's connections may lead to different nodes, or to another node after an outage. Reads, updates
    // and inserts (1, 2, 4) first wait for what was committed elsewhere. Otherwise a worker is told that it has no row,
    // or that its jobs are not its own.
    const OPEN_LINE_IN_CLUSTER: Option<(&'static str, &'static str)> = Some((
        "SHOW VARIABLES WHERE variable_name = 'wsrep_on' AND value = 'ON'",
        "SET SESSION wsrep_sync_wait = 7, @queue_in_cluster = 1",
    ));
    const PLAIN_SESSION: Option<&'static str> = Some(settings::PLAIN);
    const BEFORE_MIGRATION: &'static [&'static str] = settings::MIGRATION;
    const LOCK_MIGRATION: Option<&'static str> =
        Some("SELECT GET_LOCK(CONCAT('queue_', SHA2(COALESCE(DATABASE(), ''), 224)), 60)");
    const UNLOCK_MIGRATION: Option<&'static str> =
        Some("SELECT RELEASE_LOCK(CONCAT('queue_', SHA2(COALESCE(DATABASE(), ''), 224)))");
    const DDL_IN_TRANSACTION: bool = false;

    async fn savepoint(conn: &mut MySqlConnection) -> Result<bool, Error> {
        Self::raw(conn, settings::SAVEPOINT).await.map(|()| true).or_else(unless_outside)
    }

    async fn is_open(conn: &mut MySqlConnection) -> Result<bool, Error> {
        Self::raw(conn, SET_AND_RELEASED).await.map(|()| true).or_else(unless_outside)
    }

    fn is_transient(error: &Error) -> bool {
        let Error::Database(error) = error else { return false };
        // deadlock, lock wait timeout, MariaDB: the record has changed since the last read
        error.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|e| matches!(e.number(), 1213 | 1205 | 1020))
    }

    fn poll_interval(idle: Duration) -> Duration {
        without_signals(idle)
    }

    fn address(pool: &Pool<Self>) -> String {
        let options = pool.connect_options();
        format!("{}:{}/{}", options.get_host(), options.get_port(), options.get_database().unwrap_or_default())
    }

    async fn unusable(_pool: &Pool<Self>, conn: &mut MySqlConnection) -> Result<Option<String>, Error> {
        let refuses = !rows::<Self>(conn, settings::REFUSED_BY_LOG, &[]).await?.is_empty();
        Ok(refuses.then(|| settings::LOG_CURE.to_owned()))
    }

    const BEGIN_IN_POOL: &'static str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION";
    const BEGIN_ANEW: &'static str = begin_anew!();
    // without autocommit: after a rollback of the server's own, further statements stay uncommitted
    const BEGIN_TX: &'static str = concat!(
        begin_anew!(),
        "; SET @queue_autocommit = @@autocommit, SESSION autocommit = 0; SAVEPOINT queue_attempt"
    );
    const END_TX: Option<(&'static str, &'static str)> = Some((
        "COMMIT AND NO CHAIN NO RELEASE; SET SESSION autocommit = @queue_autocommit",
        "ROLLBACK AND NO CHAIN NO RELEASE; SET SESSION autocommit = @queue_autocommit",
    ));
    const COMMIT_IN_POOL: &'static str = settings::COMMIT;
    const ROLLBACK_IN_POOL: &'static str = settings::ROLLBACK;
}

impl Dialect for MySql {
    const KIND: Engine = Engine::MySql;
    const ENGINE: &'static str = "MySQL or MariaDB";
    const TRIES_FIRST: Option<&'static AtomicBool> = Some(&TRIES_FIRST);
    // the caller's transaction may be at REPEATABLE READ
    const AS_OF_NOW: &'static str = "\nFOR UPDATE";
    // workers poll often, because there is no signal
    const HEARTBEAT_DISCOVERS: bool = false;
    const CLAIM_ALONE: Option<ClaimAlone<Self>> =
        Some(|conn, worker, ask, kinds| claim::claim_lane(conn, worker, ask, Some(kinds), Whose::Pools).boxed());

    const SESSIONS: Option<SessionStatements> = Some(SessionStatements::of(topic!("mysql", "sessions")));
    topics!("mysql");

    fn runs<'a>(ids: &[i64], others: &[Bind<'a>]) -> Option<Vec<Bind<'a>>> {
        Runs::of(ids).map(|runs| runs.behind(others))
    }

    fn finish_list(batch: &[End]) -> List {
        let rows = batch
            .iter()
            .map(|end| (end.hold.id, end.hold.fence, end.ran_us, end.outcome, end.result(), end.error.as_deref()));
        json(&rows.collect::<Vec<_>>()).into()
    }

    async fn discover(
        conn: &mut MySqlConnection,
        kinds: &[String],
        behind_these: &[Lane],
        most: usize,
    ) -> Result<Seen, Error> {
        discovery::discover(conn, kinds, behind_these, most).await
    }

    async fn preview(conn: &mut MySqlConnection, asks: &[Ask], reach: Reach) -> Result<Vec<Share>, Error> {
        claim::preview(conn, asks, reach).await
    }

    async fn claim(
        conn: &mut MySqlConnection,
        worker: WorkerId,
        asks: &[Ask],
        whose: Whose,
    ) -> Result<Vec<Claimed>, Error> {
        claim::claim(conn, worker, asks, whose).await
    }

    async fn insert(conn: &mut MySqlConnection, jobs: &[NewJob], whose: Whose) -> Result<Vec<i64>, Error> {
        match insert::insert(conn, jobs, whose).await {
            Err(Refused::NotCommitted) => {
                // a session whose statements do not commit by themselves
                Self::raw(conn, settings::BEGIN).await?;
                let written = insert::insert(conn, jobs, Whose::InTransaction).await;
                let end = if written.is_ok() { settings::COMMIT } else { settings::ROLLBACK };
                Self::raw(conn, end).await?;
                written.map_err(Refused::into_error)
            }
            result => result.map_err(Refused::into_error),
        }
    }
}

/// Outside a transaction a savepoint is gone at once, so its release fails.
fn unless_outside(error: Error) -> Result<bool, Error> {
    let is_outside = |error: &MySqlDatabaseError| error.number() == 1305;
    match &error {
        Error::Database(refused) if refused.try_downcast_ref().is_some_and(is_outside) => Ok(false),
        _ => Err(error),
    }
}
