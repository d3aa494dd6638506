//! `cargo xtask test`: every test, on every database.

use std::collections::VecDeque;
use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::sys::signal::Signal;

use crate::faults;
use crate::install::install_with_oracle;
use crate::tally::{Failure, Tally};
use queue_test_servers::Engine;
use queue_test_servers::process::{self, Supervised};
use queue_test_servers::{Durability, PgBouncer, Servers, Settings, paths, pgbouncer, postgres};

/// Installs what is missing, starts a server of each kind, runs every test, and stops the servers again.
///
/// A server whose variable is set already (QUEUE_TEST_POSTGRES_URL, QUEUE_TEST_MARIADB_URL, QUEUE_TEST_MYSQL_URL: an
/// account that may create databases) is used as it is. So is the PgBouncer of QUEUE_TEST_PGBOUNCER_URL.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these engines (repeat, or separate by commas); all by default
    #[arg(long = "engine", value_name = "ENGINE", value_delimiter = ',', value_enum)]
    engines: Vec<Engine>,
    /// PostgreSQL of this major version: one that is in /usr/lib/postgresql, or 18, which is downloaded. By default the
    /// newest that the machine has, which on Debian 12 is 15
    #[arg(long, value_name = "VERSION")]
    postgres: Option<u32>,
    /// Only this test program, such as `conformance` (repeat for more)
    #[arg(long = "suite", value_name = "NAME")]
    suites: Vec<String>,
    /// Only tests whose names contain one of these, and other words for the test programs
    #[arg(last = true)]
    filters: Vec<String>,
}

/// How many tests of one program run side by side.
const THREADS: &str = "RUST_TEST_THREADS";

/// One run of `cargo test`, or of the fault suite.
#[derive(Debug, PartialEq, Eq)]
struct Step<'a> {
    name: String,
    /// Of cargo.
    args: Vec<&'a str>,
    engines: Vec<Engine>,
}

/// The test programs that are asked for.
fn suites<'a>(engines: &[Engine], suites: &'a [String]) -> Step<'a> {
    let mut args = vec!["test", "--workspace", "--all-features", "--no-fail-fast"];
    args.extend(suites.iter().flat_map(|suite| ["--test", suite]));
    args.push("--");
    Step { name: suites.join(", "), args, engines: engines.into() }
}

fn steps<'a>(engines: &[Engine]) -> Vec<Step<'a>> {
    let mut steps = vec![Step {
        name: "everything, with all features".into(),
        args: vec!["test", "--workspace", "--all-features", "--no-fail-fast", "--"],
        engines: engines.into(),
    }];
    for group in engines.chunk_by(|one, other| one.feature() == other.feature()) {
        let feature = group[0].feature();
        steps.push(Step {
            name: format!("queue with the feature {feature} alone"),
            // the examples in the documentation use SQLite; the first step runs them
            args: vec![
                "test",
                "--package",
                "queue",
                "--lib",
                "--no-default-features",
                "--features",
                feature,
                "--no-fail-fast",
                "--",
            ],
            engines: group.into(),
        });
    }
    steps
}

/// The tests that compile more than a hundred small programs. They need no server.
const COMPILES: &str = "the_compiler_";

/// Builds all tests, so that two programs can run side by side afterwards.
fn build<'a>(engines: &[Engine]) -> Step<'a> {
    let args = vec!["test", "--workspace", "--all-features", "--no-run"];
    Step { name: "building it all".into(), args, engines: engines.into() }
}

/// [`COMPILES`] alone.
fn compiles<'a>(engines: &[Engine]) -> Step<'a> {
    let args = vec!["test", "--workspace", "--all-features", "--test", "ui", "--", COMPILES];
    Step { name: "what the compiler says".into(), args, engines: engines.into() }
}

/// The conformance suite through a pooler that lends sessions of the server.
fn pooled<'a>() -> Step<'a> {
    Step {
        name: "PostgreSQL through PgBouncer".into(),
        args: vec!["test", "--workspace", "--all-features", "--test", "conformance", "--no-fail-fast", "--"],
        engines: vec![Engine::Postgres],
    }
}

/// The short form of every fault. It starts servers of its own, since it kills them.
fn faults<'a>(engines: &[Engine]) -> Step<'a> {
    let mut args = faults::CARGO_WORDS.to_vec();
    args.extend(engines.iter().flat_map(|engine| ["--engine", engine.name()]));
    Step { name: "faults, in their short form".into(), args, engines: engines.into() }
}

/// How a step ended.
struct Outcome {
    name: String,
    tally: Tally,
    success: bool,
    took: Duration,
    /// The end of what a step printed that failed without a failed test: what did not compile, for example.
    last_words: Vec<String>,
}

/// How many lines of it.
const LAST_WORDS: usize = 20;

impl Outcome {
    fn without_tests(name: &str, success: bool, took: Duration) -> Outcome {
        let tally = Tally { failed: usize::from(!success), ..Tally::default() };
        Outcome { name: name.into(), tally, success, took, last_words: Vec::new() }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let engines = Engine::selection(&args.engines);
    let start = Instant::now();
    let given = |engine: &Engine| engine.variable().is_some_and(|name| env::var_os(name).is_some());
    let to_start: Vec<Engine> = engines.iter().copied().filter(|engine| !given(engine)).collect();
    ensure!(
        args.postgres.is_none() || to_start.contains(&Engine::Postgres),
        "--postgres chooses the server that is started, and none is: leave it out, or unset QUEUE_TEST_POSTGRES_URL \
         and ask for the engine postgres"
    );
    let postgres = args.postgres.or_else(postgres::version);
    install_with_oracle(&to_start, postgres)?;
    let names: Vec<String> = to_start.iter().filter(|it| it.variable().is_some()).map(Engine::to_string).collect();
    if !names.is_empty() {
        eprintln!("starting {} ...", names.join(", "));
    }
    let mut servers = Servers::start(&to_start, &Settings::new(Durability::Relaxed).postgres(postgres))?;
    let mut outcomes = Vec::new();
    if !names.is_empty() {
        outcomes.push(Outcome::without_tests("starting the servers", true, start.elapsed()));
    }
    let only = !args.suites.is_empty();
    let mut steps = if only { vec![suites(&engines, &args.suites)] } else { steps(&engines) };
    if !only && args.filters.is_empty() {
        outcomes.push(run_step(build(&engines), &servers, postgres, &[])?);
        let mut first = steps.remove(0);
        first.args.extend(["--skip", COMPILES]);
        let (first, beside) = thread::scope(|scope| {
            let beside = scope.spawn(|| run_step(compiles(&engines), &servers, postgres, &[]));
            (run_step(first, &servers, postgres, &[]), beside.join())
        });
        outcomes.extend([first?, beside.map_err(|_| anyhow!("the test beside it panicked"))??]);
    }
    for mut step in steps {
        step.args.extend(args.filters.iter().map(String::as_str));
        outcomes.push(run_step(step, &servers, postgres, &[])?);
        // Else every test after the end of a server would fail without saying why.
        if let Err(error) = servers.check() {
            println!("\n{error:#}");
            outcomes.push(Outcome::without_tests("the servers go on running", false, start.elapsed()));
            break;
        }
    }
    if engines.contains(&Engine::Postgres)
        && !only
        && let Some(server) = servers.url(Engine::Postgres).or_else(|| Engine::Postgres.url())
    {
        let given = env::var(pgbouncer::VARIABLE).ok().filter(|url| !url.is_empty());
        let ours = given.is_none().then(|| PgBouncer::start(&server)).transpose()?;
        let url = given.or_else(|| ours.as_ref().map(PgBouncer::url)).unwrap_or_default();
        let mut step = pooled();
        // without a wish, all tests of this engine and no others
        step.args.extend(args.filters.iter().map(String::as_str));
        step.args.extend(args.filters.is_empty().then_some("postgres::"));
        outcomes.push(run_step(step, &servers, postgres, &[(pgbouncer::VARIABLE, url)])?);
    }
    if args.filters.is_empty() && !only {
        outcomes.push(run_step(faults(&engines), &servers, postgres, &[])?);
    }
    drop(servers);
    Ok(summarize(&outcomes))
}

fn run_step(step: Step<'_>, servers: &Servers, postgres: Option<u32>, variables: &[(&str, String)]) -> Result<Outcome> {
    let start = Instant::now();
    println!("\n==> {}: cargo {}", step.name, step.args.join(" "));
    let mut command = process::command(env::var_os("CARGO").unwrap_or("cargo".into()), None, Signal::SIGKILL);
    command.current_dir(paths::workspace()).args(&step.args);
    let names: Vec<&str> = step.engines.iter().map(|engine| engine.name()).collect();
    command.env("QUEUE_TEST_ENGINES", names.join(",")).env("QUEUE_TEST_REQUIRE_ALL", "1");
    command.envs(servers.variables());
    if env::var_os(THREADS).is_none() {
        // most of a test is waiting: for a server, or for time to pass
        let processors = thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (2 * processors).to_string());
    }
    // for one step alone
    command.env_remove(pgbouncer::VARIABLE);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    // Some tests start servers of their own.
    command.envs(postgres.map(|version| (postgres::VERSION_VARIABLE, version.to_string())));
    // One pipe for both, or the names of the test programs (on standard error) and their results would drift apart.
    let (output, input) = std::io::pipe().context("a pipe for the output of cargo")?;
    command.stdout(input.try_clone()?).stderr(input);

    let mut cargo = Supervised::spawn(command, Signal::SIGKILL)?;
    let reader = thread::spawn(move || {
        let (mut tally, mut last_words) = (Tally::default(), VecDeque::new());
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let text = String::from_utf8_lossy(&line);
            tally.read(&text);
            last_words.push_back(text.into_owned());
            if last_words.len() > LAST_WORDS {
                last_words.pop_front();
            }
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
        }
        (tally, last_words)
    });
    let status = cargo.wait()?;
    // A process that a test left behind would keep the pipe open.
    drop(cargo);
    let (mut tally, mut last_words) = reader.join().unwrap_or_default();
    if status.success() || tally.failed > 0 {
        last_words.clear();
    } else {
        // What did not compile, or ended without a word, counts too.
        tally.failed = 1;
    }
    let last_words = last_words.into();
    Ok(Outcome { name: step.name, tally, success: status.success(), took: start.elapsed(), last_words })
}

/// What failed is told once more: with some thousand lines of output, what comes last is what is read.
fn summarize(outcomes: &[Outcome]) -> ExitCode {
    for Failure { name, story } in outcomes.iter().flat_map(|outcome| &outcome.tally.failures) {
        println!("\n{name} failed:\n{}", story.join("\n"));
    }
    for Outcome { name, last_words, .. } in outcomes.iter().filter(|outcome| !outcome.last_words.is_empty()) {
        println!("\n{name} failed without a failed test. Its last words:\n{}", last_words.join("\n"));
    }
    println!("\nsummary");
    for Outcome { name, tally, success, took, .. } in outcomes {
        let Tally { passed, failed, ignored, failures, .. } = tally;
        let result = if *success { "ok" } else { "FAILED" };
        let seconds = took.as_secs_f64();
        let mut line = format!("  {name:<40} {result:<6} {seconds:>6.1} s");
        if passed + failed > 0 {
            line += &format!("  {passed} passed, {failed} failed");
        }
        if *ignored > 0 {
            line += &format!(", {ignored} ignored");
        }
        println!("{line}");
        failures.iter().for_each(|failure| println!("      {}", failure.name));
    }
    let sum = |count: fn(&Tally) -> usize| outcomes.iter().map(|outcome| count(&outcome.tally)).sum::<usize>();
    println!("{} passed, {} failed", sum(|it| it.passed), sum(|it| it.failed));
    if outcomes.iter().all(|outcome| outcome.success) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::{steps, suites};
    use queue_test_servers::Engine;

    #[test]
    fn a_suite_alone_is_one_program() {
        let names = ["conformance".to_owned()];
        let step = suites(&[Engine::Postgres], &names);
        assert_eq!(step.args[3..], ["--no-fail-fast", "--test", "conformance", "--"]);
        assert_eq!(step.engines, [Engine::Postgres]);
    }

    #[test]
    fn a_feature_is_tested_once() {
        let names: Vec<_> = steps(&Engine::selection(&[]))
            .into_iter()
            .filter_map(|step| step.args.iter().rev().nth(2).copied())
            .collect();
        assert_eq!(names, ["--all-features", "sqlite", "postgres", "mysql"]);
    }
}
