//! MySQL proper.

use anyhow::Result;
use nix::sys::signal::Signal;

use crate::account::Account;
use crate::debian::{self, Package};
use crate::folder::Folder;
use crate::process;
use crate::recipe::{Durability, Recipe, Settings, option};

const PACKAGE: Package = Package {
    name: "mysql-server-core",
    folder: "mysql",
    megabytes: 75,
    cure: "set QUEUE_TEST_MYSQL_URL to a MySQL server that already runs, or leave it out with --engine",
};

pub(crate) fn prepare(folder: &Folder, account: Option<Account>, settings: &Settings) -> Result<Recipe> {
    let mysql = debian::fetch(&PACKAGE, "usr/sbin/mysqld")?;
    let share = mysql.root.join("usr/share/mysql");
    let mut args = mysql.args();
    args.extend([
        "--no-defaults".into(),
        option("datadir", &folder.data()),
        option("tmpdir", &folder.temporary()),
        option("lc-messages-dir", &share),
        option("character-sets-dir", &share.join("charsets")),
        option("plugin-dir", &mysql.root.join("usr/lib/mysql/plugin")),
        // The package's default is a folder that only its installation makes.
        "--secure-file-priv=".into(),
        "--mysqlx=OFF".into(),
    ]);
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
        // Relative to the data directory: a socket path is limited to about 100 bytes, and a target folder may be deep.
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
