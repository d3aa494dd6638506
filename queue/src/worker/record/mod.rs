//! Records how attempts ended. All attempts that ended during the last write go out as one batch. So an idle worker
//! records at once, and a busy one records many together.
//!
//! While the database is away, all ends wait in order. If the database is up but rejects an end, that end is set aside.
//! The cause may be a value, a missing grant, a user's trigger, or a limit of time or size. What was set aside is
//! retried in ever smaller parts and after growing pauses, while all other ends continue.

pub(crate) mod failing;
pub(crate) mod recorder;
pub(crate) mod refused;
pub(crate) mod tally;

use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc;

use crate::limits::micros;
use crate::store::values::{End, Hold, WorkerId};
use crate::throughput::TallyOutcome;
use crate::worker::notices::until;
use crate::worker::record::recorder::{BACKLOG, BATCH};
use crate::worker::record::refused::{Aside, answered, destination};
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
        // nearly always under one number; under a second one only right after a lost lease
        while let Some(&(worker, _)) = ends.first() {
            let ended = ends.extract_if(.., |(other, _)| *other == worker).map(|(_, ended)| ended).collect();
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

/// The ends for one statement each, those of finished jobs first.
fn by_destination(ends: Vec<End>) -> impl Iterator<Item = Vec<End>> {
    let mut batches = [Vec::new(), Vec::new(), Vec::new()];
    for end in ends {
        batches[destination(&end)].push(end);
    }
    batches.into_iter().filter(|batch| !batch.is_empty())
}

/// Returns when the tasks that are ready have had their turn. Another thread may continue this one. tokio's own
/// `yield_now` stays with the thread, even if a task that does not await keeps that thread for long.
async fn let_others_run() {
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        Poll::Ready(())
    })
    .await;
    futures_util::pending!();
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
    let held = answered(shared, false, || shared.config.store.still_held(worker, &holds)).await;
    let held = held.inspect_err(|error| {
        tracing::warn!(%error, "cannot look whether jobs were completed by their own transactions");
    });
    for (attempt, raw) in unsettled {
        let key = attempt.job.hold().key();
        // a read that failed says nothing: the fence refuses the end of a job that is gone
        let is_held = held.as_ref().map_or(true, |held| held.contains(&key.0));
        let ran_us = micros(attempt.ran());
        let completed = match attempt.settle(raw, is_held) {
            Settled::Ended(end) => {
                ends.push(end);
                continue;
            }
            Settled::Completed { .. } => Some((TallyOutcome::Completed, ran_us, None)),
            Settled::Lost => None,
        };
        shared.recorder.written(worker, std::iter::once((key, completed)));
    }
    ends
}

#[cfg(test)]
mod tests;
