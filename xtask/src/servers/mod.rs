//! `cargo xtask servers`: servers for development.

mod detached;

use std::thread::sleep;

use anyhow::Result;

use crate::install::install;
use queue_test_servers::process::{self, check_interrupted};
use queue_test_servers::{Durability, Engine, Servers, Settings};

/// Starts database servers for development, prints the variables that point the tests at them, and waits for Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these engines (repeat, or separate by commas); all by default
    #[arg(long = "engine", value_name = "ENGINE", value_delimiter = ',', value_enum)]
    engines: Vec<Engine>,
    /// Leave the servers running in the background and write the variables to target/servers/env as well
    #[arg(long, conflicts_with = "stop")]
    detach: bool,
    /// Keep the servers' default durability, for measurements. Otherwise nothing is forced to the disk
    #[arg(long, conflicts_with = "stop")]
    durable: bool,
    /// Stop the servers that --detach left running
    #[arg(long)]
    stop: bool,
    /// Report that the servers are ready, as the process in the background does
    #[arg(long, hide = true)]
    report: bool,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let engines = Engine::selection(&args.engines);
    if args.stop {
        detached::stop()?;
    } else if args.detach {
        print!("{}", detached::start(&engines, args.durable)?);
    } else {
        install(&engines)?;
        eprintln!("starting the servers ...");
        let durability = if args.durable { Durability::Stock } else { Durability::Relaxed };
        let mut servers = Servers::start(&engines, &Settings::new(durability))?;
        let exports = |(name, url)| format!("export {name}={url}\n");
        let variables: String = servers.variables().into_iter().map(exports).collect();
        let _report = args.report.then(|| detached::report(&variables)).transpose()?;
        print!("{variables}");
        eprintln!("running; Ctrl-C stops them");
        while check_interrupted().is_ok() {
            servers.check()?;
            sleep(process::TICK);
        }
    }
    Ok(true)
}
