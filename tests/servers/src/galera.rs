//! A cluster of MariaDB servers: Galera, in which every node takes writes.

use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result, anyhow};

use crate::account::Account;
use crate::engine::Engine;
use crate::folder::Folder;
use crate::programs::in_path;
use crate::recipe::{Durability, Settings, option};
use crate::server::Server;
use crate::{galera_scripts, mariadb, port, process};

/// Debian's, on every architecture.
const LIBRARY: &str = "/usr/lib/galera/libgalera_smm.so";
/// Until a node has the state of the others, it accepts connections and refuses every statement.
const READY: &str = "Synchronized with group, ready for connections";

/// Whether the library is there that makes a server a node, and what copies the state of one to another.
pub fn is_installed() -> bool {
    Path::new(LIBRARY).is_file() && in_path("rsync") && (in_path("ss") || in_path("lsof"))
}

/// Nodes of one cluster. Ended, and their data removed, when dropped.
#[derive(Debug)]
pub struct Galera(Vec<Server>);

impl Galera {
    /// Starts a cluster. Returns when all nodes have the same state.
    ///
    /// # Errors
    /// When a node cannot be started; the message has the end of its log.
    pub fn start(count: usize) -> Result<Galera> {
        let ports: Vec<u16> = (0..count).map(|_| port::free()).collect::<Result<_>>()?;
        let members: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let cluster = format!("--wsrep-cluster-address=gcomm://{}", members.join(","));
        let mut nodes = Vec::with_capacity(count);
        for (number, port) in ports.into_iter().enumerate() {
            nodes.push(node(number == 0, port)?);
        }
        let (first, others) = nodes.split_first_mut().context("a cluster has at least one node")?;
        // alone: this makes the cluster
        first.reconfigure(&["--wsrep-cluster-address=gcomm://"], &[]);
        first.start_first()?;
        first.reconfigure(&[&cluster], &[]);
        thread::scope(|scope| {
            let threads: Vec<_> = others
                .iter_mut()
                .map(|node| {
                    node.reconfigure(&[&cluster], &[]);
                    scope.spawn(|| node.start_first())
                })
                .collect();
            threads.into_iter().try_for_each(|it| it.join().unwrap_or_else(|_| Err(anyhow!("panicked"))))
        })?;
        Ok(Galera(nodes))
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Server] {
        &self.0
    }

    /// Kills a node (`kill -9`).
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        self.0[node].kill()
    }

    /// Starts a killed node. It finds its last position, and fetches the rest from another node. Returns when it has
    /// the same state as the others.
    ///
    /// # Errors
    /// When it runs, or cannot be started.
    pub fn rejoin(&mut self, node: usize) -> Result<()> {
        let node = &mut self.0[node];
        let log = node.data().join("recovery.log");
        let _ = std::fs::remove_file(&log);
        let mut recover = node.same_program();
        recover.arg("--wsrep-recover").arg(option("log-error", &log));
        process::run(recover)?;
        let text = std::fs::read_to_string(&log).with_context(|| format!("reading {}", log.display()))?;
        let position = text.lines().rev().find_map(|line| line.split_once("Recovered position: "));
        let (_, position) = position.with_context(|| format!("no position in {text}"))?;
        node.reconfigure(&[&format!("--wsrep-start-position={}", position.trim())], &[]);
        node.start_again()
    }
}

fn node(is_first: bool, group_port: u16) -> Result<Server> {
    let settings = Settings::new(Durability::Relaxed);
    let mut node = if is_first {
        Server::prepare(Engine::MariaDb, &settings)?
    } else {
        // an empty data directory: another node fills it
        let account = Account::for_server("mysql")?;
        let folder = Folder::create(Engine::MariaDb, account.as_ref(), None)?;
        std::fs::create_dir(folder.data()).context("creating a data directory")?;
        if let Some(account) = &account {
            account.own(&folder.data())?;
        }
        let recipe = mariadb::recipe(&folder, account, &settings)?;
        Server::on(Engine::MariaDb, folder, recipe)?
    };
    let (increment, state) = (port::free()?, port::free()?);
    let options = format!("gmcast.listen_addr=tcp://127.0.0.1:{group_port};ist.recv_addr=127.0.0.1:{increment}");
    node.reconfigure(
        &[
            "--binlog-format=ROW",
            "--innodb-autoinc-lock-mode=2",
            "--wsrep-on=ON",
            &format!("--wsrep-provider={LIBRARY}"),
            &format!("--wsrep-node-address=127.0.0.1:{group_port}"),
            &format!("--wsrep-provider-options={options};gcache.size=64M"),
            "--wsrep-sst-method=rsync",
            &format!("--wsrep-sst-receive-address=127.0.0.1:{state}"),
        ],
        &[("PATH", &search_path()?)],
    );
    node.ready_at(READY);
    Ok(node)
}

/// Where the server finds its scripts, and they their programs.
fn search_path() -> Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    Ok(format!("{}:{path}:/usr/sbin:/sbin", galera_scripts::folder()?.display()))
}

#[cfg(test)]
mod tests {
    use super::Galera;

    #[test]
    fn a_killed_node_comes_back() {
        if !super::is_installed() || !crate::Engine::MariaDb.is_selected() {
            println!("skipped: no Galera here");
            return;
        }
        let mut cluster = Galera::start(3).expect("a cluster");
        cluster.kill(2).expect("killed");
        cluster.rejoin(2).expect("back");
        assert!(cluster.nodes()[2].pid().is_some(), "it runs");
    }
}
