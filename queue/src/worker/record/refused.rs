//! Ends that the database refused. They are set aside and tried again, in smaller parts and plainer forms.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::limits::{ascii, ascii_json, bytes_in_json, cut, micros};
use crate::state::JobState;
use crate::store::Trouble;
use crate::store::values::{AttemptOutcome, Destination, End, WorkerId};
use crate::telemetry::Event;
use crate::worker::lease::health::Failures;
use crate::worker::record::tally::counted;
use crate::worker::shared::Shared;

/// Bytes of results and error texts in one transaction. By default, every server accepts more than this in one
/// statement.
const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// A single end that is to blame itself is tried in a plainer form after this many refusals.
pub(super) const TRIES: u32 = 3;
/// Ends smaller than this do not break a connection.
const SMALL: usize = 1024;
/// The pause before a part of a refused batch is tried. For a single end that was refused, it doubles with each such
/// refusal until something is accepted.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest such pause. A worker that ends waits longer than this, with the default lease.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// The pause is also at least this many times as long as the refusal took, because other ends wait meanwhile.
const SHARE: u32 = 4;
/// The longest pause for that reason.
const LONGEST_OF_SLOW: Duration = Duration::from_secs(20);

/// Ends that the database refused.
pub(crate) struct Aside {
    /// The first is tried first.
    parts: VecDeque<Part>,
    /// How many refusals of single ends there were since something was accepted.
    refusals: u32,
    /// How often something was accepted on its way to each destination. What one table refuses, another may accept.
    taken: [u64; 3],
    /// The most bytes in one write. It falls when a larger write breaks the connection (`max_allowed_packet`).
    most: usize,
    /// When the next part is tried. None: there is none.
    pub(super) due: Option<Instant>,
    failures: Failures,
}

/// The number of an end's destination.
pub(super) fn destination(end: &End) -> usize {
    match end.to {
        Destination::Finish { .. } => 0,
        Destination::Requeue { .. } => 1,
        Destination::Bury => 2,
    }
}

/// Ends that were refused together. All of them have the same destination.
struct Part {
    worker: WorkerId,
    ends: Vec<End>,
    refusals: u32,
    /// It replaces an end that could not be recorded.
    last_words: bool,
    /// An older job with the same number was removed.
    cleared: bool,
    /// How often something had been accepted before it was refused.
    taken: u64,
}

impl Default for Aside {
    fn default() -> Self {
        let (parts, taken, failures) = (VecDeque::new(), [0; 3], Failures::default());
        Self { parts, refusals: 0, taken, most: BATCH_BYTES, due: None, failures }
    }
}

impl Aside {
    /// Writes new ends, which have the same destination, and sets refused ones aside.
    pub(super) async fn write(&mut self, shared: &Shared, worker: WorkerId, batch: Vec<End>) {
        for ends in in_bytes(batch, self.most) {
            let began = Instant::now();
            let Err(error) = write(shared, worker, &ends).await else {
                self.taken[destination(&ends[0])] += 1;
                self.most = BATCH_BYTES.min(self.most + self.most / 64);
                continue;
            };
            self.learn(shared, &error, &ends);
            // ahead of ends that were refused often
            let taken = self.taken[destination(&ends[0])];
            self.parts.push_front(Part { worker, ends, refusals: 1, last_words: false, cleared: false, taken });
            let soon = Instant::now() + PAUSE.max(began.elapsed());
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
    }

    /// Tries the next part, if it is due. A part that is refused again is halved, so that one bad row blocks nobody and
    /// no statement is too large.
    pub(super) async fn again(&mut self, shared: &Shared) {
        let began = Instant::now();
        if self.due.is_none_or(|due| began < due) {
            return;
        }
        let Some(mut part) = self.parts.pop_front() else { return };
        let Err(error) = write(shared, part.worker, &part.ends).await else {
            self.refusals = 0;
            self.taken[destination(&part.ends[0])] += 1;
            return self.next_at(shared, Instant::now());
        };
        self.learn(shared, &error, &part.ends);
        part.refusals = part.refusals.saturating_add(1);
        if part.ends.len() > 1 {
            let mut ends = part.ends;
            let parts = if error.broke_the_connection() && bytes_of(&ends) > self.most {
                in_bytes(ends, self.most)
            } else {
                let rest = ends.split_off(ends.len() / 2);
                vec![ends, rest]
            };
            for ends in parts.into_iter().rev() {
                self.parts.push_front(Part { ends, refusals: 0, ..part });
            }
        } else {
            self.refusals = self.refusals.saturating_add(1);
            if self.refused(shared, part, &error, began).await {
                return self.next_at(shared, Instant::now());
            }
        }
        let known = self.parts.front().is_some_and(|next| next.ends.len() == 1 && next.refusals > 0);
        let tries = if known { self.refusals.min(10) } else { 0 };
        // a write that broke its connection did not keep the database busy
        let slow = if error.broke_the_connection() { Duration::ZERO } else { began.elapsed() * SHARE };
        let pause = LONGEST.min(PAUSE * 2u32.pow(tries)).max(LONGEST_OF_SLOW.min(slow));
        self.next_at(shared, Instant::now() + pause.mul_f64(0.5 + fastrand::f64() / 2.0));
    }

    /// Handles the refusal of a single end. It is tried again, in a plainer form if it is to blame itself. If its
    /// plainest form is refused while other ends are accepted, its last words replace it: true.
    async fn refused(&mut self, shared: &Shared, mut part: Part, error: &Error, began: Instant) -> bool {
        let end = &part.ends[0];
        let taken = self.taken[destination(end)];
        let broke = bytes(end) > SMALL && error.broke_the_connection() && shared.lease.extended_since(began);
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
        } else if !part.last_words && (error.is_a_constraint() || taken > part.taken) {
            self.refusals = 0;
            let end = last_words(shared, end, error);
            let taken = self.taken[destination(&end)];
            // nothing replaces a job that cannot even be put off
            let last_words = matches!(end.to, Destination::Requeue { .. });
            self.parts.push_front(Part { ends: vec![end], refusals: 0, last_words, cleared: false, taken, ..part });
            return true;
        } else {
            if part.refusals == TRIES {
                tracing::error!(
                    job.id = end.hold.id, %error,
                    "the end of a job cannot be recorded in any form; the job is rescued when this worker ends"
                );
            }
            self.parts.push_back(part);
        }
        false
    }

    /// Sets when the next part is tried, if there is one.
    fn next_at(&mut self, shared: &Shared, due: Instant) {
        self.due = (!self.parts.is_empty()).then_some(due);
        if self.due.is_none() {
            shared.health.up(&mut self.failures);
        }
    }

    /// A batch that broke its connection was too large. Reports a failure, unless a row is to blame: that is reported
    /// when the row is known.
    fn learn(&mut self, shared: &Shared, error: &Error, ends: &[End]) {
        if !error.blames_the_row() {
            shared.health.failed(&mut self.failures, error);
        }
        let bytes = bytes_of(ends);
        if ends.len() > 1 && bytes > SMALL && error.broke_the_connection() {
            self.most = self.most.min((bytes / 2).max(SMALL));
        }
    }
}

/// Removes an older job with the same number. Numbers repeat after a TRUNCATE, or after a backup was restored.
async fn clear(shared: &Shared, end: &End) {
    let id = end.hold.id;
    let among = if let Destination::Bury = end.to { JobState::Dead } else { JobState::Completed };
    tracing::error!(
        job.id = id,
        "an older job with the number of this one is removed; numbers were reused: set the counter of queue_jobs above \
         all numbers in queue_history and queue_dead"
    );
    if let Err(error) = shared.config.store.delete(&[id], Some(among)).await {
        tracing::error!(job.id = id, %error, "the older job with this number cannot be removed");
    }
}

/// Writes a batch. Error: the database refuses it.
async fn write(shared: &Shared, worker: WorkerId, batch: &[End]) -> Result<(), Error> {
    let accepted = answered(shared, true, || shared.config.store.end(worker, batch)).await?;
    let accepted: Option<HashSet<i64>> = (accepted.len() < batch.len()).then(|| accepted.into_iter().collect());
    let is_accepted = |end: &End| accepted.as_ref().is_none_or(|accepted| accepted.contains(&end.hold.id));
    shared.recorder.written(
        worker,
        batch.iter().map(|end| {
            let accepted = counted(end).filter(|_| is_accepted(end));
            (end.hold.key(), accepted.map(|outcome| (outcome, end.ran_us, end.error.as_deref())))
        }),
    );
    for end in batch.iter().filter(|end| !is_accepted(end)) {
        shared.tell(Event::JobRefused { id: end.hold.id });
    }
    if batch.iter().any(|end| matches!(end.to, Destination::Requeue { .. })) {
        // the claim loop finds out when they are due
        shared.notices.enqueued.notify_one();
    }
    Ok(())
}

/// Asks until there is an answer, while the database is away. Error: it is up, and refuses this. `large`: the statement
/// may be so large that it breaks its connection.
pub(crate) async fn answered<T, F>(shared: &Shared, large: bool, ask: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let began = Instant::now();
    let mut broken = None;
    let mut failures = Failures::default();
    loop {
        let error = match ask().await {
            Ok(answer) => {
                shared.health.up(&mut failures);
                return Ok(answer);
            }
            Err(error) => error,
        };
        // heartbeats are answered, so the statement has broken its connection
        let broke = large && error.broke_the_connection();
        let answers = broke && shared.lease.extended_since(broken.unwrap_or_else(Instant::now));
        if shared.config.store.trouble(&error) == Trouble::Refused
            || answers
            || (began.elapsed() > shared.config.env.timing.lease && shared.lease.holds())
        {
            shared.health.up(&mut failures);
            return Err(error);
        }
        if broke {
            broken.get_or_insert_with(Instant::now);
        }
        shared.health.down(&mut failures, &error).await;
    }
}

/// What an error text begins with when it replaces texts that the database rejected.
pub(crate) const STRIPPED: &str = "the database rejected the text: ";

/// The same end in a form that the database is more likely to accept. First its texts become ASCII, for a database that
/// is not in Unicode. Then they are removed. None: there is no plainer form. `broke`: the end broke its connection, so
/// it is too large.
pub(crate) fn plainer(end: &End, error: &Error, broke: bool) -> Option<End> {
    let mut plain = end.clone();
    let is_ascii = [end.result(), end.error.as_deref()].into_iter().flatten().all(str::is_ascii);
    if !broke && !is_ascii {
        if let Destination::Finish { result: Some(result) } = &mut plain.to {
            *result = ascii_json(result);
        }
        plain.error = plain.error.map(|error| cut(ascii(&error)));
        return Some(plain);
    }
    let has_text = end.result().is_some() || end.error.is_some();
    if !has_text || end.error.as_ref().is_some_and(|text| text.starts_with(STRIPPED)) {
        return None;
    }
    if let Destination::Finish { result } = &mut plain.to {
        *result = None;
    }
    plain.error = Some(cut(ascii(&format!("{STRIPPED}{error}"))));
    tracing::warn!(
        job.id = end.hold.id, %error,
        "the database rejects the result or error of a job; its end is recorded without them"
    );
    Some(plain)
}

/// What to write instead of an end that the database accepts in no form.
pub(crate) fn last_words(shared: &Shared, end: &End, error: &Error) -> End {
    let (hold, ran_us) = (end.hold, end.ran_us);
    if let Destination::Bury = end.to {
        // A dead letter has to leave the table too. So the job stays, and is postponed until somebody deals with it.
        let told = end.error.as_deref().unwrap_or_default();
        let error = ascii(&format!("{told}; the job cannot leave queue_jobs: {error}"));
        tracing::error!(
            job.id = hold.id,
            error,
            "a job that ended cannot leave queue_jobs; it is postponed by 100 years"
        );
        let to = Destination::Requeue { delay_us: Some(micros(Duration::MAX)), uncount: 0, record: true };
        return End { hold, ran_us, outcome: end.outcome, error: Some(cut(error)), to };
    }
    let error = ascii(&format!("the job ended, but the database refused to record how: {error}"));
    shared.tell(Event::JobUnrecordable { id: hold.id, error: &error });
    End { hold, ran_us, outcome: AttemptOutcome::Failed, error: Some(cut(error)), to: Destination::Bury }
}

/// The approximate size of an end in a statement.
pub(crate) fn bytes(end: &End) -> usize {
    [end.result(), end.error.as_deref()].into_iter().flatten().map(bytes_in_json).sum()
}

/// The size of a batch in a statement.
pub(crate) fn bytes_of(batch: &[End]) -> usize {
    batch.iter().map(bytes).sum()
}

/// Splits a batch into parts that are small enough for one statement each.
pub(crate) fn in_bytes(batch: Vec<End>, most: usize) -> Vec<Vec<End>> {
    if bytes_of(&batch) <= most {
        return vec![batch];
    }
    let mut parts = vec![Vec::new()];
    let mut size = 0;
    for end in batch {
        if size > 0 && size + bytes(&end) > most {
            parts.push(Vec::new());
            size = 0;
        }
        size += bytes(&end);
        parts.last_mut().expect("never empty").push(end);
    }
    parts
}
