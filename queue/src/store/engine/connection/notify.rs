//! Signals that something was enqueued: directly to the workers of this process, through the database to those of
//! others.
//!
//! A signal is a hint and may be lost; polling finds what it missed. It is sent outside the transaction that inserts,
//! because on PostgreSQL a NOTIFY serializes the commits of all that notify. The one exception is a lone enqueue, which
//! delays nobody. Its signal goes out with it, so that an idle worker hears of it one round trip earlier. A process
//! ignores its own signals that come back through the database, because it has already told its workers.
//!
//! * An enqueue through a pool is committed when it returns: one signal, at once. While one is being sent, further ones
//!   wait and are sent as one, a few milliseconds later.
//! * An enqueue through a connection or transaction is committed at some unknown later time. Its signal is repeated for
//!   a minute, with growing pauses: the echo. The echo uses a connection of its own, made with the options of the pools
//!   that this process has used (for an enqueue, a worker or `migrate`). It ends with the pool. A process that has used
//!   no pool sends one signal, as part of the transaction.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use sqlx::Connection;
use sqlx::pool::{CloseEvent, PoolConnection};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::store::engine::connection::connecting::Connecting;

/// The shortest pause between two signals to the same database.
const COALESCE: Duration = Duration::from_millis(5);
/// The time limit of a signal. A half-open connection must not silence the signals behind it.
const LIMIT: Duration = Duration::from_secs(3);
/// How long after an enqueue in a transaction its commit is still expected.
const ECHO_FOR: Duration = Duration::from_secs(60);

/// Whether the pool can give a connection without making anybody wait.
pub(crate) fn can_spare_one<DB: sqlx::Database>(pool: &sqlx::Pool<DB>) -> bool {
    pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections()
}

/// What this process knows about one database.
#[derive(Default)]
struct Local {
    /// The token in the signals of this process.
    from: Token,
    /// Workers of this process.
    workers: Vec<Arc<Notify>>,
    sending: bool,
    again: bool,
    /// The last enqueue that needs an echo, and whether a task sends it.
    echo_since: Option<Instant>,
    echoing: bool,
    /// The connect options for the connection of an echo. They live as long as the pool uses them: one that got others
    /// is no longer known, like one that is closed.
    ///
    /// With the end of that pool, for [`forget_closed`](Self::forget_closed) and for the echo, whose connection must
    /// not outlive it. An event has one waker, so each has its own.
    options: Option<(AnyOptions, [CloseEvent; 2])>,
}

impl Local {
    /// Takes the options of a pool, unless it has those of another one that is open, as one for migrations may be.
    fn learn<DB: sqlx::Database>(&mut self, pool: &sqlx::Pool<DB>) {
        self.forget_closed();
        if self.options::<DB>().is_none() {
            let options: Weak<_> = Arc::downgrade(&pool.connect_options());
            self.options = Some((options, [pool.close_event(), pool.close_event()]));
        }
    }

    fn options<DB: sqlx::Database>(&self) -> Option<Options<DB>> {
        self.options.as_ref()?.0.upgrade()?.downcast().ok()
    }

    /// Forgets the options of a pool that was closed.
    fn forget_closed(&mut self) {
        self.options.take_if(|(_, [closed, _])| closed.now_or_never().is_some());
    }
}

/// Identifies a process: by a random number, and by its process id. The id is read each time, because a forked process
/// has the same random number.
struct Token(u64);

impl Default for Token {
    fn default() -> Self {
        Self(RandomState::new().hash_one(()))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:016x}", std::process::id(), self.0)
    }
}

type Options<DB> = Arc<<<DB as sqlx::Database>::Connection as Connection>::Options>;
type AnyOptions = Weak<dyn std::any::Any + Send + Sync>;

/// Databases by driver and address.
static DATABASES: LazyLock<Mutex<HashMap<(TypeId, String), Local>>> = LazyLock::new(Mutex::default);

fn databases() -> MutexGuard<'static, HashMap<(TypeId, String), Local>> {
    DATABASES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Identifies a database within this process, by driver and address.
pub(crate) fn key<DB: Connecting>(pool: &sqlx::Pool<DB>) -> (TypeId, String) {
    (TypeId::of::<DB>(), DB::address(pool))
}

/// The token in this process's signals to the database of `pool`.
pub(crate) fn from<DB: Connecting>(pool: &sqlx::Pool<DB>) -> String {
    databases().entry(key(pool)).or_default().from.to_string()
}

/// Whether a signal with this token comes from this process, which has already told its own workers.
pub(crate) fn is_known<DB: Connecting>(pool: &sqlx::Pool<DB>, from: &str) -> bool {
    databases().get(&key(pool)).is_some_and(|local| !local.workers.is_empty() && local.from.to_string() == from)
}

/// A worker's subscription. It ends when dropped.
pub(crate) struct Subscription {
    key: (TypeId, String),
    notify: Arc<Notify>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(local) = databases().get_mut(&self.key) {
            local.workers.retain(|worker| !Arc::ptr_eq(worker, &self.notify));
        }
    }
}

/// Wakes `notify` when this process enqueues into the pool's database.
pub(crate) fn subscribe<DB: Connecting>(pool: &sqlx::Pool<DB>, notify: Arc<Notify>) -> Subscription {
    let key = key(pool);
    databases().entry(key.clone()).or_default().workers.push(notify.clone());
    Subscription { key, notify }
}

/// Jobs were committed in the database of `pool`. `announced`: the other processes were already told.
pub(crate) fn committed<DB: Connecting>(pool: &sqlx::Pool<DB>, announced: bool) {
    let key = key(pool);
    let from = {
        let mut databases = databases();
        let local = databases.entry(key.clone()).or_default();
        local.learn(pool);
        local.workers.iter().for_each(|worker| worker.notify_one());
        if !DB::NOTIFIES || announced {
            return;
        }
        if local.sending {
            local.again = true;
            return;
        }
        local.sending = true;
        local.from.to_string()
    };
    let pool = pool.clone();
    // created here, because a runtime that shuts down never polls the task
    let mut sending = AtWork { key, flag: |local| &mut local.sending, over: false };
    tokio::spawn(async move {
        let mut kept = None;
        loop {
            match timeout(LIMIT, send(&pool, &mut kept, &from)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the signal for an enqueue was not sent; {POLLED}"),
                Err(_) => {
                    tracing::debug!("the signal for an enqueue was not sent in time; {POLLED}");
                    // it may be in the middle of a statement
                    kept.take().iter_mut().for_each(PoolConnection::close_on_drop);
                }
            }
            // the next signal can use it, unless somebody waits for a connection
            kept = kept.filter(|_| can_spare_one(&pool));
            sleep(COALESCE).await;
            let mut databases = databases();
            let Some(local) = databases.get_mut(&sending.key) else { return };
            if !std::mem::take(&mut local.again) {
                return sending.end(local);
            }
        }
    });
}

const POLLED: &str = "polling will find it";

/// Sends a signal through the connection of the previous one if that still works, else through another one.
async fn send<DB: Connecting>(
    pool: &sqlx::Pool<DB>,
    kept: &mut Option<PoolConnection<DB>>,
    from: &str,
) -> Result<(), sqlx::Error> {
    if let Some(conn) = kept.as_mut().filter(|_| !pool.is_closed())
        && DB::notify(conn, from).await.is_ok()
    {
        return Ok(());
    }
    *kept = None;
    DB::notify(kept.insert(pool.acquire().await?), from).await
}

/// Marks a task that sends signals, until this is dropped or ended.
struct AtWork {
    key: (TypeId, String),
    flag: fn(&mut Local) -> &mut bool,
    over: bool,
}

impl AtWork {
    /// Nothing is left to send. The caller has checked that under the same lock.
    fn end(&mut self, local: &mut Local) {
        *(self.flag)(local) = false;
        self.over = true;
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if !self.over
            && let Some(local) = databases().get_mut(&self.key)
        {
            *(self.flag)(local) = false;
        }
    }
}

/// Registers a pool, so that echoes can be sent to its database.
pub(crate) fn introduce<DB: Connecting>(pool: &sqlx::Pool<DB>) {
    databases().entry(key(pool)).or_default().learn(pool);
}

/// Something was written through the caller's connection. A signal follows when it may be committed. If this process
/// knows no database of this engine to send it to, the signal becomes part of the transaction. That delays its commit a
/// little, but the workers hear of the job.
pub(crate) async fn announce<DB: Connecting>(conn: &mut DB::Connection) -> Result<(), sqlx::Error> {
    if maybe_committed_later::<DB>() || !DB::NOTIFIES {
        return Ok(());
    }
    DB::notify(conn, &Token::default().to_string()).await
}

/// Starts the echoes to all known databases of this engine. False: there are none.
fn maybe_committed_later<DB: Connecting>() -> bool {
    let (mut begun, mut known) = (Vec::new(), false);
    for (key, local) in databases().iter_mut().filter(|(key, _)| key.0 == TypeId::of::<DB>()) {
        local.forget_closed();
        known |= local.options::<DB>().is_some();
        local.echo_since = Some(Instant::now());
        if !std::mem::replace(&mut local.echoing, true) {
            begun.push(AtWork { key: key.clone(), flag: |local| &mut local.echoing, over: false });
        }
    }
    for echoing in begun {
        tokio::spawn(echo::<DB>(echoing));
    }
    known
}

/// A connection for echoes, with the options that it was made with.
type Echoes<DB> = (AnyOptions, <DB as sqlx::Database>::Connection);

/// Sends a signal, and returns the connection if it can be used again.
async fn repeat<DB: Connecting>(open: Option<Echoes<DB>>, options: Options<DB>, from: &str) -> Option<Echoes<DB>> {
    let current: AnyOptions = Arc::downgrade(&options) as AnyOptions;
    let mut connection = match open {
        Some((made_with, connection)) if Weak::ptr_eq(&made_with, &current) => connection,
        _ => DB::Connection::connect_with(&DB::named(&options)).await.ok()?,
    };
    DB::notify(&mut connection, from).await.is_ok().then_some((current, connection))
}

/// Tells this process's workers and the other processes again and again, with growing pauses.
///
/// It runs on the runtime of whoever enqueued first, and may end with that one. So what it needs stays in [`Local`].
async fn echo<DB: Connecting>(mut echoing: AtWork) {
    let mut open: Option<Echoes<DB>> = None;
    loop {
        let (age, from, options) = {
            let mut databases = databases();
            let Some(local) = databases.get_mut(&echoing.key) else { return };
            let age = local.echo_since.map_or(ECHO_FOR, |since| since.elapsed());
            if age >= ECHO_FOR {
                return echoing.end(local);
            }
            local.workers.iter().for_each(|worker| worker.notify_one());
            local.forget_closed();
            (age, local.from.to_string(), local.options::<DB>())
        };
        open = match options.filter(|_| DB::NOTIFIES) {
            Some(options) => timeout(LIMIT, repeat::<DB>(open.take(), options, &from)).await.unwrap_or(None),
            None => None,
        };
        let made_with = open.as_ref().map(|(options, _)| options.clone());
        tokio::select! {
            () = sleep((age / 2).clamp(COALESCE * 2, Duration::from_secs(5))) => {}
            () = pool_closed(&echoing.key, made_with) => if let Some((_, connection)) = open.take() {
                let _ = timeout(LIMIT, connection.close()).await;
            }
        }
    }
}

/// Waits until the pool is closed that had these options. Without any, for ever.
async fn pool_closed(key: &(TypeId, String), options: Option<AnyOptions>) {
    let Some(options) = options else { return std::future::pending().await };
    std::future::poll_fn(|context| {
        let mut databases = databases();
        let Some(local) = databases.get_mut(key) else { return Poll::Pending };
        // somebody else may have noticed it first, and another pool may have taken its place
        match &mut local.options {
            Some((known, [_, closed])) if Weak::ptr_eq(known, &options) => closed.poll_unpin(context),
            _ => Poll::Ready(()),
        }
    })
    .await;
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    /// As one for migrations, beside that of the application.
    #[tokio::test]
    async fn a_second_pool_takes_no_signals_with_it() {
        let pool = || sqlx::PgPool::connect_lazy("postgres://nowhere/second_pool").expect("an address");
        let (first, second) = (pool(), pool());
        introduce(&first);
        introduce(&second);
        let is_known = || {
            let mut databases = databases();
            let local = databases.get_mut(&key(&first)).expect("introduced");
            local.forget_closed();
            local.options.is_some()
        };
        second.close().await;
        assert!(is_known(), "the first pool is open");
        first.close().await;
        assert!(!is_known());
    }

    /// As with a password that is a token for some minutes.
    #[tokio::test]
    async fn a_pool_that_got_other_options_is_asked_for_them() {
        let pool = sqlx::PgPool::connect_lazy("postgres://old@nowhere/other_options").expect("an address");
        introduce(&pool);
        let known = || {
            let databases = databases();
            let options = databases.get(&key(&pool)).expect("introduced").options::<sqlx::Postgres>();
            options.map(|options| options.get_username().to_owned())
        };
        assert_eq!(known().as_deref(), Some("old"));
        let new = sqlx::postgres::PgConnectOptions::clone(&pool.connect_options()).username("new");
        pool.set_connect_options(new);
        assert_eq!(known(), None, "no echo logs in as the old account");
        introduce(&pool);
        assert_eq!(known().as_deref(), Some("new"));
    }

    /// As where each test has a runtime, and one of them enqueues in a transaction.
    #[test]
    fn a_closed_pool_is_noticed_though_the_runtime_that_sent_echoes_is_gone() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (lasting, short) = (runtime(), runtime());
        let pool = async { sqlx::PgPool::connect_lazy("postgres://nowhere/two_runtimes").expect("an address") };
        let pool = lasting.block_on(pool);
        introduce(&pool);
        short.block_on(async {
            assert!(maybe_committed_later::<sqlx::Postgres>());
            tokio::task::yield_now().await;
        });
        drop(short);
        lasting.block_on(pool.close());
        let mut databases = databases();
        let local = databases.get_mut(&key(&pool)).expect("introduced");
        local.forget_closed();
        assert!(local.options.is_none());
    }
}
