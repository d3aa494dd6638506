//! All time zones, side by side.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use jiff::tz::TimeZone;
use queue::schedule::Schedule;
use serde_json::json;

use crate::compare::{Comparison, Difference, Parsed, Plant, compare};
use crate::library::{Changes, FOLDS, GAPS};
use crate::python::{Python, why_not};

/// Holds the ticks of the library against those of a program in Python, around every change of the clocks of every
/// time zone from 1970 to 2037.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Only so many time zones, and 20 expressions; else all
    #[arg(long, value_name = "ZONES")]
    pub sample: Option<usize>,
    /// Only this time zone (repeat for more)
    #[arg(long = "zone", value_name = "NAME")]
    pub zones: Vec<String>,
    /// Only this expression (repeat for more)
    #[arg(long = "expression", value_name = "FIELDS")]
    pub expressions: Vec<String>,
    /// So many processes; by default as many as there are processors
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

/// How many expressions a sample has: the first half of them from the top of the list, the rest from all over it.
const SAMPLE: usize = 20;

/// More differences than this are counted only.
const TOLD: usize = 20;

/// These are part of every sample: gaps and folds of half an hour, of two hours and of a whole day, at midnight, with
/// seconds, around Ramadan, backwards in winter.
const ODD: [&str; 12] = [
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Pacific/Apia",
    "Africa/Cairo",
    "Africa/Monrovia",
    "Africa/Casablanca",
    "America/St_Johns",
    "Europe/Dublin",
    "Asia/Gaza",
    "America/Havana",
    "Pacific/Kwajalein",
];

/// What was compared, and the result.
#[derive(Debug)]
pub struct Report {
    /// Names of time zones.
    pub zones: usize,
    /// Time zones that are not the same from 1970 to 2037.
    pub different: usize,
    /// Of different time zones.
    pub transitions: usize,
    /// How many there are.
    pub expressions: usize,
    /// See [`Comparison`].
    pub ticks: u64,
    /// Of all time zones, in their order.
    pub differences: Vec<Difference>,
    /// All in all.
    pub took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zones, different, transitions, expressions, ticks, differences, took } = self;
        for difference in differences.iter().take(TOLD) {
            writeln!(f, "{difference}")?;
        }
        write!(
            f,
            "{zones} zones ({different} of them different from 1970 to 2037), {transitions} transitions, {expressions} \
             expressions, {} pairs of policies, {ticks} ticks: {} differences, {:.1} s",
            GAPS.len() * FOLDS.len(),
            differences.len(),
            took.as_secs_f64(),
        )
    }
}

/// Time zones that are the same from 1970 to 2037.
struct Group {
    names: Vec<String>,
    changes: Changes,
}

/// Does it, with a planted error if asked for.
///
/// # Errors
/// The oracle cannot run, or has other data than the library.
pub fn check(args: &Args, plant: Option<Plant>) -> Result<Report> {
    let start = Instant::now();
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = args.jobs.map_or(processors, NonZeroUsize::get);
    let mut oracles = (0..jobs).map(|_| Python::start()).collect::<Result<Vec<_>>>()?;
    let expressions = expressions(&mut oracles[0], args)?;
    let zones = zones(&mut oracles[0], args)?;
    let changes = each(&mut oracles, &zones, |oracle, names| {
        let changes: Changes = oracle.ask(&json!(["windows", names[0]]))?;
        names.iter().try_for_each(|name| changes.check(name))?;
        Ok(changes)
    })?;
    let groups = groups(zones, changes);
    let found = each(&mut oracles, &groups, |oracle, group| {
        compare(oracle, &group.names[0], &group.changes, &expressions, plant)
    })?;
    let found = found.into_iter().fold(Comparison::default(), |mut all, one| {
        all.ticks += one.ticks;
        all.differences.extend(one.differences);
        all
    });
    Ok(Report {
        zones: groups.iter().map(|group| group.names.len()).sum(),
        different: groups.len(),
        transitions: groups.iter().map(|group| group.changes.transitions.len()).sum(),
        expressions: expressions.len(),
        ticks: found.ticks,
        differences: found.differences,
        took: start.elapsed(),
    })
}

/// Does it and tells the result.
///
/// # Errors
/// See [`check`].
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(why) = why_not() {
        bail!("{why}");
    }
    let report = check(args, None)?;
    println!("{report}");
    Ok(if report.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The expressions that are asked for, as the library reads them.
fn expressions(oracle: &mut Python, args: &Args) -> Result<Vec<Parsed>> {
    let mut texts = args.expressions.clone();
    if texts.is_empty() {
        texts = oracle.ask(&["expressions"])?;
        if args.sample.is_some() {
            let rest = texts.split_off(SAMPLE / 2);
            texts.extend(spread(rest, SAMPLE / 2));
        }
    }
    let parse = |text: String| Ok((text.clone(), Schedule::cron(&text).with_context(|| text)?));
    texts.into_iter().map(parse).collect()
}

/// The time zones that are asked for and known to both sides. Those with the same data are together.
fn zones(oracle: &mut Python, args: &Args) -> Result<Vec<Vec<String>>> {
    let mut zones: Vec<Vec<String>> = match args.zones.as_slice() {
        [] => oracle.ask(&["zones"])?,
        names => names.iter().map(|name| vec![name.clone()]).collect(),
    };
    let unknown: Vec<String> =
        zones.iter_mut().flat_map(|names| names.extract_if(.., |name| !is_known(name))).collect();
    if !unknown.is_empty() {
        eprintln!("the library does not know {}", unknown.join(", "));
    }
    if args.zones.is_empty() {
        let names: BTreeSet<&str> = zones.iter().flatten().map(String::as_str).collect();
        let only: Vec<_> = jiff::tz::db().available().map(|name| name.to_string()).collect();
        let only: Vec<_> = only.iter().map(String::as_str).filter(|name| !names.contains(name)).collect();
        if !only.is_empty() {
            eprintln!("Python does not know {}", only.join(", "));
        }
    }
    zones.retain(|names| !names.is_empty());
    ensure!(!zones.is_empty(), "there is no time zone that both sides know");
    if let Some(count) = args.sample {
        let odd = |names: &mut Vec<String>| names.iter().any(|name| ODD.contains(&name.as_str()));
        let mut sample: Vec<_> = zones.extract_if(.., odd).take(count).collect();
        sample.extend(spread(zones, count - sample.len()));
        zones = sample;
    }
    Ok(zones)
}

fn is_known(name: &str) -> bool {
    TimeZone::get(name).is_ok_and(|zone| !zone.is_unknown())
}

/// So many of them, from the whole length.
fn spread<T>(things: Vec<T>, count: usize) -> impl Iterator<Item = T> {
    let step = (things.len() / count.max(1)).max(1);
    things.into_iter().step_by(step).take(count)
}

/// Puts together what has the same changes, though its data differs before 1970.
fn groups(zones: Vec<Vec<String>>, changes: Vec<Changes>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (names, changes) in zones.into_iter().zip(changes) {
        match groups.iter_mut().find(|group| group.changes == changes) {
            Some(group) => group.names.extend(names),
            None => groups.push(Group { names, changes }),
        }
    }
    groups
}

/// Does something with each thing, with all oracles side by side. The results are in the order of the things.
fn each<T: Sync, R: Send>(
    oracles: &mut [Python],
    things: &[T],
    act: impl Fn(&mut Python, &T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (queue, act) = (Mutex::new(things.iter().enumerate()), &act);
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let work = |oracle: &mut Python| -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        while let Some((at, thing)) = next() {
            done.push((at, act(oracle, thing)?));
        }
        Ok(done)
    };
    let mut done = thread::scope(|scope| {
        let threads: Vec<_> = oracles.iter_mut().map(|oracle| scope.spawn(|| work(oracle))).collect();
        let parts = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
        parts.collect::<Result<Vec<_>>>()
    })?
    .into_iter()
    .flatten()
    .collect::<Vec<_>>();
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}
