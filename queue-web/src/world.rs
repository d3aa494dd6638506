//! What is going on, read at once: every screen shows a part of it.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use queue::Error;
use queue::admin::{Admin, Count, Depth, FailureGroup, Failures, Gauges, Operation, QueueInfo, Throughput, WorkerInfo};
use queue::schedule::ScheduleInfo;

use crate::site::Screen;
use crate::text::{between, count, thousands};

/// A job that has been due for longer is late.
pub(crate) const LATE: Duration = Duration::from_secs(60);
/// The minutes over which rates are told, and the one that is not over.
const MINUTES: u32 = 10;

/// What waits, runs, fails and is dead.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) at: DateTime<Utc>,
    pub(crate) gauges: Gauges,
    pub(crate) workers: Vec<WorkerInfo>,
    pub(crate) failures: Failures,
    pub(crate) schedules: Vec<ScheduleInfo>,
    /// Of the last minutes.
    pub(crate) throughput: Throughput,
    /// The last ones, the latest first.
    pub(crate) operations: Vec<Operation>,
}

/// What happened to the jobs of a queue in the last minutes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) ended: u64,
    pub(crate) failed: u64,
    pub(crate) started: u64,
    pub(crate) waited: Duration,
}

impl Flow {
    /// How long those that started waited.
    pub(crate) fn mean_wait(&self) -> Option<Duration> {
        (self.started > 0).then(|| self.waited.div_f64(self.started as f64))
    }
}

impl World {
    pub(crate) async fn read(admin: &Admin, at: DateTime<Utc>) -> Result<Self, Error> {
        let (mut workers, mut failures) = (admin.workers().await?, admin.failures().await?);
        // the lost ones first, the ended ones last
        workers.sort_by_key(|it| (it.stopped_at.is_some(), it.alive, std::cmp::Reverse(it.id)));
        failures.groups.sort_by_key(|it| (!it.is_new, it.back_since.is_none()));
        // an account from before there were schedules and records sees the rest
        let mut schedules = admin.schedules(None).await.unwrap_or_default();
        let operations = admin.operations(None).await.unwrap_or_default();
        schedules.sort_by_key(|it| (!is_stuck(it), it.retired_at.is_some(), it.next_at.is_none(), it.next_at));
        let throughput = admin.throughput(Duration::from_secs(60) * MINUTES).await?;
        Ok(Self { at, gauges: admin.gauges().await?, workers, failures, schedules, throughput, operations })
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &WorkerInfo> + Clone {
        self.workers.iter().filter(|worker| worker.alive && worker.stopped_at.is_none())
    }

    pub(crate) fn lost(&self) -> impl Iterator<Item = &WorkerInfo> + Clone {
        self.workers.iter().filter(|worker| !worker.alive && worker.stopped_at.is_none())
    }

    /// How many jobs the live workers hold, and how many they can.
    pub(crate) fn slots(&self) -> [u64; 2] {
        self.live().fold([0; 2], |[held, slots], it| [held + it.running, slots + u64::from(it.concurrency)])
    }

    pub(crate) fn knows(&self, kind: &String) -> bool {
        self.live().any(|worker| worker.kinds.contains(kind))
    }

    /// Whether a live worker can take these jobs.
    pub(crate) fn serves(&self, it: &Depth) -> bool {
        self.live().any(|worker| worker.kinds.contains(&it.kind) && serves(worker, &it.queue))
    }

    /// The queues that wait longest first. Those are here too that have no jobs now, and of which something ended.
    pub(crate) fn queues(&self) -> Vec<QueueInfo> {
        let mut queues = self.gauges.queues();
        queues.sort_by_key(|it| std::cmp::Reverse((it.oldest_due, it.ready.jobs, it.paused_at)));
        queues
    }

    /// The queues whose oldest job has waited too long, although nothing pauses them.
    pub(crate) fn late(&self) -> BTreeMap<&str, Duration> {
        let mut late: BTreeMap<&str, Duration> = BTreeMap::new();
        for it in self.gauges.depths.iter().filter(|it| !it.paused) {
            if let Some(age) = it.oldest_due.filter(|age| *age >= LATE) {
                let oldest = late.entry(&it.queue).or_default();
                *oldest = age.max(*oldest);
            }
        }
        late
    }

    pub(crate) fn dead(&self) -> Count {
        sum(self.gauges.depths.iter().map(|it| it.dead))
    }

    /// How many jobs wait in those that are chosen, by name.
    pub(crate) fn waiting<'a>(&'a self, name: impl Fn(&'a Depth) -> Option<&'a str>) -> BTreeMap<&'a str, Count> {
        let mut sums: BTreeMap<&str, Count> = BTreeMap::new();
        for it in &self.gauges.depths {
            let jobs = sum([it.ready, it.scheduled].into_iter());
            if let Some(name) = name(it).filter(|_| jobs.jobs > 0) {
                *sums.entry(name).or_default() += jobs;
            }
        }
        sums
    }

    /// The time over which rates are told: less than those minutes if nothing happened before.
    pub(crate) fn window(&self) -> Duration {
        let first = self.throughput.tallies.first().map_or(self.at, |tally| tally.began_at);
        between(first, self.at).max(Duration::from_secs(10))
    }

    /// By queue, within the [window](Self::window).
    pub(crate) fn flows(&self) -> BTreeMap<&str, Flow> {
        let mut flows: BTreeMap<&str, Flow> = BTreeMap::new();
        for tally in &self.throughput.tallies {
            let flow = flows.entry(&tally.queue).or_default();
            if tally.outcome.is_end() {
                flow.ended += tally.attempts;
                flow.failed += if tally.outcome.is_failure() { tally.attempts } else { 0 };
            } else {
                flow.started += tally.attempts;
                flow.waited += tally.total;
            }
        }
        flows
    }

    /// Who paused a queue last, if that is on record.
    pub(crate) fn paused_by(&self, queue: &str) -> Option<&Operation> {
        self.operations.iter().find(|it| it.action == "pause" && it.details["queue"].as_str() == Some(queue))
    }

    /// Nothing has ever happened here, as far as can be seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.workers.is_empty() && self.gauges.depths.is_empty() && self.throughput.tallies.is_empty()
    }

    pub(crate) fn news(&self) -> impl Iterator<Item = &FailureGroup> {
        self.failures.groups.iter().filter(|it| it.is_new || it.back_since.is_some())
    }

    pub(crate) fn stuck(&self) -> impl Iterator<Item = &ScheduleInfo> {
        self.schedules.iter().filter(|it| is_stuck(it))
    }

    /// What stands beside a screen in their list: a class and a few words.
    pub(crate) fn badge(&self, screen: Screen) -> (&'static str, String) {
        let some = |class, number: usize, word: &str| match number {
            0 => Default::default(),
            number => (class, format!("{} {word}", thousands(number as u64))),
        };
        match screen {
            Screen::Failures => some("bad", self.news().count(), "new"),
            Screen::Dead if self.dead().jobs > 0 => ("soft", count(self.dead())),
            Screen::Queues if self.late().is_empty() => some("warn", self.gauges.paused.len(), "paused"),
            Screen::Queues => some("bad", self.late().len(), "late"),
            Screen::Workers => some("bad", self.lost().count(), "lost"),
            Screen::Schedules => some("warn", self.stuck().count(), "stuck"),
            _ => Default::default(),
        }
    }
}

pub(crate) fn sum(counts: impl Iterator<Item = Count>) -> Count {
    let mut sum = Count::default();
    counts.for_each(|count| sum += count);
    sum
}

pub(crate) fn serves(worker: &WorkerInfo, queue: &String) -> bool {
    worker.queues.is_empty() || worker.queues.contains(queue)
}

/// Whether a schedule should fire, and does not.
pub(crate) fn is_stuck(it: &ScheduleInfo) -> bool {
    it.retired_at.is_none() && it.paused_at.is_none() && (it.error.is_some() || !it.watched)
}
