//! Gauges: what waits, runs and is dead at this moment, and the page on which Prometheus reads them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write};
use std::ops::AddAssign;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// What waits, runs and is dead. See [`Admin::gauges`](crate::admin::Admin::gauges).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Gauges {
    /// One for each kind and queue that has unfinished jobs or dead letters, in this order.
    pub depths: Vec<Depth>,
    /// The paused queues, those too that are empty.
    pub paused: Vec<Paused>,
    /// How many workers are alive.
    pub workers: u64,
    /// False if there are more kinds and queues than were looked at, or more running jobs.
    pub complete: bool,
}

/// The jobs of one kind in one queue. See [`Gauges`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Depth {
    /// The jobs' kind.
    pub kind: String,
    /// The jobs' queue.
    pub queue: String,
    /// Jobs that are due and wait for a worker.
    pub ready: Count,
    /// Jobs that wait until they are due.
    pub scheduled: Count,
    /// Jobs that a worker holds.
    pub running: Count,
    /// Dead letters.
    pub dead: Count,
    /// How long ago the oldest ready job was due. Always exact. `None`: no job is ready.
    pub oldest_due: Option<Duration>,
    /// Whether the queue is paused.
    pub paused: bool,
}

impl Depth {
    pub(crate) fn new(kind: &str, queue: &str) -> Self {
        let (kind, queue, none) = (kind.to_owned(), queue.to_owned(), Count::exactly(0));
        Self { kind, queue, ready: none, scheduled: none, running: none, dead: none, oldest_due: None, paused: false }
    }
}

/// A paused queue. See [`Gauges`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Paused {
    /// Its name.
    pub queue: String,
    /// Since when it is paused.
    pub since: DateTime<Utc>,
}

/// The jobs of one queue. See [`Gauges::queues`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueInfo {
    /// Its name.
    pub queue: String,
    /// Since when the queue is paused. `None` if it is not.
    pub paused_at: Option<DateTime<Utc>>,
    /// Jobs that are not due yet.
    pub scheduled: Count,
    /// Jobs that are due and wait for a worker.
    pub ready: Count,
    /// Jobs that a worker holds.
    pub running: Count,
    /// Dead letters.
    pub dead: Count,
    /// How long ago the oldest ready job was due. Always exact. `None`: no job is ready.
    pub oldest_due: Option<Duration>,
}

impl QueueInfo {
    fn new(queue: &str) -> Self {
        let (queue, none) = (queue.to_owned(), Count::exactly(0));
        Self { queue, paused_at: None, scheduled: none, ready: none, running: none, dead: none, oldest_due: None }
    }
}

/// A number of jobs, or a lower bound of it. See [`Gauges`].
///
/// ```
/// # let count = queue::admin::Count::default();
/// // "17", or "10000 or more"
/// println!("{count} jobs wait");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Count {
    /// The number of jobs that were counted.
    pub jobs: u64,
    /// Whether there may be more.
    pub or_more: bool,
}

impl Count {
    pub(crate) fn exactly(jobs: i64) -> Self {
        Self { jobs: jobs.max(0).cast_unsigned(), or_more: false }
    }

    pub(crate) fn at_least(jobs: i64) -> Self {
        Self { or_more: true, ..Self::exactly(jobs) }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.or_more |= other.or_more;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.jobs, if self.or_more { " or more" } else { "" })
    }
}

/// The most pairs of kind and queue that have labels of their own.
const MOST_LABELS: usize = 100;
/// The label of the others.
const OTHER: &str = "other";

/// Something for each kind and queue, such as counters. Like the labels of [`Gauges`] they are few: the first 100 pairs
/// have one of their own, all others share that of `other`.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// use queue::telemetry::{Event, FewLabels};
///
/// let dead = FewLabels::new(|_kind, _queue| AtomicUsize::new(0));
/// let observer = move |event: &Event<'_>| {
///     if let Event::JobDead { job, .. } = event {
///         dead.of(job.kind(), job.queue()).fetch_add(1, Relaxed);
///     }
/// };
/// # let _ = observer;
/// ```
pub struct FewLabels<T> {
    new: Box<New<T>>,
    by_kind: RwLock<ByKind<T>>,
}

type New<T> = dyn Fn(&str, &str) -> T + Send + Sync;
type ByKind<T> = HashMap<String, HashMap<String, Arc<T>>>;

impl<T> FewLabels<T> {
    /// Makes each when it is first asked for, from a kind and a queue.
    pub fn new(new: impl Fn(&str, &str) -> T + Send + Sync + 'static) -> Self {
        Self { new: Box::new(new), by_kind: RwLock::default() }
    }

    /// That of this kind and queue, or of `other`.
    pub fn of(&self, kind: &str, queue: &str) -> Arc<T> {
        let find = |by_kind: &ByKind<T>, kind: &str, queue: &str| by_kind.get(kind)?.get(queue).cloned();
        if let Some(found) = find(&self.by_kind.read().unwrap_or_else(PoisonError::into_inner), kind, queue) {
            return found;
        }
        let mut by_kind = self.by_kind.write().unwrap_or_else(PoisonError::into_inner);
        let is_full = by_kind.values().map(HashMap::len).sum::<usize>() >= MOST_LABELS;
        let (kind, queue) = if is_full { (OTHER, OTHER) } else { (kind, queue) };
        if let Some(found) = find(&by_kind, kind, queue) {
            return found;
        }
        let new = Arc::new((self.new)(kind, queue));
        by_kind.entry(kind.to_owned()).or_default().insert(queue.to_owned(), new.clone());
        new
    }
}

impl Gauges {
    /// The gauges in Prometheus' text format (`Content-Type: text/plain; version=0.0.4`). The first 100 pairs of kind
    /// and queue have labels of their own, the others share the label `other`.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// let page = queue::admin::Admin::new(&pool).gauges().await?.prometheus();
    /// assert!(page.contains("\nqueue_workers 0\n"));
    /// # Ok(()) }
    /// ```
    pub fn prometheus(&self) -> String {
        let depths = self.with_few_labels();
        let mut page = Page(String::new());
        page.head("queue_jobs", "Jobs by state. Where queue_jobs_capped is 1 there are more.");
        for depth in &depths {
            for (state, count) in depth.counts() {
                page.line("queue_jobs", &depth.labels(Some(state)), count.jobs);
            }
        }
        page.head("queue_jobs_capped", "1 if there may be more jobs than queue_jobs says.");
        for depth in &depths {
            for (state, _) in depth.counts().into_iter().filter(|(_, count)| count.or_more) {
                page.line("queue_jobs_capped", &depth.labels(Some(state)), 1);
            }
        }
        page.head("queue_oldest_due_seconds", "How long ago the oldest ready job was due. 0: none is ready.");
        for depth in &depths {
            let seconds = depth.oldest_due.unwrap_or_default().as_secs_f64();
            page.line("queue_oldest_due_seconds", &depth.labels(None), seconds);
        }
        page.head("queue_paused", "1 if the queue is paused.");
        for depth in &depths {
            page.line("queue_paused", &depth.labels(None), u8::from(depth.paused));
        }
        page.head("queue_workers", "Live workers.");
        page.line("queue_workers", "", self.workers);
        page.head("queue_gauges_complete", "0 if there are more kinds and queues than were looked at.");
        page.line("queue_gauges_complete", "", u8::from(self.complete));
        page.0
    }

    /// The queues by name: those with unfinished jobs or dead letters, and those that are paused.
    pub fn queues(&self) -> Vec<QueueInfo> {
        let mut queues: BTreeMap<&str, QueueInfo> = BTreeMap::new();
        for depth in &self.depths {
            let queue = queues.entry(&depth.queue).or_insert_with(|| QueueInfo::new(&depth.queue));
            queue.scheduled += depth.scheduled;
            queue.ready += depth.ready;
            queue.running += depth.running;
            queue.dead += depth.dead;
            queue.oldest_due = queue.oldest_due.max(depth.oldest_due);
        }
        for Paused { queue, since } in &self.paused {
            queues.entry(queue).or_insert_with(|| QueueInfo::new(queue)).paused_at = Some(*since);
        }
        queues.into_values().collect()
    }

    /// The depths as metrics show them: the first 100 pairs of kind and queue, and all others together as `other`.
    pub fn with_few_labels(&self) -> Vec<Depth> {
        let (own, others) = self.depths.split_at(self.depths.len().min(MOST_LABELS));
        let mut depths = own.to_vec();
        if !others.is_empty() {
            let mut rest = Depth::new(OTHER, OTHER);
            for depth in others {
                rest.ready += depth.ready;
                rest.scheduled += depth.scheduled;
                rest.running += depth.running;
                rest.dead += depth.dead;
                rest.oldest_due = rest.oldest_due.max(depth.oldest_due);
            }
            depths.push(rest);
        }
        depths
    }
}

impl Depth {
    fn counts(&self) -> [(&'static str, Count); 4] {
        [("ready", self.ready), ("scheduled", self.scheduled), ("running", self.running), ("dead", self.dead)]
    }

    fn labels(&self, state: Option<&str>) -> String {
        let mut labels = format!("{{kind=\"{}\",queue=\"{}\"", escaped(&self.kind), escaped(&self.queue));
        if let Some(state) = state {
            let _ = write!(labels, ",state=\"{state}\"");
        }
        labels + "}"
    }
}

/// A label's value as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} gauge");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl fmt::Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_100_pairs_share_one_label() {
        let depths = (0..150).map(|n| Depth {
            ready: Count::exactly(1),
            oldest_due: Some(Duration::from_secs(n)),
            ..Depth::new("mail", &format!("q{n}"))
        });
        let page = Gauges { depths: depths.collect(), paused: Vec::new(), workers: 2, complete: true }.prometheus();
        assert_eq!(page.lines().filter(|line| line.contains("state=\"ready\"")).count(), 101, "{page}");
        assert!(page.contains("queue_jobs{kind=\"other\",queue=\"other\",state=\"ready\"} 50\n"), "{page}");
        assert!(page.contains("queue_oldest_due_seconds{kind=\"other\",queue=\"other\"} 149\n"), "{page}");
    }

    #[test]
    fn what_has_few_labels_is_there_once_for_each_of_100_pairs() {
        let all = FewLabels::new(|kind, queue| format!("{kind} {queue}"));
        for n in 0..150 {
            let expected = if n < 100 { format!("mail q{n}") } else { "other other".into() };
            assert_eq!(*all.of("mail", &format!("q{n}")), expected);
        }
        assert!(
            Arc::ptr_eq(&all.of("mail", "q7"), &all.of("mail", "q7"))
                && Arc::ptr_eq(&all.of("a", "b"), &all.of("c", "d"))
        );
    }

    #[test]
    fn a_queue_is_the_sum_of_its_kinds() {
        let depth = |kind, age| Depth {
            ready: Count::exactly(2),
            oldest_due: Some(Duration::from_secs(age)),
            ..Depth::new(kind, "q")
        };
        let (depths, since) = (vec![depth("bill", 9), depth("mail", 3)], DateTime::UNIX_EPOCH);
        let paused = vec![Paused { queue: "empty".to_owned(), since }];
        let queues = Gauges { depths, paused, workers: 0, complete: true }.queues();
        let empty = QueueInfo { paused_at: Some(since), ..QueueInfo::new("empty") };
        let (ready, oldest_due) = (Count::exactly(4), Some(Duration::from_secs(9)));
        assert_eq!(queues, [empty, QueueInfo { ready, oldest_due, ..QueueInfo::new("q") }]);
    }

    #[test]
    fn labels_are_escaped() {
        let depth = Depth::new("a\"b\\c\nd", "q");
        assert_eq!(depth.labels(None), r#"{kind="a\"b\\c\nd",queue="q"}"#);
    }

    #[test]
    fn counts_that_were_cut_say_so() {
        let mut count = Count::exactly(7);
        count += Count::at_least(10_000);
        assert_eq!(count.to_string(), "10007 or more");
        let depth = Depth { ready: count, ..Depth::new("mail", "default") };
        let page = Gauges { depths: vec![depth], paused: Vec::new(), workers: 0, complete: false }.prometheus();
        assert!(page.contains("queue_jobs_capped{kind=\"mail\",queue=\"default\",state=\"ready\"} 1\n"), "{page}");
        assert!(page.contains("\nqueue_gauges_complete 0\n"), "{page}");
    }
}
