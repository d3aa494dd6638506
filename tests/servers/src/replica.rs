//! A PostgreSQL server with a streaming replica.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::signal::Signal;

use crate::account::Account;
use crate::engine::Engine;
use crate::folder::Folder;
use crate::postgres;
use crate::process::{self, check_interrupted};
use crate::recipe::{Settings, option};
use crate::server::Server;

/// How the replica calls itself.
const NAME: &str = "replica";
/// How long the replica may take to receive what the primary writes.
const STREAMING: Duration = Duration::from_secs(30);

/// A primary and its replica. A commit is answered when the replica has it on its disk, too
/// (`synchronous_standby_names`).
#[derive(Debug)]
pub struct Replicated {
    /// The one that takes writes.
    pub primary: Server,
    /// The one that follows.
    pub replica: Server,
}

impl Replicated {
    /// Starts both. Returns when the replica receives what the primary writes.
    ///
    /// # Errors
    /// When one of them cannot be started; the message has the end of its log.
    pub fn start(settings: &Settings) -> Result<Replicated> {
        let mut primary = Server::prepare(Engine::Postgres, settings)?;
        // from the start, since nothing is committed before there is a replica
        primary.reconfigure(&[&format!("--synchronous_standby_names={NAME}")], &[]);
        primary.start_first()?;
        let replica = follow(&primary, settings)?;
        let both = Replicated { primary, replica };
        let patience = Instant::now() + STREAMING;
        while !both.replica.log().contains("started streaming WAL from primary") {
            if Instant::now() > patience {
                bail!("the replica does not follow within {STREAMING:?}:\n{}", process::tail(&both.replica.log()));
            }
            check_interrupted()?;
            sleep(process::TICK);
        }
        Ok(both)
    }

    /// Makes the replica take writes. Returns when it does.
    ///
    /// # Errors
    /// When it does not run, or does not become a primary within a minute.
    pub fn promote(&self) -> Result<()> {
        let mut command = self.replica.program(self.replica.beside("pg_ctl"));
        command.args(["promote", "--wait", "--timeout=60"]).arg(option("pgdata", &self.replica.data()));
        process::run(command)
    }
}

fn follow(primary: &Server, settings: &Settings) -> Result<Server> {
    let account = Account::for_server("postgres")?;
    let folder = Folder::create(Engine::Postgres, account.as_ref(), None)?;
    let mut copy = process::command(primary.beside("pg_basebackup"), account.as_ref(), Signal::SIGTERM);
    copy.arg(option("pgdata", &folder.data())).args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
    let port = primary.port();
    copy.arg(format!("--dbname=host=127.0.0.1 port={port} user=postgres application_name={NAME}"));
    process::run(copy)?;
    let mut recipe = postgres::recipe(&folder, account, settings)?;
    recipe.ready = "ready to accept read-only connections";
    recipe.args.extend(settings.args.iter().cloned());
    let mut replica = Server::on(Engine::Postgres, folder, recipe)?;
    replica.start_first()?;
    Ok(replica)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Replicated;
    use crate::recipe::{Durability, Settings};

    #[test]
    fn a_replica_takes_over() {
        if crate::postgres::programs(crate::postgres::version()).is_err() || !crate::Engine::Postgres.is_selected() {
            println!("skipped: no PostgreSQL here");
            return;
        }
        let mut both = Replicated::start(&Settings::new(Durability::Process)).expect("started");
        both.primary.kill().expect("killed");
        both.promote().expect("promoted");
        // logged a moment after the promotion is told
        let end = Instant::now() + Duration::from_secs(30);
        while !both.replica.log().contains("ready to accept connections") {
            assert!(Instant::now() < end, "{}", both.replica.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
