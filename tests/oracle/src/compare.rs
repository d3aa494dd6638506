//! One time zone: the ticks of both sides, and how they differ.

use std::fmt;
use std::iter;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use queue::schedule::Schedule;
use serde_json::json;

use crate::library::{Changes, FOLDS, GAPS, Tick, digest, ticks};
use crate::python::Python;

/// An error that is made on purpose, to see that it is found: with the library's tick in the middle.
#[derive(Debug, Clone, Copy)]
pub enum Plant {
    /// It comes an hour late.
    Late,
    /// It is lost.
    Lost,
    /// It comes twice.
    Doubled,
    /// Its kind is another.
    Kind,
}

impl Plant {
    fn put(self, windows: &mut [Vec<Tick>]) {
        let count = windows.iter().filter(|ticks| !ticks.is_empty()).count();
        let Some(ticks) = windows.iter_mut().filter(|ticks| !ticks.is_empty()).nth(count / 2) else { return };
        let at = ticks.len() / 2;
        match self {
            Self::Late => ticks[at].0 += 3600,
            Self::Lost => drop(ticks.remove(at)),
            Self::Doubled => ticks.insert(at, ticks[at]),
            Self::Kind => ticks[at].1 = (ticks[at].1 + 1) % 3,
        }
    }
}

/// Ticks that differ: of one expression in one time zone under one pair of policies.
#[derive(Debug)]
pub struct Difference {
    zone: String,
    expression: String,
    gap: &'static str,
    fold: &'static str,
    /// Of the first window that differs.
    library: Vec<Tick>,
    oracle: Vec<Tick>,
    /// How many windows differ.
    windows: usize,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zone, expression, gap, fold, library, oracle, windows } = self;
        writeln!(f, "`{expression}` in {zone}, gap {gap}, fold {fold}: {windows} windows differ, the first by")?;
        for (name, ticks, others) in [("library", library, oracle), ("oracle", oracle, library)] {
            writeln!(f, "  {name}: {} ticks", ticks.len())?;
            for tick in ticks {
                let mark = if others.contains(tick) { ' ' } else { '!' };
                writeln!(f, "  {mark} {}", told(zone, *tick))?;
            }
        }
        Ok(())
    }
}

fn told(zone: &str, (instant, kind): Tick) -> String {
    let kind = ["normal", "shifted", "second of two"].get(usize::from(kind)).copied().unwrap_or("of no kind");
    let local = TimeZone::get(zone).and_then(|zone| Ok(Timestamp::from_second(instant)?.to_zoned_datetime(zone)));
    local.map_or_else(|_| instant.to_string(), |local| format!("{} {kind}", local.strftime("%F %T %:z")))
}

/// All expressions in one time zone.
#[derive(Debug, Default)]
pub struct Comparison {
    /// How many ticks the oracle found, under all policies together.
    pub ticks: u64,
    /// Where the library differs.
    pub differences: Vec<Difference>,
}

/// An expression and what the library makes of it, without a time zone.
pub(crate) type Parsed = (String, Schedule);

/// Holds the library against the oracle.
pub(crate) fn compare(
    oracle: &mut Python,
    zone: &str,
    changes: &Changes,
    expressions: &[Parsed],
    plant: Option<Plant>,
) -> Result<Comparison> {
    let texts: Vec<&str> = expressions.iter().map(|(text, _)| text.as_str()).collect();
    let digests: Vec<Vec<(u64, u64)>> = oracle.ask(&json!(["digests", zone, texts]))?;
    anyhow::ensure!(digests.len() == expressions.len(), "the oracle has answered {} expressions", digests.len());
    let mut comparison = Comparison::default();
    for ((text, schedule), digests) in expressions.iter().zip(digests) {
        let schedule = schedule.clone().zone(zone)?;
        let mut digests = digests.into_iter();
        for ((gap, gap_policy), (fold, fold_policy)) in GAPS.iter().flat_map(|gap| iter::repeat(gap).zip(&FOLDS)) {
            let expected = digests.next().context("the oracle has left out a pair of policies")?;
            let mut library = ticks(&schedule.clone().gap(*gap_policy).fold(*fold_policy), &changes.windows)?;
            plant.iter().for_each(|plant| plant.put(&mut library));
            comparison.ticks += expected.0;
            if digest(&library) != expected {
                let oracle: Vec<Vec<Tick>> = oracle.ask(&json!(["ticks", zone, text, gap, fold]))?;
                let mut pairs: Vec<_> = library.into_iter().zip(oracle).filter(|(one, other)| one != other).collect();
                let windows = pairs.len();
                let (library, oracle) = if pairs.is_empty() { Default::default() } else { pairs.swap_remove(0) };
                let (zone, expression) = (zone.to_owned(), text.clone());
                comparison.differences.push(Difference { zone, expression, gap, fold, library, oracle, windows });
            }
        }
    }
    Ok(comparison)
}
