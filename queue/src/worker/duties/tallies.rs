//! Writes what started and ended, every ten seconds if there was something, and removes old tallies.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::error::Error;
use crate::telemetry::Event;
use crate::worker::duties::{Duty, NEVER, failed};
use crate::worker::shared::Shared;

const FEATURE: &str = "tallies";
const NOT_WRITTEN: &str = "what started and ended cannot be written to the tallies";

/// One write in this number also removes old tallies.
const SELDOM: usize = 60;
/// What the last write may take.
const LAST: Duration = Duration::from_secs(2);

/// The writer of one worker.
pub(crate) struct Writing {
    /// The longest pause between two writes.
    every: Duration,
}

impl Writing {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every }
    }
}

impl Duty for Writing {
    async fn due(&mut self, _: &Shared) {
        // the jitter keeps workers that start together apart
        sleep(self.every.mul_f64(0.7 + 0.3 * fastrand::f64())).await;
    }

    async fn run_once(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        let is_its_turn = write(shared).await? && fastrand::usize(..SELDOM * (1 + shared.lease.others())) == 0;
        if is_its_turn { shared.config.store.purge_tallies().await } else { Ok(()) }
    }

    fn repeats(&mut self, shared: &Shared, error: &Error) -> bool {
        if failed(shared, FEATURE, NOT_WRITTEN, error) {
            self.every = NEVER;
        }
        false
    }
}

/// Adds what was counted to the rows of all workers. False: it was nothing. What cannot be written is kept. If an
/// answer is lost, what was written may count twice.
async fn write(shared: &Shared) -> Result<bool, Error> {
    let tallies = &shared.recorder.tallies;
    let _writer = tallies.writer.lock().await;
    let (rows, failures) = tallies.sheet().take();
    if rows.is_empty() {
        return Ok(false);
    }
    let written = shared.config.store.add_tallies(&rows, &failures).await;
    if written.is_err() {
        tallies.sheet().give_back(&rows, &failures);
    }
    written.map(|()| true)
}

/// Writes what is left at the end of a worker. What the duty is writing is written first.
pub(crate) async fn write_last(shared: &Shared) {
    if let Ok(Err(error)) = timeout(LAST, write(shared)).await
        // of a missing right the duty has told
        && !error.is_a_missing_right()
    {
        shared.tell(Event::DutyFailed { feature: FEATURE, what: NOT_WRITTEN, error: &error });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::values::Lane;
    use crate::worker::duties;
    use crate::worker::fake::{Answer, Asked, MadeUp, NO_RIGHT, nothing};

    const EVERY: Duration = Duration::from_secs(10);
    const DAY: Duration = Duration::from_secs(86_400);

    /// Two jobs start, and then nothing happens for a day. Returns how many starts each write had.
    async fn writes(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Vec<i64> {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let database = MadeUp::new(move |_| answer(asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
        let (shared, _ends) = database.shared(Default::default(), Default::default(), nothing);
        let running = tokio::spawn(duties::run(shared.clone(), Writing::new(EVERY)));
        let lane = Lane { kind: "k".into(), queue: "q".into(), priority: 0 };
        for _ in 0..2 {
            shared.recorder.tallies.started(&lane, None);
            sleep(EVERY).await;
        }
        sleep(DAY).await;
        running.abort();
        let asked = database.asked.borrow();
        let writes = asked.iter().filter_map(|(_, asked)| match asked {
            Asked::Tallies(rows) => Some(rows.iter().map(|row| row.attempts).sum()),
            _ => None,
        });
        writes.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_happened_is_written() {
        assert_eq!(writes(|_| Answer::Yes).await, [1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_written_with_the_next() {
        assert_eq!(writes(|n| if n == 0 { Answer::Away } else { Answer::Yes }).await, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_without_the_rights_tries_once() {
        assert_eq!(writes(|_| NO_RIGHT).await, [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_write_has_the_rest_and_waits_for_the_one_under_way() {
        let database = MadeUp::new(|_| Answer::Late(Duration::from_millis(500)));
        let (shared, _ends) = database.shared(Default::default(), Default::default(), nothing);
        let lane = Lane { kind: "k".into(), queue: "q".into(), priority: 0 };
        shared.recorder.tallies.started(&lane, None);
        let under_way = tokio::spawn({
            let shared = shared.clone();
            async move { write(&shared).await.expect("written") }
        });
        database.was_asked(|asked| matches!(asked, Asked::Tallies(_))).await;
        shared.recorder.tallies.started(&lane, None);
        write_last(&shared).await;
        assert!(under_way.is_finished());
        assert_eq!(database.asked.borrow().len(), 2);
        assert_eq!(shared.recorder.tallies.sheet().take(), (vec![], vec![]));
    }
}
