//! `cargo xtask bench`: the library beside hand-written SQL on the same servers, in turn, in one run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::engine::Engine;
use crate::install::install;
use crate::paths;
use crate::process::check_interrupted;
use crate::servers::{Durability, Servers};

/// Measures every workload on every engine, ours and hand-written SQL in turn, and writes the table to docs/benchmarks.md.
///
/// Servers are started as they come, durability on. Takes about three minutes an engine with the default of three rounds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these engines (repeat, or separate by commas); all by default
    #[arg(long = "engine", value_name = "ENGINE", value_delimiter = ',', value_enum)]
    engines: Vec<Engine>,
    /// Only these workloads (repeat, or separate by commas); all by default
    #[arg(long = "workload", value_name = "WORKLOAD", value_delimiter = ',')]
    workloads: Vec<String>,
    /// How often everything is measured
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Do not write docs/benchmarks.md
    #[arg(long)]
    dry: bool,
}

/// A workload: its name, what it is, the figure to show, and whether more of it is better.
struct Workload {
    name: &'static str,
    about: &'static str,
    figures: &'static [&'static str],
    more_is_better: bool,
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "enqueue-1",
        about: "single enqueue, 1 task",
        figures: &["jobs_per_second"],
        more_is_better: true,
    },
    Workload {
        name: "enqueue-16",
        about: "single enqueue, 16 tasks",
        figures: &["jobs_per_second"],
        more_is_better: true,
    },
    Workload { name: "bulk", about: "bulk enqueue of 50,000", figures: &["jobs_per_second"], more_is_better: true },
    Workload {
        name: "drain",
        about: "drain of 50,000 no-op jobs, history kept",
        figures: &["jobs_per_second"],
        more_is_better: true,
    },
    Workload {
        name: "pickup",
        about: "enqueue call to handler start, idle worker, same process",
        figures: &["p50_ms", "p99_ms"],
        more_is_better: false,
    },
    Workload {
        name: "pickup-other",
        about: "the same, enqueued by another process",
        figures: &["p50_ms", "p99_ms"],
        more_is_better: false,
    },
];

const SIDES: [&str; 2] = ["floor", "ours"];

/// Every value measured: by engine, workload, figure and side.
type Measured = BTreeMap<(usize, usize, usize, usize), Vec<f64>>;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let engines = Engine::selection(&args.engines);
    for name in &args.workloads {
        if !WORKLOADS.iter().any(|workload| workload.name == name) {
            let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
            bail!("there is no workload `{name}`; there are {}", names.join(", "));
        }
    }
    install(&engines)?;
    println!("building the benchmark");
    let built = Command::new("cargo")
        .args(["build", "--release", "--package", "queue-bench"])
        .current_dir(paths::workspace())
        .status()
        .context("running cargo")?;
    if !built.success() {
        bail!("the benchmark does not build");
    }
    let program = paths::target().join("release/queue-bench");
    let mut servers = Servers::start(&engines, Durability::Stock)?;
    let addresses: BTreeMap<_, _> = servers.variables().into_iter().collect();
    let folder = tempfile::tempdir().context("creating a folder for SQLite")?;

    let mut measured = Measured::new();
    for round in 0..args.rounds.max(1) {
        for (e, engine) in engines.iter().enumerate() {
            let url = match engine.variable() {
                Some(variable) => {
                    let admin = addresses.get(variable).context("a server has no address")?;
                    let (server, _) = admin.rsplit_once('/').context("a server's address has no database")?;
                    format!("{server}/queue_bench")
                }
                None => format!("sqlite://{}", folder.path().join("bench.sqlite").display()),
            };
            for (w, workload) in WORKLOADS.iter().enumerate() {
                if !args.workloads.is_empty() && !args.workloads.iter().any(|name| name == workload.name) {
                    continue;
                }
                for (s, side) in SIDES.iter().enumerate() {
                    check_interrupted()?;
                    servers.check()?;
                    once(&program, &url, "prepare", "database")?;
                    let figures = once(&program, &url, side, workload.name)
                        .with_context(|| format!("{side} {} on {engine}", workload.name))?;
                    for (f, figure) in workload.figures.iter().enumerate() {
                        if let Some(value) = figures.get(figure).and_then(Value::as_f64) {
                            measured.entry((e, w, f, s)).or_default().push(value);
                        }
                    }
                    println!("round {} {engine} {} {side}: {figures}", round + 1, workload.name);
                }
            }
        }
    }
    let table = table(&engines, &measured);
    println!("\n{table}");
    if !args.dry {
        let path = paths::workspace().join("docs/benchmarks.md");
        let versions = versions(&engines);
        let text = format!("{HEAD}\n{versions}\nRounds: {}.\n\n{table}", args.rounds.max(1));
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        println!("written to {}", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

const HEAD: &str = "# Benchmarks

Written by `cargo xtask bench`, which starts its own servers as they come (durability on; SQLite with a write-ahead log and
its default `synchronous = FULL`) and runs the sides in turn: the floor, that is the fastest hand-written statements that do
the same on the same server, and this library with the settings that every user gets by default. Each run is a process of
its own on an empty database; nothing is warmed up. A drain is done when the database has recorded every job. Client and
server share the machine. Read differences under 25 % as none, and compare only within one run: the ratio is what counts.

Payload `{\"n\": i64, \"s\": 32 characters}`. Medians, with minimum and maximum.
";

fn once(program: &std::path::Path, url: &str, side: &str, workload: &str) -> Result<Value> {
    let output = Command::new(program).args([side, workload]).env("BENCH_URL", url).output().context("starting it")?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or("null");
    serde_json::from_str(line).with_context(|| format!("reading `{line}`"))
}

fn table(engines: &[Engine], measured: &Measured) -> String {
    let mut text = String::new();
    for (e, engine) in engines.iter().enumerate() {
        let _ = writeln!(text, "## {engine}\n\n| workload | figure | floor | ours | ratio |\n|---|---|---|---|---|");
        for (w, workload) in WORKLOADS.iter().enumerate() {
            for (f, figure) in workload.figures.iter().enumerate() {
                let (floor, ours) = (measured.get(&(e, w, f, 0)), measured.get(&(e, w, f, 1)));
                if floor.is_none() && ours.is_none() {
                    continue;
                }
                let ratio = match (floor.map(|v| median(v)), ours.map(|v| median(v))) {
                    (Some(floor), Some(ours)) if workload.more_is_better => format!("{:.2}", ours / floor),
                    (Some(floor), Some(ours)) => format!("{:.2} x the time", ours / floor),
                    _ => "–".into(),
                };
                let _ = writeln!(
                    text,
                    "| {} (`{}`) | {} | {} | {} | {ratio} |",
                    workload.about,
                    workload.name,
                    figure.replace("jobs_per_second", "jobs/s").replace("_ms", ", ms"),
                    spread(floor),
                    spread(ours),
                );
            }
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(values: Option<&Vec<f64>>) -> String {
    let Some(values) = values else { return "–".into() };
    let show = |value: f64| if value < 100.0 { format!("{value:.2}") } else { thousands(value) };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{} ({}–{})", show(median(values)), show(least), show(most))
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What was measured on.
fn versions(engines: &[Engine]) -> String {
    let first_line = |program: &str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
        Some(text)
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = format!("Machine: {cores} cores. {}.", first_line("rustc").unwrap_or_default());
    for engine in engines {
        let version = match engine {
            Engine::Postgres => first_line("psql"),
            Engine::Mariadb => first_line("mariadbd"),
            Engine::Mysql => Some("mysqld from Debian's unstable suite".into()),
            Engine::Sqlite => Some("SQLite as bundled with sqlx".into()),
        };
        if let Some(version) = version {
            let _ = write!(text, " {version}.");
        }
    }
    text.push('\n');
    text
}
