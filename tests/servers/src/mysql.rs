//! MySQL proper.

use anyhow::Result;
use nix::sys::signal::Signal;

use crate::account::Account;
use crate::folder::Folder;
use crate::recipe::{Durability, Recipe, Settings, option};
use crate::{mysql_packages, process};

pub(crate) fn prepare(folder: &Folder, account: Option<Account>, settings: &Settings) -> Result<Recipe> {
    let mysql = mysql_packages::fetch()?;
    let mut args = vec![
        // Its own libraries, the C library included: those of the machine are older than the server wants.
        "--library-path".into(),
        mysql.libraries.display().to_string(),
        mysql.server.display().to_string(),
        "--no-defaults".into(),
        option("datadir", &folder.data()),
        option("tmpdir", &folder.temporary()),
        option("lc-messages-dir", &mysql.share),
        option("character-sets-dir", &mysql.share.join("charsets")),
        option("plugin-dir", &mysql.plugins),
        // The package's default is a folder that only its installation makes.
        "--secure-file-priv=".into(),
        "--mysqlx=OFF".into(),
    ];
    let mut command = process::command(&mysql.loader, account.as_ref(), Signal::SIGTERM);
    command.args(&args).arg("--initialize-insecure");
    if settings.durability != Durability::Stock {
        command.args(UNFORCED);
        args.extend(UNFORCED.map(String::from));
    }
    if settings.durability == Durability::Relaxed {
        args.push("--innodb-doublewrite=OFF".into());
    }
    process::run(command)?;

    args.extend([
        "--bind-address=127.0.0.1".into(),
        // Relative to the data directory: a socket's path may have some hundred bytes, and a target folder may lie deep.
        "--socket=server.sock".into(),
        format!("--max-connections={}", settings.max_connections),
    ]);
    Ok(Recipe {
        program: mysql.loader,
        args,
        account,
        variables: Vec::new(),
        stop: Signal::SIGTERM,
        end: Signal::SIGKILL,
        ready: ": ready for connections",
        url: "mysql://root@127.0.0.1:PORT/mysql",
    })
}

const UNFORCED: [&str; 3] =
    ["--skip-log-bin", "--innodb-flush-log-at-trx-commit=2", "--loose-innodb-flush-method=nosync"];
