//! `cargo xtask oracle`.

use std::process::ExitCode;

use clap::Parser;

/// The oracle for schedules.
#[derive(Parser)]
#[command(bin_name = "cargo xtask oracle")]
struct Command {
    #[command(flatten)]
    args: queue_oracle::Args,
}

fn main() -> ExitCode {
    match queue_oracle::run(&Command::parse().args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
