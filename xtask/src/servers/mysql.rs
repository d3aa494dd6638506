//! MySQL proper.

use anyhow::Result;
use nix::sys::signal::Signal;

use super::{Durability, Folder, MAX_CONNECTIONS, Recipe, mysql_packages, option};
use crate::account::Account;
use crate::process;

pub(super) fn prepare(folder: &Folder, account: Option<Account>, durability: Durability) -> Result<Recipe> {
    let mysql = mysql_packages::fetch()?;
    let mut args = vec![
        // Its own libraries, the C library included: those of the machine are older than the server wants.
        "--library-path".into(),
        mysql.libraries.display().to_string(),
        mysql.server.display().to_string(),
        "--no-defaults".into(),
        option("datadir", &folder.data()),
        option("lc-messages-dir", &mysql.share),
        option("character-sets-dir", &mysql.share.join("charsets")),
        option("plugin-dir", &mysql.plugins),
        // The package's default is a folder that only its installation makes.
        "--secure-file-priv=".into(),
        "--mysqlx=OFF".into(),
    ];
    let mut command = process::command(&mysql.loader, account.as_ref(), Signal::SIGTERM);
    command.args(&args).arg("--initialize-insecure");
    if durability == Durability::Relaxed {
        command.args(RELAXED);
        args.extend(RELAXED.map(String::from));
    }
    process::run(command)?;

    args.extend([
        "--bind-address=127.0.0.1".into(),
        // Relative to the data directory: a socket's path may have some hundred bytes, and a target folder may lie deep.
        "--socket=server.sock".into(),
        format!("--max-connections={MAX_CONNECTIONS}"),
    ]);
    Ok(Recipe {
        program: mysql.loader,
        args,
        account,
        stop: Signal::SIGKILL,
        ready: ": ready for connections",
        url: "mysql://root@127.0.0.1:PORT/mysql",
    })
}

const RELAXED: [&str; 4] = [
    "--skip-log-bin",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-doublewrite=OFF",
    "--loose-innodb-flush-method=nosync",
];
