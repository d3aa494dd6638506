//! Writing down how attempts ended: whatever ended while the last write was under way goes out as one batch, so that an
//! idle worker records at once and a busy one many together.
//!
//! While the database is away everything waits, in order. What it refuses although it is there (a value, a right that is
//! missing, somebody's trigger, a limit of time or size) is set aside and goes out again by itself, in ever smaller parts and
//! after growing pauses, while all other ends go on.

pub(crate) mod claims;

use std::collections::{HashSet, VecDeque};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::Error;
use crate::limits::{ascii, ascii_json, bytes_in_json, cut, micros};
use crate::state::JobState;
use crate::store::{Bury, Finish, Outcome, PutBack, Store, WorkerId};
use crate::telemetry;
use crate::worker::lease::health::Failures;
use crate::worker::run::attempt::{Ended, until};
use crate::worker::shared::Shared;

/// Ends recorded in one transaction.
const BATCH: usize = 1000;
/// So few ends look for others that come with them.
const FEW: usize = 32;
/// Bytes of results and error texts in one transaction: below what any server accepts as one statement by default.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// Unrecorded ends above which nothing more is claimed.
pub(crate) const BACKLOG: usize = 4 * BATCH;

/// The way to the recording loop.
pub(crate) struct Recorder {
    ended: mpsc::UnboundedSender<(WorkerId, Ended)>,
    /// What was handed over and is not written yet, by job and fence.
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

    fn written<E: Edge>(&self, batch: &[E]) {
        let mut unrecorded = self.keys();
        for end in batch {
            unrecorded.remove(&(end.id(), end.fence()));
        }
    }

    /// Jobs and fences whose end is still to be written.
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
    let (mut finish, mut put_back, mut bury) = (Aside::default(), Aside::default(), Aside::default());
    loop {
        let again = [finish.due, put_back.due, bury.due].into_iter().flatten().min();
        tokio::select! {
            count = receiver.recv_many(&mut ends, BATCH) => if count == 0 { return },
            () = until(again) => {}
        }
        if ends.len() < FEW {
            // jobs that wait for the same thing end in the same moment: let those end that are about to
            let_others_run().await;
            while ends.len() < BATCH
                && let Ok(end) = receiver.try_recv()
            {
                ends.push(end);
            }
        }
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
        for (worker, batch) in batches {
            finish.write(&shared, worker, batch.finish).await;
            put_back.write(&shared, worker, batch.put_back).await;
            bury.write(&shared, worker, batch.bury).await;
        }
        for unrecordable in [finish.again(&shared).await, put_back.again(&shared).await, bury.again(&shared).await] {
            match unrecordable {
                Some((worker, Ended::Bury(end))) => bury.last_words(worker, end),
                Some((worker, Ended::PutBack(end))) => put_back.last_words(worker, end),
                Some((_, Ended::Finish(_))) | None => {}
            }
        }
        shared.progress.notify_waiters();
        if shared.recorder.unrecorded() < BACKLOG {
            shared.room.notify_one();
        }
    }
}

/// Comes back when the tasks had their turn that are ready to run. Another thread may go on with it, where tokio's own
/// `yield_now` stays with the thread, however long a task that does not await keeps that.
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

/// One edge out of `running`.
trait Edge: Clone + Send + Sync {
    /// Whether the job will be claimed again.
    const WAITS_AGAIN: bool;
    fn id(&self) -> i64;
    fn fence(&self) -> i32;
    /// About how long it is in a statement.
    fn bytes(&self) -> usize;
    fn write(
        store: &dyn Store,
        worker: WorkerId,
        batch: &[Self],
    ) -> impl Future<Output = Result<Vec<i64>, Error>> + Send;
    /// In which state an older job of the same number would be in its way.
    const AMONG: JobState;
    /// Its result and its error.
    fn texts(&mut self) -> [Option<&mut String>; 2];
    /// Takes both out, and says why.
    fn strip(&mut self, why: String);
    /// What to write when the database takes the end in no form.
    fn last_words(&self, error: &Error) -> Ended;
}

macro_rules! edge {
    ($ty:ty, $verb:ident, $waits_again:literal, $among:ident, |$it:ident| $bytes:expr) => {
        impl Edge for $ty {
            const WAITS_AGAIN: bool = $waits_again;
            const AMONG: JobState = JobState::$among;

            fn id(&self) -> i64 {
                self.id
            }

            fn fence(&self) -> i32 {
                self.fence
            }

            fn bytes(&self) -> usize {
                let $it = self;
                $bytes
            }

            async fn write(store: &dyn Store, worker: WorkerId, batch: &[Self]) -> Result<Vec<i64>, Error> {
                store.$verb(worker, batch).await
            }

            edge!(@texts $verb);
        }
    };
    (@texts finish) => {
        fn texts(&mut self) -> [Option<&mut String>; 2] {
            [self.result.as_mut(), self.error.as_mut()]
        }

        fn strip(&mut self, why: String) {
            self.result = None;
            self.error = Some(why);
        }

        edge!(@dead);
    };
    (@texts put_back) => {
        fn texts(&mut self) -> [Option<&mut String>; 2] {
            [None, self.error.as_mut()]
        }

        fn strip(&mut self, why: String) {
            self.error = Some(why);
        }

        edge!(@dead);
    };
    (@texts bury) => {
        fn texts(&mut self) -> [Option<&mut String>; 2] {
            [None, Some(&mut self.error)]
        }

        fn strip(&mut self, why: String) {
            self.error = why;
        }

        // A dead letter leaves the table as well. So the job stays, and waits for so long that somebody sees to it.
        fn last_words(&self, error: &Error) -> Ended {
            let error = ascii(&format!("{}; it cannot leave queue_jobs: {error}", self.error));
            tracing::error!(job.id = self.id, error, "a job that ended cannot leave queue_jobs; it is put off by a century");
            let (id, fence, ran_us, outcome) = (self.id, self.fence, self.ran_us, self.outcome);
            let (delay_us, error) = (Some(micros(Duration::MAX)), Some(cut(error)));
            Ended::PutBack(PutBack { id, fence, ran_us, outcome, delay_us, uncount: 0, record: true, error })
        }
    };
    (@dead) => {
        fn last_words(&self, error: &Error) -> Ended {
            let error = ascii(&format!("the job ended, but the database refused to record how: {error}"));
            tracing::error!(event = telemetry::JOB_DEAD, job.id = self.id, error, "the end of a job could not be recorded");
            let (id, fence, ran_us, outcome) = (self.id, self.fence, self.ran_us, Outcome::Failed);
            Ended::Bury(Bury { id, fence, ran_us, outcome, error: cut(error) })
        }
    };
}
edge!(Finish, finish, false, Completed, |it| bytes(&it.result) + bytes(&it.error));
edge!(PutBack, put_back, true, Completed, |it| bytes(&it.error));
edge!(Bury, bury, false, Dead, |it| bytes_in_json(&it.error));

/// How an end is told whose texts the database did not take.
const STRIPPED: &str = "the database did not take the text: ";

/// The same end in a form that the database is more likely to take: its texts in ASCII, for a database that is not in
/// Unicode, and then without them. None: there is no plainer one. `broke`: it has broken its connection, so it is too
/// large.
fn plainer<E: Edge>(end: &E, error: &Error, broke: bool) -> Option<E> {
    let mut plain = end.clone();
    if !broke && plain.texts().iter().flatten().any(|text| !text.is_ascii()) {
        let [result, error] = plain.texts();
        if let Some(result) = result {
            *result = ascii_json(result);
        }
        if let Some(error) = error {
            *error = cut(ascii(error));
        }
        return Some(plain);
    }
    let texts = plain.texts();
    if texts.iter().flatten().next().is_none() || texts[1].as_ref().is_some_and(|text| text.starts_with(STRIPPED)) {
        return None;
    }
    plain.strip(cut(ascii(&format!("{STRIPPED}{error}"))));
    tracing::warn!(job.id = end.id(), %error, "the database does not take the result or error of a job; its end is recorded without");
    Some(plain)
}

/// What a text takes in the list that is sent.
fn bytes(text: &Option<String>) -> usize {
    text.as_deref().map_or(0, bytes_in_json)
}

/// Refusals of a single end after which it is tried in a plainer form, when it is to blame itself.
const TRIES: u32 = 3;
/// What is smaller than this breaks no connection.
const SMALL: usize = 1024;
/// The pause before a part of what was refused is tried. Before a single end that was refused already it doubles with each
/// such refusal, until something is taken …
const PAUSE: Duration = Duration::from_millis(10);
/// … up to this: a worker that ends waits longer, with the default lease.
const LONGEST: Duration = Duration::from_secs(5);
/// And it is so many times as long as the refusal took, because other ends wait meanwhile …
const SHARE: u32 = 4;
/// … up to this.
const LONGEST_OF_SLOW: Duration = Duration::from_secs(20);

/// Ends of one edge that the database refused.
struct Aside<E> {
    /// Those at the front come first.
    parts: VecDeque<Part<E>>,
    /// How many refusals of single ends there were since something was taken.
    refusals: u32,
    /// How often something was taken.
    taken: u64,
    /// So many bytes go out at once: fewer where more have broken the connection (`max_allowed_packet`).
    most: usize,
    /// When the next part is tried; None: there is none.
    due: Option<Instant>,
    failures: Failures,
}

/// Ends that were refused together.
struct Part<E> {
    worker: WorkerId,
    ends: Vec<E>,
    refusals: u32,
    /// It stands for an end that could not be recorded.
    last_words: bool,
    /// An older job of the same number was removed.
    cleared: bool,
    /// How often something had been taken before it was refused.
    taken: u64,
}

impl<E> Default for Aside<E> {
    fn default() -> Self {
        let (parts, failures) = (VecDeque::new(), Failures::default());
        Self { parts, refusals: 0, taken: 0, most: BATCH_BYTES, due: None, failures }
    }
}

impl<E: Edge> Aside<E> {
    /// Writes new ends. What is refused is set aside.
    async fn write(&mut self, shared: &Shared, worker: WorkerId, batch: Vec<E>) {
        if batch.is_empty() {
            return;
        }
        for ends in in_bytes(batch, self.most) {
            let began = Instant::now();
            let Err(error) = write(shared, worker, &ends).await else {
                self.taken += 1;
                self.most = BATCH_BYTES.min(self.most + self.most / 64);
                continue;
            };
            self.report(shared, &error);
            self.learn(&error, &ends);
            // before those that were refused often
            let taken = self.taken;
            self.parts.push_front(Part { worker, ends, refusals: 1, last_words: false, cleared: false, taken });
            let soon = Instant::now() + PAUSE.max(began.elapsed());
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
    }

    /// Tries the next part, if it is time. One that is refused again is halved, so that one bad row holds up nobody, and
    /// nothing is too much at once. Returns what is to be written instead of an end that cannot be recorded at all.
    async fn again(&mut self, shared: &Shared) -> Option<(WorkerId, Ended)> {
        let began = Instant::now();
        if self.due.is_none_or(|due| began < due) {
            return None;
        }
        let mut part = self.parts.pop_front()?;
        let Err(error) = write(shared, part.worker, &part.ends).await else {
            self.refusals = 0;
            self.taken += 1;
            self.next_at(shared, Instant::now());
            return None;
        };
        self.report(shared, &error);
        self.learn(&error, &part.ends);
        part.refusals = part.refusals.saturating_add(1);
        let mut unrecordable = None;
        if part.ends.len() > 1 {
            let Part { worker, taken, mut ends, .. } = part;
            let parts = if breaks_connections(&error) && ends.iter().map(E::bytes).sum::<usize>() > self.most {
                in_bytes(ends, self.most)
            } else {
                let rest = ends.split_off(ends.len() / 2);
                vec![ends, rest]
            };
            for ends in parts.into_iter().rev() {
                self.parts.push_front(Part { worker, ends, refusals: 0, last_words: false, cleared: false, taken });
            }
        } else {
            self.refusals = self.refusals.saturating_add(1);
            unrecordable = self.refused(shared, part, &error, began).await;
        }
        let known = self.parts.front().is_some_and(|next| next.ends.len() == 1 && next.refusals > 0);
        let tries = if known { self.refusals.min(10) } else { 0 };
        // what has broken its connection has kept the database from nothing
        let slow = if breaks_connections(&error) { Duration::ZERO } else { began.elapsed() * SHARE };
        let pause = LONGEST.min(PAUSE * 2u32.pow(tries)).max(LONGEST_OF_SLOW.min(slow));
        self.next_at(shared, Instant::now() + pause.mul_f64(0.5 + fastrand::f64() / 2.0));
        unrecordable
    }

    /// What becomes of a single end that was refused: it is tried again, in a plainer form when it is to blame itself.
    /// What is refused although nothing else is, in the plainest form, is told by other words.
    async fn refused(
        &mut self,
        shared: &Shared,
        mut part: Part<E>,
        error: &Error,
        began: Instant,
    ) -> Option<(WorkerId, Ended)> {
        let end = &part.ends[0];
        let broke = end.bytes() > SMALL && breaks_connections(error) && shared.has_beaten_since(began);
        if !broke && !error.blames_the_row() {
            self.parts.push_back(part);
        } else if part.refusals < TRIES {
            self.parts.push_front(part);
        } else if error.is_taken() && !std::mem::replace(&mut part.cleared, true) {
            clear(shared, end).await;
            part.refusals = 0;
            self.parts.push_front(part);
        } else if let Some(plain) = plainer(end, error, broke) {
            part.ends[0] = plain;
            part.refusals = 0;
            self.parts.push_front(part);
        } else if !part.last_words && (error.is_a_constraint() || self.taken > part.taken) {
            self.refusals = 0;
            return Some((part.worker, end.last_words(error)));
        } else {
            if part.refusals == TRIES {
                tracing::error!(
                    job.id = end.id(), %error,
                    "the end of a job cannot be recorded in any form; it is rescued when this worker ends"
                );
            }
            self.parts.push_back(part);
        }
        None
    }

    /// When the next part is tried, if there is one.
    fn next_at(&mut self, shared: &Shared, due: Instant) {
        self.due = (!self.parts.is_empty()).then_some(due);
        if self.due.is_none() {
            shared.health.up(&mut self.failures);
        }
    }

    /// A batch that breaks its connection was too large.
    fn learn(&mut self, error: &Error, ends: &[E]) {
        let bytes = ends.iter().map(E::bytes).sum::<usize>();
        if ends.len() > 1 && bytes > SMALL && breaks_connections(error) {
            self.most = self.most.min((bytes / 2).max(SMALL));
        }
    }

    /// Which end it is, is said when that is known.
    fn report(&mut self, shared: &Shared, error: &Error) {
        if !error.blames_the_row() {
            shared.health.failed(&mut self.failures, error);
        }
    }
}

impl<E: Edge> Aside<E> {
    /// Takes in what is written instead of an end that cannot be recorded.
    fn last_words(&mut self, worker: WorkerId, end: E) {
        let last_words = E::WAITS_AGAIN;
        let taken = self.taken;
        self.parts.push_front(Part { worker, ends: vec![end], refusals: 0, last_words, cleared: false, taken });
        self.due = Some(Instant::now());
    }
}

/// Removes what is left of an older job of the same number: numbers were set back, by a TRUNCATE or a backup.
async fn clear<E: Edge>(shared: &Shared, end: &E) {
    let id = end.id();
    tracing::error!(
        job.id = id,
        "a job that ended long ago has the number of this one, and makes room for it; numbers were given again: set the \
         counter of queue_jobs beyond all numbers in queue_history and queue_dead"
    );
    if let Err(error) = shared.config.store.delete(&[id], Some(E::AMONG)).await {
        tracing::error!(job.id = id, %error, "it cannot be removed");
    }
}

/// Writes a batch, and waits while the database is away. An error: it is there, and refuses this.
async fn write<E: Edge>(shared: &Shared, worker: WorkerId, batch: &[E]) -> Result<(), Error> {
    let began = Instant::now();
    let mut broken = None;
    let mut failures = Failures::default();
    loop {
        let error = match E::write(&*shared.config.store, worker, batch).await {
            Ok(accepted) => {
                shared.health.up(&mut failures);
                shared.ledger.ended(worker, batch.iter().map(|end| (end.id(), end.fence())));
                shared.recorder.written(batch);
                report_refused(batch, &accepted);
                if E::WAITS_AGAIN {
                    // the claim loop learns when they are due
                    shared.wake.notify_one();
                }
                return Ok(());
            }
            Err(error) => error,
        };
        // or it has answered heartbeats all the time
        let answers = breaks_connections(&error) && shared.has_beaten_since(broken.unwrap_or_else(Instant::now));
        if is_refusal(&error) || answers || (began.elapsed() > shared.config.timing.lease && shared.lease_holds()) {
            shared.health.up(&mut failures);
            return Err(error);
        }
        if breaks_connections(&error) {
            broken.get_or_insert_with(Instant::now);
        }
        shared.health.down(&mut failures, &error).await;
    }
}

/// The connection is gone. When that comes of what was sent, a server that is there answers on others.
fn breaks_connections(error: &Error) -> bool {
    let Error::Database { source, .. } = error else { return false };
    match source {
        // no answer in time says nothing of what was sent
        sqlx::Error::Io(error) => !matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::ConnectionAborted),
        sqlx::Error::Protocol(_) => true,
        // "got a packet bigger than max_allowed_packet" has the code of a lost connection
        sqlx::Error::Database(error) => error.code().is_some_and(|code| code.starts_with("08")),
        _ => false,
    }
}

/// Whether the database is there, and may take other ends. Where it says that it takes nothing from nobody, it is as good as
/// away: it is starting or ending, a standby, its disk is full; SQLite's file is locked by others, or cannot be written.
fn is_refusal(error: &Error) -> bool {
    let Error::Database { source: sqlx::Error::Database(error), .. } = error else { return false };
    let Some(code) = error.code() else { return true };
    if code.len() == 5 {
        return !["08", "25006", "53100", "53300", "57P", "58"].iter().any(|class| code.starts_with(class));
    }
    code.parse::<u32>().is_ok_and(|code| !matches!(code & 0xff, 5 | 6 | 8 | 10 | 13 | 14))
}

/// Parts of a batch that are small enough for one statement each.
fn in_bytes<E: Edge>(batch: Vec<E>, most: usize) -> Vec<Vec<E>> {
    if batch.iter().map(E::bytes).sum::<usize>() <= most {
        return vec![batch];
    }
    let mut parts = vec![Vec::new()];
    let mut size = 0;
    for end in batch {
        if size > 0 && size + end.bytes() > most {
            parts.push(Vec::new());
            size = 0;
        }
        size += end.bytes();
        parts.last_mut().expect("never empty").push(end);
    }
    parts
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

#[cfg(test)]
mod tests;
