//! `cargo xtask bench`: the library beside hand-written SQL and its peers on the same servers, in turn, in one run.

use std::fs;

use anyhow::{Context as _, Result};

use self::measure::Bench;
use self::record::Record;
use crate::install::install;
use queue_test_servers::{Engine, paths};

mod compile;
mod machine;
mod measure;
mod numbers;
mod peers;
mod program;
mod record;
mod render;
mod workload;

/// Where the figures are kept.
const JSON: &str = "docs/benchmarks.json";

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
    #[arg(long, default_value = "3", default_value_if("quick", "true", "1"), hide_default_value = true)]
    rounds: usize,
    /// The length of each loop in seconds; 60 by default
    #[arg(long, default_value = "60", default_value_if("quick", "true", "20"), hide_default_value = true)]
    seconds: u64,
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

pub(crate) fn run(args: &Args) -> Result<bool> {
    let before = fs::read(paths::workspace().join(JSON)).with_context(|| format!("reading {JSON}"))?;
    let before: Record = serde_json::from_slice(&before).with_context(|| format!("reading {JSON}"))?;
    if args.render {
        return write(&before).map(|()| true);
    }
    let engines = Engine::selection(&args.engines);
    let mut workloads = workload::selection(&args.workloads, args.all)?;
    let mut peers = if args.no_peers { Vec::new() } else { peers::find(&args.peers)? };
    let mut record = before.clone();

    for workload in workloads.extract_if(.., |it| it.name == compile::NAME) {
        compile::run(workload, args.rounds)?.record(&mut record, args.rounds);
    }
    let mut failures = Vec::new();
    if !workloads.is_empty() {
        install(&engines)?;
        peers::build(&mut peers, &engines);
        let mut bench = Bench::start(args, &engines, peers)?;
        for round in 1..=args.rounds {
            for &engine in &engines {
                for workload in &workloads {
                    bench.turn(round, engine, workload)?;
                }
            }
            bench.record(&mut record, round);
            if !args.dry {
                write(&record)?;
            }
        }
        failures = bench.measured.failures();
    }
    let regressions = record.regressions(&before);
    if args.dry {
        println!("\n{}", render::tables(&record.since(&before)));
    } else {
        println!("\n{}", render::tables(&record));
        write(&record)?;
        println!("written to docs/benchmarks.md, docs/benchmarks.json and README.md");
    }
    for line in failures.iter().chain(&regressions) {
        println!("{line}");
    }
    Ok(failures.is_empty() && (regressions.is_empty() || !args.check))
}

fn write(record: &Record) -> Result<()> {
    let readme = fs::read_to_string(paths::workspace().join("README.md")).context("reading README.md")?;
    let files = [
        (JSON, serde_json::to_string_pretty(record)? + "\n"),
        ("docs/benchmarks.md", render::page(record)),
        ("README.md", render::readme(record, &readme)?),
    ];
    files.into_iter().try_for_each(|(file, text)| {
        fs::write(paths::workspace().join(file), text).with_context(|| format!("writing {file}"))
    })
}
