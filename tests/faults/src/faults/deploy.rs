//! An old binary and a new one on one database.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Result, bail};
use queue::Job;
use queue_test_support::each;

use super::Ground;
use crate::jobs::{new, old};
use crate::load::Mix;
use crate::record::{Options, What};
use crate::scene::Scene;

pub(super) async fn side_by_side(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    let (before, after) = (scene.worker().arg("generation", "old"), scene.worker().arg("generation", "new"));
    let first = crew.hire(before.clone())?;
    crew.hire(before)?;
    let load = scene.load(None, &Mix::usual())?;
    let rounds = scene.rounds(6, 200);
    let mut count = 0;
    for round in 0..rounds {
        if round == rounds / 2 {
            // the first of two is replaced; the other goes on beside it
            crew.next(first, after.clone());
            crew.kill(first)?;
        }
        count += enqueue_each(&scene).await?;
        each!(&scene.db, pool => queue::migrate(pool).await)?;
        crew.work(Duration::from_millis(300)).await?;
    }
    let history = scene.judge(Some(load), crew).await?;
    if history.tables.jobs.values().flatten().any(|row| row.state == "dead") {
        bail!("jobs of one binary are dead letters of the other\n{}", scene.logs());
    }
    scene.note(format!("{count} jobs of four kinds, two of them known to one binary only"));
    Ok(scene.notes)
}

/// One of each kind, by producers of both generations.
async fn enqueue_each(scene: &Scene) -> Result<usize> {
    enqueue(scene, |tag| old::Deployed { tag }).await?;
    enqueue(scene, |tag| old::Retired { tag }).await?;
    enqueue(scene, |tag| new::Deployed { tag, greeting: "hi".into() }).await?;
    enqueue(scene, |tag| new::Introduced { tag }).await?;
    Ok(4)
}

async fn enqueue<J: Job>(scene: &Scene, job: impl Fn(i64) -> J) -> Result<()> {
    let tag = scene.desk.tags.fetch_add(1, Ordering::Relaxed);
    let options = Options { max_retries: 9, ..Options::default() };
    scene.desk.journal.write(What::Asked { tags: vec![tag], options });
    each!(&scene.db, pool => job(tag).max_retries(9).enqueue(pool).await)?;
    scene.desk.commit(vec![tag]);
    Ok(())
}
