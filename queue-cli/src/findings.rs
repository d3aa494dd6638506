//! What is wrong, decided from values alone.

use std::collections::BTreeMap;
use std::time::Duration;

use queue::Error;
use queue::admin::{Admin, Count, Depth, FailureGroup, Gauges, QueueInfo, Search, WorkerInfo};
use serde::Serialize;

use crate::text::{Tone, clean, count, duration, first_line, quoted, thousands};

/// A job that has been due for longer is worth a word, and after the second time it is a failure.
const LATE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(300)];
/// So many kinds with dead letters have a sentence.
const TOLD: usize = 3;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Error,
    Warning,
    Ok,
}

use Severity::{Error as Bad, Warning};

impl Severity {
    pub(crate) fn sign(self) -> (Tone, &'static str) {
        match self {
            Bad => (Tone::Bad, "✗"),
            Warning => (Tone::Warn, "!"),
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
    /// Without a command if `fix` is empty.
    pub(crate) fn new(severity: Severity, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity, message: message.into(), fix: Some(fix.into()).filter(|fix| !fix.is_empty()) }
    }
}

/// What was read.
#[derive(Debug, Clone)]
pub(crate) struct World {
    gauges: Gauges,
    pub(crate) workers: Vec<WorkerInfo>,
    /// What fails, and is tried again.
    pub(crate) failing: Vec<FailureGroup>,
}

impl World {
    #[cfg(all(test, feature = "top"))]
    pub(crate) fn of(gauges: serde_json::Value, workers: serde_json::Value, failing: serde_json::Value) -> Self {
        let of = "as JSON";
        Self {
            gauges: serde_json::from_value(gauges).expect(of),
            workers: serde_json::from_value(workers).expect(of),
            failing: serde_json::from_value(failing).expect(of),
        }
    }

    pub(crate) async fn read(admin: &Admin) -> Result<Self, Error> {
        Ok(Self { gauges: admin.gauges().await?, workers: admin.workers().await?, failing: Vec::new() })
    }

    /// Looks at what fails.
    pub(crate) async fn read_failing(&mut self, admin: &Admin) -> Result<(), Error> {
        self.failing = admin.failures().await?.groups;
        Ok(())
    }

    fn live(&self) -> impl Iterator<Item = &WorkerInfo> + Clone {
        self.workers.iter().filter(|worker| worker.alive && worker.stopped_at.is_none())
    }

    /// How many workers are alive, how many jobs they hold, and how many they can.
    pub(crate) fn slots(&self) -> [u64; 3] {
        self.live().fold([0; 3], |[alive, running, slots], it| {
            [alive + 1, running + it.running, slots + u64::from(it.concurrency)]
        })
    }

    /// The kinds and the queues that jobs or workers have.
    pub(crate) fn names(&self) -> [Vec<&str>; 2] {
        let (depths, workers) = (&self.gauges.depths, &self.workers);
        let kinds = depths.iter().map(|it| &it.kind).chain(workers.iter().flat_map(|it| &it.kinds));
        let queues = depths.iter().map(|it| &it.queue).chain(workers.iter().flat_map(|it| &it.queues));
        [kinds.map(String::as_str).collect(), queues.map(String::as_str).collect()]
    }

    /// Whether a live worker serves every queue. If none is alive: whether one did.
    pub(crate) fn serves_all(&self) -> bool {
        let none_lives = self.live().next().is_none();
        self.live().chain(self.workers.iter().filter(|_| none_lives)).any(|worker| worker.queues.is_empty())
    }

    fn knows(&self, kind: &String) -> bool {
        self.live().any(|worker| worker.kinds.contains(kind))
    }

    fn serves(&self, it: &Depth) -> bool {
        let serves = |worker: &WorkerInfo| worker.queues.is_empty() || worker.queues.contains(&it.queue);
        self.live().any(|worker| worker.kinds.contains(&it.kind) && serves(worker))
    }

    pub(crate) fn queues(&self) -> Vec<QueueInfo> {
        self.gauges.queues()
    }

    /// How many jobs wait in those that are chosen, by name.
    fn waiting<'a>(&'a self, name: impl Fn(&'a Depth) -> Option<&'a str>) -> BTreeMap<&'a str, Count> {
        sums(self.gauges.depths.iter().filter_map(|it| {
            let mut jobs = it.ready;
            jobs += it.scheduled;
            Some((name(it)?, jobs))
        }))
    }
}

fn sums<'a>(counts: impl Iterator<Item = (&'a str, Count)>) -> BTreeMap<&'a str, Count> {
    let mut sums: BTreeMap<&str, Count> = BTreeMap::new();
    counts.filter(|(_, jobs)| jobs.jobs > 0).for_each(|(name, jobs)| *sums.entry(name).or_default() += jobs);
    sums
}

fn name(text: &str) -> String {
    format!("`{}`", clean(text))
}

/// "queue list kind:mail": `words` without the last colon, and its value.
fn list(words: &str, value: &str) -> String {
    let value = if value.contains(char::is_whitespace) { format!("\"{value}\"") } else { value.to_owned() };
    let (first, last) =
        words.rsplit_once(' ').map_or((String::new(), words), |(first, last)| (format!("{first} "), last));
    format!("queue list {first}{}", quoted(&format!("{last}:{value}")))
}

/// "1 job waits", "10,000+ jobs wait".
fn waits(of: Count) -> String {
    if of.jobs == 1 && !of.or_more { "1 job waits".to_owned() } else { format!("{} jobs wait", count(of)) }
}

/// Jobs that wait, and that no live worker can take.
pub(crate) fn unserved(world: &World) -> Vec<Finding> {
    if world.live().next().is_none() {
        let all = world.waiting(|_| Some("")).into_values().next();
        let message = all.map(|all| format!("No worker is alive, and {}. Start one.", waits(all)));
        return message.into_iter().map(|message| Finding::new(Bad, message, "queue workers")).collect();
    }
    let slip = |name: &str, known: &mut dyn Iterator<Item = &String>| {
        Search::nearest(name, known.map(String::as_str).collect::<Vec<_>>())
            .map_or_else(String::new, |near| format!(" Is it a slip for `{}`?", clean(near)))
    };
    let unknown = world.waiting(|it| (!world.knows(&it.kind)).then_some(&it.kind));
    let unknown = unknown.into_iter().map(|(kind, jobs)| {
        let slip = slip(kind, &mut world.live().flat_map(|it| &it.kinds));
        let message = format!("No live worker knows the kind {}: {}.{slip}", name(kind), waits(jobs));
        Finding::new(Bad, message, list("kind", kind))
    });
    let unserved = world.waiting(|it| (world.knows(&it.kind) && !world.serves(it)).then_some(&it.queue));
    let unserved = unserved.into_iter().map(|(queue, jobs)| {
        let slip = slip(queue, &mut world.live().flat_map(|it| &it.queues));
        let message = format!("No live worker serves the queue {} for its kinds: {}.{slip}", name(queue), waits(jobs));
        Finding::new(Bad, message, list("queue", queue))
    });
    unknown.chain(unserved).collect()
}

/// The sentences of the status, worst first.
pub(crate) fn status(world: &World) -> Vec<Finding> {
    let mut found = [served(world), late(world), failing(world), paused(world), lost(world), dead(world)].concat();
    if !world.gauges.complete {
        found.push(Finding::new(Warning, "There are more kinds and queues than were counted.", "queue queues"));
    }
    found.sort_by_key(|finding| finding.severity);
    found
}

/// What no worker serves, or that no worker is there.
pub(crate) fn served(world: &World) -> Vec<Finding> {
    match unserved(world) {
        found if found.is_empty() && world.live().next().is_none() => {
            vec![Finding::new(Warning, "No worker is alive. Nothing waits.", "queue workers")]
        }
        found => found,
    }
}

/// Queues whose jobs wait for long, although workers serve them.
pub(crate) fn late(world: &World) -> Vec<Finding> {
    let mut oldest: BTreeMap<&str, Duration> = BTreeMap::new();
    let waiting = || world.gauges.depths.iter().filter(|it| !it.paused && it.ready.jobs > 0 && world.serves(it));
    for it in waiting() {
        let age = oldest.entry(&it.queue).or_default();
        *age = it.oldest_due.unwrap_or_default().max(*age);
    }
    let late = oldest.into_iter().filter(|(_, age)| *age >= LATE[0]).map(|(queue, age)| {
        let message = format!("The oldest job of {} has waited {}.", name(queue), duration(age));
        Finding::new(if age < LATE[1] { Warning } else { Bad }, message, list("state:ready queue", queue))
    });
    let [_, running, slots] = world.slots();
    let busy = (running >= slots && waiting().next().is_some()).then(|| {
        let message = format!("All {} slots are busy, and jobs wait.", thousands(slots));
        Finding::new(Warning, message, "queue list state:running")
    });
    late.chain(busy).collect()
}

/// What fails. Dead letters come hours later.
fn failing(world: &World) -> Vec<Finding> {
    let retrying = world.failing.iter().filter(|it| it.retrying.jobs > 0);
    let found = retrying.take(TOLD).map(|it| {
        let (new, back) = match it.back_since {
            _ if it.is_new => ("new ", ""),
            Some(_) => ("", " that has come back"),
            None => ("", ""),
        };
        let (kind, wait) = (name(&it.kind), waits(it.retrying));
        let message = format!("Of {kind}, {wait} after a {new}failure{back}{}", error(it));
        Finding::new(Warning, message, errors(it))
    });
    found.collect()
}

fn error(it: &FailureGroup) -> String {
    if it.error.is_empty() { String::new() } else { format!(": {}", first_line(&it.error)) }
}

fn errors(it: &FailureGroup) -> String {
    format!("queue errors {}", &it.group[..8])
}

fn paused(world: &World) -> Vec<Finding> {
    let paused = world.waiting(|it| it.paused.then_some(&it.queue)).into_iter().map(|(queue, jobs)| {
        let message = format!("The queue {} is paused: {}.", name(queue), waits(jobs));
        Finding::new(Warning, message, format!("queue resume {}", quoted(queue)))
    });
    paused.collect()
}

/// Workers whose leases are over, and which have not said that they ended.
pub(crate) fn lost(world: &World) -> Vec<Finding> {
    let lost: Vec<_> = world.workers.iter().filter(|it| !it.alive && it.stopped_at.is_none()).collect();
    let Some(one) = lost.first() else { return Vec::new() };
    let more = if lost.len() > 1 { format!(" and {} more", lost.len() - 1) } else { String::new() };
    let message = format!("Lost: the worker {}:{}{more}. Others take its jobs back.", clean(&one.host), one.pid);
    vec![Finding::new(Warning, message, "queue workers")]
}

/// The kinds with the most dead letters.
fn dead(world: &World) -> Vec<Finding> {
    let kinds = sums(world.gauges.depths.iter().map(|it| (it.kind.as_str(), it.dead)));
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, dead)| std::cmp::Reverse(dead.jobs));
    let more = kinds.len().saturating_sub(TOLD);
    let told = kinds.into_iter().take(TOLD).map(|(kind, dead)| {
        let message = format!("Dead letters of kind {}: {}", name(kind), count(dead));
        // of the newest ones
        let groups = world.failing.iter().filter(|it| it.kind == kind && it.dead.jobs > 0);
        match groups.max_by_key(|it| it.dead.jobs) {
            Some(most) if !most.error.is_empty() => {
                Finding::new(Warning, message + ", most of them" + &error(most), errors(most))
            }
            _ => Finding::new(Warning, message + ".", list("state:dead kind", kind)),
        }
    });
    let more = (more > 0)
        .then(|| Finding::new(Warning, format!("Other kinds with dead letters: {more}."), "queue list state:dead"));
    told.chain(more).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn jobs(jobs: u64) -> Count {
        serde_json::from_value(json!({"jobs": jobs, "or_more": jobs >= 10_000})).expect("a count")
    }

    fn lane(kind: &str, queue: &str, ready: u64) -> Depth {
        let (none, oldest) = (jobs(0), (ready > 0).then_some(Duration::from_secs(1)));
        let depth = json!({
            "kind": kind, "queue": queue, "ready": jobs(ready), "scheduled": none, "running": none, "dead": none,
            "oldest_due": oldest, "paused": false,
        });
        serde_json::from_value(depth).expect("a depth")
    }

    /// A depth with some fields changed.
    fn with(mut depth: Depth, change: impl Fn(&mut Depth)) -> Depth {
        change(&mut depth);
        depth
    }

    fn worker(queues: &[&str], kinds: &[&str], running: u64, alive: bool) -> WorkerInfo {
        let time = chrono::DateTime::UNIX_EPOCH;
        let worker = json!({
            "id": 1, "host": "web", "pid": 1, "concurrency": 4, "queues": queues, "kinds": kinds, "started_at": time,
            "heartbeat_at": time, "stopped_at": null, "alive": alive, "running": running, "limits": {}, "held": {},
        });
        serde_json::from_value(worker).expect("a worker")
    }

    fn world(lanes: &[Depth], workers: &[WorkerInfo]) -> World {
        let gauges =
            serde_json::from_value(json!({"depths": lanes, "paused": [], "workers": workers.len(), "complete": true}));
        World { gauges: gauges.expect("gauges"), workers: workers.to_vec(), failing: Vec::new() }
    }

    fn told(found: &[Finding]) -> Vec<(&str, &str)> {
        found.iter().map(|it| (it.message.as_str(), it.fix.as_deref().unwrap_or_default())).collect()
    }

    #[test]
    fn nothing_is_said_when_all_is_well() {
        assert_eq!(status(&world(&[lane("mail", "q", 3)], &[worker(&[], &["mail"], 0, true)])), []);
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
        let found = unserved(&world(&lanes, &[worker(&["mail"], &["send_email"], 0, true)]));
        let expected = [
            ("No live worker knows the kind `a b`: 2 jobs wait.", "queue list 'kind:\"a b\"'"),
            (
                "No live worker knows the kind `send_emial`: 12 jobs wait. Is it a slip for `send_email`?",
                "queue list kind:send_emial",
            ),
            (
                "No live worker serves the queue `mial` for its kinds: 1 job waits. Is it a slip for `mail`?",
                "queue list queue:mial",
            ),
        ];
        assert_eq!(told(&found), expected);
    }

    #[test]
    fn the_worst_comes_first() {
        let late =
            |queue: &str, age| with(lane("mail", queue, 10_000), |it| it.oldest_due = Some(Duration::from_secs(age)));
        let lanes = [
            late("a", 90),
            late("b", 400),
            with(late("c", 900), |it| it.paused = true),
            with(lane("mail", "d", 0), |it| it.dead = jobs(10_000)),
        ];
        let workers = [worker(&[], &[], 0, false), worker(&[], &["mail"], 4, true)];
        let expected = [
            ("The oldest job of `b` has waited 6 min 40 s.", "queue list state:ready queue:b"),
            ("The oldest job of `a` has waited 1 min 30 s.", "queue list state:ready queue:a"),
            ("All 4 slots are busy, and jobs wait.", "queue list state:running"),
            ("The queue `c` is paused: 10,000+ jobs wait.", "queue resume c"),
            ("Lost: the worker web:1. Others take its jobs back.", "queue workers"),
            ("Dead letters of kind `mail`: 10,000+.", "queue list state:dead kind:mail"),
        ];
        assert_eq!(told(&status(&world(&lanes, &workers))), expected);
    }

    #[test]
    fn failures_are_told_before_jobs_are_dead() {
        let group = json!({
            "group": "3f9a1b2c00000000", "kind": "mail", "title": "", "dead": jobs(0), "retrying": jobs(12),
            "first": chrono::DateTime::UNIX_EPOCH, "last": chrono::DateTime::UNIX_EPOCH, "sample": 1,
            "error": "connection refused\nby db1", "is_new": false, "back_since": null, "by_hour": vec![0; 24],
        });
        for (new, back, failure) in [
            (false, Value::Null, "a failure"),
            (true, Value::Null, "a new failure"),
            (false, json!(chrono::DateTime::UNIX_EPOCH), "a failure that has come back"),
        ] {
            let mut group = group.clone();
            (group["is_new"], group["back_since"]) = (new.into(), back);
            let failing = vec![serde_json::from_value(group).expect("a group")];
            let world = World { failing, ..world(&[], &[worker(&[], &["mail"], 0, true)]) };
            let message = format!("Of `mail`, 12 jobs wait after {failure}: connection refused");
            assert_eq!(told(&status(&world)), [(&*message, "queue errors 3f9a1b2c")]);
        }
    }

    #[test]
    fn many_kinds_of_dead_letters_are_summed_up() {
        let dead_of = |n: u64| with(lane(&format!("k{n}"), "q", 0), |it| it.dead = jobs(n));
        let found = dead(&world(&(1..=5).map(dead_of).collect::<Vec<_>>(), &[]));
        assert_eq!(told(&found)[0], ("Dead letters of kind `k5`: 5.", "queue list state:dead kind:k5"));
        assert_eq!(told(&found)[3], ("Other kinds with dead letters: 2.", "queue list state:dead"));
    }
}
