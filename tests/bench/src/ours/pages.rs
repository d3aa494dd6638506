//! The dashboard: how long its pages take beside many rows, and what ten open tabs cost a drain.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use queue::JobState;
use queue::admin::{Admin, Filter};
use queue_web::Dashboard;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use tower::ServiceExt as _;

use super::{drain, fill};
use crate::database::{Db, each};

/// How often each page is asked for, and the pause before one that is about what is going on: that of an open tab.
const TIMES: usize = 12;
/// After this pause, such a page waits until all is read anew.
const AWAY: Duration = Duration::from_millis(6_500);
/// The tabs, and the pause of each between two looks.
const TABS: u32 = 10;
const PAUSE: Duration = Duration::from_secs(3);
const NONE: Duration = Duration::ZERO;

fn router(db: &Db) -> (Admin, Router) {
    let admin = each!(db, pool => Admin::new(pool));
    (admin.clone(), Dashboard::new(admin).open_to_everybody())
}

/// The size of a page.
async fn get(router: &Router, path: &str) -> Result<usize> {
    let answer = router.clone().oneshot(Request::get(path).body(Body::empty())?).await?;
    let status = answer.status();
    let body = to_bytes(answer.into_body(), usize::MAX).await?;
    ensure!(status.is_success(), "{path}: {status}: {}", String::from_utf8_lossy(&body));
    Ok(body.len())
}

/// The 95th percentile of each page, in milliseconds, and the size of a list.
pub(super) async fn pages(db: &Db) -> Result<Value> {
    fill::world(db).await?;
    let (admin, router) = router(db);
    let newest = admin.jobs(&Filter::new().limit(1)).await?.items.first().context("jobs wait")?.id;
    let dead = admin.jobs(&Filter::new().state(JobState::Dead).limit(1)).await?.items.first().context("dead")?.id;
    let group = admin.failures().await?.groups.first().context("a group")?.group.clone();
    let mut figures = Map::new();
    let pages = [
        ("overview_first", "/".to_owned(), AWAY),
        ("overview", "/".to_owned(), PAUSE),
        ("overview_week", "/?range=7d".to_owned(), NONE),
        ("page_failures", "/failures".to_owned(), PAUSE),
        ("page_queues", "/queues".to_owned(), PAUSE),
        ("page_workers", "/workers".to_owned(), PAUSE),
        ("page_jobs", "/jobs".to_owned(), NONE),
        ("page_dead", "/jobs?q=state:dead".to_owned(), NONE),
        ("page_kind", "/jobs?q=kind:kind7".to_owned(), NONE),
        ("page_group", format!("/jobs?q=state:dead+group:{group}"), NONE),
        ("page_waiting_job", format!("/jobs/{newest}"), NONE),
        ("page_dead_job", format!("/jobs/{dead}"), NONE),
        ("page_plan", format!("/plan?do=send_back&q=state:dead+group:{group}"), NONE),
        ("page_operations", "/operations".to_owned(), NONE),
        ("page_schedules", "/schedules".to_owned(), PAUSE),
    ];
    for (name, path, pause) in pages {
        let mut ms = Vec::new();
        for _ in 0..TIMES {
            sleep(pause).await;
            let began = Instant::now();
            let size = get(&router, &path).await?;
            ms.push(began.elapsed().as_secs_f64() * 1e3);
            if name == "page_dead" {
                figures.insert("list_bytes".to_owned(), json!(size));
            }
        }
        ms.sort_by(f64::total_cmp);
        figures.insert(format!("{name}_ms"), json!(ms[TIMES * 95 / 100]));
    }
    Ok(figures.into())
}

/// The drain while ten tabs show the overview.
pub(super) async fn drain(db: &Db) -> Result<Value> {
    let (_, router) = router(db);
    let tabs: Vec<_> = (0..TABS)
        .map(|n| {
            let router = router.clone();
            tokio::spawn(async move {
                // they do not all look at the same time
                sleep(PAUSE / TABS * n).await;
                loop {
                    get(&router, "/").await?;
                    sleep(PAUSE).await;
                }
                #[expect(unreachable_code, reason = "it tells the type")]
                anyhow::Ok(())
            })
        })
        .collect();
    let figures = drain::fresh(db).await;
    tabs.iter().for_each(|it| it.abort());
    for tab in tabs {
        if let Ok(ended) = tab.await {
            ended?;
        }
    }
    figures
}
