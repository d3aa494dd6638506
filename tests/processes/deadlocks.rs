//! How many deadlocks the server found.

use std::time::Duration;

use queue_test_support::Engine;
use sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, Row as _};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::scene::Scene;

/// The server's counter of deadlocks.
pub(crate) enum Deadlocks {
    None,
    /// Counted by database.
    Postgres,
    /// Counted for the whole server, which other tests use too. After each change, the server is asked which database
    /// it was.
    InnoDb(oneshot::Sender<()>, tokio::task::JoinHandle<Found>),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) ours: i64,
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
    pub(crate) async fn watch(scene: &Scene) -> Self {
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
                    let latest = latest(&mut connection).await;
                    let ours = latest.contains(&format!("`{database}`"));
                    if ours {
                        println!("{latest}");
                    }
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

    pub(crate) async fn found(self, scene: &Scene) -> Found {
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
