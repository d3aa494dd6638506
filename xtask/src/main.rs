//! The commands of this repository, run as `cargo xtask <command>`.
//!
//! `test` is the one to know: it installs what is missing, starts a server of each kind, runs the tests and stops the
//! servers again; `test --long` runs those that take longer. `faults` tries the promises of delivery, and `oracle` the
//! ticks of schedules in all time zones; their short forms are part of `test`. `bench` measures, beside hand-written
//! SQL. `deny` looks at the dependencies. `servers` starts the servers for development. `guide` follows the guide for
//! users. `screenshots` takes pictures of the dashboard.

use std::process::ExitCode;

use clap::Parser;
use queue_test_servers::process::{Interrupted, watch_for_interrupts};

mod bench;
mod deny;
mod faults;
mod guide;
mod install;
mod oracle;
mod screenshots;
mod servers;
mod test;
mod tool;

/// The commands of this repository.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", arg_required_else_help = true)]
enum Command {
    Test(test::Args),
    Bench(bench::Args),
    Deny(deny::Args),
    Faults(faults::Args),
    Guide(guide::Args),
    Oracle(oracle::Args),
    Screenshots(screenshots::Args),
    Servers(servers::Args),
}

fn main() -> ExitCode {
    let command = Command::parse();
    // each says whether all went well
    let end = watch_for_interrupts().and_then(|()| match command {
        Command::Test(args) => test::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Deny(args) => deny::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Guide(args) => guide::run(&args),
        Command::Oracle(args) => oracle::run(&args),
        Command::Screenshots(args) => screenshots::run(&args),
        Command::Servers(args) => servers::run(&args),
    });
    match end {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("interrupted");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
