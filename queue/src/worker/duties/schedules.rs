//! Fires the ticks of schedules, keeps what the application declares in the database, and removes old ticks.
//!
//! A worker looks every 30 seconds. It also looks when the next tick is due that the last look found. Any number of
//! workers look. The lock on a schedule decides who fires it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::error::Error;
use crate::schedule::definition::Definition;
use crate::store::schedules::{Converged, Scheduler, Seen};
use crate::store::{ScheduleStore, Trouble};
use crate::telemetry::Event;
use crate::worker::declared::Declared;
use crate::worker::duties::retention::{jittered, next_pause};
use crate::worker::duties::{Duty, NEVER, failed};
use crate::worker::shared::Shared;

/// The longest pause between two looks. A schedule that is made at run time waits at most this long to be seen.
const SELDOM: Duration = Duration::from_secs(30);
/// How many schedules one transaction fires. MySQL inserts so many jobs with one statement that stays prepared.
const CHUNK: usize = 256;
/// Workers that wake up for the same tick look within this time, so that the first has fired it before the others look.
const SPREAD: Duration = Duration::from_millis(50);
/// SQLite reads its clock in whole milliseconds.
const CLOCK: Duration = Duration::from_millis(2);
/// How long a worker waits after it saw due schedules and could lock none. Another worker holds them, and may die.
const AGAIN: Duration = Duration::from_millis(50);
const LONGEST_AGAIN: Duration = Duration::from_secs(1);
/// Errors that last are told again after this time.
const TOLD: Duration = Duration::from_secs(3600);
/// The most errors that are told one by one.
const MOST_TOLD: usize = 20;
/// The pause after the database refused something.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// In log lines.
const FEATURE: &str = "schedules";
/// The bounds of the pause while there is nothing to remove. A shorter retention lowers it.
const TICKS_SELDOM: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// The most ticks that one transaction removes.
const TICKS_BATCH: u32 = 1_000;

/// Fires what is due.
pub(crate) struct Schedules {
    store: Arc<dyn ScheduleStore>,
    declared: Declared,
    /// The kinds, as every look sends them.
    kinds: Vec<String>,
    digest: String,
    wake: Instant,
    /// When this process joined first, by the database's clock.
    since: Option<i64>,
    /// How often in a row it saw due schedules and could lock none.
    in_vain: u32,
    /// When errors are told again.
    forget: Instant,
    /// When it compares what the application declares again, after a conflict.
    compare: Instant,
    /// The errors that were told lately, by schedule.
    told: HashMap<String, String>,
}

impl Schedules {
    pub(crate) fn new(store: Arc<dyn ScheduleStore>, declared: Declared) -> Self {
        let mut kinds: Vec<String> = declared.kinds.keys().cloned().collect();
        kinds.sort_unstable();
        let digest = digest(&declared.schedules);
        let wake = Instant::now();
        let (since, in_vain, forget, compare, told) = (None, 0, wake + TOLD, wake, HashMap::new());
        Self { store, declared, kinds, digest, wake, since, in_vain, forget, compare, told }
    }

    /// Fires all that is due. Each worker begins at another place, so that they do not meet.
    async fn fire(&mut self, shared: &Shared, seen: &Seen, worker: i64) -> Result<(), Error> {
        let mut due = seen.due.clone();
        due.sort_unstable();
        let chunks: Vec<&[i64]> = due.chunks(CHUNK).collect();
        let first = usize::try_from(worker).unwrap_or(0) % chunks.len();
        let mut locked = 0;
        for at in 0..chunks.len() {
            let chunk = chunks[(first + at) % chunks.len()];
            let fired = self.store.fire(chunk, &self.declared.kinds, 0).await?;
            locked += fired.locked;
            if fired.jobs > 0 {
                shared.tell(Event::SchedulesFired { jobs: fired.jobs });
            }
            self.tell_of_failures(shared, fired.failed);
        }
        self.in_vain = if locked > 0 { 0 } else { (self.in_vain + 1).min(16) };
        if self.in_vain > 0 {
            self.wake = Instant::now() + (AGAIN * 2_u32.pow(self.in_vain - 1)).min(LONGEST_AGAIN);
        }
        Ok(())
    }

    fn tell_of_changes(&mut self, shared: &Shared, done: &Converged) {
        let app = &*self.declared.app;
        if !done.written.is_empty() || !done.retired.is_empty() {
            let (written, retired) = (done.written.join(", "), done.retired.join(", "));
            shared.tell(Event::SchedulesChanged { app, written, retired });
        }
        for (schedule, owner) in &done.conflicts {
            if self.told.insert(schedule.clone(), owner.clone()).as_ref() == Some(owner) {
                continue;
            }
            shared.tell(Event::ScheduleConflict { schedule, owner });
        }
    }

    /// Each error once, and again about once an hour.
    fn tell_of_failures(&mut self, shared: &Shared, failed: Vec<(String, String)>) {
        if self.forget <= Instant::now() {
            self.told.clear();
            self.forget = Instant::now() + TOLD;
        }
        let mut more = 0;
        for (schedule, error) in failed {
            if self.told.get(&schedule) == Some(&error) {
                continue;
            }
            if self.told.len() < MOST_TOLD {
                shared.tell(Event::ScheduleFailed { schedule: &schedule, error: &error });
            } else {
                more += 1;
            }
            self.told.insert(schedule, error);
        }
        if more > 0 {
            shared.tell(Event::MoreSchedulesFailed { more });
        }
    }
}

impl Duty for Schedules {
    async fn due(&mut self, _: &Shared) {
        sleep_until(self.wake).await;
    }

    async fn run_once(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        let worker = shared.lease.id();
        if worker == 0 {
            // it lost its lease and will join again
            self.wake = Instant::now() + LONGEST_AGAIN;
            return Ok(());
        }
        let by = Scheduler { worker, app: self.declared.app.clone() };
        let began = Instant::now();
        let seen = self.store.look(&by, &self.kinds, 0).await?;
        let round_trip = began.elapsed();
        self.wake = Instant::now();
        match seen.since {
            None => return self.store.register(&by, self.since).await,
            since => self.since = self.since.or(since),
        }
        if seen.decides && seen.digest.as_ref() != Some(&self.digest) && self.compare <= Instant::now() {
            let done = self.store.converge(&by, &self.declared.schedules, &self.digest).await?;
            self.tell_of_changes(shared, &done);
            if done.conflicts.is_empty() && done.refused.is_empty() {
                return Ok(());
            }
            self.tell_of_failures(shared, done.refused);
            // the other one may go, and the database may change its mind
            self.compare = Instant::now() + SELDOM;
        }
        if !seen.orphans.is_empty() {
            let failed = self.store.mark_orphans(&seen.orphans, 0).await?;
            self.tell_of_failures(shared, failed);
        }
        if !seen.due.is_empty() {
            return self.fire(shared, &seen, worker).await;
        }
        self.in_vain = 0;
        let seldom = SELDOM.mul_f64(0.9 + 0.1 * fastrand::f64());
        let spread = if shared.lease.others() > 0 { SPREAD.mul_f64(fastrand::f64()) } else { Duration::ZERO };
        // the database's clock was read about half a round trip ago
        let next = seen.next.map(|next| next.saturating_sub(round_trip / 2) + CLOCK + spread);
        self.wake += next.map_or(seldom, |next| next.min(seldom));
        Ok(())
    }

    fn repeats(&mut self, shared: &Shared, error: &Error) -> bool {
        let is_away = !error.is_a_missing_right() && shared.config.store.trouble(error) == Trouble::Away;
        if !is_away {
            // the database is up: that is no outage
            let given_up = failed(shared, FEATURE, "a round failed", error);
            self.wake = Instant::now() + if given_up { NEVER } else { AFTER_FAILURE };
        }
        is_away
    }
}

/// Removes old ticks, about as fast as they expire, at the pace of the jobs' retention. Tells of schedules that a clock
/// which was ahead has silenced.
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
        let seldom = (keep / 100).clamp(TICKS_SELDOM.0, TICKS_SELDOM.1);
        // a program that restarts each hour removes ticks too
        Self { store, keep, seldom, pause: jittered(TICKS_SELDOM.0), last: Instant::now(), told: Vec::new() }
    }
}

impl Duty for TickRetention {
    async fn due(&mut self, _: &Shared) {
        sleep(self.pause).await;
    }

    async fn run_once(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        let began = Instant::now();
        let since = began - std::mem::replace(&mut self.last, began);
        self.pause = jittered(self.seldom);
        let removed = self.store.purge_ticks(self.keep, TICKS_BATCH).await?;
        self.pause = self.pause.min(next_pause(since, began.elapsed(), removed, TICKS_BATCH));
        let silent = self.store.silent().await?;
        if silent != self.told && !silent.is_empty() {
            shared.tell(Event::SchedulesSilent { schedules: silent.join(", ") });
        }
        self.told = silent;
        Ok(())
    }

    fn repeats(&mut self, shared: &Shared, error: &Error) -> bool {
        shared.tell(Event::DutyFailed { feature: FEATURE, what: "old ticks cannot be removed", error });
        false
    }
}

/// The same for equal schedules, in every build.
fn digest(schedules: &[Definition]) -> String {
    let text = serde_json::to_string(schedules).expect("plain structs of numbers and text serialize");
    let hash =
        |seed: u64| text.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x8422_2325_cbf2_9ce4))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::worker::duties;
    use crate::worker::fake::log::Log;
    use crate::worker::fake::schedules::NoSchedules;
    use crate::worker::fake::{Answer, MadeUp, nothing};

    /// The number of looks within ten minutes.
    async fn sent(next: Option<Duration>) -> u32 {
        let database = MadeUp::new(|_| Answer::Yes);
        let (shared, _ends) = database.shared(Default::default(), Default::default(), nothing);
        let store = Arc::new(NoSchedules { next, ..NoSchedules::default() });
        let duty = Schedules::new(store.clone(), shared.config.schedules.clone());
        let running = tokio::spawn(duties::run(shared, duty));
        tokio::time::sleep(Duration::from_secs(600)).await;
        running.abort();
        store.looks.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_sends_one_statement_in_half_a_minute() {
        let looks = sent(None).await;
        assert!((20..=23).contains(&looks), "{looks}: with jitter, each 27 to 30 s");
        let looks = sent(Some(Duration::from_secs(5))).await;
        assert!((115..=121).contains(&looks), "{looks}: one at each tick");
    }

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
