//! What a worker without work asks of the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::beside;
use super::jobs::Seen;
use crate::database::{Db, Engine, url};
use crate::process::{own_cpu, server, server_cpu};
use crate::seconds;

/// Counts the statements that sqlx logs.
#[derive(Clone, Default)]
struct Statements(Arc<AtomicU64>);

impl Subscriber for Statements {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "sqlx::query"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Everything that is counted, at one moment.
struct Reading {
    at: Instant,
    sent: u64,
    served: Option<i64>,
    own_cpu: f64,
    server_cpu: Option<f64>,
}

/// What the server says it has done: transactions on PostgreSQL, statements on MySQL and MariaDB.
async fn served(db: &Db) -> Result<Option<i64>> {
    Ok(match db.engine() {
        Engine::Postgres => Some(
            db.number("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
                .await?,
        ),
        Engine::MySql => Some(db.status("Questions").await?),
        Engine::Sqlite => None,
    })
}

/// The first minute, and the time after 75 s.
pub(super) async fn run(db: &Db) -> Result<Value> {
    let statements = Statements::default();
    tracing::subscriber::set_global_default(statements.clone())?;
    let observer = Db::connect().await?;
    let server = server(&url()?.1);
    let worker = db.worker(&Seen::default()).build()?;
    let read = async |first: bool| {
        // so that what the observer does itself lies outside
        let served = if first { served(&observer).await? } else { None };
        anyhow::Ok(Reading {
            at: Instant::now(),
            sent: statements.0.load(Ordering::Relaxed),
            served,
            own_cpu: own_cpu(),
            server_cpu: server_cpu(server),
        })
    };
    let measured = async {
        // without the worker's start
        sleep(Duration::from_secs(1)).await;
        let start = Instant::now();
        let mut figures = Map::new();
        for (name, begin, length) in [
            ("idle", Duration::ZERO, seconds().min(Duration::from_secs(60))),
            ("later", Duration::from_secs(75), seconds() / 2),
        ] {
            sleep_until(start + begin).await;
            let before = read(true).await?;
            sleep(length).await;
            let after = read(false).await?;
            let served = served(&observer).await?;
            let seconds = (after.at - before.at).as_secs_f64();
            let mut note = |what: &str, value: Option<f64>| {
                figures.insert(format!("{name}_{what}"), value.map_or(Value::Null, |value| json!(value / seconds)));
            };
            note("per_second", Some((after.sent - before.sent) as f64));
            // the observer's own statement or transaction
            let theirs = before.served.zip(served).map(|(before, after)| (after - before - 1).max(0) as f64);
            note("server_per_second", theirs);
            note("worker_cpu", Some(100.0 * (after.own_cpu - before.own_cpu)));
            note("server_cpu", before.server_cpu.zip(after.server_cpu).map(|(before, after)| 100.0 * (after - before)));
        }
        Ok(Value::Object(figures))
    };
    beside(worker, measured).await
}
