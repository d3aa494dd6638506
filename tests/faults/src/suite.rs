//! Runs the requested faults, several in parallel, and reports how each ended.

use std::collections::VecDeque;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use clap::ArgAction;
use queue_test_servers::{Durability, Engine, Servers, Settings, process};

use crate::faults::{FAULTS, Fault, Ground, Skipped, WITHOUT_ROUNDS};
use crate::scene::{Form, Order};

/// Tests the delivery promises under faults. A checker decides from the records alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these engines (repeat, or separate by commas); all by default
    #[arg(long = "engine", value_name = "ENGINE", value_delimiter = ',', value_enum)]
    engines: Vec<Engine>,
    /// Only these faults (repeat, or separate by commas); all by default
    #[arg(long = "fault", value_name = "NAME", value_delimiter = ',')]
    faults: Vec<String>,
    /// Seed of all random choices; a new one for each run by default
    #[arg(long)]
    seed: Option<u64>,
    /// Least number of jobs in the load
    #[arg(long)]
    jobs: Option<usize>,
    /// How many times a fault happens
    #[arg(long)]
    rounds: Option<u32>,
    /// How many faults run in parallel; by default 2 for each processor in the short form, 1 in the long one
    #[arg(long)]
    parallel: Option<usize>,
    /// List the faults
    #[arg(long)]
    list: bool,
    /// Seconds per fault (the default)
    #[arg(long, action = ArgAction::SetTrue)]
    short: bool,
    /// Minutes or more per fault
    #[arg(long, conflicts_with = "short")]
    long: bool,
}

/// Time limit of a fault in its short form, even on a slow or busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// No time limit if a number of jobs or rounds is given.
fn limit(order: Order) -> Duration {
    let usual = order.form == Form::Short && order.jobs.is_none() && order.rounds.is_none();
    if usual { LIMIT } else { Duration::MAX }
}

struct Trial {
    fault: Fault,
    ground: Ground,
}

enum Outcome {
    Passed(Vec<String>),
    Skipped(String),
    Failed(anyhow::Error),
}

/// Runs the requested faults.
///
/// # Errors
/// When a server cannot be started, or a requested fault does not exist.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    process::watch_for_interrupts()?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let form = if args.long { Form::Long } else { Form::Short };
    let order = Order { seed, form, jobs: args.jobs, rounds: args.rounds };
    let engines = Engine::selection(&args.engines);
    // for the faults that leave their server alone
    let servers = Servers::start(&engines, &Settings::new(Durability::Process))?;
    let trials = trials(args, &engines, &servers, order)?;
    println!("{} faults, seed {seed}", trials.len());
    let parallel = args.parallel.unwrap_or(if args.long { 1 } else { 2 * processors() }).max(1);
    let started = Instant::now();
    let counts = run_all(trials, parallel);
    drop(servers);
    let [passed, failed, skipped] = counts;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let took = started.elapsed().as_secs_f64();
    println!("test result: {word}. {passed} passed; {failed} failed; {skipped} ignored; finished in {took:.1}s");
    process::check_interrupted()?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn list() {
    for fault in FAULTS {
        let engines: Vec<&str> = fault.engines.iter().map(|engine| engine.name()).collect();
        println!("{:<14} {} ({})", fault.name, fault.about, engines.join(", "));
    }
}

fn trials(args: &Args, engines: &[Engine], servers: &Servers, order: Order) -> Result<VecDeque<Trial>> {
    if let Some(name) = args.faults.iter().find(|name| FAULTS.iter().all(|fault| fault.name != **name)) {
        bail!("there is no fault {name:?}; --list tells which there are");
    }
    if let Some(name) = args.faults.iter().find(|name| args.rounds.is_some() && WITHOUT_ROUNDS.contains(&name.as_str()))
    {
        bail!("{name} has no rounds: leave --rounds out (--jobs and --long make it longer)");
    }
    let mut trials = VecDeque::new();
    for fault in FAULTS.iter().filter(|it| args.faults.is_empty() || args.faults.iter().any(|name| name == it.name)) {
        for &engine in engines.iter().filter(|engine| fault.engines.contains(engine)) {
            let shared = servers.url(engine);
            trials.push_back(Trial { fault: *fault, ground: Ground { engine, order, shared } });
        }
    }
    if trials.is_empty() {
        bail!("none of these faults has a meaning on these engines");
    }
    Ok(trials)
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// How many passed, failed and were skipped.
fn run_all(trials: VecDeque<Trial>, parallel: usize) -> [usize; 3] {
    let queue = Mutex::new(trials);
    let counts = Mutex::new([0; 3]);
    thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                while let Some(trial) = next(&queue) {
                    let started = Instant::now();
                    let outcome = run_one(&trial);
                    let index = tell(&trial, &outcome, started.elapsed());
                    counts.lock().unwrap_or_else(PoisonError::into_inner)[index] += 1;
                }
            });
        }
    });
    counts.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn next(queue: &Mutex<VecDeque<Trial>>) -> Option<Trial> {
    process::check_interrupted().ok()?;
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// On a runtime of its own: starting and killing a server blocks the thread.
fn run_one(trial: &Trial) -> Outcome {
    let attempt = || -> Result<Vec<String>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let work = (trial.fault.run)(&trial.ground);
            let interrupted = async {
                while process::check_interrupted().is_ok() {
                    tokio::time::sleep(process::TICK * 5).await;
                }
            };
            let limit = limit(trial.ground.order);
            tokio::select! {
                result = work => result,
                () = interrupted => Err(process::Interrupted.into()),
                () = tokio::time::sleep(limit) => Err(anyhow!("not done within {limit:?}")),
            }
        })
    };
    // what goes wrong in the middle of a helper panics
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)) {
        Ok(Ok(notes)) => Outcome::Passed(notes),
        Ok(Err(error)) => match error.downcast::<Skipped>() {
            Ok(Skipped(reason)) => Outcome::Skipped(reason),
            Err(error) => Outcome::Failed(error),
        },
        Err(_) => Outcome::Failed(anyhow!("panicked; the message is above")),
    }
}

/// In the words of a test program, which `cargo xtask test` counts.
fn tell(trial: &Trial, outcome: &Outcome, took: Duration) -> usize {
    let Trial { fault, ground } = trial;
    let name = format!("{}::{}", ground.engine.name(), fault.name);
    let seconds = took.as_secs_f64();
    match outcome {
        Outcome::Passed(notes) => {
            println!("test {name} ... ok ({seconds:.1} s) {}", notes.join("; "));
            0
        }
        Outcome::Skipped(reason) => {
            println!("test {name} ... ignored, {reason}");
            2
        }
        Outcome::Failed(error) => {
            let again = format!("--engine {} --fault {} {}", ground.engine.name(), fault.name, ground.order);
            // in one piece: other trials tell theirs at the same time
            println!(
                "\n---- {name} stdout ----\nafter {seconds:.1} s: {error:#}\nagain: cargo xtask faults {again}\n\
                 test {name} ... FAILED"
            );
            1
        }
    }
}
