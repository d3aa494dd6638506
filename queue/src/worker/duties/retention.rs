//! Removes what is over. Finished jobs past their retention go about as fast as they expire: if all jobs of a minute
//! were removed at once, due jobs would be delayed. The keys of unique jobs that are nowhere any more go each minute.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::telemetry::Event;
use crate::worker::duties::{Duty, NEVER, failed};
use crate::worker::shared::Shared;

/// The longest pause between two transactions, before jitter. A shorter retention lowers it.
const SELDOM: Duration = Duration::from_secs(60);
/// The lower bound of that pause, even if the retention is shorter.
const LEAST_SELDOM: Duration = Duration::from_millis(100);
/// While it is behind, it pauses as long as the last transaction took, within these bounds. So it uses at most about
/// half of one connection's time.
const LEAST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// How much of a batch the next transaction should remove.
const FILL: f64 = 0.8;
/// The largest ratio of a pause to the previous one.
const SLOWER: f64 = 4.0;

/// The retention duty of one worker.
pub(crate) struct Retention {
    keep: Duration,
    seldom: Duration,
    pause: Duration,
    /// When the last transaction began.
    last: Instant,
    /// When it last removed rows from `queue_workers`.
    workers: Option<Instant>,
    /// Jobs removed since the last event about them.
    removed: u64,
    told: Instant,
}

impl Retention {
    pub(crate) fn new(keep: Duration) -> Self {
        let seldom = SELDOM.min(keep).max(LEAST_SELDOM);
        let now = Instant::now();
        // the jitter keeps workers that start together apart
        Self { keep, seldom, pause: jittered(seldom), last: now, workers: None, removed: 0, told: now }
    }
}

impl Duty for Retention {
    async fn due(&mut self, _: &Shared) {
        sleep(self.pause).await;
    }

    /// Removes expired jobs, in one transaction of limited size.
    async fn run_once(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        let store = &shared.config.store;
        let batch = store.capabilities().purge_batch;
        let began = Instant::now();
        let since = began - std::mem::replace(&mut self.last, began);
        self.pause = jittered(self.seldom);
        let workers = self.workers.is_none_or(|last| last.elapsed() >= self.seldom / 2);
        let removed = store.purge(self.keep, batch, workers).await?;
        if workers {
            self.workers = Some(Instant::now());
        }
        self.pause = self.pause.min(next_pause(since, began.elapsed(), removed, batch));
        self.removed += removed;
        let is_quiet = self.pause >= self.seldom / 2;
        if self.removed > 0 && (is_quiet || self.told.elapsed() >= self.seldom) {
            shared.tell(Event::JobsPurged { jobs: self.removed });
            (self.removed, self.told) = (0, Instant::now());
        }
        Ok(())
    }

    fn repeats(&mut self, shared: &Shared, error: &Error) -> bool {
        shared.tell(Event::RetentionFailed { error });
        false
    }
}

/// Removes the keys of unique jobs that are nowhere any more.
pub(crate) struct KeySweep {
    /// Where the last round ended.
    hand: Option<i64>,
    /// The pause between two rounds, before jitter.
    pause: Duration,
}

impl KeySweep {
    pub(crate) fn new() -> Self {
        Self { hand: None, pause: Duration::from_secs(60) }
    }
}

impl Duty for KeySweep {
    async fn due(&mut self, _: &Shared) {
        // the jitter keeps workers that start together apart
        sleep(jittered(self.pause)).await;
    }

    async fn run_once(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        let is_its_turn = fastrand::usize(..=shared.lease.others()) == 0;
        shared.config.store.sweep_keys(&mut self.hand, is_its_turn).await
    }

    fn repeats(&mut self, shared: &Shared, error: &Error) -> bool {
        if failed(shared, "unique jobs", "old keys cannot be removed", error) {
            self.pause = NEVER;
        }
        false
    }
}

pub(super) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64())
}

/// The pause after a transaction that began `since` after the previous one.
pub(super) fn next_pause(since: Duration, took: Duration, removed: u64, batch: u32) -> Duration {
    let least = took.clamp(LEAST_PAUSE, LONGEST_PAUSE);
    if removed >= u64::from(batch) {
        return least;
    }
    let slower = (f64::from(batch) * FILL / removed as f64).min(SLOWER);
    since.max(LEAST_PAUSE).mul_f64(slower).saturating_sub(took).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::duties;
    use crate::worker::fake::{Answer, Asked, MadeUp, nothing};

    const BATCH: u32 = 5_000;

    /// Rows expire at a constant rate. Removing one takes 10 µs. Returns what each step removed, and the last pause.
    fn simulated(per_second: f64, waiting: f64, steps: usize) -> (Vec<u64>, Duration) {
        let (mut waiting, mut pause) = (waiting, SELDOM);
        let mut took = Duration::ZERO;
        let removed = (0..steps).map(|_| {
            let since = took + pause;
            waiting += per_second * since.as_secs_f64();
            let removed = waiting.min(f64::from(BATCH)).floor();
            waiting -= removed;
            took = Duration::from_micros(removed as u64 * 10);
            pause = next_pause(since, took, removed as u64, BATCH).min(SELDOM);
            removed as u64
        });
        (removed.collect(), pause)
    }

    #[test]
    fn it_keeps_up_in_steps_of_one_size() {
        for per_second in [500.0, 5_000.0, 30_000.0] {
            let (removed, pause) = simulated(per_second, 0.0, 2_000);
            let last = &removed[1_900..];
            assert!(last.iter().all(|removed| (3_000..=4_800).contains(removed)), "{per_second}: {last:?}");
            assert!(pause < Duration::from_secs(10), "{per_second}: {pause:?}");
        }
    }

    #[test]
    fn it_catches_up_and_slows_down_again() {
        let (removed, pause) = simulated(1_000.0, 1_000_000.0, 1_000);
        let behind = removed.iter().take_while(|removed| **removed == u64::from(BATCH)).count();
        assert!((200..300).contains(&behind), "{behind} full transactions");
        assert!(pause > Duration::from_secs(3), "{pause:?}");
    }

    #[test]
    fn it_seldom_looks_where_there_is_nothing() {
        assert_eq!(simulated(0.0, 0.0, 3), (vec![0; 3], SELDOM));
        assert_eq!(simulated(1.0, 0.0, 20).1, SELDOM);
        let (_, pause) = simulated(0.0, 20_000.0, 20);
        assert_eq!(pause, SELDOM, "it takes only a few steps");
    }

    /// The rounds of a day, and those that were its turn, with other workers beside it.
    async fn rounds(others: usize, answer: Answer) -> (usize, usize) {
        let database = MadeUp::new(move |_| answer);
        let (shared, _ends) = database.shared(Default::default(), Default::default(), nothing);
        shared.lease.set_others(others);
        let running = tokio::spawn(duties::run(shared, KeySweep::new()));
        sleep(Duration::from_secs(86_400)).await;
        running.abort();
        let asked = database.asked.borrow();
        let turns = asked.iter().filter(|(_, asked)| *asked == Asked::SweepKeys(true)).count();
        (asked.len(), turns)
    }

    #[tokio::test(start_paused = true)]
    async fn workers_share_the_rounds() {
        let (all, turns) = rounds(0, Answer::Yes).await;
        assert!(all > 1_200 && turns == all, "{turns} of {all}");
        let (all, turns) = rounds(9, Answer::Yes).await;
        assert!(all > 1_200 && (50..300).contains(&turns), "{turns} of {all}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_without_the_rights_tries_once() {
        assert_eq!(rounds(0, Answer::No("42501", "permission denied")).await.0, 1);
        assert!(rounds(0, Answer::Away).await.0 > 1_200, "any other failure may pass");
    }
}
