//! Records how attempts ended. All attempts that ended during the last write go out as one batch. So an idle worker
//! records at once, and a busy one records many together.
//!
//! While the database is away, all ends wait in order. If the database is up but rejects an end, that end is set aside.
//! The cause may be a value, a missing grant, a user's trigger, or a limit of time or size. What was set aside is
//! retried in ever smaller parts and after growing pauses, while all other ends continue.

pub(crate) mod claims;
pub(crate) mod recorder;
mod refused;

use std::collections::HashSet;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::store::Trouble;
use crate::store::values::{Destination, End, Hold, WorkerId};
use crate::worker::lease::health::Failures;
use crate::worker::notices::until;
use crate::worker::record::recorder::{BACKLOG, BATCH};
use crate::worker::record::refused::Aside;
use crate::worker::run::attempt::{Ended, Settled};
use crate::worker::shared::Shared;

/// With fewer ends than this, the loop first lets other jobs end that are about to.
const FEW: usize = 32;
/// Records until the run is over.
pub(crate) async fn run(shared: Arc<Shared>, mut receiver: mpsc::UnboundedReceiver<(WorkerId, Ended)>) {
    let mut ends = Vec::with_capacity(BATCH);
    let mut aside = Aside::default();
    loop {
        tokio::select! {
            count = receiver.recv_many(&mut ends, BATCH) => if count == 0 { return },
            () = until(aside.due) => {}
        }
        if ends.len() < FEW {
            // jobs that wait for the same thing end at the same moment: let the others end first
            let_others_run().await;
            while ends.len() < BATCH
                && let Ok(end) = receiver.try_recv()
            {
                ends.push(end);
            }
        }
        for (worker, ended) in by_worker(ends.drain(..)) {
            for batch in by_destination(settle(&shared, worker, ended).await) {
                aside.write(&shared, worker, batch).await;
            }
        }
        aside.again(&shared).await;
        shared.notices.progress.notify_waiters();
        if shared.recorder.unrecorded() < BACKLOG {
            shared.notices.room.notify_one();
        }
    }
}

/// Nearly always under one number; under a second one only right after a lost lease.
fn by_worker(ends: impl Iterator<Item = (WorkerId, Ended)>) -> Vec<(WorkerId, Vec<Ended>)> {
    let mut batches: Vec<(WorkerId, Vec<Ended>)> = Vec::with_capacity(1);
    for (worker, ended) in ends {
        match batches.iter_mut().find(|(id, _)| *id == worker) {
            Some((_, batch)) => batch.push(ended),
            None => batches.push((worker, vec![ended])),
        }
    }
    batches
}

/// The ends for one statement each, those of finished jobs first.
fn by_destination(ends: Vec<End>) -> impl Iterator<Item = Vec<End>> {
    let mut batches = [Vec::new(), Vec::new(), Vec::new()];
    for end in ends {
        batches[match end.to {
            Destination::Finish { .. } => 0,
            Destination::Requeue { .. } => 1,
            Destination::Bury => 2,
        }]
        .push(end);
    }
    batches.into_iter().filter(|batch| !batch.is_empty())
}

/// Returns when the tasks that are ready have had their turn. Another thread may continue this one. tokio's own
/// `yield_now` stays with the thread, even if a task that does not await keeps that thread for long.
async fn let_others_run() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Returns the ends that are to be written: those that are known, and those of jobs that are still held.
pub(super) async fn settle(shared: &Shared, worker: WorkerId, batch: Vec<Ended>) -> Vec<End> {
    let (mut ends, mut unsettled) = (Vec::with_capacity(batch.len()), Vec::new());
    for ended in batch {
        match ended {
            Ended::Known(end) => ends.push(end),
            Ended::Unsettled(attempt, raw) => unsettled.push((attempt, raw)),
        }
    }
    if unsettled.is_empty() {
        return ends;
    }
    let holds: Vec<Hold> = unsettled.iter().map(|(attempt, _)| attempt.job.hold()).collect();
    let held = still_held(shared, worker, &holds).await;
    for (attempt, raw) in unsettled {
        let key = attempt.job.hold().key();
        // a read that failed says nothing: the fence refuses the end of a job that is gone
        let is_held = held.as_ref().is_none_or(|held| held.contains(&key.0));
        match attempt.settle(raw, is_held) {
            Settled::Ended(end) => ends.push(end),
            Settled::Completed { .. } | Settled::Lost => {
                shared.claim_records.ended(worker, std::iter::once(key));
                shared.recorder.written(std::iter::once(key));
            }
        }
    }
    ends
}

/// The jobs that are still held. Waits while the database is away. None: it is up, and does not answer this.
async fn still_held(shared: &Shared, worker: WorkerId, holds: &[Hold]) -> Option<HashSet<i64>> {
    let began = Instant::now();
    let mut failures = Failures::default();
    loop {
        match shared.config.store.still_held(worker, holds).await {
            Ok(held) => {
                shared.health.up(&mut failures);
                return Some(held.into_iter().collect());
            }
            Err(error)
                if shared.config.store.trouble(&error) == Trouble::Refused
                    || (began.elapsed() > shared.config.timing.lease && shared.lease.holds()) =>
            {
                tracing::warn!(%error, "cannot look whether jobs were completed by their own transactions");
                shared.health.up(&mut failures);
                return None;
            }
            Err(error) => shared.health.down(&mut failures, &error).await,
        }
    }
}

#[cfg(test)]
mod tests;
