//! The three edges out of `running`, and how each is written.

use std::time::Duration;

use crate::error::Error;
use crate::limits::{ascii, ascii_json, bytes_in_json, cut, micros};
use crate::state::JobState;
use crate::store::Store;
use crate::store::values::{AttemptOutcome, Bury, Finish, Hold, Requeue, WorkerId};
use crate::telemetry;
use crate::worker::run::ended::Ended;

/// One edge out of `running`.
pub(crate) trait EndOfRun: Clone + Send + Sync {
    /// Whether the job will be claimed again.
    const WAITS_AGAIN: bool;
    fn hold(&self) -> Hold;
    /// Its approximate size in a statement.
    fn bytes(&self) -> usize;
    fn write(
        store: &dyn Store,
        worker: WorkerId,
        batch: &[Self],
    ) -> impl Future<Output = Result<Vec<i64>, Error>> + Send;
    /// The state in which an older job with the same number would conflict.
    const AMONG: JobState;
    /// Its result and its error.
    fn texts(&mut self) -> [Option<&mut String>; 2];
    /// Replaces both by `why`.
    fn strip(&mut self, why: String);
    /// What to write when the database accepts the end in no form.
    fn last_words(&self, error: &Error) -> Ended;
}

macro_rules! edge {
    ($ty:ty, $verb:ident, $waits_again:literal, $among:ident, |$it:ident| $bytes:expr) => {
        impl EndOfRun for $ty {
            const WAITS_AGAIN: bool = $waits_again;
            const AMONG: JobState = JobState::$among;

            fn hold(&self) -> Hold {
                self.hold
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
    (@texts requeue) => {
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

        // A dead letter has to leave the table too. So the job stays, and is postponed until somebody deals with it.
        fn last_words(&self, error: &Error) -> Ended {
            let error = ascii(&format!("{}; the job cannot leave queue_jobs: {error}", self.error));
            tracing::error!(
                job.id = self.hold.id,
                error,
                "a job that ended cannot leave queue_jobs; it is postponed by 100 years"
            );
            let (hold, ran_us, outcome) = (self.hold, self.ran_us, self.outcome);
            let (delay_us, error) = (Some(micros(Duration::MAX)), Some(cut(error)));
            Ended::Requeue(Requeue { hold, ran_us, outcome, delay_us, uncount: 0, record: true, error })
        }
    };
    (@dead) => {
        fn last_words(&self, error: &Error) -> Ended {
            let error = ascii(&format!("the job ended, but the database refused to record how: {error}"));
            tracing::error!(
                event = telemetry::JOB_DEAD,
                job.id = self.hold.id,
                error,
                "the end of a job could not be recorded"
            );
            let (hold, ran_us, outcome) = (self.hold, self.ran_us, AttemptOutcome::Failed);
            Ended::Bury(Bury { hold, ran_us, outcome, error: cut(error) })
        }
    };
}
edge!(Finish, finish, false, Completed, |it| bytes(&it.result) + bytes(&it.error));
edge!(Requeue, requeue, true, Completed, |it| bytes(&it.error));
edge!(Bury, bury, false, Dead, |it| bytes_in_json(&it.error));

/// What an error text begins with when it replaces texts that the database rejected.
pub(crate) const STRIPPED: &str = "the database rejected the text: ";

/// The same end in a form that the database is more likely to accept. First its texts become ASCII, for a database that
/// is not in Unicode. Then they are removed. None: there is no plainer form. `broke`: the end broke its connection, so
/// it is too large.
pub(crate) fn plainer<E: EndOfRun>(end: &E, error: &Error, broke: bool) -> Option<E> {
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
    tracing::warn!(
        job.id = end.hold().id, %error,
        "the database rejects the result or error of a job; its end is recorded without them"
    );
    Some(plain)
}

/// The size of a text in the list that is sent.
pub(crate) fn bytes(text: &Option<String>) -> usize {
    text.as_deref().map_or(0, bytes_in_json)
}

/// Splits a batch into parts that are small enough for one statement each.
pub(crate) fn in_bytes<E: EndOfRun>(batch: Vec<E>, most: usize) -> Vec<Vec<E>> {
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
