//! MariaDB.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use crate::account::Account;
use crate::folder::Folder;
use crate::process;
use crate::programs::is_program;
use crate::recipe::{Durability, Recipe, Settings, option};

/// The server and the program that makes a data directory.
///
/// # Errors
/// When one of them is missing.
pub fn programs() -> Result<(PathBuf, PathBuf)> {
    Ok((find("mariadbd")?, find("mariadb-install-db")?))
}

fn find(program: &str) -> Result<PathBuf> {
    // Debian's folder for servers is not in the PATH of ordinary users.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([Path::new("/usr/sbin").into()])
        .map(|folder| folder.join(program))
        .find(|path| is_program(path))
        .with_context(|| format!("{program} is not in PATH"))
}

pub(crate) fn prepare(folder: &Folder, account: Option<Account>, settings: &Settings) -> Result<Recipe> {
    let (_, install) = programs()?;
    let mut command = process::command(install, account.as_ref(), Signal::SIGTERM);
    command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    command.arg(option("datadir", &folder.data())).arg(option("tmpdir", &folder.temporary()));
    process::run(command)?;
    recipe(folder, account, settings)
}

/// What it takes to start a server on a data directory that is there.
pub(crate) fn recipe(folder: &Folder, account: Option<Account>, settings: &Settings) -> Result<Recipe> {
    let (server, _) = programs()?;
    let mut args = vec![
        // First, or the server refuses it.
        "--no-defaults".into(),
        option("datadir", &folder.data()),
        option("tmpdir", &folder.temporary()),
        "--bind-address=127.0.0.1".into(),
        // Its own: a server that starts removes the temporary tables of all others that use the same folder.
        option("tmpdir", &folder.data()),
        // Relative to the data directory: a socket path is limited to about 100 bytes, and a target folder may be deep.
        "--socket=server.sock".into(),
        format!("--max-connections={}", settings.max_connections),
    ];
    if settings.durability != Durability::Stock {
        args.extend(["--innodb-flush-log-at-trx-commit=2", "--loose-innodb-flush-method=nosync"].map(String::from));
    }
    if settings.durability == Durability::Relaxed {
        args.push("--innodb-doublewrite=OFF".into());
    }
    Ok(Recipe {
        program: server,
        args,
        account,
        variables: Vec::new(),
        stop: Signal::SIGTERM,
        end: Signal::SIGKILL,
        ready: ": ready for connections",
        url: "mysql://root@127.0.0.1:PORT/mysql",
    })
}
