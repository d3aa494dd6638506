//! Connections: the user's pool and the worker's own ones. How an operation reaches the database: on which of them,
//! within which time limit, and with which retries.
//!
//! Every operation runs as a task of its own. A caller may drop the future midway (a timeout, a `select!`). The
//! operation still runs to its end, so no connection is left inside a statement or a transaction. An operation that
//! reaches its time limit discards its connection.

pub(crate) mod access;
pub(crate) mod connecting;
pub(crate) mod line;
pub(crate) mod notify;
pub(crate) mod savepoint;
pub(crate) mod session;
pub(crate) mod write_queue;

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture, join_all, join3};
use sqlx::{Connection, Pool};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::{Doing, Error};
use crate::store::engine::connection::connecting::Beside;
use crate::store::engine::connection::line::{Conn, Distance, Kept, Line, SILENCE, connect, open_line};
use crate::store::engine::connection::savepoint::ended;
use crate::store::engine::connection::session::Session;
use crate::store::engine::connection::write_queue::{Errand, Turns};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Bind, rows};
#[cfg(feature = "testing")]
use crate::store::engine::testing::Given;
use crate::store::values::Whose;
#[cfg(feature = "testing")]
use sqlx::pool::PoolOptions;

/// The time limit of an operation, with all its retries.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
/// The same for queries that read every row.
pub(crate) const COUNT_LIMIT: Duration = Duration::from_secs(120);

/// The store on a pool. Cheap to clone.
pub(crate) struct SqlStore<DB: Dialect>(Arc<StoreParts<DB>>);

struct StoreParts<DB: Dialect> {
    pool: Pool<DB>,
    turns: Turns,
    /// Cancelled to give up the operations in progress, and then replaced.
    under_way: std::sync::Mutex<CancellationToken>,
    /// The worker's own connections, in the order of [`Via::OWN`].
    lines: [Line<DB>; Via::OWN.len()],
    /// The session of the heartbeats, which holds their locks.
    session: Session,
    distance: Distance,
    /// See [`SqlStore::has_keys`].
    has_keys: AtomicBool,
    /// Whether a task pings these connections.
    pinged: AtomicBool,
    /// A pooler lends the server's sessions to our connections, for one transaction at a time.
    lent: AtomicBool,
    /// See `Connecting::open_beside`. None: not tried yet; `Some(None)`: there can be none.
    beside: Mutex<Option<Option<Beside<DB>>>>,
    /// Somebody else's connection, for all operations.
    #[cfg(feature = "testing")]
    given: Option<Given<DB>>,
}

impl<DB: Dialect> Clone for SqlStore<DB> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The connection that an operation uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// The worker's own connection for claims.
    Claims,
    /// The worker's own connection for the ends of attempts.
    Ends,
    /// The worker's own connection for heartbeats: nothing slow may delay one.
    Heartbeats,
    /// The worker's own connection for rescue and retention.
    Duties,
    /// The worker's own connection for discovery beside the claims, while it is needed.
    Discovery,
    /// The worker's own connection for schedules, from the first look on: no tick waits for retention.
    Schedules,
    /// A connection of the user's pool.
    Pool,
}

impl Via {
    const OWN: [Self; 6] = [Self::Claims, Self::Ends, Self::Heartbeats, Self::Duties, Self::Discovery, Self::Schedules];

    /// Whether it runs transactions. A heartbeat runs single statements, so it holds no row lock between two of them.
    fn has_transactions(self) -> bool {
        matches!(self, Self::Claims | Self::Ends | Self::Duties | Self::Schedules)
    }

    /// Its priority among the writers, where only one can write at a time.
    fn errand(self) -> Errand {
        match self {
            Self::Claims => Errand::Claim,
            Self::Ends => Errand::Ends,
            Self::Heartbeats | Self::Duties => Errand::Upkeep,
            Self::Pool | Self::Discovery | Self::Schedules => Errand::Other,
        }
    }
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Statements that write nothing.
    Read,
    /// One statement that writes, or a body that manages its own transaction.
    Write,
    /// One statement that writes. It must not become part of a transaction that somebody has left open on a connection
    /// of the pool.
    Alone,
    /// Several statements in one transaction.
    Transaction,
}

impl<DB: Dialect> SqlStore<DB> {
    pub(crate) fn new(pool: Pool<DB>) -> Self {
        Self(Arc::new(StoreParts {
            turns: Turns::of(&pool),
            pool,
            under_way: std::sync::Mutex::default(),
            lines: Default::default(),
            session: Session::default(),
            distance: Distance::default(),
            has_keys: AtomicBool::new(false),
            pinged: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            beside: Mutex::default(),
            #[cfg(feature = "testing")]
            given: None,
        }))
    }

    /// A store that works on somebody else's connection, in a transaction of theirs. It has no other one.
    #[cfg(feature = "testing")]
    pub(crate) fn on(given: Given<DB>) -> Self {
        // of a pool that never connects
        let nowhere = format!("{}://nowhere/nowhere", DB::URL_SCHEMES[0]);
        let nowhere = nowhere.parse().unwrap_or_else(|_| panic!("`{nowhere}` is an address"));
        let mut store = Self::new(PoolOptions::new().idle_timeout(None).max_lifetime(None).connect_lazy_with(nowhere));
        Arc::get_mut(&mut store.0).expect("nobody else has it yet").given = Some(given);
        store
    }

    /// Whose transaction a claim runs in.
    pub(crate) fn whose(&self) -> Whose {
        #[cfg(feature = "testing")]
        if self.0.given.is_some() {
            return Whose::InTransaction;
        }
        Whose::Pools
    }

    /// The user's pool.
    pub(crate) fn pool(&self) -> &Pool<DB> {
        &self.0.pool
    }

    /// Whether a pooler lends the server's sessions.
    pub(crate) fn is_lent(&self) -> bool {
        self.0.lent.load(Ordering::Relaxed)
    }

    /// The session of this worker's heartbeats.
    pub(crate) fn session(&self) -> &Session {
        &self.0.session
    }

    /// Runs `body` with a connection and the values in `args`, and retries after conflicts. `doing` begins the error
    /// message.
    pub(crate) async fn run<A, T, F>(
        &self,
        via: Via,
        mode: Mode,
        doing: &'static str,
        args: A,
        body: F,
    ) -> Result<T, Error>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'c> Fn(&'c mut DB::Connection, &'c A) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + Sync + 'static,
    {
        self.run_within(LIMIT, via, mode, doing, args, body).await
    }

    /// [`run`](Self::run) with another time limit.
    pub(crate) async fn run_within<A, T, F>(
        &self,
        limit: Duration,
        via: Via,
        mode: Mode,
        doing: &'static str,
        args: A,
        body: F,
    ) -> Result<T, Error>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
        F: for<'c> Fn(&'c mut DB::Connection, &'c A) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + Sync + 'static,
    {
        #[cfg(feature = "testing")]
        if let Some(given) = &self.0.given {
            return given.run(args, body).await.doing(doing);
        }
        let store = self.clone();
        let operation = async move {
            let mut pauses = pauses(limit);
            loop {
                match store.once(via, mode, limit, &args, &body).await {
                    Err(error) if DB::is_transient(&error) => match pauses.next() {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return Err(error),
                    },
                    result => return result,
                }
            }
        };
        let task = if DB::ONE_WRITER {
            // an embedded database has no half-open connection, and closing one would lose a database in memory
            tokio::spawn(operation)
        } else {
            let under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let gone = |kind, text| Err(sqlx::Error::Io(std::io::Error::new(kind, text)));
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    result = operation => result,
                    () = under_way.cancelled() => gone(ErrorKind::ConnectionAborted, "abandoned".to_owned()),
                    () = tokio::time::sleep(limit) => {
                        gone(ErrorKind::TimedOut, format!("the database did not answer within {limit:?}"))
                    }
                }
            })
        };
        end_of(task).await.doing(doing)?.doing(doing)
    }

    /// Runs one statement that writes nothing, and reads its rows.
    pub(crate) async fn read<T>(
        &self,
        via: Via,
        doing: &'static str,
        sql: &'static str,
        binds: &[Bind<'_>],
        read: impl Fn(&DB::Row) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, Error> {
        self.read_within(LIMIT, via, doing, sql, binds, read).await
    }

    /// [`read`](Self::read) with another time limit.
    pub(crate) async fn read_within<T>(
        &self,
        limit: Duration,
        via: Via,
        doing: &'static str,
        sql: &'static str,
        binds: &[Bind<'_>],
        read: impl Fn(&DB::Row) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, Error> {
        let statement = DB::prepare(sql, binds).doing(doing)?;
        let rows = self.run_within(limit, via, Mode::Read, doing, statement, |conn, (sql, arguments)| {
            DB::fetch(conn, sql.clone(), arguments.clone()).boxed()
        });
        rows.await?.iter().map(read).collect::<Result<_, _>>().doing(doing)
    }

    /// Runs one statement that writes, and returns how many rows it touched.
    pub(crate) async fn write(
        &self,
        via: Via,
        doing: &'static str,
        sql: &'static str,
        binds: &[Bind<'_>],
    ) -> Result<u64, Error> {
        let statement = DB::prepare(sql, binds).doing(doing)?;
        let written = self.run(via, Mode::Write, doing, statement, |conn, (sql, arguments)| {
            DB::execute(conn, sql.clone(), arguments.clone()).boxed()
        });
        written.await
    }

    async fn once<A, T, F>(&self, via: Via, mode: Mode, limit: Duration, args: &A, body: &F) -> Result<T, sqlx::Error>
    where
        F: for<'c> Fn(&'c mut DB::Connection, &'c A) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    {
        let line = self.line(via);
        let mut kept = OptionFuture::from(line.map(Line::lock)).await;
        let lent = DB::BEGIN_LENT.filter(|_| self.is_lent() && line.is_some());
        let kept_conn =
            kept.as_mut().and_then(|kept| kept.take()).and_then(|kept| kept.into_conn(via.has_transactions()));
        let (conn, is_ours) = match kept_conn {
            Some(conn) => (Conn::Right(conn), true),
            None if line.is_some() => (Conn::Right(self.open_own(via, limit, lent.is_some()).await?.into()), true),
            None => self.borrow(via).await?,
        };
        let mut held = InUse { conn: Some(conn), sound: false };
        let _turn = match mode {
            Mode::Read => None,
            Mode::Write | Mode::Alone | Mode::Transaction => Some(self.0.turns.next(via.errand()).await),
        };
        let conn = held.conn.as_mut().expect("just put there");
        let begins = mode == Mode::Transaction || (mode == Mode::Alone && !is_ours) || lent.is_some();
        let result = match begins {
            false => body(conn, args).await,
            true => {
                if line.is_none()
                    && let Some(sql) = DB::BEFORE_BEGIN
                {
                    DB::raw(conn, sql).await?;
                }
                let mut transaction = conn.begin_with(lent.unwrap_or(DB::BEGIN)).await?;
                let result = body(&mut transaction, args).await;
                ended(transaction, result).await
            }
        };
        held.sound = match &result {
            Ok(_) => true,
            Err(sqlx::Error::Database(_)) => line.is_none() || result.as_ref().is_err_and(DB::is_transient),
            Err(_) => false,
        };
        if held.sound
            && let Some(mut kept) = kept
            && let Some(Conn::Right(conn)) = held.conn.take()
        {
            *kept = Some(Kept::new(conn));
        }
        result
    }

    /// The worker's own connection for this operation. None: it has none.
    pub(crate) fn line(&self, via: Via) -> Option<&Line<DB>> {
        self.0.lines.get(via as usize).filter(|_| !DB::ONE_WRITER)
    }

    /// Opens one of the worker's own connections. `is_lent`: a lent session keeps no settings and no locks.
    async fn open_own(&self, via: Via, limit: Duration, is_lent: bool) -> Result<DB::Connection, sqlx::Error> {
        // less than the limit of the operation, so that its error says why there is no connection
        let mut conn = connect(&self.0.pool, limit / 2).await?;
        let mute = is_lent || open_line::<DB>(&mut conn, via.has_transactions()).await?;
        if via == Via::Heartbeats {
            self.0.session.begins(mute);
        }
        self.keep_awake();
        Ok(conn)
    }

    /// Borrows a connection from the user's pool or the worker's own pool. Also returns whether it is our own.
    async fn borrow(&self, via: Via) -> Result<(Conn<DB>, bool), sqlx::Error> {
        let beside = self.beside_for(via).await;
        let mut conn = DB::acquire(beside.as_ref().unwrap_or(&self.0.pool)).await?;
        if via == Via::Pool
            && let Some(sql) = DB::PLAIN_SESSION
            && rows::<DB>(&mut conn, sql, &[]).await?.is_empty()
        {
            // see `Dialect::OPEN_LINE`
            conn.close_on_drop();
            open_line::<DB>(&mut conn, false).await?;
        }
        Ok((Conn::Left(conn), beside.is_some()))
    }

    /// The worker's own pool for the operation, if there is one. Claims and leases there need no durability: when the
    /// machine fails, its processes fail with it, and both become void.
    async fn beside_for(&self, via: Via) -> Option<Pool<DB>> {
        if matches!(via, Via::Pool | Via::Discovery) {
            return None;
        }
        let mut beside = self.0.beside.lock().await;
        if beside.is_none() {
            match DB::open_beside(&self.0.pool).await {
                Ok(found) => *beside = Some(found),
                Err(error) => {
                    tracing::debug!(%error, "the worker has no connections of its own; it uses the pool");
                    let passing = DB::is_transient(&error) || matches!(error, sqlx::Error::PoolTimedOut);
                    *beside = (!passing).then_some(None);
                }
            }
        }
        let beside = beside.as_ref()?.as_ref()?;
        Some(match via {
            Via::Ends => beside.ends.clone(),
            Via::Duties | Via::Schedules => beside.upkeep.clone(),
            _ => beside.claims.clone(),
        })
    }

    /// Pings the connections that would otherwise be ended or forgotten, as long as this store exists.
    fn keep_awake(&self) {
        if self.0.pinged.swap(true, Ordering::Relaxed) {
            return;
        }
        let store: Weak<StoreParts<DB>> = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let silence = DB::SILENCE.unwrap_or(SILENCE);
            loop {
                tokio::time::sleep(silence).await;
                let Some(store) = store.upgrade() else { return };
                let pings = Via::OWN
                    .iter()
                    .zip(&store.lines)
                    .map(|(via, line)| line.ping(if via.has_transactions() { silence } else { SILENCE }));
                join_all(pings).await;
            }
        });
    }

    /// Whether retention removes the keys of its jobs: the last sweep has seen unique jobs, and had the rights.
    pub(crate) fn has_keys(&self) -> &AtomicBool {
        &self.0.has_keys
    }

    /// How far away the database is.
    pub(crate) fn distance(&self) -> &Distance {
        &self.0.distance
    }

    /// Closes the worker's own connections.
    pub(crate) async fn release(&self) {
        join_all(self.0.lines.iter().map(Line::close)).await;
        let beside = self.0.beside.lock().await.take().flatten();
        if let Some(Beside { claims, ends, upkeep }) = beside {
            join3(claims.close(), ends.close(), upkeep.close()).await;
        }
    }
}

/// What a task returns that survives its caller.
pub(crate) async fn end_of<T>(task: JoinHandle<T>) -> Result<T, sqlx::Error> {
    task.await.map_err(|gone| match gone.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => sqlx::Error::PoolClosed, // the runtime is shutting down
    })
}

/// A connection in use. It is discarded unless its operation came to an end.
struct InUse<DB: Dialect> {
    conn: Option<Conn<DB>>,
    sound: bool,
}

impl<DB: Dialect> Drop for InUse<DB> {
    fn drop(&mut self) {
        if !self.sound
            && !DB::ONE_WRITER
            && let Some(Conn::Left(conn)) = &mut self.conn
        {
            conn.close_on_drop();
        }
    }
}

/// The backoff between retries: short, growing, with jitter, so that conflicting operations do not collide again.
pub(crate) fn pauses(limit: Duration) -> impl Iterator<Item = Duration> {
    let until = Instant::now() + limit / 2;
    let within = (1..=12).take_while(move |_| Instant::now() < until);
    within.map(|tries: u32| Duration::from_micros(fastrand::u64(1_000..5_000 << tries.min(7))))
}
