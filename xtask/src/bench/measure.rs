//! The rounds: every side of every workload on every engine, in turn.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::numbers::short;
use super::peers::{Peer, VARIANTS};
use super::record::{Measured, Record, Side};
use super::workload::Workload;
use super::{machine, program};
use queue_test_servers::Engine;
use queue_test_servers::Servers;
use queue_test_servers::paths;
use queue_test_servers::process::{Interrupted, command};

/// How long a workload of ours may take, besides its loop: 10,000,000 rows are filled in first.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The same for a peer, whose workloads are short.
const PEERS_PATIENCE: Duration = Duration::from_secs(120);

/// A run of the command.
pub(crate) struct Bench {
    servers: Servers,
    _folder: TempDir,
    urls: Vec<(Engine, String)>,
    workloads: Vec<&'static Workload>,
    peers: Vec<Peer>,
    seconds: u64,
    minutes: u64,
    rounds: usize,
    versions: BTreeMap<String, String>,
    /// Databases that are filled already.
    filled: HashSet<(&'static str, &'static str)>,
    pub(crate) measured: Measured,
}

/// One process to be started.
struct Run<'a> {
    engine: Engine,
    url: &'a str,
    workload: &'static Workload,
    rate: Option<f64>,
}

impl Bench {
    pub(crate) fn new(
        servers: Servers,
        folder: TempDir,
        urls: Vec<(Engine, String)>,
        workloads: Vec<&'static Workload>,
        peers: Vec<Peer>,
        seconds: u64,
        minutes: u64,
    ) -> Bench {
        Bench {
            servers,
            _folder: folder,
            urls,
            workloads,
            peers,
            seconds,
            minutes,
            rounds: 0,
            versions: BTreeMap::new(),
            filled: HashSet::new(),
            measured: Measured::default(),
        }
    }

    /// Everything once. Only a Ctrl-C and the end of a server stop it.
    pub(crate) fn round(&mut self, round: usize) -> Result<()> {
        self.rounds = round;
        for (engine, url) in self.urls.clone() {
            for workload in self.workloads.clone() {
                let rate = match workload.after.zip(workload.paced) {
                    None => None,
                    Some((base, share)) => match self.measured.last(engine, base, "jobs_per_second") {
                        Some(rate) => Some(rate * share),
                        None => continue, // it has failed
                    },
                };
                let name = if workload.kept {
                    format!("queue_bench_{}", workload.name.replace('-', "_"))
                } else {
                    "queue_bench".into()
                };
                let (plain, url) = (url.replace("NAME", "queue_bench"), url.replace("NAME", &name));
                let run = Run { engine, url: &url, workload, rate };
                if workload.floor {
                    self.once(round, &run, Side::Floor)?;
                }
                self.once(round, &run, Side::Ours)?;
                let run = Run { url: &plain, ..run };
                for peer in self.peers.clone() {
                    if peer.offers(engine, workload.name) {
                        for variant in VARIANTS {
                            self.once(round, &run, Side::Peer(peer.clone(), variant))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn once(&mut self, round: usize, run: &Run<'_>, side: Side) -> Result<()> {
        self.servers.check()?;
        let (engine, name) = (run.engine, run.workload.name);
        match self.measure(run, &side) {
            Ok(Value::Null) => {}
            Ok(figures) => {
                let shown = figures.as_object().into_iter().flatten().filter_map(|(key, value)| {
                    Some(format!(
                        "{} {}",
                        key.replace("jobs_per_second", "jobs/s").replace('_', " "),
                        short(value.as_f64()?)
                    ))
                });
                println!("round {round} {engine} {name} {side}: {}", shown.collect::<Vec<_>>().join(", "));
                self.measured.put(engine, run.workload, side, &figures);
            }
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => {
                // whatever it has left half done is not to be used again
                self.filled.remove(&(engine.name(), name));
                println!("round {round} {engine} {name} {side}: FAILED: {error:#}");
                self.measured.fail(engine, run.workload, side, format!("{error:#}"));
            }
        }
        Ok(())
    }

    fn measure(&mut self, run: &Run<'_>, side: &Side) -> Result<Value> {
        let key = (run.engine.name(), run.workload.name);
        if matches!(side, Side::Peer(..)) || !self.filled.contains(&key) {
            program::run(self.program("prepare", "database", run), PATIENCE).context("making the database anew")?;
        }
        if !self.versions.contains_key(key.0) {
            let version = program::run(self.program("prepare", "version", run), PATIENCE)?;
            self.versions.insert(key.0.into(), version.as_str().unwrap_or_default().into());
        }
        let loops = Duration::from_secs(self.seconds * 2);
        match side {
            Side::Floor => program::run(self.program("floor", run.workload.name, run), PATIENCE),
            Side::Ours => {
                let steady = Duration::from_secs(60 * self.minutes);
                let figures = program::run(self.program("ours", run.workload.name, run), PATIENCE + loops + steady)?;
                if run.workload.kept {
                    self.filled.insert(key);
                }
                Ok(figures)
            }
            Side::Peer(peer, variant) => {
                let mut command = peer.command(variant, run.workload.name);
                command.env("BENCH_JOBS", peer.jobs(variant, run.workload.name).to_string());
                self.environment(&mut command, run);
                program::run(command, PEERS_PATIENCE.max(loops))
            }
        }
    }

    fn program(&self, side: &str, workload: &str, run: &Run<'_>) -> Command {
        let program: PathBuf = paths::target().join("release/queue-bench");
        let mut command = command(program, None, Signal::SIGKILL);
        command.args([side, workload]);
        self.environment(&mut command, run);
        command
    }

    fn environment(&self, command: &mut Command, run: &Run<'_>) {
        command.env("BENCH_URL", run.url);
        command.env("BENCH_SECONDS", self.seconds.to_string());
        command.env("BENCH_MINUTES", self.minutes.to_string());
        if let Some(rate) = run.rate {
            command.env("BENCH_RATE", format!("{rate:.0}"));
        }
    }

    /// What has been measured so far takes the place of what was recorded of the same.
    pub(crate) fn record(&self, record: &mut Record) {
        record.machine = machine::describe();
        record.versions.extend(self.versions.clone());
        for peer in &self.peers {
            record.peers_about.insert(peer.name.clone(), peer.about());
        }
        record.put(self.measured.rows(self.rounds));
        record.put_peers(self.measured.peer_rows(self.rounds));
    }

    /// What of ours and of the floor has failed.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.measured.failures()
    }
}
