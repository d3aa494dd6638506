//! Tells the database which attempts have begun. Only these count when the worker is lost with them.
//!
//! Nearly every job tells it a moment after it began, if it still runs. So jobs that take microseconds tell nothing, and
//! no job waits. If the worker dies within that moment, nobody knows whether the attempt began. Then it does not count.
//!
//! A job that was lost before, or has at most one retry left, tells it before it begins. Of such a job it is always
//! known.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard, Notify, mpsc, oneshot};
use tokio::time::Instant;

use crate::error::Error;
use crate::store::{Start, WorkerId};
use crate::worker::run::attempt::until;
use crate::worker::shared::Shared;

/// How soon the first start after a pause is noted.
const SOON: Duration = Duration::from_millis(1);
/// How often starts are noted while there are many: jobs that are over by then need no note.
const OFTEN: Duration = Duration::from_millis(50);
/// After an error.
const LATER: Duration = Duration::from_secs(1);
/// Notes in one statement.
const BATCH: usize = 1000;

/// The way to the loop that notes.
pub(crate) struct Starts {
    asked: mpsc::UnboundedSender<Asked>,
    begun: Notify,
    one: Mutex<()>,
}

/// An attempt that waits for its note.
pub(crate) struct Asked {
    worker: WorkerId,
    start: Start,
    answer: oneshot::Sender<bool>,
}

impl Starts {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Asked>) {
        let (asked, receiver) = mpsc::unbounded_channel();
        (Self { asked, begun: Notify::new(), one: Mutex::default() }, receiver)
    }

    /// Notes a start and waits for the answer. Whether it was accepted; None: nobody knows, the database failed.
    pub(crate) async fn note(&self, worker: WorkerId, start: Start) -> Option<bool> {
        let (answer, answered) = oneshot::channel();
        self.asked.send(Asked { worker, start, answer }).ok()?;
        answered.await.ok()
    }

    /// To be held from before the note until the handler has begun. Otherwise one of several jobs that were lost before
    /// could kill the process while another is noted and has not begun.
    pub(crate) async fn one_by_one(&self) -> MutexGuard<'_, ()> {
        self.one.lock().await
    }

    /// An attempt has begun without a note.
    pub(crate) fn begun(&self) {
        self.begun.notify_one();
    }
}

/// Notes starts until the run is over.
pub(crate) async fn run(shared: Arc<Shared>, mut receiver: mpsc::UnboundedReceiver<Asked>) {
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
                // at the next look most of them are over
                Ok(false) => Some(Instant::now() + OFTEN),
                Err(error) => {
                    tracing::debug!(%error, "starts were not noted; trying again");
                    Some(Instant::now() + LATER)
                }
            };
        }
    }
}

/// Notes the starts that wait for it. A failure drops their answers.
async fn answer(shared: &Shared, asked: &mut Vec<Asked>) {
    while let Some(worker) = asked.first().map(|first| first.worker) {
        let batch: Vec<Asked> = asked.extract_if(.., |it| it.worker == worker).collect();
        let starts: Vec<Start> = batch.iter().map(|it| it.start).collect();
        match shared.config.store.started(worker, &starts).await {
            Ok(accepted) => {
                for Asked { start, answer, .. } in batch {
                    let _ = answer.send(accepted.contains(&start.id));
                }
            }
            Err(error) => tracing::debug!(%error, "starts were not noted"),
        }
    }
}

/// Notes what has begun without a note. False: some have only just begun.
async fn note_running(shared: &Shared) -> Result<bool, Error> {
    let (worker, now) = (shared.id(), Instant::now());
    let (mut starts, mut noted, mut all) = (Vec::new(), Vec::new(), true);
    for held in shared.held().values() {
        let Some(began) = held.started.get() else { continue };
        if held.worker != worker || held.noted.load(Ordering::Relaxed) {
            continue;
        }
        if now.saturating_duration_since(*began) < SOON {
            all = false;
        } else {
            starts.push(Start { id: held.job.id.get(), fence: held.job.fence, max_neighbours: None });
            noted.push(held.clone());
        }
    }
    if starts.is_empty() || worker == 0 {
        return Ok(all);
    }
    shared.config.store.started(worker, &starts).await?;
    // what was refused is somebody else's by now
    noted.iter().for_each(|held| held.noted.store(true, Ordering::Relaxed));
    Ok(all)
}
