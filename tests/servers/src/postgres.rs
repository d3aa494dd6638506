//! PostgreSQL.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use crate::account::Account;
use crate::folder::Folder;
use crate::process;
use crate::programs::is_program;
use crate::recipe::{Durability, Recipe, Settings, option};

/// The folder with the server's programs. Debian keeps them out of `PATH`, one folder per version: the newest counts.
///
/// # Errors
/// When there are none.
pub fn programs() -> Result<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    let in_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    versions
        .into_iter()
        .rev()
        .map(|(_, folder)| folder)
        .chain(in_path.into_iter().flatten())
        .find(|folder| is_program(&folder.join("initdb")) && is_program(&folder.join("postgres")))
        .context("neither /usr/lib/postgresql nor PATH has initdb and postgres")
}

pub(crate) fn prepare(folder: &Folder, account: Option<Account>, settings: &Settings) -> Result<Recipe> {
    let programs = programs()?;
    let mut initdb = process::command(programs.join("initdb"), account.as_ref(), Signal::SIGTERM);
    initdb.arg(option("pgdata", &folder.data()));
    // Whatever the machine's locale is, the log is in the language that `ready` is looked for in.
    initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    process::run(initdb)?;
    recipe(folder, account, settings)
}

/// What it takes to start a server on a data directory that is there.
pub(crate) fn recipe(folder: &Folder, account: Option<Account>, settings: &Settings) -> Result<Recipe> {
    let programs = programs()?;
    let mut args = vec![
        "-D".into(),
        folder.data().display().to_string(),
        "--listen_addresses=127.0.0.1".into(),
        // A socket's path may have some hundred bytes, and a target folder may lie deep.
        "--unix_socket_directories=".into(),
        format!("--max_connections={}", settings.max_connections),
    ];
    if settings.durability != Durability::Stock {
        args.push("--fsync=off".into());
    }
    if settings.durability == Durability::Relaxed {
        args.extend(["--synchronous_commit=off", "--full_page_writes=off"].map(String::from));
    }
    Ok(Recipe {
        program: programs.join("postgres"),
        args,
        account,
        variables: Vec::new(),
        // Fast shutdown: clients are cut off.
        stop: Signal::SIGINT,
        // Immediate shutdown: unlike SIGKILL it gives the shared memory back.
        end: Signal::SIGQUIT,
        ready: "ready to accept connections",
        url: "postgres://postgres@127.0.0.1:PORT/postgres",
    })
}
