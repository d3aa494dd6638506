//! Records how attempts ended. All attempts that ended during the last write go out as one batch. So an idle worker
//! records at once, and a busy one records many together.
//!
//! While the database is away, all ends wait in order. If the database is up but rejects an end, that end is set aside.
//! The cause may be a value, a missing grant, a user's trigger, or a limit of time or size. What was set aside is
//! retried in ever smaller parts and after growing pauses, while all other ends continue.

pub(crate) mod claims;
mod end_of_run;
pub(crate) mod recorder;
mod refused;
mod unsettled;

use std::sync::Arc;
use std::task::Poll;

use tokio::sync::mpsc;

use crate::store::values::{Bury, Finish, Requeue, WorkerId};
use crate::worker::record::recorder::{BACKLOG, BATCH};
use crate::worker::record::refused::Aside;
use crate::worker::run::attempt::until;
use crate::worker::run::ended::{Ended, Unsettled};
use crate::worker::shared::Shared;

/// With fewer ends than this, the loop first lets other jobs end that are about to.
const FEW: usize = 32;
/// Ends under one worker number, by edge.
#[derive(Default)]
struct Batch {
    finish: Vec<Finish>,
    requeue: Vec<Requeue>,
    bury: Vec<Bury>,
    unsettled: Vec<Unsettled>,
}

impl Batch {
    fn push(&mut self, ended: Ended) {
        match ended {
            Ended::Finish(it) => self.finish.push(it),
            Ended::Requeue(it) => self.requeue.push(it),
            Ended::Bury(it) => self.bury.push(it),
            Ended::Unsettled(it) => self.unsettled.push(it),
        }
    }
}

/// Records until the run is over.
pub(crate) async fn run(shared: Arc<Shared>, mut receiver: mpsc::UnboundedReceiver<(WorkerId, Ended)>) {
    let mut ends = Vec::with_capacity(BATCH);
    let (mut finish, mut requeue, mut bury) = (Aside::default(), Aside::default(), Aside::default());
    loop {
        let again = [finish.due, requeue.due, bury.due].into_iter().flatten().min();
        tokio::select! {
            count = receiver.recv_many(&mut ends, BATCH) => if count == 0 { return },
            () = until(again) => {}
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
        // nearly always one number; a second one only right after a lost lease
        let mut batches: Vec<(WorkerId, Batch)> = Vec::with_capacity(1);
        for (worker, ended) in ends.drain(..) {
            let at = batches.iter().position(|(id, _)| *id == worker).unwrap_or_else(|| {
                batches.push((worker, Batch::default()));
                batches.len() - 1
            });
            batches[at].1.push(ended);
        }
        for (worker, mut batch) in batches {
            for ended in unsettled::settle(&shared, worker, std::mem::take(&mut batch.unsettled)).await {
                batch.push(ended);
            }
            finish.write(&shared, worker, batch.finish).await;
            requeue.write(&shared, worker, batch.requeue).await;
            bury.write(&shared, worker, batch.bury).await;
        }
        for unrecordable in [finish.again(&shared).await, requeue.again(&shared).await, bury.again(&shared).await] {
            match unrecordable {
                Some((worker, Ended::Bury(end))) => bury.last_words(worker, end),
                Some((worker, Ended::Requeue(end))) => requeue.last_words(worker, end),
                Some((_, Ended::Finish(_) | Ended::Unsettled(_))) | None => {}
            }
        }
        shared.notices.progress.notify_waiters();
        if shared.recorder.unrecorded() < BACKLOG {
            shared.notices.room.notify_one();
        }
    }
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
