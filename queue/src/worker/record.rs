//! Writing down how attempts ended: whatever ended while the last write was under way goes out as one batch, so that an
//! idle worker records at once and a busy one many together.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::Shared;
use super::attempt::Ended;
use super::health::Failures;
use crate::error::Error;
use crate::limits::bytes_in_json;
use crate::store::{Bury, Finish, Outcome, PutBack, Store, WorkerId};
use crate::telemetry;

/// Ends recorded in one transaction.
const BATCH: usize = 1000;
/// Bytes of results and error texts in one transaction: below what any server accepts as one statement by default.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Unrecorded ends above which nothing more is claimed.
pub(crate) const BACKLOG: usize = 4 * BATCH;

/// The way to the recording loop.
pub(crate) struct Recorder {
    ended: mpsc::UnboundedSender<(WorkerId, Ended)>,
    /// What was handed over and is not written yet, by job and lease.
    unrecorded: Mutex<HashSet<(i64, i32)>>,
}

impl Recorder {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<(WorkerId, Ended)>) {
        let (ended, receiver) = mpsc::unbounded_channel();
        (Self { ended, unrecorded: Mutex::default() }, receiver)
    }

    /// Hands an end over. Never waits.
    pub(crate) fn record(&self, worker: WorkerId, ended: Ended) {
        self.keys().insert(ended.key());
        // the loop ends after everybody who records: a closed channel means that the run was dropped
        let _ = self.ended.send((worker, ended));
    }

    pub(crate) fn unrecorded(&self) -> usize {
        self.keys().len()
    }

    /// Jobs and leases whose end is still to be written.
    pub(crate) fn keys(&self) -> MutexGuard<'_, HashSet<(i64, i32)>> {
        self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends of one worker number, by edge.
#[derive(Default)]
struct Batch {
    finish: Vec<Finish>,
    put_back: Vec<PutBack>,
    bury: Vec<Bury>,
}

/// Records until the run is over.
pub(crate) async fn run(shared: Arc<Shared>, mut receiver: mpsc::UnboundedReceiver<(WorkerId, Ended)>) {
    let mut ends = Vec::with_capacity(BATCH);
    while receiver.recv_many(&mut ends, BATCH).await > 0 {
        let keys: Vec<_> = ends.iter().map(|(_, ended)| ended.key()).collect();
        // nearly always one number: a second one only right after a lost lease
        let mut batches: Vec<(WorkerId, Batch)> = Vec::with_capacity(1);
        for (worker, ended) in ends.drain(..) {
            let at = batches.iter().position(|(id, _)| *id == worker).unwrap_or_else(|| {
                batches.push((worker, Batch::default()));
                batches.len() - 1
            });
            match ended {
                Ended::Finish(it) => batches[at].1.finish.push(it),
                Ended::PutBack(it) => batches[at].1.put_back.push(it),
                Ended::Bury(it) => batches[at].1.bury.push(it),
            }
        }
        for (worker, Batch { finish, put_back, bury }) in batches {
            write(&shared, worker, finish).await;
            write(&shared, worker, put_back).await;
            write(&shared, worker, bury).await;
        }
        {
            let mut unrecorded = shared.recorder.keys();
            for key in &keys {
                unrecorded.remove(key);
            }
        }
        shared.progress.notify_waiters();
        if shared.recorder.unrecorded() < BACKLOG {
            shared.room.notify_one();
        }
    }
}

/// One edge out of `running`.
trait Edge: Clone + Send + Sync {
    /// Whether the job will be claimed again.
    const WAITS_AGAIN: bool;
    fn id(&self) -> i64;
    fn lease(&self) -> i32;
    /// About how long it is in a statement.
    fn bytes(&self) -> usize;
    fn write(
        store: &dyn Store,
        worker: WorkerId,
        batch: &[Self],
    ) -> impl Future<Output = Result<Vec<i64>, Error>> + Send;
    /// The dead letter to write when the database will not take the end itself.
    fn bury(&self, error: String) -> Bury;
}

macro_rules! edge {
    ($ty:ty, $verb:ident, $waits_again:literal, |$it:ident| $bytes:expr) => {
        impl Edge for $ty {
            const WAITS_AGAIN: bool = $waits_again;

            fn id(&self) -> i64 {
                self.id
            }

            fn lease(&self) -> i32 {
                self.lease
            }

            fn bytes(&self) -> usize {
                let $it = self;
                $bytes
            }

            async fn write(store: &dyn Store, worker: WorkerId, batch: &[Self]) -> Result<Vec<i64>, Error> {
                store.$verb(worker, batch).await
            }

            fn bury(&self, error: String) -> Bury {
                Bury { id: self.id, lease: self.lease, ran_us: self.ran_us, outcome: Outcome::Failed, error }
            }
        }
    };
}
edge!(Finish, finish, false, |it| bytes(&it.result) + bytes(&it.error));
edge!(PutBack, put_back, true, |it| bytes(&it.error));
edge!(Bury, bury, false, |it| bytes_in_json(&it.error));

/// What a text takes in the list that is sent.
fn bytes(text: &Option<String>) -> usize {
    text.as_deref().map_or(0, bytes_in_json)
}

/// Refusals by the database (not outages) after which a batch is taken apart.
const TRIES: u32 = 3;

/// Writes until the database has answered. A batch that it refuses is taken apart, so that one bad row holds up nobody.
async fn write<E: Edge>(shared: &Shared, worker: WorkerId, batch: Vec<E>) {
    let mut open = in_bytes(batch);
    while let Some(mut batch) = open.pop() {
        if batch.is_empty() {
            continue;
        }
        let mut failures = Failures::default();
        let mut refusals = 0;
        loop {
            match E::write(&*shared.config.store, worker, &batch).await {
                Ok(accepted) => {
                    shared.health.up(&mut failures);
                    shared.ledger.ended(worker, batch.iter().map(|end| (end.id(), end.lease())));
                    report_refused(&batch, &accepted);
                    if E::WAITS_AGAIN {
                        // the claim loop learns when they are due
                        shared.wake.notify_one();
                    }
                    break;
                }
                Err(error) => {
                    if error.blames_the_row() {
                        refusals += 1;
                    }
                    if refusals >= TRIES {
                        shared.health.up(&mut failures);
                        if batch.len() > 1 {
                            let rest = batch.split_off(batch.len() / 2);
                            open.push(rest);
                            open.push(batch);
                        } else {
                            bury_unrecordable(shared, worker, &batch[0], &error).await;
                        }
                        break;
                    }
                    shared.health.down(&mut failures, &error).await;
                }
            }
        }
    }
}

/// Parts of a batch that are small enough for one statement each.
fn in_bytes<E: Edge>(batch: Vec<E>) -> Vec<Vec<E>> {
    if batch.iter().map(E::bytes).sum::<usize>() <= BATCH_BYTES {
        return vec![batch];
    }
    let mut parts = vec![Vec::new()];
    let mut size = 0;
    for end in batch {
        if size > 0 && size + end.bytes() > BATCH_BYTES {
            parts.push(Vec::new());
            size = 0;
        }
        size += end.bytes();
        parts.last_mut().expect("never empty").push(end);
    }
    parts
}

async fn bury_unrecordable<E: Edge>(shared: &Shared, worker: WorkerId, end: &E, error: &Error) {
    tracing::error!(event = telemetry::JOB_DEAD, job.id = end.id(), %error, "the end of a job could not be recorded");
    let bury = [end.bury(format!("the job ended, but the database refused to record how: {error}"))];
    let mut failures = Failures::default();
    loop {
        match shared.config.store.bury(worker, &bury).await {
            Err(error) if !error.blames_the_row() => shared.health.down(&mut failures, &error).await,
            result => {
                shared.health.up(&mut failures);
                match result {
                    Ok(_) => shared.ledger.ended(worker, [(end.id(), end.lease())].into_iter()),
                    Err(error) => {
                        tracing::error!(job.id = end.id(), %error, "nor can it be set aside; it is rescued when this worker ends");
                    }
                }
                return;
            }
        }
    }
}

fn report_refused<E: Edge>(batch: &[E], accepted: &[i64]) {
    if accepted.len() == batch.len() {
        return;
    }
    let accepted: HashSet<i64> = accepted.iter().copied().collect();
    for end in batch.iter().filter(|end| !accepted.contains(&end.id())) {
        tracing::warn!(
            event = telemetry::JOB_REFUSED,
            job.id = end.id(),
            "the end of an attempt was refused: another attempt is current, or the job is gone"
        );
    }
}
