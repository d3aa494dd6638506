//! `cargo xtask screenshots`: a picture of every screen of the dashboard.

use anyhow::Result;
use queue_test_servers::paths;

use crate::install::{install_all, needs_of_browser};
use crate::tool::{cargo, succeeds};

/// Writes every screen of the dashboard as PNG files to target/screenshots: 360 and 1280 pixels wide, in light and in
/// dark colours, with a made-up world in SQLite.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these screens, such as `overview`: the names of the files say which there are
    #[arg(value_name = "SCREEN")]
    screens: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    install_all(needs_of_browser())?;
    let mut command = cargo(["run", "--quiet", "--package", "queue-browser-tests", "--all-features", "--"]);
    command.arg(paths::target().join("screenshots")).args(&args.screens);
    succeeds(command)
}
