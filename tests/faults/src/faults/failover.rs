//! The primary is lost, and its replica takes over behind the same address.

use std::time::Duration;

use anyhow::{Context as _, Result};
use queue_test_servers::{Durability, Replicated, Settings};
use tokio::task::block_in_place;

use super::Ground;
use crate::balancer::{Balancer, with_port};
use crate::checker::History;
use crate::figures::Spread;
use crate::load::Mix;
use crate::record::{What, now};
use crate::scene::{Form, Place, Scene};

/// Time limit in seconds from the switch of the address to the first start of a job.
const BACK_WITHIN: f64 = 3.0;

/// P1, P23: Replication is synchronous: every commit is on the replica.
pub(super) async fn to_the_replica(ground: &Ground) -> Result<Vec<String>> {
    let rounds = ground.order.rounds.unwrap_or(if ground.order.form == Form::Short { 1 } else { 20 });
    let (mut away, mut back) = (Vec::new(), Vec::new());
    let mut notes = Vec::new();
    for _ in 0..rounds {
        // dropped last, after the database
        let mut both = block_in_place(|| Replicated::start(&Settings::new(Durability::Process)))?;
        let balancer = Balancer::start(vec![both.primary.port()]).await?;
        let url = with_port(&both.primary.url(), balancer.port());
        let mut scene = Scene::new(ground.engine, Place::Shared(Some(url)), ground.order).await?;
        let mut crew = scene.crew();
        crew.hire_many(2, &scene.worker())?;
        crew.ready().await?;
        let load = scene.load(None, &Mix::usual())?;
        let pause = scene.between(Duration::from_millis(1500), Duration::from_millis(3000));
        crew.work(pause).await?;
        let down = now();
        block_in_place(|| {
            both.primary.kill()?;
            both.promote()
        })?;
        balancer.point_at(vec![both.replica.port()]);
        let up = now();
        crew.work(Duration::from_secs(3)).await?;
        let history = scene.judge(Some(load), crew).await?;
        away.push(up - down);
        back.extend(first_start(&history, up).map(|at| at - up));
        notes.append(&mut scene.notes);
    }
    let (away, back) = Spread::of(away).zip(Spread::of(back)).context("no job was started after the switch")?;
    let figures = format!("switched after {away}, first start after it {back}");
    notes.push(ground.order.promised(&figures, back.max(), BACK_WITHIN)?);
    Ok(notes)
}

/// The first start of a handler after a moment.
pub(super) fn first_start(history: &History, after: i64) -> Option<i64> {
    let starts = history.events.iter().filter(|event| matches!(event.what, What::Started { .. }));
    starts.map(|event| event.at).find(|at| *at > after)
}
