//! `cargo xtask faults`: the fault suite, built and run with the words given.

use std::process::Command;

use anyhow::Result;
use clap::ValueEnum as _;
use queue_test_servers::Engine;

use crate::install::install;
use crate::tool::{cargo, succeeds};

/// Tries the promises of delivery by faults on servers of its own; --help tells the words.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// --engine E, --fault NAME, --seed N, --jobs N, --rounds N, --parallel N, --short, --long, --list, --help
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    if !args.words.iter().any(|word| ["--help", "-h", "--list"].contains(&word.as_str())) {
        install(&Engine::selection(&engines(&args.words)))?;
    }
    succeeds(suite(&args.words))
}

/// The suite, built and run with these words. Cargo becomes the program: what ends the one ends the other.
pub(crate) fn suite(words: &[String]) -> Command {
    // the long form's promises about time are those of an optimized build
    let release = words.iter().any(|word| word == "--long").then_some("--release");
    let mut command = cargo(["run", "--quiet", "--package", "queue-faults"]);
    command.args(release).arg("--").args(words);
    command
}

/// The engines asked for. What is no engine is told by the suite.
fn engines(words: &[String]) -> Vec<Engine> {
    let after = words.windows(2).filter(|pair| pair[0] == "--engine").map(|pair| pair[1].as_str());
    let joined = words.iter().filter_map(|word| word.strip_prefix("--engine="));
    let names = after.chain(joined).flat_map(|names| names.split(','));
    names.filter_map(|name| Engine::from_str(name, false).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::engines;
    use queue_test_servers::Engine;

    #[test]
    fn engines_are_found_among_the_words() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(engines(&words("--fault cut --engine mysql,sqlite")), [Engine::MySql, Engine::Sqlite]);
        assert_eq!(engines(&words("--engine=postgres --seed 7")), [Engine::Postgres]);
        assert_eq!(engines(&words("--seed 7")), []);
    }
}
