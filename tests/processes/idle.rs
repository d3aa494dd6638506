//! How many statements an idle worker sends.

use std::time::Duration;

use queue_test_support::{Engine, Proxy};
use tokio::time::sleep;

use crate::figures;
use crate::scene::{Process, Scene};

/// How many spells it may take until it is idle.
const SPELLS: usize = 5;
const WATCHED: Duration = Duration::from_secs(10);
/// Time to connect, to join and to find the waiting jobs.
const SETTLED: Duration = Duration::from_millis(1500);

/// P25: Counts statements on the wire, and for SQLite in the driver's log, which omits `BEGIN` and `COMMIT`.
pub(crate) async fn idle_statements(scene: &Scene) {
    let limit = match scene.engine() {
        Engine::Sqlite | Engine::Postgres => 2.0,
        Engine::MariaDb | Engine::MySql => 25.0,
    };
    // a busy machine may need longer to settle; a worker that is not idle is so in each of these spells
    let mut told = String::new();
    let mut rate = f64::INFINITY;
    if scene.engine() == Engine::Sqlite {
        let worker = scene.worker("idle").log_filter("info,sqlx::query=debug").start().await;
        for _ in 0..SPELLS {
            sleep(SETTLED).await;
            let before = worker.log();
            sleep(WATCHED).await;
            let log = worker.log().split_off(before.len());
            let statements: Vec<&str> = log.lines().filter(|line| line.contains("sqlx::query")).collect();
            rate = statements.len() as f64 / WATCHED.as_secs_f64();
            told = statements.join("\n");
            if rate <= limit {
                break;
            }
        }
    } else {
        let proxy = Proxy::start(scene.engine(), scene.base.url()).await;
        let url = proxy.url(scene.base.url());
        let _worker: Process = scene.worker("idle").url(&url).start().await;
        for _ in 0..SPELLS {
            sleep(SETTLED).await;
            let before = proxy.statements();
            sleep(WATCHED).await;
            rate = (proxy.statements() - before) as f64 / WATCHED.as_secs_f64();
            if rate <= limit {
                break;
            }
        }
    }
    figures(scene.engine(), "idle worker", &format!("{rate:.1} statements/s of {limit}"));
    assert!(rate <= limit, "{rate:.1} statements/s, not {limit}\n{told}");
}
