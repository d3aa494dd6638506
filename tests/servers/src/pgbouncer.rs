//! PgBouncer in transaction mode, out of Debian's unstable suite: that of its stable release cannot keep prepared
//! statements.

use std::fs::{self, File};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::Signal;

use crate::account::Account;
use crate::debian::{self, Package};
use crate::engine::Engine;
use crate::folder::Folder;
use crate::port;
use crate::process::{self, Supervised, check_interrupted};

/// The variable that tells the tests where it is.
pub const VARIABLE: &str = "QUEUE_TEST_PGBOUNCER_URL";

const PACKAGE: Package = Package {
    name: "pgbouncer",
    folder: "pgbouncer",
    megabytes: 31,
    cure: "give its address in QUEUE_TEST_PGBOUNCER_URL, or leave PostgreSQL out with --engine",
};

/// How long it may take to start.
const START: Duration = Duration::from_secs(30);
/// Sessions of the server for each database. Fewer than a test has connections, so that they are lent from one to the
/// other.
const SESSIONS: u32 = 6;

/// A PgBouncer that serves every database of one server. Ended when dropped.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    _process: Supervised,
    _folder: Folder,
}

impl PgBouncer {
    /// Starts one in front of a PostgreSQL server, at `postgres://user@host:port/database`, on a free port.
    ///
    /// # Errors
    /// When it cannot be had or started; the message has the end of its log.
    pub fn start(server: &str) -> Result<PgBouncer> {
        let unpacked = debian::fetch(&PACKAGE, "usr/sbin/pgbouncer")?;
        let account = Account::for_server("postgres")?;
        let folder = Folder::create(Engine::Postgres, account.as_ref(), None)?;
        let port = port::free()?;
        let config = folder.temporary().join("pgbouncer.ini");
        fs::write(&config, settings(server, port)?).context("writing PgBouncer's settings")?;
        let log = File::create(folder.log()).context("creating PgBouncer's log")?;
        let mut command = process::command(&unpacked.loader, account.as_ref(), Signal::SIGKILL);
        command.args(unpacked.args()).arg(&config).stdout(log.try_clone()?).stderr(log);
        let mut process = Supervised::spawn(command, Signal::SIGKILL)?;
        let patience = Instant::now() + START;
        while !port::accepts(port) {
            if let Some(status) = process.ended()? {
                bail!("PgBouncer ended at once ({status}):\n{}", folder.log_tail());
            }
            if Instant::now() > patience {
                bail!("PgBouncer was not ready within {START:?}:\n{}", folder.log_tail());
            }
            check_interrupted()?;
            sleep(process::TICK);
        }
        Ok(PgBouncer { port, _process: process, _folder: folder })
    }

    /// The server's address through it.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

fn settings(server: &str, port: u16) -> Result<String> {
    let address = server.split_once("://").and_then(|(_, rest)| rest.split('/').next()).unwrap_or_default();
    let (user, address) = address.rsplit_once('@').unwrap_or(("postgres", address));
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let (host, server_port) = address.rsplit_once(':').unwrap_or((address, "5432"));
    let password = if password.is_empty() { String::new() } else { format!(" password={password}") };
    if host.is_empty() {
        bail!("{server} is not the address of a PostgreSQL server");
    }
    Ok(format!(
        "[databases]\n\
         * = host={host} port={server_port} user={user}{password}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         max_prepared_statements = 200\n\
         default_pool_size = {SESSIONS}\n\
         max_client_conn = 5000\n\
         ignore_startup_parameters = extra_float_digits\n\
         log_connections = 0\n\
         log_disconnections = 0\n"
    ))
}
