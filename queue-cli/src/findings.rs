//! What is wrong, decided from values alone.

use std::collections::BTreeMap;
use std::time::Duration;

use queue::admin::{Count, Gauges, WorkerInfo};
use serde::Serialize;

use crate::text::{Tone, clean, count, duration, nearest, quoted, thousands};

/// A job that has been due for longer is worth a word, and after the second time it is a failure.
const LATE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(300)];
/// So many kinds and queues have a sentence of their own.
const TOLD: usize = 3;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Error,
    Warning,
    Ok,
}

impl Severity {
    pub(crate) fn sign(self) -> (Tone, &'static str) {
        match self {
            Self::Error => (Tone::Bad, "✗"),
            Self::Warning => (Tone::Warn, "!"),
            Self::Ok => (Tone::Good, "✓"),
        }
    }
}

/// A sentence, and the command that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn new(severity: Severity, message: impl Into<String>, fix: Option<String>) -> Self {
        Self { severity, message: message.into(), fix }
    }
}

/// What was read, as far as it matters here.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    lanes: Vec<Lane>,
    workers: Vec<Server>,
    /// Whether all kinds and queues were counted.
    complete: bool,
}

/// The jobs of one kind in one queue.
#[derive(Debug, Clone, Default)]
struct Lane {
    kind: String,
    queue: String,
    ready: Count,
    running: Count,
    scheduled: Count,
    dead: Count,
    oldest_due: Option<Duration>,
    paused: bool,
}

/// A worker process.
#[derive(Debug, Clone, Default)]
struct Server {
    name: String,
    queues: Vec<String>,
    kinds: Vec<String>,
    running: u64,
    slots: u64,
    alive: bool,
    /// Its lease is over, and it has not said that it ended.
    lost: bool,
}

impl World {
    pub(crate) fn new(gauges: &Gauges, workers: &[WorkerInfo]) -> Self {
        let lane = |depth: &queue::admin::Depth| Lane {
            kind: depth.kind.clone(),
            queue: depth.queue.clone(),
            ready: depth.ready,
            running: depth.running,
            scheduled: depth.scheduled,
            dead: depth.dead,
            oldest_due: depth.oldest_due,
            paused: depth.paused,
        };
        let server = |it: &WorkerInfo| Server {
            name: format!("{}:{}", it.host, it.pid),
            queues: it.queues.clone(),
            kinds: it.kinds.clone(),
            running: it.running,
            slots: it.concurrency.into(),
            alive: it.alive && it.stopped_at.is_none(),
            lost: !it.alive && it.stopped_at.is_none(),
        };
        Self {
            lanes: gauges.depths.iter().map(lane).collect(),
            workers: workers.iter().map(server).collect(),
            complete: gauges.complete,
        }
    }

    fn live(&self) -> impl Iterator<Item = &Server> + Clone {
        self.workers.iter().filter(|worker| worker.alive)
    }

    pub(crate) fn alive(&self) -> u64 {
        self.live().count() as u64
    }

    /// How many jobs the live workers hold, and how many they can.
    pub(crate) fn slots(&self) -> (u64, u64) {
        self.live().fold((0, 0), |(running, slots), it| (running + it.running, slots + it.slots))
    }

    /// Whether a live worker knows the kind and serves the queue.
    fn is_served(&self, lane: &Lane) -> bool {
        let serves = |it: &Server| it.queues.is_empty() || it.queues.contains(&lane.queue);
        self.live().any(|worker| worker.kinds.contains(&lane.kind) && serves(worker))
    }

    /// The queues and kinds that jobs or workers have.
    pub(crate) fn names(&self, kinds: bool) -> Vec<&str> {
        let lanes = self.lanes.iter().map(|lane| if kinds { &lane.kind } else { &lane.queue });
        let workers = self.workers.iter().flat_map(|worker| if kinds { &worker.kinds } else { &worker.queues });
        lanes.chain(workers).map(String::as_str).collect()
    }

    /// The depths by queue.
    pub(crate) fn queues(&self) -> Vec<QueueDepth> {
        let mut queues: BTreeMap<&str, QueueDepth> = BTreeMap::new();
        for lane in &self.lanes {
            let of = queues.entry(&lane.queue).or_default();
            lane.queue.clone_into(&mut of.queue);
            of.ready += lane.ready;
            of.running += lane.running;
            of.scheduled += lane.scheduled;
            of.dead += lane.dead;
            let oldest = lane.oldest_due.map(|age| age.as_secs_f64());
            of.oldest_due_s = of.oldest_due_s.into_iter().chain(oldest).reduce(f64::max);
            of.paused |= lane.paused;
        }
        queues.into_values().collect()
    }
}

/// One queue in a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct QueueDepth {
    pub(crate) queue: String,
    pub(crate) ready: Count,
    pub(crate) running: Count,
    pub(crate) scheduled: Count,
    pub(crate) dead: Count,
    /// The age of the oldest job that is due.
    pub(crate) oldest_due_s: Option<f64>,
    pub(crate) paused: bool,
}

fn name(text: &str) -> String {
    format!("`{}`", clean(text))
}

fn word(name: &str, value: &str) -> String {
    let value = if value.contains(char::is_whitespace) { format!("\"{value}\"") } else { value.to_owned() };
    quoted(&format!("{name}:{value}"))
}

/// Jobs that wait, and that no live worker can take.
pub(crate) fn unserved(world: &World) -> Vec<Finding> {
    let waiting = world.lanes.iter().map(|lane| (lane, sum(lane.ready, lane.scheduled)));
    let waiting: Vec<(&Lane, Count)> = waiting.filter(|(_, jobs)| jobs.jobs > 0).collect();
    let live = world.live();
    if live.clone().next().is_none() {
        let mut all = Count::default();
        waiting.iter().for_each(|(_, jobs)| all += *jobs);
        if all.jobs == 0 {
            return Vec::new();
        }
        let message = format!("No worker is alive, and {}. Start one.", waits(all));
        return vec![Finding::new(Severity::Error, message, Some("queue workers".into()))];
    }
    let mut unknown: BTreeMap<&str, Count> = BTreeMap::new();
    let mut queues: BTreeMap<&str, (Count, &str)> = BTreeMap::new();
    for (lane, jobs) in waiting {
        if !live.clone().any(|worker| worker.kinds.contains(&lane.kind)) {
            *unknown.entry(&lane.kind).or_default() += jobs;
        } else if !world.is_served(lane) {
            queues.entry(&lane.queue).or_insert((Count::default(), &lane.kind)).0 += jobs;
        }
    }
    let known = || live.clone().flat_map(|worker| &worker.kinds).map(String::as_str);
    let served = || live.clone().flat_map(|worker| &worker.queues).map(String::as_str);
    let near = |near: Option<&str>| near.map_or_else(String::new, |near| format!(" Is it a slip for {}?", name(near)));
    let unknown = unknown.into_iter().map(|(kind, jobs)| {
        let slip = near(nearest(kind, known()));
        let message = format!("No live worker knows the kind {}: {}.{slip}", name(kind), waits(jobs));
        Finding::new(Severity::Error, message, Some(format!("queue list {}", word("kind", kind))))
    });
    let queues = queues.into_iter().map(|(queue, (jobs, kind))| {
        let slip = near(nearest(queue, served()));
        let serves = format!("No live worker that knows {} serves the queue {}", name(kind), name(queue));
        let message = format!("{serves}: {}.{slip}", waits(jobs));
        Finding::new(Severity::Error, message, Some(format!("queue list {}", word("queue", queue))))
    });
    unknown.chain(queues).collect()
}

fn sum(mut one: Count, other: Count) -> Count {
    one += other;
    one
}

/// "1 job waits", "10,000+ jobs wait".
fn waits(of: Count) -> String {
    if of.jobs == 1 && !of.or_more { "1 job waits".to_owned() } else { format!("{} jobs wait", count(of)) }
}

/// The sentences of the status, worst first.
pub(crate) fn status(world: &World) -> Vec<Finding> {
    let mut found = served(world);
    found.extend(late(world));
    found.extend(paused(world));
    found.extend(lost(world));
    found.extend(dead(world));
    if !world.complete {
        let message = "There are more kinds and queues than were counted.";
        found.push(Finding::new(Severity::Warning, message, Some("queue queues".into())));
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

/// What no worker serves, or that no worker is there.
pub(crate) fn served(world: &World) -> Vec<Finding> {
    let mut found = unserved(world);
    if world.alive() == 0 && found.is_empty() {
        let message = "No worker is alive. Nothing waits.";
        found.push(Finding::new(Severity::Warning, message, Some("queue workers".into())));
    }
    found
}

/// Queues whose jobs wait for long, although workers serve them.
pub(crate) fn late(world: &World) -> Vec<Finding> {
    let mut found = Vec::new();
    if world.alive() == 0 {
        return found;
    }
    let mut oldest: BTreeMap<&str, Duration> = BTreeMap::new();
    for lane in world.lanes.iter().filter(|lane| !lane.paused && world.is_served(lane)) {
        let age = oldest.entry(&lane.queue).or_default();
        *age = lane.oldest_due.unwrap_or_default().max(*age);
    }
    for (queue, age) in oldest.into_iter().filter(|(_, age)| *age >= LATE[0]) {
        let severity = if age < LATE[1] { Severity::Warning } else { Severity::Error };
        let message = format!("The oldest job of {} has waited {}.", name(queue), duration(age));
        found.push(Finding::new(severity, message, Some(format!("queue list state:ready {}", word("queue", queue)))));
    }
    let (running, slots) = world.slots();
    if running >= slots && world.lanes.iter().any(|lane| lane.ready.jobs > 0 && !lane.paused) {
        let message = format!("All {} slots are busy, and jobs wait.", thousands(slots));
        found.push(Finding::new(Severity::Warning, message, Some("queue list state:running".into())));
    }
    found
}

fn paused(world: &World) -> Vec<Finding> {
    let paused = world.queues().into_iter().filter(|queue| queue.paused).map(|queue| {
        let message =
            format!("The queue {} is paused: {}.", name(&queue.queue), waits(sum(queue.ready, queue.scheduled)));
        Finding::new(Severity::Warning, message, Some(format!("queue resume {}", quoted(&queue.queue))))
    });
    paused.collect()
}

/// Workers whose leases are over, and which have not said that they ended.
pub(crate) fn lost(world: &World) -> Option<Finding> {
    let lost: Vec<&str> = world.workers.iter().filter(|it| it.lost).map(|it| it.name.as_str()).collect();
    let message = match lost[..] {
        [] => return None,
        [one] => format!("The worker {} is lost. Another one takes its jobs back.", clean(one)),
        [one, ..] => format!("{} workers are lost, such as {}. Others take their jobs back.", lost.len(), clean(one)),
    };
    Some(Finding::new(Severity::Warning, message, Some("queue workers".into())))
}

/// The kinds with the most dead letters.
fn dead(world: &World) -> Vec<Finding> {
    let mut kinds: BTreeMap<&str, Count> = BTreeMap::new();
    for lane in world.lanes.iter().filter(|lane| lane.dead.jobs > 0) {
        *kinds.entry(&lane.kind).or_default() += lane.dead;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, dead)| std::cmp::Reverse(dead.jobs));
    let letters = |dead: Count| match (dead.jobs, dead.or_more) {
        (1, false) => "1 dead letter".to_owned(),
        _ => format!("{} dead letters", count(dead)),
    };
    let told = kinds.iter().take(TOLD).map(|(kind, dead)| {
        let fix = format!("queue list state:dead {}", word("kind", kind));
        Finding::new(Severity::Warning, format!("{} of kind {}.", letters(*dead), name(kind)), Some(fix))
    });
    let mut rest = Count::default();
    kinds.iter().skip(TOLD).for_each(|(_, dead)| rest += *dead);
    let more = kinds.len().saturating_sub(TOLD);
    let rest = (more > 0).then(|| {
        let message = format!("{} of {more} other kinds.", letters(rest));
        Finding::new(Severity::Warning, message, Some("queue list state:dead".into()))
    });
    told.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(jobs: u64) -> Count {
        let mut count = Count::default();
        (count.jobs, count.or_more) = (jobs, jobs >= 10_000);
        count
    }

    fn lane(kind: &str, queue: &str, ready: u64) -> Lane {
        let oldest_due = (ready > 0).then_some(Duration::from_secs(1));
        Lane { kind: kind.into(), queue: queue.into(), ready: jobs(ready), oldest_due, ..Lane::default() }
    }

    fn worker(queues: &[&str], kinds: &[&str]) -> Server {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (queues, kinds) = (owned(queues), owned(kinds));
        Server { name: "web:1".into(), queues, kinds, slots: 4, alive: true, ..Server::default() }
    }

    fn world(lanes: &[Lane], workers: &[Server]) -> World {
        World { lanes: lanes.to_vec(), workers: workers.to_vec(), complete: true }
    }

    fn told(found: &[Finding]) -> Vec<(&str, &str)> {
        found.iter().map(|it| (it.message.as_str(), it.fix.as_deref().unwrap_or_default())).collect()
    }

    #[test]
    fn nothing_is_said_when_all_is_well() {
        assert_eq!(status(&world(&[lane("mail", "q", 3)], &[worker(&[], &["mail"])])), []);
    }

    #[test]
    fn without_a_worker_that_is_all_that_matters() {
        let found = status(&world(&[lane("mail", "q", 1), lane("bill", "q", 9_999)], &[]));
        assert_eq!(told(&found), [("No worker is alive, and 10,000 jobs wait. Start one.", "queue workers")]);
        let idle = status(&world(&[], &[]));
        assert_eq!(told(&idle), [("No worker is alive. Nothing waits.", "queue workers")]);
    }

    #[test]
    fn kinds_and_queues_that_nobody_serves_are_named() {
        let lanes = [lane("send_emial", "mail", 12), lane("send_email", "mial", 1), lane("a b", "mail", 2)];
        let found = unserved(&world(&lanes, &[worker(&["mail"], &["send_email"])]));
        let expected = [
            ("No live worker knows the kind `a b`: 2 jobs wait.", "queue list 'kind:\"a b\"'"),
            (
                "No live worker knows the kind `send_emial`: 12 jobs wait. Is it a slip for `send_email`?",
                "queue list kind:send_emial",
            ),
            (
                "No live worker that knows `send_email` serves the queue `mial`: 1 job waits. Is it a slip for `mail`?",
                "queue list queue:mial",
            ),
        ];
        assert_eq!(told(&found), expected);
    }

    #[test]
    fn the_worst_comes_first() {
        let late = |queue: &str, seconds| Lane {
            oldest_due: Some(Duration::from_secs(seconds)),
            ..lane("mail", queue, 10_000)
        };
        let lanes = [
            late("a", 90),
            late("b", 400),
            Lane { paused: true, ..late("c", 900) },
            Lane { dead: jobs(10_000), ..lane("mail", "d", 0) },
        ];
        let lost = Server { alive: false, lost: true, name: "web:2".into(), ..worker(&[], &[]) };
        let busy = Server { running: 4, ..worker(&[], &["mail"]) };
        let expected = [
            ("The oldest job of `b` has waited 6 min 40 s.", "queue list state:ready queue:b"),
            ("The oldest job of `a` has waited 1 min 30 s.", "queue list state:ready queue:a"),
            ("All 4 slots are busy, and jobs wait.", "queue list state:running"),
            ("The queue `c` is paused: 10,000+ jobs wait.", "queue resume c"),
            ("The worker web:2 is lost. Another one takes its jobs back.", "queue workers"),
            ("10,000+ dead letters of kind `mail`.", "queue list state:dead kind:mail"),
        ];
        assert_eq!(told(&status(&world(&lanes, &[lost, busy]))), expected);
    }

    #[test]
    fn many_kinds_of_dead_letters_are_summed_up() {
        let lanes: Vec<Lane> = (1..=5).map(|n| Lane { dead: jobs(n), ..lane(&format!("k{n}"), "q", 0) }).collect();
        let found = dead(&world(&lanes, &[]));
        assert_eq!(found[0].message, "5 dead letters of kind `k5`.");
        assert_eq!(told(&found)[3], ("3 dead letters of 2 other kinds.", "queue list state:dead"));
    }

    #[test]
    fn depths_are_grouped_by_queue() {
        let older = Lane { oldest_due: Some(Duration::from_secs(9)), ..lane("bill", "q", 2) };
        let [q] = &world(&[lane("mail", "q", 3), older], &[]).queues()[..] else { panic!("one queue") };
        assert_eq!((q.ready.jobs, q.oldest_due_s), (5, Some(9.0)));
    }
}
