//! Rescue: returns the jobs of lost workers to the queue.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::sleep;

use crate::error::Error;
use crate::store::values::Rescued;
use crate::telemetry::Event;
use crate::worker::duties::Duty;
use crate::worker::lease::liveness::LostWorker;
use crate::worker::notices::lock;
use crate::worker::shared::Shared;

/// When rescue runs again after a worker was declared lost. The server may still execute a statement of that worker,
/// which may claim jobs. By then that statement has ended.
const AFTERMATH: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(9)];
/// The most jobs that one transaction rescues.
const BATCH: u32 = 500;

/// Runs when a heartbeat requests it. It has its own task, because nothing slow may delay a heartbeat.
pub(crate) struct Rescue;

impl Duty for Rescue {
    async fn due(&mut self, shared: &Shared) {
        shared.notices.rescue.notified().await;
    }

    async fn run_once(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        // in every round: more workers may be lost since a round that failed
        declare_lost(shared).await;
        let (mut rescued, mut refused) = (Rescued::default(), HashSet::new());
        let result = loop {
            match shared.config.store.rescue(BATCH, &refused).await {
                Ok((none, left)) if none == Rescued::default() && left.is_empty() => break Ok(()),
                Ok((some, left)) => {
                    rescued += some;
                    refused.extend(left);
                }
                Err(error) => break Err(error),
            }
        };
        // also what was rescued before an error
        if rescued != Rescued::default() {
            shared.tell({
                let Rescued { ready, dead, cancelled, ref buried } = rescued;
                Event::JobsRescued { ready, dead, cancelled, buried }
            });
        }
        if rescued.ready > 0 {
            // rescued jobs may lie behind the cursors
            shared.notices.rescued.store(true, Relaxed);
            shared.notices.enqueued.notify_one();
        }
        result
    }
}

/// Declares missed workers lost. If that fails, their leases decide.
async fn declare_lost(shared: &Arc<Shared>) {
    let missed = std::mem::take(&mut *lock(&shared.notices.lost));
    if !missed.is_empty() {
        tokio::spawn(look_again(shared.clone()));
    }
    for LostWorker { id, heartbeat, late, by_lease } in missed {
        match shared.config.store.declare_lost(id, heartbeat, by_lease).await {
            Ok(true) => shared.tell(Event::WorkerLost { worker: id, late, by_lease }),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, worker = id, "could not declare a worker lost; its lease decides"),
        }
    }
}

/// Requests a rescue again a while later.
async fn look_again(shared: Arc<Shared>) {
    for pause in AFTERMATH {
        tokio::select! {
            () = sleep(pause) => shared.notices.rescue.notify_one(),
            () = shared.over.cancelled() => return,
        }
    }
}
