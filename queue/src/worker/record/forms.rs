//! Ends that the database does not take as they are: their size, their plainer forms, and what replaces them.

use std::time::Duration;

use crate::error::Error;
use crate::limits::{ascii, ascii_json, bytes_in_json, cut, micros};
use crate::store::values::{AttemptOutcome, Destination, End};
use crate::telemetry::Event;

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
pub(crate) fn last_words(end: &End, error: &Error) -> End {
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
    Event::JobUnrecordable { id: hold.id, error: &error }.emit();
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
