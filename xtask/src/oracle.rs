//! `cargo xtask oracle`: the oracle for schedules, built and run with the words given.

use anyhow::Result;

use crate::install::{install_all, needs_of_oracle};
use crate::tool::{cargo, succeeds};

/// Holds the ticks of schedules in all time zones against a program in Python; --help tells the words.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// --sample ZONES, --zone NAME, --expression FIELDS, --jobs N, --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    if !args.words.iter().any(|word| ["--help", "-h"].contains(&word.as_str())) {
        install_all(needs_of_oracle())?;
    }
    // optimized, for there are some ten million ticks
    let mut command = cargo(["run", "--quiet", "--release", "--package", "queue-oracle", "--"]);
    command.args(&args.words);
    succeeds(command)
}
