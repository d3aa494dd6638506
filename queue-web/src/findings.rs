//! What is wrong, decided from values alone: the worst first, each with its cure.

use std::time::Duration;

use chrono::{DateTime, Utc};
use queue::admin::{FailureGroup, Operation, Progress, Search, Word};

use crate::pages::operations::target;
use crate::text::{Html, Sign, count, cut, duration, encoded, first_line, thousands, time, waits};
use crate::world::{World, sum};

/// Late jobs are worse after this time than anything but what nobody serves.
const VERY_LATE: Duration = Duration::from_secs(300);
/// How many findings of one kind are told at most.
const TOLD: usize = 3;

/// What to do about it: a link, or a button that posts one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cure {
    pub(crate) label: String,
    pub(crate) path: String,
    pub(crate) post: Option<(&'static str, String)>,
}

impl Cure {
    fn link(label: &str, path: impl Into<String>) -> Self {
        Self { label: label.to_owned(), path: path.into(), post: None }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    rank: u8,
    pub(crate) sign: Sign,
    pub(crate) head: String,
    pub(crate) since: Option<Html>,
    pub(crate) text: String,
    /// What is to be done, if no button does it.
    pub(crate) advice: &'static str,
    pub(crate) cures: Vec<Cure>,
}

impl Finding {
    fn new(rank: u8, sign: Sign, head: String, text: String, cure: Cure) -> Self {
        Self { rank, sign, head, since: None, text, advice: "", cures: vec![cure] }
    }

    fn since(mut self, since: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        self.since = Some(time(since, now));
        self
    }

    fn advice(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }

    /// Whether somebody should look now. Else it can wait.
    pub(crate) fn is_wrong(&self) -> bool {
        self.rank < 50
    }
}

/// The worst first.
pub(crate) fn all(world: &World, now: DateTime<Utc>) -> Vec<Finding> {
    let mut found = [unserved(world), late(world, now), stuck(world), failing(world, now), lost(world, now)].concat();
    found.extend([running(world, now), paused(world, now), dead(world), busy(world), uncounted(world)].concat());
    found.sort_by_key(|it| it.rank);
    found
}

/// A search in a link.
pub(crate) fn search(words: &[Word]) -> String {
    let words: Vec<String> = words.iter().map(Word::to_string).collect();
    format!("jobs?q={}", encoded(&words.join(" ")))
}

/// Jobs that wait, and that no live worker can take.
fn unserved(world: &World) -> Vec<Finding> {
    const SIGN: Sign = Sign::new("late", "Stopped");
    let workers = Cure::link("Workers", "workers");
    if world.live().next().is_none() {
        let all = world.waiting(|_| Some("")).into_values().next();
        let found = all.map(|all| {
            let text = format!("{}. They stay safe in the database until one starts.", waits(all));
            Finding::new(0, SIGN, "No worker is alive".to_owned(), text, workers).advice("Start a worker.")
        });
        // nobody waits, so it is not wrong
        let idle = || {
            let (text, cure) = ("Nothing waits.".to_owned(), Cure::link("Workers", "workers"));
            Finding::new(55, Sign::new("lost", "Idle"), "No worker is alive".to_owned(), text, cure)
        };
        return vec![found.unwrap_or_else(idle)];
    }
    let slip = |name: &str, known: Vec<&str>| {
        Search::nearest(name, known).map_or_else(String::new, |near| format!(" Is it a slip for `{near}`?"))
    };
    let unknown = world.waiting(|it| (!world.knows(&it.kind)).then_some(&it.kind));
    let unknown = unknown.into_iter().map(|(kind, jobs)| {
        let slip = slip(kind, world.live().flat_map(|it| &it.kinds).map(String::as_str).collect());
        let cure = Cure::link("The jobs", search(&[Word::new("kind", kind)]));
        let head = format!("No live worker knows the kind {kind}");
        Finding::new(2, SIGN, head, format!("{}.{slip}", waits(jobs)), cure).advice("Deploy a worker that knows it.")
    });
    let unserved = world.waiting(|it| (world.knows(&it.kind) && !world.serves(it)).then_some(&it.queue));
    let unserved = unserved.into_iter().map(|(queue, jobs)| {
        let slip = slip(queue, world.live().flat_map(|it| &it.queues).map(String::as_str).collect());
        let cure = Cure::link("The jobs", search(&[Word::new("queue", queue)]));
        let head = format!("No live worker serves the queue {queue} for its kinds");
        Finding::new(2, SIGN, head, format!("{}.{slip}", waits(jobs)), cure).advice("Start a worker that serves it.")
    });
    unknown.take(TOLD).chain(unserved.take(TOLD)).collect()
}

/// Queues whose jobs wait for long, although workers serve them.
fn late(world: &World, now: DateTime<Utc>) -> Vec<Finding> {
    let depths = || world.gauges.depths.iter();
    let served = |queue: &str| depths().any(|it| it.queue == queue && it.ready.jobs > 0 && world.serves(it));
    let late = world.late().into_iter().filter(|(queue, _)| served(queue)).map(|(queue, age)| {
        let rank = if age < VERY_LATE { 12 } else { 1 };
        let head = format!("{queue} is late: the oldest job has waited {}", duration(age));
        let ready = sum(depths().filter(|it| it.queue == queue).map(|it| it.ready));
        let [held, slots] = world.slots();
        let busy = if held >= slots { " All slots of all workers are busy." } else { "" };
        let cure = Cure::link("The jobs", search(&[Word::new("state", "ready"), Word::new("queue", queue)]));
        let mut found = Finding::new(rank, Sign::new("late", "Late"), head, format!("{}.{busy}", waits(ready)), cure);
        found.cures.push(Cure::link("Workers", "workers"));
        let age = chrono::TimeDelta::from_std(age).unwrap_or_default();
        let advice = if held >= slots { "Start more workers." } else { "See what its jobs wait for." };
        found.since(now - age, now).advice(advice)
    });
    late.collect()
}

fn busy(world: &World) -> Vec<Finding> {
    let [held, slots] = world.slots();
    let waits = world.gauges.depths.iter().any(|it| !it.paused && it.ready.jobs > 0 && world.serves(it));
    let found = (held >= slots && waits && world.late().is_empty()).then(|| {
        let head = format!("All {} slots are busy, and jobs wait", thousands(slots));
        let cure = Cure::link("What runs", "jobs?q=state:running");
        Finding::new(70, Sign::new("running", "Busy"), head, "No job has waited for a minute yet.".to_owned(), cure)
    });
    found.into_iter().collect()
}

fn stuck(world: &World) -> Vec<Finding> {
    let stuck = world.stuck().take(TOLD).map(|it| {
        let why = match &it.error {
            Some(error) => format!("{}.", cut(first_line(error), 300)),
            None => format!("No live worker knows its kind {}.", it.kind),
        };
        let cure = Cure::link("Schedules", "schedules");
        Finding::new(5, Sign::new("lost", "Stuck"), format!("The schedule {} does not fire", it.name), why, cure)
    });
    stuck.collect()
}

/// What fails since a short time. Older failures are among the dead letters.
fn failing(world: &World, now: DateTime<Utc>) -> Vec<Finding> {
    let found = world.news().take(TOLD).map(|it| {
        let (sign, how, since) = match it.back_since {
            Some(back) if !it.is_new => (Sign::new("back", "Back"), "fails again", back),
            _ => (Sign::new("new", "New"), "fails in a new way", it.first),
        };
        let text = format!("{}: {}", becomes(it), title(it, 200));
        let cure = Cure::link("See the group", format!("failures#{}", it.group));
        Finding::new(10, sign, format!("{} {how}", it.kind), text, cure).since(since, now)
    });
    found.collect()
}

/// The newest error of a group in one line: it says more than the text without what varies.
pub(crate) fn title(it: &FailureGroup, bytes: usize) -> String {
    let lines: Vec<&str> = it.error.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { "no error text".to_owned() } else { cut(&lines.join(" · "), bytes) }
}

/// "14,902 wait for another attempt, 1,377 are dead".
fn becomes(it: &FailureGroup) -> String {
    let are = |count: u64| if count == 1 { "is dead" } else { "are dead" };
    match (it.retrying.jobs, it.dead.jobs) {
        (0, dead) => format!("{} {}", count(it.dead), are(dead)),
        (retrying, dead) => {
            let wait = if retrying == 1 { "waits" } else { "wait" };
            format!("{} {wait} for another attempt, {} {}", count(it.retrying), count(it.dead), are(dead))
        }
    }
}

/// Workers whose leases are over, and which have not said that they ended.
fn lost(world: &World, now: DateTime<Utc>) -> Vec<Finding> {
    let Some(one) = world.lost().next() else { return Vec::new() };
    let number = world.lost().count();
    let head = match number {
        1 => format!("The worker {}:{} was lost", one.host, one.pid),
        _ => format!("{} workers were lost, such as {}:{}", thousands(number as u64), one.host, one.pid),
    };
    let text = "It was killed, ran out of memory or lost the database. Others take its jobs back.".to_owned();
    let found = Finding::new(20, Sign::new("lost", "Lost"), head, text, Cure::link("Workers", "workers"));
    vec![found.since(one.heartbeat_at, now)]
}

fn paused(world: &World, now: DateTime<Utc>) -> Vec<Finding> {
    let waiting = world.waiting(|it| it.paused.then_some(&it.queue));
    let paused = world.gauges.paused.iter().filter_map(|it| {
        let by = world.paused_by(&it.queue).map_or_else(String::new, by);
        let text = format!("{by}{}.", waits(*waiting.get(it.queue.as_str())?));
        let post = Some(("resume", it.queue.clone()));
        let cure = Cure { label: format!("Resume {}", cut(&it.queue, 40)), path: "queues".to_owned(), post };
        let sign = Sign::new("paused", "Paused");
        Some(Finding::new(60, sign, format!("{} is paused", it.queue), text, cure).since(it.since, now))
    });
    paused.collect()
}

/// "By ada, “INC-421”. "
fn by(it: &Operation) -> String {
    let why = it.reason.as_deref().map_or_else(String::new, |why| format!(", “{}”", cut(why, 200)));
    format!("By {}{why}. ", cut(&it.actor, 80))
}

/// What changes many jobs just now.
fn running(world: &World, now: DateTime<Utc>) -> Vec<Finding> {
    let running = world.operations.iter().filter(|it| it.progress == Progress::Running).take(TOLD).map(|it| {
        let head = format!("{} of {}", it.action.replace('_', " "), cut(&target(it), 200));
        let refused = if it.refused.jobs == 0 { "none".to_owned() } else { count(it.refused) };
        let text = format!("{}{} changed, {refused} refused.", by(it), thousands(it.changed));
        let path = format!("operations/{}", it.id);
        let stop = Cure { label: "Stop".to_owned(), path: path.clone(), post: Some(("do", "stop".to_owned())) };
        let mut found = Finding::new(52, Sign::new("running", "Runs"), head, text, Cure::link("Progress", path));
        found.cures.push(stop);
        found.since(it.at, now)
    });
    running.collect()
}

/// Dead letters that no new failure explains.
fn dead(world: &World) -> Vec<Finding> {
    let new: u64 = world.news().map(|it| it.dead.jobs).sum();
    let all = world.dead();
    if all.jobs <= new {
        return Vec::new();
    }
    let most = world.failures.groups.iter().max_by_key(|it| it.dead.jobs).filter(|it| it.dead.jobs > 0);
    let text = match most {
        Some(most) => format!("Most of them: {} of {}: {}", count(most.dead), most.kind, title(most, 200)),
        None => "They stay until somebody sends them back or deletes them.".to_owned(),
    };
    let head = if all.jobs == 1 { "1 dead letter".to_owned() } else { format!("{} dead letters", count(all)) };
    let cure = Cure::link("Failures", "failures");
    vec![Finding::new(65, Sign::new("dead", "Dead"), head, text, cure)]
}

fn uncounted(world: &World) -> Vec<Finding> {
    let found = (!world.gauges.complete).then(|| {
        let head = "There are more kinds and queues than were counted".to_owned();
        let text = "What stands here is true of those that were looked at.".to_owned();
        Finding::new(90, Sign::new("steady", "Partly"), head, text, Cure::link("Queues", "queues"))
    });
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).expect("a time")
    }

    fn lane(kind: &str, queue: &str, [ready, dead, oldest]: [u64; 3], paused: bool) -> Value {
        let jobs = |jobs| json!({"jobs": jobs, "or_more": false});
        let oldest = (ready > 0).then(|| Duration::from_secs(oldest));
        json!({"kind": kind, "queue": queue, "ready": jobs(ready), "scheduled": jobs(0), "running": jobs(0),
               "dead": jobs(dead), "oldest_due": oldest, "paused": paused})
    }

    fn worker(queues: &[&str], kinds: &[&str], alive: bool) -> Value {
        json!({"id": 1, "host": "web", "pid": 7, "concurrency": 4, "queues": queues, "kinds": kinds,
               "started_at": now(), "heartbeat_at": now(), "stopped_at": null, "alive": alive, "running": 0,
               "limits": {}, "held": {}})
    }

    fn group(kind: &str, is_new: bool, dead: u64) -> Value {
        let jobs = |jobs| json!({"jobs": jobs, "or_more": false});
        json!({"group": "3f9a1b2c3f9a1b2c", "kind": kind, "title": "no such mailbox", "dead": jobs(dead),
               "retrying": jobs(2), "first": now(), "last": now(), "is_new": is_new, "back_since": null,
               "by_hour": vec![0; 24], "sample": 7, "error": "no such mailbox"})
    }

    fn world(lanes: &[Value], workers: &[Value], groups: &[Value]) -> World {
        let paused: Vec<Value> = lanes.iter().filter(|it| it["paused"] == true).cloned().collect();
        let paused: Vec<Value> = paused.iter().map(|it| json!({"queue": it["queue"], "since": now()})).collect();
        let gauges = json!({"depths": lanes, "paused": paused, "workers": workers.len(), "complete": true});
        let none = json!({"span": Duration::from_secs(60), "open_since": now(), "tallies": [], "complete": true});
        let of = "as JSON";
        World {
            at: now(),
            gauges: serde_json::from_value(gauges).expect(of),
            workers: serde_json::from_value(json!(workers)).expect(of),
            failures: serde_json::from_value(json!({"groups": groups, "complete": true})).expect(of),
            schedules: Vec::new(),
            throughput: serde_json::from_value(none).expect(of),
            operations: Vec::new(),
        }
    }

    fn heads(world: &World) -> Vec<(String, bool)> {
        all(world, now()).into_iter().map(|it| (it.head.clone(), it.is_wrong())).collect()
    }

    #[test]
    fn nothing_is_said_when_all_is_well() {
        assert_eq!(heads(&world(&[lane("a", "q", [3, 0, 1], false)], &[worker(&[], &["a"], true)], &[])), []);
    }

    #[test]
    fn the_worst_comes_first_and_what_can_wait_is_not_wrong() {
        let lanes = [
            lane("a", "mail", [3, 5, 400], false),
            lane("a", "slow", [3, 0, 70], false),
            lane("a", "off", [2, 0, 900], true),
            lane("b", "mail", [1, 0, 1], false),
        ];
        let workers = [worker(&["mail", "slow", "off"], &["a"], true), worker(&[], &["a"], false)];
        let found = heads(&world(&lanes, &workers, &[group("a", true, 1), group("c", false, 3)]));
        let expected = [
            ("mail is late: the oldest job has waited 6 min 40 s", true),
            ("No live worker knows the kind b", true),
            ("a fails in a new way", true),
            ("slow is late: the oldest job has waited 1 min 10 s", true),
            ("The worker web:7 was lost", true),
            ("off is paused", false),
            ("5 dead letters", false),
        ];
        assert_eq!(found, expected.map(|(head, wrong)| (head.to_owned(), wrong)));
    }

    #[test]
    fn without_a_worker_that_is_all_that_matters() {
        let found = heads(&world(&[lane("a", "q", [3, 0, 900], false)], &[], &[]));
        assert_eq!(found, [("No worker is alive".to_owned(), true)]);
    }
}
