//! PostgreSQL.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use crate::account::Account;
use crate::folder::Folder;
use crate::postgres_wheel;
use crate::process;
use crate::programs::is_program;
use crate::recipe::{Durability, Recipe, Settings, option};

/// The variable that names the major version of the servers that are started, for this process and its children.
pub const VERSION_VARIABLE: &str = "QUEUE_TEST_POSTGRES_VERSION";

/// The major version that [`VERSION_VARIABLE`] names.
///
/// # Panics
/// When it names none.
pub fn version() -> Option<u32> {
    let text = std::env::var(VERSION_VARIABLE).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{VERSION_VARIABLE} is {text:?}: write a major version, such as 18")))
}

/// The folder with the server's programs. Debian keeps them out of `PATH`, one folder per version. The newest counts,
/// unless a version is asked for. Version 18 is downloaded where the machine has none.
///
/// # Errors
/// When there are none.
pub fn programs(version: Option<u32>) -> Result<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(number, folder)| version.is_none_or(|it| it == *number) && has_server(folder))
        .collect();
    versions.sort();
    let newest = versions.pop().map(|(_, folder)| folder);
    match (newest, version) {
        (Some(folder), _) => return Ok(folder),
        (None, Some(postgres_wheel::VERSION)) => return postgres_wheel::fetch(),
        (None, Some(version)) => bail!(
            "/usr/lib/postgresql has no version {version}: install it, ask for {}, or leave the version out",
            postgres_wheel::VERSION
        ),
        (None, None) => {}
    }
    let in_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let found = in_path.into_iter().flatten().find(|folder| has_server(folder));
    found.context("neither /usr/lib/postgresql nor PATH has initdb and postgres")
}

fn has_server(folder: &Path) -> bool {
    is_program(&folder.join("initdb")) && is_program(&folder.join("postgres"))
}

pub(crate) fn prepare(folder: &Folder, account: Option<Account>, settings: &Settings) -> Result<Recipe> {
    let programs = programs(settings.postgres)?;
    let mut initdb = process::command(programs.join("initdb"), account.as_ref(), Signal::SIGTERM);
    initdb.arg(option("pgdata", &folder.data()));
    // Whatever the machine's locale is, the log is in the language that `ready` is looked for in.
    initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
    process::run(initdb)?;
    recipe(folder, account, settings)
}

/// What it takes to start a server on a data directory that is there.
pub(crate) fn recipe(folder: &Folder, account: Option<Account>, settings: &Settings) -> Result<Recipe> {
    let programs = programs(settings.postgres)?;
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
