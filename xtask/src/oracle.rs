//! `cargo xtask oracle`: the oracle for schedules, built and run with the words given.

use std::env;
use std::process::ExitCode;

use anyhow::Result;
use nix::sys::signal::Signal;
use queue_test_servers::paths;
use queue_test_servers::process::{self, Supervised};

use crate::install::install_oracle;

/// Holds the ticks of schedules in all time zones against a program in Python; --help tells the words.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// --sample ZONES, --zone NAME, --expression FIELDS, --jobs N, --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !args.words.iter().any(|word| ["--help", "-h"].contains(&word.as_str())) {
        install_oracle()?;
    }
    let mut command = process::command(env::var_os("CARGO").unwrap_or("cargo".into()), None, Signal::SIGTERM);
    command.current_dir(paths::workspace()).args(CARGO_WORDS).args(&args.words);
    let status = Supervised::spawn(command, Signal::SIGTERM)?.wait()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Optimized, for there are some ten million ticks.
const CARGO_WORDS: [&str; 6] = ["run", "--quiet", "--release", "--package", "queue-oracle", "--"];
