//! Records in the database which attempts have begun. Only these count when the worker is lost with them.
//!
//! Nearly every attempt is recorded a moment after it began, if it still runs. So jobs that take microseconds cost no
//! statement, and no job waits. If the worker dies within that moment, nobody knows whether the attempt began. Then it
//! does not count.
//!
//! A job that was lost before, or has at most one retry left, is recorded before it begins. So its start is always
//! known.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::Error;
use crate::store::values::Start;
use crate::worker::notices::until;
use crate::worker::run::work::StartRequest;
use crate::worker::shared::Shared;

/// How soon the first start after a pause is recorded.
const SOON: Duration = Duration::from_millis(1);
/// How often starts are recorded while there are many. Jobs that have ended by then need no record.
const OFTEN: Duration = Duration::from_millis(50);
/// The pause after an error.
const LATER: Duration = Duration::from_secs(1);
/// The most starts in one statement.
const BATCH: usize = 1000;

/// Records starts until the run is over.
pub(crate) async fn run(shared: Arc<Shared>, mut receiver: mpsc::UnboundedReceiver<StartRequest>) {
    let mut asked = Vec::new();
    let mut look: Option<Instant> = None;
    let mut looked: Option<Instant> = None;
    loop {
        tokio::select! {
            count = receiver.recv_many(&mut asked, BATCH) => if count == 0 { return },
            () = shared.starts.begun.notified(), if look.is_none() => {
                let now = Instant::now();
                look = Some(looked.map_or(now, |looked| looked + OFTEN).max(now + SOON));
                continue;
            }
            () = until(look), if look.is_some() => {}
        }
        answer(&shared, &mut asked).await;
        if look.is_some_and(|look| look <= Instant::now()) {
            looked = Some(Instant::now());
            look = match note_running(&shared).await {
                Ok(true) => None,
                // most of them will have ended by then
                Ok(false) => Some(Instant::now() + OFTEN),
                Err(error) => {
                    tracing::debug!(%error, "could not record which attempts have begun; trying again");
                    Some(Instant::now() + LATER)
                }
            };
        }
    }
}

/// Records the starts that wait for it. If that fails, their answers are dropped.
async fn answer(shared: &Shared, asked: &mut Vec<StartRequest>) {
    while let Some(worker) = asked.first().map(|first| first.worker) {
        let batch: Vec<StartRequest> = asked.extract_if(.., |it| it.worker == worker).collect();
        let starts: Vec<Start> = batch.iter().map(|it| it.start).collect();
        match shared.config.store.started(worker, &starts).await {
            Ok(accepted) => {
                for StartRequest { start, answer, .. } in batch {
                    let _ = answer.send(accepted.contains(&start.hold.id));
                }
            }
            Err(error) => tracing::debug!(%error, "could not record which attempts have begun"),
        }
    }
}

/// Records the attempts that have begun without it. False: some have only just begun, and are left out.
async fn note_running(shared: &Shared) -> Result<bool, Error> {
    let (worker, now) = (shared.lease.id(), Instant::now());
    let (mut starts, mut noted, mut all) = (Vec::new(), Vec::new(), true);
    for held in shared.work.held().values() {
        let Some(began) = held.attempt.began() else { continue };
        if held.worker != worker || held.noted.load(Ordering::Relaxed) {
            continue;
        }
        if now.saturating_duration_since(began) < SOON {
            all = false;
            continue;
        }
        // all the others would wait for the handler's transaction
        let Some(row) = held.attempt.switch.may_lock_row() else { continue };
        starts.push(Start { hold: held.hold(), max_neighbours: None });
        noted.push((held.clone(), row));
    }
    if starts.is_empty() || worker == 0 {
        return Ok(all);
    }
    shared.config.store.started(worker, &starts).await?;
    // an attempt that was refused is not ours any more
    noted.iter().for_each(|(held, _)| held.noted.store(true, Ordering::Relaxed));
    Ok(all)
}
