//! What the administration reads: how long it takes beside many rows, and what it costs a drain.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use queue::JobState;
use queue::admin::{Action, Admin, Filter};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::{drain, fill};
use crate::database::{Db, each};
use crate::figures::merge;

/// How often each read is timed.
const TIMES: usize = 40;
/// The watchers of a drain, and the pause of each between two looks.
const WATCHERS: u32 = 10;
const PAUSE: Duration = Duration::from_secs(2);

/// The 95th percentile of each read, in milliseconds, in a database with many rows.
pub(super) async fn reads(db: &Db) -> Result<Value> {
    fill::world(db).await?;
    let admin = each!(db, pool => Admin::new(pool));
    let newest = admin.jobs(&Filter::new().limit(1)).await?.items[0].id;
    let dead = admin.jobs(&Filter::new().state(JobState::Dead).limit(1)).await?.items[0].id;
    let failures = admin.failures().await?;
    let group = failures.groups.first().map_or("0", |it| &*it.group);
    let mut figures = Map::new();
    macro_rules! time {
        ($($name:ident: $read:expr),* $(,)?) => {$(
            let mut ms = Vec::new();
            for _ in 0..TIMES {
                let began = Instant::now();
                drop($read.await?);
                ms.push(began.elapsed().as_secs_f64() * 1e3);
            }
            ms.sort_by(f64::total_cmp);
            figures.insert(concat!(stringify!($name), "_ms").to_owned(), json!(ms[TIMES * 95 / 100]));
        )*};
    }
    time! {
        gauges: admin.gauges(),
        throughput: admin.throughput(Duration::from_secs(3600)),
        failures: admin.failures(),
        ended: admin.ended(1_000),
        workers: admin.workers(),
        operations: admin.operations(None),
        list: admin.jobs(&Filter::new().limit(50)),
        list_dead: admin.jobs(&Filter::new().state(JobState::Dead).limit(50)),
        list_kind: admin.jobs(&Filter::new().kind("kind7").limit(50)),
        list_queue: admin.jobs(&Filter::new().queue("q7").limit(50)),
        list_running: admin.jobs(&Filter::new().state(JobState::Running).limit(50)),
        list_group: admin.jobs(&Filter::new().group(group).limit(50)),
        search_argument: admin.jobs(&Filter::new().arg("to", "nobody").limit(50)),
        search_error: admin.jobs(&Filter::new().error("no such text").limit(50)),
        job: admin.job(dead),
        why: admin.why(newest),
        why_summary: admin.why_summary(&Filter::new()),
    }
    Ok(figures.into())
}

/// The drain while several people watch.
pub(super) async fn drain(db: &Db) -> Result<Value> {
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|n| {
            let admin = each!(db, pool => Admin::new(pool));
            tokio::spawn(async move {
                // they do not all look at the same time
                sleep(PAUSE / WATCHERS * n).await;
                loop {
                    admin.gauges().await?;
                    admin.throughput(Duration::from_secs(3600)).await?;
                    admin.failures().await?;
                    admin.workers().await?;
                    sleep(PAUSE).await;
                }
                #[expect(unreachable_code, reason = "it tells the type")]
                anyhow::Ok(())
            })
        })
        .collect();
    let figures = drain::fresh(db).await;
    watchers.iter().for_each(|it| it.abort());
    for watcher in watchers {
        if let Ok(ended) = watcher.await {
            ended?;
        }
    }
    figures
}

/// The drain while dead letters of another kind are sent back.
pub(super) async fn drain_sending_back(db: &Db) -> Result<Value> {
    fill::dead_letters(db, "foreign", fill::backlog()).await?;
    fill::settle(db).await?;
    let admin = each!(db, pool => Admin::new(pool));
    let plan = admin.plan(Action::SendBack, &Filter::new().kind("foreign")).await?;
    let began = Instant::now();
    let sending = tokio::spawn(async move { plan.run().await });
    let changed = async || anyhow::Ok(admin.operations(None).await?.first().map_or(0, |it| it.changed));
    while changed().await? == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    let figures = drain::fresh(db).await?;
    let rate = changed().await? as f64 / began.elapsed().as_secs_f64();
    admin.stop(admin.operations(None).await?.first().context("it is on record")?.id).await?;
    sending.await??;
    Ok(merge(figures, json!({ "sent_back_per_second": rate })))
}
