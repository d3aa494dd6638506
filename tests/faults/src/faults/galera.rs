//! MariaDB Galera: every node takes writes, and has workers.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use queue_test_servers::{Galera, galera};
use sqlx::{Connection as _, MySqlConnection};
use tokio::task::block_in_place;

use super::{Ground, Skipped};
use crate::balancer::{Balancer, with_port};
use crate::checker::{Checker, History};
use crate::crew::Crew;
use crate::load::{Load, Mix};
use crate::record::{What, now};
use crate::scene::{Place, Scene};

/// The node for the suite's own queries. It is never killed.
const ASKED: usize = 0;
/// The node that is killed.
const KILLED: usize = 2;

/// A cluster, a balancer that gives each connection to another node, and workers: one on each node, and some behind the
/// balancer, each of which uses several nodes at once.
struct Stage {
    scene: Scene,
    crew: Crew,
    load: Load,
    // dropped after the scene, whose database is on it
    balancer: Balancer,
    cluster: Galera,
}

impl Stage {
    /// With `behind`, the other nodes do not have the tables yet when the workers start.
    async fn set(ground: &Ground, nodes: usize, balanced: usize, behind: bool) -> Result<Stage> {
        if !galera::is_installed() {
            return Err(Skipped("galera-4, rsync or iproute2 is not installed".into()).into());
        }
        let cluster = block_in_place(|| Galera::start(nodes))?;
        let ports: Vec<u16> = cluster.nodes().iter().map(|node| node.port()).collect();
        let balancer = Balancer::start(ports.clone()).await?;
        let url = cluster.nodes()[ASKED].url();
        // what the suite asks must be answered with what all nodes know; workers have to see to that themselves
        run(&url, "SET GLOBAL wsrep_sync_wait = 7").await?;
        let mut scene = Scene::without_tables(ground.engine, Place::Shared(Some(url)), ground.order).await?;
        if behind {
            for port in &ports[1..] {
                // wait until this node has the database
                run(&with_port(scene.url(), *port), "SET SESSION wsrep_sync_wait = 7; SELECT 1").await?;
            }
            run(scene.url(), LARGE).await?;
        }
        scene.make_tables().await?;
        let mut crew = scene.crew();
        for port in ports.into_iter().chain(std::iter::repeat_n(balancer.port(), balanced)) {
            crew.hire(scene.worker().url(&with_port(scene.url(), port)))?;
        }
        crew.ready().await?;
        let load = scene.load(Some(&with_port(scene.url(), balancer.port())), &Mix::usual())?;
        Ok(Stage { scene, crew, load, balancer, cluster })
    }

    /// Ends the load and lets the checker decide.
    async fn judge(self) -> Result<(History, Vec<String>)> {
        let Stage { mut scene, crew, load, balancer: _balancer, cluster: _cluster } = self;
        let history = scene.judge(Some(load), crew).await?;
        let notes = std::mem::take(&mut scene.notes);
        drop(scene);
        Ok((history, notes))
    }
}

/// P1, P23: A node is killed and rejoins.
pub(super) async fn a_node_is_killed(ground: &Ground) -> Result<Vec<String>> {
    let mut stage = Stage::set(ground, 3, 1, false).await?;
    let mut down = Vec::new();
    for _ in 0..stage.scene.rounds(1, 20) {
        let pause = stage.scene.between(Duration::from_millis(1500), Duration::from_millis(3000));
        stage.crew.work(pause).await?;
        down.push(now());
        block_in_place(|| stage.cluster.kill(KILLED))?;
        stage.crew.work(Duration::from_secs(8)).await?;
        block_in_place(|| stage.cluster.rejoin(KILLED))?;
        stage.crew.work(Duration::from_secs(3)).await?;
    }
    let (history, mut notes) = stage.judge().await?;
    let gaps: Vec<String> = down.iter().map(|&down| format!("{:.1} s", longest_gap(&history, down))).collect();
    notes.push(format!("longest time without a start after the loss of a node: {}", gaps.join(", ")));
    Ok(notes)
}

/// A transaction that the other nodes take a while to apply.
const LARGE: &str = "CREATE TABLE foreign_many (id int PRIMARY KEY, n int); \
     INSERT INTO foreign_many SELECT seq, seq FROM seq_1_to_400000";

/// P1, P5: Large transactions on one node repeatedly put the other a second behind, also when the workers start.
pub(super) async fn nodes_lag(ground: &Ground) -> Result<Vec<String>> {
    let mut stage = Stage::set(ground, 2, 5, true).await?;
    let behind = with_port(stage.scene.url(), stage.cluster.nodes()[1].port());
    let transactions = stage.scene.rounds(6, 100);
    let foreign = tokio::spawn(large_transactions(stage.scene.url().to_owned(), behind, transactions));
    while !foreign.is_finished() {
        stage.crew.work(Duration::from_millis(100)).await?;
    }
    foreign.await.context("the foreign session")??;
    let (history, mut notes) = stage.judge().await?;
    let given_up = history.events.iter().filter(|event| event.what == What::LeaseLost).count();
    // on a machine that is busy with other things a worker may be late, and then has to be refused
    if let Some(tag) = refused_wrongly(&history).filter(|_| given_up == 0) {
        let story = Checker::new(&history).story(tag);
        bail!("an end was refused, although no worker was late: {notes:?}\n{story}");
    }
    notes.push(format!("{transactions} large transactions"));
    Ok(notes)
}

/// A job whose end was refused and which therefore ran again. A write is also refused if it is repeated because its
/// answer was lost, but then the job does not run again.
fn refused_wrongly(history: &History) -> Option<i64> {
    let again = |job: i64| {
        let attempts = history.tables.attempts.get(&job).into_iter().flatten();
        attempts.into_iter().any(|it| it.outcome == "released" || it.outcome == "lost")
    };
    let refused: HashSet<i64> = history
        .events
        .iter()
        .filter_map(|event| match event.what {
            What::Refused { job } if again(job) => Some(job),
            _ => None,
        })
        .collect();
    history.events.iter().find_map(|event| match event.what {
        What::Started { job, tag, .. } if refused.contains(&job) => Some(tag),
        _ => None,
    })
}

/// Waits after each transaction until every node has it: a node that is behind by a whole lease would be another fault.
async fn large_transactions(url: String, behind: String, count: u32) -> Result<()> {
    run(&url, "CREATE TABLE foreign_rows (id int PRIMARY KEY, n int)").await?;
    for _ in 0..count {
        run(&url, "REPLACE INTO foreign_rows SELECT seq, seq FROM seq_1_to_100000").await?;
        run(&behind, "SET SESSION wsrep_sync_wait = 7; SELECT COUNT(*) FROM foreign_rows").await?;
    }
    Ok(())
}

async fn run(url: &str, sql: &'static str) -> Result<()> {
    let mut connection = MySqlConnection::connect(url).await?;
    sqlx::raw_sql(sql).execute(&mut connection).await?;
    Ok(connection.close().await?)
}

/// The longest time without a start within 8 s after a moment, in seconds.
fn longest_gap(history: &History, after: i64) -> f64 {
    let until = after + 8_000_000;
    let starts = history.events.iter().filter(|event| matches!(event.what, What::Started { .. })).map(|event| event.at);
    let mut times: Vec<i64> = starts.filter(|at| (after..until).contains(at)).collect();
    times.insert(0, after);
    times.push(until);
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default() as f64 / 1e6
}
