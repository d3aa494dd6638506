//! Jobs are cancelled while workers are killed.

use std::time::Duration;

use anyhow::{Result, bail};
use queue::admin::{Admin, Filter};
use queue::{Error, JobState};
use queue_test_support::each;

use super::Ground;
use crate::load::{Mix, late};
use crate::record::What;
use crate::scene::LEASE;

/// Jobs per listing. Every other one is cancelled.
const PAGE: u32 = 30;

/// P7, P8.
pub(super) async fn beside_kills(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(3, &scene.worker().lease(LEASE).concurrency(8))?;
    crew.ready().await?;
    let load = scene.load(None, &Mix { plan: late, ahead: Some(100), ..Mix::usual() })?;
    let admin = each!(&scene.db, pool => Admin::new(pool));
    let rounds = scene.rounds(5, 100);
    let (mut accepted, mut too_late) = (0, 0);
    for _ in 0..rounds {
        for state in [JobState::Ready, JobState::Running, JobState::Scheduled] {
            let pause = scene.between(Duration::from_millis(100), Duration::from_millis(300));
            crew.work(pause).await?;
            for job in admin.jobs(&Filter::new().state(state).limit(PAGE)).await?.items {
                if scene.rng.bool() {
                    continue;
                }
                let job = job.id;
                scene.record(What::CancelAsked { job: job.get() });
                match admin.cancel(job).await {
                    Ok(()) => {
                        scene.record(What::CancelAccepted { job: job.get() });
                        accepted += 1;
                    }
                    Err(Error::Conflict { .. }) => too_late += 1,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let seat = scene.rng.usize(..crew.len());
        crew.kill(seat)?;
    }
    let history = scene.judge(Some(load), crew).await?;
    let ends = |wanted: &str| history.tables.jobs.values().flatten().filter(|row| row.state == wanted).count();
    let outcomes = history.tables.attempts.values().flatten();
    let stopped = outcomes.filter(|it| it.outcome == "cancelled").count();
    if accepted == 0 || stopped == 0 {
        bail!("{accepted} cancellations were accepted, and {stopped} handlers stopped: this shows nothing");
    }
    scene.note(format!(
        "{rounds} kills; {accepted} cancellations accepted, {too_late} too late; {} jobs cancelled, in {stopped} of \
         them the handler stopped",
        ends("cancelled")
    ));
    Ok(scene.notes)
}
