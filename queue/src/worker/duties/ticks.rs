//! Removes old ticks of schedules, about as fast as they expire, at the pace of the jobs' retention. Tells of schedules
//! that a clock which was ahead has silenced.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;
use crate::store::ScheduleStore;
use crate::telemetry::Event;
use crate::worker::duties::Duty;
use crate::worker::duties::retention::{jittered, next_pause};
use crate::worker::shared::Shared;

/// The bounds of the pause while there is nothing to remove. A shorter retention lowers it.
const SELDOM: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// The most ticks that one transaction removes.
const BATCH: u32 = 1_000;

/// The duty of one worker.
pub(crate) struct TickRetention {
    store: Arc<dyn ScheduleStore>,
    keep: Duration,
    seldom: Duration,
    pause: Duration,
    /// When the last transaction began.
    last: Instant,
    /// The silent schedules that were told.
    told: Vec<String>,
}

impl TickRetention {
    pub(crate) fn new(store: Arc<dyn ScheduleStore>, keep: Duration) -> Self {
        let seldom = (keep / 100).clamp(SELDOM.0, SELDOM.1);
        // a program that restarts each hour removes ticks too
        Self { store, keep, seldom, pause: jittered(SELDOM.0), last: Instant::now(), told: Vec::new() }
    }
}

impl Duty for TickRetention {
    async fn due(&mut self, _: &Shared) {
        sleep(self.pause).await;
    }

    async fn run_once(&mut self, _: &Arc<Shared>) -> Result<(), Error> {
        let began = Instant::now();
        let since = began - std::mem::replace(&mut self.last, began);
        self.pause = jittered(self.seldom);
        let removed = self.store.purge_ticks(self.keep, BATCH).await?;
        self.pause = self.pause.min(next_pause(since, began.elapsed(), removed, BATCH));
        let silent = self.store.silent().await?;
        if silent != self.told && !silent.is_empty() {
            Event::SchedulesSilent { schedules: silent.join(", ") }.emit();
        }
        self.told = silent;
        Ok(())
    }

    fn repeats(&self, error: &Error) -> bool {
        Event::DutyFailed { feature: "schedules", what: "old ticks cannot be removed", error }.emit();
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::worker::duties;
    use crate::worker::fake::log::Log;
    use crate::worker::fake::schedules::NoSchedules;
    use crate::worker::fake::{Answer, MadeUp, nothing};

    /// What is left of old ticks after an hour in which new ones expire, and the number of statements.
    async fn left(waiting: u64, per_second: u64) -> (u64, u32) {
        let database = MadeUp::new(|_| Answer::Yes);
        let (shared, _ends) = database.shared(Default::default(), Default::default(), nothing);
        let store = Arc::new(NoSchedules::default());
        store.ticks.store(waiting, Ordering::Relaxed);
        let duty = TickRetention::new(store.clone(), Duration::from_secs(7 * 86_400));
        let running = tokio::spawn(duties::run(shared, duty));
        for _ in 0..3_600 {
            sleep(Duration::from_secs(1)).await;
            store.ticks.fetch_add(per_second, Ordering::Relaxed);
        }
        running.abort();
        (store.ticks.load(Ordering::Relaxed), store.purges.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn silent_schedules_are_told_once() {
        let database = MadeUp::new(|_| Answer::Yes);
        let (shared, _ends) = database.shared(Default::default(), Default::default(), nothing);
        let (log, _listening) = Log::listen();
        let store = Arc::new(NoSchedules { silent: vec!["a".into(), "b".into()], ..NoSchedules::default() });
        let running = tokio::spawn(duties::run(shared, TickRetention::new(store, Duration::from_secs(7 * 86_400))));
        sleep(Duration::from_secs(86_400)).await;
        running.abort();
        assert_eq!(log.take("schedule=\"a, b\""), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_removed_keeps_up_with_what_is_written() {
        // ten thousand schedules of every minute, a week behind
        let (left_over, _) = left(1_000_000, 167).await;
        assert!(left_over < 3_000, "{left_over}");
        let (left_over, statements) = left(0, 0).await;
        assert_eq!(left_over, 0);
        assert!(statements <= 10, "{statements} statements in an hour without any tick");
    }
}
