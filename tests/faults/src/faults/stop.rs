//! Workers are suspended (SIGSTOP).

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Ground;
use crate::load::{Mix, late};
use crate::record::{self, Event, How, What};
use crate::scene::LEASE;

/// P4, P6.
pub(super) async fn past_the_lease(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(2, &scene.worker().lease(LEASE))?;
    crew.ready().await?;
    let load = scene.load(None, &Mix { bulk: 15, plan: late, ahead: Some(150), ..Mix::usual() })?;
    crew.work(Duration::from_secs(1)).await?;
    let (planned, mut stops) = (scene.rounds(3, 100), 0);
    // where the other worker is late as well, nobody may have begun anew when this one wakes up
    while stops < planned || (stops < planned * 8 && overtaken(&record::read(scene.folder())?) == 0) {
        stops += 1;
        let seat = scene.rng.usize(..crew.len());
        let pause = scene.between(LEASE.mul_f64(1.05), LEASE.mul_f64(2.0));
        crew.pause(seat, true);
        crew.work(pause).await?;
        crew.pause(seat, false);
        let pause = scene.between(Duration::from_millis(300), Duration::from_millis(800));
        crew.work(pause).await?;
    }
    let history = scene.judge(Some(load), crew).await?;
    let learned = history.events.iter().filter(|event| event.what == What::LeaseLost).count();
    let overtaken = overtaken(&history.events);
    if learned == 0 || overtaken == 0 {
        bail!("{stops} stops, {learned} leases lost, {overtaken} ends while another attempt ran: this shows nothing");
    }
    scene.note(format!(
        "{stops} stops of 1.05 to 2 leases, {learned} leases lost; {overtaken} handlers failed, snoozed or gave up \
         while a later attempt ran"
    ));
    Ok(scene.notes)
}

/// The number of unsuccessful ends of attempts while a later one ran. If the database accepted one, it would end the
/// later one.
fn overtaken(events: &[Event]) -> usize {
    let mut running: HashMap<i64, Vec<i64>> = HashMap::new();
    let mut count = 0;
    for event in events {
        match event.what {
            What::Started { tag, attempt, .. } => running.entry(tag).or_default().push(attempt),
            What::Ended { tag, attempt, how, .. } => {
                let attempts = running.entry(tag).or_default();
                let late = attempts.iter().any(|other| *other > attempt);
                count += usize::from(late && !matches!(how, How::Ok | How::Dropped));
                attempts.retain(|other| *other != attempt);
            }
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::overtaken;
    use crate::record::{Event, How, What};

    #[test]
    fn an_end_beside_a_later_attempt_is_counted() {
        let event = |at, what| Event { at, process: at, what };
        let start = |at, attempt| event(at, What::Started { job: 1, tag: 1, attempt });
        let end = |at, attempt, how| event(at, What::Ended { job: 1, tag: 1, attempt, how });
        let failed = How::Failed { retry_ms: 1 };
        assert_eq!(overtaken(&[start(1, 1), start(2, 2), end(3, 1, failed), end(4, 2, failed)]), 1);
        assert_eq!(overtaken(&[start(1, 1), start(2, 2), end(3, 1, How::Ok), end(4, 2, failed)]), 0);
        assert_eq!(overtaken(&[start(1, 1), start(2, 2), end(3, 2, How::Ok), end(4, 1, failed)]), 0);
    }
}
