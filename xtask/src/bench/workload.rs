//! What is measured, and what the figures mean.

use anyhow::{Result, bail};

/// A workload, as the command line and the program know it.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) figures: &'static [Figure],
    pub(crate) when: When,
    /// Measured before this one, in the same round.
    pub(crate) after: Option<&'static str>,
    /// Hand-written SQL does it too.
    pub(crate) floor: bool,
    /// Its database is filled once and stays for the next round.
    pub(crate) kept: bool,
    /// The share of the rate of `after` at which jobs arrive.
    pub(crate) paced: Option<f64>,
}

/// When a workload is run without being named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    All,
    Named,
}

/// One number of a workload's result.
#[derive(Debug)]
pub(crate) struct Figure {
    /// In the program's output.
    pub(crate) key: &'static str,
    pub(crate) label: &'static str,
    pub(crate) better: Better,
    pub(crate) beside: Beside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    More,
    Less,
}

/// What a figure of ours is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    Floor,
    /// The same figure of this workload.
    Ours(&'static str),
    /// Nothing: it depends little on the machine, so it is compared with itself.
    Itself,
    /// Nothing, and it is not watched.
    Nothing,
}

const fn figure(key: &'static str, label: &'static str, better: Better, beside: Beside) -> Figure {
    Figure { key, label, better, beside }
}

const fn rate(beside: Beside) -> Figure {
    figure("jobs_per_second", "jobs/s", Better::More, beside)
}

const fn p50(beside: Beside) -> Figure {
    figure("p50_ms", "p50, ms", Better::Less, beside)
}

const fn p99(beside: Beside) -> Figure {
    figure("p99_ms", "p99, ms", Better::Less, beside)
}

const TO_FLOOR: &[Figure] = &[rate(Beside::Floor)];
const TO_DRAIN: &[Figure] = &[rate(Beside::Ours("drain"))];
const TO_ONE: &[Figure] = &[rate(Beside::Ours("drain-1"))];
const TIMES: &[Figure] = &[p50(Beside::Floor), p99(Beside::Floor)];
const CLOSED: &[Figure] = &[rate(Beside::Nothing), p50(Beside::Nothing), p99(Beside::Nothing)];
const PACED: &[Figure] = &[rate(Beside::Nothing), p50(Beside::Floor), p99(Beside::Floor)];
const PINNED: &[Figure] = &[
    rate(Beside::Ours("closed-256")),
    figure("first_per_second", "jobs/s in the first 20 s", Better::More, Beside::Nothing),
    figure("last_per_second", "jobs/s in the last 20 s", Better::More, Beside::Nothing),
    figure("last_by_first", "last 20 s ÷ first 20 s", Better::More, Beside::Itself),
];
const IDLE: &[Figure] = &[
    figure("idle_per_second", "statements/s, first minute", Better::Less, Beside::Itself),
    figure(
        "idle_server_per_second",
        "transactions/s (PostgreSQL) or statements/s, counted by the server, first minute",
        Better::Less,
        Beside::Nothing,
    ),
    figure("idle_worker_cpu", "CPU of the worker, % of a core, first minute", Better::Less, Beside::Nothing),
    figure("idle_server_cpu", "CPU of the server, % of a core, first minute", Better::Less, Beside::Nothing),
    figure("later_per_second", "statements/s, after 75 s", Better::Less, Beside::Itself),
    figure(
        "later_server_per_second",
        "transactions/s (PostgreSQL) or statements/s, counted by the server, after 75 s",
        Better::Less,
        Beside::Nothing,
    ),
    figure("later_worker_cpu", "CPU of the worker, % of a core, after 75 s", Better::Less, Beside::Nothing),
    figure("later_server_cpu", "CPU of the server, % of a core, after 75 s", Better::Less, Beside::Nothing),
];
const COST: &[Figure] = &[
    figure("log_bytes", "log bytes per finished job", Better::Less, Beside::Itself),
    figure("binlog_bytes", "binary log bytes per finished job", Better::Less, Beside::Itself),
    figure("commits", "commits per 1,000 jobs", Better::Less, Beside::Nothing),
    figure("client_cpu", "CPU of the client, s per 10,000 jobs", Better::Less, Beside::Nothing),
    figure("server_cpu", "CPU of the server, s per 10,000 jobs", Better::Less, Beside::Nothing),
    figure("bytes_kept", "bytes kept per finished job, with indexes", Better::Less, Beside::Itself),
];
const MEMORY: &[Figure] = &[
    figure("peak_mib", "memory of the worker, MiB, peak", Better::Less, Beside::Itself),
    figure("early_mib", "memory of the worker, MiB, after a tenth of the jobs", Better::Less, Beside::Nothing),
    figure("late_mib", "memory of the worker, MiB, at the end", Better::Less, Beside::Nothing),
    rate(Beside::Nothing),
];
const LANES: &[Figure] = &[
    figure("peak_mib", "memory of the worker, MiB, peak", Better::Less, Beside::Itself),
    figure("joins_s", "start of the second worker until its first job, s", Better::Less, Beside::Itself),
    rate(Beside::Nothing),
];
const STEADY: &[Figure] = &[
    rate(Beside::Nothing),
    p99(Beside::Nothing),
    figure("megabytes", "size of all tables at the end, MB", Better::Less, Beside::Nothing),
    figure("rate_ratio", "jobs/s, last minute ÷ second minute", Better::More, Beside::Itself),
    figure("p99_ratio", "p99, last minute ÷ second minute", Better::Less, Beside::Nothing),
    figure("size_ratio", "size of all tables, last minute ÷ second minute", Better::Less, Beside::Itself),
    figure("size_ratio_to_fifth", "size of all tables, last minute ÷ fifth minute", Better::Less, Beside::Itself),
];
const TO_ENQUEUE: &[Figure] = &[rate(Beside::Ours("enqueue-1"))];
const TO_HAND: &[Figure] = &[rate(Beside::Ours("by-hand"))];
const TO_BULK: &[Figure] = &[rate(Beside::Ours("bulk"))];
const TO_PICKUP: &[Figure] = &[p50(Beside::Ours("pickup")), p99(Beside::Ours("pickup"))];
const FAR: &[Figure] = &[
    p50(Beside::Floor),
    p99(Beside::Floor),
    figure("round_trips", "extra round trips, compared with a local server", Better::Less, Beside::Itself),
];
/// Two sides of its own: see `compile`.
pub(crate) const COMPILE: &[Figure] = &[
    figure("clean_s", "clean build, s", Better::Less, Beside::Floor),
    figure("incremental_s", "incremental build, s", Better::Less, Beside::Floor),
];

const fn workload(name: &'static str, about: &'static str, figures: &'static [Figure], when: When) -> Workload {
    Workload { name, about, figures, when, after: None, floor: false, kept: false, paced: None }
}

const fn beside_floor(it: Workload) -> Workload {
    Workload { floor: true, ..it }
}

const fn after(base: &'static str, it: Workload) -> Workload {
    Workload { after: Some(base), ..it }
}

const fn backlog(name: &'static str, about: &'static str) -> Workload {
    Workload { kept: true, ..after("drain", workload(name, about, TO_DRAIN, When::All)) }
}

const fn paced(base: &'static str, share: f64, it: Workload) -> Workload {
    Workload { paced: Some(share), ..after(base, it) }
}

/// In the order in which they are run. What others come after stands before them.
pub(crate) const WORKLOADS: &[Workload] = &[
    beside_floor(workload("enqueue-1", "single enqueue, 1 task", TO_FLOOR, When::Always)),
    beside_floor(workload("enqueue-16", "single enqueue, 16 tasks", TO_FLOOR, When::Always)),
    beside_floor(workload("enqueue-tx", "single enqueue in the caller's transaction, 1 task", TO_FLOOR, When::Always)),
    beside_floor(workload("bulk", "bulk enqueue of 50,000 jobs", TO_FLOOR, When::Always)),
    after(
        "enqueue-1",
        workload("unique-new", "single enqueue of a unique job with a new key", TO_ENQUEUE, When::Always),
    ),
    after("enqueue-1", workload("unique-taken", "the same with a key that is taken", TO_ENQUEUE, When::Always)),
    after("bulk", workload("unique-bulk", "bulk enqueue of 50,000 unique jobs with new keys", TO_BULK, When::Always)),
    workload(
        "by-hand",
        "a handler's transaction with an effect, one INSERT and one DELETE",
        &[rate(Beside::Nothing)],
        When::Always,
    ),
    after("by-hand", workload("complete-in", "the same with `complete_in`", TO_HAND, When::Always)),
    beside_floor(workload("drain", "drain of 50,000 no-op jobs, history kept", TO_FLOOR, When::Always)),
    after("drain", workload("drain-queues", "the same from 100 queues, all due at once", TO_DRAIN, When::Always)),
    workload("drain-1", "50,000 jobs for 1 idle process with 32 slots", &[rate(Beside::Nothing)], When::Always),
    after("drain-1", workload("drain-4", "the same for 4 processes with 8 slots each", TO_ONE, When::Always)),
    after("drain-1", workload("drain-16", "the same for 16 processes with 2 slots each", TO_ONE, When::Always)),
    beside_floor(workload("pickup", "enqueue call to handler start, idle worker, same process", TIMES, When::Always)),
    beside_floor(workload("pickup-other", "the same, enqueued by another process", TIMES, When::Always)),
    beside_floor(workload("pickup-far", "as `pickup`, on a server 0.5 ms away", FAR, When::All)),
    after(
        "pickup",
        workload("pickup-queues", "as `pickup`, each job on the next of four limited queues", TO_PICKUP, When::All),
    ),
    workload("idle", "an idle worker", IDLE, When::Always),
    backlog("drain-ready", "drain with 1,000,000 ready jobs behind it"),
    backlog("drain-future", "drain with 1,000,000 scheduled jobs of the same kind"),
    backlog("drain-foreign", "drain with 1,000,000 ready jobs of a kind that no worker serves"),
    backlog("drain-history", "drain with 10,000,000 finished jobs in the history"),
    backlog("drain-dead", "drain with 100,000 dead letters"),
    after("drain", workload("drain-idle-tx", "drain while an idle write transaction is open", TO_DRAIN, When::All)),
    after("drain", workload("drain-reader", "drain while a reader holds an old snapshot", TO_DRAIN, When::All)),
    workload("closed-64", "closed loop, 64 jobs at a time, 1 ms each", CLOSED, When::Always),
    paced("closed-64", 0.7, beside_floor(workload("paced-64", "jobs arrive at 70 % of that rate", PACED, When::All))),
    workload("closed-256", "closed loop, 256 jobs at a time, 1 ms each", CLOSED, When::Always),
    paced("closed-256", 0.7, beside_floor(workload("paced-256", "jobs arrive at 70 % of that rate", PACED, When::All))),
    after(
        "closed-256",
        workload("closed-pinned", "closed loop, twice as long, while an old snapshot is held", PINNED, When::All),
    ),
    workload("cost", "cost of a job", COST, When::Always),
    workload("memory", "a worker that drains 1,000,000 jobs", MEMORY, When::All),
    workload("lanes", "one job in each of 1,000,000 queues; a second worker starts midway", LANES, When::Named),
    workload("mixed", "20 kinds, 5 queues, with failures, delays and priorities", &[rate(Beside::Nothing)], When::All),
    paced(
        "closed-256",
        0.7,
        workload("steady", "many minutes at 70 % of the rate of `closed-256`, with retention", STEADY, When::Named),
    ),
    workload("compile", "a crate of 200 jobs: `#[job]`, compared with serde and a match by hand", COMPILE, When::Named),
];

pub(crate) fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

/// Those asked for, with those that they come after, in order.
pub(crate) fn selection(names: &[String], all: bool) -> Result<Vec<&'static Workload>> {
    for name in names {
        if find(name).is_none() {
            let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
            bail!("there is no workload `{name}`; there are {}", names.join(", "));
        }
    }
    let asked = |workload: &Workload| match workload.when {
        _ if !names.is_empty() => names.iter().any(|name| name == workload.name),
        When::Always => true,
        When::All => all,
        When::Named => false,
    };
    let chosen: Vec<_> = WORKLOADS.iter().filter(|workload| asked(workload)).collect();
    let needed = |it: &Workload| chosen.iter().any(|other| other.name == it.name || other.after == Some(it.name));
    Ok(WORKLOADS.iter().filter(|workload| needed(workload)).collect())
}

#[cfg(test)]
mod tests {
    use super::{WORKLOADS, selection};

    #[test]
    fn what_a_workload_comes_after_is_run_before_it() {
        for (at, workload) in WORKLOADS.iter().enumerate() {
            if let Some(base) = workload.after {
                assert!(WORKLOADS[..at].iter().any(|it| it.name == base), "{}", workload.name);
            }
        }
        let names: Vec<_> =
            selection(&["paced-64".into()], false).expect("it exists").iter().map(|it| it.name).collect();
        assert_eq!(names, ["closed-64", "paced-64"]);
    }

    #[test]
    fn long_ones_must_be_named() {
        let all = selection(&[], true).expect("no names");
        assert!(all.iter().all(|it| !["steady", "compile"].contains(&it.name)));
    }
}
