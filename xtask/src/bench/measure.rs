//! The rounds: every side of every workload on every engine, in turn.

use std::collections::{BTreeMap, HashSet};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::numbers::short;
use super::peers::{Peer, VARIANTS};
use super::record::{Measured, Record, Side};
use super::workload::{FLOOR, Workload};
use super::{Args, machine, program};
use crate::tool::{cargo, succeeds};
use queue_test_servers::process::{Interrupted, command};
use queue_test_servers::{Durability, Engine, Servers, Settings, paths};

/// How long a workload of ours may take, besides its loop: 10,000,000 rows are filled in first.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The same for a peer, whose workloads are short.
const PEERS_PATIENCE: Duration = Duration::from_secs(120);
/// The share of the rate of a closed loop at which the jobs of a paced workload arrive.
const PACE: f64 = 0.7;

/// A run of the command.
pub(crate) struct Bench<'a> {
    args: &'a Args,
    servers: Servers,
    /// With the databases of SQLite.
    folder: TempDir,
    peers: Vec<Peer>,
    versions: BTreeMap<String, String>,
    /// Databases that are filled already.
    filled: HashSet<(Engine, &'static str)>,
    pub(crate) measured: Measured,
}

/// One workload on one engine in one round.
struct Turn {
    round: usize,
    engine: Engine,
    workload: &'static Workload,
    /// What every side is told.
    variables: Vec<(&'static str, String)>,
}

impl<'a> Bench<'a> {
    /// Builds the program, starts the servers.
    pub(crate) fn start(args: &'a Args, engines: &[Engine], peers: Vec<Peer>) -> Result<Bench<'a>> {
        println!("building the benchmark");
        let built = succeeds(cargo(["build", "--release", "--package", "queue-bench"]))?;
        ensure!(built, "the benchmark does not build");
        let servers = Servers::start(engines, &Settings::new(Durability::Stock)).context("starting the servers")?;
        let folder = tempfile::Builder::new().prefix("queue-bench").tempdir_in(paths::target());
        let folder = folder.context("a folder for SQLite")?;
        let (versions, filled, measured) = Default::default();
        Ok(Bench { args, servers, folder, peers, versions, filled, measured })
    }

    /// All sides of a workload, once. Only a Ctrl-C and the end of a server stop it.
    pub(crate) fn turn(&mut self, round: usize, engine: Engine, workload: &'static Workload) -> Result<()> {
        let rate = workload.paced.as_ref().and_then(|base| self.measured.rate(engine.name(), base));
        if workload.paced.is_some() && rate.is_none() {
            return Ok(()); // the workload that gives the rate has failed
        }
        let variables = self.variables(engine, workload, rate)?;
        let turn = Turn { round, engine, workload, variables };
        let sides = self.sides(engine, workload);
        sides.into_iter().try_for_each(|(side, command)| self.once(&turn, side, command))
    }

    fn variables(&self, engine: Engine, workload: &Workload, rate: Option<f64>) -> Result<Vec<(&'static str, String)>> {
        let kept = workload.kept.then(|| format!("_{}", workload.name.replace('-', "_")));
        let database = format!("queue_bench{}", kept.unwrap_or_default());
        let url = match self.servers.url(engine) {
            Some(url) => format!("{}/{database}", url.rsplit_once('/').context("an address has no database")?.0),
            None => format!("sqlite://{}/{database}.sqlite", self.folder.path().display()),
        };
        let Args { seconds, minutes, .. } = self.args;
        let rate = rate.map(|rate| ("BENCH_RATE", format!("{:.0}", rate * PACE)));
        let all = [("BENCH_URL", url), ("BENCH_SECONDS", seconds.to_string()), ("BENCH_MINUTES", minutes.to_string())];
        Ok(all.into_iter().chain(rate).collect())
    }

    /// Who takes part, and the program of each.
    fn sides(&self, engine: Engine, workload: &Workload) -> Vec<(Side, Result<Command>)> {
        let mut sides = Vec::new();
        if workload.beside.as_deref() == Some(FLOOR) {
            sides.push((Side::Floor, Ok(queue_bench("floor", &workload.name))));
        }
        sides.push((Side::Ours, Ok(queue_bench("ours", &workload.name))));
        for peer in self.peers.iter().filter(|peer| peer.offers(engine, &workload.name)) {
            sides.extend(VARIANTS.map(|variant| {
                (Side::Peer { name: peer.name.clone(), variant }, peer.command(variant, &workload.name))
            }));
        }
        sides
    }

    fn once(&mut self, turn: &Turn, side: Side, command: Result<Command>) -> Result<()> {
        self.servers.check()?;
        let Turn { round, engine, workload, .. } = turn;
        let told = format!("round {round} {engine} {} {side}", workload.name);
        match self.measure(turn, &side, command) {
            Ok(Value::Null) => {}
            Ok(figures) => {
                let shown = figures.as_object().into_iter().flatten().filter_map(|(key, value)| {
                    let key = key.replace("jobs_per_second", "jobs/s").replace('_', " ");
                    Some(format!("{key} {}", short(value.as_f64()?)))
                });
                println!("{told}: {}", shown.collect::<Vec<_>>().join(", "));
                self.measured.put(engine.name(), workload, side, &figures);
            }
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => {
                // whatever it has left half done is not to be used again
                self.filled.remove(&(*engine, &*workload.name));
                println!("{told}: FAILED: {error:#}");
                self.measured.fail(engine.name(), workload, side, format!("{error:#}"));
            }
        }
        Ok(())
    }

    fn measure(&mut self, turn: &Turn, side: &Side, command: Result<Command>) -> Result<Value> {
        let run = |mut command: Command, patience| {
            command.envs(turn.variables.iter().cloned());
            program::run(command, patience)
        };
        let command = command?;
        if !self.filled.contains(&(turn.engine, &*turn.workload.name)) {
            run(queue_bench("prepare", "database"), PATIENCE).context("making the database anew")?;
        }
        let engine = turn.engine.name();
        if !self.versions.contains_key(engine) {
            let version = run(queue_bench("prepare", "version"), PATIENCE)?;
            self.versions.insert(engine.into(), version.as_str().unwrap_or_default().into());
        }
        let loops = Duration::from_secs(2 * self.args.seconds);
        let figures = match side {
            Side::Peer { .. } => run(command, PEERS_PATIENCE.max(loops)),
            Side::Floor | Side::Ours => run(command, PATIENCE + loops + Duration::from_secs(60 * self.args.minutes)),
        }?;
        if turn.workload.kept {
            self.filled.insert((turn.engine, &turn.workload.name));
        }
        Ok(figures)
    }

    /// What has been measured so far takes the place of what was recorded of the same.
    pub(crate) fn record(&self, record: &mut Record, rounds: usize) {
        record.machine = machine::describe();
        record.versions.extend(self.versions.clone());
        record.peers_about.extend(self.peers.iter().map(|peer| (peer.name.clone(), peer.about())));
        self.measured.record(record, rounds);
    }
}

/// The program with ours and the floor.
fn queue_bench(side: &str, workload: &str) -> Command {
    let mut command = command(paths::target().join("release/queue-bench"), None, Signal::SIGKILL);
    command.args([side, workload]);
    command
}
