//! `cargo xtask bench`: the library beside hand-written SQL and its peers on the same servers, in turn, in one run.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use self::measure::Bench;
use self::peers::Peer;
use self::record::Record;
use self::workload::Workload;
use crate::install::install;
use queue_test_servers::Engine;
use queue_test_servers::paths;
use queue_test_servers::process::Interrupted;
use queue_test_servers::{Durability, Servers, Settings};

mod compile;
mod machine;
mod measure;
mod numbers;
mod peers;
mod program;
mod record;
mod render;
mod workload;

/// Measures the library, hand-written SQL and other job libraries in turn, and writes docs/benchmarks.md and
/// the figures of README.md.
///
/// Servers are started as they come, durability on. Without --workload: what shows most in the least time, about four
/// minutes an engine and round with the peers left out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these engines (repeat, or separate by commas); all by default
    #[arg(long = "engine", value_name = "ENGINE", value_delimiter = ',', value_enum)]
    engines: Vec<Engine>,
    /// Only these workloads (repeat, or separate by commas)
    #[arg(long = "workload", value_name = "WORKLOAD", value_delimiter = ',')]
    workloads: Vec<String>,
    /// All workloads but those of many minutes, which must be named: steady, compile
    #[arg(long, conflicts_with = "workloads")]
    all: bool,
    /// Only these peers (repeat, or separate by commas); all by default
    #[arg(long = "peer", value_name = "PEER", value_delimiter = ',', conflicts_with = "no_peers")]
    peers: Vec<String>,
    /// Measure the peers too, as is the default
    #[arg(long = "peers", id = "with_peers", overrides_with = "no_peers")]
    _with_peers: bool,
    /// Leave the peers out
    #[arg(long)]
    no_peers: bool,
    /// How often everything is measured; 3 by default
    #[arg(long)]
    rounds: Option<usize>,
    /// The length of each loop in seconds; 60 by default
    #[arg(long)]
    seconds: Option<u64>,
    /// The length of the workload `steady`
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// One round with loops of 20 s: for a look while developing
    #[arg(long)]
    quick: bool,
    /// Write nothing to docs
    #[arg(long)]
    dry: bool,
    /// Measure nothing: write docs/benchmarks.md and the figures of README.md anew from docs/benchmarks.json
    #[arg(long, conflicts_with = "dry")]
    render: bool,
    /// Fail if a figure has lost more than a tenth
    #[arg(long)]
    check: bool,
}

impl Args {
    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 }).max(1)
    }

    fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(if self.quick { 20 } else { 60 }).max(1)
    }
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let engines = Engine::selection(&args.engines);
    let workloads = workload::selection(&args.workloads, args.all)?;
    let peers = if args.no_peers { Vec::new() } else { peers::find(&args.peers)? };
    let recorded = Record::load(&path("json"))?;
    let mut record = recorded.clone();
    if args.render {
        write(&record)?;
        return Ok(true);
    }

    if workloads.iter().any(|workload| workload.name == "compile") {
        let rows = compile::run(args.rounds())?;
        record.put(rows);
    }
    let workloads: Vec<&Workload> = workloads.into_iter().filter(|workload| workload.name != "compile").collect();
    let mut failures = Vec::new();
    if !workloads.is_empty() {
        install(&engines)?;
        let (peers, unbuilt) = peers::build(peers, &engines);
        let mut bench = start(args, &engines, workloads, peers)?;
        for (peer, message) in unbuilt {
            bench.measured.fail_peer(&engines, &peer, &message);
        }
        for round in 1..=args.rounds() {
            bench.round(round)?;
            bench.record(&mut record);
            if !args.dry {
                write(&record)?;
            }
        }
        failures = bench.failures();
    }
    println!("\n{}", render::tables(&record, args.dry.then_some(&recorded)));
    if !args.dry {
        write(&record)?;
        println!("written to docs/benchmarks.md, docs/benchmarks.json and README.md");
    }
    let regressions = record.regressions(&recorded);
    for line in failures.iter().chain(&regressions) {
        println!("{line}");
    }
    Ok(failures.is_empty() && (regressions.is_empty() || !args.check))
}

fn path(extension: &str) -> PathBuf {
    paths::workspace().join("docs/benchmarks").with_extension(extension)
}

fn write(record: &Record) -> Result<()> {
    record.save(&path("json"))?;
    fs::write(path("md"), render::page(record)).context("writing docs/benchmarks.md")?;
    let readme = paths::workspace().join("README.md");
    let text = fs::read_to_string(&readme).context("reading README.md")?;
    fs::write(&readme, render::readme(record, &text)?).context("writing README.md")
}

/// Builds the program, starts the servers.
fn start(args: &Args, engines: &[Engine], workloads: Vec<&'static Workload>, peers: Vec<Peer>) -> Result<Bench> {
    println!("building the benchmark");
    let built = Command::new("cargo")
        .args(["build", "--release", "--package", "queue-bench"])
        .current_dir(paths::workspace())
        .status()
        .context("running cargo")?;
    if !built.success() {
        bail!("the benchmark does not build");
    }
    let settings = Settings::new(Durability::Stock);
    let servers = Servers::start(engines, &settings).map_err(|error| match error.is::<Interrupted>() {
        true => error,
        false => error.context("starting the servers"),
    })?;
    let addresses: BTreeMap<_, _> = servers.variables().into_iter().collect();
    let folder =
        tempfile::Builder::new().prefix("queue-bench").tempdir_in(paths::target()).context("a folder for SQLite")?;
    let mut urls = Vec::new();
    for engine in engines {
        // with NAME in place of the database's name
        let url = match engine.variable() {
            Some(variable) => {
                let admin = addresses.get(variable).context("a server has no address")?;
                let (server, _) = admin.rsplit_once('/').context("a server's address has no database")?;
                format!("{server}/NAME")
            }
            None => format!("sqlite://{}/NAME.sqlite", folder.path().display()),
        };
        urls.push((*engine, url));
    }
    Ok(Bench::new(servers, folder, urls, workloads, peers, args.seconds(), args.minutes))
}
