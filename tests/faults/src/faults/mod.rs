//! The faults. Each names the promises of `docs/reliability.md` that it threatens. The checker judges the others, too.

mod calm;
mod cancel;
mod clock;
mod complete_in;
mod connections;
mod deploy;
mod disk;
mod failover;
mod galera;
mod handler;
pub(crate) mod hostile;
mod kill;
mod lock;
mod network;
mod schedules;
mod schedules_clock;
mod server;
mod snapshot;
mod sqlite;
mod stop;
mod unique;

use std::fmt;
use std::pin::Pin;

use anyhow::Result;
use queue_test_servers::Settings;
use queue_test_support::Engine;

use crate::scene::{Order, Place, Scene};

/// Where a fault happens.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The engine.
    pub engine: Engine,
    /// The request on the command line.
    pub order: Order,
    /// The address of a server that the faults share; `None` for SQLite.
    pub shared: Option<String>,
}

impl Ground {
    async fn scene(&self) -> Result<Scene> {
        Scene::new(self.engine, Place::Shared(self.shared.clone()), self.order).await
    }

    async fn own(&self, settings: Settings) -> Result<Scene> {
        Scene::new(self.engine, Place::Own(Box::new(settings)), self.order).await
    }
}

/// Why a fault could not be tried here.
#[derive(Debug)]
pub struct Skipped(pub String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// A running fault. It results in figures.
type Running<'a> = Pin<Box<dyn Future<Output = Result<Vec<String>>> + 'a>>;

/// A fault.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The engines to which it applies.
    pub engines: &'static [Engine],
    /// Prepares the scene, starts the load, causes the fault, and runs the checker.
    pub run: for<'a> fn(&'a Ground) -> Running<'a>,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").field("name", &self.name).finish_non_exhaustive()
    }
}

const ALL: &[Engine] = &[Engine::Sqlite, Engine::Postgres, Engine::MariaDb, Engine::MySql];
const SERVERS: &[Engine] = &[Engine::Postgres, Engine::MariaDb, Engine::MySql];
const POSTGRES: &[Engine] = &[Engine::Postgres];
const MARIADB: &[Engine] = &[Engine::MariaDb];
const SQLITE: &[Engine] = &[Engine::Sqlite];

macro_rules! faults {
    ($($name:literal on $engines:ident: $run:path, $about:literal;)*) => {
        /// Every fault.
        pub const FAULTS: &[Fault] = &[$(
            Fault { name: $name, about: $about, engines: $engines, run: |ground| Box::pin($run(ground)) },
        )*];
    };
}

faults! {
    "kill9" on ALL: kill::at_random, "kill -9 of worker processes at random moments, default lease";
    "kill9-apart" on SERVERS: kill::apart, "kill -9 of one worker at a time, with seconds between, default lease";
    "kill9-points" on ALL: kill::at_points,
        "workers kill themselves after a claim, in the handler, before and in the write of its end";
    "kill9-claimer" on ALL: kill::the_only_claimer,
        "kill -9 of the only worker of a queue that is run one by one: the order holds";
    "calm" on SERVERS: calm::nobody_dies,
        "no fault, but more to compute than there are cores: nobody is taken for gone (--rounds: seconds)";
    "cancel" on ALL: cancel::beside_kills, "jobs are cancelled in every state, while workers are killed";
    "sigstop" on ALL: stop::past_the_lease, "SIGSTOP of a worker beyond its lease, then SIGCONT";
    "server-kill" on SERVERS: server::killed, "kill -9 of the database server under load, and its restart";
    "server-stop" on SERVERS: server::stopped, "the database server is stopped for a while";
    "terminate" on SERVERS: connections::terminated, "every connection is terminated, again and again";
    "limit" on SERVERS: connections::limit_reached, "others take every connection that the server has";
    "cut" on SERVERS: network::cut, "the network is cut and comes back";
    "half-open" on SERVERS: network::half_open, "packets vanish, connections stay open";
    "delay" on SERVERS: network::delay, "every request takes 200 ms longer";
    "stall" on SERVERS: network::stall, "a commit's reply stops midway";
    "locks" on SERVERS: lock::foreign_locks, "a foreign session holds locks on our tables";
    "deadlocks" on SERVERS: lock::deadlocks, "foreign sessions update our rows in opposite orders";
    "snapshot" on SERVERS: snapshot::old, "a long transaction holds an old snapshot";
    "file-locked" on SQLITE: sqlite::file_locked, "another process locks the file for longer than the busy timeout";
    "checkpoint" on SQLITE: sqlite::checkpoint_blocked, "a reader keeps the write-ahead log from being checkpointed";
    "copy" on SQLITE: sqlite::copied, "a copy is taken while all is running, and is consistent";
    "abort" on ALL: handler::aborts, "handlers that abort their process";
    "abort-crowd" on ALL: handler::aborts_in_a_crowd, "one handler of a hundred aborts its process, in each attempt";
    "abort-stubborn" on ALL: handler::aborts_stubbornly,
        "the same a while after it began, with more retries than its neighbours have";
    "memory-crowd" on ALL: handler::eats_in_a_crowd, "one handler of a hundred takes all memory, in each attempt";
    "block" on ALL: handler::blocks, "handlers that block their thread, never yield, or ignore their cancellation";
    "memory" on ALL: handler::eats, "handlers that take all memory that the process may have";
    "disk-full" on ALL: disk::full, "the disk of the database is full, and is freed";
    "clock-workers" on SERVERS: clock::of_workers, "worker processes whose clocks are a day ahead and a day behind";
    "clock-server" on SERVERS: clock::of_the_server, "the database's clock is set back by an hour, and put right again";
    "failover" on POSTGRES: failover::to_the_replica,
        "the primary is killed and its synchronous replica promoted, behind one address";
    "galera" on MARIADB: galera::a_node_is_killed, "workers on three nodes, one of which is killed with -9 and rejoins";
    "galera-lag" on MARIADB: galera::nodes_lag,
        "a node falls behind, with workers whose connections lead to several of them";
    "bad-rows" on ALL: hostile::bad_rows, "as many bad rows as good ones, written by SQL";
    "schedules" on ALL: schedules::every_second,
        "schedules that tick each second, while workers are killed (--rounds: kills)";
    "schedules-clock" on SERVERS: schedules_clock::set_forward_and_back,
        "the clock of the database is set forward and back by an hour, with schedules of each policy";
    "unique" on ALL: unique::one_holder,
        "unique jobs, while the processes that enqueue and run them are killed and suspended (--rounds: faults)";
    "complete-in" on ALL: complete_in::one_effect,
        "handlers that commit their effects with the completion, killed and suspended around it (--rounds: kills)";
    "deploy" on ALL: deploy::side_by_side, "an old and a new binary side by side, while the schema is migrated";
}

/// Faults without rounds: they happen once, for a time or a number of jobs.
pub const WITHOUT_ROUNDS: &[&str] = &[
    "server-stop",
    "delay",
    "deadlocks",
    "snapshot",
    "checkpoint",
    "bad-rows",
    "abort-crowd",
    "abort-stubborn",
    "memory-crowd",
];
