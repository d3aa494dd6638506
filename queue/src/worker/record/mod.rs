//! Records how attempts ended. All attempts that ended during the last write go out as one batch. So an idle worker
//! records at once, and a busy one records many together.
//!
//! While the database is away, all ends wait in order. If the database is up but rejects an end, that end is set aside.
//! The cause may be a value, a missing grant, a user's trigger, or a limit of time or size. What was set aside is
//! retried in ever smaller parts and after growing pauses, while all other ends continue.

pub(crate) mod claims;
mod forms;
pub(crate) mod recorder;
mod refused;
mod unsettled;

use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc;

use crate::store::values::{Destination, End, WorkerId};
use crate::worker::record::recorder::{BACKLOG, BATCH};
use crate::worker::record::refused::Aside;
use crate::worker::run::attempt::until;
use crate::worker::run::ended::Ended;
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
            for batch in by_destination(unsettled::settle(&shared, worker, ended).await) {
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

#[cfg(test)]
mod tests;
