//! MariaDB.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

use super::{Durability, Folder, MAX_CONNECTIONS, Recipe, option};
use crate::account::Account;
use crate::install::is_program;
use crate::process;

/// The server and the program that makes a data directory.
pub(crate) fn programs() -> Result<(PathBuf, PathBuf)> {
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

pub(super) fn prepare(folder: &Folder, account: Option<Account>, durability: Durability) -> Result<Recipe> {
    let (server, install) = programs()?;
    let mut command = process::command(install, account.as_ref(), Signal::SIGTERM);
    command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    command.arg(option("datadir", &folder.data()));
    process::run(command)?;

    let mut args = vec![
        // First, or the server refuses it.
        "--no-defaults".into(),
        option("datadir", &folder.data()),
        "--bind-address=127.0.0.1".into(),
        // Its own: a server that starts removes the temporary tables of all others that use the same folder.
        option("tmpdir", &folder.data()),
        // Relative to the data directory: a socket's path may have some hundred bytes, and a target folder may lie deep.
        "--socket=server.sock".into(),
        format!("--max-connections={MAX_CONNECTIONS}"),
    ];
    if durability == Durability::Relaxed {
        args.extend(
            ["--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=OFF", "--loose-innodb-flush-method=nosync"]
                .map(String::from),
        );
    }
    Ok(Recipe {
        program: server,
        args,
        account,
        stop: Signal::SIGKILL,
        ready: ": ready for connections",
        url: "mysql://root@127.0.0.1:PORT/mysql",
    })
}
