//! What was measured, in this run and before: docs/benchmarks.json.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::today;
use super::numbers::{Spread, ratio};
use super::peers::{About, VARIANTS};
use super::workload::{FLOOR, RATE, Workload, figure, find, workloads};

/// More than this share lost is a regression.
const TOLERATED: f64 = 0.1;

/// Who was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Floor,
    Ours,
    Peer { name: String, variant: &'static str },
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Side::Floor => f.write_str(FLOOR),
            Side::Ours => f.write_str("ours"),
            Side::Peer { name, variant } => write!(f, "{name} ({variant})"),
        }
    }
}

/// A figure of ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) engine: String,
    pub(crate) workload: String,
    pub(crate) figure: String,
    pub(crate) date: String,
    pub(crate) rounds: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) floor: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ours: Option<Spread>,
    /// Ours by the floor, or by ours of the workload that it is measured beside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
}

impl Row {
    pub(crate) fn key(&self) -> [&str; 3] {
        [&self.engine, &self.workload, &self.figure]
    }
}

/// A figure of a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerRow {
    pub(crate) engine: String,
    pub(crate) workload: String,
    pub(crate) figure: String,
    pub(crate) peer: String,
    pub(crate) variant: String,
    pub(crate) date: String,
    pub(crate) rounds: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Spread>,
    /// Ours by the peer's, of the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ours_by_it: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<String>,
}

impl PeerRow {
    pub(crate) fn key(&self) -> [&str; 3] {
        [&self.engine, &self.workload, &self.figure]
    }

    /// Without the figure: one that failed has no figures, and takes the place of all.
    fn run(&self) -> [&str; 4] {
        [&self.engine, &self.workload, &self.peer, &self.variant]
    }
}

/// The file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) machine: String,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) peers_about: BTreeMap<String, About>,
    pub(crate) peers: Vec<PeerRow>,
}

/// Where a figure stands among those of an engine.
fn position([_, workload, figure]: [&str; 3]) -> Option<(usize, Option<usize>)> {
    let at = workloads().iter().position(|it| it.name == workload)?;
    Some((at, workloads()[at].figures.iter().position(|key| key == figure)))
}

impl Record {
    /// Replaces what these rows measure anew.
    pub(crate) fn put(&mut self, rows: Vec<Row>) {
        self.rows.retain(|old| rows.iter().all(|new| new.key() != old.key()));
        self.rows.extend(rows);
        self.rows.sort_by_key(|row| (row.engine.clone(), position(row.key())));
    }

    fn put_peers(&mut self, rows: Vec<PeerRow>) {
        self.peers.retain(|old| rows.iter().all(|new| new.run() != old.run()));
        self.peers.extend(rows);
        self.peers
            .sort_by_key(|row| (row.engine.clone(), position(row.key()), row.peer.clone(), row.variant == VARIANTS[1]));
    }

    /// Without the rows that stood in it before.
    pub(crate) fn since(&self, before: &Record) -> Record {
        let mut new = self.clone();
        new.rows.retain(|row| !before.rows.contains(row));
        new.peers.retain(|row| !before.peers.contains(row));
        new
    }

    /// What is worse than before by more than a tenth.
    pub(crate) fn regressions(&self, before: &Record) -> Vec<String> {
        let old = |new: &Row| before.rows.iter().find(|old| old.key() == new.key());
        self.rows.iter().filter_map(|new| regression(old(new)?, new)).collect()
    }
}

fn regression(old: &Row, new: &Row) -> Option<String> {
    let figure = figure(&new.figure)?;
    let watched = |row: &Row| if figure.alone { row.ours.map(|it| it.median) } else { row.ratio };
    let (was, is) = (watched(old)?, watched(new)?);
    let lost = if figure.more { is < was * (1.0 - TOLERATED) } else { is > was * (1.0 + TOLERATED) };
    let what = if figure.alone { "" } else { "the ratio " };
    let Row { engine, workload, .. } = new;
    lost.then(|| format!("regression: {engine} {workload}, {}: {what}was {was:.3}, is {is:.3}", figure.label))
}

/// What this run has measured. Engines are known by their names; what needs no database has "none".
#[derive(Default)]
pub(crate) struct Measured {
    /// By engine, workload and figure, then by side: a value for each round.
    values: BTreeMap<[&'static str; 3], BTreeMap<Side, Vec<f64>>>,
    /// By engine, workload and side: the last message.
    failed: BTreeMap<(&'static str, &'static str, Side), String>,
}

impl Measured {
    pub(crate) fn put(&mut self, engine: &'static str, workload: &'static Workload, side: Side, figures: &Value) {
        for key in &workload.figures {
            if let Some(value) = figures[key].as_f64() {
                let sides = self.values.entry([engine, &workload.name, key]).or_default();
                sides.entry(side.clone()).or_default().push(value);
            }
        }
    }

    pub(crate) fn fail(&mut self, engine: &'static str, workload: &'static Workload, side: Side, message: String) {
        self.failed.insert((engine, &workload.name, side), message);
    }

    fn spread(&self, key: [&str; 3], side: &Side) -> Option<Spread> {
        Spread::of(self.values.get(&key)?.get(side)?)
    }

    /// The last rate of ours.
    pub(crate) fn rate(&self, engine: &str, workload: &str) -> Option<f64> {
        self.values.get(&[engine, workload, RATE])?.get(&Side::Ours)?.last().copied()
    }

    /// What has been measured so far takes the place of what was recorded of the same.
    pub(crate) fn record(&self, record: &mut Record, rounds: usize) {
        let (date, mut rows, mut peers) = (today(), Vec::new(), Vec::new());
        let mut peer = |[engine, workload, figure]: [&str; 3], side: &Side, value, ours_by_it, failed| {
            if let Side::Peer { name, variant } = side {
                peers.push(PeerRow {
                    engine: engine.into(),
                    workload: workload.into(),
                    figure: figure.into(),
                    peer: name.clone(),
                    variant: (*variant).into(),
                    date: date.clone(),
                    rounds,
                    value,
                    ours_by_it,
                    failed,
                });
            }
        };
        for (&key, sides) in &self.values {
            let [engine, workload, figure] = key;
            let [floor, ours] = [Side::Floor, Side::Ours].map(|side| self.spread(key, &side));
            if floor.is_some() || ours.is_some() {
                let base = match find(workload).and_then(|it| it.base(figure)) {
                    Some(FLOOR) => floor,
                    Some(other) => self.spread([engine, other, figure], &Side::Ours),
                    None => None,
                };
                rows.push(Row {
                    engine: engine.into(),
                    workload: workload.into(),
                    figure: figure.into(),
                    date: date.clone(),
                    rounds,
                    floor,
                    ours,
                    ratio: ratio(ours, base),
                });
            }
            // peers ask the server how much they ask
            let compared = if figure == "idle_per_second" { "idle_server_per_second" } else { figure };
            let ours = self.spread([engine, workload, compared], &Side::Ours);
            for (side, values) in sides {
                let value = Spread::of(values);
                peer(key, side, value, ratio(ours, value), None);
            }
        }
        for ((engine, workload, side), message) in &self.failed {
            let figures = find(workload).map_or(&[][..], |it| &it.figures);
            let has = |figure: &String| self.spread([engine, workload, figure], side).is_some();
            if !figures.iter().any(has) {
                peer([engine, workload, &figures[0]], side, None, None, Some(message.clone()));
            }
        }
        record.put(rows);
        record.put_peers(peers);
    }

    /// What of ours and of the floor has failed.
    pub(crate) fn failures(&self) -> Vec<String> {
        let own = self.failed.iter().filter(|((.., side), _)| !matches!(side, Side::Peer { .. }));
        own.map(|((engine, workload, side), message)| format!("failed: {engine} {workload} {side}: {message}"))
            .collect()
    }
}
