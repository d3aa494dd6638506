//! Many claimers on one backlog.

use std::collections::{HashMap, HashSet};
use std::env;
use std::time::Duration;

use queue_test_support::Engine;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, Row as _};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::checker::Checker;
use crate::figures;
use crate::jobs::{Note, WaitForFile, now};
use crate::records::{Record, What};
use crate::scene::{PATIENCE, Scene, text, touch};

/// The default. The acceptance test sets `QUEUE_TEST_JOBS=100000`.
pub(crate) const JOBS: usize = 5_000;
const PROCESSES: usize = 4;
const EACH: u32 = 8;
/// Limit of rounds of enqueues, until more than one process runs jobs.
const WAVES: usize = 10;

pub(crate) fn jobs() -> usize {
    env::var("QUEUE_TEST_JOBS").map_or(JOBS, |text| text.parse().expect("QUEUE_TEST_JOBS is a number"))
}

pub(crate) async fn thirty_two_claimers(scene: &Scene) {
    let jobs = jobs();
    let deadlocks = Deadlocks::watch(scene).await;
    let mut workers = Vec::new();
    for number in 0..PROCESSES {
        let setup = scene.worker(&format!("claimer-{number}")).concurrency(EACH);
        workers.push(setup.start().await);
    }
    let awake = wake(scene).await;
    let drain = PATIENCE.max(Duration::from_millis(10) * u32::try_from(jobs).unwrap_or(u32::MAX));
    let mut ids = Vec::new();
    // No share is promised to a process, but if only one runs jobs there is no competition to test.
    while shares(&scene.records(), &awake).len() < 2 {
        assert!(ids.len() < jobs * WAVES, "only one process ran jobs\n{}", scene.logs());
        let started = now();
        // one commit: all of them want the same rows at the same moment
        ids.extend(scene.db.enqueue_all((0..jobs).map(|_| Note {}).collect()).await);
        let enqueued = now();
        scene.wait_for_rows("queue_jobs", 0, drain).await;
        let took = (now() - enqueued) as f64 / 1e6;
        figures(
            scene.engine(),
            "32 claimers",
            &format!(
                "{jobs} jobs enqueued in {:.2} s, run in {took:.2} s ({:.0}/s), by process {:?}",
                (enqueued - started) as f64 / 1e6,
                jobs as f64 / took,
                shares(&scene.records(), &awake)
            ),
        );
    }
    for worker in &mut workers {
        worker.end(PATIENCE).await;
    }
    let found = deadlocks.found(scene).await;

    ids.extend(&awake);
    let mut checker = Checker::of(scene).await;
    checker.completed_exactly_once(&ids);
    for &id in &ids {
        checker.started(id, 1);
        // a release after a claim ahead raises the fence, and is allowed; a second attempt is not
        if checker.row(id).is_some_and(|row| row.attempt != 1) {
            checker.violation(id, "not completed in the first attempt");
        }
    }
    if found.ours > 0 {
        checker.violation(None, format!("deadlocks: {found}"));
    }
    checker.verdict();
}

/// How many jobs each process started, apart from those in `without`.
fn shares(records: &[Record], without: &[i64]) -> Vec<usize> {
    let mut shares: HashMap<i64, usize> = HashMap::new();
    for record in records.iter().filter(|it| it.what == What::Start && !without.contains(&it.job)) {
        *shares.entry(record.process).or_default() += 1;
    }
    let mut shares: Vec<usize> = shares.into_values().collect();
    shares.sort_unstable();
    shares
}

/// Waits until every process runs a job, then lets these jobs end, and returns them. Without this, an idle worker may
/// poll so rarely that another one runs everything first.
async fn wake(scene: &Scene) -> Vec<i64> {
    let go = scene.path("go");
    let deadline = Instant::now() + PATIENCE;
    let mut ids = Vec::new();
    loop {
        let awake: HashSet<_> = scene.records().iter().map(|record| record.process).collect();
        if awake.len() == PROCESSES {
            touch(&go);
            return ids;
        }
        assert!(Instant::now() < deadline, "only {} processes run jobs\n{}", awake.len(), scene.logs());
        ids.push(scene.db.enqueue(WaitForFile { path: text(&go) }).await.get());
        sleep(Duration::from_millis(10)).await;
    }
}

/// The server's counter of deadlocks.
enum Deadlocks {
    None,
    /// Counted by database.
    Postgres,
    /// Counted for the whole server, which other tests use too. After each change, the server is asked which database
    /// it was.
    InnoDb(oneshot::Sender<()>, tokio::task::JoinHandle<Found>),
}

#[derive(Clone, Copy, Debug, Default)]
struct Found {
    ours: i64,
    /// In databases of other tests.
    others: i64,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.ours)?;
        if self.others > 0 {
            write!(f, " (and {} in other tests' databases)", self.others)?;
        }
        Ok(())
    }
}

impl Deadlocks {
    async fn watch(scene: &Scene) -> Self {
        let counter = match scene.engine() {
            Engine::Sqlite => return Self::None,
            Engine::Postgres => return Self::Postgres,
            Engine::MariaDb => {
                "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                                WHERE variable_name = 'INNODB_DEADLOCKS'"
            }
            Engine::MySql => {
                "SELECT CAST(`count` AS SIGNED) FROM information_schema.innodb_metrics \
                              WHERE name = 'lock_deadlocks'"
            }
        };
        let mut connection = MySqlConnection::connect(scene.base.url()).await.expect("a connection");
        let database = scene.base.url().rsplit('/').next().unwrap_or_default().to_owned();
        let mut before = count(&mut connection, counter).await;
        let (stop, mut stopped) = oneshot::channel();
        let watcher = tokio::spawn(async move {
            let mut found = Found::default();
            loop {
                let last = !matches!(stopped.try_recv(), Err(oneshot::error::TryRecvError::Empty));
                let after = count(&mut connection, counter).await;
                if after > before {
                    // Only the latest can be asked about. Of several at once all are taken for ours if that one is.
                    let ours = latest(&mut connection).await.contains(&format!("`{database}`"));
                    *(if ours { &mut found.ours } else { &mut found.others }) += after - before;
                    before = after;
                }
                if last {
                    return found;
                }
                sleep(Duration::from_millis(50)).await;
            }
        });
        Self::InnoDb(stop, watcher)
    }

    async fn found(self, scene: &Scene) -> Found {
        match self {
            Self::None => Found::default(),
            Self::Postgres => {
                // what a session counted is there when the session has ended, a moment later
                sleep(Duration::from_millis(500)).await;
                let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
                Found { ours: scene.db.number(sql).await, others: 0 }
            }
            Self::InnoDb(stop, watcher) => {
                let _ = stop.send(());
                watcher.await.expect("the watcher of deadlocks")
            }
        }
    }
}

async fn count(connection: &mut MySqlConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(connection).await.expect("a counter")
}

/// The server's words on the latest deadlock.
async fn latest(connection: &mut MySqlConnection) -> String {
    let row = sqlx::raw_sql(AssertSqlSafe("SHOW ENGINE INNODB STATUS".to_owned()))
        .fetch_one(connection)
        .await
        .expect("the engine's status");
    let status: String = row.get(2);
    let from = status.find("LATEST DETECTED DEADLOCK").unwrap_or(status.len());
    let report = &status[from..];
    let to = report.find("\nTRANSACTIONS\n").unwrap_or(report.len());
    report[..to].to_owned()
}
