//! Workers stand still.

use std::time::Duration;

use anyhow::{Result, bail};

use super::Ground;
use crate::load::{Mix, long};
use crate::record::{self, Event, What};
use crate::scene::LEASE;

pub(super) async fn past_the_lease(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().lease(LEASE))?;
    crew.ready().await?;
    let load = scene.load(None, &Mix { bulk: 15, plan: long, ahead: Some(150), ..Mix::usual() })?;
    crew.work(Duration::from_secs(1)).await?;
    let (planned, mut stops) = (scene.rounds(3, 100), 0);
    // where the other worker is late as well, nobody may have declared this one gone yet when it wakes up
    while stops < planned || (stops < planned * 5 && leases_lost(&record::read(scene.folder())?) == 0) {
        stops += 1;
        let seat = scene.rng.usize(..crew.len());
        let pause = scene.between(LEASE.mul_f64(1.3), LEASE.mul_f64(2.0));
        crew.pause(seat, true);
        crew.work(pause).await?;
        crew.pause(seat, false);
        let pause = scene.between(Duration::from_millis(300), Duration::from_millis(800));
        crew.work(pause).await?;
    }
    let history = scene.judge(Some(load), crew).await?;
    let learned = leases_lost(&history.events);
    if learned == 0 {
        bail!("{stops} stops beyond the lease, and no worker lost its lease: this shows nothing");
    }
    scene.note(format!("{stops} stops of 1.3 to 2 leases, {learned} leases lost"));
    Ok(scene.notes)
}

/// How often a worker learned that it had lost its lease.
fn leases_lost(events: &[Event]) -> usize {
    events.iter().filter(|event| event.what == What::LeaseLost).count()
}
