//! The scene of a fault: a database, a folder for the record, and what a fault does with both.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use fastrand::Rng;
use queue_test_servers::{Server, Settings};
use queue_test_support::{Db, Engine, TestDb, each};
use sqlx::AssertSqlSafe;
use tempfile::TempDir;
use tokio::time::sleep;

use crate::checker::{Checker, History};
use crate::crew::{Crew, Setup};
use crate::load::{Desk, LEDGER, Load, Mix};
pub use crate::order::{Form, Order};
use crate::record::{self, Journal, What};

/// Poll interval while waiting for something.
pub const LOOK: Duration = Duration::from_millis(20);
/// Workers that finish no job for this long are stuck.
const STUCK: Duration = Duration::from_secs(60);
/// A lease shorter than the default, to save time.
pub const LEASE: Duration = Duration::from_millis(1500);

/// Where the database is.
#[derive(Debug)]
pub enum Place {
    /// In a temporary folder (SQLite), or on the server with this address.
    Shared(Option<String>),
    /// On a server of the scene's own.
    Own(Box<Settings>),
    /// In this folder (SQLite).
    Folder(PathBuf),
}

/// Everything that one fault works with.
#[derive(Debug)]
pub struct Scene {
    /// The engine.
    pub engine: Engine,
    /// The request on the command line.
    pub order: Order,
    /// The source of all random choices.
    pub rng: Rng,
    /// The suite's own connections.
    pub db: Db,
    /// What producers share.
    pub desk: Desk,
    /// Figures for people.
    pub notes: Vec<String>,
    // dropped in this order: the database before its server
    base: TestDb,
    /// The scene's own server.
    pub server: Option<Server>,
    folder: TempDir,
}

impl Scene {
    /// A migrated database with a ledger.
    ///
    /// # Errors
    /// When there is no server, or it does not answer.
    pub async fn new(engine: Engine, place: Place, order: Order) -> Result<Scene> {
        let scene = Scene::without_tables(engine, place, order).await?;
        scene.make_tables().await?;
        Ok(scene)
    }

    /// An empty database.
    ///
    /// # Errors
    /// When there is no server, or it does not answer.
    pub async fn without_tables(engine: Engine, place: Place, order: Order) -> Result<Scene> {
        let mut server = None;
        let base = match place {
            Place::Folder(folder) => TestDb::sqlite_in(&folder),
            Place::Shared(Some(url)) => TestDb::on(engine, url).await,
            Place::Own(settings) if engine != Engine::Sqlite => {
                let started = tokio::task::block_in_place(|| Server::start(engine, &settings))?;
                let base = TestDb::on(engine, started.url()).await;
                server = Some(started);
                base
            }
            Place::Shared(None) | Place::Own(_) => TestDb::sqlite_in(&std::env::temp_dir()),
        };
        let db = Db::open(&base).await;
        let folder = TempDir::with_prefix("queue-faults-").context("making a temporary folder")?;
        let journal = Journal::open(folder.path())?;
        let desk = Desk { journal, tags: Arc::new(AtomicI64::new(1)), committed: Arc::default(), max_retries: 20 };
        let rng = Rng::with_seed(order.seed);
        Ok(Scene { engine, order, rng, db, desk, notes: Vec::new(), base, server, folder })
    }

    /// The library's tables, and a ledger.
    ///
    /// # Errors
    /// When the database refuses the ledger.
    pub async fn make_tables(&self) -> Result<()> {
        self.db.migrate().await;
        let sql = AssertSqlSafe(format!("CREATE TABLE {LEDGER} (tag BIGINT PRIMARY KEY)"));
        each!(&self.db, pool => sqlx::raw_sql(sql).execute(pool).await.map(drop)).context("making the ledger")
    }

    /// The address of the database.
    pub fn url(&self) -> &str {
        self.base.url()
    }

    /// The folder for the record, the logs and other files of the fault.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The number of rounds by form, unless the command line sets it.
    pub fn rounds(&self, short: u32, long: u32) -> u32 {
        self.order.rounds.unwrap_or(if self.order.form == Form::Short { short } else { long })
    }

    /// The number of jobs by form, unless the command line sets it.
    pub fn jobs(&self, short: usize, long: usize) -> usize {
        self.order.jobs.unwrap_or(if self.order.form == Form::Short { short } else { long })
    }

    /// A duration by form.
    pub fn span(&self, short: Duration, long: Duration) -> Duration {
        if self.order.form == Form::Short { short } else { long }
    }

    /// A random duration.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.rng.f64())
    }

    /// A worker process to configure. Its settings are the library's defaults.
    pub fn worker(&self) -> Setup {
        Setup::new(self.url(), self.folder())
    }

    /// Records an action of the suite itself.
    pub fn record(&self, what: What) {
        self.desk.journal.write(what);
    }

    /// A crew without workers.
    pub fn crew(&self) -> Crew {
        Crew::new(self.desk.journal.clone())
    }

    /// Starts producers on connections of their own, through this address or directly to the database.
    ///
    /// # Errors
    /// When the address is not one.
    pub fn load(&mut self, url: Option<&str>, mix: &Mix) -> Result<Load> {
        let url = url.unwrap_or(self.base.url());
        Load::start(&self.desk, url, &self.db, mix, &mut self.rng)
    }

    /// Runs statements that have no result, on one connection.
    ///
    /// # Errors
    /// When the database refuses one.
    pub async fn execute(&self, sql: &str) -> Result<()> {
        let sql = AssertSqlSafe(sql.to_owned());
        Ok(each!(&self.db, pool => sqlx::raw_sql(sql).execute(pool).await.map(drop))?)
    }

    /// The single number that a query returns.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn number(&self, sql: &str) -> Result<i64> {
        let sql = AssertSqlSafe(sql.to_owned());
        Ok(each!(&self.db, pool => sqlx::query_scalar(sql).fetch_one(pool).await)?)
    }

    /// Jobs that wait or run.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn open_jobs(&self) -> Result<i64> {
        self.number("SELECT COUNT(*) FROM queue_jobs").await
    }

    /// Waits until no job waits or runs, as long as their number falls. The checker finds those that are left.
    ///
    /// # Errors
    /// When the database does not come back, or a worker cannot be started.
    pub async fn drain(&self, crew: &mut Crew) -> Result<()> {
        let (mut fewest, mut end) = (i64::MAX, Instant::now() + STUCK);
        loop {
            match self.open_jobs().await {
                Ok(0) => return Ok(()),
                Ok(open) if open < fewest => (fewest, end) = (open, Instant::now() + STUCK),
                Ok(_) if Instant::now() > end => return Ok(()),
                Err(error) if Instant::now() > end => return Err(error.context("the database did not come back")),
                _ => crew.work(LOOK * 3).await?,
            }
        }
    }

    /// A figure for people.
    pub fn note(&mut self, what: impl Into<String>) {
        self.notes.push(what.into());
    }

    /// Notes a figure with a promise: see [`Order::promised`].
    ///
    /// # Errors
    /// When the figure exceeds the promise, in the long form.
    pub fn promise(&mut self, what: &str, figures: &impl Display, seconds: f64, promised: f64) -> Result<()> {
        let note = self.order.promised(&format!("{what}: {figures}"), seconds, promised);
        self.note(note.with_context(|| self.notes.join("; "))?);
        Ok(())
    }

    /// Everything that is known now.
    ///
    /// # Errors
    /// When a record is broken or the database does not answer.
    pub async fn history(&self) -> Result<History> {
        let sql = AssertSqlSafe(format!("SELECT tag FROM {LEDGER}"));
        let ledger: Vec<i64> = each!(&self.db, pool => sqlx::query_scalar(sql).fetch_all(pool).await)?;
        let tables = self.db.tables().await;
        Ok(History { events: record::read(self.folder())?, tables, ledger: ledger.into_iter().collect() })
    }

    /// Waits for the requested number of jobs, drains the queue, ends the workers, and runs the checker.
    ///
    /// # Errors
    /// When a promise was broken, with the whole story of each job.
    pub async fn judge(&mut self, load: Option<Load>, mut crew: Crew) -> Result<History> {
        if let Some(load) = load {
            // however long the fault took: so many were asked for
            while self.desk.committed.load(Ordering::Relaxed) < self.order.jobs.unwrap_or_default() {
                crew.work(LOOK * 3).await?;
            }
            let enqueued = load.stop().await;
            tracing::debug!(enqueued, "the load is over");
        }
        self.drain(&mut crew).await?;
        crew.end().await?;
        let history = self.history().await?;
        let checker = Checker::new(&history);
        let violations = checker.violations();
        if !violations.is_empty() {
            bail!("{} violations\n{}{}", violations.len(), checker.tell(&violations), self.logs());
        }
        if checker.committed() == 0 {
            bail!("nothing was committed: this shows nothing");
        }
        let mut text = format!("{} jobs", checker.committed());
        if checker.refused() > 0 {
            text += &format!(", {} stale writes refused", checker.refused());
        }
        if checker.false_deaths() > 0 {
            text += &format!(", {} leases given up", checker.false_deaths());
        }
        self.note(text);
        Ok(history)
    }

    /// Waits for something while the crew restarts workers.
    ///
    /// # Errors
    /// When it does not come in time.
    pub async fn wait<T>(
        &self,
        what: &str,
        within: Duration,
        mut look: impl AsyncFnMut(&Scene) -> Result<Option<T>>,
    ) -> Result<T> {
        let end = Instant::now() + within;
        loop {
            match look(self).await {
                Ok(Some(found)) => return Ok(found),
                Err(error) if Instant::now() > end => {
                    return Err(error.context(format!("{what}: not within {within:?}")));
                }
                _ if Instant::now() > end => bail!("{what}: not within {within:?}\n{}", self.logs()),
                _ => sleep(LOOK).await,
            }
        }
    }

    /// The last lines of the workers' logs.
    pub fn logs(&self) -> String {
        crate::crew::logs(self.folder())
    }
}
