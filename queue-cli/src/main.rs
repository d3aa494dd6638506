//! The command line of `queue` for any database.

use std::process::ExitCode;

fn main() -> ExitCode {
    queue_cli::Cli::new().main()
}
