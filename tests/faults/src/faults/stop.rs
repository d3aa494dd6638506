//! Workers stand still.

use std::time::Duration;

use anyhow::{Result, bail};

use super::Ground;
use crate::load::{Mix, long};
use crate::record::What;
use crate::scene::LEASE;

pub(super) async fn past_the_lease(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().lease(LEASE))?;
    crew.ready().await?;
    let load = scene.load(None, &Mix { bulk: 15, plan: long, ahead: Some(150), ..Mix::usual() })?;
    crew.work(Duration::from_secs(1)).await?;
    let stops = scene.rounds(3, 100);
    for _ in 0..stops {
        let seat = scene.rng.usize(..crew.len());
        let pause = scene.between(LEASE.mul_f64(1.3), LEASE.mul_f64(2.0));
        crew.pause(seat, true);
        crew.work(pause).await?;
        crew.pause(seat, false);
        let pause = scene.between(Duration::from_millis(300), Duration::from_millis(800));
        crew.work(pause).await?;
    }
    let history = scene.judge(Some(load), crew).await?;
    let learned = history.events.iter().filter(|event| event.what == What::LeaseLost).count();
    if learned == 0 {
        bail!("{stops} stops beyond the lease, and no worker lost its lease: this shows nothing");
    }
    scene.note(format!("{stops} stops of 1.3 to 2 leases, {learned} leases lost"));
    Ok(scene.notes)
}
