//! The fault suite's program. It is both the suite, and the worker process that the suite starts, kills and suspends.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use queue_faults::{suite, worker};

/// The fault suite.
#[derive(Parser)]
#[command(bin_name = "cargo xtask faults", args_conflicts_with_subcommands = true)]
struct Command {
    #[command(flatten)]
    suite: suite::Args,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(clap::Subcommand)]
enum Part {
    #[command(hide = true)]
    Worker(worker::Args),
}

fn run() -> Result<ExitCode> {
    let command = Command::parse();
    let Some(Part::Worker(args)) = command.part else {
        return suite::run(&command.suite);
    };
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(worker::run(args))?;
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
