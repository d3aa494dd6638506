//! What is measured, and what the figures mean: the tables of `workloads.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Result, bail};
use serde::Deserialize;

static TABLES: LazyLock<Tables> =
    LazyLock::new(|| toml::from_str(include_str!("workloads.toml")).expect("the tests have read workloads.toml"));

/// In [`Workload::beside`]: hand-written SQL that does the same.
pub(crate) const FLOOR: &str = "floor";
/// The figure that most workloads have.
pub(crate) const RATE: &str = "jobs_per_second";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    workloads: Vec<Workload>,
    /// By their keys in the program's output.
    figures: BTreeMap<String, Figure>,
}

/// A workload, as the command line and the program know it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) about: String,
    /// The keys of its figures.
    #[serde(default = "rate")]
    pub(crate) figures: Vec<String>,
    #[serde(default)]
    when: When,
    /// What its figures are divided by: [`FLOOR`], or the same figures of a workload that is measured before it.
    pub(crate) beside: Option<String>,
    /// Jobs arrive at a share of the rate of this workload, which is measured before it.
    pub(crate) paced: Option<String>,
    /// Its database is filled once and stays for the next round.
    #[serde(default)]
    pub(crate) kept: bool,
}

fn rate() -> Vec<String> {
    vec![RATE.into()]
}

/// When a workload is run without being named.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum When {
    #[default]
    Always,
    All,
    Named,
}

/// One number of a workload's result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    pub(crate) label: String,
    /// Whether more is better.
    #[serde(default)]
    pub(crate) more: bool,
    /// It depends little on the machine, so it is compared with itself.
    #[serde(default)]
    pub(crate) alone: bool,
}

impl Workload {
    /// What this figure of ours is divided by, if by anything.
    pub(crate) fn base(&self, figure: &str) -> Option<&str> {
        let is_alone = self::figure(figure).is_some_and(|it| it.alone);
        self.beside.as_deref().filter(|_| !is_alone && !self.sets(figure))
    }

    /// Whether the figure is given, not measured: the rate of a paced workload is that of its arrivals.
    pub(crate) fn sets(&self, figure: &str) -> bool {
        self.paced.is_some() && figure == RATE
    }

    fn comes_after(&self, other: &Workload) -> bool {
        [&self.beside, &self.paced].into_iter().flatten().any(|name| *name == other.name)
    }
}

/// In the order in which they are run. What others come after stands before them.
pub(crate) fn workloads() -> &'static [Workload] {
    &TABLES.workloads
}

pub(crate) fn find(name: &str) -> Option<&'static Workload> {
    workloads().iter().find(|workload| workload.name == name)
}

pub(crate) fn figure(key: &str) -> Option<&'static Figure> {
    TABLES.figures.get(key)
}

/// Those asked for, with those that they come after, in order.
pub(crate) fn selection(names: &[String], all: bool) -> Result<Vec<&'static Workload>> {
    for name in names {
        if find(name).is_none() {
            let names: Vec<_> = workloads().iter().map(|workload| &*workload.name).collect();
            bail!("there is no workload `{name}`; there are {}", names.join(", "));
        }
    }
    let asked = |workload: &Workload| match workload.when {
        _ if !names.is_empty() => names.contains(&workload.name),
        When::Always => true,
        When::All => all,
        When::Named => false,
    };
    let chosen: Vec<_> = workloads().iter().filter(|workload| asked(workload)).collect();
    let needed = |it: &Workload| chosen.iter().any(|other| other.name == it.name || other.comes_after(it));
    Ok(workloads().iter().filter(|workload| needed(workload)).collect())
}

#[cfg(test)]
mod tests {
    use super::{FLOOR, figure, selection, workloads};

    #[test]
    fn what_a_workload_comes_after_is_run_before_it() {
        for (at, workload) in workloads().iter().enumerate() {
            for base in [&workload.beside, &workload.paced].into_iter().flatten().filter(|name| *name != FLOOR) {
                assert!(workloads()[..at].iter().any(|it| it.name == *base), "{}", workload.name);
            }
        }
        let names: Vec<_> =
            selection(&["paced-64".into()], false).expect("it exists").iter().map(|it| &it.name).collect();
        assert_eq!(names, ["closed-64", "paced-64"]);
    }

    #[test]
    fn long_ones_must_be_named() {
        let all = selection(&[], true).expect("no names");
        assert!(all.iter().all(|it| !["steady", "compile"].contains(&&*it.name)));
    }

    #[test]
    fn every_figure_is_explained() {
        for workload in workloads() {
            assert!(!workload.figures.is_empty(), "{}", workload.name);
            assert!(workload.figures.iter().all(|key| figure(key).is_some()), "{}", workload.name);
        }
    }
}
