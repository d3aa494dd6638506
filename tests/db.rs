//! A database under test, whatever its engine.

use std::time::Duration;

use chrono::{DateTime, Utc};
use queue::admin::{Admin, JobDetail};
use queue::unique::Enqueued;
use queue::{Enqueue, Error, Job, JobContext, JobId, JobState, Worker, WorkerBuilder};
use queue_test_support::{Engine, TestDb, database, pgbouncer};
use sqlx::{AssertSqlSafe, MySqlPool, PgPool, Row as _, SqlitePool};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::{Probe, eventually, jobs, within};

/// The longest that a whole test may take: a guard against one that hangs.
const TEST: Duration = Duration::from_secs(600);

/// Runs a test on a fresh database with the schema in it; not at all without a server for it.
pub async fn on(engine: Engine, test: impl AsyncFnOnce(Db)) {
    if let Some(db) = Db::empty(engine).await {
        db.migrate().await.expect("an empty database takes the schema");
        tokio::time::timeout(TEST, test(db)).await.expect("the test took too long as a whole");
    }
}

/// A pool of any driver.
#[derive(Clone, Debug)]
pub enum AnyPool {
    /// PostgreSQL.
    Pg(PgPool),
    /// MySQL or MariaDB.
    MySql(MySqlPool),
    /// SQLite.
    Sqlite(SqlitePool),
}

/// An open transaction of any driver; rolled back when dropped.
#[derive(Debug)]
pub enum AnyTransaction {
    /// PostgreSQL.
    Pg(sqlx::Transaction<'static, sqlx::Postgres>),
    /// MySQL or MariaDB.
    MySql(sqlx::Transaction<'static, sqlx::MySql>),
    /// SQLite.
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
}

/// `each!(AnyPool, value, pool => expression)`: the expression with the driver's own type.
#[macro_export]
macro_rules! each {
    ($any:ident, $value:expr, $name:ident => $body:expr) => {
        match $value {
            $crate::$any::Pg($name) => $body,
            $crate::$any::MySql($name) => $body,
            $crate::$any::Sqlite($name) => $body,
        }
    };
}

/// The rows of a statement, as the text that a client would print.
macro_rules! rows {
    ($sql:expr, $executor:expr) => {
        sqlx::raw_sql(AssertSqlSafe($sql)).fetch_all($executor).await.map(|rows| {
            rows.iter().map(|row| (0..row.len()).map(|i| row.try_get_unchecked(i).expect("text")).collect()).collect()
        })
    };
}

type Rows = Vec<Vec<Option<String>>>;

impl AnyPool {
    /// Runs statements as a client would send them: text, no parameters.
    pub async fn sql(&self, sql: &str) -> Result<Rows, sqlx::Error> {
        each!(AnyPool, self, pool => rows!(sql.to_owned(), pool))
    }

    /// See [`Job::enqueue`].
    pub async fn enqueue<J: Job>(&self, job: impl Into<Enqueue<J>>) -> Result<JobId, Error> {
        each!(AnyPool, self, pool => job.into().enqueue(pool).await)
    }

    /// See [`queue::enqueue_all`].
    pub async fn enqueue_all<J: Job, I: Into<Enqueue<J>>>(
        &self,
        jobs: impl IntoIterator<Item = I>,
    ) -> Result<Vec<JobId>, Error> {
        each!(AnyPool, self, pool => queue::enqueue_all(pool, jobs).await)
    }

    /// See [`Job::enqueue_unique`].
    pub async fn enqueue_unique<J: Job>(&self, job: impl Into<Enqueue<J>>) -> Result<Enqueued, Error> {
        each!(AnyPool, self, pool => job.into().enqueue_unique(pool).await)
    }

    /// See [`queue::enqueue_all_unique`].
    pub async fn enqueue_all_unique<J: Job, I: Into<Enqueue<J>>>(
        &self,
        jobs: impl IntoIterator<Item = I>,
    ) -> Result<Vec<Enqueued>, Error> {
        each!(AnyPool, self, pool => queue::enqueue_all_unique(pool, jobs).await)
    }

    /// Begins a transaction.
    pub async fn begin(&self) -> AnyTransaction {
        match self {
            Self::Pg(pool) => AnyTransaction::Pg(pool.begin().await.expect("a transaction")),
            Self::MySql(pool) => AnyTransaction::MySql(pool.begin().await.expect("a transaction")),
            Self::Sqlite(pool) => AnyTransaction::Sqlite(pool.begin().await.expect("a transaction")),
        }
    }

    /// See [`queue::migrate`].
    pub async fn migrate(&self) -> Result<(), Error> {
        each!(AnyPool, self, pool => queue::migrate(pool).await)
    }

    /// See [`Worker::builder`].
    pub fn worker(&self) -> WorkerBuilder {
        let pooled = matches!(self, Self::Pg(_)) && std::env::var_os(pgbouncer::VARIABLE).is_some();
        each!(AnyPool, self, pool => Worker::builder(pool)).transaction_pooler(pooled)
    }

    /// See [`Admin::new`].
    pub fn admin(&self) -> Admin {
        each!(AnyPool, self, pool => Admin::new(pool))
    }
}

impl AnyTransaction {
    /// Runs statements as a client would send them.
    pub async fn sql(&mut self, sql: &str) -> Result<Rows, sqlx::Error> {
        each!(AnyTransaction, self, tx => rows!(sql.to_owned(), &mut **tx))
    }

    /// See [`Job::enqueue`].
    pub async fn enqueue<J: Job>(&mut self, job: impl Into<Enqueue<J>>) -> Result<JobId, Error> {
        each!(AnyTransaction, self, tx => job.into().enqueue(tx).await)
    }

    /// See [`queue::enqueue_all`].
    pub async fn enqueue_all<J: Job, I: Into<Enqueue<J>>>(
        &mut self,
        jobs: impl IntoIterator<Item = I>,
    ) -> Result<Vec<JobId>, Error> {
        each!(AnyTransaction, self, tx => queue::enqueue_all(tx, jobs).await)
    }

    /// See [`Job::enqueue_unique`].
    pub async fn enqueue_unique<J: Job>(&mut self, job: impl Into<Enqueue<J>>) -> Result<Enqueued, Error> {
        each!(AnyTransaction, self, tx => job.into().enqueue_unique(tx).await)
    }

    /// See [`queue::enqueue_all_unique`].
    pub async fn enqueue_all_unique<J: Job, I: Into<Enqueue<J>>>(
        &mut self,
        jobs: impl IntoIterator<Item = I>,
    ) -> Result<Vec<Enqueued>, Error> {
        each!(AnyTransaction, self, tx => queue::enqueue_all_unique(tx, jobs).await)
    }

    /// See [`JobContext::complete_in`].
    pub async fn complete(&mut self, ctx: &JobContext, output: &serde_json::Value) -> Result<(), Error> {
        each!(AnyTransaction, self, tx => ctx.complete_in(tx, output).await)
    }

    /// See [`JobContext::guard`].
    pub async fn guard(&mut self, ctx: &JobContext) -> Result<(), Error> {
        each!(AnyTransaction, self, tx => ctx.guard(tx).await)
    }

    /// Commits.
    pub async fn commit(self) {
        each!(AnyTransaction, self, tx => tx.commit().await.expect("committed"));
    }

    /// Rolls back.
    pub async fn rollback(self) {
        each!(AnyTransaction, self, tx => tx.rollback().await.expect("rolled back"));
    }
}

/// A test's own database, its probe, and what tests do with both. Verbs panic where a test expects success.
#[derive(Debug)]
pub struct Db {
    /// What the jobs of this test tell.
    pub probe: Probe,
    pool: AnyPool,
    test: TestDb,
}

impl Drop for Db {
    fn drop(&mut self) {
        // what blocks a thread would hold up the end of the test
        self.probe.release_all();
    }
}

impl Db {
    /// A database without the schema, or None where the engine is not to be tested.
    pub async fn empty(engine: Engine) -> Option<Self> {
        // RUST_LOG=queue=debug shows what the workers of a failing test say
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        Some(Self::on_test(database(engine).await?).await)
    }

    async fn on_test(test: TestDb) -> Self {
        let pool = open(&test, 16).await;
        Self { probe: Probe::default(), pool, test }
    }

    /// Another database on the same server, with an encoding of its own and without the schema.
    pub async fn encoded(&self, encoding: &str) -> Self {
        let server = self.engine().url().expect("a server");
        Self::on_test(TestDb::made_with(self.engine(), server, encoding).await).await
    }

    /// Another database on the same server, without the schema.
    pub async fn another(&self) -> Self {
        Self::empty(self.engine()).await.expect("the server is still there")
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.test.engine()
    }

    /// The address of the database.
    pub fn url(&self) -> &str {
        self.test.url()
    }

    /// Whether a pooler in transaction mode is in between: then a session is nobody's.
    pub fn is_pooled(&self) -> bool {
        self.test.is_pooled()
    }

    /// What the library calls the engine.
    pub fn dialect(&self) -> queue::migration::Engine {
        match self.engine() {
            Engine::Postgres => queue::migration::Engine::Postgres,
            Engine::MariaDb | Engine::MySql => queue::migration::Engine::MySql,
            Engine::Sqlite => queue::migration::Engine::Sqlite,
        }
    }

    /// The names of everything in the database.
    pub async fn objects(&self) -> Vec<String> {
        let list = match self.engine() {
            Engine::Postgres => {
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace
                 UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
                 UNION ALL SELECT typname FROM pg_type WHERE typnamespace = 'public'::regnamespace \
                 AND typrelid = 0 AND typelem = 0
                 UNION ALL SELECT tgname FROM pg_trigger"
            }
            Engine::MariaDb | Engine::MySql => {
                "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()
                 UNION ALL SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE()
                 UNION ALL SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()"
            }
            Engine::Sqlite => "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'",
        };
        self.column(list).await
    }

    /// The test's pool.
    pub fn pool(&self) -> &AnyPool {
        &self.pool
    }

    /// Another pool, of up to `max` connections.
    pub async fn open(&self, max: u32) -> AnyPool {
        open(&self.test, max).await
    }

    /// Another pool on a server, whose connections are told this first.
    pub async fn open_with(&self, max: u32, session: &'static str) -> AnyPool {
        macro_rules! open {
            ($options:ty) => {
                sqlx::pool::PoolOptions::new()
                    .max_connections(max)
                    .after_connect(move |conn, _| {
                        Box::pin(async move { sqlx::raw_sql(session).execute(conn).await.map(drop) })
                    })
                    .connect_with(self.test.url().parse::<$options>().expect("an address"))
                    .await
                    .expect("a pool")
            };
        }
        match self.engine() {
            Engine::Postgres => AnyPool::Pg(open!(sqlx::postgres::PgConnectOptions)),
            Engine::MariaDb | Engine::MySql => AnyPool::MySql(open!(sqlx::mysql::MySqlConnectOptions)),
            Engine::Sqlite => unreachable!("a file has options"),
        }
    }

    /// Another pool on the file, with options.
    pub async fn open_sqlite(
        &self,
        max: u32,
        set: impl FnOnce(sqlx::sqlite::SqliteConnectOptions) -> sqlx::sqlite::SqliteConnectOptions,
    ) -> AnyPool {
        let options = self.test.url().parse::<sqlx::sqlite::SqliteConnectOptions>().expect("an address");
        let pool = sqlx::pool::PoolOptions::new().max_connections(max);
        AnyPool::Sqlite(pool.connect_lazy_with(set(options)))
    }

    /// See [`queue::migrate`].
    pub async fn migrate(&self) -> Result<(), Error> {
        self.pool.migrate().await
    }

    /// See [`Admin::new`].
    pub fn admin(&self) -> Admin {
        self.pool.admin()
    }

    /// Writes a job.
    pub async fn enqueue<J: Job>(&self, job: impl Into<Enqueue<J>>) -> JobId {
        within("an enqueue", self.pool.enqueue(job)).await.expect("enqueued")
    }

    /// Writes a job, and tells whether it is new.
    pub async fn enqueue_unique<J: Job>(&self, job: impl Into<Enqueue<J>>) -> Enqueued {
        within("an enqueue", self.pool.enqueue_unique(job)).await.expect("enqueued")
    }

    /// Writes many jobs.
    pub async fn enqueue_all<J: Job, I: Into<Enqueue<J>>>(&self, jobs: impl IntoIterator<Item = I>) -> Vec<JobId> {
        within("a bulk enqueue", self.pool.enqueue_all(jobs)).await.expect("enqueued")
    }

    /// Begins a transaction.
    pub async fn begin(&self) -> AnyTransaction {
        self.pool.begin().await
    }

    /// Runs statements as a client would, and returns the last one's rows as text.
    pub async fn sql(&self, sql: impl AsRef<str>) -> Rows {
        let sql = sql.as_ref();
        self.pool.sql(sql).await.unwrap_or_else(|error| panic!("{}: {sql}: {error}", self.engine()))
    }

    /// The first column of a statement's rows.
    pub async fn column(&self, sql: impl AsRef<str>) -> Vec<String> {
        self.sql(sql).await.into_iter().map(|mut row| row.swap_remove(0).expect("not NULL")).collect()
    }

    /// The only value of a statement's only row.
    pub async fn value(&self, sql: impl AsRef<str>) -> Option<String> {
        let sql = sql.as_ref();
        let mut rows = self.sql(sql).await;
        assert_eq!(rows.len(), 1, "rows of {sql}");
        rows.swap_remove(0).swap_remove(0)
    }

    /// The only value of a statement's only row, a whole number.
    pub async fn int(&self, sql: impl AsRef<str>) -> i64 {
        let sql = sql.as_ref();
        let value = self.value(sql).await.unwrap_or_else(|| panic!("NULL from {sql}"));
        value.parse().unwrap_or_else(|_| panic!("{value:?} from {sql}"))
    }

    /// How many rows there are: `count("queue_jobs WHERE attempt = 0")`.
    pub async fn count(&self, from: &str) -> i64 {
        self.int(format!("SELECT COUNT(*) FROM {from}")).await
    }

    /// How many rows there are in `(queue_jobs, queue_history, queue_dead)`.
    pub async fn counts(&self) -> (i64, i64, i64) {
        (self.count("queue_jobs").await, self.count("queue_history").await, self.count("queue_dead").await)
    }

    /// SQL: the database's time, so many milliseconds from now, as the tables' columns have it.
    pub fn time(&self, in_ms: i64) -> String {
        match self.engine() {
            Engine::Postgres => format!("clock_timestamp() + {in_ms} * interval '1 millisecond'"),
            Engine::MariaDb | Engine::MySql => format!("UTC_TIMESTAMP(6) + INTERVAL {} MICROSECOND", in_ms * 1000),
            Engine::Sqlite => format!("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + {in_ms}"),
        }
    }

    /// SQL: a time column of a table as microseconds since 1970.
    pub fn micros(&self, column: &str) -> String {
        match self.engine() {
            Engine::Postgres => format!("(extract(epoch FROM {column}) * 1000000)::bigint"),
            Engine::MariaDb | Engine::MySql => format!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column})"),
            Engine::Sqlite => format!("({column}) * 1000"),
        }
    }

    /// The database's clock.
    pub async fn now(&self) -> DateTime<Utc> {
        let micros = self.int(format!("SELECT {}", self.micros(&self.time(0)))).await;
        DateTime::from_timestamp_micros(micros).expect("a time")
    }

    /// A worker for all jobs of the test binary, quick in everything but in losing its lease.
    pub fn worker(&self) -> WorkerBuilder {
        self.worker_on(&self.pool)
    }

    /// A worker with connections of its own.
    pub async fn worker_apart(&self) -> WorkerBuilder {
        self.worker_on(&self.open(8).await)
    }

    /// A worker on a pool.
    pub fn worker_on(&self, pool: &AnyPool) -> WorkerBuilder {
        jobs::with_states(pool.worker(), &self.probe, &self.pool)
            .heartbeat(Duration::from_millis(100))
            .lease(Duration::from_secs(10))
            .cancel_grace(Duration::from_millis(300))
            .decode_grace(Duration::ZERO)
            .shutdown_grace(Duration::from_secs(10))
    }

    /// Starts a worker in the background.
    pub fn start(&self, worker: WorkerBuilder) -> Running {
        Running::start(worker.build().expect("a good configuration"))
    }

    /// One job with everything that is known of it, secrets included.
    pub async fn job(&self, id: JobId) -> JobDetail {
        let job = within("a look at a job", self.admin().reveal_secrets().job(id)).await.expect("an answer");
        job.unwrap_or_else(|| panic!("there is no job {id}"))
    }

    /// The state that a job is in.
    pub async fn state(&self, id: JobId) -> JobState {
        self.job(id).await.job.state
    }

    /// Waits until a job is in this state.
    pub async fn reaches(&self, id: JobId, state: JobState) -> JobDetail {
        let what = format!("job {id} to become {state}");
        eventually(&what, async || Some(self.job(id).await).filter(|detail| detail.job.state == state)).await
    }

    /// Waits until so many jobs are in the history.
    pub async fn finished(&self, jobs: i64) {
        let what = format!("{jobs} finished jobs");
        eventually(&what, async || (self.count("queue_history").await >= jobs).then_some(())).await;
    }

    /// Waits until every worker has beaten so many times more, which is long enough for it to do what it should not do.
    pub async fn beats(&self, beats: usize) {
        let sql = format!(
            "SELECT id, {} FROM queue_workers JOIN queue_heartbeats ON worker_id = id
             WHERE stopped_at IS NULL AND host <> 'elsewhere' ORDER BY id",
            self.micros("queue_heartbeats.heartbeat_at")
        );
        let mut last =
            eventually("a worker", async || Some(self.sql(&sql).await).filter(|rows| !rows.is_empty())).await;
        for _ in 0..beats {
            last = eventually("a heartbeat of every worker", async || {
                let now = self.sql(&sql).await;
                let all = now.len() != last.len() || now.iter().zip(&last).all(|(now, last)| now != last);
                all.then_some(now)
            })
            .await;
        }
    }

    /// Writes the row of a worker of which nothing else is there; its lease ends so many milliseconds from now.
    pub async fn fake_worker(&self, lease_ms: i64) -> i64 {
        self.sql(format!(
            "INSERT INTO queue_workers (host, pid, concurrency, queues, kinds, started_at)
             VALUES ('elsewhere', 1, 1, '[]', '[]', {})",
            self.time(-90_000)
        ))
        .await;
        let worker = self.int("SELECT MAX(id) FROM queue_workers").await;
        self.sql(format!(
            "INSERT INTO queue_heartbeats (worker_id, heartbeat_at, expires_at) VALUES ({worker}, {}, {})",
            self.time(lease_ms.min(0) - 1000),
            self.time(lease_ms)
        ))
        .await;
        worker
    }

    /// Puts a waiting job into a worker's hands, as its claim would.
    pub async fn hand_over(&self, job: JobId, worker: i64) {
        self.hand_over_all(&format!("id = {job} AND worker_id = 0"), worker, 20).await;
        assert_eq!(self.count(&format!("queue_jobs WHERE id = {job} AND worker_id = {worker}")).await, 1);
    }

    /// Waits until the database knows that the job's attempt has begun: from then on it counts when its worker is lost.
    pub async fn knows_it_began(&self, job: JobId) {
        let began = format!("queue_jobs WHERE id = {job} AND started_fence = fence AND worker_id <> 0");
        eventually("a note that the attempt began", async || (self.count(&began).await == 1).then_some(())).await;
    }

    /// On servers a claim leaves a note of whose these jobs are; on SQLite an index of the jobs says it.
    pub async fn note_claim(&self, which: &str, worker: i64) {
        let ids = match self.engine() {
            Engine::Postgres => "array_agg(id)",
            Engine::MariaDb | Engine::MySql => "JSON_ARRAYAGG(id)",
            Engine::Sqlite => return,
        };
        let note = "INSERT INTO queue_claims (worker_id, job_ids) SELECT";
        self.sql(format!("{note} {worker}, {ids} FROM queue_jobs WHERE {which} HAVING count(*) > 0")).await;
    }

    /// Puts all jobs that satisfy a condition into a worker's hands, which has started them: as its claim and its note
    /// would.
    pub async fn hand_over_all(&self, which: &str, worker: i64, max_retries: u32) {
        self.note_claim(which, worker).await;
        self.sql(format!(
            "UPDATE queue_jobs SET worker_id = {worker}, attempt = attempt + 1, started_fence = fence + 1, \
             fence = fence + 1, claimed_at = {},
                 max_retries = COALESCE(max_retries, {max_retries})
             WHERE {which}",
            self.time(0)
        ))
        .await;
    }
}

async fn open(test: &TestDb, max: u32) -> AnyPool {
    match test.engine() {
        Engine::Postgres => AnyPool::Pg(test.pg_pool(max).await),
        Engine::MariaDb | Engine::MySql => AnyPool::MySql(test.mysql_pool(max).await),
        Engine::Sqlite => AnyPool::Sqlite(test.sqlite_pool(max).await),
    }
}

/// A worker at work. Dropped, it is as if its process had died.
#[derive(Debug)]
pub struct Running {
    task: JoinHandle<Result<(), Error>>,
    stage: watch::Sender<u8>,
}

impl Running {
    /// Starts a worker in the background.
    pub fn start(worker: Worker) -> Self {
        let (stage, signals) = watch::channel(0u8);
        let signal = |stage: u8| {
            let mut signals = signals.clone();
            async move {
                if signals.wait_for(|now| *now >= stage).await.is_err() {
                    std::future::pending().await
                }
            }
        };
        let run = worker.run_until(signal(1), signal(2));
        let task = tokio::spawn(async move {
            let result = run.await;
            if let Err(error) = &result {
                eprintln!("a worker ended with an error: {error}");
            }
            result
        });
        Self { task, stage }
    }

    /// The first signal: end gracefully.
    pub fn signal(&self) {
        self.stage.send_replace(1);
    }

    /// The second signal: end at once.
    pub fn hurry(&self) {
        self.stage.send_replace(2);
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> Result<(), Error> {
        within("the end of a worker", &mut self.task).await.expect("no panic in a worker")
    }

    /// Ends it gracefully.
    pub async fn stop(self) {
        self.signal();
        self.ended().await.expect("a worker ends without an error");
    }

    /// Drops its future where it stands.
    pub async fn kill(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
