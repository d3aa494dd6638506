//! What was measured, in this run and before: docs/benchmarks.json.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::today;
use super::numbers::{Spread, round};
use super::peers::{About, Peer, VARIANTS};
use super::workload::{Beside, Better, Figure, WORKLOADS, Workload, find};
use queue_test_servers::Engine;

/// More than this share lost is a regression.
const TOLERATED: f64 = 0.1;

/// Who was measured.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    Floor,
    Ours,
    Peer(Peer, &'static str),
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Side::Floor => f.write_str("floor"),
            Side::Ours => f.write_str("ours"),
            Side::Peer(peer, variant) => write!(f, "{peer} ({variant})"),
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) floor: Option<Spread>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ours: Option<Spread>,
    /// Ours by the floor, or by ours of the workload that it is measured beside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Spread>,
    /// Ours by the peer's, of the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ours_by_it: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<String>,
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

fn position(workload: &str, figure: &str) -> (usize, usize) {
    let at = WORKLOADS.iter().position(|it| it.name == workload).unwrap_or(usize::MAX);
    let figures = find(workload).map_or(&[][..], |it| it.figures);
    (at, figures.iter().position(|it| it.key == figure).unwrap_or(usize::MAX))
}

impl Record {
    /// Empty if there is no file yet.
    pub(crate) fn load(path: &Path) -> Result<Record> {
        match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    pub(crate) fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("writing JSON")?;
        fs::write(path, text + "\n").with_context(|| format!("writing {}", path.display()))
    }

    /// Replaces what these rows measure anew.
    pub(crate) fn put(&mut self, rows: Vec<Row>) {
        self.rows.retain(|old| {
            !rows
                .iter()
                .any(|new| (&new.engine, &new.workload, &new.figure) == (&old.engine, &old.workload, &old.figure))
        });
        self.rows.extend(rows);
        self.rows.sort_by_key(|row| (row.engine.clone(), position(&row.workload, &row.figure)));
    }

    pub(crate) fn put_peers(&mut self, rows: Vec<PeerRow>) {
        // by workload, not by figure: one that failed has no figures, and takes the place of all
        let key = |row: &PeerRow| (row.engine.clone(), row.workload.clone(), row.peer.clone(), row.variant.clone());
        self.peers.retain(|old| !rows.iter().any(|new| key(new) == key(old)));
        self.peers.extend(rows);
        self.peers.sort_by_key(|row| {
            (row.engine.clone(), position(&row.workload, &row.figure), row.peer.clone(), row.variant == VARIANTS[1])
        });
    }

    /// What is worse than before by more than a tenth.
    pub(crate) fn regressions(&self, before: &Record) -> Vec<String> {
        let mut lines = Vec::new();
        for new in &self.rows {
            let key =
                |row: &&Row| (&row.engine, &row.workload, &row.figure) == (&new.engine, &new.workload, &new.figure);
            let Some(old) = before.rows.iter().find(key) else { continue };
            let Some(figure) =
                find(&new.workload).and_then(|it| it.figures.iter().find(|figure| figure.key == new.figure))
            else {
                continue;
            };
            let watched = |row: &Row| match figure.beside {
                Beside::Floor | Beside::Ours(_) => row.ratio,
                Beside::Itself => row.ours.map(|it| it.median),
                Beside::Nothing => None,
            };
            let (Some(was), Some(is)) = (watched(old), watched(new)) else { continue };
            let lost = match figure.better {
                Better::More => is < was * (1.0 - TOLERATED),
                Better::Less => is > was * (1.0 + TOLERATED),
            };
            if lost {
                let (engine, workload, label) = (&new.engine, &new.workload, figure.label);
                let what = if figure.beside == Beside::Itself { "" } else { "the ratio " };
                lines.push(format!("regression: {engine} {workload}, {label}: {what}was {was:.3}, is {is:.3}"));
            }
        }
        lines
    }
}

/// One figure of one side.
type Key = (&'static str, &'static str, &'static str, String);

/// What this run has measured.
#[derive(Default)]
pub(crate) struct Measured {
    values: BTreeMap<Key, Vec<f64>>,
    peers: BTreeMap<String, (Peer, &'static str)>,
    failed: BTreeMap<(&'static str, &'static str, String), (Side, String)>,
}

impl Measured {
    pub(crate) fn put(&mut self, engine: Engine, workload: &'static Workload, side: Side, figures: &Value) {
        for figure in workload.figures {
            if let Some(value) = figures.get(figure.key).and_then(Value::as_f64) {
                let key = (engine.name(), workload.name, figure.key, side.to_string());
                self.values.entry(key).or_default().push(value);
            }
        }
        if let Side::Peer(peer, variant) = side {
            self.peers.insert(format!("{peer} ({variant})"), (peer, variant));
        }
    }

    pub(crate) fn fail(&mut self, engine: Engine, workload: &'static Workload, side: Side, message: String) {
        self.failed.insert((engine.name(), workload.name, side.to_string()), (side, message));
    }

    /// It did not even build.
    pub(crate) fn fail_peer(&mut self, engines: &[Engine], peer: &Peer, message: &str) {
        for workload in peer.workloads().iter().filter_map(|name| find(name)) {
            for engine in engines.iter().filter(|engine| peer.serves(**engine)) {
                self.fail(*engine, workload, Side::Peer(peer.clone(), VARIANTS[0]), message.into());
            }
        }
    }

    fn spread(&self, engine: &'static str, workload: &'static str, figure: &'static str, side: &str) -> Option<Spread> {
        Spread::of(self.values.get(&(engine, workload, figure, side.to_owned()))?)
    }

    /// The last value of ours.
    pub(crate) fn last(&self, engine: Engine, workload: &'static str, figure: &'static str) -> Option<f64> {
        self.values.get(&(engine.name(), workload, figure, Side::Ours.to_string()))?.last().copied()
    }

    pub(crate) fn rows(&self, rounds: usize) -> Vec<Row> {
        let date = today();
        let mut rows = Vec::new();
        for (engine, workload, figure) in self.figures() {
            let ours = self.spread(engine, workload.name, figure.key, "ours");
            let floor = self.spread(engine, workload.name, figure.key, "floor");
            if ours.is_none() && floor.is_none() {
                continue;
            }
            let base = match figure.beside {
                Beside::Floor => floor,
                Beside::Ours(base) => self.spread(engine, base, figure.key, "ours"),
                Beside::Itself | Beside::Nothing => None,
            };
            let ratio = ours.zip(base).map(|(ours, base)| round(ours.median / base.median));
            rows.push(Row {
                engine: engine.into(),
                workload: workload.name.into(),
                figure: figure.key.into(),
                date: date.clone(),
                rounds,
                floor,
                ours,
                ratio,
            });
        }
        rows
    }

    pub(crate) fn peer_rows(&self, rounds: usize) -> Vec<PeerRow> {
        let date = today();
        let mut rows = Vec::new();
        let row = |engine: &str, workload: &str, figure: &str, peer: &Peer, variant: &str| PeerRow {
            engine: engine.into(),
            workload: workload.into(),
            figure: figure.into(),
            peer: peer.name.clone(),
            variant: variant.into(),
            date: date.clone(),
            rounds,
            value: None,
            ours_by_it: None,
            failed: None,
        };
        for (engine, workload, figure) in self.figures() {
            // peers ask the server how much they ask
            let compared = if figure.key == "idle_per_second" { "idle_server_per_second" } else { figure.key };
            let ours = self.spread(engine, workload.name, compared, "ours");
            for (side, (peer, variant)) in &self.peers {
                let Some(value) = self.spread(engine, workload.name, figure.key, side) else { continue };
                let ours_by_it = ours.filter(|_| value.median > 0.0).map(|ours| round(ours.median / value.median));
                rows.push(PeerRow {
                    value: Some(value),
                    ours_by_it,
                    ..row(engine, workload.name, figure.key, peer, variant)
                });
            }
        }
        for ((engine, workload, _), (side, message)) in &self.failed {
            if let Side::Peer(peer, variant) = side
                && !rows.iter().any(|it| {
                    (it.engine.as_str(), it.workload.as_str()) == (*engine, *workload)
                        && it.peer == peer.name
                        && it.variant == *variant
                })
            {
                let first = find(workload).and_then(|it| it.figures.first()).map_or("", |figure| figure.key);
                rows.push(PeerRow { failed: Some(message.clone()), ..row(engine, workload, first, peer, variant) });
            }
        }
        rows
    }

    /// Those of which there is a value, of whomever.
    fn figures(&self) -> Vec<(&'static str, &'static Workload, &'static Figure)> {
        let mut all = Vec::new();
        let mut engines: Vec<_> = self.values.keys().map(|(engine, ..)| *engine).collect();
        engines.dedup();
        for engine in engines {
            for workload in WORKLOADS {
                all.extend(workload.figures.iter().map(|figure| (engine, workload, figure)));
            }
        }
        all
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        let own = self.failed.iter().filter(|(_, (side, _))| !matches!(side, Side::Peer(..)));
        own.map(|((engine, workload, side), (_, message))| format!("failed: {engine} {workload} {side}: {message}"))
            .collect()
    }
}
